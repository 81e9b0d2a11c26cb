/**
 * Follows the change feed (docs/guides/changes.md), reconnecting as often as necessary. Each connection resumes after
 * the latest cursor, so no change is skipped or repeated.
 */
import { Clock, type Duration, Effect, Option, Result, Stream } from "effect"
import { Sse } from "effect/encoding"
import { NoAnswer, UnreadableAnswer } from "./ClientErrors.ts"
import type { EndpointCaller, EventsResponse } from "./EndpointCaller.ts"
import type { AnyQuery, ChangePage } from "./EndpointTypes.ts"
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

/** The service sends a heartbeat every 15 seconds, so a connection without data for this long must be broken. */
const maxSilence: Duration.Input = "45 seconds"

/** Once a connection has been working for this long, the failure count is reset, even if no changes have arrived. */
const stableMillis = 10_000

/**
 * Fed to the parser before each event. Otherwise, Effect's parser would drop the id of an event that has neither a name
 * nor data, such as a heartbeat.
 */
const defaultEventName = "event: heartbeat\n"

/** Returns a function that parses one line and returns the events completed by that line. */
const makeLineParser = () => {
  const events: Array<Sse.Event> = []
  const parser = Sse.makeParser((event) => {
    if (event._tag === "Event") events.push(event)
  }, { dispatchEmptyNamedEvents: true, maxEventSize: Number.POSITIVE_INFINITY })
  parser.feed(defaultEventName)
  return (line: string) => {
    parser.feed(`${line}\n`)
    if (line === "") parser.feed(defaultEventName)
    return events.splice(0)
  }
}

/** Reads events until an `end` event arrives, or the connection is closed, lost, or silent for too long. */
const readEvents = <E>(bytes: Stream.Stream<Uint8Array, E>) =>
  bytes.pipe(
    Stream.timeout(maxSilence),
    Stream.ignore,
    Stream.decodeText(),
    Stream.splitLines,
    Stream.mapAccum(makeLineParser, (parseLine, line) => [parseLine, parseLine(line)] as const),
    Stream.takeUntil(({ event }) => event === "end"),
  )

const toRawResponse = ({ body, headers, metadata }: EventsResponse): RawResponse => ({
  text: typeof body === "string" ? body : "",
  headers,
  metadata,
})

/**
 * Follows the changes after `query.after` indefinitely. The first connection is retried like any other request. Once it
 * has succeeded, a lost connection, a retryable error or an `end` event leads to a new connection.
 */
