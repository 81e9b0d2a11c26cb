/**
 * Tests that every response has the deprecation headers, and that requests get 410 after the sunset (§3, §9.4, D14,
 * D24, D26).
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Arbitrary, Cause, DateTime, Effect, Exit, Layer, Option, Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { TestClock } from "effect/testing"
import { makeHandler } from "../../../src/query/EndpointHandler.ts"
import { AuthenticationMiddleware } from "../../../src/contract/Authentication.ts"
import { makeObjectEncoder } from "../../../src/contract/rules/EndpointResult.ts"
import {
  ApiVersionDeprecation,
  type Deprecation,
  makeDeprecationAnnotations,
} from "../../../src/contract/rules/Deprecation.ts"
import { NotFound } from "../../../src/contract/rules/ApiErrors.ts"
import * as Service from "../../support/Service.ts"
import { serveApi } from "../../support/SmallApis.ts"

const { requestJson, valueAt, insertRows } = Service

const makeDeprecation = (announced: string, sunset?: string): Deprecation => ({
  announced,
  successor: "/v1/staying",
  note: "Rows are grouped by day.",
  ...(sunset === undefined ? {} : { sunset }),
})

describe("The declaration of a deprecation", () => {
  it("refuses a sunset less than twelve months after the announcement (§3, §8, D24)", () => {
    assert.throws(() => makeDeprecationAnnotations(makeDeprecation("2026-11-01", "2027-10-31")), /twelve months/)
    assert.throws(() => makeDeprecationAnnotations(makeDeprecation("2026-11-01", "2026-11-01")), /2027-11-01/)
    assert.throws(() => makeDeprecationAnnotations(makeDeprecation("2026-11-01", "2020-01-01")), /twelve months/)
    assert.throws(() => makeDeprecationAnnotations(makeDeprecation("2024-02-29", "2025-02-27")), /twelve months/)
  })

  it("accepts a sunset twelve months or more after the announcement, or none (§3, §8, D24)", () => {
    for (
      const [announced, sunset] of [
        ["2026-11-01", "2027-11-01"],
        ["2024-02-29", "2025-02-28"],
        ["2023-02-28", "2024-02-28"],
        ["2023-03-01", "2024-03-01"],
        ["2026-12-31", "2027-12-31"],
        ["2026-11-01", "2099-01-01"],
        ["2026-11-01", undefined],
      ] as const
    ) {
      assert.doesNotThrow(() => makeDeprecationAnnotations(makeDeprecation(announced, sunset)))
    }
  })

  const days = Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 40_000 })))
  const later = Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 300, maximum: 430 })))

  it.prop(
    "accepts the same date a year later as the earliest sunset, for any announcement (§3, D24)",
    { days, later },
    (sample) => {
      const day = (number: number) => DateTime.formatIsoDate(DateTime.makeUnsafe(Date.UTC(1990, 0, 1 + number)))
      const [announced, sunset] = [day(sample.days), day(sample.days + sample.later)]
      const [year = "", ...rest] = announced.split("-")
      const sameDay = `${Number(year) + 1}-${rest.join("-").replace("02-29", "02-28")}`
      const declare = () => makeDeprecationAnnotations(makeDeprecation(announced, sunset))
      if (sunset < sameDay) assert.throws(declare)
      else assert.doesNotThrow(declare)
    },
  )
})

// ---------------------------------------------------------------------------------------------------------------------
// An API with three endpoints
// ---------------------------------------------------------------------------------------------------------------------

const Query = Schema.Struct({ fate: Schema.optionalKey(Schema.Literals(["found", "missing", "broken"])) })

const Success = Schema.Struct({ ok: Schema.Boolean })

const endpoint = <const Name extends string>(name: Name) =>
  HttpApiEndpoint.get(name, `/v1/${name}`, { query: Query, success: Success, error: NotFound })

class Small extends HttpApi.make("small")
  .add(
    HttpApiGroup.make("small").add(
      endpoint("staying"),
      endpoint("leaving").annotateMerge(makeDeprecationAnnotations(makeDeprecation("2026-01-15", "2027-01-15"))),
      endpoint("waning").annotateMerge(makeDeprecationAnnotations(makeDeprecation("2026-11-01"))),
    ),
  )
  .middleware(AuthenticationMiddleware) {}

const encode = makeObjectEncoder(Success)

const handler = makeHandler(
  Query,
  ({ fate }) =>
    fate === "missing"
      ? Effect.fail(new NotFound({ error: { message: "Missing." } }))
      : fate === "broken"
      ? Effect.die("broken")
      : Effect.succeed(encode({ ok: true })),
)

const handlers = Effect.succeed({ small: { staying: handler, leaving: handler, waning: handler } })

/** Sets the test clock before any fiber waits for it. */
const clockAt = (instant: string) => Layer.effectDiscard(TestClock.setTime(Date.parse(instant)))

