/** Reads the SEC's current ticker list, and finds the symbol changes on which the copies of at least a week agree. */
import { Effect, Result } from "effect"
import { DocumentRejected } from "../fetch/DocumentRejected.ts"
import { EdgarClient } from "../fetch/EdgarClient.ts"
import { tickerListUrl } from "../fetch/EdgarUrls.ts"
import * as State from "./IngestState.ts"
import { decodeTickerList, inferTickerChanges, isTickerListShrunk, type ListedTicker } from "../read/TickerList.ts"
import { makeFileSpellings } from "../../load/SymbolSpellings.ts"

/** Spells the symbols of a list like the tables (D41). */
const spellList = Effect.fnUntraced(function* (rows: ReadonlyArray<ListedTicker>) {
  const { learn, spell } = yield* makeFileSpellings()
  yield* learn(rows.map(({ ticker }) => ticker))
  return rows.map((row): ListedTicker => ({ ...row, ticker: spell(row.ticker) }))
})

/** Decodes a stored copy. It is valid, because it was decoded before it was stored. */
const decodeCopy = Effect.fnUntraced(function* ({ day, entries }: State.StoredTickerListCopy) {
  const { rows } = yield* Effect.fromResult(decodeTickerList(entries, tickerListUrl))
  return { day, rows: yield* spellList(rows) }
})

/**
 * Downloads the ticker list. If it is missing, damaged or more than 1% shorter than the newest stored copy, that copy
 * is used, and the rejection says why. If `shouldStore` is true, today's list is stored as a copy. `day` is that of the
 * list.
 */
export const downloadTickerList = Effect.fnUntraced(function* (day: string, shouldStore: boolean) {
  const { request } = yield* EdgarClient
  const copy = (yield* State.readTickerListCopies).at(-1)
  const previous = copy === undefined ? undefined : { copy, ...yield* decodeCopy(copy) }
  const validators = previous === undefined ? undefined : yield* State.readCacheValidators(tickerListUrl)
  const received = yield* Effect.result(request({ url: tickerListUrl, validators }))

  const usePrevious = Effect.fnUntraced(function* (rejection: DocumentRejected) {
    if (previous === undefined) return yield* rejection
    return { list: previous.rows, day: previous.day, rejections: [rejection], unreadable: 0 }
  })
  if (Result.isFailure(received)) {
    const error = received.failure
    if (previous === undefined || error._tag === "EdgarBlocked" || error._tag === "SqlError") return yield* error
    return yield* usePrevious(new DocumentRejected({ url: tickerListUrl, reason: error.reason }))
  }
  const answer = received.success
  if (answer._tag === "Missing") {
    return yield* usePrevious(new DocumentRejected({ url: tickerListUrl, reason: "is not there" }))
  }
  if (answer._tag === "Unchanged" && previous !== undefined) {
    if (shouldStore) yield* State.saveTickerListCopy({ day, entries: previous.copy.entries }, previous.rows.length)
    return { list: previous.rows, day, rejections: [], unreadable: 0 }
  }
  const text = answer._tag === "Found" ? answer.text : ""
  const list = decodeTickerList(text, tickerListUrl)
  if (Result.isFailure(list)) return yield* usePrevious(list.failure)
  const { rows, unreadable } = list.success
  if (previous !== undefined && isTickerListShrunk(previous.rows, rows)) {
    const reason = `has ${rows.length} rows after ${previous.rows.length}, so it is incomplete`
    return yield* usePrevious(new DocumentRejected({ url: tickerListUrl, reason }))
  }
  if (shouldStore) {
    yield* State.saveTickerListCopy({ day, entries: text }, rows.length)
    if (answer._tag === "Found") yield* State.saveCacheValidators(tickerListUrl, answer.validators)
  }
  return { list: yield* spellList(rows), day, rejections: [], unreadable }
})

/** Returns rows of `ticker_changes` for the suggested changes that the table does not contain yet. */
export const findNewTickerChanges = Effect.gen(function* () {
  const copies = yield* Effect.forEach(yield* State.readTickerListCopies, decodeCopy)
  return yield* State.excludeStoredTickerChanges(inferTickerChanges(copies))
})
