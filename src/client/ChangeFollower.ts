/**
 * Follows the change feed (docs/guides/changes.md) over any number of connections. Each connection continues after the
 * newest cursor, so no change is skipped or repeated.
 */
import { Clock, type Duration, Effect, Option, Result, Stream } from "effect"
import { Sse } from "effect/encoding"
import { NoAnswer, UnreadableAnswer } from "./ClientErrors.ts"
import type { EndpointCaller, EventsResponse } from "./EndpointCaller.ts"
import type { AnyQuery, ChangePage } from "./EndpointTypes.ts"
import type { EndpointDecoder, RawResponse } from "./ResponseDecoder.ts"
import { toRequestAttemptResult } from "./RetryPolicy.ts"

/** How to follow the changes. */
export interface FollowOptions {
  /** `stream` waits for changes on an open connection; `polling` requests them again and again. Default: `stream`. */
  readonly via?: "stream" | "polling" | undefined
  /** With `polling`: the delay before the next request, unless more changes are available; 1 second by default. */
  readonly interval?: Duration.Input | undefined
}

/**
 * Reads responses of the change feed. The client decodes them according to the contract; the command line keeps them as
 * received.
 */
export interface ChangeReader<Change, Error> {
  /** Reads the data of a `change` event. */
  readonly readChange: (response: RawResponse) => Effect.Effect<Change, Error>
  readonly readPage: (response: RawResponse) => Effect.Effect<ChangePage<Change>, Error>
  /** Fails with the error in a response that is neither a stream nor a page. */
  readonly readError: (response: RawResponse) => Effect.Effect<never, Error>
}

/** Changes per request when polling: the API's maximum. */
export const maxChangesPerPoll = 1000

/** The service sends a heartbeat every 15 seconds, so a connection that is silent for this long is broken. */
const maxSilence: Duration.Input = "45 seconds"

/** A connection that has worked for this long resets the count of failures, even if there were no changes. */
const stableMillis = 10_000

/**
 * Written before each event, because Effect's parser drops the id of an event that has neither a name nor data, such as
 * a heartbeat.
 */
const defaultEventName = "event: heartbeat\n"

/** Returns a function that parses the next line and returns the events that the line completes. */
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

/** Reads events until an `end` event, or until the connection is closed, lost, or silent for too long. */
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
 * Follows the changes after `query.after`, endlessly. The first connection is retried like any other request. Later, a
 * lost connection, a retryable error and an `end` event each lead to another connection.
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
     * Waits before the next connection. If the retry policy allows no more attempts, fails with the error of the last
     * one.
     */
    const waitAfter = Effect.fnUntraced(function* (attempt: Result.Result<EventsResponse, NoAnswer>) {
      failures += 1
      const chooseDelay = hasConnected ? delayBeforeReconnect : delayBeforeRetry
      const delay = yield* chooseDelay(toRequestAttemptResult(attempt), failures)
      if (delay !== undefined) return yield* Effect.sleep(delay)
      return yield* reader.readError(toRawResponse(yield* Effect.fromResult(attempt)))
    })

    /** Returns the change in an event, if any. Moves the cursor, which also proves that the connection works. */
    const readEvent = Effect.fnUntraced(
      function* ({ data, event, id }: Sse.Event, { headers, metadata }: EventsResponse, openedAt: number) {
        const isMoved = id !== undefined && id !== "" && id !== after
        if (isMoved) after = id
        if (isMoved || (yield* Clock.currentTimeMillis) - openedAt >= stableMillis) failures = 0
        // A gap means that changes are missing, which polling reports with status 410.
        if (event === "gap") {
          return yield* reader.readError({ text: data, headers, metadata: { ...metadata, status: 410 } })
        }
        if (event !== "change") return Option.none()
        return Option.some(yield* reader.readChange({ text: data, headers, metadata }))
      },
    )

    /** The changes from one connection. When the connection ends, waits until the next one may begin. */
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

    /** The changes on one page. */
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
 * Returns a reader that decodes responses according to the contract. `toError` converts all errors of the reader.
 *
 * `decode` fails for every status but 200. So if a response is decoded without an error and still contains no changes,
 * it did not come from this API, and `readError` fails with `UnreadableAnswer`.
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
