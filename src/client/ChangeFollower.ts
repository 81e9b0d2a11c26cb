/**
 * Follows the change feed (docs/guides/changes.md), reconnecting as often as necessary. Each connection resumes after
 * the latest cursor, so no change is skipped or repeated.
 */
import { Clock, type Duration, Effect, Option, Result, Stream } from "effect"
import { Sse } from "effect/encoding"
import { NoAnswer, UnreadableAnswer } from "./ClientErrors.ts"
import type { EndpointCaller, EventsResponse } from "./EndpointCaller.ts"
import type { AnyQuery, ChangePage, QueryValue } from "./EndpointTypes.ts"
import type { EndpointDecoder, RawResponse } from "./ResponseDecoder.ts"
import { toRequestAttemptResult } from "./RetryPolicy.ts"

/** Options for following the change feed. */
export interface FollowOptions {
  /** `stream` receives changes over an open connection; `polling` sends repeated requests. Default: `stream`. */
  readonly via?: "stream" | "polling" | undefined
  /**
   * For `polling`: the delay before the next request. There is no delay if more changes are already available. Default:
   * 1 second.
   */
  readonly interval?: Duration.Input | undefined
}

/**
 * Reads change feed responses. The client libraries decode them according to the contract; the command line returns
 * them as received.
 */
export interface ChangeReader<Change, Error> {
  /** Reads the data of a server-sent `change` event. */
  readonly readChange: (response: RawResponse) => Effect.Effect<Change, Error>
  readonly readPage: (response: RawResponse) => Effect.Effect<ChangePage<Change>, Error>
  /** Fails with the error contained in a response that is neither an event stream nor a page of changes. */
  readonly readError: (response: RawResponse) => Effect.Effect<never, Error>
}

/** The number of changes per request when polling, which is the maximum that the API allows. */
export const maxChangesPerPoll = 1000

/** The service sends a heartbeat every 15 seconds, so a connection on which no data arrives for this long is broken. */
const maxSilence: Duration.Input = "45 seconds"

/**
 * Once a connection has been open for this long, it counts as working, and previous failures to connect are forgotten,
 * even if no changes have arrived.
 */
const stableMillis = 10_000

/**
 * A line of an event stream that gives the event a name, which a later line may replace. It is fed to Effect's parser
 * before each event, because the parser drops events without a name and data. A heartbeat has neither, but its id must
 * not be lost: it is the cursor from which to continue after the connection is lost.
 */
const defaultEventName = "event: heartbeat\n"

/**
 * Returns a function that is called with each line of an event stream in turn. It returns the events that the line
 * completes: none, unless the line is empty, because an empty line ends an event.
 */
const makeLineParser = () => {
  const events: Array<Sse.Event> = []
  const parser = Sse.makeParser((event) => {
    if (event._tag === "Event") events.push(event)
  }, { dispatchEmptyNamedEvents: true, maxEventSize: Number.POSITIVE_INFINITY })
  parser.feed(defaultEventName)
  return (line: string) => {
    parser.feed(`${line}\n`)
    if (line === "") parser.feed(defaultEventName)
    // Removes the events from the array and returns them.
    return events.splice(0)
  }
}

/**
 * Converts the bytes of an event stream to events. The stream of events ends with an `end` event, or when the
 * connection is closed, lost, or silent for too long. It never fails, because all of these cases lead to a new
 * connection.
 */
const readEvents = <E>(bytes: Stream.Stream<Uint8Array, E>) =>
  bytes.pipe(
    Stream.timeout(maxSilence),
    Stream.ignore,
    Stream.decodeText(),
    Stream.splitLines,
    Stream.mapAccum(makeLineParser, (parseLine, line) => [parseLine, parseLine(line)] as const),
    Stream.takeUntil(({ event }) => event === "end"),
  )

/** Returns a response to a request for events with its body as text, which is empty for an event stream. */
const toRawResponse = ({ body, headers, metadata }: EventsResponse): RawResponse => ({
  text: typeof body === "string" ? body : "",
  headers,
  metadata,
})

