/** Tests change streams while PostgreSQL or the process stops (decision 0117). */
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { ChangeStreamLimits } from "../../src/query/history/ChangeStream.ts"
import { defaultConnectionTimeouts } from "../../src/api/ConnectionLimits.ts"
import { DedicatedPostgres, sampleDedicatedLayer } from "../support/DedicatedPostgres.ts"
import { type EventStream, openEventStream, waitForCondition } from "../support/EventStreams.ts"
import { endProcess, startCommandProcess } from "../support/Processes.ts"
import * as Service from "../support/Service.ts"
import { requestOverWire, startServiceInstance } from "../support/ServiceInstances.ts"

// @module-tag slow

const limits = Layer.succeed(ChangeStreamLimits, { ...ChangeStreamLimits.defaultValue(), heartbeatMillis: 100 })

const database = Service.TestKeys.layer.pipe(
  Layer.provideMerge(sampleDedicatedLayer),
  Layer.provideMerge(NodeCrypto.layer),
  Layer.provideMerge(limits),
)

/** Inserts a row. If the connection breaks, retries even though the row may already be stored. */
const insertTicker = Effect.fnUntraced(function* (ticker: string) {
  const sql = yield* SqlClient.SqlClient
  yield* Effect.retry(
    sql`insert into historical_tickers (ticker, former_ticker) values (${ticker}, 'FORMER') on conflict do nothing`,
    { schedule: Schedule.spaced("50 millis"), times: 1_000 },
  )
})

const tickersOf = ({ changes }: EventStream): ReadonlyArray<unknown> =>
  changes.map(({ data }) => Service.valueAt(JSON.parse(data), "key", "ticker"))

const parseEnd = ({ end }: EventStream): unknown => JSON.parse(end?.data ?? "null")

layer(database, { excludeTestServices: true, timeout: "180 seconds" })("Streams of changes", (it) => {
  it.effect("stay open while PostgreSQL is down, and miss no change (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const server = yield* DedicatedPostgres
      const { pro, ultimate } = yield* Service.TestKeys
      const port = yield* startServiceInstance()
      const live = yield* openEventStream(port, "after=now&dataset=historical_tickers", { key: ultimate })
      const filtered = yield* openEventStream(port, "after=now&ticker=DOWN2", { key: pro })
      yield* insertTicker("DOWN1")
      yield* waitForCondition("the first change", () => live.changes.length === 1)
      for (const ticker of ["DOWN2", "DOWN3"]) {
        yield* server.stop("SIGKILL")
        const heartbeats = [live.comments, filtered.comments]
        yield* waitForCondition("heartbeats", () => live.comments > (heartbeats[0] ?? 0) + 5)
        yield* waitForCondition("heartbeats", () => filtered.comments > (heartbeats[1] ?? 0) + 5)
        yield* server.start
        yield* insertTicker(ticker)
        yield* waitForCondition(ticker, () => tickersOf(live).includes(ticker))
      }
      yield* waitForCondition("filtered", () => filtered.changes.length === 1)
      assert.deepStrictEqual([tickersOf(live), tickersOf(filtered)], [["DOWN1", "DOWN2", "DOWN3"], ["DOWN2"]])
      assert.deepStrictEqual([live.end, filtered.end, live.isClosed, filtered.isClosed], [
        undefined,
        undefined,
        false,
        false,
      ])
    }).pipe(Effect.scoped))

  it.effect("outlive the time limit for responses (operations/request-limits)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* Service.TestKeys
      // The timeout is long enough that even a busy machine has begun to send the response.
      const timeouts = { ...defaultConnectionTimeouts, response: Duration.seconds(2) }
      const port = yield* startServiceInstance({}, { port: 0 }, { timeouts })
      const stream = yield* openEventStream(port, "after=now", { key: ultimate })
      yield* waitForCondition("heartbeats", () => stream.comments > 50 || stream.isClosed)
      assert.isFalse(stream.isClosed)
      yield* insertTicker("LATE")
      yield* waitForCondition("the change", () => stream.changes.length === 1)
    }).pipe(Effect.scoped))

  it.effect("end with their cursor when the process gets SIGTERM, and the process exits soon afterwards (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const { url } = yield* DedicatedPostgres
      const { pro, ultimate } = yield* Service.TestKeys
      const port = yield* chooseFreePort
      const running = yield* startCommandProcess(["serve"], { DATABASE_URL: url, PORT: String(port) })
      yield* Effect.retry(
        Effect.flatMap(
          requestOverWire(port, "/health/ready", ""),
          ({ status }) => status === 200 ? Effect.void : Effect.fail("not yet"),
        ),
        { schedule: Schedule.spaced("50 millis"), times: 1_600 },
      )
      const streams = yield* Effect.forEach(
        [ultimate, ultimate, pro],
        (key) => openEventStream(port, "after=now&dataset=historical_tickers", { key }),
      )
      yield* insertTicker("TERM")
      yield* waitForCondition("changes", () => streams.every(({ changes }) => changes.length === 1))
      const ended = yield* Effect.timeout(endProcess(running, "SIGTERM"), "30 seconds")
      assert.strictEqual(ended.code, 0, ended.err)
      yield* insertTicker("AFTER")
      const other = yield* startServiceInstance()
      for (const stream of streams) {
        yield* waitForCondition("closed", () => stream.isClosed)
        assert.strictEqual(Service.valueAt(parseEnd(stream), "reason"), "server_stopping")
        const resumed = yield* openEventStream(
          other,
          `dataset=historical_tickers&after=${String(Service.valueAt(parseEnd(stream), "cursor"))}`,
          { key: ultimate },
        )
        yield* waitForCondition("resumed", () => resumed.changes.length === 1)
        assert.deepStrictEqual(tickersOf(resumed), ["AFTER"])
      }
      const sql = yield* SqlClient.SqlClient
      const [usage] = yield* sql<{ readonly rows: number; readonly bytes: number }>`
        select coalesce(sum(records_returned), 0)::int as rows, coalesce(sum(bytes), 0)::int as bytes
        from usage_requests where endpoint = '/v1/changes/stream' and requested_at > now() - interval '1 minute'
          and request_id = any(${streams.map(({ headers }) => String(headers["x-request-id"]))})
      `
      assert.deepStrictEqual(usage, {
        rows: 3,
        bytes: streams.reduce((sum, { changeBytes }) => sum + changeBytes, 0),
      })
    }).pipe(Effect.scoped))
})
