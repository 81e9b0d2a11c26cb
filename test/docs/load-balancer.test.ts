/** Runs the HAProxy example from the documentation verbatim, in front of real service processes. */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { Array, Duration, Effect, Fiber, Layer, Redacted, Schedule } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { generateApiKey } from "../../src/accounts/keys/ApiKeyFormat.ts"
import { databaseClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { ChangeStreamLimits } from "../../src/query/history/ChangeStream.ts"
import { defaultConnectionTimeouts, keepAliveTimeout } from "../../src/api/ConnectionLimits.ts"
import { readCodeBlocks } from "../support/CodeBlocks.ts"
import { formatContentDigest } from "../support/ListDownloads.ts"
import * as HaProxy from "../support/HaProxy.ts"
import * as Service from "../support/Service.ts"
import { startServiceProcess } from "../support/ServiceInstances.ts"

// @module-tag slow

const file = "docs/operations/load-balancer.md"

/** Returns the HAProxy code block on the page. The page must have only one. */
const readExample = () => {
  const [block, ...others] = readCodeBlocks(file).filter(({ language }) => language === "haproxy")
  assert.strictEqual(others.length, 0)
  return block?.text ?? ""
}

/** Replaces the addresses and the certificate path in the example, which must contain each of them. */
const substitute = (values: Readonly<Record<string, string>>) =>
  Object.entries(values).reduce((text, [documented, actual]) => {
    assert.include(text, documented)
    return text.replaceAll(documented, actual)
  }, readExample())

/** Creates a database with the sample market and three accounts. Returns one key for each account. */
const makeDatabase = Effect.gen(function* () {
  const url = yield* Service.copySampleDatabase
  const context = yield* Layer.build(databaseClientLayer({ url, applicationName: "tickerline-test" }))
  const keys = yield* Effect.forEach(
    ["first", "second", "third"],
    (name) => Effect.provide(Service.ensureAccountWithKey(name, "ultimate"), context),
  )
  return { url: Redacted.value(url), keys, context }
})

/** Starts a service process that trusts the load balancer. */
const startService = Effect.fnUntraced(function* (url: string, settings: Readonly<Record<string, string>> = {}) {
  const metricsPort = yield* chooseFreePort
  const service = yield* startServiceProcess(url, {
    TRUSTED_PROXIES: "127.0.0.1",
    METRICS_PORT: String(metricsPort),
    ...settings,
  })
  return { ...service, metricsPort }
})

/** Starts HAProxy with the example configuration, in front of the processes at the two given ports. */
const startExample = Effect.fnUntraced(function* ([first, second]: readonly [number, number]) {
  const { certificate, file } = yield* HaProxy.makeCertificate
  const port = yield* chooseFreePort
  const { waitForStates } = yield* HaProxy.startHaproxy(substitute({
    "bind :443": `bind 127.0.0.1:${port}`,
    "/etc/haproxy/api.pem": file,
    "10.0.0.11:8080": `127.0.0.1:${first}`,
    "10.0.0.12:8080": `127.0.0.1:${second}`,
  }))
  yield* waitForStates("tickerline", { a: "UP", b: "UP" })
  const send = (path: string, request: HaProxy.ProxiedRequest) =>
    HaProxy.requestOverTls({ certificate, port }, path, request)
  /** Sends the requests concurrently, so that all arrive within one minute. Returns their sorted statuses. */
  const sendAll = (requests: ReadonlyArray<HaProxy.ProxiedRequest>) =>
    Effect.map(
      Effect.forEach(requests, (request) => send("/v1/account", request), { concurrency: "unbounded" }),
      (responses) => responses.map(({ status }) => status).toSorted(),
    )
  return { send, sendAll, waitForStates }
})

/** The delay is long enough that a process still responds at the end of the test. */
const delay = { SHUTDOWN_DELAY: "10 minutes" }

const nameWithReason = (title: string) => `${title}${HaProxy.haproxyTestSuffix}`

/** The number of wrong keys per minute that a process accepts from one address before it blocks the address. */
const maxWrongKeys = 30

/** Generates a key that belongs to no account. */
const wrongKey = Effect.orDie(Effect.map(generateApiKey, Redacted.value))

layer(Layer.mergeAll(NodeServices.layer, NodeCrypto.layer), { excludeTestServices: true })(
  "The HAProxy example",
  (it) => {
    it.effect.skipIf(HaProxy.isHaproxyMissing)(
      nameWithReason("lets the service count the wrong keys of each client apart (D18)"),
      () =>
        Effect.gen(function* () {
          const { keys: [first = "", second = "", third = ""], url } = yield* makeDatabase
          // Each process counts separately, so both servers in the example point to the same process.
          const { port } = yield* startService(url)
          const { send, sendAll } = yield* startExample([port, port])
          assert.strictEqual((yield* send("/v1/account", { key: second, from: "127.0.0.4" })).status, 200)
          const wrong = yield* Effect.replicateEffect(wrongKey, maxWrongKeys + 1)
          const sent = yield* sendAll(wrong.map((key) => ({ key, from: "127.0.0.2" })))
          assert.deepStrictEqual(sent, [...Array.replicate(401, maxWrongKeys), 429])
          const { status, text } = yield* send("/v1/account", { key: first, from: "127.0.0.3" })
          assert.strictEqual(status, 200, text)
          const forgedAddresses = ["203.0.113.9", "127.0.0.1", "127.0.0.3, 127.0.0.1", "", "unknown", [
            "203.0.113.9",
            "1.2.3.4",
          ]]
          const forgedHeaders = forgedAddresses.map((value) => ({
            "X-Forwarded-For": value,
            Forwarded: "for=203.0.113.9",
          }))
          const statuses = yield* sendAll(forgedHeaders.map((headers) => ({ key: third, from: "127.0.0.2", headers })))
          assert.deepStrictEqual(statuses, Array.replicate(429, forgedAddresses.length))
          // A client that forges another client's address cannot get that client blocked.
          const headers = { "X-Forwarded-For": "127.0.0.6" }
          yield* sendAll(Array.replicate({ key: "nonsense", from: "127.0.0.5", headers }, maxWrongKeys + 1))
          assert.strictEqual((yield* send("/v1/account", { key: third, from: "127.0.0.6" })).status, 200)
        }),
    )

    it.effect.skipIf(HaProxy.isHaproxyMissing)(
      nameWithReason("passes on exports with their trailers, event streams and /mcp (operations/load-balancer)"),
      () =>
        Effect.gen(function* () {
          const { context, keys: [key = ""], url } = yield* makeDatabase
          const { port } = yield* startService(url)
          const { send } = yield* startExample([port, port])
          const from = "127.0.0.2"

          const exported = yield* send("/v1/gap-stats?limit=all&format=csv", { key, from })
          assert.deepStrictEqual([exported.status, exported.isComplete], [200, true])
          assert.isAbove(exported.text.length, 100_000)
          assert.strictEqual(exported.trailers["unencoded-digest"], formatContentDigest(Buffer.from(exported.text)))
          assert.match(exported.trailers["x-cost-microdollars"] ?? "", /^\d+$/)
          assert.strictEqual(exported.headers["strict-transport-security"], "max-age=31536000")

          const stream = yield* Effect.forkChild(
            send("/v1/changes/stream?after=now&ticker=LBTEST", { key, from, until: /LBTEST/ }),
          )
          const insert = Effect.flatMap(SqlClient.SqlClient, (sql) =>
            sql`insert into news (id, ticker, form_type, filed_at, created_at, last_updated)
            values (${SecureRandom.uuidV7Unsafe()}, 'LBTEST', '8-K', '2026-01-05', '2026-01-05', '2026-01-05')`)
          // Repeats the insert until the stream has started and delivers one of the rows.
          yield* Effect.repeat(Effect.provide(insert, context), {
            schedule: Schedule.spaced("200 millis"),
            until: () =>
              stream.pollUnsafe() !== undefined,
          })
          const { headers, status } = yield* Fiber.join(stream)
          assert.deepStrictEqual([status, headers["content-type"]], [200, "text/event-stream"])

          const ping = yield* send("/mcp", {
            key,
            from,
            body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }),
            headers: { "Content-Type": "application/json", "MCP-Protocol-Version": "2025-06-18" },
          })
          assert.deepStrictEqual([ping.status, JSON.parse(ping.text)], [200, { jsonrpc: "2.0", id: 1, result: {} }])
        }),
    )

    it.effect.skipIf(HaProxy.isHaproxyMissing)(
      nameWithReason(
        "sends no request to a process that shuts down, and shows the service's 503 if none is ready (operations/upgrades)",
      ),
      () =>
        Effect.gen(function* () {
          const { keys: [key = ""], url } = yield* makeDatabase
          const [first, second] = yield* Effect.all([startService(url, delay), startService(url, delay)])
          const { send, sendAll, waitForStates } = yield* startExample([first.port, second.port])
          const count = Effect.all([
            HaProxy.countResponsesOf(first.metricsPort),
            HaProxy.countResponsesOf(second.metricsPort),
          ])
          const sendTen = sendAll(Array.replicate({ key, from: "127.0.0.2" }, 10))
          const allOk = Array.replicate(200, 10)
          assert.deepStrictEqual(yield* sendTen, allOk)
          const [firstBefore, secondBefore] = yield* count
          assert.isAbove(firstBefore, 0)
          assert.isAbove(secondBefore, 0)

          yield* Effect.sync(() => first.running.child.kill("SIGTERM"))
          yield* waitForStates("tickerline", { a: "DOWN", b: "UP" })
          const [firstStopping] = yield* count
          assert.deepStrictEqual(yield* sendTen, allOk)
          assert.deepStrictEqual(yield* count, [firstStopping, secondBefore + 10 + firstBefore - firstStopping])

          yield* Effect.sync(() => second.running.child.kill("SIGTERM"))
          yield* waitForStates("tickerline", { a: "DOWN", b: "DOWN" })
          yield* waitForStates("alive", { a: "UP", b: "UP" })
          const { status, text } = yield* send("/health/ready", { key, from: "127.0.0.2" })
          assert.strictEqual(status, 503)
          assert.include(text, "the service is shutting down")
        }),
    )
  },
)

/** Reads a timeout from the example, in milliseconds. */
const readTimeout = (example: string, name: string) =>
  Number(new RegExp(`^  timeout ${name} (\\d+)s$`, "m").exec(example)?.[1]) * 1000

describe("The timeouts of the HAProxy example", () => {
  it("fit those of the service (operations/load-balancer)", () => {
    const example = readExample()
    const response = Duration.toMillis(defaultConnectionTimeouts.response)
    assert.isAbove(readTimeout(example, "server"), response)
    assert.isAbove(readTimeout(example, "client"), response)
    assert.isBelow(readTimeout(example, "http-keep-alive"), Duration.toMillis(keepAliveTimeout))
    assert.isAtMost(readTimeout(example, "http-request"), Duration.toMillis(defaultConnectionTimeouts.headers))
    assert.isBelow(ChangeStreamLimits.defaultValue().heartbeatMillis, readTimeout(example, "server"))
  })
})
