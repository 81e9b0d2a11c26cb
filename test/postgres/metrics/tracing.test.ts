/** Tests that traces of requests and their SQL statements are exported over OTLP without API keys. */
import { assert, layer } from "@effect/vitest"
import { Array, ConfigProvider, Effect, Fiber, Layer, Logger, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { createServer } from "node:http"
import * as Tracing from "../../../src/postgres/metrics/Tracing.ts"
import { valueAt } from "../../support/DocumentedEndpoints.ts"
import { beginTransaction, waitUntilBlocked } from "../../support/HeldTransactions.ts"
import { postMcpMessage } from "../../support/McpClients.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"
import * as Service from "../../support/Service.ts"

const { startServiceInstance, requestOverWire } = ServiceInstances

interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string | undefined
  readonly name: string
  readonly attributes: ReadonlyMap<string, string>
}

const listOf = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : []

/** Returns the spans in an OTLP export request. */
const spansIn = (body: unknown): ReadonlyArray<Span> =>
  listOf(valueAt(body, "resourceSpans")).flatMap((resource) => listOf(valueAt(resource, "scopeSpans"))).flatMap((
    scope,
  ) => listOf(valueAt(scope, "spans"))).map((span) => ({
    traceId: String(valueAt(span, "traceId")),
    spanId: String(valueAt(span, "spanId")),
    parentSpanId: typeof valueAt(span, "parentSpanId") === "string" ? String(valueAt(span, "parentSpanId")) : undefined,
    name: String(valueAt(span, "name")),
    attributes: new Map(
      listOf(valueAt(span, "attributes")).map((
        attribute,
      ) => [String(valueAt(attribute, "key")), JSON.stringify(valueAt(attribute, "value"))]),
    ),
  }))

/** Starts a trace collector that stores the export requests it receives. */
const startCollector = Effect.acquireRelease(
  Effect.callback<{ readonly url: string; readonly texts: Array<string>; readonly close: () => void }>((resume) => {
    const texts: Array<string> = []
    const server = createServer((request, response) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("end", () => {
        if (request.url === "/v1/traces") texts.push(Buffer.concat(chunks).toString())
        response.end("{}")
      })
    }).listen(0, "127.0.0.1", () => {
      const address = server.address()
      const port = typeof address === "object" && address !== null ? address.port : 0
      resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, texts, close: () => server.close() }))
    })
  }),
  ({ close }) => Effect.sync(close),
)

/** Adds the fields that MCP version 2026-07-28 requires in a message. */
const withModernVersion = <Params extends object>({ params, ...message }: { readonly params: Params }) => ({
  ...message,
  params: {
    ...params,
    _meta: {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientCapabilities": {},
      "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
    },
  },
})

const makeModernHeaders = (tool: string) => ({
  "MCP-Protocol-Version": "2026-07-28",
  "Mcp-Method": "tools/call",
  "Mcp-Name": tool,
})

/** Starts a service instance that exports its traces to the collector. */
const startTracedInstance = Effect.fnUntraced(function* (url: string) {
  const settings = { OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_BSP_SCHEDULE_DELAY: "50" }
  const exporter = yield* Layer.build(
    Layer.provide(Tracing.traceExporterLayer, ConfigProvider.layer(ConfigProvider.fromUnknown(settings))),
  )
  const watched = Layer.merge(Logger.layer([]), Layer.succeedContext(exporter))
  return yield* startServiceInstance({}, { port: 0 }, { watched })
})

