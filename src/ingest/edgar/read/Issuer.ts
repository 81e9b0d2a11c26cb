import { toSymbolKey } from "../../../contract/rules/Tickers.ts"

/** A company whose documents are ingested, as described by the SEC's ticker list or its submissions file. */
export interface Issuer {
  /** The company's number at the SEC (CIK): ten digits, zero-padded. */
  readonly cik: string
  /** The current symbol of the primary security, which is usually the common stock (`PrimarySymbols.ts`). */
  readonly ticker: string
  /**
   * All current symbols of the company, in the order of the SEC's ticker list, including symbols of preferred shares,
   * units, and warrants.
   */
  readonly tickers: ReadonlyArray<string>
  /**
   * Whether the SEC's newest list gives `ticker` to another company. Until several lists confirm this, the company
   * keeps the symbol, but its current rows are not written, because those under the symbol may be the other company's.
   */
  readonly isListedForOther?: boolean
  readonly name: string
  /** The exchange name that the SEC uses, such as `Nasdaq`, `NYSE`, or `OTC`. */
  readonly exchange: string | null
  /**
   * The symbols of the primary security, oldest first. Each is valid from the day `from` through the day before `until`
   * (`YYYY-MM-DD`). Absent if `ticker` is the only known symbol of the security.
   */
  readonly periods?: ReadonlyArray<{ readonly ticker: string; readonly from?: string; readonly until?: string }>
}

/** Returns the symbol that the issuer's primary security had on a day (`YYYY-MM-DD`; D38). */
export const getTickerOn = ({ periods = [], ticker }: Issuer, day: string) =>
  periods.find(({ from, until }) => (from === undefined || from <= day) && (until === undefined || day < until))
    ?.ticker ?? ticker

/**
 * Returns the company's symbol that a cover page states, or undefined if it is none of `tickers`. Some companies omit
 * the separator (`BFA` for `BF-A`). Such a symbol is accepted if it can be only one of the company's.
 * `find_stated_symbol` does the same in SQL.
 */
export const findOwnSymbol = (tickers: ReadonlyArray<string>, stated: string) => {
  const exact = tickers.find((ticker) => toSymbolKey(ticker) === toSymbolKey(stated))
  const [similar, ...others] = tickers.filter((ticker) => toSymbolKey(ticker).replaceAll("-", "") === stated)
  return exact ?? (others.length === 0 ? similar : undefined)
}

/**
 * Returns whether the symbols of a company show that several classes of its common shares are listed: two of them
 * differ only by a letter, as `BF-A` and `BF-B` or `LEN` and `LEN-B` do. The letters P, R, U and W do not count,
 * because they stand for preferred shares, rights, units and warrants. `has_class_symbols` does the same in SQL.
 */
export const hasClassSymbols = (tickers: ReadonlyArray<string>) => {
  const symbols = new Set(tickers.map(toSymbolKey))
  return new Set(Array.from(symbols, (symbol) => symbol.replace(/-[^PRUW]$/, ""))).size < symbols.size
}
