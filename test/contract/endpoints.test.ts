/**
 * Checks the declaration and HTTP behavior of every endpoint in the contract, so new endpoints are included
 * automatically.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Array as Arr, Context, Effect, Predicate, Schema } from "effect"
import { HttpApi, OpenApi } from "effect/http-api"
import { AuthenticationMiddleware } from "../../src/contract/Authentication.ts"
import { Api } from "../../src/contract/Api.ts"
import { getDefaultOpenApiDocument } from "../../src/api/catalogue/OpenApiDocument.ts"
import { FixedOffsetTimeColumn, InstantColumn, NewYorkTimeColumn } from "../../src/contract/rows/Timestamps.ts"
import {
  buildUrl,
  type DocumentedParameter,
  freeEndpointPaths,
  getDocumentedParameters,
  isQueryParameter,
  pickSampleValue,
  streamPaths,
} from "../support/DocumentedEndpoints.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"
import * as Service from "../support/Service.ts"
import { sampleUnlessThorough } from "../support/Thoroughness.ts"

const { valueAt } = Service

/** Sends a request, by default with a key that may use every endpoint. */
const sendRequest = Effect.fnUntraced(function* (path: string, options: Service.TestRequestOptions = {}) {
  const { ultimate } = yield* Service.TestKeys
  return yield* Service.requestJson(path, { key: ultimate, ...options })
})

const toArray = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : []

const toEntries = (value: unknown): ReadonlyArray<readonly [string, unknown]> =>
  Predicate.isObject(value) ? Object.entries(value) : []

const spec: unknown = getDefaultOpenApiDocument()

const resolveSchema = (schema: unknown): unknown => {
  const reference = valueAt(schema, "$ref")
  return typeof reference === "string"
    ? resolveSchema(valueAt(spec, ...reference.replace("#/", "").split("/")))
    : schema
}

interface Parameter {
  readonly name: string
  readonly required: boolean
  readonly schema: unknown
  readonly description: unknown
}

const readParameters = (operation: unknown): ReadonlyArray<Parameter> =>
  toArray(valueAt(operation, "parameters")).filter(isQueryParameter).map((parameter) => ({
    name: String(valueAt(parameter, "name")),
    required: valueAt(parameter, "required") === true,
    schema: resolveSchema(valueAt(parameter, "schema")),
    description: valueAt(parameter, "description"),
  }))

const listDeclaredEndpoints = () => {
  const found: Array<{
    readonly path: string
    readonly method: string
    readonly keyed: boolean
    readonly summary: string | undefined
    readonly description: string | undefined
    readonly errors: ReadonlyArray<number>
    readonly parameters: ReadonlyArray<Parameter>
    readonly success: unknown
  }> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, errors, middleware }) => {
      const operation = valueAt(spec, "paths", endpoint.path, endpoint.method.toLowerCase())
      found.push({
        path: endpoint.path,
        method: endpoint.method,
        keyed: Array.from(middleware).some(({ key }) => key === AuthenticationMiddleware.key),
        summary: Context.getOrUndefined(endpoint.annotations, OpenApi.Summary),
        description: Context.getOrUndefined(endpoint.annotations, OpenApi.Description),
        errors: Array.from(errors.keys()).toSorted((left, right) => left - right),
        parameters: readParameters(operation),
        success: resolveSchema(valueAt(operation, "responses", "200", "content", "application/json", "schema")),
      })
    },
  })
  return found
}

const endpoints = listDeclaredEndpoints()
const endpointsWithEnd = endpoints.filter(({ path }) => !streamPaths.has(path))
const endpointsWithKey = endpointsWithEnd.filter((endpoint) => endpoint.keyed)
const endpointsWithoutKey = endpointsWithEnd.filter((endpoint) => !endpoint.keyed)
const pricedEndpoints = endpointsWithKey.filter(({ path }) => !freeEndpointPaths.includes(path))
/** Endpoints that return a single object instead of a list (§4.1, D23, D28: envelope without pages). */
const pathsWithoutList = ["/estimate", "/v1/account", "/v1/overview", "/v1/ticker-changes", "/v1/historical-tickers"]
/** Endpoints that return a list with a cursor instead of pages. */
const feedPaths = new Set(["/v1/changes"])
const lists = endpointsWithKey.filter(({ path }) => !pathsWithoutList.includes(path) && !feedPaths.has(path))
const parameters = endpoints.flatMap((endpoint) =>
  endpoint.parameters.map((parameter) => ({ ...parameter, path: endpoint.path, others: endpoint.parameters }))
)

const listAlternatives = (schema: unknown) => [
  ...toArray(valueAt(schema, "anyOf")),
  ...toArray(valueAt(schema, "oneOf")),
]

