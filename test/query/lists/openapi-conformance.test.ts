/** Sends random and invalid requests to every dataset and validates the responses against the OpenAPI document (§7). */
import { assert, layer } from "@effect/vitest"
import { Array as Arr, Effect, Layer, Schema } from "effect"
import { Ajv2020 } from "ajv/dist/2020.js"
import formats from "ajv-formats"
import { getDefaultOpenApiDocument } from "../../../src/api/catalogue/OpenApiDocument.ts"
import {
  buildUrl,
  documentedDatasetEndpoints,
  documentedEndpoints,
  type DocumentedParameter,
  getDocumentedResponses,
  makeRequiredQuery,
  type ParameterKind,
  valueAt,
} from "../../support/DocumentedEndpoints.ts"
import * as GeneratedRows from "../../support/GeneratedRows.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount, sampleUnlessThorough } from "../../support/Thoroughness.ts"

/**
 * Provides a service with enough rows in every table that lists span several pages. Filters match some rows, and some
 * values are null.
 */
const service = Layer.effectDiscard(GeneratedRows.fillAllTables(300)).pipe(Layer.provideMerge(Service.layer))

const tooLong = "x".repeat(101)

/** Invalid values by parameter type: values that have the wrong type, are empty, or are out of range. */
const invalidValues: Readonly<Record<ParameterKind, ReadonlyArray<string>>> = {
  number: ["", "x", "1,5", "NaN", "Infinity", "1e400", "0x10", "1 2"],
  integer: ["", "x", "0", "-1", "1.5", "99999999999"],
  date: ["", "yesterday", "2025-02-30", "2025-1-1", "20250101", "2025-01-01T00:00:00Z", "0000-01-01"],
  boolean: ["", "1", "yes", "TRUE"],
  words: ["", "nonsense", ","],
  ticker: ["", ",", "A B", "AAAAAAAAAAAAAAAAA", "Ä"],
  tickers: ["", ",", "@@", "Ä", "AAAAAAAAAAAAAAAAA"],
  sort: ["", "nonsense", "-website", "price;drop table screener", "price,ticker"],
  text: ["", "\0"],
}

/**
 * Returns invalid values for a parameter. Filters that search for part of a text also reject values that are too short
 * or too long.
 */
const getInvalidValues = ({ kind, name }: DocumentedParameter) =>
  kind === "text" && /part of/i.test(descriptionOf(name)) ? [...invalidValues.text, "ab", tooLong] : invalidValues[kind]

/** Returns the parameter's first description in the OpenAPI document. */
const descriptionOf = (name: string) =>
  documentedDatasetEndpoints.flatMap(({ path }) => {
    const parameters = valueAt(getDefaultOpenApiDocument(), "paths", path, "get", "parameters")
    const own = Array.isArray(parameters)
      ? parameters.find((parameter) => valueAt(parameter, "name") === name)
      : undefined
    return own === undefined ? [] : [String(valueAt(own, "description"))]
  })[0] ?? ""

const ajv = formats.default(new Ajv2020({ strict: false, allErrors: true }))

/** Validators for the documented responses, by path and status code. */
const validators = new Map(
  documentedEndpoints.flatMap(({ path }) =>
    Array.from(getDocumentedResponses(path), ([status, response]) => {
      const schema = valueAt(response, "content", "application/json", "schema")
      const complete = { ...Object(schema ?? {}), components: getDefaultOpenApiDocument().components }
      return [`${path} ${status}`, ajv.compile(complete)] as const
    })
  ),
)

/** Returns a function that makes reproducible random choices. */
const makeChooser = (seed: number) => {
  let state = seed >>> 0
  return <A>(options: ReadonlyArray<A>): A => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0
    const [first] = options
    const chosen = options[state % options.length] ?? first
    if (chosen === undefined) throw new Error("nothing to choose from")
    return chosen
  }
}

