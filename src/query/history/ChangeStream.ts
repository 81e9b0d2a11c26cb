/**
 * Streams of changes. One background reader per process follows the feed and keeps the newest changes in memory. Each
 * stream sends these changes at the speed of its client. A stream that starts further back first reads pages from the
 * database itself (docs/decisions/0117-change-stream.md).
 */
import {
  Cause,
  Clock,
  Config,
  Context,
  Duration,
  Effect,
  Exit,
  type Fiber,
  Latch,
  Layer,
  Metric,
  Option,
  Record,
  Schedule,
  Schema,
  type Scope,
  Stream,
} from "effect"
import { TooManyStreams } from "../../contract/AccountErrors.ts"
import { PrepaidBalances } from "../../accounts/billing/PrepaidBalances.ts"
import type { CurrentAccount } from "../../contract/Authentication.ts"
import { KeyWatcher } from "../../accounts/keys/KeyWatcher.ts"
import { makeBulkhead, makePermits } from "../../postgres/pool/Bulkhead.ts"
import { makePoolTimeoutError, poolTimeout } from "../../postgres/ReadTimeoutsAndRetries.ts"
import { forkUntraced, repeatInBackground } from "../../postgres/metrics/BackgroundFibers.ts"
import { initializeCounters, makeCounter, registerGauge } from "../../postgres/metrics/CallbackMetrics.ts"
import { makeMonotonicClock } from "../../postgres/metrics/MonotonicTime.ts"
import type { StreamedAmount, StreamUsageRecorder } from "../../contract/rules/EndpointResult.ts"
import type { ApiRequest } from "../../contract/rules/ApiRequest.ts"
import {
  CursorExpired,
  type DatabasePoolTimeout,
  type DataRefreshing,
  type ValidationError,
} from "../../contract/rules/ApiErrors.ts"
import {
  formatServerSentEvent,
  formatSseHeartbeat,
  sseReconnectDelayField,
} from "../../contract/rules/EventStreamFormat.ts"
import { logDefectAsInternalError } from "../../contract/rules/QueryValidation.ts"
import { type ChangeFeedStart, formatChangeFeedCursor, parseChangeFeedStart } from "../../contract/endpoints/changes.ts"
import {
  allChangesFilter,
  type ChangeFeedFilter,
  type ChangeFeedPage,
  type ChangeFeedPosition,
  ChangeFeedReader,
} from "./ChangeFeed.ts"
import {
  type ChangeMatcher,
  encodeChangeEvents,
  makeChangeMatcher,
  makeRecentChangeBuffer,
  type RecentChangeBuffer,
  type RecentChangesPosition,
} from "./RecentChanges.ts"

type Account = typeof CurrentAccount.Service

/** Maximum number of open streams per account in one process. */
export const MaxStreamsPerAccountConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 10_000 })),
  "MAX_STREAMS_PER_ACCOUNT",
).pipe(Config.withDefault(10))

/** How often the reader polls for changes while there are none. */
const pollInterval = Duration.millis(200)

/** How often the process records usage that is due, and disconnects clients that have stopped reading their stream. */
const maintenanceInterval = Duration.millis(500)

/**
 * The limit and the initial number of changes on a page of the feed, and the size of a page at which
 * `choosePageChanges` aims.
 */
const [maxPageChanges, firstPageChanges, targetPageBytes] = [1_000, 100, 524_288]

/** Limits on streams. Tests lower them. */
export const ChangeStreamLimits = Context.Reference("tickerline/query/ChangeStreamLimits", {
  defaultValue: () => ({
    /** Idle time after which a stream sends a heartbeat, in milliseconds. */
    heartbeatMillis: 15_000,
    /**
     * How much memory the buffer of the newest changes may use, in bytes. A stream is ended if the buffer no longer
     * contains the changes that the stream must send next.
     */
    recentBytes: 16 * 1024 * 1024,
    /**
     * How long a client may take to read the end of its stream, in milliseconds. After that, its connection is closed.
     */
    closingMillis: 5_000,
    /** A stream's usage is recorded after this many milliseconds or this many bytes, whichever comes first. */
    usageIntervalMillis: 60_000,
    usageIntervalBytes: 1_000_000,
  }),
})

/** How long to wait before reading the feed again after a failure: from 100 ms, doubling up to 5 s. */
const retryDelay = Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("5 seconds")])

