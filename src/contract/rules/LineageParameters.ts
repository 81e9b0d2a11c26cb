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

/** The decoded parameters that determine whose symbol changes a request follows. */
export interface LineageQuery {
  readonly ticker?: string | ReadonlyArray<string>
  readonly follow_lineage?: boolean
  readonly cik?: string | ReadonlyArray<string>
}

const toEntries = (value: unknown) => Array.isArray(value) ? value.map(String) : []

/** Checks that the CIKs match the symbols. Returns the first problem found, or an empty array if there is none. */
const checkCiks = (tickers: ReadonlyArray<string>, ciks: ReadonlyArray<string>): ReadonlyArray<string> => {
  const [first = "", ...others] = ciks
  // A single CIK without a symbol applies to the only requested symbol.
  if (others.length === 0 && !first.includes(":") && tickers.length === 1) {
    return tickers[0]?.includes(":") === true ? ["cannot be combined with a CIK in ticker"] : []
  }
  // Otherwise, each entry must include a symbol from `ticker`, and no symbol may occur twice.
  const keys = new Set(tickers.map(toSymbolKey))
  const named = ciks.map((entry) => toSymbolKey(splitTickerListEntry(entry).ticker))
  const reasons = ciks.map((entry, index) => {
    const { cik, ticker } = splitTickerListEntry(entry)
    if (cik === undefined) return `must name its symbol, like META:${entry}, unless ticker is one symbol`
    if (!keys.has(toSymbolKey(ticker))) return `names ${ticker}, which ticker does not list without a CIK`
    return named.indexOf(toSymbolKey(ticker)) < index ? `names ${ticker} twice` : undefined
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

/** Returns the requested symbols, each with the CIK that the request specifies for it, if any. */
export const getSymbolsWithSelectedCiks = ({ cik = [], ticker = [] }: LineageQuery) => {
  const [ciks, tickers] = [[cik].flat(), [ticker].flat()]
  const selected = new Map(ciks.map((entry) => {
    const { cik, ticker } = splitTickerListEntry(entry)
    return cik === undefined ? [toSymbolKey(tickers[0] ?? ""), entry] as const : [toSymbolKey(ticker), cik] as const
  }))
  return tickers.map((entry) => {
    const { cik = selected.get(toSymbolKey(entry)), ticker } = splitTickerListEntry(entry)
    return { ticker, cik }
  })
}
