/** Keeps the newest changes in the feed as server-sent events in memory, shared by all streams of this process. */
import { Struct } from "effect"
import { toSymbolKey } from "../../contract/rules/Tickers.ts"
import type { ChangeFeedEntry, ChangeFeedFilter, ChangeFeedPage, ChangeFeedPosition } from "./ChangeFeed.ts"

const textEncoder = new TextEncoder()

/** Approximate memory that a change uses in addition to its text, in bytes. */
const changeOverhead = 512

/**
 * Maximum number of cached selections from the newest batch. A selection is the text of the events that match one
 * filter.
 */
const maxSelections = 16

/** Returns whether `left` is later in the feed than `right`. */
export const isLaterFeedPosition = (left: ChangeFeedPosition, right: ChangeFeedPosition) =>
  left.recordedAt > right.recordedAt || (left.recordedAt === right.recordedAt && left.position > right.position)

/**
 * Encodes changes as server-sent events. Returns the events as one text in UTF-8 (`text`), and the offset in it at
 * which each event ends (`ends`).
 */
export const encodeChangeEvents = (changes: ReadonlyArray<ChangeFeedEntry>): Pick<Batch, "text" | "ends"> => {
  const newline = textEncoder.encode("\n\n")
  const ends: Array<number> = []
  let length = 0
  const parts = changes.flatMap(({ cursor, json }) => {
    const head = textEncoder.encode(`id: ${cursor}\nevent: change\ndata: `)
    length += head.length + json.length + newline.length
    ends.push(length)
    return [head, json, newline]
  })
  return { text: Buffer.concat(parts, length), ends }
}

/** A change without its JSON. The JSON is part of the batch's text. */
type ChangeWithoutJson = Omit<ChangeFeedEntry, "json">

/** A filter for changes in memory, which needs no database query. */
export interface ChangeMatcher {
  /** Equal filters have the same key. */
  readonly key: string
  readonly matches: (change: ChangeWithoutJson) => boolean
}

/** Creates the matcher for a filter. */
export const makeChangeMatcher = ({ datasets, kinds, tickers }: ChangeFeedFilter): ChangeMatcher => {
  const wantedDatasets = new Set(datasets)
  const wantedKinds = kinds === undefined ? undefined : new Set(kinds)
  const wantedTickers = tickers === undefined ? undefined : new Set(tickers.map(toSymbolKey))
  return {
    key: JSON.stringify([datasets, kinds, tickers]),
    matches: ({ dataset, kind, tickers: symbols }) =>
      wantedDatasets.has(dataset) && wantedKinds?.has(kind) !== false &&
      (wantedTickers === undefined || symbols.some((symbol) => wantedTickers.has(toSymbolKey(symbol)))),
  }
}

/** Those events of a batch that match a stream's filter, encoded as server-sent events. */
export interface EncodedChangeEvents {
  readonly text: Uint8Array
  readonly count: number
  /** The cursor of the last event, or undefined if there are no events. */
  readonly cursor: string | undefined
}

const noEvents: EncodedChangeEvents = { text: new Uint8Array(), count: 0, cursor: undefined }

/** A page of the feed, encoded as server-sent events. */
interface Batch {
  readonly changes: ReadonlyArray<ChangeWithoutJson>
  readonly text: Uint8Array
  /** The offset of the end of each event in `text`. */
  readonly ends: ReadonlyArray<number>
  readonly cursor: string
  readonly end: ChangeFeedPosition
  /**
   * The cached selections by `ChangeMatcher.key`. Only the newest batch has them, because most streams send that batch
   * at about the same time.
   */
  readonly selections: Map<string, EncodedChangeEvents>
}

/**
 * Returns the selected events of a batch: the text of each event, which is between the end of the previous event and
 * its own end.
 */
const select = (
  { changes, ends, text }: Batch,
  isSelected: (change: ChangeWithoutJson) => boolean,
): EncodedChangeEvents => {
  const parts: Array<Uint8Array> = []
  let cursor: string | undefined
  for (const [index, change] of changes.entries()) {
    if (!isSelected(change)) continue
    parts.push(text.subarray(ends[index - 1] ?? 0, ends[index]))
    cursor = change.cursor
  }
  if (parts.length === 0) return noEvents
  return { text: parts.length === changes.length ? text : Buffer.concat(parts), count: parts.length, cursor }
}

