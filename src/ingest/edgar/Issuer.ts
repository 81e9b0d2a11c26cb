/** A company whose documents are ingested, as described by the SEC's ticker list or by its submissions. */
export interface Issuer {
  /** Ten digits, zero-padded. */
  readonly cik: string
  /** The primary symbol: the first in the SEC's list. It is usually, but not always, that of the common stock. */
  readonly ticker: string
  /** All symbols of the CIK, in the SEC's order, including those of preferred shares, units and warrants. */
  readonly tickers: ReadonlyArray<string>
  readonly name: string
  /** The SEC's name of the exchange, such as `Nasdaq`, `NYSE` or `OTC`. */
  readonly exchange: string | null
}
