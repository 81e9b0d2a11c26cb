/** Tests which responses and headers the response cache stores and sends (D14, D17). */
import { assert, layer } from "@effect/vitest"
import { Arbitrary, Clock, ConfigProvider, Effect, Layer, Metric, Schema } from "effect"
import { TestClock } from "effect/testing"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { makeResponseCache } from "../../src/api/ResponseCache.ts"
import { CacheMemory } from "../../src/query/lists/CacheMemory.ts"
import { CachedPage, hashQuery } from "../../src/query/lists/QueryCache.ts"
import { computeEtag } from "../../src/query/rows/Etag.ts"
import { makePage } from "../../src/contract/rules/EndpointResult.ts"
import { makeApiRequest, makeFinishedResponse, makeRequestInProgress } from "../support/ApiRequests.ts"
import { buildUrl, documentedDatasetEndpoints, makeRequiredQuery } from "../support/DocumentedEndpoints.ts"
import * as GeneratedRows from "../support/GeneratedRows.ts"
import { TestKeys } from "../support/Service.ts"
import * as ServiceInstances from "../support/ServiceInstances.ts"

const { startServiceInstance, requestOverWire } = ServiceInstances

const target = "/v1/news"

/** Stores a response with these headers in the response cache, and looks it up with another request. */
const storeAndFind = Effect.fnUntraced(function* (headers: Readonly<Record<string, string>>) {
  const { find, store } = yield* makeResponseCache
  const body = Buffer.from("{}")
  const contentType = "application/json"
  const page = makePage({ body, contentType, records: 0, etag: computeEtag(body), dependencies: [] })
  const shared = { "content-type": contentType, "content-length": "2", etag: computeEtag(body) }
  store(
    makeRequestInProgress({ id: "one", target }),
    { access: { path: target, required_tier: "basic" }, price: 0 },
    page,
    makeFinishedResponse({ headers: { ...shared, ...headers }, body, bytes: body.length }),
  )
  return find(makeApiRequest({ target }))
}, Effect.provide(CacheMemory.layer))

const defaultSettings = Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({})))

const letters = Schema.Literals([..."abcdefghijklmnopqrstuvwxyz-"])
const headerName = Arbitrary.map(
  Arbitrary.array(Arbitrary.schema(letters), { minLength: 1, maxLength: 30 }),
  (name) => `x${name.join("")}`,
)

layer(Layer.empty)("The response cache", (it) => {
  it.effect("stores only headers that are the same for every account, and those of each request (D17)", () =>
    Effect.gen(function* () {
      const shared = { "cache-control": "private, no-cache", "x-row-count": "1" }
      const perRequest = { "x-request-id": "mine", "x-ratelimit-remaining": "7", "x-cost-microdollars": "3" }
      const found = yield* storeAndFind({ ...shared, ...perRequest })
      const common = ["cache-control", "etag", ...Object.keys(perRequest)]
      assert.sameMembers(Object.keys(found?.notModifiedHeaders ?? {}), common)
      assert.sameMembers(
        Object.keys(found?.headers ?? {}),
        [...common, "content-length", "content-type", "x-row-count"],
      )
    }).pipe(defaultSettings))

  it.effect("does not store a response with a header that is specific to an account (D17)", () =>
    Effect.gen(function* () {
      for (const name of ["X-Account-Name", "Set-Cookie", "X-Balance", "WWW-Authenticate"]) {
        assert.isUndefined(yield* storeAndFind({ [name.toLowerCase()]: "secret of one account" }), name)
      }
    }).pipe(defaultSettings))

  it.effect("stores a response again that is revalidated after midnight (D17)", () =>
    Effect.gen(function* () {
      const { find, store } = yield* makeResponseCache
      const clock = yield* Clock.Clock
      const etag = `"tag"`
      const page = makePage({ body: new Uint8Array(2), contentType: "text/csv", records: 1, etag, dependencies: [] })
      const revalidate = () => {
        const request = { id: "one", target, headers: { host: "x", "if-none-match": etag } }
        const startedAt = clock.currentTimeMillisUnsafe()
        const rules = { access: { path: "/v1/news", required_tier: "basic" as const }, price: 0 }
        const notModified = makeFinishedResponse({ status: 304, headers: { etag }, body: undefined })
        store(makeRequestInProgress({ ...request, startedAt }), rules, page, notModified)
        return find(makeApiRequest(request))
      }
      assert.strictEqual(revalidate()?.etag, etag)
      yield* TestClock.adjust("1 day")
      assert.strictEqual(revalidate()?.etag, etag)
      // Resets the clock, which the other tests share.
    }).pipe(Effect.ensuring(TestClock.setTime(0)), Effect.provide(CacheMemory.layer), defaultSettings))

  it.effect("uses all of CACHE_MEGABYTES, because the results of its responses make room for them (D17)", () =>
    Effect.gen(function* () {
      const { find, store } = yield* makeResponseCache
      const memory = yield* CacheMemory
      const targets = Array.from({ length: 90 }, (_, number) => `${target}?page=${number + 1}`)
      for (const target of targets) {
        const body = new Uint8Array(9_500)
        const page = makePage({ body, contentType: "application/json", records: 1, etag: `"tag"`, dependencies: [] })
        memory.set(hashQuery(target), new CachedPage(page, "version"))
        const rules = { access: { path: "/v1/news", required_tier: "basic" as const }, price: 0 }
        store(makeRequestInProgress({ id: "one", target }), rules, page, makeFinishedResponse({ headers: {}, body }))
        for (const earlier of targets) find(makeApiRequest({ target: earlier }))
      }
      assert.deepStrictEqual(targets.filter((target) => find(makeApiRequest({ target })) === undefined), [])
    }).pipe(Effect.provide(Layer.provide(
      CacheMemory.layer,
      ConfigProvider.layer(ConfigProvider.fromUnknown({ CACHE_MEGABYTES: "1" })),
    ))))

  it.effect.prop(
    "never passes an undeclared header to another account (D17)",
    [headerName],
    ([name]) =>
      Effect.gen(function* () {
        const found = yield* storeAndFind({ [name]: "secret of one account" })
        if (found !== undefined) assert.include(["x-row-count", "x-api-version"], name)
      }).pipe(defaultSettings),
  )
})

