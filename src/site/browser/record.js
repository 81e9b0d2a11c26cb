/** §2.2, D21: an answer of `/v1/ticker-changes`, a chain or a refusal, as what can be drawn and told. Pure. */
import { at, listAt, numberAt, textAt, textsAt } from "./json.js"

/**
 * A change of symbol.
 * @typedef {object} Change
 * @property {string} from
 * @property {string} to
 * @property {string} date `YYYY-MM-DD`
 * @property {string | undefined} cik
 * @property {string | undefined} company
 * @property {ReadonlyArray<string>} reasons those that it is a part of; none in a chain
 */

/**
 * A chain that stands alone among those of a refusal.
 * @typedef {object} Candidate
 * @property {string} cik
 * @property {string | undefined} company
 * @property {string} current
 * @property {ReadonlyArray<Change>} changes
 */

/**
 * @typedef {object} Answer
 * @property {"chain" | "unchanged" | "refusal"} kind
 * @property {string} ticker as it was asked for
 * @property {string | undefined} current
 * @property {ReadonlyArray<Change>} changes by date
 * @property {number} count of all changes, which may be more than are told
 * @property {ReadonlyArray<string>} reasons
 * @property {ReadonlyArray<Candidate>} candidates
 */

/** @param {unknown} value */
const isDate = (value) =>
  typeof value === "string" && /^\d{4}-\d{2}-\d{2}$/.test(value) && Number.isFinite(Date.parse(value))

/**
 * @param {unknown} event
 * @returns {ReadonlyArray<Change>}
 */
const change = (event) => {
  const [from, to, date] = [textAt(event, "old_ticker"), textAt(event, "new_ticker"), textAt(event, "effective_date")]
  if (from === undefined || to === undefined || date === undefined || !isDate(date)) return []
  return [{
    from,
    to,
    date,
    cik: textAt(event, "cik"),
    company: textAt(event, "company_name"),
    reasons: textsAt(event, "reasons"),
  }]
}

/** @param {ReadonlyArray<unknown>} events */
const changesOf = (events) =>
  events.flatMap(change).toSorted((left, right) => left.date < right.date ? -1 : Number(left.date > right.date))

/**
 * @param {unknown} details
 * @param {string} ticker
 * @returns {Answer}
 */
const refusal = (details, ticker) => {
  const candidates = listAt(details, "candidates").map((candidate) => {
    const [cik, company] = [textAt(candidate, "cik") ?? "", textAt(candidate, "company_name")]
    const changes = changesOf(listAt(candidate, "history")).map((one) => ({ ...one, cik, company }))
    return { cik, company, current: textAt(candidate, "current_ticker") ?? "", changes }
  })
  const told = changesOf(listAt(details, "events"))
  // Without them, what is known of the chains is drawn.
  const changes = told.length > 0 ? told : candidates.flatMap((one) => one.changes)
  return {
    kind: "refusal",
    ticker,
    current: undefined,
    changes,
    count: numberAt(details, "event_count") ?? changes.length,
    reasons: textsAt(details, "reasons"),
    candidates,
  }
}

/**
 * The body of a 200 or of a 409; undefined where it is neither.
 * @param {unknown} body
 * @returns {Answer | undefined}
 */
export const read = (body) => {
  const details = at(body, "error", "details")
  const refused = textAt(details, "query_ticker")
  if (refused !== undefined && textAt(body, "error", "code") === "ambiguous_ticker_lineage") {
    return refusal(details, refused)
  }
  const result = at(body, "results", 0)
  const ticker = textAt(result, "query_ticker")
  if (ticker === undefined || !Array.isArray(at(result, "history"))) return undefined
  const changes = changesOf(listAt(result, "history"))
  return {
    kind: changes.length === 0 ? "unchanged" : "chain",
    ticker,
    current: textAt(result, "current_ticker"),
    changes,
    count: changes.length,
    reasons: [],
    candidates: [],
  }
}

/** @param {ReadonlyArray<string>} items */
const enumerated = (items) => {
  const shown = items.slice(0, 6)
  return shown.join(", ") + (items.length > shown.length ? ` and ${items.length - shown.length} more` : "")
}

/** @param {{ readonly cik: string | undefined, readonly company: string | undefined }} issuer */
export const issuerOf = ({ cik, company }) =>
  cik === undefined ? company : company === undefined ? `CIK ${cik}` : `${company} (CIK ${cik})`

/**
 * Why the record is refused, a sentence for a reason.
 * @param {Answer} answer
 * @param {string} reason
 */
export const explain = ({ changes, count }, reason) => {
  const part = changes.filter(({ reasons }) => reasons.includes(reason))
  /** @param {(one: Change) => string | undefined} what */
  const told = (what) => enumerated([...new Set(part.flatMap((one) => what(one) ?? []))])
  const known = part.length > 0
  switch (reason) {
    case "multiple_cik_lineages":
      return `The changes belong to more than one issuer${known ? `: ${told(issuerOf)}` : ""}.`
    case "same_date_events":
      return `Two changes or more have the same date${known ? `: ${told(({ date }) => date)}` : ""}.`
    case "competing_destinations":
      return `A symbol was given up more than once${known ? `: ${told(({ from }) => from)}` : ""}.`
    case "broken_chain":
      return `The changes do not connect: by date, one begins with another symbol than the one before ended with${
        known ? ` (${told(({ date, from, to }) => `${from} to ${to} on ${date}`)})` : ""
      }.`
    case "max_hops_exceeded":
      return `There are ${count} changes; more than twelve are taken for bad data.`
    default:
      return `${reason}.`
  }
}

/** What a reason is called beside a change. */
const marks = new Map([
  ["multiple_cik_lineages", "several issuers"],
  ["same_date_events", "same date as another"],
  ["competing_destinations", "symbol given up more than once"],
  ["broken_chain", "does not follow the one before"],
  ["max_hops_exceeded", "beyond the twelfth"],
])

/** @param {string} reason */
export const markOf = (reason) => marks.get(reason) ?? reason

/**
 * What the answer says, in a sentence.
 * @param {Answer} answer
 */
export const summary = ({ changes, count, current, kind, ticker }) => {
  if (kind === "unchanged") {
    return `No change of ${ticker} is on record. That says nothing of whether ${ticker} is listed, or ever was.`
  }
  if (kind === "refusal") return `The history of ${ticker} is not one unambiguous chain, so none is given.`
  const first = changes[0]?.from ?? ticker
  const changed = count === 1 ? "one change" : `${count} changes`
  if (first === current) return `${first} is ${first} again, after ${changed}.`
  return `${first} became ${current ?? "another symbol"} in ${changed}.`
}
