/** `POST /mcp` as HTTP clients see it: keys, origins, methods, sizes, versions and malformed messages (guides/mcp). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { chooseFreePort } from "../../src/db/embedded/EmbeddedCluster.ts"
import { BaseUrl } from "../../src/http/BaseUrl.ts"
import * as McpClients from "../support/McpClients.ts"
import * as Service from "../support/Service.ts"
import * as ServiceInstances from "../support/ServiceInstances.ts"

const { postMcpMessage } = McpClients
const { TestKeys, valueAt } = Service

const initialize = (protocolVersion: string) => ({
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion, capabilities: {}, clientInfo: { name: "test", version: "1" } },
})

const callLineage = {
  jsonrpc: "2.0",
  id: "call",
  method: "tools/call",
  params: { name: "lineage", arguments: { ticker: "NONE" } },
}

const withVersion = (params: object, version = "2026-07-28") => ({
  ...params,
  _meta: {
    "io.modelcontextprotocol/protocolVersion": version,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
  },
})

const callLineageWithoutSession = { ...callLineage, params: withVersion(callLineage.params) }

const headersWithoutSession = {
  "MCP-Protocol-Version": "2026-07-28",
  "Mcp-Method": "tools/call",
  "Mcp-Name": "lineage",
}

/** Starts an instance as `serve` does. Returns its port, and a function that posts messages with the basic key. */
const start = Effect.fnUntraced(function* (settings: Readonly<Record<string, string>> = {}) {
  const { basic } = yield* TestKeys
  const port = yield* ServiceInstances.startServiceInstance(settings)
  const send = (body: unknown, { headers, ...more }: McpClients.PostOptions = {}) =>
    postMcpMessage(port, body, { headers: { "X-API-Key": basic, ...headers }, ...more })
  return { port, send }
})

layer(ServiceInstances.databaseWithKeysLayer, { excludeTestServices: true })("POST /mcp", (it) => {
  it.effect("requires a valid key, and without one responds like the API (D2, guides/mcp)", () =>
    Effect.gen(function* () {
      const { port, send } = yield* start()
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
      const { send } = yield* start()
      for (const method of ["GET", "PUT", "PATCH", "DELETE"]) {
        const { headers, json, status } = yield* send("{}", { method })
        assert.deepStrictEqual([status, headers["allow"]], [405, "POST"], method)
        assert.strictEqual(valueAt(json, "error", "code"), "method_not_allowed")
      }
      assert.strictEqual((yield* send(callLineage, { path: "/mcp/x" })).status, 404)
    }).pipe(Effect.scoped))

  it.effect("refuses a body above 64 KiB with 413, whether chunked or not, and stays usable (guides/mcp)", () =>
    Effect.gen(function* () {
      const { port, send } = yield* start()
      const { basic } = yield* TestKeys
      const declared = yield* send("a".repeat(65_537))
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
        const [first, second] = [yield* start(), yield* start()]
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
      const { send } = yield* start()
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
      const mismatch = yield* send(callLineageWithoutSession, {
        headers: { ...headersWithoutSession, "Mcp-Name": "query" },
      })
      assert.deepStrictEqual([mismatch.status, valueAt(mismatch.json, "error", "code")], [400, -32020])
    }).pipe(Effect.scoped))

  it.effect("refuses an unknown version and names the supported ones, but answers initialize with 2025-11-25 (guides/mcp)", () =>
    Effect.gen(function* () {
      const { send } = yield* start()
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

  it.effect("answers malformed messages as JSON-RPC specifies (guides/mcp)", () =>
    Effect.gen(function* () {
      const { send } = yield* start()
      const versioned = { headers: { "MCP-Protocol-Version": "2025-11-25" } }
      const malformed: ReadonlyArray<readonly [body: string, code: number]> = [
        [`{"jsonrpc":`, -32700],
        ["", -32700],
        [`{"id":1}`, -32600],
        [`{"jsonrpc":"1.0","id":1,"method":"ping"}`, -32600],
        [`{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600],
        [`{"jsonrpc":"2.0","id":1,"method":7}`, -32600],
        [`"text"`, -32600],
        [`{"jsonrpc":"2.0","id":1,"method":"no/such"}`, -32601],
        [`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, -32602],
        [`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nope"}}`, -32602],
        [`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"tickerline://guides/nope"}}`, -32002],
      ]
      for (const [body, code] of malformed) {
        const { json, status } = yield* send(body, versioned)
        assert.strictEqual(valueAt(json, "error", "code"), code, body)
        assert.isBelow(status, 500, body)
      }
      assert.strictEqual((yield* send(`[${JSON.stringify(callLineage)}]`, versioned)).status, 400)
      assert.strictEqual((yield* send(`[]`, versioned)).status, 400)
    }).pipe(Effect.scoped))
})
