/** Tests `follow` of both clients against scripted servers: resumption, errors, waits and backpressure. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Arbitrary, Effect, Fiber, Layer, Redacted, Result, Schema, Stream } from "effect"
import { FetchHttpClient, HttpClient, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { type ClientOptions, type FollowOptions, makeClient } from "../../src/client/Client.ts"
import { createClient, TickerlineError } from "../../src/client/PromiseClient.ts"
import {
  cursorOf,
  expiredError,
  formatChange,
  formatEnd,
  formatGap,
  formatHeartbeat,
  makeChange,
  makeError,
  startFeedStub,
  type StubReply,
  type StubRequest,
} from "../support/ChangeFeedStub.ts"
import { waitUntil } from "../support/RawSockets.ts"
import { inputs } from "../support/Thoroughness.ts"

/** As many retries of the first connection as the longest script has refusals. */
const retries = { times: 9, longestWait: "1 millis" }

const makeFetchClient = (baseUrl: string, options: Partial<ClientOptions> = {}) =>
  Effect.provide(makeClient({ baseUrl, apiKey: Redacted.make("key"), retries, ...options }), FetchHttpClient.layer)

/** Returns the numbers of the first changes after the cursor `after`. */
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

const numbersTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1)

/** The place in the feed that a cursor of the stub names: changes up to `number` are before it. */
const numberOf = (after: string | null) => after === null ? 0 : Number.parseInt(after, 10)

/** A block of the stream: a change, or a heartbeat that may move the place on. */
const Block = Schema.Literals(["change", "change", "heartbeat", "moved"])

/** What one connection does: it refuses, or sends blocks and is cut, as a share of their bytes. */
const Connection = Schema.Struct({
  refusal: Schema.Literals(["none", "none", "none", "429", "503", "lost"]),
  blocks: Schema.Array(Block),
  cut: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 100 })),
  then: Schema.Literals(["end", "reset", "stopping", "slow"]),
})
type Connection = typeof Connection.Type

const refuse = (refusal: Connection["refusal"]): StubReply | undefined => {
  if (refusal === "429") return { status: 429, body: makeError("rate_limit_exceeded") }
  if (refusal === "503") return { status: 503, body: makeError("data_refreshing") }
  return refusal === "lost" ? { events: (response) => response.socket?.destroy(), then: "open" } : undefined
}

/** Returns the bytes of a connection, and the newest place that they name completely. */
const playConnection = (after: string | null, { blocks, cut, then }: Connection) => {
  let number = numberOf(after)
  let step = Number(after?.split(".")[1] ?? 0)
  const sent = blocks.map((block) => {
    if (block === "change") [number, step] = [number + 1, 0]
    if (block === "moved") step += 1
    const cursor = cursorOf(number, step)
    if (block === "change") return { text: formatChange(number), cursor }
    return { text: formatHeartbeat(block === "moved" ? cursor : undefined), cursor: undefined }
  })
  const end = then === "stopping" ? formatEnd("server_stopping") : then === "slow" ? formatEnd("slow_client") : ""
  const bytes = Buffer.from(`retry: 1000\n\n${sent.map(({ text }) => text).join("")}${end}`)
  return bytes.subarray(0, end === "" ? Math.round(bytes.length * cut / 100) : bytes.length)
}

/** The newest id in the complete blocks of a connection. */
const newestId = (bytes: Buffer, after: string | null) => {
  const complete = bytes.toString("utf8").split("\n\n").slice(0, -1)
  const ids = complete.flatMap((block) => [...block.matchAll(/^id: (.*)$/gm)].map(([, id = ""]) => id))
  return ids.at(-1) ?? after
}

const total = 12

layer(Layer.empty, { excludeTestServices: true })("follow", (it) => {
  it.effect.prop(
    "delivers every change once and in order, wherever connections are cut (guides/changes)",
    [Arbitrary.array(Arbitrary.schema(Connection), { maxLength: 9 })],
    ([connections]) =>
      Effect.scoped(Effect.gen(function* () {
        const expected: Array<string | null> = [null]
        const { requests, url } = yield* startFeedStub(({ query }, index) => {
          const after = query.get("after")
          const connection = connections[index]
          const refusal = connection === undefined ? undefined : refuse(connection.refusal)
          if (refusal !== undefined) {
            expected.push(after)
            return refusal
          }
          if (connection === undefined) {
            const left = numbersTo(total + 20).slice(numberOf(after))
            return { events: left.map(formatChange).join(""), then: "open" }
          }
          const events = playConnection(after, connection)
          expected.push(newestId(events, after))
          return { events, then: connection.then === "end" ? "end" : "reset" }
        })
        const found = yield* follow(url, total)
        assert.deepStrictEqual(found, numbersTo(total))
        assert.deepStrictEqual(requests.map(({ query }) => query.get("after")), expected.slice(0, requests.length))
      })),
    { arbitrary: { runs: inputs(200) } },
  )
})
