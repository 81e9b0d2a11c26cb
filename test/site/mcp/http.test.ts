/**
 * Tests `POST /mcp` from the perspective of an HTTP client: keys, origins, methods, sizes, versions and malformed
 * messages (guides/mcp).
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { request } from "node:http"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import { BaseUrl } from "../../../src/api/BaseUrl.ts"
import { maxMessagesPerAccount } from "../../../src/site/mcp/AccountMessageLimiter.ts"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import * as McpClients from "../../support/McpClients.ts"
import * as Service from "../../support/Service.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"

const { postMcpMessage } = McpClients
const { TestKeys, valueAt } = Service

/** The maximum body size that the server reads: 64 KiB. */
const maxBodyBytes = 65_536

const initialize = (protocolVersion: string) => ({
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion, capabilities: {}, clientInfo: { name: "test", version: "1" } },
})

/** A tool call in a protocol version that starts with `initialize`. */
const callLineage = {
  jsonrpc: "2.0",
  id: "call",
  method: "tools/call",
  params: { name: "lineage", arguments: { ticker: "NONE" } },
}

const makeToolCall = (name: string, args: object) => ({
  jsonrpc: "2.0",
  id: `call of ${name}`,
  method: "tools/call",
  params: { name, arguments: args },
})

/** Sends a message except for its last byte. `finish` sends that byte and returns the status of the response. */
const startPost = (port: number, key: string, body: string) =>
  Effect.sync(() => {
    const outgoing = request({
      host: "127.0.0.1",
      port,
      path: "/mcp",
      method: "POST",
      headers: { "X-API-Key": key, "Content-Type": "application/json", "Content-Length": body.length },
    })
    outgoing.write(body.slice(0, -1))
    const finish = Effect.callback<number>((resume) => {
      outgoing.on("response", (response) => {
        response.resume()
        resume(Effect.succeed(response.statusCode ?? 0))
      })
      outgoing.end(body.slice(-1))
    })
    return { finish }
  })

/** Adds the fields that protocol version 2026-07-28 requires in the parameters of each request. */
const withVersion = (params: object, version = "2026-07-28") => ({
  ...params,
  _meta: {
    "io.modelcontextprotocol/protocolVersion": version,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
  },
})

/** The same tool call in protocol version 2026-07-28, which has no `initialize`. */
const callLineageWithoutSession = { ...callLineage, params: withVersion(callLineage.params) }

const headersWithoutSession = {
  "MCP-Protocol-Version": "2026-07-28",
  "Mcp-Method": "tools/call",
  "Mcp-Name": "lineage",
}

/**
 * Starts an instance the way `serve` does. Returns its port, and a function that posts messages with the key of the
 * basic tier.
 */
const startInstance = Effect.fnUntraced(function* (settings: Readonly<Record<string, string>> = {}) {
  const { basic } = yield* TestKeys
  const port = yield* ServiceInstances.startServiceInstance(settings)
  const send = (body: unknown, { headers, ...more }: McpClients.PostOptions = {}) =>
    postMcpMessage(port, body, { headers: { "X-API-Key": basic, ...headers }, ...more })
  return { port, send }
})

