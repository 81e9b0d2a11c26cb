/** Downloads the SEC's ticker list, and infers symbol changes from stored copies that span at least a week. */
import { Effect, Result } from "effect"
import { DocumentRejected } from "../fetch/DocumentRejected.ts"
import { EdgarClient } from "../fetch/EdgarClient.ts"
import { tickerListUrl } from "../fetch/EdgarUrls.ts"
import * as State from "./IngestState.ts"
import { decodeTickerList, inferTickerChanges, isTickerListShrunk, type ListedTicker } from "../read/TickerList.ts"
import { makeFileSpellings } from "../../load/SymbolSpellings.ts"

/** Converts the symbols of a list to the spelling used in the tables (D41). */
const spellList = Effect.fnUntraced(function* (rows: ReadonlyArray<ListedTicker>) {
  const { learn, spell } = yield* makeFileSpellings()
  yield* learn(rows.map(({ ticker }) => ticker))
  return rows.map((row): ListedTicker => ({ ...row, ticker: spell(row.ticker) }))
})

/**
 * Decodes a stored copy of the ticker list. Only decodable lists are stored, so this fails only if the decoder has
 * changed.
 */
const decodeCopy = Effect.fnUntraced(function* ({ day, entries }: State.StoredTickerListCopy) {
  const { rows } = yield* Effect.fromResult(decodeTickerList(entries, tickerListUrl))
  return { day, rows: yield* spellList(rows) }
})

/**
 * Downloads the current ticker list and, if `shouldStore` is true, stores it as the copy of `day`. Returns:
 *
 * - `list`: the rows of the list
 * - `day`: the day that the list is from
 * - `unreadable`: the number of rows that were omitted because they cannot be decoded
 * - `rejections`: empty, or the reason why `list` is the newest stored copy instead of the current list. The current
 *   list is not used if it is missing, damaged, or more than 1% shorter than that copy.
 *
 * Fails if the current list cannot be used and there is no copy, or if the SEC blocks requests.
 */
export const downloadTickerList = Effect.fnUntraced(function* (day: string, shouldStore: boolean) {
  const { request } = yield* EdgarClient
  const copy = (yield* State.readTickerListCopies).at(-1)
  const previous = copy === undefined ? undefined : { copy, ...yield* decodeCopy(copy) }
  const validators = previous === undefined ? undefined : yield* State.readCacheValidators(tickerListUrl)
  const received = yield* Effect.result(request({ url: tickerListUrl, validators }))

  /** Returns the newest stored copy in place of the list. Fails if there is none. */
  const usePrevious = Effect.fnUntraced(function* (rejection: DocumentRejected) {
    if (previous === undefined) return yield* rejection
    return { list: previous.rows, day: previous.day, rejections: [rejection], unreadable: 0 }
  })
  if (Result.isFailure(received)) {
    const error = received.failure
    if (previous === undefined || error._tag === "EdgarBlocked" || error._tag === "SqlError") return yield* error
    return yield* usePrevious(new DocumentRejected({ url: tickerListUrl, reason: error.reason }))
  }
  const response = received.success
  if (response._tag === "Missing") {
    return yield* usePrevious(new DocumentRejected({ url: tickerListUrl, reason: "is not there" }))
  }
  if (response._tag === "Unchanged" && previous !== undefined) {
    if (shouldStore) yield* State.saveTickerListCopy({ day, entries: previous.copy.entries }, previous.rows.length)
    return { list: previous.rows, day, rejections: [], unreadable: 0 }
  }
  // Without a stored copy, the request has no validators, so the response cannot be `Unchanged`. The empty text is only
  // a fallback.
  const text = response._tag === "Found" ? response.text : ""
  const list = decodeTickerList(text, tickerListUrl)
  if (Result.isFailure(list)) return yield* usePrevious(list.failure)
  const { rows, unreadable } = list.success
  if (previous !== undefined && isTickerListShrunk(previous.rows, rows)) {
    const reason = `has ${rows.length} rows after ${previous.rows.length}, so it is incomplete`
    return yield* usePrevious(new DocumentRejected({ url: tickerListUrl, reason }))
  }
  if (shouldStore) {
    yield* State.saveTickerListCopy({ day, entries: text }, rows.length)
    if (response._tag === "Found") yield* State.saveCacheValidators(tickerListUrl, response.validators)
  }
  return { list: yield* spellList(rows), day, rejections: [], unreadable }
})

/**
 * Infers changes of symbols from the stored copies of the ticker list. Returns them as rows of `ticker_changes`,
 * without those that are already in that table.
 */
export const findNewTickerChanges = Effect.gen(function* () {
  const copies = yield* Effect.forEach(yield* State.readTickerListCopies, decodeCopy)
  return yield* State.excludeStoredTickerChanges(inferTickerChanges(copies))
})