/** The messages of the event `end`, by the reason for which the service ends a stream. */
const endMessages = {
  server_stopping: "The server is stopping. Reconnect and continue after the cursor.",
  slow_client: "The client received the changes too slowly. Reconnect and continue after the cursor.",
  key_revoked: "The API key was revoked or disabled, or has expired. Use another one.",
  access_changed:
    "The datasets that the account or the key may use have changed, or the key may no longer be used from " +
    "this address. Reconnect to learn more.",
  out_of_credit:
    "The account's prepaid balance, or its budget for this month, is used up or reserved by exports. Add credit or " +
    "ask for a higher budget, and continue after the cursor.",
  gap: "The changes after the cursor are not known. Download the datasets again, and continue from there.",
}
type EndReason = keyof typeof endMessages

const makeEndedCounter = (reason: EndReason | "disconnected") =>
  makeCounter(
    "tickerline_change_streams_ended_total",
    "Streams of changes that ended, by reason. The reason disconnected means that the client closed the " +
      "connection, or that it broke.",
    { reason },
  )

const endedCounters = Record.map({ ...endMessages, disconnected: "" }, (_, reason) => makeEndedCounter(reason))

/** What a client requested, and the parts of the request that the stream depends on. */
export interface ChangeStreamOptions {
  readonly account: Account
  readonly request: ApiRequest
  readonly usage: StreamUsageRecorder
  readonly filter: ChangeFeedFilter
  /** The position at which the stream starts. Undefined means the earliest change in the history. */
  readonly start: ChangeFeedStart | undefined
  /**
   * Checks whether the account may still read exactly the stream's datasets from the client's address. Returns false if
   * the account has gained or lost access to any dataset.
   */
  readonly hasSameAccess: (account: Account) => boolean
  /** Closes the connection of a client that does not read the end of its stream. */
  readonly disconnect: () => void
}

/** Why and when the service decided to end a stream. The client is told when it next reads (`sendEnd`). */
interface Ending {
  readonly reason: EndReason
  /** The error that explains to the client why changes are missing. Undefined if none are missing. */
  readonly gap: CursorExpired | undefined
  /** When the stream ended, in monotonic milliseconds. */
  readonly at: number
}

/** The state of an open stream. */
class StreamState implements RecentChangesPosition {
  readonly options: ChangeStreamOptions
  readonly scope: Scope.Scope
  readonly matcher: ChangeMatcher
  /** The latch is open when the stream may have something to send. */
  readonly wake = Latch.makeUnsafe()
  /**
   * Whether the stream takes its changes from the buffer of recent changes, which all live streams share. Otherwise the
   * stream reads its own pages from the database.
   */
  isLive = false
  /** The number of the buffer's batch to send next, if the stream is live. */
  next = 0
  /** The cursor after the last change that the stream has examined, even if it did not match the filter. */
  cursor: string
  /** The same position as `cursor`, in a form that can be compared. */
  end: ChangeFeedPosition
  /** Whether the feed continued after the last page that this stream read from the database. */
  hasMore = true
  /** The maximum number of changes to read for the next page. */
  pageChanges = firstPageChanges
  /** The read of the next page, if it is in progress or its result has not been taken yet. */
  reading: Fiber.Fiber<ChangeFeedPage, ReadError> | undefined
  /** The last cursor sent to the client. Initially this is the cursor in the request, if any. */
  sentCursor: string | undefined
  /** When the stream last sent an event or a heartbeat, in monotonic milliseconds. */
  sentAt: number
  /** What has been sent so far, and how much of that has been recorded as usage. */
  sent: StreamedAmount = { bytes: 0, records: 0 }
  recorded = this.sent
  /** When the stream's usage was last recorded, in milliseconds since 1970. */
  recordedAt: number
  ending: Ending | undefined
  /** Whether the event `end` has been sent. */
  isEnded = false

  constructor(options: ChangeStreamOptions, scope: Scope.Scope, firstPage: ChangeFeedPage, now: number) {
    this.options = options
    this.scope = scope
    this.matcher = makeChangeMatcher(options.filter)
    this.cursor = firstPage.cursor
    this.end = firstPage.end
    this.sentCursor = options.start?._tag === "Cursor" ? formatChangeFeedCursor(options.start) : undefined
    this.sentAt = now
    this.recordedAt = options.request.startedAt
  }
}

type ReadError = CursorExpired | DatabasePoolTimeout | DataRefreshing | ValidationError