const smallAt = (instant: string) => Layer.provide(serveApi(Small, handlers), clockAt(instant))

const link = `</v1/staying>; rel="successor-version", </v1/docs>; rel="deprecation"; type="text/html"`

/** Every status that an endpoint in the small API can return. */
const statusCases: ReadonlyArray<readonly [number, string, Service.TestRequestOptions]> = [
  [200, "", {}],
  [200, "", { method: "HEAD" }],
  [401, "", { key: null }],
  [401, "", { key: "nonsense" }],
  [401, "?nonsense=1", { key: null }],
  [404, "?fate=missing", {}],
  [422, "?fate=nonsense", {}],
  [422, "?nonsense=1", {}],
  [422, "?fate=found&fate=found", { method: "HEAD" }],
  [500, "?fate=broken", {}],
]

layer(smallAt("2026-12-01T12:00:00Z"))("A deprecated endpoint", (it) => {
  it.effect("sends the three deprecation headers with every status (§9.4, D14)", () =>
    Effect.gen(function* () {
      for (const [status, query, options] of statusCases) {
        const response = yield* requestJson(`/v1/leaving${query}`, options)
        assert.strictEqual(response.status, status, query)
        assert.strictEqual(response.headers["deprecation"], "@1768435200")
        assert.strictEqual(response.headers["sunset"], "Fri, 15 Jan 2027 00:00:00 GMT")
        assert.strictEqual(response.headers["link"], link)
        assert.strictEqual(response.headers["x-api-version"], "v1")
        assert.isDefined(response.headers["x-request-id"])
      }
    }))

  it.effect("omits Sunset while no removal is planned (§9.4)", () =>
    Effect.gen(function* () {
      for (const [status, query, options] of statusCases) {
        const response = yield* requestJson(`/v1/waning${query}`, options)
        assert.strictEqual(response.status, status, query)
        assert.strictEqual(response.headers["deprecation"], "@1793491200")
        assert.isUndefined(response.headers["sunset"])
        assert.strictEqual(response.headers["link"], link)
      }
    }))

  it.effect("formats the declared dates as RFC 9745 and RFC 8594 require (§9.4)", () =>
    Effect.gen(function* () {
      const { headers } = yield* requestJson("/v1/leaving")
      const [deprecation, sunset] = [String(headers["deprecation"]), String(headers["sunset"])]
      // `Deprecation` is `@` followed by an integer (RFC 9651), and `Sunset` is an IMF-fixdate (RFC 9110).
      assert.match(deprecation, /^@\d+$/)
      assert.match(sunset, /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/)
      assert.strictEqual(new Date(Number(deprecation.slice(1)) * 1000).toISOString().slice(0, 10), "2026-01-15")
      assert.strictEqual(new Date(sunset).toISOString().slice(0, 10), "2027-01-15")
    }))

  it.effect("does not affect an active endpoint, whose responses have no deprecation header (§9.4)", () =>
    Effect.gen(function* () {
      for (const [status, query, options] of statusCases) {
        const response = yield* requestJson(`/v1/staying${query}`, options)
        assert.strictEqual(response.status, status, query)
        for (const name of ["deprecation", "sunset", "link"]) assert.isUndefined(response.headers[name])
      }
    }))

  it("is marked in OpenAPI, with x-sunset only if it declares a sunset (§9.4, D24)", () => {
    const { paths } = OpenApi.fromApi(Small)
    assert.strictEqual(valueAt(paths, "/v1/leaving", "get", "deprecated"), true)
    assert.strictEqual(valueAt(paths, "/v1/leaving", "get", "x-sunset"), "2027-01-15")
    assert.strictEqual(valueAt(paths, "/v1/waning", "get", "deprecated"), true)
    assert.isFalse(Object.hasOwn(Object(valueAt(paths, "/v1/waning", "get")), "x-sunset"))
    assert.isUndefined(valueAt(paths, "/v1/staying", "get", "deprecated"))
    assert.isFalse(Object.hasOwn(Object(valueAt(paths, "/v1/staying", "get")), "x-sunset"))
  })
})

