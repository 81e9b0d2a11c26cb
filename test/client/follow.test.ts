/** Tests `follow` of both clients against scripted servers: resumption, errors, delays and backpressure. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Arbitrary, Effect, Fiber, Layer, Redacted, Result, Schedule, Schema, Stream } from "effect"
import { FetchHttpClient, HttpClient, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { type ClientOptions, type FollowOptions, makeClient } from "../../src/client/Client.ts"
import { createClient, TickerlineError } from "../../src/client/PromiseClient.ts"
import {
  awaitRejection,
  expiredCursorError,
  type FeedStubReply,
  formatChangeEvent,
  formatEndEvent,
  formatGapEvents,
  formatHeartbeat,
  makeErrorBody,
  makeStubChange,
  makeStubCursor,
  startChangeFeedStub,
} from "../support/ChangeFeedStub.ts"
import { waitUntil } from "../support/RawSockets.ts"
import { getInputCount } from "../support/Thoroughness.ts"

/** The longest script refuses the first connection nine times, so the client needs nine retries. */
const retries: ClientOptions["retries"] = { times: 9, longestWait: "1 millis" }

/** Creates an Effect client that uses `fetch`. */
const makeFetchClient = (baseUrl: string, options: Partial<ClientOptions> = {}) =>
  Effect.provide(makeClient({ baseUrl, apiKey: Redacted.make("key"), retries, ...options }), FetchHttpClient.layer)

/**
 * Follows the change feed from the cursor `after`. Returns the number of each of the first `count` changes, taken from
 * its cursor.
 */
const follow = Effect.fnUntraced(function* (
  url: string,
  count: number,
  options: FollowOptions = {},
  after?: string,
) {
  const { changes } = yield* makeFetchClient(url)
  const found = yield* changes.follow({ after }, options).pipe(Stream.take(count), Stream.runCollect)
  return found.map(({ cursor }) => Number.parseInt(cursor, 10))
})

/** Returns the numbers from 1 to `count`. */
const numbersTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1)

/** Returns the number of the last change before a stub cursor, or 0 if there is no cursor. */
const numberOf = (after: string | null) => after === null ? 0 : Number.parseInt(after, 10)

/** A block in the stream: a change, a heartbeat, or a heartbeat with a new cursor (`moved`). */
const Block = Schema.Literals(["change", "change", "heartbeat", "moved"])

/**
 * A scripted connection. It either refuses the request, or sends blocks and is cut after `cut` percent of their bytes.
 */
const Connection = Schema.Struct({
  refusal: Schema.Literals(["none", "none", "none", "429", "503", "lost"]),
  blocks: Schema.Array(Block),
  cut: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 100 })),
  ending: Schema.Literals(["end", "reset", "stopping", "slow"]),
})
type Connection = typeof Connection.Type

/** Returns the reply with which a connection refuses the request, or undefined if it accepts. */
const makeRefusal = (refusal: Connection["refusal"]): FeedStubReply | undefined => {
  if (refusal === "429") return { status: 429, body: makeErrorBody("rate_limit_exceeded") }
  if (refusal === "503") return { status: 503, body: makeErrorBody("data_refreshing") }
  return refusal === "lost" ? "lost" : undefined
}

/** Returns the bytes that a connection sends until it ends or is cut. */
const playConnection = (after: string | null, { blocks, cut, ending }: Connection) => {
  let number = numberOf(after)
  let step = Number(after?.split(".")[1] ?? 0)
  const sent = blocks.map((block) => {
    if (block === "change") [number, step] = [number + 1, 0]
    if (block === "moved") step += 1
    const cursor = makeStubCursor(number, step)
    if (block === "change") return { text: formatChangeEvent(number), cursor }
    return { text: formatHeartbeat(block === "moved" ? cursor : undefined), cursor: undefined }
  })
  const end = ending === "stopping"
    ? formatEndEvent("server_stopping")
    : ending === "slow"
    ? formatEndEvent("slow_client")
    : ""
  const bytes = Buffer.from(`retry: 1000\n\n${sent.map(({ text }) => text).join("")}${end}`)
  return bytes.subarray(0, end === "" ? Math.round(bytes.length * cut / 100) : bytes.length)
}