/**
 * Returns the value of a JSON Schema keyword. In the schema of a nullable field, the keyword is inside an `anyOf`
 * alternative.
 */
const findKeyword = (schema: unknown, keyword: string): unknown => {
  const one = resolveSchema(schema)
  return valueAt(schema, keyword) ?? valueAt(one, keyword) ??
    listAlternatives(one).map((inner) => findKeyword(inner, keyword)).find((value) => value !== undefined)
}

/** Returns a valid value for a parameter. */
const makeSampleValue = ({ name, schema }: Parameter) =>
  name === "ticker"
    ? "META"
    : JSON.stringify(schema).includes(`"format":"date"`)
    ? "2025-01-02"
    : name === "limit"
    ? "1"
    : pickSampleValue(toArray(findKeyword(schema, "enum")).map(String)) ?? "1"

const makeRequiredQuery = (others: ReadonlyArray<Parameter>, except: string) =>
  others.filter((other) => other.required && other.name !== except).map((other) =>
    `${other.name}=${makeSampleValue(other)}`
  )

const isList = ({ kind }: DocumentedParameter) => kind === "tickers" || kind === "words"

const getFieldName = ({ field }: { readonly field: string }) => field

const requestInvalid = Effect.fnUntraced(function* (path: string, query: ReadonlyArray<string>) {
  const response = yield* sendRequest(`${path}?${query.join("&")}`)
  assert.strictEqual(response.status, 422, `${path}?${query.join("&")} ${response.text}`)
  assert.strictEqual(valueAt(response.body, "error", "code"), "validation_error")
  assert.strictEqual(valueAt(response.body, "request_id"), response.headers["x-request-id"])
  return toArray(valueAt(response.body, "error", "details", "fields")).map((field) => ({
    field: String(valueAt(field, "field")),
    reason: String(valueAt(field, "reason")),
  }))
})

/** Returns whether two words differ by at most one inserted, removed or changed letter. */
const differsByOneLetter = (one: string, other: string) => {
  const shorter = Math.min(one.length, other.length)
  let start = 0
  while (start < shorter && one[start] === other[start]) start += 1
  let end = 0
  while (end < shorter - start && one.at(-1 - end) === other.at(-1 - end)) end += 1
  return Math.max(one.length, other.length) - start - end <= 1
}

/** Builds a valid request for an endpoint. */
const buildValidRequest = (
  { parameters, path }: { readonly parameters: ReadonlyArray<Parameter>; readonly path: string },
) => `${path}?${makeRequiredQuery(parameters, "").join("&")}`.replace(/\?$/, "")

/** Returns misspellings of a parameter that are not similar to any other parameter. */
const listMisspellings = (name: string, others: ReadonlyArray<Parameter>) =>
  [
    `${name}x`,
    name.slice(0, -1),
    name.slice(1),
    `${name.slice(0, 2)}${name.slice(1)}`,
    name.toUpperCase(),
    `${name}s`,
    `${name.slice(0, 1)}${name.slice(2)}`,
  ].filter((wrong) =>
    others.every((other) => other.name === name || !differsByOneLetter(wrong.toLowerCase(), other.name))
  )