const isUnavailable = ({ _tag }: ReadError) => _tag === "DatabasePoolTimeout" || _tag === "DataRefreshing"

const encodeText = (text: string): Uint8Array => Buffer.from(text)

/**
 * Returns how many changes to read for a page of the target size, assuming that they are as large as the changes on the
 * given page.
 */
const choosePageChanges = ({ changes }: ChangeFeedPage) => {
  const bytes = changes.reduce((sum, { json }) => sum + json.length, 0)
  return Math.max(1, Math.min(maxPageChanges, Math.floor((targetPageBytes * changes.length) / Math.max(1, bytes)) || 1))
}

const encodeExpiredError = Schema.encodeSync(CursorExpired)

const makeTooManyError = (limit: number) =>
  new TooManyStreams({
    error: {
      message: `The account already has ${limit} open streams on this server. Close one of them, or read several ` +
        "datasets or symbols with one stream.",
      details: { limit },
    },
  })

/**
 * Creates the functions that meter a stream. Whatever the stream sends passes through one of them first: changes, which
 * are charged for, through `sendChanges`, and heartbeats and other events, which are free, through `sendFree`.
 * `recordUsage` writes the bytes and changes sent since the last record to the account's usage.
 */
const makeSentAccounting = Effect.gen(function* () {
  const limits = yield* ChangeStreamLimits
  const clock = yield* Clock.Clock
  const now = yield* makeMonotonicClock

  /**
   * Records the usage since the last record. The end of a stream is recorded even if no changes were sent, so that
   * every stream appears in the usage.
   */
  const recordUsage = (stream: StreamState, isEnd = false) => {
    const { recorded: from, recordedAt: startedAt, sent: to } = stream
    stream.recordedAt = clock.currentTimeMillisUnsafe()
    if (to.bytes === from.bytes && !isEnd) return
    stream.recorded = to
    stream.options.usage.recordUsage({ startedAt, from, to })
  }

  /** Returns the bytes of a text that is not charged for, such as a heartbeat. */
  const sendFree = (stream: StreamState, text: string) => {
    stream.sentAt = now()
    return encodeText(text)
  }

  /** Counts `text` and the number of changes in it (`records`) as sent. Returns `text`. */
  const sendChanges = (stream: StreamState, text: Uint8Array, records: number) => {
    const { sent } = stream
    stream.sent = { bytes: sent.bytes + text.length, records: sent.records + records }
    stream.options.usage.countSent(sent, stream.sent)
    stream.sentAt = now()
    if (stream.sent.bytes - stream.recorded.bytes >= limits.usageIntervalBytes) recordUsage(stream)
    return text
  }

  return { recordUsage, sendFree, sendChanges }
})

/**
 * Creates a function that takes one of the account's slots for a stream until the scope closes. It fails if the account
 * already has the maximum number of streams.
 */
const makeStreamSlots = Effect.gen(function* () {
  const maxStreams = yield* MaxStreamsPerAccountConfig
  /** The streams that are open or still reading their first page, identified by their options. */
  const opened = new Set<ChangeStreamOptions>()

  /** Adds a stream to `opened`, or fails if the account already has the maximum number of streams. */
  const takeSlot = (options: ChangeStreamOptions) =>
    Effect.suspend(() => {
      const isOfAccount = ({ account }: ChangeStreamOptions) => account.account_id === options.account.account_id
      if (Array.from(opened).filter(isOfAccount).length >= maxStreams) {
        return Effect.fail(makeTooManyError(maxStreams))
      }
      opened.add(options)
      return Effect.void
    })

  return (options: ChangeStreamOptions) =>
    Effect.acquireRelease(takeSlot(options), () => Effect.sync(() => opened.delete(options)))
})

/**
 * Creates the service that opens and stops streams. All streams of the process share this state:
 *
 * - `streams`: the open streams. A stream is live if it takes its changes from `recent`. A stream that starts further
 *   back first reads its own pages from the database, and becomes live when it has caught up (`joinRecent`).
 * - `recent`: the buffer with the newest changes. The background reader (`followFeed`) fills it while there are live
 *   streams; otherwise it is undefined.
 *
 * The client's connection pulls the events of a stream with `pullNext`. Everything that may give a stream something to
 * send opens the stream's latch `wake`, which ends the wait in `pullNext`.
 */