/** A stream's position in the recent changes. */
export interface RecentChangesPosition {
  /** The number of the next batch to send. */
  next: number
  /** The cursor for continuing the stream after the changes taken so far. */
  cursor: string
  /** The position in the feed after the changes taken so far. */
  end: ChangeFeedPosition
}

const sizeOf = ({ changes, text }: Batch) => text.length + changeOverhead * (changes.length + 1)

/**
 * Creates a buffer for the newest pages of the feed after `from`. A background reader appends the pages, and each is
 * stored as a batch of encoded events. Each stream finds its first batch with `find`, and then takes one batch after
 * the other with `take`. The buffer uses up to about `maxBytes` of memory. It drops the oldest batches, even if a slow
 * stream has not taken them yet; that stream is then behind (`isBehind`) and cannot continue.
 */
export const makeRecentChangeBuffer = (from: Pick<ChangeFeedPage, "cursor" | "end">, maxBytes: number) => {
  const batches: Array<Batch> = []
  /** The number of `batches[0]`. Batches are numbered consecutively from 0, including those already dropped. */
  let firstNumber = 0
  let bytes = 0
  // The positions in the feed at which the first batch starts and the last batch ends.
  let start = from.end
  let { cursor, end } = from

  const isTooLarge = () => bytes > maxBytes

  const dropOldest = () => {
    const oldest = batches.shift()
    if (oldest === undefined) return
    firstNumber += 1
    bytes -= sizeOf(oldest)
    start = oldest.end
  }

  /** Appends the next page. If the buffer then exceeds its limit, drops the oldest pages, but never the newest one. */
  const append = ({ changes, ...page }: ChangeFeedPage) => {
    // An empty page does not advance the feed.
    if (!isLaterFeedPosition(page.end, end)) return
    batches.at(-1)?.selections.clear()
    cursor = page.cursor
    end = page.end
    const batch: Batch = {
      ...encodeChangeEvents(changes),
      changes: changes.map((change) => Struct.omit(change, ["json"])),
      cursor,
      end,
      selections: new Map(),
    }
    batches.push(batch)
    bytes += sizeOf(batch)
    while (isTooLarge() && batches.length > 1) dropOldest()
  }

  /**
   * Returns the number of the batch with which a stream at this position continues: the first one that ends after the
   * position. Returns undefined if that batch has been dropped.
   */
  const find = (position: ChangeFeedPosition) => {
    if (isLaterFeedPosition(start, position)) return undefined
    const index = batches.findIndex((batch) => isLaterFeedPosition(batch.end, position))
    // If the stream is at the end of the buffer, it continues with the batch that is appended next.
    return firstNumber + (index < 0 ? batches.length : index)
  }

  /**
   * Advances a stream by one batch: updates its `next`, `end` and `cursor`. Returns the batch's events that match the
   * stream's filter and that the stream has not sent yet (possibly none), or undefined if there is no further batch.
   */
  const take = (stream: RecentChangesPosition, { key, matches }: ChangeMatcher): EncodedChangeEvents | undefined => {
    const batch = batches[stream.next - firstNumber]
    if (batch === undefined) return undefined
    const previousEnd = stream.end
    stream.next += 1
    // The stream has already read all of this batch from the database.
    if (!isLaterFeedPosition(batch.end, previousEnd)) return noEvents
    stream.end = batch.end
    stream.cursor = batch.cursor
    const [first] = batch.changes
    // The stream has already read the beginning of this batch from the database, so skip those changes.
    if (first !== undefined && !isLaterFeedPosition(first, previousEnd)) {
      return select(batch, (change) => isLaterFeedPosition(change, previousEnd) && matches(change))
    }
    const cached = batch.selections.get(key)
    if (cached !== undefined) return cached
    const selection = select(batch, matches)
    if (batch === batches.at(-1) && batch.selections.size < maxSelections) batch.selections.set(key, selection)
    return selection
  }

  return {
    append,
    find,
    take,
    /** Returns whether the stream's next batch has already been dropped. */
    isBehind: ({ next }: RecentChangesPosition) => next < firstNumber,
    getCursor: () => cursor,
  }
}

/** A buffer of the newest pages of the feed. */
export type RecentChangeBuffer = ReturnType<typeof makeRecentChangeBuffer>
