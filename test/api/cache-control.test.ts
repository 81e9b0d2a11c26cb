/**
 * Tests `Cache-Control` and `Vary`, which determine who may store a response. `catalogue/response-headers` tests these
 * headers for each endpoint.
 */
import * as Undici from "@effect/platform-node/Undici"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as RawSockets from "../support/RawSockets.ts"
import * as Service from "../support/Service.ts"
import { databaseWithKeysLayer, requestOverWire, startServiceInstance } from "../support/ServiceInstances.ts"

/** Requests that match no endpoint, with the expected status and `Cache-Control`. */
const requests = [
  ["GET /nowhere HTTP/1.1", 404, "no-store"],
  ["POST /nowhere HTTP/1.1", 404, "no-store"],
  ["GET /v1/news;x HTTP/1.1", 404, "no-store"],
  ["OPTIONS /v1/news HTTP/1.1", 204, "no-store"],
  ["GET /enterprise/v1/news?ticker=A HTTP/1.1", 301, "public, max-age=300"],
  ["PUT /enterprise/v1/news HTTP/1.1", 405, "no-store"],
  ["GET / HTTP/1.1", 302, "no-cache"],
  ["GET /v1/docs HTTP/1.1", 200, "no-cache"],
  ["DELETE /v1/docs HTTP/1.1", 405, "no-store"],
  ["GET /v1/docs/nowhere HTTP/1.1", 404, "no-store"],
  ["GET /mcp HTTP/1.1", 405, "no-store"],
  ["POST /mcp HTTP/1.1", 401, "no-store"],
  ["GET /%ZZ HTTP/1.1", 400, "no-store"],
  ["GET /v1/news HTTP/3.7", 400, "no-store"],
] as const

layer(databaseWithKeysLayer, { excludeTestServices: true })("Cache-Control", (it) => {
  it.effect("is in every response, also to what no endpoint answers (D14, D17)", () =>
    Effect.gen(function* () {
      const port = yield* startServiceInstance()
      for (const [line, status, cacheControl] of requests) {
        const [response] = yield* RawSockets.exchangeBytes(port, `${line}\r\nHost: x\r\nConnection: close\r\n\r\n`)
        assert.deepStrictEqual([response?.status, response?.headers["cache-control"]], [status, cacheControl], line)
      }
    }))

  it.effect("keeps a client's cache from giving a past response to another key (D3, D17, guides/as-of)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { basic, ultimate } = yield* Service.TestKeys
      const port = yield* startServiceInstance()
      const [row] = yield* sql<{ readonly now: string }>`
        select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as now
      `
      const path = `/v1/research-reports?as_of=${row?.now}`
      // This library implements RFC 9111. The test uses it as the private cache of a client with several keys.
      const cache = Undici.interceptors.cache({ type: "private", store: new Undici.cacheStores.MemoryCacheStore() })
      const client = yield* Effect.acquireRelease(
        Effect.sync(() => new Undici.Agent()),
        (agent) => Effect.promise(() => agent.destroy()),
      )
      const send = (key: string) =>
        Effect.promise(async () => {
          const response = await client.compose(cache).request({
            origin: `http://127.0.0.1:${port}`,
            path,
            method: "GET",
            headers: { "x-api-key": key },
          })
          await response.body.dump()
          return { status: response.statusCode, id: response.headers["x-request-id"] }
        })
      const first = yield* send(ultimate)
      assert.strictEqual(first.status, 200)
      assert.deepStrictEqual(yield* send(ultimate), first, "the cache has the response")
      assert.strictEqual((yield* send(basic)).status, 403)
      assert.strictEqual((yield* send("")).status, 401)
    }))

  it.effect("and Vary are the same in a 304 as in its 200 (D17)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* Service.TestKeys
      const port = yield* startServiceInstance({ CORS_ORIGINS: "https://app.example.com" })
      for (const past of ["", `&as_of=${new Date().toISOString()}`]) {
        for (const format of ["", "&format=csv"]) {
          const path = `/v1/news?limit=5${format}${past}`
          // The query cache serves the second request, and the response cache serves the third.
          for (const _ of [1, 2, 3, 4]) {
            const { headers, status } = yield* requestOverWire(port, path, ultimate)
            assert.strictEqual(status, 200)
            const again = yield* requestOverWire(port, path, ultimate, {
              headers: { "If-None-Match": headers["etag"] ?? "" },
            })
            assert.strictEqual(again.status, 304)
            for (const name of ["cache-control", "vary"]) {
              assert.strictEqual(again.headers[name], headers[name], `${path} ${name}`)
            }
            const names = headers["vary"]?.split(", ") ?? []
            assert.strictEqual(new Set(names).size, names.length, headers["vary"])
            assert.strictEqual(names.includes("Authorization") && names.includes("X-API-Key"), past !== "")
          }
        }
      }
    }))
})