const filled = Layer.effectDiscard(GeneratedRows.fillAllTables(300)).pipe(
  Layer.provideMerge(ServiceInstances.databaseWithKeysLayer),
)

/** Headers whose value differs in every response. */
const perResponse = /^(date|connection|keep-alive|x-request-id|x-ratelimit-(remaining|reset))$/

layer(filled, { excludeTestServices: true, timeout: "120 seconds" })("The response cache", (it) => {
  it.effect("sends the body and headers of the original response, for every dataset and page format (D14, D17)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* TestKeys
      const metrics = yield* chooseFreePort
      const port = yield* Effect.provideService(
        startServiceInstance({ METRICS_PORT: String(metrics) }),
        Metric.MetricRegistry,
        new Map(),
      )
      const kept = Effect.map(
        requestOverWire(metrics, "/metrics", ""),
        ({ text }) => Number(/^tickerline_cache_bytes\{part="responses"\} (\d+)$/m.exec(text)?.[1]),
      )
      const seen = new Set<string>()
      for (const endpoint of documentedDatasetEndpoints.filter(({ path }) => path.startsWith("/v1/"))) {
        const { parameters, path } = endpoint
        const isList = parameters.some(({ name }) => name === "limit")
        const symbols = parameters.find(({ name }) => name === "ticker")?.kind === "tickers" ? "T7,T8,@@" : "O7"
        const query = [...makeRequiredQuery(endpoint, "ticker"), ["ticker", symbols] as const]
        for (const format of isList ? ["json", "csv", "ndjson"] : ["json"]) {
          for (const encoding of ["identity", "gzip"]) {
            const requestUrl = buildUrl(path, [
              ...query,
              ...(isList ? [["format", format], ["limit", "1"]] as const : []),
            ])
            const before = yield* kept
            const ask = requestOverWire(port, requestUrl, ultimate, { headers: { "Accept-Encoding": encoding } })
            const [first, ...others] = yield* Effect.all([1, 2, 3, 4, 5].map(() => ask))
            assert.strictEqual(first?.status, 200, `${requestUrl} ${first?.text}`)
            for (const response of others) {
              for (const [name, value] of Object.entries(first?.headers ?? {})) {
                seen.add(name)
                if (!perResponse.test(name)) assert.strictEqual(response.headers[name], value, `${requestUrl} ${name}`)
                else assert.isDefined(response.headers[name], `${requestUrl} ${name}`)
              }
              assert.strictEqual(response.text, first?.text)
            }
            assert.isAbove(yield* kept, before, requestUrl)
          }
        }
      }
      const rare = ["deprecation", "link", "vary", "content-disposition", "x-row-count", "unencoded-digest"]
      assert.includeMembers(Array.from(seen), [...rare, "x-dropped-tickers"])
    }).pipe(Effect.scoped))
})