layer(Service.layer, { excludeTestServices: true })("Every endpoint", (it) => {
  it.effect.each(endpointsWithEnd)(
    "answers GET and HEAD only: $path (D10)",
    (endpoint) =>
      Effect.gen(function* () {
        const { keyed, method } = endpoint
        assert.strictEqual(method, "GET")
        const target = buildValidRequest(endpoint)
        const get = yield* sendRequest(target)
        assert.include(keyed ? [200, 404] : [200], get.status, get.text)
        const head = yield* sendRequest(target, { method: "HEAD" })
        assert.strictEqual(head.status, get.status)
        assert.strictEqual(head.text, "")
        assert.strictEqual(head.headers["content-type"], get.headers["content-type"])
        for (const other of ["POST", "PUT", "PATCH", "DELETE"] as const) {
          const { body, headers, status } = yield* sendRequest(target, { method: other })
          assert.strictEqual(status, 405)
          assert.strictEqual(headers["allow"], "GET, HEAD")
          assert.strictEqual(valueAt(body, "error", "code"), "method_not_allowed")
        }
        assert.strictEqual((yield* sendRequest(target, { method: "OPTIONS", key: null })).status, 204)
      }),
  )

  it.effect("/estimate names its parameter if a library writes it as a list (D4)", () =>
    Effect.gen(function* () {
      const found = yield* requestInvalid("/estimate", ["endpoint[]=/v1/news"])
      const reason = "is required; send endpoint=VALUE instead of endpoint[]"
      assert.deepStrictEqual(found, [{ field: "endpoint", reason }])
    }))

  it.effect.each(endpoints.filter(({ parameters, path }) => parameters.length > 0 && path !== "/estimate"))(
    "names the parameter and its form if a library writes a list in its own way: $path (D4)",
    ({ parameters, path }) =>
      Effect.gen(function* () {
        const lists = new Set(getDocumentedParameters(path).filter(isList).map(({ name }) => name))
        // A response reports at most 20 parameters.
        for (const part of Arr.chunksOf(parameters, 18)) {
          const send = Effect.fnUntraced(function* (suffix: string, values: ReadonlyArray<string>) {
            const query = part.flatMap(({ name }) =>
              values.map((value) => `${encodeURIComponent(name + suffix)}=${value}`)
            )
            const found = yield* requestInvalid(path, query)
            for (const { name } of part) {
              const reason = found.find(({ field }) => field === name + suffix)?.reason ?? ""
              const expected = lists.has(name)
                ? `, with its values separated by commas: ${name}=A,B`
                : suffix === ""
                ? "is sent more than once; send it once"
                : `Send ${name} once, with `
              assert.include(reason, expected, `${path} ${name}${suffix}`)
            }
          })
          yield* send("", ["1", "2"])
          yield* send("[]", ["1", "2"])
          for (const suffix of ["[]", "[0]", "[a][b]", ".0"]) yield* send(suffix, ["1"])
        }
      }),
  )

  it.effect.each(endpoints.filter((endpoint) => endpoint.parameters.length > 0))(
    "says how to send no value if a library writes null as text: $path (D4)",
    ({ parameters, path }) =>
      Effect.gen(function* () {
        const kinds = new Map(getDocumentedParameters(path).map(({ kind, name }) => [name, kind]))
        // A text parameter accepts these words, because a symbol or another text may be spelled like that.
        const isRefused = ({ name, required }: Parameter) =>
          !required && !["text", "ticker", "tickers"].includes(kinds.get(name) ?? "words")
        for (const part of Arr.chunksOf(parameters.filter(isRefused), 18)) {
          for (const text of ["null", "undefined", "None", "NaN", "nil", ""]) {
            const found = yield* requestInvalid(path, part.map(({ name }) => `${name}=${text}`))
            for (const { name } of part) {
              const reason = found.find(({ field }) => field === name)?.reason ?? ""
              assert.include(reason, `leave ${name} out to send no value`, `${path} ${name}=${text}`)
            }
          }
        }
      }),
  )

  it.effect.each(endpoints.filter(({ path }) => !path.startsWith("/health/")))(
    "refuses an unknown parameter and names it: $path (D4)",
    ({ parameters, path }) =>
      Effect.gen(function* () {
        const names = [
          "zzzzzzzzzz",
          "a",
          "x".repeat(64),
          "ticker[]",
          "ticker[0]",
          "__proto__",
          "constructor",
          "toString",
        ]
        const [alone = "", ...together] = names
        for (const sent of [[alone], together]) {
          const fields = yield* requestInvalid(path, [
            ...makeRequiredQuery(parameters, ""),
            ...sent.map((name) => `${name}=1`),
          ])
          assert.sameMembers(fields.map(getFieldName), sent)
          for (const { reason } of fields) assert.match(reason, /is not a parameter of this endpoint/)
        }
      }),
  )

  // Excludes /estimate, which also accepts the parameters of the estimated endpoint (D28).
  it.effect.each(sampleUnlessThorough(parameters.filter(({ path }) => path !== "/estimate"), 4, 0))(
    "refuses a misspelled $name of $path and suggests the correct name (D4)",
    ({ name, others, path }) =>
      Effect.gen(function* () {
        const misspellings = listMisspellings(name, others)
        assertFoundMoreThan(3, "misspellings", misspellings)
        const sent = sampleUnlessThorough(misspellings, 4, name.length)
        const fields = yield* requestInvalid(path, [
          ...makeRequiredQuery(others, name),
          ...sent.map((wrong) => `${wrong}=1`),
        ])
        for (const wrong of sent) {
          const field = fields.find((one) => one.field === wrong)
          assert.include(field?.reason ?? "", `Did you mean ${name}?`, wrong)
        }
      }),
  )

  it.effect.each(endpoints.filter((endpoint) => endpoint.path !== "/estimate" && endpoint.parameters.length > 0))(
    "refuses a value of 3,000 characters, and documents the maximum length of text: $path (SECURITY.md)",
    ({ parameters, path }) =>
      Effect.gen(function* () {
        for (const { name, schema } of parameters) {
          const fields = yield* requestInvalid(path, [
            ...makeRequiredQuery(parameters, name),
            `${name}=${"x".repeat(3_000)}`,
          ])
          assert.deepStrictEqual(fields.map(getFieldName), [name])
          const maxLength = valueAt(schema, "maxLength")
          const isText = valueAt(schema, "type") === "string" &&
            ["enum", "format", "pattern"].every((keyword) => valueAt(schema, keyword) === undefined)
          // These parameters have a fixed format, which their descriptions explain.
          if (!isText || ["after", "as_of", "cik", "sort", "ticker"].includes(name)) continue
          assert.isAtMost(Number(maxLength), 1_024, `${name} has the maxLength ${String(maxLength)}`)
        }
      }),
  )

  it.effect.each(endpoints.filter((endpoint) => endpoint.parameters.length > 0))(
    "refuses repeated parameters, and names them: $path (D4)",
    ({ parameters, path }) =>
      Effect.gen(function* () {
        const encode = (name: string) => `%${name.charCodeAt(0).toString(16)}${name.slice(1)}`
        const repetitions: ReadonlyArray<(name: string, value: string) => ReadonlyArray<string>> = [
          (name, value) => [`${name}=${value}`, `${name}=${value}`],
          (name, value) => [`${name}=${value}`, `${encode(name)}=${value}`],
          (name, value) => [`${name}=${value}`, `${name}=${value}`, `${name}=${value}`],
          (name, value) => [`${name}=${value}`, `${name}=`],
        ]
        // Sends twenty parameters at a time, because a response reports at most twenty.
        const chunks = Arr.chunksOf(parameters, 20)
        for (const [chunk, repeat] of chunks.flatMap((chunk) => repetitions.map((each) => [chunk, each] as const))) {
          const names = chunk.map(({ name }) => name)
          const others = makeRequiredQuery(parameters.filter(({ name }) => !names.includes(name)), "")
          const fields = yield* requestInvalid(path, [
            ...others,
            ...chunk.flatMap((one) => repeat(one.name, makeSampleValue(one))),
          ])
          assert.sameMembers(fields.map(getFieldName), names)
          for (const { reason } of fields) assert.match(reason, /more than once/)
        }
      }),
  )

  it.effect.each(parameters.filter((parameter) => parameter.required))(
    "requires the parameter $name: $path (§4.1, D4)",
    ({ name, others, path }) =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* requestInvalid(path, makeRequiredQuery(others, name)), [{
          field: name,
          reason: "is required",
        }])
      }),
  )

  it.effect.each(endpointsWithKey)(
    "responds with 401 and WWW-Authenticate without a valid key, even if the query is invalid: $path (D2)",
    ({ path }) =>
      Effect.gen(function* () {
        for (const query of ["", "?nonsense=1", "?ticker=@@&ticker=@@"]) {
          for (const [key, code] of [[null, "missing_api_key"], ["nonsense", "invalid_api_key"]] as const) {
            for (const method of ["GET", "HEAD"] as const) {
              const { body, headers, status } = yield* sendRequest(`${path}${query}`, { key, method })
              assert.strictEqual(status, 401)
              assert.strictEqual(headers["www-authenticate"], "Bearer")
              if (method === "GET") assert.strictEqual(valueAt(body, "error", "code"), code)
            }
          }
        }
      }),
  )

  it.effect.each(endpointsWithoutKey)(
    "answers without a valid key if it requires none: $path (D2)",
    ({ path }) =>
      Effect.gen(function* () {
        for (const key of [null, "nonsense"]) assert.strictEqual((yield* sendRequest(path, { key })).status, 200)
      }),
  )

  it.effect.each(endpointsWithKey)(
    "is available to all tiers, except research reports, which need ultimate: $path (§5.3, D3)",
    (endpoint) =>
      Effect.gen(function* () {
        const keys = yield* Service.TestKeys
        const target = buildValidRequest(endpoint)
        for (const key of [keys.basic, keys.pro]) {
          const seen = endpoint.path === "/v1/research-reports" ? [403] : [200, 404]
          assert.include(seen, (yield* sendRequest(target, { key })).status)
        }
        assert.include([200, 404], (yield* sendRequest(target, { key: keys.ultimate })).status)
      }),
  )

  it.effect.each(lists)(
    "returns the first ten rows by default: $path (D8)",
    (endpoint) =>
      Effect.gen(function* () {
        const { parameters, path } = endpoint
        const { body, status } = yield* sendRequest(buildValidRequest(endpoint))
        assert.strictEqual(status, 200)
        assert.strictEqual(valueAt(body, "page"), 1)
        assert.strictEqual(valueAt(body, "limit"), 10)
        assert.isBoolean(valueAt(body, "has_more"))
        assert.strictEqual(valueAt(body, "count"), toArray(valueAt(body, "results")).length)
        const notDigits = [
          "%2B5",
          "+5",
          "5+",
          "1e1",
          "10.0",
          "1.",
          "0x5",
          "5_0",
          "",
          "Infinity",
          "%D9%A5",
          "9".repeat(400),
        ]
        const wrong = notDigits.flatMap((text) => [`page=${text}`, `limit=${text}`])
        wrong.push("page=0", "page=1.5", "limit=0", "limit=101", "page=x", "limit=-1", "page=2147483648")
        for (const bounds of sampleUnlessThorough(wrong, 4, path.length)) {
          const [name] = bounds.split("=")
          const fields = yield* requestInvalid(path, [...makeRequiredQuery(parameters, ""), bounds])
          assert.deepStrictEqual(fields.map(({ field }) => field), [name], bounds)
          assert.match(fields[0]?.reason ?? "", /^must be a whole number from 1 to (100, or all|2147483647)/, bounds)
        }
        const padded = yield* sendRequest(
          `${buildValidRequest(endpoint)}${buildValidRequest(endpoint).includes("?") ? "&" : "?"}page=01&limit=007`,
        )
        assert.deepStrictEqual([valueAt(padded.body, "page"), valueAt(padded.body, "limit")], [1, 7])
      }),
  )

  it.effect.each(["/estimate", "/v1/account", "/v1/overview"])(
    "returns one object in the envelope without pages: %s (§1, D28)",
    (path) =>
      Effect.gen(function* () {
        const { body, status } = yield* sendRequest(path === "/estimate" ? `${path}?endpoint=/v1/screener` : path)
        assert.strictEqual(status, 200)
        assert.deepStrictEqual(Object.keys(Object(body)), ["count", "results"])
        assert.strictEqual(valueAt(body, "count"), 1)
        assert.strictEqual(toArray(valueAt(body, "results")).length, 1)
        if (path !== "/estimate") {
          assert.deepStrictEqual((yield* requestInvalid(path, ["page=1"])).map(getFieldName), ["page"])
        }
      }),
  )

  // -------------------------------------------------------------------------------------------------------------------
  // Rate limit and cost
  // -------------------------------------------------------------------------------------------------------------------

  /** Asserts that a response has rate limit headers (D18), and returns its cost (D27, prices). */
  const assertRateLimit = ({ headers }: { readonly headers: Readonly<Record<string, string | undefined>> }) => {
    const [limit, remaining, reset, cost] = [
      "x-ratelimit-limit",
      "x-ratelimit-remaining",
      "x-ratelimit-reset",
      "x-cost-microdollars",
    ].map((name) => headers[name])
    for (const value of [limit, remaining, reset, cost]) assert.match(value ?? "", /^\d+$/)
    assert.isBelow(Number(remaining), Number(limit))
    assert.isAtLeast(Number(reset), 1)
    assert.isAtMost(Number(reset), 60)
    return Number(cost)
  }

  it.effect.each(endpointsWithKey)(
    "sends the rate limit, and a cost above 0 only for data: $path (D18, D27)",
    (endpoint) =>
      Effect.gen(function* () {
        const { path } = endpoint
        const target = buildValidRequest(endpoint)
        const get = yield* sendRequest(target)
        const cost = assertRateLimit(get)
        if (get.status === 200 && pricedEndpoints.includes(endpoint)) assert.isAbove(cost, 0)
        else assert.strictEqual(cost, 0)
        const head = yield* sendRequest(target, { method: "HEAD" })
        assert.strictEqual(assertRateLimit(head), 0)
        const wrong = yield* sendRequest(`${target}${target.includes("?") ? "&" : "?"}zzzzzzzzzz=1`)
        assert.strictEqual(wrong.status, 422)
        assert.strictEqual(assertRateLimit(wrong), 0)

        const narrow = yield* Service.ensureAccountWithKey("narrow", "ultimate", { endpoints: ["/v1/nowhere"] })
        const refusal = yield* sendRequest(target, { key: narrow })
        assert.strictEqual(refusal.status, 403)
        assert.strictEqual(valueAt(refusal.body, "error", "code"), "endpoint_not_allowed")
        // An estimate is refused for the same reason as a request to the estimated endpoint.
        const refused = path === "/estimate" ? new URL(target, "http://x").searchParams.get("endpoint") : path
        const details = { endpoint: refused, allowed: ["/v1/nowhere"] }
        assert.deepStrictEqual(valueAt(refusal.body, "error", "details"), details)
        assert.strictEqual(assertRateLimit(refusal), 0)
      }),
  )

  it.effect.each(endpoints)(
    "sends no rate limit and no cost without a valid key: $path (D2, D18)",
    (endpoint) =>
      Effect.gen(function* () {
        const { headers } = yield* sendRequest(buildValidRequest(endpoint), { key: null })
        assert.deepStrictEqual(Object.keys(headers).filter((name) => /ratelimit|cost/.test(name)), [])
      }),
  )

  // -------------------------------------------------------------------------------------------------------------------
  // Estimates
  // -------------------------------------------------------------------------------------------------------------------

  const estimateParameters = endpoints.find(({ path }) => path === "/estimate")?.parameters ?? []

  it.effect("has an estimate unless it is a stream: the only parameter of /estimate accepts its path (D28)", () =>
    Effect.sync(() => {
      assert.deepStrictEqual(estimateParameters.map(({ name, required }) => ({ name, required })), [
        { name: "endpoint", required: true },
      ])
      const paths = [...endpointsWithEnd.map(({ path }) => path), "/v1/docs"]
      assert.sameMembers([...toArray(findKeyword(estimateParameters[0]?.schema, "enum"))], paths)
    }))

  it.effect("has an estimate only with the parameter `endpoint`, which is reported as missing if misspelled (D4, D28)", () =>
    Effect.gen(function* () {
      for (const wrong of listMisspellings("endpoint", estimateParameters)) {
        for (const more of [[], ["ticker=@@"], ["nonsense=1"]]) {
          const fields = yield* requestInvalid("/estimate", [`${wrong}=/v1/news`, ...more])
          assert.deepStrictEqual(fields, [{ field: "endpoint", reason: "is required" }], wrong)
        }
      }
    }))

  it.effect("has an estimate of 0 if it is free, and none if the catalogue does not list it (D28)", () =>
    Effect.gen(function* () {
      for (const path of [...freeEndpointPaths, ...endpointsWithoutKey.map((one) => one.path), "/v1/docs"]) {
        const { body, status } = yield* sendRequest(`/estimate?endpoint=${path}`)
        assert.strictEqual(status, 200, path)
        assert.strictEqual(valueAt(body, "results", 0, "estimated_cost_microdollars"), 0, path)
      }
      for (const path of ["/v1/nowhere", "", "/v1/News"]) {
        const [field, ...more] = yield* requestInvalid("/estimate", [`endpoint=${path}`])
        assert.deepStrictEqual(more, [])
        assert.strictEqual(field?.field, "endpoint")
        assert.match(field?.reason ?? "", /^is not in the catalogue\./)
      }
    }))

  it.effect.each(sampleUnlessThorough(pricedEndpoints, 4, 2))(
    "refuses the same mistakes in a request and in its estimate, with the same message: $path (D28)",
    ({ parameters, path }) =>
      Effect.gen(function* () {
        const [{ name } = { name: "" }] = parameters
        const right = makeRequiredQuery(parameters, "")
        const mistakes = [
          [...right, "zzzzzzzzzz=1"],
          [...right, "__proto__=1", "constructor=2", "ticker[]=3"],
          ["parameters=1", ...right],
          [...makeRequiredQuery(parameters, name), `${name}x=META`],
          [
            ...makeRequiredQuery(parameters, name),
            `${name}=META`,
            `%${name.charCodeAt(0).toString(16)}${name.slice(1)}=META`,
          ],
          [...right.map((one) => one.replace(/=.*/, "=@@")), "page=0", "limit=x"],
          [...makeRequiredQuery(parameters, name), `${name}=`],
          ...(right.length === 0 ? [] : [[]]),
        ]
        for (const mistake of mistakes) {
          const own = yield* sendRequest(`${path}?${mistake.join("&")}`)
          const estimate = yield* sendRequest(`/estimate?${[`endpoint=${path}`, ...mistake].join("&")}`)
          assert.strictEqual(own.status, 422, `${path} ${mistake.join("&")}`)
          assert.strictEqual(estimate.status, 422)
          assert.deepStrictEqual(valueAt(estimate.body, "error"), valueAt(own.body, "error"))
          assert.strictEqual(valueAt(estimate.body, "request_id"), estimate.headers["x-request-id"])
          // The order of the parameters does not matter, so `endpoint` may also come last.
          const last = yield* sendRequest(`/estimate?${[...mistake, `endpoint=${path}`].join("&")}`)
          assert.deepStrictEqual(valueAt(last.body, "error"), valueAt(own.body, "error"))
        }
      }),
  )

  it.effect("has an estimate only for tiers that may use it, such as ultimate for research reports (D3, D28)", () =>
    Effect.gen(function* () {
      const { basic, pro } = yield* Service.TestKeys
      const target = buildUrl("/estimate", [["endpoint", "/v1/research-reports"]])
      for (const key of [basic, pro]) {
        for (const query of ["", "&nonsense=1"]) {
          const estimate = yield* sendRequest(`${target}${query}`, { key })
          const own = yield* sendRequest("/v1/research-reports", { key })
          assert.strictEqual(estimate.status, 403)
          assert.strictEqual(valueAt(estimate.body, "error", "code"), "insufficient_tier")
          assert.deepStrictEqual(valueAt(estimate.body, "error"), valueAt(own.body, "error"))
        }
      }
      assert.strictEqual((yield* sendRequest(target)).status, 200)
    }))

  it.effect("has an estimate only for keys that may use it (D2, D28)", () =>
    Effect.gen(function* () {
      const key = yield* Service.ensureAccountWithKey("estimator", "ultimate", { endpoints: ["/v1/news"] })
      const status = (path: string) =>
        Effect.map(sendRequest(buildUrl("/estimate", [["endpoint", path]]), { key }), (response) => response.status)
      assert.strictEqual(yield* status("/v1/news"), 200)
      assert.strictEqual(yield* status("/v1/screener"), 403)
    }))
})