/** Returns the newest id in a connection's complete blocks, or `after` if there is none. */
const findNewestId = (bytes: Buffer, after: string | null) => {
  const complete = bytes.toString("utf8").split("\n\n").slice(0, -1)
  const ids = complete.flatMap((block) => [...block.matchAll(/^id: (.*)$/gm)].map(([, id = ""]) => id))
  return ids.at(-1) ?? after
}

/** The scripted response to a poll: the number of changes on the page, or an error. */
const Poll = Schema.Union([Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 5 })), Connection.fields.refusal])

/** The number of changes that a client reads from scripted connections. */
const total = 12

layer(Layer.empty, { excludeTestServices: true })("follow", (it) => {
  it.effect.prop(
    "delivers every change once and in order, no matter where connections are cut (guides/changes)",
    [Arbitrary.array(Arbitrary.schema(Connection), { maxLength: 9 })],
    ([connections]) =>
      Effect.scoped(Effect.gen(function* () {
        const expected: Array<string | null> = [null]
        const { requests, url } = yield* startChangeFeedStub(({ query }, index) => {
          const after = query.get("after")
          const connection = connections[index]
          const refusal = connection === undefined ? undefined : makeRefusal(connection.refusal)
          if (refusal !== undefined) {
            expected.push(after)
            return refusal
          }
          if (connection === undefined) {
            const left = numbersTo(total + 20).slice(numberOf(after))
            return { events: left.map(formatChangeEvent).join(""), ending: "open" }
          }
          const events = playConnection(after, connection)
          expected.push(findNewestId(events, after))
          return { events, ending: connection.ending === "end" ? "end" : "reset" }
        })
        const found = yield* follow(url, total)
        assert.deepStrictEqual(found, numbersTo(total))
        assert.deepStrictEqual(requests.map(({ query }) => query.get("after")), expected.slice(0, requests.length))
      })),
    { arbitrary: { runs: getInputCount(200) } },
  )

  it.effect.prop(
    "polls every page once and in order, even if errors occur in between (guides/changes)",
    [Arbitrary.array(Arbitrary.schema(Poll), { maxLength: 9 })],
    ([polls]) =>
      Effect.scoped(Effect.gen(function* () {
        const { requests, url } = yield* startChangeFeedStub(({ query }, index) => {
          const poll = polls[index] ?? total
          if (typeof poll === "string") return makeRefusal(poll) ?? { status: 502, body: "<html>" }
          const number = numberOf(query.get("after"))
          const results = numbersTo(number + poll).slice(number).map(makeStubChange)
          const body = { count: poll, results, cursor: makeStubCursor(number + poll), has_more: poll > 0 }
          return { status: 200, body }
        })
        assert.deepStrictEqual(
          yield* follow(url, total, { via: "polling", interval: "1 millis" }),
          numbersTo(total),
        )
        assert.isTrue(requests.every(({ path, query }) => path === "/v1/changes" && query.get("limit") === "1000"))
      })),
    { arbitrary: { runs: getInputCount(100) } },
  )

  it.effect("sends the query, the newest cursor and the key (guides/changes)", () =>
    Effect.gen(function* () {
      const { requests, url } = yield* startChangeFeedStub(({ query }) => ({
        events: formatChangeEvent(numberOf(query.get("after")) + 1),
        ending: "end",
      }))
      const { changes } = yield* makeFetchClient(url)
      const query = {
        dataset: ["split_status", "news"],
        kind: "added",
        ticker: ["A", "B"],
        after: makeStubCursor(4),
      } as const
      yield* Stream.runDrain(Stream.take(changes.follow(query), 2))
      assert.deepStrictEqual(
        requests.map(({ path, query }) => [path, Object.fromEntries(query)]),
        [makeStubCursor(4), makeStubCursor(5)].map((after) => [
          "/v1/changes/stream",
          { dataset: "split_status,news", kind: "added", ticker: "A,B", after },
        ]),
      )
      assert.strictEqual(requests[0]?.headers["authorization"], "Bearer key")
      assert.match(String(requests[0]?.headers["accept"]), /^text\/event-stream/)
    }))

  it.effect("closes the connection when the consumer stops (guides/changes)", () =>
    Effect.gen(function* () {
      const { requests, url } = yield* startChangeFeedStub(() => ({ events: formatChangeEvent(1), ending: "open" }))
      yield* follow(url, 1)
      yield* Effect.promise(() => requests[0]?.closed ?? assert.fail("There was no request"))
    }))

  it.effect("stops reading while the consumer is busy (guides/changes)", () =>
    Effect.gen(function* () {
      const block = numbersTo(2_000).map(formatChangeEvent).join("")
      let blocks = 0
      const { url } = yield* startChangeFeedStub(() => ({
        events: (response) => {
          const write = () => {
            blocks += 1
            if (blocks < 1_000) response.write(block, write)
          }
          write()
        },
        ending: "open",
      }))
      const { changes } = yield* makeFetchClient(url)
      let before = -1
      const isStuck = Effect.sync(() => {
        const isUnchanged = blocks === before
        before = blocks
        return isUnchanged
      })
      let found = 0
      const busy = Effect.suspend(() => {
        found += 1
        return found > 1
          ? Effect.void
          : Effect.repeat(isStuck, { until: (stuck) => stuck, schedule: Schedule.spaced("300 millis") })
      })
      const wanted = 5_000
      yield* changes.follow().pipe(Stream.tap(() => busy), Stream.take(wanted), Stream.runDrain)
      assert.strictEqual(found, wanted)
      // All blocks together would be 500 MB. The sockets and buffers hold only a few megabytes of them.
      assert.isBelow(blocks, 100)
    }))

  const refusals: ReadonlyArray<readonly [string, string, FeedStubReply]> = [
    ["CursorExpired", "a 410", { status: 410, body: expiredCursorError }],
    ["CursorExpired", "a gap", { events: formatGapEvents(), ending: "end" }],
    ["TooManyStreams", "a 429 with a long Retry-After", {
      status: 429,
      body: makeErrorBody("too_many_streams", { limit: 10 }),
      headers: { "retry-after": "30" },
    }],
    ["InvalidApiKey", "a 401", { status: 401, body: makeErrorBody("invalid_api_key") }],
    ["InsufficientCredits", "a 402", {
      status: 402,
      body: makeErrorBody("insufficient_credits", { reason: "balance_exhausted", balance_microdollars: 0 }),
    }],
    ["UnknownCode", "a code of a newer service", { status: 409, body: makeErrorBody("new_code") }],
    ["UnreadableAnswer", "a page of another program", { status: 200, body: "<html>" }],
    ["UnreadableAnswer", "a response of another endpoint", { status: 200, body: { count: 0 } }],
    ["UnreadableAnswer", "a change without its fields", {
      events: `event: change\ndata: {"cursor":"1"}\n\n`,
      ending: "open",
    }],
    ["UnreadableAnswer", "a change that is not JSON", { events: "event: change\ndata: {\n\n", ending: "open" }],
  ]
  it.effect.each(refusals)("fails with %s after %s (§7.2)", ([tag, , reply]) =>
    Effect.gen(function* () {
      const { requests, url } = yield* startChangeFeedStub((_, index) =>
        index === 0 ? { events: formatChangeEvent(1), ending: "end" } : reply
      )
      const { changes } = yield* makeFetchClient(url)
      const seen: Array<string> = []
      const error = yield* changes.follow().pipe(
        Stream.runForEach(({ cursor }) => Effect.sync(() => void seen.push(cursor))),
        Effect.flip,
      )
      assert.strictEqual(error._tag, tag)
      assert.deepStrictEqual([seen, requests.length], [[makeStubCursor(1)], 2])
      if (error._tag === "CursorExpired") assert.strictEqual(error.error.details.restart, "/v1/changes?after=now")
    }))

  it.effect.each(["key_revoked", "access_changed", "out_of_credit", "new_reason"])(
    "reconnects after an end event with the reason %s, and fails with the error that the service then returns (guides/changes)",
    (reason) =>
      Effect.gen(function* () {
        const { requests, url } = yield* startChangeFeedStub((_, index) =>
          index === 0
            ? { events: formatChangeEvent(1) + formatEndEvent(reason), ending: "open" }
            : { status: 401, body: makeErrorBody("api_key_disabled") }
        )
        const error = yield* Effect.flip(follow(url, 2))
        assert.strictEqual(error._tag, "ApiKeyDisabled")
        assert.strictEqual(requests[1]?.query.get("after"), makeStubCursor(1))
      }),
  )

  it.effect("keeps unknown values and long numbers of a change (§9.3, D16)", () =>
    Effect.gen(function* () {
      const change = JSON.stringify({ ...makeStubChange(1), kind: "merged" }).replace("0.5", "12345678901234567890.25")
      const { url } = yield* startChangeFeedStub(() => ({
        events: `event: change\ndata: ${change}\n\n`,
        ending: "open",
      }))
      const { changes } = yield* makeFetchClient(url)
      const [found] = yield* Stream.runCollect(Stream.take(changes.follow(), 1))
      assert.deepStrictEqual([found?.kind, found?.row?.["price"]], ["merged", "12345678901234567890.25"])
    }))

  it.effect("delivers changes to the Promise client as JSON, and closes the connection after `break` (guides/changes)", () =>
    Effect.gen(function* () {
      const { requests, url } = yield* startChangeFeedStub(({ query }) => ({
        events: formatChangeEvent(numberOf(query.get("after")) + 1) +
          formatChangeEvent(numberOf(query.get("after")) + 2),
        ending: "end",
      }))
      const tickerline = createClient({ baseUrl: url, apiKey: "key", longestWaitMs: 1 })
      const found = yield* Effect.promise(async () => {
        const found: Array<unknown> = []
        for await (const change of tickerline.changes.follow({ dataset: "split_status" })) {
          found.push(change)
          if (found.length === 3) break
        }
        return found
      })
      assert.deepStrictEqual(found, [1, 2, 3].map(makeStubChange))
      yield* Effect.promise(() => requests[1]?.closed ?? assert.fail("There was no second request"))
    }))

  it.effect.each(["stream", "polling"] as const)(
    "rejects in a waiting Promise client when its signal is aborted, with the transport %s (guides/changes)",
    (via) =>
      Effect.gen(function* () {
        const { requests, url } = yield* startChangeFeedStub(({ path }) =>
          path === "/v1/changes"
            ? { status: 200, body: { count: 0, results: [], cursor: makeStubCursor(1), has_more: false } }
            : { events: formatHeartbeat(), ending: "open" }
        )
        const tickerline = createClient({ baseUrl: url, apiKey: "key" })
        const controller = new AbortController()
        const reason = new Error("stop")
        const rejection = yield* Effect.forkChild(Effect.promise(async () => {
          try {
            for await (
              const _ of tickerline.changes.follow({}, { via, signal: controller.signal, intervalMs: 60_000 })
            );
          } catch (error) {
            return error
          }
          return undefined
        }))
        yield* waitUntil(() => requests.length === 1)
        controller.abort(reason)
        assert.strictEqual(yield* Fiber.join(rejection), reason)
        yield* Effect.promise(() => requests[0]?.closed ?? assert.fail("There was no request"))
        const again = tickerline.changes.follow({}, { signal: controller.signal })[Symbol.asyncIterator]()
        assert.strictEqual(
          yield* awaitRejection(() => again.next()),
          reason,
        )
      }),
  )

  it.effect("rejects in the Promise client with the error of the service (guides/changes)", () =>
    Effect.gen(function* () {
      const { url } = yield* startChangeFeedStub(() => ({
        events: formatChangeEvent(1) + formatGapEvents(),
        ending: "end",
      }))
      const tickerline = createClient({ baseUrl: url, apiKey: "key" })
      const changes = tickerline.changes.follow()[Symbol.asyncIterator]()
      assert.deepStrictEqual(yield* Effect.promise(() => changes.next()), { done: false, value: makeStubChange(1) })
      const error = yield* awaitRejection(() => changes.next())
      if (!TickerlineError.is(error, "cursor_expired")) return assert.fail(String(error))
      assert.deepStrictEqual([error.status, error.details.earliest], [410, expiredCursorError.error.details.earliest])
    }))
})

