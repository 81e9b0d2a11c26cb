/**
 * Tests for the endpoint catalogue, the OpenAPI document and the health checks: §2.5, §4.5, §9.4, D2, D24, D25.
 *
 * `test/openapi.json` is a copy of the current document, so that a diff shows every change to it, even to a
 * description. To update it, run `npx vitest run test/api/catalogue/catalogue.test.ts -u`. `clients/contract/v1.json`
 * is the released document.
 */
import { PgConnection } from "@effect/sql-pg"
import { assert, expect, layer } from "@effect/vitest"
import { Effect, Layer, Predicate, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { inject } from "vitest"
import {
  documentedEndpoints,
  freeEndpointPaths,
  getParameterNames,
  streamPaths,
} from "../../support/DocumentedEndpoints.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"
import * as Service from "../../support/Service.ts"

const { requestJson, valueAt } = Service

const listOf = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : []

const entriesOf = (value: unknown): ReadonlyArray<readonly [string, unknown]> =>
  Predicate.isObject(value) ? Object.entries(value) : []

const open = { key: null } as const

const document = Effect.map(requestJson("/v1/openapi.json", open), ({ body }) => body)

/** The `GET` operation of each path. */
const operations = Effect.map(
  document,
  (spec) => entriesOf(valueAt(spec, "paths")).map(([path, item]) => ({ path, operation: valueAt(item, "get") })),
)

/** Resolves the `$ref` of a schema, including nested references. Returns a schema without `$ref` unchanged. */
const resolved = (spec: unknown, schema: unknown): unknown => {
  const reference = valueAt(schema, "$ref")
  return typeof reference === "string"
    ? resolved(spec, valueAt(spec, ...reference.replace("#/", "").split("/")))
    : schema
}

const alternatives = (spec: unknown, schema: unknown): ReadonlyArray<unknown> => {
  const one = resolved(spec, schema)
  const many = valueAt(one, "oneOf") ?? valueAt(one, "anyOf")
  return Array.isArray(many) ? many.flatMap((each) => alternatives(spec, each)) : [one]
}

/** Returns the alternative schemas of a body's `error` property. */
const listErrors = (spec: unknown, body: unknown) => alternatives(spec, valueAt(body, "properties", "error"))

/** Returns an operation's documented error codes by status. */
const codes = (spec: unknown, operation: unknown) =>
  Object.fromEntries(
    entriesOf(valueAt(operation, "responses")).filter(([status]) => Number(status) >= 400).map(([status, response]) => [
      status,
      listErrors(spec, resolved(spec, valueAt(resolved(spec, response), "content", "application/json", "schema"))).map(
        (error) => {
          const code = resolved(spec, valueAt(error, "properties", "code"))
          return valueAt(code, "const") ?? valueAt(code, "enum", 0)
        },
      ),
    ]),
  )

const everywhere = {
  "400": ["bad_request"],
  "405": ["method_not_allowed"],
  "408": ["bad_request"],
  "410": ["endpoint_removed"],
  "413": ["bad_request"],
  "422": ["validation_error"],
  "431": ["bad_request"],
  "500": ["internal_error"],
}
const fromDatabase = { "503": ["data_refreshing", "database_pool_timeout"] }
const keyed = {
  ...everywhere,
  ...fromDatabase,
  "401": ["missing_api_key", "invalid_api_key", "api_key_disabled"],
  "403": ["address_not_allowed", "insufficient_tier", "endpoint_not_allowed"],
  "429": ["rate_limit_exceeded"],
}
/** The error codes of priced endpoints, where a response may cost more than the balance: D13 (codes), D27 (prices). */
const priced = { ...keyed, "402": ["insufficient_credits"] }

layer(Service.layer, { excludeTestServices: true })("In the API,", (it) => {
  // -------------------------------------------------------------------------------------------------------------------
  // The public catalogue at `/endpoints`
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("catalogue, documentation and health checks need no key and ignore a wrong one (D2, §4.5)", () =>
    Effect.gen(function* () {
      const paths = ["/endpoints", "/v1/docs", "/v1/openapi.json", "/v1/changelog", "/health/live", "/health/ready"]
      for (const path of [...paths, "/v1/corrections"]) {
        for (const key of [null, "nonsense"]) assert.strictEqual((yield* requestJson(path, { key })).status, 200, path)
      }
    }))

  it.effect("/endpoints has one row per endpoint with exactly the specified fields (§2.5, D25)", () =>
    Effect.gen(function* () {
      const { body } = yield* requestJson("/endpoints", open)
      const rows = listOf(valueAt(body, "results"))
      assert.strictEqual(valueAt(body, "count"), rows.length)
      assertFoundMoreThan(5, "endpoints", rows)
      for (const row of rows) {
        const path = String(valueAt(row, "path"))
        assert.deepStrictEqual(
          entriesOf(row).map(([name]) => name),
          ["path", "label", "description", "tier", "deprecated", "sunset", "successor"],
        )
        assert.match(path, /^\/[a-z0-9/.-]+$/)
        assert.isNotEmpty(valueAt(row, "label"), path)
        assert.isNotEmpty(valueAt(row, "description"), path)
        assert.isBoolean(valueAt(row, "deprecated"), path)
        assert.strictEqual(valueAt(row, "deprecated"), String(valueAt(row, "label")).startsWith("DEPRECATED "), path)
        if (valueAt(row, "sunset") !== null) assert.match(String(valueAt(row, "sunset")), /^\d{4}-\d{2}-\d{2}$/)
        if (valueAt(row, "deprecated") === false) {
          assert.strictEqual(valueAt(row, "sunset"), null, path)
          assert.strictEqual(valueAt(row, "successor"), null, path)
        }
      }
      const paths = rows.map((row) => valueAt(row, "path"))
      assert.strictEqual(new Set(paths).size, paths.length)
    }))

  it.effect("the tier of each row is the tier that its endpoint requires (D25)", () =>
    Effect.gen(function* () {
      const { body } = yield* requestJson("/endpoints", open)
      for (const row of listOf(valueAt(body, "results"))) {
        const { body: refusal, status } = yield* requestJson(String(valueAt(row, "path")), open)
        const tier = valueAt(row, "path") === "/v1/research-reports" ? "ultimate" : "basic"
        const what = `${valueAt(row, "path")} ${JSON.stringify(refusal)}`
        assert.strictEqual(valueAt(row, "tier"), status === 401 ? tier : null, what)
      }
    }))

  it.effect("/v1/historical-tickers is the only deprecated row (§2.5, §3, §4.2, §4.5, D24, D25)", () =>
    Effect.gen(function* () {
      const { body } = yield* requestJson("/endpoints", open)
      const deprecated = listOf(valueAt(body, "results")).filter((row) => valueAt(row, "deprecated") === true)
      assert.strictEqual(deprecated.length, 1)
      assert.deepInclude(deprecated[0], {
        path: "/v1/historical-tickers",
        label: "DEPRECATED Historical Tickers",
        tier: "basic",
        sunset: null,
        successor: "/v1/ticker-changes",
      })
    }))

  it.effect("every row is a working endpoint, and every OpenAPI operation has a row (§4.5)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* Service.TestKeys
      const { body } = yield* requestJson("/endpoints", open)
      const paths = listOf(valueAt(body, "results")).map((row) => String(valueAt(row, "path")))
      for (const path of paths.filter((path) => !streamPaths.has(path))) {
        assert.include([200, 422], (yield* requestJson(path, { key: ultimate })).status, path)
      }
      const documented = (yield* operations).map(({ path }) => path)
      assert.sameMembers([...documented, "/v1/docs"], paths)
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // The OpenAPI document
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("the OpenAPI document equals test/openapi.json (§4.5)", () =>
    Effect.gen(function* () {
      const spec = yield* document
      yield* Effect.promise(() =>
        expect(`${JSON.stringify(spec, null, 2)}\n`).toMatchFileSnapshot("../../openapi.json")
      )
    }))

  it.effect("the document is OpenAPI 3.1, as JSON (§4.5)", () =>
    Effect.gen(function* () {
      const { body, headers } = yield* requestJson("/v1/openapi.json", open)
      assert.match(String(headers["content-type"]), /^application\/json/)
      assert.match(String(valueAt(body, "openapi")), /^3\.1\.\d$/)
      assert.strictEqual(valueAt(body, "info", "version"), "v1")
    }))

  it.effect("no schema has an internal name, and every row has a named schema (§9.3)", () =>
    Effect.gen(function* () {
      const spec = yield* document
      const names = entriesOf(valueAt(spec, "components", "schemas")).map(([name]) => name)
      assert.includeMembers(names, ["NewsItem", "ScreenerRow", "AmbiguousTickerLineage", "LineageReason"])
      assert.deepStrictEqual(names.filter((name) => /Encoded|\d$/.test(name)), [])
      const unnamed: Array<string> = []
      const walk = (value: unknown, path: string): void => {
        const items = valueAt(value, "items")
        if (valueAt(items, "properties") !== undefined) unnamed.push(path)
        if (Array.isArray(value)) value.forEach((item, index) => walk(item, `${path}/${index}`))
        else entriesOf(value).forEach(([name, item]) => walk(item, `${path}/${name}`))
      }
      walk(spec, "")
      assert.deepStrictEqual(unnamed, [])
    }))

  it.effect("every enumeration of several values is a named schema, and every number has 64 bits (§9.3)", () =>
    Effect.gen(function* () {
      const spec = yield* document
      const unnamed: Array<string> = []
      const small: Array<string> = []
      const walk = (value: unknown, path: string): void => {
        const isNamed = /^\/components\/schemas\/\w+$/.test(path) || path.startsWith("/paths//estimate/")
        if (listOf(valueAt(value, "enum")).length > 1 && !isNamed) unnamed.push(path)
        if (valueAt(value, "type") === "integer" && valueAt(value, "format") !== "int64") small.push(path)
        if (valueAt(value, "type") === "number" && valueAt(value, "format") !== "double") small.push(path)
        entriesOf(value).filter(([name]) => !/^(?:examples|const)$/.test(name)).forEach(([name, item]) =>
          walk(item, `${path}/${name}`)
        )
        listOf(value).forEach((item, index) => walk(item, `${path}/${index}`))
      }
      walk(spec, "")
      assert.deepStrictEqual({ unnamed, small }, { unnamed: [], small: [] })
    }))

  it.effect("every generator can set every parameter: each has one type, none is a `number`, which Go rounds (D16)", () =>
    Effect.gen(function* () {
      const spec = yield* document
      const parameters = (yield* operations).flatMap(({ operation }) => listOf(valueAt(operation, "parameters")))
      assertFoundMoreThan(400, "parameters", parameters)
      const types = new Set(parameters.map((one) => {
        const schema = resolved(spec, valueAt(one, "schema"))
        const item = resolved(spec, valueAt(schema, "items"))
        return JSON.stringify([valueAt(schema, "type"), valueAt(item, "type"), alternatives(spec, schema).length])
      }))
      const single = (type: string, item?: string) => JSON.stringify([type, item, 1])
      const expected = [single("string"), single("integer"), single("boolean"), single("array", "string")]
      assert.sameMembers(Array.from(types), [...expected, single("object")])
    }))

  it.effect("alternatives are objects that differ in a property, or a value and null (§9.3)", () =>
    Effect.gen(function* () {
      const spec = yield* document
      const ambiguous: Array<string> = []
      const isDistinct = (options: ReadonlyArray<unknown>) => {
        const required = options.map((option) => new Set(listOf(valueAt(option, "required"))))
        return options.every((option, index) =>
          entriesOf(valueAt(option, "properties")).some(([name, property]) => {
            const values = listOf(valueAt(resolved(spec, property), "enum"))
            return required.every((names, other) => other === index || !names.has(name) || values.length > 0)
          })
        )
      }
      const walk = (value: unknown, path: string): void => {
        const choices = listOf(valueAt(value, "anyOf"))
        const isNullable = choices.length === 2 && choices.some((one) => valueAt(one, "type") === "null")
        if (choices.length > 0 && !isNullable) ambiguous.push(path)
        if (Array.isArray(valueAt(value, "type"))) ambiguous.push(path)
        const options = listOf(valueAt(value, "oneOf")).map((one) => resolved(spec, one))
        if (options.length > 0 && !isDistinct(options)) ambiguous.push(path)
        entriesOf(value).filter(([name]) => name !== "examples").forEach(([name, item]) =>
          walk(item, `${path}/${name}`)
        )
        listOf(value).forEach((item, index) => walk(item, `${path}/${index}`))
      }
      walk(spec, "")
      assert.deepStrictEqual(ambiguous, [])
    }))

  it.effect("each example of a parameter is accepted, together with those of the required parameters (§4.5)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* Service.TestKeys
      const refused: Array<string> = []
      for (const { operation, path } of (yield* operations).filter(({ path }) => !streamPaths.has(path))) {
        const parameters = listOf(valueAt(operation, "parameters"))
        const toText = (name: unknown, value: unknown) =>
          Predicate.isObject(value)
            ? new URLSearchParams(entriesOf(value).map(([key, text]) => [key, String(text)])).toString()
            : new URLSearchParams({ [String(name)]: String(value) }).toString()
        const examples = (parameter: unknown) =>
          listOf(valueAt(parameter, "schema", "examples")).map((value) => toText(valueAt(parameter, "name"), value))
        const required = parameters.filter((one) => valueAt(one, "required") === true)
        for (const one of path === "/estimate" ? parameters : required) {
          assert.isNotEmpty(examples(one), `${path} ${String(valueAt(one, "name"))}`)
        }
        for (const one of [undefined, ...parameters]) {
          const others = required.filter((other) => other !== one).flatMap((other) => examples(other).slice(0, 1))
          for (const example of one === undefined ? [[]] : examples(one).map((text) => [text])) {
            const request = `${path}?${[...others, ...example].join("&")}`
            const { body, status } = yield* requestJson(request, { key: ultimate })
            if (status === 422 || status === 409) refused.push(`${request}: ${JSON.stringify(body)}`)
          }
        }
      }
      assert.deepStrictEqual(refused, [])
    }))

  it.effect("a list of fixed values is documented as a comma-separated array (§4.5)", () =>
    Effect.gen(function* () {
      const spec = yield* document
      for (const { operation, path } of yield* operations) {
        for (const parameter of listOf(valueAt(operation, "parameters"))) {
          if (!/^One of .*; several comma-separated\.$/.test(String(valueAt(parameter, "description")))) continue
          const what = `${path} ${String(valueAt(parameter, "name"))}`
          assert.deepInclude(parameter, { style: "form", explode: false }, what)
          const words = listOf(valueAt(resolved(spec, valueAt(parameter, "schema", "items")), "enum"))
          assert.isAbove(words.length, 1, what)
          assert.include(String(valueAt(parameter, "description")), `One of ${words.join(", ")};`)
        }
      }
    }))

  it.effect("deprecated operations are marked, with x-sunset only if a sunset is set (§9.4, §4.5)", () =>
    Effect.gen(function* () {
      const { body } = yield* requestJson("/endpoints", open)
      const rows = listOf(valueAt(body, "results"))
      for (const { operation, path } of yield* operations) {
        const row = rows.find((one) => valueAt(one, "path") === path)
        assert.strictEqual(valueAt(operation, "deprecated") ?? false, valueAt(row, "deprecated"), path)
        assert.strictEqual(valueAt(operation, "x-sunset") ?? null, valueAt(row, "sunset"), path)
      }
    }))

  it.effect("both ways to send a key are security schemes of exactly the operations that need one (D2, D25)", () =>
    Effect.gen(function* () {
      const spec = yield* document
      const schemes = valueAt(spec, "components", "securitySchemes")
      assert.sameMembers(entriesOf(schemes).map(([name]) => name), ["bearer", "apiKey"])
      assert.strictEqual(valueAt(schemes, "bearer", "type"), "http")
      assert.strictEqual(String(valueAt(schemes, "bearer", "scheme")).toLowerCase(), "bearer")
      assert.deepInclude(valueAt(schemes, "apiKey"), { type: "apiKey", in: "header", name: "X-API-Key" })
      const { body } = yield* requestJson("/endpoints", open)
      for (const { operation, path } of yield* operations) {
        const tier = valueAt(listOf(valueAt(body, "results")).find((row) => valueAt(row, "path") === path), "tier")
        // Two security requirements with one scheme each mean that either scheme is sufficient.
        assert.deepStrictEqual(
          listOf(valueAt(operation, "security")),
          tier === null ? [] : [{ bearer: [] }, { apiKey: [] }],
          path,
        )
      }
    }))

  it.effect("every operation documents its error codes by status (§7.2, D13)", () =>
    Effect.gen(function* () {
      const spec = yield* document
      const documented = Object.fromEntries(
        (yield* operations).map(({ operation, path }) => [path, codes(spec, operation)]),
      )
      const { body } = yield* requestJson("/endpoints", open)
      const special: Readonly<Record<string, Readonly<Record<string, ReadonlyArray<string>>>>> = {
        "/estimate": {
          "404": ["not_found"],
          "409": ["ambiguous_ticker_lineage"],
          "410": ["cursor_expired", "endpoint_removed"],
          "422": ["as_of_too_early", "validation_error"],
          "429": ["too_many_exports", "rate_limit_exceeded"],
        },
        "/v1/ticker-changes": { "409": ["ambiguous_ticker_lineage"] },
        "/v1/timeline": { "409": ["ambiguous_ticker_lineage"] },
        "/v1/historical-tickers": { "404": ["not_found"] },
        "/v1/changes": { "410": ["cursor_expired", "endpoint_removed"] },
        "/v1/changes/stream": {
          "410": ["cursor_expired", "endpoint_removed"],
          "429": ["too_many_streams", "rate_limit_exceeded"],
        },
        "/v1/corrections": { "503": ["data_refreshing", "database_pool_timeout"] },
        "/health/ready": { "503": ["database_pool_timeout"] },
      }
      for (const row of listOf(valueAt(body, "results"))) {
        const path = String(valueAt(row, "path"))
        if (path === "/v1/docs") continue
        const ofItsKind = valueAt(row, "tier") === null ? everywhere : freeEndpointPaths.includes(path) ? keyed : priced
        const { parameters = [] } = documentedEndpoints.find((one) => one.path === path) ?? {}
        const isFollowable = parameters.some(({ name }) => name === "follow_lineage")
        const ambiguous = isFollowable ? { "409": ["ambiguous_ticker_lineage"] } : {}
        const past = getParameterNames(path).includes("as_of") ? { "422": ["as_of_too_early", "validation_error"] } : {}
        const isExportable = getParameterNames(path).includes("format")
        const exports = isExportable ? { "429": ["too_many_exports", "rate_limit_exceeded"] } : {}
        const expected = { ...ofItsKind, ...ambiguous, ...past, ...exports, ...special[path] }
        const { "422": invalid, ...others } = expected
        // Health checks ignore parameters.
        const wanted = path.startsWith("/health/") ? others : { ...others, "422": invalid }
        assert.deepStrictEqual(documented[path], wanted, path)
      }
    }))

  it.effect("/estimate documents every path of the catalogue except streams, and accepts the parameters of the path (D28)", () =>
    Effect.gen(function* () {
      const found = yield* operations
      const estimate = found.find(({ path }) => path === "/estimate")?.operation
      const [endpoint, ...more] = listOf(valueAt(estimate, "parameters"))
      const named = listOf(valueAt(endpoint, "schema", "enum"))
      assert.deepInclude(endpoint, { name: "endpoint", in: "query", required: true })
      const { body } = yield* requestJson("/endpoints", open)
      const paths = listOf(valueAt(body, "results")).map((row) => String(valueAt(row, "path")))
      assert.deepStrictEqual(named, paths.filter((path) => !streamPaths.has(path)))
      assert.strictEqual(more.length, 1)
      assert.deepInclude(more[0], { name: "parameters", in: "query", style: "form", explode: true })
      assert.notStrictEqual(valueAt(more[0], "required"), true)
      assert.strictEqual(valueAt(more[0], "schema", "type"), "object")
      assert.match(String(valueAt(more[0], "description")), /the request's own parameters/i)
    }))

  it.effect("every documented error has the fields error and request_id (§7.1, D11)", () =>
    Effect.gen(function* () {
      const spec = yield* document
      for (const { operation, path } of yield* operations) {
        for (const [status, response] of entriesOf(valueAt(operation, "responses"))) {
          if (Number(status) < 400) continue
          const body = resolved(spec, valueAt(resolved(spec, response), "content", "application/json", "schema"))
          const what = `${path} ${status}`
          assert.sameMembers([...listOf(valueAt(body, "required"))], ["error", "request_id"], what)
          assert.strictEqual(
            valueAt(resolved(spec, valueAt(body, "properties", "request_id")), "type"),
            "string",
            what,
          )
          for (const error of listErrors(spec, body)) {
            assert.includeMembers([...listOf(valueAt(error, "required"))], ["code", "message"], what)
          }
        }
      }
    }))

  it.effect("every documented error has a description of its `message` (§7.1, D11)", () =>
    Effect.gen(function* () {
      const spec = yield* document
      const errors = entriesOf(valueAt(spec, "components", "schemas")).flatMap(([name, schema]) => {
        const message = valueAt(schema, "properties", "error", "properties", "message") ??
          (name.endsWith("Error") ? valueAt(schema, "properties", "message") : undefined)
        return message === undefined ? [] : [{ name, description: valueAt(message, "description") }]
      })
      assertFoundMoreThan(13, "errors", errors)
      assert.deepStrictEqual(errors.filter(({ description }) => typeof description !== "string"), [])
    }))

  it.effect("no response schema forbids new fields, so generated clients ignore them (§9.3)", () =>
    Effect.gen(function* () {
      const spec = yield* document
      const closed: Array<string> = []
      const walk = (value: unknown, path: string): void => {
        if (valueAt(value, "additionalProperties") === false) closed.push(path)
        if (Array.isArray(value)) value.forEach((item, index) => walk(item, `${path}/${index}`))
        else entriesOf(value).forEach(([name, item]) => walk(item, `${path}/${name}`))
      }
      for (const { operation, path } of yield* operations) walk(valueAt(operation, "responses"), path)
      walk(valueAt(spec, "components", "schemas"), "components")
      assert.deepStrictEqual(closed, [])
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // The documentation page at `/v1/docs`
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("/v1/docs is HTML (§4.5, §9.4)", () =>
    Effect.gen(function* () {
      const { headers, status, text } = yield* requestJson("/v1/docs", open)
      assert.strictEqual(status, 200)
      assert.match(String(headers["content-type"]), /^text\/html(; charset=utf-8)?$/)
      assert.match(text, /^<!doctype html>/i)
      assert.include(text, "<title>Tickerline</title>")
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Health checks, and endpoints without parameters
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("/health/live and /health/ready answer ok (D2)", () =>
    Effect.gen(function* () {
      for (const path of ["/health/live", "/health/ready"]) {
        const { body, status } = yield* requestJson(path, open)
        assert.strictEqual(status, 200)
        const parts = { service: "ok", database: "ok", usage: "ok", limits: "ok", cache: "ok", clock: "ok" }
        assert.deepStrictEqual(body, path === "/health/live" ? { status: "ok" } : { status: "ok", parts })
      }
    }))

  it.effect("endpoints without parameters refuse any parameter (D4)", () =>
    Effect.gen(function* () {
      for (const path of ["/endpoints", "/v1/openapi.json"]) {
        const { body, status } = yield* requestJson(`${path}?limit=1`, open)
        assert.strictEqual(status, 422, path)
        assert.strictEqual(valueAt(body, "error", "details", "fields", 0, "field"), "limit")
      }
    }))
})

// ---------------------------------------------------------------------------------------------------------------------
// Health checks while the database cannot be reached
// ---------------------------------------------------------------------------------------------------------------------

const asAdmin = (...statements: ReadonlyArray<string>) => {
  const url = new URL(inject("databaseUrl"))
  url.pathname = "/postgres"
  return Effect.scoped(
    Effect.flatMap(
      PgConnection.make({ url: Redacted.make(url.href) }),
      (connection) => Effect.forEach(statements, (statement) => connection.query(statement), { discard: true }),
    ),
  )
}

const disconnected = (name: string) =>
  `select pg_terminate_backend(pid, 30000) from pg_stat_activity where datname = '${name}'`

/** Ways to make a database unreachable, each with the way to make it reachable again. */
const absences = [
  {
    what: "takes no connections",
    go: (name: string) => [`alter database ${name} with allow_connections false`, disconnected(name)],
    back: (name: string) => [`alter database ${name} with allow_connections true`],
  },
  {
    what: "is missing",
    go: (name: string) => [
      `alter database ${name} with allow_connections false`,
      disconnected(name),
      `alter database ${name} rename to ${name}_gone`,
    ],
    back: (name: string) => [
      `alter database ${name}_gone rename to ${name}`,
      `alter database ${name} with allow_connections true`,
    ],
  },
] as const

absences.forEach(({ back, go, what }) =>
  layer(Layer.fresh(Service.layer), { excludeTestServices: true })(`While the database ${what},`, (it) => {
    it.effect("/health/ready responds with 503 and Retry-After, but /health/live with 200; /health/ready then recovers (§7.2, D2)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const [row] = yield* sql<{ readonly name: string }>`select current_database() as name`
        const name = row?.name ?? ""
        // A session that is still starting may delay the renaming.
        yield* Effect.retry(asAdmin(...go(name)), { times: 10 })
        yield* Effect.gen(function* () {
          const ready = yield* requestJson("/health/ready", open).pipe(
            Effect.repeat({ until: ({ status }) => status === 503, schedule: Schedule.spaced("20 millis") }),
            Effect.timeout("60 seconds"),
          )
          assert.strictEqual(ready.headers["retry-after"], "5")
          assert.strictEqual(valueAt(ready.body, "error", "code"), "database_pool_timeout")
          assert.strictEqual(valueAt(ready.body, "error", "details", "parts", "database"), "away")
          assert.strictEqual(valueAt(ready.body, "error", "details", "parts", "usage"), "ok")
          assert.strictEqual(valueAt(ready.body, "request_id"), ready.headers["x-request-id"])
          assert.notInclude(ready.text, name)
          assert.strictEqual((yield* requestJson("/health/live", open)).status, 200)
          assert.strictEqual((yield* requestJson("/endpoints", open)).status, 200)
          const keyed = yield* requestJson("/v1/intraday-runners")
          assert.strictEqual(keyed.status, 503, keyed.text)
          assert.strictEqual(keyed.headers["retry-after"], "5")
        }).pipe(Effect.ensuring(Effect.orDie(asAdmin(...back(name)))))
        const status = yield* Effect.map(requestJson("/health/ready", open), (response) => response.status).pipe(
          Effect.repeat({ until: (status) => status === 200, schedule: Schedule.spaced("100 millis") }),
          Effect.timeout("60 seconds"),
        )
        assert.strictEqual(status, 200)
      }))
  })
)