/** Valid values by parameter type, including unusual ones. */
const validValues: Readonly<Record<ParameterKind, ReadonlyArray<string>>> = {
  number: ["0", "-5.5", "1e3", "9007199254740991", "99999999999999.9999", ".5", "+7"],
  integer: ["1", "2", "7"],
  date: ["2014-01-02", "2020-02-29", "2026-11-01"],
  boolean: ["true", "false"],
  words: [],
  ticker: ["T7", "o1", "^VIX"],
  tickers: ["T7", "t1,T2,@@", "T 1 2", "BRK.B"],
  sort: ["ticker", "-price"],
  text: ["text", "100%", "a_b'c\"d\\", "tag7", "Müller 北京", 'or -x "y', "select;--"],
}

/** Builds a random query with valid and invalid values, repeated parameters, and sometimes an unknown parameter. */
const makeRandomRequest = (seed: number) => {
  const choose = makeChooser(seed)
  const endpoint = choose(documentedDatasetEndpoints)
  const isOneIn = (number: number) => choose(Array.from({ length: number }, (_, at) => at)) === 0
  const query = endpoint.parameters.flatMap((parameter) => {
    if (!parameter.required && !isOneIn(4)) return []
    const values = isOneIn(6)
      ? getInvalidValues(parameter)
      : parameter.words.length > 0
      ? [...parameter.words, parameter.words.join(",")]
      : validValues[parameter.kind]
    const sent = [parameter.name, choose(values)] as const
    return isOneIn(40) ? [sent, sent] : [sent]
  })
  const unknownParameter = isOneIn(30) ? [["nobody_knows", "1"] as const] : []
  return { path: endpoint.path, request: buildUrl(endpoint.path, [...query, ...unknownParameter]) }
}

layer(service, { excludeTestServices: true, timeout: "180 seconds" })("The API", (it) => {
  // Each request has at most ten invalid parameters: each may cause two errors, and a response lists at most twenty.
  it.effect.each(documentedDatasetEndpoints)(
    "refuses invalid values of the parameters of $path and names each of them (D4, D11)",
    (endpoint) =>
      Effect.gen(function* () {
        const { ultimate } = yield* Service.TestKeys
        for (const parameters of Arr.chunksOf(endpoint.parameters, 10)) {
          const names = parameters.map(({ name }) => name)
          const others = makeRequiredQuery(endpoint).filter(([name]) => !names.includes(name))
          const values = parameters.map((parameter) =>
            sampleUnlessThorough(getInvalidValues(parameter), 4, parameter.name.length)
          )
          for (let at = 0; at < Math.max(...values.map(({ length }) => length)); at += 1) {
            const sent = names.map((name, index) =>
              [name, values[index]?.at(at % (values[index]?.length ?? 1)) ?? ""] as const
            )
            const request = buildUrl(endpoint.path, [...others, ...sent])
            const { body, status } = yield* Service.requestJson(request, { key: ultimate })
            assert.strictEqual(status, 422, `${request} ${JSON.stringify(body)}`)
            const fields = valueAt(body, "error", "details", "fields")
            const named = new Set(Array.isArray(fields) ? fields.map((one) => valueAt(one, "field")) : [])
            assert.sameMembers(Array.from(named), names, request)
          }
        }
      }),
  )

  it.effect.prop(
    "responds to any query as OpenAPI documents, and never with 500 (§7)",
    [Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 ** 31 }))],
    ([seed]) =>
      Effect.gen(function* () {
        const { ultimate } = yield* Service.TestKeys
        const { path, request } = makeRandomRequest(seed)
        const { body, headers, status } = yield* Service.requestJson(request, { key: ultimate })
        const validate = validators.get(`${path} ${status}`)
        assert.isDefined(validate, `${request} returned ${status}, which is not documented`)
        assert.notStrictEqual(status, 500, request)
        assert.isTrue(validate?.(body), `${request} ${ajv.errorsText(validate?.errors)}`)
        assert.strictEqual(headers["x-api-version"], "v1")
        assert.isString(headers["x-request-id"])
      }),
    { arbitrary: { runs: getInputCount(1_000) } },
  )
})