layer(ServiceInstances.databaseWithKeysLayer, { excludeTestServices: true })("Tracing", (it) => {
  it.effect("records one trace per request with its SQL, and continues the client's trace (D12)", () =>
    Effect.gen(function* () {
      const { texts, url } = yield* startCollector
      const port = yield* startTracedInstance(url)
      const { basic } = yield* Service.TestKeys
      const trace = "0af7651916cd43dd8448eb211c80319c"
      const parent = "b7ad6b7169203331"
      yield* requestOverWire(port, "/v1/news?limit=3", basic, { headers: { traceparent: `00-${trace}-${parent}-01` } })
      yield* requestOverWire(port, `/v1/news?limit=4&x=${basic}`, basic)

      const spans = Effect.sync(() => texts.flatMap((text) => spansIn(JSON.parse(text))))
      const servers = (all: ReadonlyArray<Span>) => all.filter(({ name }) => name === "GET /v1/news")
      const found = yield* Effect.repeat(spans, {
        until: (all) => servers(all).length === 2,
        schedule: Schedule.spaced("50 millis"),
      }).pipe(Effect.timeout("20 seconds"))

      const server = servers(found).find(({ traceId }) => traceId === trace)
      assert.strictEqual(server?.parentSpanId, parent)
      const byId = new Map(found.map((span) => [span.spanId, span]))
      const rootOf = (span: Span): Span => {
        const parentSpan = byId.get(span.parentSpanId ?? "")
        return parentSpan === undefined ? span : rootOf(parentSpan)
      }
      const spansOfRequest = found.filter((span) => rootOf(span).spanId === server?.spanId)
      const statements = spansOfRequest.map(({ attributes }) => attributes.get("db.query.text") ?? "")
      assert.isTrue(statements.some((text) => text.includes("from news")), statements.join("\n"))
      assert.strictEqual(new Set(servers(found).map(({ traceId }) => traceId)).size, 2)
      texts.forEach((text) => {
        // The first twelve characters of a key are its hint, which is not secret.
        const secretPart = basic.slice(12)
        assert.notInclude(text, secretPart)
        assert.include(text, `{"key":"service.name","value":{"stringValue":"tickerline"}}`)
      })
    }))

  it.effect("ends the span of a request whose client disconnects, with status 499 (D12)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { texts, url } = yield* startCollector
      const port = yield* startTracedInstance(url)
      const { basic } = yield* Service.TestKeys
      const { commit } = yield* beginTransaction(sql`lock table news in access exclusive mode`)
      const request = yield* Effect.forkChild(requestOverWire(port, "/v1/news?limit=5", basic))
      yield* waitUntilBlocked
      yield* Fiber.interrupt(request)
      const [span] = yield* Effect.repeat(
        Effect.sync(() =>
          texts.flatMap((text) => spansIn(JSON.parse(text))).filter(({ name }) => name === "GET /v1/news")
        ),
        { until: (found) => found.length > 0, schedule: Schedule.spaced("50 millis") },
      ).pipe(Effect.timeout("20 seconds"))
      yield* commit
      assert.strictEqual(span?.attributes.get("http.response.status_code"), JSON.stringify({ intValue: 499 }))
    }))

  it.effect("names the tool of an MCP call, but contains none of its arguments (SECURITY.md)", () =>
    Effect.gen(function* () {
      const { texts, url } = yield* startCollector
      const port = yield* startTracedInstance(url)
      const { basic } = yield* Service.TestKeys
      const calls = [
        ["query", { endpoint: "/v1/news", parameters: { query: "secretsearch", ticker: "SECRET1" } }],
        ["query", { endpoint: "/v1/news", parameters: { secretname: "secretvalue" } }],
        ["query", { endpoint: ["secretlist"], secretargument: 1 }],
        ["estimate", { endpoint: "/v1/news", parameters: { query: "secretestimate" } }],
        ["find_endpoint", { search: "secretwords" }],
        ["lineage", { ticker: "SECRET" }],
        ["query", { cursor: "secretcursor" }],
      ] as const
      /** Values for `isModern`: whether to send the call in the form that MCP version 2026-07-28 requires. */
      const versions = [false, true]
      for (const [index, [name, args]] of calls.entries()) {
        const message = { jsonrpc: "2.0", id: index, method: "tools/call", params: { name, arguments: args } }
        for (const isModern of versions) {
          yield* postMcpMessage(port, isModern ? withModernVersion(message) : message, {
            headers: { "X-API-Key": basic, ...(isModern ? makeModernHeaders(name) : {}) },
          })
        }
      }
      const spans = Effect.sync(() => texts.flatMap((text) => spansIn(JSON.parse(text))))
      const found = yield* Effect.repeat(spans, {
        until: (all) =>
          all.filter(({ attributes }) => attributes.has("tool")).length === versions.length * calls.length,
        schedule: Schedule.spaced("50 millis"),
      }).pipe(Effect.timeout("20 seconds"))
      const tools = found.flatMap(({ attributes }) => attributes.get("tool") ?? [])
      for (const [name] of calls) assert.include(tools, JSON.stringify({ stringValue: name }))
      for (const text of texts) assert.notMatch(text, /secret/i)
    }))

  it.effect("does not make requests fail while the trace collector is unavailable (operations/monitoring)", () =>
    Effect.gen(function* () {
      const port = yield* startTracedInstance("http://127.0.0.1:9")
      const { basic } = yield* Service.TestKeys
      for (let round = 0; round < 5; round++) {
        assert.strictEqual((yield* requestOverWire(port, "/v1/news", basic)).status, 200)
      }
    }))
})