const makeChangeStream = Effect.gen(function* () {
  const { readPage } = yield* ChangeFeedReader
  const { getRemaining } = yield* PrepaidBalances
  const { watch } = yield* KeyWatcher
  const { recordUsage, sendChanges, sendFree } = yield* makeSentAccounting
  const takeSlot = yield* makeStreamSlots
  const limits = yield* ChangeStreamLimits
  const clock = yield* Clock.Clock
  const now = yield* makeMonotonicClock

  const streams = new Set<StreamState>()
  const hasStreams = yield* Latch.make()
  const hasLiveStreams = yield* Latch.make()
  let recent: RecentChangeBuffer | undefined
  let isStopping = false

  yield* initializeCounters(...Object.values(endedCounters))
  yield* registerGauge({
    name: "tickerline_change_streams",
    description: "Open streams of changes.",
    read: () => streams.size,
  })

  // ---------------------------------------------------------------------------------------------------------------
  // Database
  // ---------------------------------------------------------------------------------------------------------------

  /**
   * The background reader and the streams that read their own pages take turns using one connection, so that streams
   * never use up the connection pool. The partitions `reader` and `pages` get equal shares, so many streams cannot
   * delay the background reader.
   */
  const { withPermit } = yield* makeBulkhead({
    permits: makePermits(1),
    timeout: yield* poolTimeout,
    onTimeout: makePoolTimeoutError,
  })

  const readOwnPage = (start: ChangeFeedStart | undefined, filter: ChangeFeedFilter, limit: number) =>
    withPermit("pages")(readPage(start, filter, limit))

  // ---------------------------------------------------------------------------------------------------------------
  // Ends
  // ---------------------------------------------------------------------------------------------------------------

  /** Marks a stream to be ended. Only the first reason given is kept. */
  const end = (stream: StreamState, reason: EndReason, gap?: CursorExpired) => {
    if (stream.ending !== undefined) return
    stream.ending = { reason, gap, at: now() }
    stream.wake.openUnsafe()
  }

  // ---------------------------------------------------------------------------------------------------------------
  // Sending
  // ---------------------------------------------------------------------------------------------------------------

  /**
   * Switches a stream to the recent changes in memory, if they reach back to its position. If there are none in memory
   * and the stream has read the whole feed, the buffer begins at its position. Returns whether the stream was switched.
   */
  const joinRecent = (stream: StreamState) => {
    if (recent === undefined) {
      if (stream.hasMore) return false
      recent = makeRecentChangeBuffer(stream, limits.recentBytes)
      hasLiveStreams.openUnsafe()
    }
    const next = recent.find(stream.end)
    if (next === undefined) return false
    stream.next = next
    stream.isLive = true
    return true
  }

  /**
   * Returns the next matching events from the recent changes, or undefined if there are none yet. Ends the stream if
   * the buffer no longer contains its next changes.
   */
  const takeRecent = (stream: StreamState) => {
    for (;;) {
      if (recent === undefined || recent.isBehind(stream)) {
        end(stream, "slow_client")
        return undefined
      }
      const selection = recent.take(stream, stream.matcher)
      if (selection === undefined) return undefined
      if (selection.count === 0) continue
      stream.sentCursor = selection.cursor
      return sendChanges(stream, selection.text, selection.count)
    }
  }

  /** Starts to read the stream's next page in the background. Retries until the database responds. */
  const startReading = Effect.fnUntraced(function* (stream: StreamState) {
    const { options: { filter }, pageChanges, scope } = stream
    const reading = yield* Effect.forkIn(
      Effect.retry(readOwnPage(parseChangeFeedStart(stream.cursor), filter, pageChanges), {
        schedule: retryDelay,
        while: isUnavailable,
      }),
      scope,
    )
    stream.reading = reading
    reading.addObserver(() => stream.wake.openUnsafe())
  })

  /** Moves a stream to the end of a page. Returns the page's events, or undefined if it has none. */
  const takePage = (stream: StreamState, page: ChangeFeedPage) => {
    stream.cursor = page.cursor
    stream.end = page.end
    stream.hasMore = page.hasMore
    if (page.changes.length === 0) return undefined
    stream.pageChanges = choosePageChanges(page)
    stream.sentCursor = page.changes.at(-1)?.cursor
    return sendChanges(stream, encodeChangeEvents(page.changes).text, page.changes.length)
  }

  /**
   * Returns the next events to send, or undefined if none are available yet. Events become available in the recent
   * changes or, if the stream is not live, when its own read of the next page ends. In both cases, `wake` is opened.
   */
  const takeNext = Effect.fnUntraced(function* (stream: StreamState) {
    if (stream.isLive || (stream.reading === undefined && joinRecent(stream))) return takeRecent(stream)
    // A stream that is not live reads its own pages. `exit` is undefined until the read has ended.
    const exit = stream.reading?.pollUnsafe()
    if (stream.reading === undefined) yield* startReading(stream)
    if (exit === undefined) return undefined
    stream.reading = undefined
    // There may be another page to read, so the caller must not wait.
    stream.wake.openUnsafe()
    if (Exit.isSuccess(exit)) return takePage(stream, exit.value)
    const error = Cause.findErrorOption(exit.cause)
    if (Option.isSome(error) && error.value._tag === "CursorExpired") {
      end(stream, "gap", error.value)
      return undefined
    }
    yield* logDefectAsInternalError(Cause.squash(exit.cause))
    return yield* Effect.die(new Error("A stream of changes cannot read the feed"))
  })

  /**
   * Returns a heartbeat. It contains the stream's cursor if that has changed since the last event, so that a client
   * that reconnects need not examine the same changes again.
   */
  const sendHeartbeat = (stream: StreamState) => {
    const id = stream.cursor === stream.sentCursor ? undefined : stream.cursor
    stream.sentCursor = stream.cursor
    return sendFree(stream, formatSseHeartbeat(id))
  }

  const formatGap = ({ options }: StreamState, error: CursorExpired) =>
    formatServerSentEvent("gap", { ...encodeExpiredError(error), request_id: options.request.id })

  /** Returns the event `end`, preceded by the event `gap` if changes are missing. */
  const sendEnd = (stream: StreamState, { gap, reason }: Ending) => {
    const gapEvent = gap === undefined ? "" : formatGap(stream, gap)
    const { cursor } = stream
    stream.isEnded = true
    const message = endMessages[reason]
    return sendFree(stream, gapEvent + formatServerSentEvent("end", { reason, message, cursor }))
  }

  /**
   * Waits for the next text to send and returns it. Returns a heartbeat if the wait takes too long. Called each time
   * the client's connection can take more text. `Cause.done()` ends the response.
   */
  const pullNext = Effect.fnUntraced(function* (stream: StreamState) {
    for (;;) {
      if (stream.isEnded) return yield* Cause.done()
      if (stream.ending !== undefined) return sendEnd(stream, stream.ending)
      // Closed before looking for text, so that whatever happens in the meantime ends the wait below.
      stream.wake.closeUnsafe()
      if (getRemaining(stream.options.account) <= 0) {
        end(stream, "out_of_credit")
        continue
      }
      const text = yield* takeNext(stream)
      if (text !== undefined) return text
      const untilHeartbeat = limits.heartbeatMillis - (now() - stream.sentAt)
      if (untilHeartbeat <= 0) return sendHeartbeat(stream)
      yield* Effect.timeoutOption(stream.wake.await, untilHeartbeat)
    }
  })

  // ---------------------------------------------------------------------------------------------------------------
  // Background
  // ---------------------------------------------------------------------------------------------------------------

  /** Drops the buffer of recent changes and stops the background reader. */
  const dropRecent = () => {
    recent = undefined
    hasLiveStreams.closeUnsafe()
  }

  const listLiveStreams = () => Array.from(streams).filter(({ isLive }) => isLive)

  /** Ends all live streams with a gap, after the background reader has lost its position in the feed. */
  const endLiveStreams = (error: CursorExpired) =>
    Effect.sync(() => {
      for (const stream of listLiveStreams()) end(stream, "gap", error)
      dropRecent()
    })

  let livePageChanges = firstPageChanges

  /**
   * Reads the next page of the feed, for all filters, and shares it with all live streams. Ends the streams that are
   * too far behind. Waits before the next read if the feed has no further changes.
   */
  const followFeed = Effect.gen(function* () {
    yield* hasLiveStreams.await
    const buffer = recent
    if (buffer === undefined) return
    const start = parseChangeFeedStart(buffer.getCursor())
    const page = yield* withPermit("reader")(readPage(start, allChangesFilter, livePageChanges))
    // During the read, all live streams may have ended, and new ones may have started at a different position.
    if (buffer !== recent) return
    buffer.append(page)
    for (const stream of listLiveStreams()) {
      if (buffer.isBehind(stream)) end(stream, "slow_client")
      else if (page.changes.length > 0) stream.wake.openUnsafe()
    }
    if (page.changes.length > 0) livePageChanges = choosePageChanges(page)
    if (!page.hasMore) yield* Effect.sleep(pollInterval)
  })

  // If the position in the feed is lost, ends the live streams and continues with the next ones. After any other
  // failure, including a defect, reads the same page again after a delay.
  const followForever = followFeed.pipe(
    Effect.catchTag("CursorExpired", endLiveStreams),
    Effect.catchDefect((defect) => Effect.flatMap(logDefectAsInternalError(defect), Effect.fail)),
    Effect.retry(retryDelay),
    Effect.forever,
  )
  yield* forkUntraced(followForever)

  /**
   * Ends a stream if its key or account has lost access or run out of credit. `account` is the key's account as
   * `KeyWatcher` has just read it, or undefined if the key is no longer valid.
   */
  const checkStream = (stream: StreamState, account: Account | undefined) => {
    if (account === undefined) return end(stream, "key_revoked")
    if (!stream.options.hasSameAccess(account)) return end(stream, "access_changed")
    if (getRemaining(account) <= 0) end(stream, "out_of_credit")
  }

  /** Records usage that is due, and disconnects clients that have not read the end of their stream in time. */
  const maintainStreams = Effect.andThen(
    hasStreams.await,
    Effect.sync(() => {
      for (const stream of streams) {
        if (clock.currentTimeMillisUnsafe() - stream.recordedAt >= limits.usageIntervalMillis) recordUsage(stream)
        if (stream.ending !== undefined && now() - stream.ending.at >= limits.closingMillis) {
          stream.options.disconnect()
        }
      }
    }),
  )
  yield* repeatInBackground(maintainStreams, maintenanceInterval)

  // ---------------------------------------------------------------------------------------------------------------
  // Opening
  // ---------------------------------------------------------------------------------------------------------------

  /** Adds a stream to `streams`, so that `maintainStreams` and `stop` include it. */
  const register = (stream: StreamState) =>
    Effect.sync(() => {
      streams.add(stream)
      hasStreams.openUnsafe()
    })

  /** Removes a stream, records the rest of its usage, and counts why it ended. */
  const close = (stream: StreamState) =>
    Effect.suspend(() => {
      streams.delete(stream)
      if (streams.size === 0) hasStreams.closeUnsafe()
      if (listLiveStreams().length === 0) dropRecent()
      recordUsage(stream, true)
      const reason = stream.isEnded ? stream.ending?.reason : undefined
      return Metric.update(endedCounters[reason ?? "disconnected"], 1)
    })

  /**
   * Opens a stream of server-sent events and reads its first page before returning. The stream ends when the scope
   * closes.
   */
  const open = Effect.fnUntraced(function* (options: ChangeStreamOptions) {
    const { account, filter, start } = options
    yield* takeSlot(options)
    const page = yield* readOwnPage(start, filter, firstPageChanges)
    const stream = new StreamState(options, yield* Effect.scope, page, now())
    yield* Effect.acquireRelease(register(stream), () => close(stream))
    yield* watch(account, (current) => checkStream(stream, current))
    if (isStopping) end(stream, "server_stopping")
    // The response starts with the reconnection delay, followed by the changes on the first page. Without changes, a
    // heartbeat tells the client its cursor.
    const beginning = Stream.sync(() => {
      const events = takePage(stream, page)
      const heartbeat = events === undefined ? "" : formatSseHeartbeat(undefined)
      const firstText = sendFree(stream, sseReconnectDelayField + heartbeat)
      return Buffer.concat([firstText, events ?? sendHeartbeat(stream)])
    })
    const following = Effect.map(pullNext(stream), (text) => [text] as const)
    return Stream.concat(beginning, Stream.fromPull(Effect.succeed(following)))
  })

  /** Ends all streams. A stream that is opened later ends immediately. */
  const stop = Effect.sync(() => {
    isStopping = true
    for (const stream of streams) end(stream, "server_stopping")
  })
  return { open, stop }
})

/** Opens streams of changes. */
export class ChangeStream extends Context.Service<ChangeStream, Effect.Success<typeof makeChangeStream>>()(
  "tickerline/query/ChangeStream",
) {
  static readonly layer = Layer.effect(ChangeStream, makeChangeStream)
}