export const followChanges = <Change, Error>(
  { openEvents, retryPolicy: { delayBeforeReconnect, delayBeforeRetry } }: Pick<
    EndpointCaller,
    "openEvents" | "retryPolicy"
  >,
  reader: ChangeReader<Change, Error>,
  path: string,
  query: AnyQuery,
  { interval = "1 second", via = "stream" }: FollowOptions,
): Stream.Stream<Change, Error | NoAnswer> =>
  Stream.suspend(() => {
    let after = query["after"]
    let hasConnected = false
    let failures = 0

    /**
     * Waits before the next connection attempt. If the retry policy does not allow another attempt, fails with the
     * error of the last one.
     */
    const waitAfter = Effect.fnUntraced(function* (attempt: Result.Result<EventsResponse, NoAnswer>) {
      failures += 1
      const chooseDelay = hasConnected ? delayBeforeReconnect : delayBeforeRetry
      const delay = yield* chooseDelay(toRequestAttemptResult(attempt), failures)
      if (delay !== undefined) return yield* Effect.sleep(delay)
      return yield* reader.readError(toRawResponse(yield* Effect.fromResult(attempt)))
    })

    /**
     * Returns the change that an event contains, if any, and advances the cursor. If the cursor advances, the failure
     * count is reset, because the connection is evidently working.
     */
    const readEvent = Effect.fnUntraced(
      function* ({ data, event, id }: Sse.Event, { headers, metadata }: EventsResponse, openedAt: number) {
        const isMoved = id !== undefined && id !== "" && id !== after
        if (isMoved) after = id
        if (isMoved || (yield* Clock.currentTimeMillis) - openedAt >= stableMillis) failures = 0
        // A `gap` event means that changes are missing. Polling reports the same condition with status 410.
        if (event === "gap") {
          return yield* reader.readError({ text: data, headers, metadata: { ...metadata, status: 410 } })
        }
        if (event !== "change") return Option.none()
        return Option.some(yield* reader.readChange({ text: data, headers, metadata }))
      },
    )

    /** The changes received over one connection. When the connection ends, waits before the next attempt. */
    const stream = Effect.gen(function* () {
      const attempt = yield* Effect.result(openEvents(`${path}/stream`, { ...query, after }))
      if (Result.isFailure(attempt) || typeof attempt.success.body === "string") {
        yield* waitAfter(attempt)
        return Stream.empty
      }
      hasConnected = true
      const { body, metadata: { request_id } } = attempt.success
      const openedAt = yield* Clock.currentTimeMillis
      const reconnect = Effect.suspend(() => {
        const message = `The connection to ${path}/stream was lost ${failures + 1} times in a row`
        return waitAfter(
          Result.fail(new NoAnswer({ message, reason: "connection", request_id, attempts: failures + 1 })),
        )
      })
      return readEvents(body).pipe(
        Stream.mapEffect((event) => readEvent(event, attempt.success, openedAt)),
        Stream.filter(Option.isSome),
        Stream.map(({ value }) => value),
        Stream.concat(Stream.fromEffectDrain(reconnect)),
      )
    })

    /** The changes on one page. If there are no more changes, waits before the next request. */
    const poll = Effect.gen(function* () {
      const attempt = yield* Effect.result(openEvents(path, { ...query, after, limit: maxChangesPerPoll }))
      if (Result.isFailure(attempt) || attempt.success.metadata.status !== 200) {
        yield* waitAfter(attempt)
        return Stream.empty
      }
      hasConnected = true
      failures = 0
      const { cursor, has_more, results } = yield* reader.readPage(toRawResponse(attempt.success))
      after = cursor
      const pause = has_more ? Effect.void : Effect.sleep(interval)
      return Stream.concat(Stream.fromIterable(results), Stream.fromEffectDrain(pause))
    })

    return Stream.forever(Stream.unwrap(via === "stream" ? stream : poll))
  })

const isChangePage = (body: unknown): body is ChangePage<unknown> =>
  typeof body === "object" && body !== null && "cursor" in body && "has_more" in body

/**
 * Returns a reader that decodes responses according to the contract. `toError` converts every error that the reader
 * fails with.
 *
 * `decode` fails for any status other than 200. A response that is decoded successfully but contains no changes
 * therefore did not come from this API, and `readError` fails with `UnreadableAnswer`.
 */
export const makeDecodingChangeReader = (
  endpoint: EndpointDecoder,
  via: FollowOptions["via"],
  toError: (failure: unknown, metadata: RawResponse["metadata"]) => unknown = (failure) => failure,
): ChangeReader<unknown, unknown> => {
  const { decode, path } = via === "polling" ? endpoint : endpoint.eventStream ?? endpoint
  const convert = <Value>(read: (response: RawResponse) => Effect.Effect<Value, unknown>) => (response: RawResponse) =>
    Effect.mapError(read(response), (failure) => toError(failure, response.metadata))
  const readError = (response: RawResponse) => {
    const { metadata: { request_id, status }, text } = response
    const message = `${path} returned neither changes nor an error. Does baseUrl point to Tickerline?`
    const unreadable = new UnreadableAnswer({ message, status, request_id, body: text.slice(0, 1000) })
    return Effect.andThen(status === 200 ? Effect.void : decode(response), Effect.fail(unreadable))
  }
  return {
    readChange: convert(endpoint.decodeChange ?? readError),
    readPage: convert((response) =>
      Effect.flatMap(decode(response), (body) => isChangePage(body) ? Effect.succeed(body) : readError(response))
    ),
    readError: convert(readError),
  }
}
