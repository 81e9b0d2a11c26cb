/** The response cache: which responses it stores, and how long it remembers keys (D2, D14, D17). */
import { assert, layer } from "@effect/vitest"
import { Arbitrary, Clock, ConfigProvider, Effect, Layer, Metric, Schema } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { createHash } from "node:crypto"
import { IncomingMessage } from "node:http"
import { Socket } from "node:net"
import { Account } from "../../src/accounts/keys/Authentication.ts"
import { computeEtag } from "../../src/http/ConditionalRequests.ts"
import { makeRequestContext } from "../../src/http/RequestContext.ts"
import { makeRecentKeys, makeResponseStore } from "../../src/http/ResponseCache.ts"
import { getMonotonicMillis } from "../../src/observability/MonotonicTime.ts"
import { buildUrl, documentedDatasetEndpoints, requiredQuery } from "../support/DocumentedEndpoints.ts"
import * as GeneratedRows from "../support/GeneratedRows.ts"
import { findFreePort } from "../support/Processes.ts"
import { TestKeys } from "../support/Service.ts"
import * as ServiceInstances from "../support/ServiceInstances.ts"

const { startInstance, requestOverWire } = ServiceInstances

const target = "/v1/news"

/** Stores a response of one account and looks it up for another account. */
const storeAndFind = Effect.fnUntraced(function* (headers: Readonly<Record<string, string>>) {
  const { find, store } = yield* makeResponseStore
  const body = Buffer.from("{}")
  const context = makeRequestContext({ id: "one", target })
  context.endpoint = { path: target, required_tier: "basic" }
  context.isCurrent = () => true
  store(
    HttpServerRequest.fromWeb(new Request(`http://localhost${target}`)),
    HttpServerResponse.uint8Array(body, { headers: { ETag: computeEtag(body), ...headers } }),
    context,
  )
  const request = new IncomingMessage(new Socket())
  Object.assign(request, { method: "GET", url: target })
  request.headers.host = "localhost"
  return find(request)
}, Effect.scoped)

const defaultSettings = Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({})))

const letters = Schema.Literals([..."abcdefghijklmnopqrstuvwxyz-"])
const headerName = Arbitrary.map(
  Arbitrary.array(Arbitrary.schema(letters), { minLength: 1, maxLength: 30 }),
  (name) => `x${name.join("")}`,
)

layer(Layer.empty)("A stored response", (it) => {
  it.effect("contains only the headers that are the same for every account (D17)", () =>
    Effect.gen(function* () {
      const found = yield* storeAndFind({
        "Cache-Control": "private, no-cache",
        "X-Request-Id": "mine",
        "X-RateLimit-Remaining": "7",
        "X-Cost-Microdollars": "3",
      })
      const names = found?.headers.filter((_, index) => index % 2 === 0)
      assert.sameMembers([...names ?? []], ["cache-control", "content-length", "content-type", "etag"])
      for (const headers of [found?.headers, found?.notModifiedHeaders]) {
        assert.notMatch(String(headers), /mine|x-request-id|x-ratelimit|x-cost/)
      }
    }).pipe(defaultSettings))

  it.effect("is not stored if it has a header that is specific to an account (D17)", () =>
    Effect.gen(function* () {
      for (const name of ["X-Account-Name", "Set-Cookie", "X-Balance", "WWW-Authenticate"]) {
        assert.isUndefined(yield* storeAndFind({ [name]: "secret of one account" }), name)
      }
    }).pipe(defaultSettings))

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

const account = Account.of({ account_id: 1, tier: "basic", balance_microdollars: null, key_id: 1, endpoints: null })

const digest = (key: string) => createHash("sha256").update(key).digest("hex")

/** The recent keys, and a function that adds a key at the current time of the test clock. */
const makeTestKeys = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const recentKeys = yield* makeRecentKeys
  const add = (key: string) => recentKeys.add(digest(key), { account, asOf: getMonotonicMillis(clock) })
  return { ...recentKeys, add }
})

layer(Layer.empty)("Recent keys", (it) => {
  it.effect("finds a key for half a second after its lookup, and no other key (D2)", () =>
    Effect.gen(function* () {
      const { add, find } = yield* makeTestKeys
      add("one")
      assert.strictEqual(find("one"), account)
      for (const other of ["", "two", "On", digest("one")]) assert.isUndefined(find(other))
      yield* TestClock.adjust("499 millis")
      assert.strictEqual(find("one"), account)
      yield* TestClock.adjust("1 millis")
      assert.isUndefined(find("one"))
    }).pipe(Effect.scoped))

  it.effect("deletes expired keys within a second, even without a request (D2)", () =>
    Effect.gen(function* () {
      const { add, getSize } = yield* makeTestKeys
      for (let number = 0; number < 100; number++) add(`key ${number}`)
      assert.strictEqual(getSize(), 100)
      yield* TestClock.adjust("300 millis")
      add("a later key")
      assert.strictEqual(getSize(), 101)
      yield* TestClock.adjust("450 millis")
      assert.strictEqual(getSize(), 1)
      yield* TestClock.adjust("300 millis")
      assert.strictEqual(getSize(), 0)
    }).pipe(Effect.scoped))

  it.effect("remembers at most 10,000 keys (D2)", () =>
    Effect.gen(function* () {
      const { add, getSize } = yield* makeTestKeys
      for (let number = 0; number < 25_000; number++) add(String(number))
      assert.isAtMost(getSize(), 10_000)
    }).pipe(Effect.scoped))
})

const filled = Layer.effectDiscard(GeneratedRows.fillAllTables(300)).pipe(
  Layer.provideMerge(ServiceInstances.databaseWithKeys),
)

/** Headers with a new value in every response. */
const perResponse = /^(date|connection|keep-alive|x-request-id|x-ratelimit-(remaining|reset))$/

layer(filled, { excludeTestServices: true, timeout: "120 seconds" })("The response cache", (it) => {
  it.effect("has all headers of the original response, for every dataset, format and encoding (D14, D17)", () =>
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
            const requestUrl = buildUrl(path, [
              ...query,
              ...(isList ? [["format", format], ["limit", "1"]] as const : []),
            ])
            const before = yield* kept
            const ask = requestOverWire(port, requestUrl, ultimate, { headers: { "Accept-Encoding": encoding } })
            const [first, ...others] = yield* Effect.all([1, 2, 3, 4, 5].map(() => ask))
            assert.strictEqual(first?.status, 200, `${requestUrl} ${first?.text}`)
            for (const answer of others) {
              for (const [name, value] of Object.entries(first?.headers ?? {})) {
                seen.add(name)
                if (!perResponse.test(name)) assert.strictEqual(answer.headers[name], value, `${requestUrl} ${name}`)
                else assert.isDefined(answer.headers[name], `${requestUrl} ${name}`)
              }
              assert.strictEqual(answer.text, first?.text)
            }
            assert.isAbove(yield* kept, before, requestUrl)
          }
        }
      }
      const rare = ["deprecation", "link", "vary", "content-disposition", "x-row-count", "unencoded-digest"]
      assert.includeMembers(Array.from(seen), [...rare, "x-dropped-tickers"])
    }).pipe(Effect.scoped))
})
