import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { addEncodingToEtag } from "../../src/api/Compression.ts"
import { computeEtag } from "../../src/query/rows/Etag.ts"
import * as ServiceInstances from "../support/ServiceInstances.ts"
import * as GeneratedRows from "../support/GeneratedRows.ts"
import { TestKeys } from "../support/Service.ts"
import { waitUntilOldDataExpires } from "../support/Pauses.ts"
import { sampleUnlessThorough, skipUnlessThorough } from "../support/Thoroughness.ts"

const { startServiceInstance, requestOverWire } = ServiceInstances

const filled = Layer.effectDiscard(GeneratedRows.fillAllTables(300)).pipe(
  Layer.provideMerge(ServiceInstances.databaseWithKeysLayer),
)

const path = "/v1/intraday-runners?ticker=T7,T8,T9&limit=20"

layer(filled, { excludeTestServices: true, timeout: "120 seconds" })("The service", (it) => {
  it("computes the same ETags on all runtimes and in all releases: XXH3 with 128 bits (D17)", () => {
    const hashes = [["", "99aa06d3014798d86001c324468d497f"], ["abc", "06b05ab6733a618578af5f94892f3950"]] as const
    for (const [body, hash] of hashes) {
      assert.strictEqual(computeEtag(Buffer.from(body)), `"${hash}"`)
    }
  })

  const other = `"${"x".repeat(27)}"`

  it.effect.each([
    { name: "the ETag", makeCondition: (etag: string) => etag, status: 304 },
    { name: "the weak ETag", makeCondition: (etag: string) => `W/${etag}`, status: 304 },
    { name: "a list with the ETag", makeCondition: (etag: string) => `${other}, ${etag}`, status: 304 },
    { name: "a list with the weak ETag", makeCondition: (etag: string) => `${other},W/${etag} , "z"`, status: 304 },
    { name: "*", makeCondition: () => "*", status: 304 },
    { name: "* between spaces", makeCondition: () => " * ", status: 304 },
    {
      name: "the ETag of a compressed body",
      makeCondition: (etag: string) => `${etag.slice(0, -1)}-gzip"`,
      status: 304,
    },
    { name: "another ETag", makeCondition: () => other, status: 200 },
    { name: "a list of other ETags", makeCondition: () => `${other}, W/${other}`, status: 200 },
    { name: "the ETag without quotes", makeCondition: (etag: string) => etag.slice(1, -1), status: 200 },
    { name: "nothing", makeCondition: () => "", status: 200 },
    { name: "the start of the ETag", makeCondition: (etag: string) => `"${etag.slice(1, 10)}"`, status: 200 },
    { name: "a weak *", makeCondition: () => "W/*", status: 200 },
  ])(
    "answers If-None-Match with $status for $name, with and without the response cache (D17)",
    ({ makeCondition, status }) =>
      Effect.gen(function* () {
        const { basic } = yield* TestKeys
        const port = yield* startServiceInstance()
        const { headers: { etag = "" }, text } = yield* requestOverWire(port, path, basic)
        assert.strictEqual(etag, computeEtag(Buffer.from(text)))
        const condition = makeCondition(etag)
        for (const method of ["GET", "GET", "GET", "HEAD"] as const) {
          const response = yield* requestOverWire(port, path, basic, {
            method,
            headers: { "If-None-Match": condition },
          })
          assert.strictEqual(response.status, status, `${method} ${condition}`)
          assert.strictEqual(response.text, status === 200 && method === "GET" ? text : "")
          assert.strictEqual(response.headers["cache-control"], "private, no-cache")
          assert.strictEqual(response.headers["x-api-version"], "v1")
          assert.match(response.headers["x-request-id"] ?? "", /^[\w-]{36}$/)
          assert.isDefined(response.headers["x-ratelimit-remaining"])
          assert.strictEqual(response.headers["x-cost-microdollars"] === "0", status === 304 || method === "HEAD")
          if (status === 304) assert.isUndefined(response.headers["content-type"])
        }
      }).pipe(Effect.scoped),
  )

  it.effect("gives HEAD and GET the same ETag, type and length, no matter which is sent first (D10, D17)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      const port = yield* startServiceInstance()
      const head = yield* requestOverWire(port, path, basic, { method: "HEAD" })
      const get = yield* requestOverWire(port, path, basic)
      const again = yield* requestOverWire(port, path, basic, { method: "HEAD" })
      for (const { bytes, headers, status } of [head, again]) {
        assert.strictEqual(status, 200)
        assert.strictEqual(bytes.length, 0)
        for (const name of ["etag", "content-type", "content-length", "link", "cache-control", "vary"]) {
          assert.strictEqual(headers[name], get.headers[name], name)
        }
      }
    }).pipe(Effect.scoped))

  it.effect("changes the ETag only when the body changes (D17)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { basic } = yield* TestKeys
      const port = yield* startServiceInstance()
      const tag = Effect.andThen(
        waitUntilOldDataExpires,
        Effect.map(requestOverWire(port, path, basic), ({ headers }) => headers["etag"]),
      )
      const first = yield* tag
      yield* sql`update intraday_runners set volume = 1 where ticker = 'T99'`
      yield* sql`update intraday_runners set ticker = ticker`
      assert.strictEqual(yield* tag, first)
      yield* sql`update intraday_runners set volume = 4712 where ticker = 'T8'`
      const second = yield* tag
      assert.notStrictEqual(second, first)
      const stale = yield* requestOverWire(port, path, basic, { headers: { "If-None-Match": first ?? "" } })
      assert.strictEqual(stale.status, 200)
    }).pipe(Effect.scoped))

  it.effect("gives a compressed response its own strong ETag but the same cost, and caches it (D17, D27)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      const port = yield* startServiceInstance()
      const plain = yield* requestOverWire(port, path, basic)
      for (
        const [accepted, encoding] of [
          ["gzip, deflate, br, zstd", "zstd"],
          ["gzip, deflate, br", "br"],
          ["gzip;q=0.5", "gzip"],
          ["zstd;q=0, gzip", "gzip"],
        ]
      ) {
        const headers = { "Accept-Encoding": accepted ?? "" }
        for (let i = 0; i < 4; i++) {
          const packed = yield* requestOverWire(port, path, basic, { headers })
          assert.strictEqual(packed.headers["content-encoding"], encoding)
          assert.strictEqual(
            packed.headers["etag"],
            addEncodingToEtag(plain.headers["etag"] ?? "", encoding ?? ""),
          )
          assert.strictEqual(packed.headers["x-cost-microdollars"], plain.headers["x-cost-microdollars"])
          assert.strictEqual(packed.headers["vary"], "Accept, Accept-Encoding")
          assert.strictEqual(Number(packed.headers["content-length"]), packed.bytes.length)
          assert.isBelow(packed.bytes.length, plain.bytes.length / 3)
          assert.strictEqual(packed.text, plain.text)
        }
        for (let i = 0; i < 3; i++) {
          const condition = {
            "If-None-Match": addEncodingToEtag(plain.headers["etag"] ?? "", encoding ?? ""),
          }
          assert.strictEqual(
            (yield* requestOverWire(port, path, basic, { headers: { ...headers, ...condition } })).status,
            304,
          )
        }
      }
      const small = yield* requestOverWire(port, "/v1/ticker-changes?ticker=NONE", basic, {
        headers: { "Accept-Encoding": "gzip" },
      })
      assert.isUndefined(small.headers["content-encoding"])
    }).pipe(Effect.scoped))

  /** Headers whose value differs in every response. */
  const headersPerResponse = /^(date|connection|keep-alive|x-request-id|x-ratelimit-.*|x-cost-microdollars)$/
  /** Headers that a 304 omits. */
  const bodyHeaders = /^(content-.*|transfer-encoding|x-row-count|unencoded-digest)$/

  const lasting = ({ headers }: ServiceInstances.WireResponse) =>
    Object.fromEntries(
      Object.entries(headers).filter(([name]) => !headersPerResponse.test(name) && !bodyHeaders.test(name)).toSorted(),
    )

  const small = [
    "/v1/openapi.json",
    "/endpoints",
    "/v1/changelog",
    "/v1/changelog.atom",
    "/v1/docs",
    "/v1/docs/assets/style.css",
  ]
  const released = [...small, "/v1/docs/reference"]
  const ofData = [
    path,
    "/v1/intraday-runners?ticker=T7,@@&format=csv",
    "/v1/intraday-runners?ticker=T7&format=ndjson",
    "/v1/historical-tickers?ticker=O7",
    "/v1/ticker-changes?ticker=NONE",
  ]

  it.effect.each(["", "https://app.example"])(
    "gives a 304 the same headers as the 200, except those about the body, with CORS_ORIGINS=%s (D17)",
    (origins) =>
      Effect.gen(function* () {
        yield* skipUnlessThorough
        const { basic } = yield* TestKeys
        const port = yield* startServiceInstance({ CORS_ORIGINS: origins })
        // This instance receives only conditional requests. The router responds to the first one, and the response
        // cache to the others.
        const late = yield* startServiceInstance({ CORS_ORIGINS: origins })
        const encodings = ["identity", "gzip", "br", "zstd"]
        for (const encoding of sampleUnlessThorough(encodings, 2, origins.length)) {
          for (const accept of ["application/json", "text/csv"]) {
            const headers = { "Accept-Encoding": encoding, Accept: accept }
            for (const target of accept === "text/csv" ? ofData : [...small, ...ofData]) {
              const complete = [1, 2, 3, 4, 5].map(() => requestOverWire(port, target, basic, { headers }))
              const [first, ...others] = yield* Effect.all(complete)
              const { etag = "", vary = "" } = first?.headers ?? {}
              assert.match(vary, /accept-encoding/i, target)
              assert.strictEqual(/(^|, )Origin(,|$)/.test(vary), origins !== "", target)
              const known = { headers: { ...headers, "If-None-Match": etag } }
              const again = [port, late].flatMap((at) => [1, 2, 3].map(() => requestOverWire(at, target, basic, known)))
              const unmodified = yield* Effect.all(again)
              for (const { status } of unmodified) assert.strictEqual(status, 304, `${target} ${encoding}`)
              for (const response of [...others, ...unmodified]) {
                assert.deepStrictEqual(
                  lasting(response),
                  first === undefined ? {} : lasting(first),
                  `${target} ${encoding}`,
                )
              }
            }
          }
        }
      }).pipe(Effect.scoped),
  )

  it.effect("makes static content cacheable, with a strong ETag in every encoding (D17)", () =>
    Effect.gen(function* () {
      const port = yield* startServiceInstance()
      for (const target of released) {
        const plain = yield* requestOverWire(port, target, "")
        const { etag = "" } = plain.headers
        assert.strictEqual(etag, computeEtag(plain.bytes), target)
        const isPage = target.startsWith("/v1/docs")
        assert.strictEqual(plain.headers["cache-control"], isPage ? "no-cache" : "public, max-age=300", target)
        for (const encoding of ["gzip", "br", "zstd"]) {
          const packed = yield* requestOverWire(port, target, "", { headers: { "Accept-Encoding": encoding } })
          assert.strictEqual(packed.headers["content-encoding"], encoding, target)
          assert.strictEqual(packed.headers["etag"], addEncodingToEtag(etag, encoding), target)
          assert.strictEqual(packed.text, plain.text, target)
          const head = yield* requestOverWire(port, target, "", {
            method: "HEAD",
            headers: { "Accept-Encoding": encoding },
          })
          assert.strictEqual(head.headers["etag"], packed.headers["etag"], target)
        }
        for (const condition of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
          const again = yield* requestOverWire(port, target, "", { headers: { "If-None-Match": condition } })
          assert.strictEqual(again.status, 304, `${target} ${condition}`)
          assert.strictEqual(again.bytes.length, 0)
        }
        assert.strictEqual(
          (yield* requestOverWire(port, target, "", { headers: { "If-None-Match": `"other"` } })).status,
          200,
        )
      }
    }).pipe(Effect.scoped))
})
