/**
 * Tests that slow clients are disconnected in time, that their cursors are closed, and that their requests are handled
 * one at a time.
 */
import { assert, layer } from "@effect/vitest"
import { ConfigProvider, Duration, Effect, Layer, Predicate, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { defaultConnectionTimeouts } from "../../src/api/ConnectionLimits.ts"
import { valueAt } from "../support/DocumentedEndpoints.ts"
import * as ListDownloads from "../support/ListDownloads.ts"
import * as ServiceInstances from "../support/ServiceInstances.ts"
import * as RawSockets from "../support/RawSockets.ts"
import { ensureAccountWithKey, TestKeys } from "../support/Service.ts"

// @module-tag slow

const { assertServiceResponds, livenessRequestHead, ServicePort } = RawSockets

const shortTimeouts = {
  headers: Duration.millis(300),
  request: Duration.millis(600),
  // The timeout is long enough for a slow machine to read and encode 15 MB.
  response: Duration.seconds(5),
  shutdown: Duration.seconds(1),
}

/** The service has only one database connection. If a slow client held it, all other clients would be blocked. */
const singleConnection = { DATABASE_POOL_SIZE: "1" }

/** Inserts enough news that a page does not fit into the buffers between the service and a client. */
const insertLongNews = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  sql`
    insert into news (id, ticker, form_type, title, body, filed_at, created_at, last_updated)
    select 'long ' || g, 'LONG', 'news', 'Long', repeat('long ', 100000), '2026-01-02', '2026-01-02', '2026-01-02'
    from generate_series(1, 60) as g
  `)

const running = Layer.effectDiscard(insertLongNews).pipe(
  Layer.provideMerge(RawSockets.socketServiceLayer(shortTimeouts, singleConnection)),
  Layer.provide(ConfigProvider.layerAdd(ConfigProvider.fromUnknown(singleConnection), { asPrimary: true })),
)

/** Sends `beginning` in one piece, then single bytes until the service disconnects. Returns the responses. */
const sendByteByByte = (beginning: string, bytes: string) =>
  Effect.scoped(Effect.gen(function* () {
    const { ended, received, socket } = yield* RawSockets.openConnection(yield* ServicePort)
    socket.write(beginning)
    const rest = [...bytes]
    yield* Effect.acquireRelease(
      Effect.sync(() => setInterval(() => socket.writable && socket.write(rest.shift() ?? "x"), 30)),
      (timer) => Effect.sync(() => clearInterval(timer)),
    )
    yield* ended
    return RawSockets.parseResponses(received())
  }))

const formatExportRequest = (key: string) =>
  `GET /v1/news?limit=all&format=ndjson HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\n\r\n`

/** Formats a request for 15 MB of news, which is more than the buffers can hold. */
const formatNewsRequest = (key: string, id: string) =>
  `GET /v1/news?ticker=LONG&limit=30 HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nX-Request-Id: ${id}\r\n\r\n`

/** Connects a client that receives the start of a response, then reads `bytesPerRead` bytes every 30 ms. */
const openSlowClient = (bytes: string, bytesPerRead: number) =>
  Effect.gen(function* () {
    const { socket } = yield* RawSockets.openConnection(yield* ServicePort)
    yield* Effect.callback<void>((resume) => {
      socket.removeAllListeners("data").once("data", () => {
        socket.pause()
        resume(Effect.void)
      })
      socket.write(bytes)
    }).pipe(Effect.timeout("30 seconds"))
    yield* Effect.acquireRelease(
      Effect.sync(() => setInterval(() => bytesPerRead > 0 && socket.read(bytesPerRead), 30)),
      (timer) => Effect.sync(() => clearInterval(timer)),
    )
    return socket
  })

/** Reads the request ids in an account's usage, in alphabetical order. */
const readRequestIds = Effect.fnUntraced(function* (key: string) {
  const { text } = yield* ServiceInstances.requestOverWire(
    yield* ServicePort,
    "/v1/usage?endpoint=/v1/news,/v1/screener",
    key,
  )
  const rows = valueAt(JSON.parse(text), "results")
  return Array.isArray(rows)
    ? rows.filter(Predicate.isObject).map((row) => String(valueAt(row, "request_id"))).toSorted()
    : []
})

