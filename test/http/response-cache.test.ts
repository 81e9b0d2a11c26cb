/** D17: which headers of a response are answered again to others. */
import { assert, layer } from "@effect/vitest"
import { Arbitrary, ConfigProvider, Effect, Layer, Metric, Schema } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { IncomingMessage } from "node:http"
import { Socket } from "node:net"
import { computeEtag } from "../../src/http/ConditionalRequests.ts"
import { ResponseCache } from "../../src/http/ResponseCache.ts"
import * as Exchange from "../../src/http/RequestContext.ts"
import { buildUrl, documentedDatasetEndpoints, requiredQuery } from "../support/DocumentedEndpoints.ts"
import * as Instances from "../support/ServiceInstances.ts"
import * as Plenty from "../support/GeneratedRows.ts"
import { findFreePort } from "../support/Processes.ts"
import { TestKeys } from "../support/Service.ts"

const { startInstance, requestOverWire } = Instances

const target = "/v1/news"

/** A response as the service made it for one account, which another account then asks for. */
const askedAgain = Effect.fnUntraced(function* (headers: Readonly<Record<string, string>>) {
  const { find, store: remember } = yield* ResponseCache
  const body = Buffer.from("{}")
  const exchange = Exchange.makeRequestContext({ id: "one", target })
  exchange.endpoint = { path: target, required_tier: "basic" }
  exchange.isCurrent = () => true
  remember(
    HttpServerRequest.fromWeb(new Request(`http://localhost${target}`)),
    HttpServerResponse.uint8Array(body, { headers: { ETag: computeEtag(body), ...headers } }),
    exchange,
  )
  const request = new IncomingMessage(new Socket())
  Object.assign(request, { method: "GET", url: target })
  request.headers.host = "localhost"
  return find(request)
})

const fresh = Effect.provide(
  Layer.fresh(ResponseCache.layer.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({}))))),
)

const letters = Schema.Literals([..."abcdefghijklmnopqrstuvwxyz-"])
const headerName = Arbitrary.map(
  Arbitrary.array(Arbitrary.schema(letters), { minLength: 1, maxLength: 30 }),
  (name) => `x${name.join("")}`,
)

layer(Layer.empty)("A kept response", (it) => {
  it.effect("D17 what is the same for every account is answered again", () =>
    Effect.gen(function* () {
      const found = yield* askedAgain({
        "Cache-Control": "private, no-cache",
        "X-Request-Id": "mine",
        "X-RateLimit-Remaining": "7",
        "X-Cost-Microdollars": "3",
      })
      const names = found?.headers.filter((_, at) => at % 2 === 0)
      assert.sameMembers([...names ?? []], ["cache-control", "content-length", "content-type", "etag"])
      for (const headers of [found?.headers, found?.headersUnmodified]) {
        assert.notMatch(String(headers), /mine|x-request-id|x-ratelimit|x-cost/)
      }
    }).pipe(fresh))

  it.effect("D17 a response with a header of one account is not kept for others", () =>
    Effect.gen(function* () {
      for (const name of ["X-Account-Name", "Set-Cookie", "X-Balance", "WWW-Authenticate"]) {
        assert.isUndefined(yield* askedAgain({ [name]: "secret of one account" }), name)
      }
    }).pipe(fresh))

  it.effect.prop(
    "D17 a header that nobody declared as shared never reaches another account",
    [headerName],
    ([name]) =>
      Effect.gen(function* () {
        const found = yield* askedAgain({ [name]: "secret of one account" })
        if (found !== undefined) assert.include(["x-row-count", "x-api-version"], name)
      }).pipe(fresh),
  )
})

const filled = Layer.effectDiscard(Plenty.fillAllTables(300)).pipe(Layer.provideMerge(Instances.databaseWithKeys))

/** Headers of one answer alone. */
const ofOneAnswer = /^(date|connection|keep-alive|x-request-id|x-ratelimit-(remaining|reset))$/

layer(filled, { excludeTestServices: true, timeout: "120 seconds" })("A response of every dataset", (it) => {
  it.effect("D14 D17 is kept in each format and encoding, and answered again with every header of the first", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* TestKeys
      const metrics = yield* findFreePort
      const port = yield* Effect.provideService(
        startInstance({ METRICS_PORT: String(metrics) }),
        Metric.MetricRegistry,
        new Map(),
      )
      const kept = Effect.map(
        requestOverWire(metrics, "/metrics", ""),
        ({ text }) => Number(/^tickerline_cache_bytes\{part="sent"\} (\d+)$/m.exec(text)?.[1]),
      )
      const seen = new Set<string>()
      for (const endpoint of documentedDatasetEndpoints.filter(({ path }) => path.startsWith("/v1/"))) {
        const { parameters, path } = endpoint
        const isList = parameters.some(({ name }) => name === "limit")
        const symbols = parameters.find(({ name }) => name === "ticker")?.kind === "tickers" ? "T7,T8,@@" : "O7"
        const query = [...requiredQuery(endpoint, "ticker"), ["ticker", symbols] as const]
        for (const format of isList ? ["json", "csv", "ndjson"] : ["json"]) {
          for (const encoding of ["identity", "gzip"]) {
            const asked = buildUrl(path, [...query, ...(isList ? [["format", format], ["limit", "1"]] as const : [])])
            const before = yield* kept
            const ask = requestOverWire(port, asked, ultimate, { headers: { "Accept-Encoding": encoding } })
            const [first, ...others] = yield* Effect.all([1, 2, 3, 4, 5].map(() => ask))
            assert.strictEqual(first?.status, 200, `${asked} ${first?.text}`)
            for (const answer of others) {
              for (const [name, value] of Object.entries(first?.headers ?? {})) {
                seen.add(name)
                if (!ofOneAnswer.test(name)) assert.strictEqual(answer.headers[name], value, `${asked} ${name}`)
                else assert.isDefined(answer.headers[name], `${asked} ${name}`)
              }
              assert.strictEqual(answer.text, first?.text)
            }
            assert.isAbove(yield* kept, before, asked)
          }
        }
      }
      const rare = ["deprecation", "link", "vary", "content-disposition", "x-row-count", "unencoded-digest"]
      assert.includeMembers(Array.from(seen), [...rare, "x-dropped-tickers"])
    }).pipe(Effect.scoped))
})