/** The functions of a client that send requests to the change feed. */
type ChangeFeedCaller = Pick<EndpointCaller, "openEvents" | "retryPolicy">

/** The parameters of `followChanges`, and its state between one connection or request and the next. */
interface Following<Change, Error> {
  readonly caller: ChangeFeedCaller
  readonly reader: ChangeReader<Change, Error>
  readonly path: string
  readonly query: AnyQuery
  /** The cursor of the newest change received. The next connection continues after it. */
  after: QueryValue
  /** Whether any connection or request has succeeded so far. */
  hasConnected: boolean
  /** The number of consecutive attempts that have failed. */
  failures: number
}

/**
 * Waits after a failed attempt until the next one. If the retry policy does not allow another attempt, fails with the
 * error of the failed attempt: `NoAnswer`, or the error in the response.
 */
const waitAfter = Effect.fnUntraced(function* <Change, Error>(
  following: Following<Change, Error>,
  attempt: Result.Result<EventsResponse, NoAnswer>,
) {
  const { caller: { retryPolicy: { delayBeforeReconnect, delayBeforeRetry } }, hasConnected, reader } = following
  following.failures += 1
  const chooseDelay = hasConnected ? delayBeforeReconnect : delayBeforeRetry
  const delay = yield* chooseDelay(toRequestAttemptResult(attempt), following.failures)
  if (delay !== undefined) return yield* Effect.sleep(delay)
  return yield* reader.readError(toRawResponse(yield* Effect.fromResult(attempt)))
})

/**
 * Returns the change that an event contains, if any. If the event has a new id, which is a cursor, the next connection
 * will continue after it. The failure count is then reset, because the connection is evidently working. `following` is
 * the state that is kept from one connection to the next, and `openedAt` the time at which this one was opened.
 */
const readEvent = Effect.fnUntraced(function* <Change, Error>(
  following: Following<Change, Error>,
  { data, event, id }: Sse.Event,
  { headers, metadata }: EventsResponse,
  openedAt: number,
) {
  const { reader } = following
  const hasNewId = id !== undefined && id !== "" && id !== following.after
  if (hasNewId) following.after = id
  if (hasNewId || (yield* Clock.currentTimeMillis) - openedAt >= stableMillis) following.failures = 0
  // A `gap` event means that the changes after the cursor are no longer available. When polling, a response with
  // status 410 reports this. The event's data is the body of that response, so it is read in the same way.
  if (event === "gap") {
    return yield* reader.readError({ text: data, headers, metadata: { ...metadata, status: 410 } })
  }
  if (event !== "change") return Option.none()
  return Option.some(yield* reader.readChange({ text: data, headers, metadata }))
})

/**
 * Opens the event stream and returns the changes received over this connection. When it ends, waits before the next
 * attempt. If it cannot be opened, waits and returns no changes. `following` contains what to follow, and the state
 * that is kept from one connection to the next, such as the number of failures.
 */
const openStream = <Change, Error>(following: Following<Change, Error>) =>
  Effect.gen(function* () {
    const { after, caller, path, query } = following
    const attempt = yield* Effect.result(caller.openEvents(`${path}/stream`, { ...query, after }))
    // A body that is a string is not an event stream, but an error response.
    if (Result.isFailure(attempt) || typeof attempt.success.body === "string") {
      yield* waitAfter(following, attempt)
      return Stream.empty
    }
    following.hasConnected = true
    const { body, metadata: { request_id } } = attempt.success
    // `readEvent` resets the number of failures once the connection has been open for long enough.
    const openedAt = yield* Clock.currentTimeMillis
    // The retry policy decides by the error how long to wait, and whether to give up, so the loss is made an error.
    const waitToReconnect = Effect.suspend(() => {
      const attempts = following.failures + 1
      const message = `The connection to ${path}/stream was lost ${attempts} times in a row`
      return waitAfter(following, Result.fail(new NoAnswer({ message, reason: "connection", request_id, attempts })))
    })
    return readEvents(body).pipe(
      Stream.mapEffect((event) => readEvent(following, event, attempt.success, openedAt)),
      Stream.filter(Option.isSome),
      Stream.map(({ value }) => value),
      Stream.concat(Stream.fromEffectDrain(waitToReconnect)),
    )
  })

