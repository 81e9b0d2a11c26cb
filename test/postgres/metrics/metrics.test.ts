/**
 * Tests the Prometheus metrics, and that the dashboard, the alerts and the documentation refer only to metrics that
 * exist.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Metric, Schedule, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import { retryUntil } from "../../support/CustomerUsage.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"
import { exchangeText } from "../../support/Processes.ts"
import * as Service from "../../support/Service.ts"

// @module-tag waiting

const { startServiceInstance, requestOverWire } = ServiceInstances

/** Starts a service instance. `scrape` returns its metrics by name and labels. */
const startMeasuredInstanceWith = Effect.fnUntraced(function* (settings: Readonly<Record<string, string>>) {
  const [admin, metrics] = [yield* chooseFreePort, yield* chooseFreePort]
  // Configures a mail server so that the email metrics exist. No email is sent.
  const mail = { SMTP_URL: "smtp://127.0.0.1:1", MAIL_FROM: "notices@tickerline.example" }
  // Schedules the ingest at night, so it does not run during the test.
  const ingest = { INGEST_EDGAR: "daily 03:33 America/New_York", EDGAR_USER_AGENT: "Acme Inc ops@acme.example" }
  const replicas = { DATABASE_READ_URLS: "postgres://nobody@127.0.0.1:1/nowhere" }
  const measured = {
    METRICS_PORT: String(metrics),
    ADMIN_PORT: String(admin),
    WEBHOOKS: "on",
    ...mail,
    ...ingest,
    ...replicas,
  }
  const port = yield* startServiceInstance({ ...measured, ...settings }).pipe(
    Effect.provideService(Metric.MetricRegistry, new Map()),
  )
  const scrape = Effect.map(requestOverWire(metrics, "/metrics", ""), ({ headers, status, text }) => {
    assert.strictEqual(status, 200)
    assert.match(headers["content-type"] ?? "", /^text\/plain; version=0\.0\.4/)
    const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"))
    return new Map(lines.map((line) => {
      const at = line.lastIndexOf(" ")
      return [line.slice(0, at), Number(line.slice(at + 1))]
    }))
  })
  return { port, metrics, scrape }
})

const startMeasuredInstance = startMeasuredInstanceWith({})

/**
 * Returns the number of requests to an endpoint with this status. `cached` selects either the requests that the cache
 * served or those that it did not.
 */
const getRequestCount = (found: ReadonlyMap<string, number>, endpoint: string, status: number, cached: boolean) =>
  found.get(`tickerline_http_requests_total{endpoint="${endpoint}",status="${status}",cached="${cached}"}`) ?? 0

const Dashboard = Schema.fromJsonString(Schema.Struct({
  panels: Schema.Array(Schema.Struct({
    id: Schema.Int,
    description: Schema.String,
    targets: Schema.Array(Schema.Struct({ expr: Schema.String })),
  })),
}))

