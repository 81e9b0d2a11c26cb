/** The company whose documents are ingested, as the SEC's ticker list and its submissions name it. */
export interface Issuer {
  /** Ten digits, zero-padded. */
  readonly cik: string
  /** The primary symbol: the first in the SEC's list. It is usually, but not always, that of the common stock. */
  readonly ticker: string
  /** All symbols of the CIK, in the SEC's order: preferred shares, units and warrants have symbols too. */
  readonly tickers: ReadonlyArray<string>
  readonly name: string
  /** As the SEC writes it, such as `Nasdaq`, `NYSE` or `OTC`. */
  readonly exchange: string | null
}