type Controller = ReadableStreamDefaultController<Uint8Array>
/** A status with a body, or a function that sends the bytes of a stream. */
type ScriptedReply = Extract<FeedStubReply, { readonly status: number }> | ((stream: Controller) => void)

/** Returns a reply that sends events, and then either ends or stays open. */
const sendEvents = (text: string, ending: "end" | "open"): ScriptedReply => (stream) => {
  stream.enqueue(Buffer.from(text))
  if (ending === "end") stream.close()
}

/**
 * Returns an HTTP client with scripted responses. `reply(index)` returns the response to the request with that index.
 */
const makeScript = (reply: (index: number) => ScriptedReply) => {
  const urls: Array<string> = []
  const toResponse = (reply: ScriptedReply) => {
    if (typeof reply !== "function") return new Response(JSON.stringify(reply.body), reply)
    const headers = { "content-type": "text/event-stream; charset=utf-8" }
    return new Response(new ReadableStream({ start: reply }), { headers })
  }
  const client = HttpClient.make((request) =>
    Effect.sync(() => {
      urls.push(request.url)
      return HttpClientResponse.fromWeb(request, toResponse(reply(urls.length - 1)))
    })
  )
  return { urls, layer: Layer.succeed(HttpClient.HttpClient, client) }
}

/** Follows scripted responses in a background fiber. */
const followScript = Effect.fnUntraced(function* (
  script: ReturnType<typeof makeScript>,
  { options = {}, ...clientOptions }: Partial<ClientOptions> & { readonly options?: FollowOptions } = {},
) {
  const client = makeClient({ baseUrl: "http://x.example", apiKey: Redacted.make("key"), ...clientOptions })
  const { changes } = yield* Effect.provide(client, script.layer)
  const found: Array<string> = []
  const run = Stream.runForEach(changes.follow({}, options), ({ cursor }) => Effect.sync(() => void found.push(cursor)))
  const fiber = yield* Effect.forkChild(Effect.result(run))
  return { fiber, found }
})