layer(running, { excludeTestServices: true, timeout: "60 seconds" })("The service", (it) => {
  it.effect("limits the time for headers, request and response by default (SECURITY.md)", () =>
    Effect.sync(() => {
      const { headers, request, response } = defaultConnectionTimeouts
      assert.deepStrictEqual([headers, request, response].map(Duration.toSeconds), [10, 30, 180])
    }))

  it.effect.each(
    [
      ["a request line", "", `GET /${"x".repeat(1000)}`],
      ["headers", livenessRequestHead, `X-Long: ${"x".repeat(1000)}`],
      ["a body", `${livenessRequestHead}Content-Length: 1000\r\n\r\n`, "x".repeat(1000)],
      ["chunks", `${livenessRequestHead}Transfer-Encoding: chunked\r\n\r\n`, "1\r\nx\r\n".repeat(300)],
    ] as const,
  )(
    "responds with 408 to a client that sends %s byte by byte, and disconnects it (SECURITY.md)",
    ([, beginning, bytes]) =>
      Effect.gen(function* () {
        RawSockets.assertSingleError(yield* sendByteByByte(beginning, bytes), 408)
        yield* assertServiceResponds
      }),
  )

  it.effect.each(
    [
      ["a head", "Host: x\r\n"],
      ["a body", "Host: x\r\nContent-Length: 1000\r\n\r\nx"],
    ] as const,
  )(
    "sends the headers of a deprecated endpoint with the 408 for %s that never ends (§9.4, D14)",
    ([, rest]) =>
      Effect.gen(function* () {
        const head = `GET /v1/historical-tickers?ticker=FB HTTP/1.1\r\nX-Request-Id: late\r\n${rest}`
        const responses = yield* sendByteByByte(head, "")
        RawSockets.assertSingleError(responses, 408)
        const { deprecation, link, "x-request-id": id } = responses[0]?.headers ?? {}
        assert.deepStrictEqual([deprecation, id], ["@1793491200", "late"])
        assert.include(link, `</v1/ticker-changes>; rel="successor-version"`)
      }),
  )

  it.effect("disconnects two hundred clients that send nothing (SECURITY.md)", () =>
    Effect.gen(function* () {
      const port = yield* ServicePort
      const silent = Effect.scoped(
        Effect.flatMap(
          RawSockets.openConnection(port),
          ({ ended, received }) => Effect.map(ended, () => RawSockets.parseResponses(received())),
        ),
      )
      const all = yield* Effect.all(Array.from({ length: 200 }, () => silent), { concurrency: 200 })
      all.forEach((responses) => RawSockets.assertSingleError(responses, 408))
      yield* assertServiceResponds
    }))

  it.effect.each(
    [["reads nothing", 0], ["reads a shortTimeouts now and then", 100]] as const,
  )(
    "disconnects a client that %s of a long response, and serves other clients meanwhile (SECURITY.md)",
    ([, bytesPerRead]) =>
      Effect.gen(function* () {
        const port = yield* ServicePort
        const { pro } = yield* TestKeys
        const socket = yield* openSlowClient(formatNewsRequest(pro, "slow"), bytesPerRead)
        const other = yield* ServiceInstances.requestOverWire(port, "/v1/news?ticker=LONG&limit=1", pro)
        assert.strictEqual(other.status, 200)
        assert.isTrue(RawSockets.isServerSocketOpen(port, socket), "the slow client was still being answered")
        yield* RawSockets.waitUntilServerSocketCloses(port, socket)
        yield* assertServiceResponds
      }),
  )

  it.effect("lets a client that keeps reading take longer for an export than the response timeout (SECURITY.md)", () =>
    Effect.gen(function* () {
      const port = yield* ServicePort
      const { pro } = yield* TestKeys
      const began = performance.now()
      const response = yield* ListDownloads.startPausedDownload(port, "/v1/news?limit=all&format=ndjson", pro)
      const hasTaken = () => performance.now() - began > 2.5 * Duration.toMillis(shortTimeouts.response)
      yield* Effect.sync(() => response.read()).pipe(
        Effect.repeat({ until: () => hasTaken() || response.destroyed, schedule: Schedule.spaced("60 millis") }),
      )
      assert.isFalse(response.destroyed)
      assert.isTrue(yield* ListDownloads.finishDownload(response))
      yield* assertServiceResponds
    }))

  it.effect("disconnects a client that reads almost nothing of an export, and closes its cursor (SECURITY.md)", () =>
    Effect.gen(function* () {
      const port = yield* ServicePort
      const sql = yield* SqlClient.SqlClient
      const { ultimate } = yield* TestKeys
      const socket = yield* openSlowClient(formatExportRequest(ultimate), 100)
      assert.isTrue(RawSockets.isServerSocketOpen(port, socket))
      yield* RawSockets.waitUntilServerSocketCloses(port, socket)
      const cursors = sql`select from pg_stat_activity where datname = current_database() and query ~ '^fetch'`
      yield* Effect.repeat(cursors, {
        until: (found) => found.length === 0,
        schedule: Schedule.spaced("20 millis"),
      })
      yield* assertServiceResponds
    }))

  it.effect("handles one pipelined request at a time while the client does not read (SECURITY.md)", () =>
    Effect.gen(function* () {
      const port = yield* ServicePort
      const key = yield* ensureAccountWithKey("takes nothing", "pro")
      const socket = yield* openSlowClient(["one", "two", "three"].map((id) => formatNewsRequest(key, id)).join(""), 0)
      yield* RawSockets.waitUntilServerSocketCloses(port, socket)
      yield* ServiceInstances.requestOverWire(port, "/v1/screener", key, { headers: { "X-Request-Id": "later" } })
      // Usage is recorded in response order. If `two` and `three` had been recorded, they would appear before `later`.
      const ids = yield* readRequestIds(key).pipe(
        Effect.repeat({ until: (ids) => ids.includes("later"), schedule: Schedule.spaced("100 millis") }),
        Effect.timeout("20 seconds"),
      )
      assert.deepStrictEqual(ids, ["later", "one"])
    }))
})