/** The last second of 2027-01-15 in New York, at UTC-5. */
layer(smallAt("2027-01-16T04:59:59Z"))("An endpoint at its sunset", (it) => {
  it.effect("still works on the sunset date, and responds with 410 and the headers from the next day (§3, D24)", () =>
    Effect.gen(function* () {
      const last = yield* requestJson("/v1/leaving")
      assert.strictEqual(last.status, 200)
      assert.deepStrictEqual(last.body, { ok: true })

      yield* TestClock.setTime(Date.parse("2027-01-16T05:00:00Z"))
      for (const [, query, options] of statusCases) {
        const response = yield* requestJson(`/v1/leaving${query}`, options)
        assert.strictEqual(response.status, 410, query)
        assert.strictEqual(response.headers["deprecation"], "@1768435200")
        assert.strictEqual(response.headers["sunset"], "Fri, 15 Jan 2027 00:00:00 GMT")
        assert.strictEqual(response.headers["link"], link)
        assert.strictEqual(response.headers["x-api-version"], "v1")
        if (options.method === "HEAD") continue
        assert.strictEqual(valueAt(response.body, "error", "code"), "endpoint_removed")
        assert.strictEqual(valueAt(response.body, "request_id"), response.headers["x-request-id"])
        assert.deepStrictEqual(valueAt(response.body, "error", "details"), {
          successor: "/v1/staying",
          documentation: "/v1/docs",
          sunset: "2027-01-15",
        })
        const message = String(valueAt(response.body, "error", "message"))
        for (const part of ["/v1/leaving", "/v1/staying", "2027-01-15", "Rows are grouped by day."]) {
          assert.include(message, part)
        }
      }
      assert.strictEqual((yield* requestJson("/v1/waning")).status, 200)
      assert.strictEqual((yield* requestJson("/v1/staying")).status, 200)
    }))
})

// ---------------------------------------------------------------------------------------------------------------------
// Deprecation of a whole API version, tested with the complete service
// ---------------------------------------------------------------------------------------------------------------------

const retired: Deprecation = {
  announced: "2026-01-15",
  sunset: "2027-01-15",
  successor: "/v2/",
  note: "Version 2 names fields in full.",
}

const retiredAt = (instant: string) =>
  Service.layer.pipe(
    Layer.provide(Layer.succeed(ApiVersionDeprecation, Option.some(retired))),
    Layer.provide(clockAt(instant)),
  )

/** Every type of response under /v1. */
const versionedResponseCases: ReadonlyArray<readonly [number, string, Service.TestRequestOptions]> = [
  [200, "/v1/intraday-runners", {}],
  [200, "/v1/intraday-runners", { method: "HEAD" }],
  [200, "/v1/docs", { key: null }],
  [200, "/v1/openapi.json", { key: null }],
  [200, "/v1/ticker-changes?ticker=NONE", {}],
  [401, "/v1/intraday-runners", { key: null }],
  [404, "/v1/nowhere", {}],
  [404, "/v1/", {}],
  [404, "/v1/nowhere", { method: "POST" }],
  [404, "/v1/historical-tickers?ticker=NONE", {}],
  [409, "/v1/ticker-changes?ticker=VERA", {}],
  [422, "/v1/ticker-changes", {}],
  [405, "/v1/intraday-runners", { method: "POST" }],
  [405, "/v1/historical-tickers", { method: "DELETE" }],
  [400, "/v1/intraday-runners?ticker=%ZZ", {}],
  [204, "/v1/intraday-runners", { method: "OPTIONS", key: null }],
]