layer(ServiceInstances.databaseWithKeysLayer, { excludeTestServices: true })("POST /mcp", (it) => {
  it.effect("requires a valid key, and without one responds like the API (D2, guides/mcp)", () =>
    Effect.gen(function* () {
      const { port, send } = yield* startInstance()
      for (const [key, code] of [["", "missing_api_key"], ["tl_live_wrong", "invalid_api_key"]] as const) {
        const { headers, json, status } = yield* send(callLineage, { headers: { "X-API-Key": key } })
        assert.deepStrictEqual([status, valueAt(json, "error", "code")], [401, code])
        assert.strictEqual(headers["www-authenticate"], "Bearer")
        assert.strictEqual(headers["x-request-id"], valueAt(json, "request_id"))
      }
      const { basic } = yield* TestKeys
      const conflicting = yield* postMcpMessage(port, callLineage, {
        headers: { "X-API-Key": basic, Authorization: "Bearer x" },
      })
      assert.strictEqual(conflicting.status, 401)
      const bearer = yield* postMcpMessage(port, callLineage, { headers: { Authorization: `Bearer ${basic}` } })
      assert.strictEqual(valueAt(bearer.json, "result", "isError"), false)
    }).pipe(Effect.scoped))

  it.effect("refuses web pages of other origins with 403, and answers preflight requests of allowed origins (guides/mcp)", () =>
    Effect.gen(function* () {
      const port = yield* chooseFreePort
      const own = `http://127.0.0.1:${port}`
      const listed = "https://app.example.com"
      const { basic } = yield* TestKeys
      yield* ServiceInstances.startServiceInstance({ CORS_ORIGINS: listed }, { port }).pipe(
        Effect.provideService(BaseUrl, own),
      )
      for (const origin of ["http://evil.example", "null", `${own}.evil.example`, "http://localhost"]) {
        for (const method of ["POST", "GET", "OPTIONS", "DELETE"]) {
          const options = { method, headers: { Origin: origin, "X-API-Key": basic } }
          const { headers, status } = yield* postMcpMessage(port, callLineage, options)
          assert.strictEqual(status, 403, `${method} ${origin}`)
          assert.isUndefined(headers["access-control-allow-origin"])
        }
      }
      for (const origin of [own, listed]) {
        const { json, status } = yield* postMcpMessage(port, callLineage, {
          headers: { Origin: origin, "X-API-Key": basic },
        })
        assert.deepStrictEqual([status, valueAt(json, "result", "isError")], [200, false], origin)
      }
      const preflight = yield* postMcpMessage(port, "", { method: "OPTIONS", headers: { Origin: listed } })
      assert.strictEqual(preflight.status, 204)
      assert.strictEqual(preflight.headers["access-control-allow-origin"], listed)
      assert.strictEqual(preflight.headers["access-control-allow-methods"], "POST")
      assert.include(preflight.headers["access-control-allow-headers"] ?? "", "MCP-Protocol-Version")
    }).pipe(Effect.scoped))

  it.effect("refuses every other method (guides/mcp)", () =>
    Effect.gen(function* () {
      const { send } = yield* startInstance()
      for (const method of ["GET", "PUT", "PATCH", "DELETE"]) {
        const { headers, json, status } = yield* send("{}", { method })
        assert.deepStrictEqual([status, headers["allow"]], [405, "POST"], method)
        assert.strictEqual(valueAt(json, "error", "code"), "method_not_allowed")
      }
      assert.strictEqual((yield* send(callLineage, { path: "/mcp/x" })).status, 404)
    }).pipe(Effect.scoped))

  it.effect("responds to a message to an encoded path like one to /mcp (guides/mcp)", () =>
    Effect.gen(function* () {
      const { send } = yield* startInstance()
      const { json, status } = yield* send(callLineage, { path: "/%6Dcp" })
      assert.deepStrictEqual([status, valueAt(json, "result", "isError")], [200, false])
    }).pipe(Effect.scoped))

  it.effect("refuses a body above 64 KiB with 413, whether chunked or not, and stays usable (guides/mcp)", () =>
    Effect.gen(function* () {
      const { port, send } = yield* startInstance()
      const { basic } = yield* TestKeys
      const declared = yield* send("a".repeat(maxBodyBytes + 1))
      assert.deepStrictEqual([declared.status, valueAt(declared.json, "error", "code")], [413, "bad_request"])
      const chunked = yield* Effect.promise(() =>
        fetch(`http://127.0.0.1:${port}/mcp`, {
          method: "POST",
          headers: { "X-API-Key": basic, "Content-Type": "application/json" },
          body: new Blob(["a".repeat(300_000)]).stream(),
          duplex: "half",
        } as RequestInit).then((response) => response.status)
      )
      assert.strictEqual(chunked, 413)
      const longest = { ...callLineage, params: { ...callLineage.params, padding: "a".repeat(60_000) } }
      assert.strictEqual((yield* send(longest)).status, 200)
    }).pipe(Effect.scoped))

  it.effect.each(["2025-11-25", "2025-06-18"])(
    "serves %s without a session, so that any process can answer (guides/mcp)",
    (version) =>
      Effect.gen(function* () {
        const [first, second] = [yield* startInstance(), yield* startInstance()]
        const { headers, json } = yield* first.send(initialize(version))
        assert.strictEqual(valueAt(json, "result", "protocolVersion"), version)
        assert.deepStrictEqual(valueAt(json, "result", "capabilities", "tools"), {})
        assert.isUndefined(headers["mcp-session-id"])
        const initialized = { jsonrpc: "2.0", method: "notifications/initialized" }
        const versioned = { headers: { "MCP-Protocol-Version": version } }
        assert.strictEqual((yield* second.send(initialized, versioned)).status, 202)
        const called = yield* second.send(callLineage, versioned)
        assert.strictEqual(valueAt(called.json, "id"), "call")
        assert.strictEqual(valueAt(called.json, "result", "structuredContent", "query_ticker"), "NONE")
        assert.isUndefined(called.headers["mcp-session-id"])
        assert.deepStrictEqual((yield* second.send({ jsonrpc: "2.0", id: 2, method: "ping" }, versioned)).json, {
          jsonrpc: "2.0",
          id: 2,
          result: {},
        })
      }).pipe(Effect.scoped),
  )

  it.effect("serves 2026-07-28 with the version in each request (guides/mcp)", () =>
    Effect.gen(function* () {
      const { send } = yield* startInstance()
      const { json, status } = yield* send(callLineageWithoutSession, { headers: headersWithoutSession })
      assert.strictEqual(status, 200)
      assert.strictEqual(valueAt(json, "result", "resultType"), "complete")
      assert.strictEqual(valueAt(json, "result", "structuredContent", "query_ticker"), "NONE")
      const discover = { jsonrpc: "2.0", id: 1, method: "server/discover", params: withVersion({}) }
      const discovered = yield* send(discover, {
        headers: { "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover" },
      })
      assert.deepStrictEqual(valueAt(discovered.json, "result", "supportedVersions"), [
        "2026-07-28",
        "2025-11-25",
        "2025-06-18",
      ])
      for (const accept of ["*/*", "application/json, text/*;q=0.5"]) {
        const accepted = yield* send(callLineageWithoutSession, {
          headers: { ...headersWithoutSession, Accept: accept },
        })
        assert.deepStrictEqual(
          [accepted.status, valueAt(accepted.json, "result", "resultType")],
          [200, "complete"],
          accept,
        )
      }
      for (
        const [status, headers] of [
          [406, { Accept: "application/json" }],
          [406, { Accept: "application/*, text/event-stream;q=0" }],
          [415, { "Content-Type": "text/plain" }],
        ] as const
      ) {
        const refused = yield* send(callLineageWithoutSession, { headers: { ...headersWithoutSession, ...headers } })
        assert.deepStrictEqual([refused.status, valueAt(refused.json, "error", "code")], [status, -32600])
        assert.strictEqual(valueAt(refused.json, "id"), callLineageWithoutSession.id)
      }
      const mismatch = yield* send(callLineageWithoutSession, {
        headers: { ...headersWithoutSession, "Mcp-Name": "query" },
      })
      assert.deepStrictEqual([mismatch.status, valueAt(mismatch.json, "error", "code")], [400, -32020])
    }).pipe(Effect.scoped))

  it.effect("responds to wrong messages of 2026-07-28 with the status that the protocol requires (guides/mcp)", () =>
    Effect.gen(function* () {
      const { send } = yield* startInstance()
      const version = { "MCP-Protocol-Version": "2026-07-28" }
      const unknownTool = { name: "nobody", arguments: {} }
      const cases = [
        ["no/such", withVersion({}), { ...version, "Mcp-Method": "no/such" }, 404, -32601],
        ["tools/list", withVersion({}), version, 400, -32020],
        ["tools/list", withVersion({}), { "Mcp-Method": "tools/list" }, 400, -32020],
        [
          "tools/list",
          { _meta: { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } },
          { ...version, "Mcp-Method": "tools/list" },
          400,
          -32602,
        ],
        [
          "tools/call",
          withVersion(unknownTool),
          { ...version, "Mcp-Method": "tools/call", "Mcp-Name": "nobody" },
          200,
          -32602,
        ],
      ] as const
      for (const [method, params, headers, status, code] of cases) {
        const refused = yield* send({ jsonrpc: "2.0", id: 1, method, params }, { headers })
        assert.deepStrictEqual([refused.status, valueAt(refused.json, "error", "code")], [status, code], method)
      }
    }).pipe(Effect.scoped))

  it.effect("refuses an unknown version and names the supported ones, but answers initialize with 2025-11-25 (guides/mcp)", () =>
    Effect.gen(function* () {
      const { send } = yield* startInstance()
      const supported = ["2026-07-28", "2025-11-25", "2025-06-18"]
      for (const version of ["2024-11-05", "2099-01-01", "x"]) {
        const unknown = yield* send(callLineage, { headers: { "MCP-Protocol-Version": version } })
        assert.strictEqual(unknown.status, 400, version)
        assert.deepStrictEqual(valueAt(unknown.json, "error", "data", "supported"), supported, version)
        const initialized = yield* send(initialize(version))
        assert.strictEqual(valueAt(initialized.json, "result", "protocolVersion"), "2025-11-25", version)
      }
      const future = { ...callLineage, params: withVersion(callLineage.params, "2099-01-01") }
      const refused = yield* send(future, {
        headers: { ...headersWithoutSession, "MCP-Protocol-Version": "2099-01-01" },
      })
      assert.strictEqual(refused.status, 400)
      assert.deepStrictEqual(valueAt(refused.json, "error", "data", "supported"), supported)
      assert.strictEqual(valueAt((yield* send(callLineage)).json, "result", "isError"), false)
    }).pipe(Effect.scoped))

  it.effect("announces what it does, and does nothing else, in every version and with every header (guides/mcp)", () =>
    Effect.gen(function* () {
      const { send } = yield* startInstance()
      const announced = { tools: {}, resources: {} }
      const versions = [undefined, "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "x"]
      for (const version of versions) {
        const headers: Record<string, string> = version === undefined ? {} : { "MCP-Protocol-Version": version }
        const { json } = yield* send(initialize(version ?? "x"), { headers: { ...headers, "Mcp-Session-Id": "x" } })
        assert.deepStrictEqual(valueAt(json, "result", "capabilities"), announced, version)
      }
      const discover = { jsonrpc: "2.0", id: 1, method: "server/discover", params: withVersion({}) }
      const discovered = yield* send(discover, {
        headers: { "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover" },
      })
      assert.deepStrictEqual(valueAt(discovered.json, "result", "capabilities"), announced)
      const unannounced = [
        "logging/setLevel",
        "completion/complete",
        "prompts/list",
        "prompts/get",
        "resources/subscribe",
        "resources/unsubscribe",
        "subscriptions/listen",
        "tasks/list",
      ]
      for (const method of unannounced) {
        const params = { level: "info", uri: "tickerline://guides/paging" }
        for (const version of ["2025-11-25", "2025-06-18"]) {
          const message = { jsonrpc: "2.0", id: 1, method, params }
          const { json, status } = yield* send(message, { headers: { "MCP-Protocol-Version": version } })
          assert.deepStrictEqual([status, valueAt(json, "error", "code")], [200, -32601], `${method} ${version}`)
        }
        const headers = { "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method }
        const { json, status } = yield* send({ jsonrpc: "2.0", id: 1, method, params: withVersion(params) }, {
          headers,
        })
        assert.deepStrictEqual([status, valueAt(json, "error", "code")], [404, -32601], method)
      }
      const cancelled = "notifications/cancelled"
      const notification = { jsonrpc: "2.0", method: cancelled, params: withVersion({ requestId: 1 }) }
      const headers = { "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": cancelled }
      assert.strictEqual((yield* send(notification, { headers })).status, 202)
    }).pipe(Effect.scoped))

  it.effect("refuses a compressed body with 415, and says what it accepts (guides/mcp)", () =>
    Effect.gen(function* () {
      const { send } = yield* startInstance()
      for (const encoding of ["gzip", "br", "deflate", "zstd", "x", "gzip, br"]) {
        const { headers, json, status } = yield* send(callLineage, { headers: { "Content-Encoding": encoding } })
        assert.deepStrictEqual([status, valueAt(json, "error", "code")], [415, -32600], encoding)
        assert.strictEqual(headers["accept-encoding"], "identity")
      }
      for (const path of ["/mcp", "/mcp/"]) {
        const options = { path, headers: { "Content-Encoding": "identity" } }
        assert.strictEqual((yield* send(callLineage, options)).status, 200, path)
      }
    }).pipe(Effect.scoped))

  const versioned = { headers: { "MCP-Protocol-Version": "2025-11-25" } }

  it.effect.each([
    { name: "cut JSON", body: `{"jsonrpc":`, code: -32700 },
    { name: "an empty body", body: "", code: -32700 },
    { name: "a message without a version", body: `{"id":1}`, code: -32600 },
    { name: "another version of JSON-RPC", body: `{"jsonrpc":"1.0","id":1,"method":"ping"}`, code: -32600 },
    { name: "an id that is an object", body: `{"jsonrpc":"2.0","id":{},"method":"ping"}`, code: -32600 },
    { name: "a method that is a number", body: `{"jsonrpc":"2.0","id":1,"method":7}`, code: -32600 },
    { name: "a text", body: `"text"`, code: -32600 },
    { name: "an unknown method", body: `{"jsonrpc":"2.0","id":1,"method":"no/such"}`, code: -32601 },
    { name: "a call without a tool", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, code: -32602 },
    {
      name: "a call of an unknown tool",
      body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nope"}}`,
      code: -32602,
    },
    {
      name: "an unknown resource",
      body: `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"tickerline://guides/nope"}}`,
      code: -32002,
    },
  ])("responds to $name with the JSON-RPC error $code (guides/mcp)", ({ body, code }) =>
    Effect.gen(function* () {
      const { send } = yield* startInstance()
      const isInvalid = code === -32700 || code === -32600
      for (const headers of isInvalid ? [versioned.headers, headersWithoutSession, {}] : [versioned.headers]) {
        const { json, status } = yield* send(body, { headers })
        assert.strictEqual(valueAt(json, "error", "code"), code)
        assert.strictEqual(status, isInvalid ? 400 : 200)
      }
    }).pipe(Effect.scoped))

  it.effect("refuses batches and responses, and repeats the id of an invalid message (guides/mcp)", () =>
    Effect.gen(function* () {
      const { send } = yield* startInstance()
      for (const batch of [`[${JSON.stringify(callLineage)}]`, "[]"]) {
        const { json, status } = yield* send(batch, versioned)
        assert.deepStrictEqual([status, valueAt(json, "error", "code")], [400, -32600])
      }
      const { json } = yield* send(`{"jsonrpc":"1.0","id":"own","method":"ping"}`, versioned)
      assert.strictEqual(valueAt(json, "id"), "own")
      const response = yield* send(`{"jsonrpc":"2.0","id":1,"result":{}}`, versioned)
      assert.strictEqual(response.status, 400)
    }).pipe(Effect.scoped))

  /** One message of each kind, with the HTTP status of its response. */
  const messages: ReadonlyArray<readonly [name: string, status: number, body: unknown, headers?: object]> = [
    ["initialize", 200, initialize("2025-11-25")],
    ["ping", 200, { jsonrpc: "2.0", id: 1, method: "ping" }],
    ["tools/list", 200, { jsonrpc: "2.0", id: 1, method: "tools/list" }],
    ["resources/list", 200, { jsonrpc: "2.0", id: 1, method: "resources/list" }],
    ["resources/read", 200, {
      jsonrpc: "2.0",
      id: 1,
      method: "resources/read",
      params: { uri: "tickerline://guides/paging" },
    }],
    ["a notification", 202, { jsonrpc: "2.0", method: "notifications/initialized" }],
    ["find_endpoint", 200, makeToolCall("find_endpoint", {})],
    ["a call with wrong arguments", 200, makeToolCall("query", { nobody: 1 })],
    ["a call of an unknown tool", 200, makeToolCall("nobody", {})],
    ["an unknown method", 200, { jsonrpc: "2.0", id: 1, method: "no/such" }],
    ["a batch", 400, []],
    ["no JSON", 400, "{"],
    ["no JSON-RPC", 400, "{}"],
    ["an unknown version", 400, callLineage, { "MCP-Protocol-Version": "2099-01-01" }],
    ["server/discover", 200, { jsonrpc: "2.0", id: 1, method: "server/discover", params: withVersion({}) }, {
      "MCP-Protocol-Version": "2026-07-28",
      "Mcp-Method": "server/discover",
    }],
  ]

  it.effect("counts each message once against the rate limit, and records it as a free request to /mcp (D18, D27, D29)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* CustomerUsage.createCustomer("mcp messages", { balance: 0 })
      const { send } = yield* startInstance({ RATE_LIMIT_BASIC: "1000" })
      const post = (body: unknown, headers: object = {}) => send(body, { headers: { "X-API-Key": key, ...headers } })
      for (const [index, [name, status, body, more]] of messages.entries()) {
        const { headers, status: found } = yield* post(body, more)
        assert.strictEqual(found, status, name)
        assert.strictEqual(headers["x-ratelimit-limit"], "1000", name)
        assert.strictEqual(headers["x-cost-microdollars"], "0", name)
        if (index === 0) assert.strictEqual(headers["x-ratelimit-remaining"], "999")
      }
      assert.strictEqual((yield* post("a".repeat(65_000))).status, 400)
      yield* CustomerUsage.waitForRecordedRequests(account_id, messages.length + 1)
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql`
        select endpoint, status_code, via, cost_microdollars::int as cost, records_returned from usage_requests
        where account_id = ${account_id} order by requested_at, writer, sequence, part, place
      `
      assert.deepStrictEqual(
        rows,
        [...messages.map(([, status]) => status), 400].map((status_code) => ({
          endpoint: "/mcp",
          status_code,
          via: null,
          cost: 0,
          records_returned: 0,
        })),
      )
    }).pipe(Effect.scoped))

  it.effect("counts a tool call that sends a request once, and records and charges only that request (D18, D27, D29)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* CustomerUsage.createCustomer("mcp tool calls")
      const { send } = yield* startInstance({ RATE_LIMIT_BASIC: "5" })
      const post = (body: unknown) => send(body, { headers: { "X-API-Key": key } })
      const calls = [
        callLineage,
        makeToolCall("query", { endpoint: "/v1/news" }),
        makeToolCall("query", { endpoint: "/v1/news", parameters: { nobody: 1 } }),
        makeToolCall("estimate", { endpoint: "/v1/news" }),
      ]
      for (const [index, call] of calls.entries()) {
        const { headers, json, status } = yield* post(call)
        assert.deepStrictEqual([status, headers["x-ratelimit-remaining"]], [200, String(4 - index)])
        const cost = valueAt(json, "result", "structuredContent", "cost_microdollars") ?? 0
        assert.strictEqual(headers["x-cost-microdollars"], String(cost))
      }
      yield* CustomerUsage.waitForRecordedRequests(account_id, calls.length)
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ readonly line: string }>`
        select concat_ws(' ', endpoint, status_code, via) as line from usage_requests
        where account_id = ${account_id} order by requested_at, writer, sequence, part, place
      `
      assert.deepStrictEqual(rows.map(({ line }) => line), [
        "/v1/ticker-changes 200 mcp",
        "/v1/news 200 mcp",
        "/v1/news 422 mcp",
        "/estimate 200 mcp",
      ])
    }).pipe(Effect.scoped))

  it.effect("refuses every message above the rate limit: tool calls with a result, others with 429 (D18, guides/mcp)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* CustomerUsage.createCustomer("mcp flood")
      const { send } = yield* startInstance({ RATE_LIMIT_BASIC: "1" })
      const post = (body: unknown, headers: object = {}) => send(body, { headers: { "X-API-Key": key, ...headers } })
      assert.strictEqual((yield* post({ jsonrpc: "2.0", id: 1, method: "ping" })).status, 200)
      for (const [name, , body, more] of messages) {
        const { headers, json, status } = yield* post(body, more)
        assert.isAbove(Number(headers["retry-after"]), 0, name)
        assert.strictEqual(headers["x-ratelimit-remaining"], "0")
        if (valueAt(body, "method") === "tools/call") {
          assert.strictEqual(status, 200, name)
          assert.strictEqual(valueAt(json, "id"), valueAt(body, "id"))
          assert.strictEqual(valueAt(json, "result", "isError"), true)
          const text: unknown = JSON.parse(String(valueAt(json, "result", "content", 0, "text")))
          assert.strictEqual(valueAt(text, "error", "code"), "rate_limit_exceeded")
          assert.match(String(valueAt(text, "next_step")), /^Wait \d+ seconds, then repeat the call\.$/)
        } else {
          assert.deepStrictEqual([status, valueAt(json, "error", "code")], [429, "rate_limit_exceeded"], name)
        }
      }
      const requests = Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        return yield* sql`
          select endpoint, status_code, sum(request_count)::int as requests from usage_requests
          where account_id = ${account_id} group by 1, 2 order by 2
        `
      })
      const rows = yield* CustomerUsage.retryUntil(
        requests,
        (found) => valueAt(found, 1, "requests") === messages.length,
      )
      assert.deepStrictEqual(rows, [
        { endpoint: "/mcp", status_code: 200, requests: 1 },
        { endpoint: "/mcp", status_code: 429, requests: messages.length },
      ])
      // The fixed rate limit of 1 per minute also applies to the SDK client, which reports the rejection.
      const { port } = yield* startInstance({ RATE_LIMIT_BASIC: "1" })
      const refused = yield* Effect.exit(McpClients.connectOverHttp(port, key))
      assert.include(String(refused), "rate_limit_exceeded")
    }).pipe(Effect.scoped))

  it.effect("holds at most 64 messages of an account, and still answers other accounts (D18, SECURITY.md)", () =>
    Effect.gen(function* () {
      const { port, send } = yield* startInstance()
      const { key } = yield* CustomerUsage.createCustomer("mcp slow")
      const ping = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" })
      const unfinished = yield* Effect.forEach(
        Array.from({ length: maxMessagesPerAccount }),
        () => startPost(port, key, ping),
      )
      const post = postMcpMessage(port, ping, { headers: { "X-API-Key": key } })
      const refused = yield* CustomerUsage.retryUntil(post, ({ status }) => status === 429)
      assert.deepStrictEqual([refused.status, refused.headers["retry-after"]], [429, "1"])
      assert.strictEqual(valueAt(refused.json, "error", "code"), "rate_limit_exceeded")
      assert.strictEqual((yield* send(ping)).status, 200)
      for (const { finish } of unfinished) assert.strictEqual(yield* finish, 200)
      assert.strictEqual((yield* post).status, 200)
    }).pipe(Effect.scoped))
})