/** Waits a few event loop turns until the bytes of a scripted response have arrived. */
const settle = Effect.promise(() => new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve))))

/** Advances the clock. Waits before and afterwards for scripted bytes to arrive. */
const advance = (duration: Parameters<typeof TestClock.adjust>[0]) =>
  Effect.andThen(Effect.andThen(settle, TestClock.adjust(duration)), settle)

describe("A follower", () => {
  it.effect("considers a connection lost after 45 seconds of silence, not earlier (guides/changes)", () =>
    Effect.gen(function* () {
      const script = makeScript(() => sendEvents(formatChangeEvent(1), "open"))
      const { fiber, found } = yield* followScript(script)
      yield* advance("44 seconds")
      assert.deepStrictEqual([script.urls.length, found], [1, [makeStubCursor(1)]])
      yield* advance("2 seconds")
      assert.strictEqual(script.urls.length, 2)
      yield* Fiber.interrupt(fiber)
    }))

  it.effect("waits for Retry-After, and fails if it exceeds longestWait (D18)", () =>
    Effect.gen(function* () {
      const limited = (after: string): ScriptedReply => ({
        status: 429,
        body: makeErrorBody("rate_limit_exceeded"),
        headers: { "retry-after": after },
      })
      const script = makeScript((index) =>
        index === 0 ? sendEvents(formatChangeEvent(1), "end") : limited(index === 1 ? "20" : "31")
      )
      const { fiber } = yield* followScript(script)
      yield* advance("250 millis")
      assert.strictEqual(script.urls.length, 2)
      yield* advance("19749 millis")
      assert.strictEqual(script.urls.length, 2)
      yield* advance("3 seconds")
      const result = yield* Fiber.join(fiber)
      assert.strictEqual(Result.isFailure(result) ? result.failure._tag : "none", "RateLimitExceeded")
      assert.strictEqual(script.urls.length, 3)
    }))

  it.effect("retries the first connection like any other request (guides/client)", () =>
    Effect.gen(function* () {
      const script = makeScript(() => ({ status: 503, body: makeErrorBody("data_refreshing") }))
      const { fiber } = yield* followScript(script, { retries: { times: 2 } })
      yield* advance("1 minute")
      const result = yield* Fiber.join(fiber)
      assert.strictEqual(Result.isFailure(result) ? result.failure._tag : "none", "DataRefreshing")
      assert.strictEqual(script.urls.length, 3)
    }))

  it.effect.each(["refused", "cut"])(
    "gives up after ten failures in a row: %s (guides/changes)",
    (failure) =>
      Effect.gen(function* () {
        const lost = sendEvents(formatHeartbeat(), "end")
        const refused: ScriptedReply = { status: 503, body: makeErrorBody("data_refreshing") }
        // The script contains two series of failures, separated by a change.
        const script = makeScript((index) =>
          index === 0 || index === 8
            ? sendEvents(formatChangeEvent(index + 1), "end")
            : failure === "cut"
            ? lost
            : refused
        )
        const { fiber, found } = yield* followScript(script)
        let minutes = 0
        while (fiber.pollUnsafe() === undefined && minutes < 100) {
          yield* advance("1 minute")
          minutes += 1
        }
        const result = yield* Fiber.join(fiber)
        const tag = failure === "cut" ? "NoAnswer" : "DataRefreshing"
        assert.strictEqual(Result.isFailure(result) ? result.failure._tag : "none", tag)
        assert.deepStrictEqual([found, script.urls.length], [[makeStubCursor(1), makeStubCursor(9)], 19])
      }),
  )

  it.effect("never gives up if each connection lasts for some time, even without changes (guides/changes)", () =>
    Effect.gen(function* () {
      let sendHeartbeat = () => {}
      const script = makeScript(() => (stream) => {
        sendHeartbeat = () => {
          stream.enqueue(Buffer.from(formatHeartbeat()))
          stream.close()
        }
      })
      const { fiber } = yield* followScript(script)
      yield* settle
      for (const connections of numbersTo(15)) {
        assert.strictEqual(script.urls.length, connections)
        yield* advance("15 seconds")
        sendHeartbeat()
        yield* advance("250 millis")
      }
      yield* Fiber.interrupt(fiber)
    }))

  it.effect("polls after the interval, and at once if there are more changes (guides/changes)", () =>
    Effect.gen(function* () {
      const page = (number: number, has_more: boolean): ScriptedReply => ({
        status: 200,
        body: { count: 1, results: [makeStubChange(number)], cursor: makeStubCursor(number), has_more },
      })
      const script = makeScript((index) => page(index + 1, index === 0))
      const { fiber, found } = yield* followScript(script, { options: { via: "polling", interval: "5 seconds" } })
      yield* advance("4999 millis")
      assert.deepStrictEqual(found, [1, 2].map((number) => makeStubCursor(number)))
      yield* advance("1 millis")
      assert.strictEqual(found.length, 3)
      yield* Fiber.interrupt(fiber)
    }))
})
