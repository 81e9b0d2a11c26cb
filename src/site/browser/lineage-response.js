/**
 * Reads a `/v1/ticker-changes` response (a chain or a refusal), and explains it in words (§2.2, D21: ticker
 * changes). Pure.
 */
import { getListAt, getNumberAt, getTextAt, getTextsAt, getValueAt } from "./json-values.js"

/**
 * A change of symbol.
 * @typedef {object} Change
 * @property {string} from
 * @property {string} to
 * @property {string} date `YYYY-MM-DD`
 * @property {string | undefined} cik
 * @property {string | undefined} company
 * @property {ReadonlyArray<string>} reasons the reasons for a refusal that involve this change; empty in a chain
 */

/**
 * The unambiguous chain of one issuer in an ambiguous history.
 * @typedef {object} Candidate
 * @property {string} cik
 * @property {string | undefined} company
 * @property {ReadonlyArray<Change>} changes
 */

/**
 * @typedef {object} Lineage
 * @property {"chain" | "unchanged" | "refusal"} kind
 * @property {string} ticker as requested
 * @property {string | undefined} current
 * @property {ReadonlyArray<Change>} changes ordered by date
 * @property {number} count of all changes, including those omitted from a long refusal
 * @property {ReadonlyArray<string>} reasons
 * @property {ReadonlyArray<Candidate>} candidates
 * @property {number} candidateCount of all candidates, including those omitted from a long refusal
 */

/** Whether the text is a date, `YYYY-MM-DD`. @param {string} text */
export const isIsoDate = (text) => /^\d{4}-\d{2}-\d{2}$/.test(text) && Number.isFinite(Date.parse(text))

/**
 * @param {unknown} event
 * @returns {ReadonlyArray<Change>}
 */
const parseChange = (event) => {
  const [from, to, date] = [
    getTextAt(event, "old_ticker"),
    getTextAt(event, "new_ticker"),
    getTextAt(event, "effective_date"),
  ]
  if (from === undefined || to === undefined || date === undefined || !isIsoDate(date)) return []
  return [{
    from,
    to,
    date,
    cik: getTextAt(event, "cik"),
    company: getTextAt(event, "company_name"),
    reasons: getTextsAt(event, "reasons"),
  }]
}

/** @param {ReadonlyArray<unknown>} events */
const parseChanges = (events) =>
  events.flatMap(parseChange).toSorted((left, right) => left.date < right.date ? -1 : Number(left.date > right.date))

/**
 * @param {unknown} details
 * @param {string} ticker
 * @returns {Lineage}
 */
const parseRefusal = (details, ticker) => {
  const candidates = getListAt(details, "candidates").map((candidate) => {
    const [cik, company] = [getTextAt(candidate, "cik") ?? "", getTextAt(candidate, "company_name")]
    const changes = parseChanges(getListAt(candidate, "history")).map((change) => ({ ...change, cik, company }))
    return { cik, company, changes }
  })
  const events = parseChanges(getListAt(details, "events"))
  // A refusal without events shows the changes of its candidates instead.
  const changes = events.length > 0 ? events : candidates.flatMap((candidate) => candidate.changes)
  return {
    kind: "refusal",
    ticker,
    current: undefined,
    changes,
    count: getNumberAt(details, "event_count") ?? changes.length,
    reasons: getTextsAt(details, "reasons"),
    candidates,
    candidateCount: getNumberAt(details, "candidate_count") ?? candidates.length,
  }
}

/**
 * Parses the body of a 200 or 409 response. Undefined for any other body.
 * @param {unknown} body
 * @returns {Lineage | undefined}
 */
export const parseLineage = (body) => {
  const details = getValueAt(body, "error", "details")
  const refusedTicker = getTextAt(details, "query_ticker")
  if (refusedTicker !== undefined && getTextAt(body, "error", "code") === "ambiguous_ticker_lineage") {
    return parseRefusal(details, refusedTicker)
  }
  const result = getValueAt(body, "results", 0)
  const ticker = getTextAt(result, "query_ticker")
  if (ticker === undefined || !Array.isArray(getValueAt(result, "history"))) return undefined
  const changes = parseChanges(getListAt(result, "history"))
  return {
    kind: changes.length === 0 ? "unchanged" : "chain",
    ticker,
    current: getTextAt(result, "current_ticker"),
    changes,
    count: changes.length,
    reasons: [],
    candidates: [],
    candidateCount: 0,
  }
}

/**
 * Formats an issuer as its name and CIK, or the one of them that is known.
 * @param {{ readonly cik: string | undefined, readonly company: string | undefined }} issuer
 */
export const formatIssuer = ({ cik, company }) =>
  cik === undefined ? company : company === undefined ? `CIK ${cik}` : `${company} (CIK ${cik})`

/** @param {ReadonlyArray<string>} items */
const formatList = (items) => {
  const shown = items.slice(0, 6)
  return shown.join(", ") + (items.length > shown.length ? ` and ${items.length - shown.length} more` : "")
}

/**
 * Explains one reason for a refusal in a sentence.
 * @param {Lineage} lineage
 * @param {string} reason
 */
export const explainRefusalReason = ({ changes, count }, reason) => {
  const involved = changes.filter(({ reasons }) => reasons.includes(reason))
  /** @param {(change: Change) => string | undefined} describe */
  const examples = (describe) => {
    const items = [...new Set(involved.flatMap((change) => describe(change) ?? []))]
    return items.length === 0 ? "" : `: ${formatList(items)}`
  }
  switch (reason) {
    case "multiple_cik_lineages":
      return `The changes belong to more than one issuer${examples(formatIssuer)}.`
    case "same_date_events":
      return `Two or more changes have the same date${examples(({ date }) => date)}.`
    case "competing_destinations":
      return `A symbol was replaced more than once${examples(({ from }) => from)}.`
    case "broken_chain":
      return `A change does not start with the symbol that the previous change ended with${
        examples(({ date, from, to }) => `${from} to ${to} on ${date}`)
      }.`
    case "max_hops_exceeded":
      return `There are ${count} changes; a chain has at most twelve.`
    default:
      return `${reason}.`
  }
}

/** Short forms of the reasons, for a single change. */
const reasonLabels = new Map([
  ["multiple_cik_lineages", "several issuers"],
  ["same_date_events", "same date as another change"],
  ["competing_destinations", "symbol replaced more than once"],
  ["broken_chain", "does not continue the previous change"],
  ["max_hops_exceeded", "beyond the twelfth change"],
])

/** Returns the short form of a reason. @param {string} reason */
export const getReasonLabel = (reason) => reasonLabels.get(reason) ?? reason

/**
 * Describes the lineage in one or two sentences.
 * @param {Lineage} lineage
 */
export const summarizeLineage = ({ changes, count, current, kind, ticker }) => {
  if (kind === "unchanged") {
    return `There are no recorded changes for ${ticker}. This does not mean that ${ticker} is or was listed.`
  }
  if (kind === "refusal") return `The history of ${ticker} is ambiguous, so the service does not return a chain.`
  const first = changes[0]?.from ?? ticker
  const changeCount = count === 1 ? "one change" : `${count} changes`
  if (first === current) return `${first} is ${first} again after ${changeCount}.`
  return `${first} became ${current ?? "another symbol"} in ${changeCount}.`
}