// ---------------------------------------------------------------------------------------------------------------------
// Rules for every declared endpoint, parameter and field
// ---------------------------------------------------------------------------------------------------------------------

interface Property {
  readonly where: string
  readonly name: string
  readonly schema: unknown
}

/** Returns all fields in a JSON schema, at any depth. */
const listProperties = (schema: unknown, where: string): ReadonlyArray<Property> => {
  const one = resolveSchema(schema)
  return [
    ...toEntries(valueAt(one, "properties")).flatMap(([name, inner]) => [
      { where: `${where}.${name}`, name, schema: inner },
      ...listProperties(inner, `${where}.${name}`),
    ]),
    ...listAlternatives(one).flatMap((inner) => listProperties(inner, where)),
    ...toArray(valueAt(one, "prefixItems")).flatMap((inner) => listProperties(inner, `${where}[]`)),
    ...(valueAt(one, "items") === undefined ? [] : listProperties(valueAt(one, "items"), `${where}[]`)),
  ]
}

const fields = endpoints.flatMap(({ path, success }) => listProperties(success, path))

/** Names of fields that need no description. */
const selfExplanatoryNames = new Set([
  "count",
  "page",
  "limit",
  "status",
  "old_ticker",
  "new_ticker",
  "deprecated",
  "description",
  "historical_tickers",
  "results",
])

