/**
 * The parameters `follow_lineage` and `cik` (D35), which every list with a `ticker` parameter has, and the rules for
 * combining them.
 */
import { Predicate, Schema } from "effect"
import type { DecodedQuery } from "./FilterDeclarations.ts"
import { CikListParameter, splitTickerListEntry, toSymbolKey } from "./Tickers.ts"

/** The parameters `follow_lineage` and `cik`, to be included in a query schema. */
export const LineageParameters = {
  follow_lineage: Schema.optionalKey(
    Schema.Boolean.annotate({
      description:
        "`true`: the rows of the company under each of its symbols, while the company used that symbol. Rows " +
        "get the field `lineage_ticker`, and the header `X-Lineage` states the symbols.",
      filter: { operator: "statement" },
    }),
  ),
  cik: Schema.optionalKey(CikListParameter),
}

/**
 * The decoded parameters `ticker`, `follow_lineage` and `cik`, which together determine the companies whose rows are
 * returned under all of their symbols.
 */
export interface LineageQuery {
  readonly ticker?: string | ReadonlyArray<string>
  readonly follow_lineage?: boolean
  readonly cik?: string | ReadonlyArray<string>
}

/** Returns the entries of a decoded list parameter as strings, or an empty array for a parameter that is not a list. */
const toEntries = (value: unknown) => Array.isArray(value) ? value.map(String) : []

/**
 * Checks that the entries of the parameter `cik` match those of `ticker`. Returns the reason why the first invalid
 * entry is rejected, or an empty array if all are valid. `ciks` is either a single CIK for the only entry of `ticker`,
 * or entries such as `META:0001326801`. Each of these selects the company for one symbol, which must be in `ticker`
 * without a CIK of its own (`META`, not `META:…`).
 */
const checkCiks = (tickers: ReadonlyArray<string>, ciks: ReadonlyArray<string>): ReadonlyArray<string> => {
  const [first = "", ...others] = ciks
  const isSingleCik = others.length === 0 && !first.includes(":") && tickers.length === 1
  if (isSingleCik) return tickers[0]?.includes(":") === true ? ["cannot be combined with a CIK in ticker"] : []
  // The keys of `ticker` entries with a CIK contain the colon, so no entry of `cik` matches them.
  const tickerKeys = new Set(tickers.map(toSymbolKey))
  const cikKeys = ciks.map((entry) => toSymbolKey(splitTickerListEntry(entry).ticker))
  const reasons = ciks.map((entry, index) => {
    const { cik, ticker } = splitTickerListEntry(entry)
    if (cik === undefined) return `must name its symbol, like META:${entry}, unless ticker is one symbol`
    if (!tickerKeys.has(toSymbolKey(ticker))) return `names ${ticker}, which ticker does not list without a CIK`
    return cikKeys.indexOf(toSymbolKey(ticker)) < index ? `names ${ticker} twice` : undefined
  })
  return reasons.filter(Predicate.isNotUndefined).slice(0, 1)
}

/**
 * Checks that `cik` is only sent with `follow_lineage=true`, that `follow_lineage=true` is only sent with `ticker`, and
 * that the CIKs match the symbols.
 */
export const checkLineageParameters = ({ cik, follow_lineage, ticker }: DecodedQuery) => {
  const tickers = toEntries(ticker)
  if (follow_lineage === true) {
    return [
      ...(ticker === undefined ? [{ path: ["follow_lineage"], issue: "needs ticker" }] : []),
      ...(cik === undefined ? [] : checkCiks(tickers, toEntries(cik)).map((issue) => ({ path: ["cik"], issue }))),
    ]
  }
  const entry = tickers.find((entry) => entry.includes(":"))
  return [
    ...(cik === undefined ? [] : [{ path: ["cik"], issue: "needs follow_lineage=true" }]),
    ...(entry === undefined ? [] : [{ path: ["ticker"], issue: `with a CIK (${entry}) needs follow_lineage=true` }]),
  ]
}

/**
 * Returns the requested symbols, each with the CIK of the company that the request selects for it, if any. The CIK is
 * part of the entry in `ticker` (`META:0001326801`), or is sent in `cik`.
 */
export const getSymbolsWithSelectedCiks = ({ cik = [], ticker = [] }: LineageQuery) => {
  const [cikEntries, tickerEntries] = [[cik].flat(), [ticker].flat()]
  const ciksBySymbol = new Map(cikEntries.map((entry) => {
    const { cik, ticker } = splitTickerListEntry(entry)
    // An entry without a colon is a CIK alone, which belongs to the only requested symbol.
    return cik === undefined
      ? [toSymbolKey(tickerEntries[0] ?? ""), entry] as const
      : [toSymbolKey(ticker), cik] as const
  }))
  return tickerEntries.map((entry) => {
    const { cik = ciksBySymbol.get(toSymbolKey(entry)), ticker } = splitTickerListEntry(entry)
    return { ticker, cik }
  })
}