layer(ServiceInstances.databaseWithKeysLayer, { excludeTestServices: true })("Monitoring", (it) => {
  it.effect("counts each response once, by endpoint, status and cache (operations/monitoring)", () =>
    Effect.gen(function* () {
      const { port, scrape } = yield* startMeasuredInstance
      const { basic } = yield* Service.TestKeys
      const get = (path: string, key = basic) => requestOverWire(port, path, key)
      const successes = 5
      for (let round = 0; round < successes; round++) yield* get("/v1/news?limit=1")
      yield* get("/v1/news?limit=0")
      yield* get("/v1/news", "wrong")
      const requestsForNews = successes + ["the invalid limit", "the wrong key"].length
      yield* get("/v1/nothing/at/all")
      yield* get(`/v1/${"x".repeat(50)}`)
      // A response is counted only after it has been sent, so the client may receive it before the count changes.
      const found = yield* retryUntil(scrape, (found) =>
        getRequestCount(found, "other", 404, false) === 2 &&
        found.get(`tickerline_http_request_duration_seconds_count{endpoint="/v1/news"}`) === requestsForNews)
      assert.strictEqual(
        getRequestCount(found, "/v1/news", 200, true) + getRequestCount(found, "/v1/news", 200, false),
        successes,
      )
      assert.isAbove(getRequestCount(found, "/v1/news", 200, true), 0)
      assert.strictEqual(getRequestCount(found, "/v1/news", 422, false), 1)
      assert.strictEqual(getRequestCount(found, "/v1/news", 401, false), 1)
      assert.strictEqual(getRequestCount(found, "other", 404, false), 2)
      assert.strictEqual(
        found.get(`tickerline_http_request_duration_seconds_count{endpoint="/v1/news"}`),
        requestsForNews,
      )
      assert.strictEqual(
        found.get(`tickerline_http_request_duration_seconds_bucket{endpoint="/v1/news",le="+Inf"}`),
        requestsForNews,
      )
    }))

  it.effect("counts an estimate as a request to /estimate only (operations/monitoring)", () =>
    Effect.gen(function* () {
      const { port, scrape } = yield* startMeasuredInstance
      const { basic } = yield* Service.TestKeys
      yield* requestOverWire(port, "/estimate?endpoint=/v1/news", basic)
      const found = yield* scrape
      assert.strictEqual(getRequestCount(found, "/estimate", 200, false), 1)
      assert.isUndefined(found.get(`tickerline_http_request_duration_seconds_count{endpoint="/v1/news"}`))
    }))

  it.effect("shows a committed change of a dataset and its time within a second (operations/monitoring)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { scrape } = yield* startMeasuredInstance
      const changes = Effect.map(scrape, (found) => found.get(`tickerline_dataset_changes_total{dataset="screener"}`))
      const before = (yield* changes) ?? 0
      const begin = Math.floor(Date.now() / 1000)
      yield* sql`delete from screener`
      yield* Effect.repeat(changes, { until: (now) => now === before + 1, schedule: Schedule.spaced("50 millis") })
      const at = (yield* scrape).get(`tickerline_dataset_changed_timestamp_seconds{dataset="screener"}`) ?? 0
      assert.isAtLeast(at, begin)
      assert.isAtMost(at, Date.now() / 1000)
    }))

  it.effect("shows the size and use of the connection pool, and counts reads that timed out waiting for a connection (operations/monitoring)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const metrics = yield* chooseFreePort
      const settings = { METRICS_PORT: String(metrics), DATABASE_POOL_SIZE: "1", DATABASE_POOL_TIMEOUT: "300 millis" }
      const port = yield* startServiceInstance(settings).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
      const { basic } = yield* Service.TestKeys
      yield* requestOverWire(port, "/v1/news?limit=2", basic)
      const statuses = yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`lock table screener`
          const requests = [1, 2].map((limit) => requestOverWire(port, `/v1/screener?limit=${limit}`, basic))
          return yield* Effect.forEach(requests, (response) => Effect.map(response, ({ status }) => status), {
            concurrency: 2,
          })
        }).pipe(Effect.timeout("20 seconds")),
      )
      assert.deepStrictEqual(statuses, [503, 503])
      // A poll of the dataset versions may be using a connection when the metrics are requested, so the request is
      // repeated.
      const { text } = yield* Effect.repeat(requestOverWire(metrics, "/metrics", ""), {
        until: ({ text }) => /^tickerline_database_pool_connections_used 0$/m.test(text),
        schedule: Schedule.spaced("50 millis"),
      })
      assert.match(text, /^tickerline_database_pool_connections 1$/m)
      assert.match(text, /^tickerline_database_pool_timeouts_total [1-9]/m)
    }))

  it.effect("shows for how long no usage has been written, even if only one request is waiting (operations/monitoring)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { port, scrape } = yield* startMeasuredInstance
      const { basic } = yield* Service.TestKeys
      const unwritten = Effect.map(scrape, (found) => found.get("tickerline_usage_unwritten_seconds"))
      assert.strictEqual(yield* unwritten, 0)
      yield* sql.withTransaction(Effect.gen(function* () {
        yield* sql`lock table usage_batches in share mode`
        assert.strictEqual((yield* requestOverWire(port, "/v1/news?limit=1", basic)).status, 200)
        assert.isAbove((yield* retryUntil(unwritten, (seconds) => (seconds ?? 0) > 1)) ?? 0, 1)
      }))
      assert.strictEqual(yield* retryUntil(unwritten, (seconds) => seconds === 0), 0)
    }))

  it.effect("shows for how long no refused request has been recorded, even if no other request is waiting (operations/monitoring)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { port, scrape } = yield* startMeasuredInstanceWith({ RATE_LIMIT_BASIC: "1" })
      const key = yield* Service.ensureAccountWithKey("refused", "basic")
      const get = Effect.map(requestOverWire(port, "/v1/news?limit=1", key), ({ status }) => status)
      const unwritten = Effect.map(scrape, (found) => found.get("tickerline_usage_unwritten_seconds"))
      const isAnyWaiting = Effect.map(scrape, (found) => found.get("tickerline_usage_rows_waiting") !== 0)
      assert.strictEqual(yield* get, 200)
      yield* retryUntil(isAnyWaiting, (isAny) => !isAny)
      yield* sql.withTransaction(Effect.gen(function* () {
        yield* sql`lock table usage in share mode`
        assert.strictEqual(yield* get, 429)
        assert.isAbove((yield* retryUntil(unwritten, (seconds) => (seconds ?? 0) > 1)) ?? 0, 1)
      }))
      assert.strictEqual(yield* retryUntil(unwritten, (seconds) => seconds === 0), 0)
    }))

  it("limits the age of existing datasets only (operations/monitoring)", () => {
    const text = readFileSync(new URL("../../../ops/prometheus-alerts.yaml", import.meta.url), "utf8")
    const limited = Array.from(text.matchAll(/dataset_max_age_seconds".*dataset: (\w+)/g), ([, table]) => table)
    const tables = new Set<string | undefined>(loadableDatasets.map(({ table }) => table))
    assertFoundMoreThan(3, "limited datasets", limited)
    assert.deepStrictEqual(limited.filter((table) => !tables.has(table)), [])
  })

  it("has a panel for each alert, which shows its metrics and names it (operations/monitoring)", () => {
    const read = (file: string) => readFileSync(new URL(`../../../ops/${file}`, import.meta.url), "utf8")
    const listMetrics = (text: string) =>
      Array.from(text.matchAll(/\b(?:tickerline|nodejs|process)_\w+|\bup(?=\{)/g), ([name]) => name)
    const alerts = read("prometheus-alerts.yaml").split("- alert: ").slice(1).map((text) => ({
      name: /^\w+/.exec(text)?.[0] ?? "",
      panel: Number(/^ {10}panel: "\/d\/tickerline\?viewPanel=(\d+)"$/m.exec(text)?.[1]),
      metrics: listMetrics(text.slice(text.indexOf("expr:"), text.indexOf("labels:"))),
    }))
    const panels = Schema.decodeSync(Dashboard)(read("grafana-dashboard.json")).panels.map((panel) => ({
      ...panel,
      metrics: listMetrics(panel.targets.map(({ expr }) => expr).join(" ")),
    }))
    assertFoundMoreThan(20, "alerts", alerts)
    for (const { metrics, name, panel } of alerts) {
      assert.isNotEmpty(metrics, name)
      assert.includeMembers(panels.find(({ id }) => id === panel)?.metrics ?? [], metrics, name)
    }
    for (const { description, id } of panels) {
      const named = alerts.filter(({ panel }) => panel === id).map(({ name }) => name)
      assert.strictEqual(description, named.length === 0 ? "" : `Alerts: ${named.join(", ")}`, String(id))
    }
    assert.strictEqual(new Set(panels.map(({ id }) => id)).size, panels.length)
  })

  it.effect("counts refused requests by status (operations/monitoring)", () =>
    Effect.gen(function* () {
      const metrics = yield* chooseFreePort
      const port = yield* startServiceInstance({ METRICS_PORT: String(metrics) })
      const count = Effect.map(requestOverWire(metrics, "/metrics", ""), ({ text }) =>
        ["400", "431"].map((status) =>
          Number(new RegExp(`^tickerline_http_refused_total\\{status="${status}"\\} (\\d+)$`, "m").exec(text)?.[1] ?? 0)
        ))
      const [before400 = 0, before431 = 0] = yield* count
      yield* exchangeText(port, "GET nothing at all\r\n\r\n")
      yield* exchangeText(port, `GET / HTTP/1.1\r\nHost: x\r\nX: ${"x".repeat(20_000)}\r\n\r\n`)
      assert.deepStrictEqual(yield* count, [before400 + 1, before431 + 1])
    }))

  it.effect("serves metrics only on the separate port METRICS_PORT (operations/monitoring)", () =>
    Effect.gen(function* () {
      const { basic } = yield* Service.TestKeys
      const { metrics, port } = yield* startMeasuredInstance
      assert.strictEqual((yield* requestOverWire(port, "/metrics", basic)).status, 404)
      assert.strictEqual((yield* requestOverWire(metrics, "/v1/news", basic)).status, 404)
    }))

  const files = ["ops/grafana-dashboard.json", "ops/prometheus-alerts.yaml", "docs/operations/monitoring.md"]
  it.effect.each(files)("names only existing metrics in %s (operations/monitoring)", (file) =>
    Effect.gen(function* () {
      const { basic } = yield* Service.TestKeys
      const { port, scrape } = yield* startMeasuredInstance
      yield* requestOverWire(port, "/v1/news", basic)
      const text = readFileSync(new URL(`../../../${file}`, import.meta.url), "utf8")
      const named = new Set(text.match(/\b(?:tickerline|process|nodejs)_(?!service\b)[a-z0-9_]+\b/g))
      const lines = Array.from((yield* scrape).keys(), (line) => line.replace(/\{.*/, ""))
      const known = new Set(lines.flatMap((name) => [name, name.replace(/_(bucket|sum|count)$/, "")]))
      assertFoundMoreThan(3, "metrics", named)
      assert.deepStrictEqual(Array.from(named).filter((name) => !known.has(name)), [])
    }))
})
