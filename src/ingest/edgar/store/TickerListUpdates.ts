/** Downloads the SEC's ticker list, and finds the symbol changes on which the stored copies of a week or more agree. */
import { Effect, Result } from "effect"
import { DocumentRejected } from "../fetch/DocumentRejected.ts"
import { EdgarClient } from "../fetch/EdgarClient.ts"
import { tickerListUrl } from "../fetch/EdgarUrls.ts"
import * as State from "./IngestState.ts"
import { decodeTickerList, inferTickerChanges, isTickerListShrunk, type ListedTicker } from "../read/TickerList.ts"
import { makeFileSpellings } from "../../load/SymbolSpellings.ts"

/** Spells the symbols of a list as the tables do (D41). */
const spellList = Effect.fnUntraced(function* (rows: ReadonlyArray<ListedTicker>) {
  const { learn, spell } = yield* makeFileSpellings()
  yield* learn(rows.map(({ ticker }) => ticker))
  return rows.map((row): ListedTicker => ({ ...row, ticker: spell(row.ticker) }))
})

/** Decodes a stored copy. A copy was decoded before it was stored, so this only fails if the decoder has changed. */
const decodeCopy = Effect.fnUntraced(function* ({ day, entries }: State.StoredTickerListCopy) {
  const { rows } = yield* Effect.fromResult(decodeTickerList(entries, tickerListUrl))
  return { day, rows: yield* spellList(rows) }
})

/**
 * Downloads today's ticker list, and stores it as the copy of `day` if `shouldStore` is true. If the list is missing,
 * damaged or more than 1% shorter than the newest stored copy, returns that copy, its day, and a rejection that says
 * why. `unreadable` is the number of rows that were left out.
 */
export const downloadTickerList = Effect.fnUntraced(function* (day: string, shouldStore: boolean) {
  const { request } = yield* EdgarClient
  const copy = (yield* State.readTickerListCopies).at(-1)
  const previous = copy === undefined ? undefined : { copy, ...yield* decodeCopy(copy) }
  const validators = previous === undefined ? undefined : yield* State.readCacheValidators(tickerListUrl)
  const received = yield* Effect.result(request({ url: tickerListUrl, validators }))

  /** Returns the newest copy instead of the list; fails if there is none. */
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
  // Without a copy, the request had no validators, so the SEC does not send "unchanged". The text is empty then.
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

/** Infers symbol changes from the stored copies. Returns rows of `ticker_changes` for changes that the table lacks. */
export const findNewTickerChanges = Effect.gen(function* () {
  const copies = yield* Effect.forEach(yield* State.readTickerListCopies, decodeCopy)
  return yield* State.excludeStoredTickerChanges(inferTickerChanges(copies))
})
