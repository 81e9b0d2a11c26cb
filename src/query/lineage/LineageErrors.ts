/**
 * Errors for symbols that do not resolve to exactly one chain: 409 for an ambiguous symbol (§4.1, D21), and 422 for an
 * unknown CIK (D35).
 */
import { Array } from "effect"
import { AmbiguousTickerLineage, makeFieldError } from "../../contract/rules/ApiErrors.ts"
import type { LineageConflict, UnknownLineageCik } from "./LineageRules.ts"

interface AmbiguousSymbol {
  readonly query_ticker: string
  readonly conflict: LineageConflict
}

const maxListedCandidates = 100
/**
 * Maximum number of symbols in the same connected component to list for each requested symbol. If the request has only
 * one symbol, all of them are listed.
 */
const maxListedTickers = 100

/**
 * If several symbols were requested, the maximum number of entries that all lists of the same kind may have in total.
 */
const maxListedInTotal = 500

const formatDetails = ({ conflict, query_ticker }: AmbiguousSymbol, maxTickers: number) => {
  const { candidates, event_count, events, reasons, tickers } = conflict
  return {
    query_ticker,
    reason: reasons[0],
    reasons,
    tickers: tickers.slice(0, maxTickers),
    ticker_count: tickers.length,
    candidates: candidates.slice(0, maxListedCandidates),
    candidate_count: candidates.length,
    events,
    event_count,
  }
}

/**
 * Returns a function that truncates lists. Once `maxListedInTotal` entries have been listed, further lists are empty.
 */
const makeListLimit = () => {
  let remaining = maxListedInTotal
  return <A>(list: ReadonlyArray<A>): ReadonlyArray<A> => {
    const truncated = list.slice(0, remaining)
    remaining -= truncated.length
    return truncated
  }
}

/**
 * Returns the details of each ambiguous symbol for an error response: the symbols of its connected component, the
 * companies that it may mean (`candidates`), and the ticker changes that cause the ambiguity (`events`).
 *
 * If several requested symbols are in the same connected component, only the first of them lists the component's
 * symbols, candidates and events; the others refer to it in `same_history_as`. All lists of the same kind together have
 * at most `maxListedInTotal` entries.
 */
const formatSymbols = (symbols: Array.NonEmptyReadonlyArray<AmbiguousSymbol>) => {
  /** For each component, identified by its first symbol, the first requested symbol in it. */
  const firstSymbols = new Map<string | undefined, string>()
  const [limitTickers, limitCandidates, limitEvents] = [makeListLimit(), makeListLimit(), makeListLimit()]
  return Array.map(symbols, (symbol) => {
    const details = formatDetails(symbol, maxListedTickers)
    // `conflict.tickers` are the symbols of the component, in a fixed order. Components have no symbols in common, so
    // the first one identifies the component.
    const [component] = symbol.conflict.tickers
    const same_history_as = firstSymbols.get(component)
    if (same_history_as !== undefined) return { ...details, same_history_as, tickers: [], candidates: [], events: [] }
    firstSymbols.set(component, symbol.query_ticker)
    return {
      ...details,
      tickers: limitTickers(details.tickers),
      candidates: limitCandidates(details.candidates),
      events: limitEvents(details.events),
    }
  })
}

const maxNamedSymbols = 20

const formatSentence = ({ conflict: { reasons }, query_ticker }: AmbiguousSymbol) =>
  `The history of ${query_ticker} cannot be resolved to a single unambiguous chain: ${reasons.join(", ")}.`

/**
 * Creates the 409 error with the details of the first ambiguous symbol. If several symbols were requested, `symbols`
 * contains the details of every ambiguous symbol.
 */
export const makeAmbiguousLineageError = (symbols: Array.NonEmptyReadonlyArray<AmbiguousSymbol>, isList: boolean) => {
  const sentences = symbols.slice(0, maxNamedSymbols).map(formatSentence)
  const unnamed = symbols.length - sentences.length
  if (unnamed > 0) sentences.push(`${unnamed} more requested symbols are ambiguous; details.symbols lists them.`)
  const [first] = symbols
  const details = formatDetails(first, isList ? maxListedTickers : Number.POSITIVE_INFINITY)
  return new AmbiguousTickerLineage({
    error: {
      message: sentences.join(" "),
      details: { ...details, ...(isList ? { symbols: formatSymbols(symbols) } : {}) },
    },
  })
}

const maxNamedCandidates = 20

/**
 * Creates the 422 error for a CIK that belongs to none of the symbol's chains. The message lists the possible CIKs
 * (D35).
 */
export const makeUnknownCikError = (query_ticker: string, { candidates, cik }: UnknownLineageCik) => {
  const names = candidates.slice(0, maxNamedCandidates)
    .map(({ cik, company_name }) => company_name === null ? cik : `${cik} (${company_name})`).join(", ")
  const more = candidates.length > maxNamedCandidates ? ` and ${candidates.length - maxNamedCandidates} more` : ""
  const reason = candidates.length === 0
    ? `cannot be ${cik}: no recorded change of ${query_ticker} has a CIK; leave it out`
    : `must be a CIK in the history of ${query_ticker}: ${names}${more}; not ${cik}`
  return makeFieldError("cik", reason)
}