/** The descriptions of the three column types that hold times (D15). */
const timeDescriptions = [FixedOffsetTimeColumn, InstantColumn, NewYorkTimeColumn].map(({ schemas }) =>
  findKeyword(Schema.toJsonSchemaDocument(schemas.json).schema, "description")
)

describe("The API declaration", () => {
  it("has enough endpoints, parameters and fields for these tests (§4)", () => {
    assertFoundMoreThan(2, "endpoints with a key", endpointsWithKey)
    assertFoundMoreThan(3, "endpoints without a key", endpointsWithoutKey)
    assertFoundMoreThan(8, "parameters", parameters)
    assertFoundMoreThan(40, "fields", fields)
  })

  it.each(endpointsWithKey)(
    "puts endpoints that require a key under /v1/, except /estimate: $path (§1, §4, D28)",
    ({ path }) => {
      if (path !== "/estimate") assert.match(path, /^\/v1\/[a-z0-9-]+(\/[a-z0-9-]+)*$/)
    },
  )

  it("includes all free endpoints and all endpoints that return a single object (§1, D28)", () => {
    const paths = endpointsWithKey.map(({ path }) => path)
    assert.includeMembers(paths, freeEndpointPaths)
    assert.includeMembers(paths, pathsWithoutList)
    assertFoundMoreThan(20, "priced endpoints", pricedEndpoints)
    assertFoundMoreThan(20, "lists", lists)
  })

  it.each(endpoints)("gives each endpoint a title and a description: $path (D25)", ({ description, summary }) => {
    assert.match(summary ?? "", /^[A-Z]/)
    assert.match(description ?? "", /^[A-Z].*\.$/)
  })

  it.each(endpointsWithKey)(
    "declares all errors of an endpoint that requires a key: $path (§7.2, D13, D18)",
    (endpoint) => {
      // Only priced endpoints can fail with 402 (D27).
      const costs = pricedEndpoints.includes(endpoint) ? [402] : []
      assert.deepStrictEqual(endpoint.errors.filter((status) => status !== 404 && status !== 409), [
        401,
        ...costs,
        403,
        410,
        422,
        429,
        500,
        503,
      ])
    },
  )

  it.each(endpointsWithoutKey)(
    "declares no account errors for an endpoint that requires no key: $path (§7.2, D2)",
    ({ errors }) => {
      assert.deepStrictEqual(errors.filter((status) => status !== 503), [410, 422, 500])
    },
  )

  it.each(endpoints)("describes every parameter: $path (§4)", ({ parameters }) => {
    const undocumented = parameters.filter(({ description }) => typeof description !== "string" || description === "")
    assert.deepStrictEqual(undocumented.map(({ name }) => name), [])
  })

  it("describes every field of every response, unless its name is sufficient (§2)", () => {
    const undocumented = fields.filter(({ name, schema }) =>
      !selfExplanatoryNames.has(name) && typeof findKeyword(schema, "description") !== "string"
    )
    assert.deepStrictEqual(undocumented.map(({ where }) => where), [])
  })

  it("declares every datetime as one of the three column types (§2.1, D15)", () => {
    assert.strictEqual(new Set(timeDescriptions).size, 3)
    const datetimes = fields.filter(({ schema }) => findKeyword(schema, "format") === "date-time")
    assertFoundMoreThan(3, "datetimes", datetimes)
    for (const { schema, where } of datetimes) {
      assert.include(timeDescriptions, findKeyword(schema, "description"), where)
    }
  })

  it("declares fields that are named after a time as datetimes, but not fields that are named after a date (§2.1)", () => {
    for (const { name, schema, where } of fields) {
      if (/_(at|time|updated)$/.test(name) && name !== "filed_at") {
        assert.strictEqual(findKeyword(schema, "format"), "date-time", where)
      }
      if (/(^|_)date$/.test(name)) assert.notStrictEqual(findKeyword(schema, "format"), "date-time", where)
    }
  })

  it("declares intraday runners with the right column types for times (§2.1.4, D15)", () => {
    const [eastern, , newYork] = timeDescriptions
    const runners = fields.filter(({ where }) => where.startsWith("/v1/intraday-runners."))
    const namesOfKind = (kind: unknown) =>
      runners.filter(({ schema }) => findKeyword(schema, "description") === kind).map(({ name }) => name).toSorted()
    assert.deepStrictEqual(namesOfKind(eastern), ["last_updated"])
    assert.deepStrictEqual(namesOfKind(newYork), ["high_time", "low_time", "spike_start_time"])
  })

  it("declares prices, amounts, volumes and ratios as numbers (D16)", () => {
    for (const { name, schema, where } of fields) {
      if (/(price|volume|percentage|ratio|_pct|gain|market_cap|_minutes|vwap|count)$/.test(name)) {
        assert.include(["number", "integer", "boolean"], findKeyword(schema, "type"), where)
      }
    }
  })

  const isList = (success: unknown) => {
    const results = valueAt(success, "properties", "results")
    return valueAt(results, "type") === "array" && valueAt(results, "maxItems") === undefined
  }

  it.each(lists)("declares the paging parameters and fields of a list: $path (D8)", (endpoint) => {
    const names = endpoint.parameters.map(({ name }) => name)
    assert.isTrue(isList(endpoint.success))
    assert.includeMembers(names, ["page", "limit"])
    // Dataset lists can be filtered by ticker, but account lists cannot (§7.3).
    assert.strictEqual(names.includes("ticker"), pricedEndpoints.includes(endpoint))
    const inEnvelope = toEntries(valueAt(endpoint.success, "properties")).map(([name]) => name)
    assert.includeMembers(inEnvelope, ["count", "results", "page", "limit", "has_more"])
  })

  it.each(endpointsWithKey.filter(({ path }) => feedPaths.has(path)))(
    "declares a cursor instead of pages in a feed: $path (D8)",
    ({ parameters, success }) => {
      assert.isTrue(isList(success))
      const names = parameters.map(({ name }) => name)
      assert.includeMembers(names, ["after", "limit"])
      assert.notInclude(names, "page")
      const inEnvelope = toEntries(valueAt(success, "properties")).map(([name]) => name)
      assert.deepStrictEqual(inEnvelope, ["count", "results", "cursor", "has_more"])
    },
  )

  it.each(endpointsWithKey.filter(({ path }) => pathsWithoutList.includes(path)))(
    "declares no paging for an endpoint that returns one object: $path (D8)",
    ({ parameters, success }) => {
      assert.isFalse(isList(success))
      const names = [
        ...parameters.map(({ name }) => name),
        ...toEntries(valueAt(success, "properties")).map(([name]) => name),
      ]
      assert.deepStrictEqual(names.filter((name) => ["page", "limit", "has_more"].includes(name)), [])
    },
  )

  it("documents the defaults of page and limit (D8)", () => {
    const undocumented = (wanted: string, value: unknown) =>
      parameters.filter(({ name, path, required, schema }) =>
        name === wanted && !feedPaths.has(path) && (required || findKeyword(schema, "default") !== value)
      ).map(({ path }) => path)
    assert.deepStrictEqual(undocumented("page", 1), [])
    assert.deepStrictEqual(undocumented("limit", "10"), [])
  })
})