layer(retiredAt("2027-01-16T04:59:58Z"))("A retired version", (it) => {
  it.effect("adds the headers of a deprecated version to every response, including 404 and 405 (§9.4, D26)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ticker_changes",
        { old_ticker: "VERA", new_ticker: "VERB", effective_date: "2020-01-01", status: "confirmed" },
        { old_ticker: "VERA", new_ticker: "VERC", effective_date: "2021-01-01", status: "confirmed" },
      )
      for (const [status, path, options] of versionedResponseCases) {
        const { headers, status: got } = yield* requestJson(path, options)
        const what = `${options.method ?? "GET"} ${path}`
        assert.strictEqual(got, status, what)
        assert.match(String(headers["deprecation"]), /^@\d+$/, what)
        assert.strictEqual(headers["sunset"], "Fri, 15 Jan 2027 00:00:00 GMT", what)
        assert.include(String(headers["link"]), `</v2/>; rel="successor-version"`, what)
        assert.include(String(headers["link"]), `</v1/docs>; rel="deprecation"; type="text/html"`, what)
      }
    }))

  it.effect("adds no version headers outside /v1/ (D26)", () =>
    Effect.gen(function* () {
      for (const path of ["/endpoints", "/health/live", "/nowhere", "/v10/nowhere"]) {
        const { headers } = yield* requestJson(path)
        for (const name of ["deprecation", "sunset", "link"]) assert.isUndefined(headers[name], path)
      }
    }))

  it.effect("responds to every /v1/ request with 410 after its sunset, and to other paths as before (§3, D24, D26)", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* requestJson("/v1/intraday-runners")).status, 200)
      yield* TestClock.setTime(Date.parse("2027-01-16T05:00:00Z"))
      for (const path of ["/v1/intraday-runners", "/v1/ticker-changes", "/v1/nowhere"]) {
        for (const key of [null, "nonsense"]) {
          const { body, headers, status } = yield* requestJson(path, { key })
          assert.strictEqual(status, 410, path)
          assert.strictEqual(valueAt(body, "error", "code"), "endpoint_removed")
          assert.strictEqual(valueAt(body, "error", "details", "successor"), "/v2/")
          assert.strictEqual(valueAt(body, "error", "details", "sunset"), "2027-01-15")
          assert.include(String(valueAt(body, "error", "message")), "Version 2 names fields in full.")
          assert.strictEqual(headers["deprecation"], "@1768435200")
          assert.strictEqual(headers["sunset"], "Fri, 15 Jan 2027 00:00:00 GMT")
        }
      }
      // The 410 response refers to the documentation, which must therefore stay available.
      for (const path of ["/endpoints", "/health/live", "/v1/docs", "/v1/docs/", "/v1/docs/errors"]) {
        assert.strictEqual((yield* requestJson(path)).status, 200, path)
      }
    }))
})

describe("The service", () => {
  it.effect("refuses to start if the version's sunset is less than twelve months after its announcement (§3, §8, D24)", () =>
    Effect.gen(function* () {
      const tooEarlySunset = Layer.succeed(ApiVersionDeprecation, Option.some({ ...retired, sunset: "2027-01-14" }))
      const started = yield* Effect.exit(Effect.scoped(Layer.build(Service.layer.pipe(Layer.provide(tooEarlySunset)))))
      assert.match(Exit.isFailure(started) ? Cause.pretty(started.cause) : "it started", /twelve months/)
    }))
})

layer(Service.layer, { excludeTestServices: true })("The service", (it) => {
  it.effect("announces the deprecation of /v1/historical-tickers on 2026-11-01 without a sunset (§3, §4.2, §9.4, D24)", () =>
    Effect.gen(function* () {
      yield* insertRows("historical_tickers", { ticker: "LIFE", former_ticker: "LIF0", date: null })
      const cases: ReadonlyArray<readonly [number, string, Service.TestRequestOptions]> = [
        [200, "?ticker=LIFE", {}],
        [200, "?ticker=LIFE", { method: "HEAD" }],
        [401, "?ticker=LIFE", { key: null }],
        [404, "?ticker=NONE", {}],
        [405, "?ticker=LIFE", { method: "POST" }],
        [422, "", {}],
      ]
      for (const [status, query, options] of cases) {
        const response = yield* requestJson(`/v1/historical-tickers${query}`, options)
        assert.strictEqual(response.status, status)
        assert.strictEqual(response.headers["deprecation"], `@${Date.parse("2026-11-01T00:00:00Z") / 1000}`)
        assert.isUndefined(response.headers["sunset"])
        assert.strictEqual(
          response.headers["link"],
          `</v1/ticker-changes>; rel="successor-version", </v1/docs>; rel="deprecation"; type="text/html"`,
        )
      }
    }))

  it.effect("sends the deprecation headers only for deprecated endpoints (§9.4)", () =>
    Effect.gen(function* () {
      for (const [, path, options] of versionedResponseCases.filter(([, path]) => !path.includes("historical"))) {
        const { headers } = yield* requestJson(path, options)
        for (const name of ["deprecation", "sunset", "link"]) assert.isUndefined(headers[name], path)
      }
    }))
})