/**
 * Requests the next page and returns its changes. After the last available change, waits for `interval` before the next
 * request. If the request fails, waits and returns no changes. `following` contains what to follow, and the state that
 * is kept from one request to the next: the cursor, and the number of failures.
 */
const requestPage = <Change, Error>(following: Following<Change, Error>, interval: Duration.Input) =>
  Effect.gen(function* () {
    const { after, caller, path, query, reader } = following
    const attempt = yield* Effect.result(caller.openEvents(path, { ...query, after, limit: maxChangesPerPoll }))
    if (Result.isFailure(attempt) || attempt.success.metadata.status !== 200) {
      yield* waitAfter(following, attempt)
      return Stream.empty
    }
    following.hasConnected = true
    following.failures = 0
    const { cursor, has_more, results } = yield* reader.readPage(toRawResponse(attempt.success))
    following.after = cursor
    const pause = has_more ? Effect.void : Effect.sleep(interval)
    return Stream.concat(Stream.fromIterable(results), Stream.fromEffectDrain(pause))
  })

/**
 * Returns an endless stream of the changes after `query.after`, received through `path` (the path of the change feed)
 * or its event stream. The result opens one connection after the other, or requests one page after the other. Each
 * continues after the newest change received before. The first connection is retried like any other request. Once it
 * has succeeded, a lost connection, a retryable error or an `end` event leads to a new connection.
 */
export const followChanges = <Change, Error>(
  caller: ChangeFeedCaller,
  reader: ChangeReader<Change, Error>,
  path: string,
  query: AnyQuery,
  { interval = "1 second", via = "stream" }: FollowOptions,
): Stream.Stream<Change, Error | NoAnswer> =>
  // Suspended, so that a stream that is run twice does not share state between the runs.
  Stream.suspend(() => {
    const following = { caller, reader, path, query, after: query["after"], hasConnected: false, failures: 0 }
    return Stream.forever(
      Stream.unwrap(via === "stream" ? openStream(following) : requestPage(following, interval)),
    )
  })

const isChangePage = (body: unknown): body is ChangePage<unknown> =>
  typeof body === "object" && body !== null && "cursor" in body && "has_more" in body

/**
 * Returns a reader that decodes the responses of the change feed according to the contract. `toError` converts every
 * error that the reader fails with; the Promise client uses it to create its own kind of error.
 *
 * `readError` is called with responses that contain no changes. For any status other than 200, it fails with the error
 * that the response contains. A response with status 200 but without changes did not come from this API, so it fails
 * with `UnreadableAnswer`.
 */
export const makeDecodingChangeReader = (
  endpoint: EndpointDecoder,
  via: FollowOptions["via"],
  toError: (failure: unknown, metadata: RawResponse["metadata"]) => unknown = (failure) => failure,
): ChangeReader<unknown, unknown> => {
  // The event stream is a separate endpoint, which declares other errors than the endpoint for polling.
  const { decode, path } = via === "polling" ? endpoint : endpoint.eventStream ?? endpoint
  const convertErrors =
    <Value>(read: (response: RawResponse) => Effect.Effect<Value, unknown>) => (response: RawResponse) =>
      Effect.mapError(read(response), (failure) => toError(failure, response.metadata))
  const readError = (response: RawResponse) => {
    const { metadata: { request_id, status }, text } = response
    const message = `${path} returned neither changes nor an error. Does baseUrl point to Tickerline?`
    const unreadable = new UnreadableAnswer({ message, status, request_id, body: text.slice(0, 1000) })
    // `decode` always fails here, so `unreadable` is only used for status 200.
    return Effect.andThen(status === 200 ? Effect.void : decode(response), Effect.fail(unreadable))
  }
  return {
    readChange: convertErrors(endpoint.decodeChange ?? readError),
    readPage: convertErrors((response) =>
      Effect.flatMap(decode(response), (body) => isChangePage(body) ? Effect.succeed(body) : readError(response))
    ),
    readError: convertErrors(readError),
  }
}
