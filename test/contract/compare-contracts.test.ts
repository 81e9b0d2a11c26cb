/** Tests that every change to the contract is classified: §9.2 (breaking changes), §9.3 (compatible changes). */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Schema } from "effect"
import type { ContractDifference } from "../../clients/contract/Difference.ts"
import { compareContracts, makeReleasedContract } from "../../clients/contract/CompareContracts.ts"
import { canonicalJson } from "../../clients/contract/Json.ts"
import { getDefaultOpenApiDocument } from "../../src/api/catalogue/OpenApiDocument.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"
import { getInputCount } from "../support/Thoroughness.ts"

type Mutable = { [name: string]: unknown }

const isMutable = (value: unknown): value is Mutable =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const today = "2026-11-21"

/** Builds a small contract that contains everything that the tests change. */
const makeContract = () => ({
  openapi: "3.1.0",
  paths: {
    "/v1/widgets": {
      get: {
        summary: "Widgets",
        parameters: [
          { name: "ticker", in: "query", required: true, schema: { type: "string" } },
          {
            name: "limit",
            in: "query",
            required: false,
            schema: { type: "integer", minimum: 1, maximum: 100, default: 10 },
          },
          { name: "sort", in: "query", required: false, schema: { type: "string", enum: ["up", "down"] } },
          {
            name: "kind",
            in: "query",
            required: false,
            style: "form",
            explode: false,
            schema: { type: "array", items: { type: "string", enum: ["round", "square"] } },
          },
        ],
        security: [{ bearer: [] }, { apiKey: [] }],
        responses: {
          "200": {
            description: "Success",
            headers: { ETag: { schema: { type: "string" } }, Age: { $ref: "#/components/headers/Age" } },
            content: {
              "application/json": {
                schema: {
                  type: "object",
                  required: ["count", "results"],
                  properties: {
                    count: { type: "integer" },
                    results: { type: "array", items: { $ref: "#/components/schemas/Widget" } },
                  },
                },
              },
            },
          },
          "404": { content: { "application/json": { schema: { $ref: "#/components/schemas/NotFound" } } } },
        },
      },
    },
    "/v1/old": {
      get: { deprecated: true, "x-sunset": "2028-01-01", parameters: [], security: [], responses: {} },
    },
  },
  components: {
    schemas: {
      Widget: {
        type: "object",
        required: ["name", "price"],
        properties: {
          name: { type: "string", description: "Its name." },
          price: { anyOf: [{ type: "number" }, { type: "null" }] },
          shape: { type: "string", enum: ["round", "square"] },
          parts: { type: "array", items: { $ref: "#/components/schemas/Widget" } },
          kinds: {
            anyOf: ["left", "right"].map((kind) => ({ type: "object", properties: { [kind]: { type: "string" } } })),
          },
        },
      },
      NotFound: {
        type: "object",
        properties: { error: { type: "object", properties: { code: { type: "string", enum: ["not_found"] } } } },
      },
    },
    headers: { Age: { required: true, schema: { type: "integer" } } },
    securitySchemes: {
      bearer: { type: "http", scheme: "bearer" },
      apiKey: { type: "apiKey", in: "header", name: "X-API-Key" },
    },
  },
})

type Contract = ReturnType<typeof makeContract>

const getObject = (value: unknown, ...path: ReadonlyArray<string | number>): Mutable => {
  const found = path.reduce<unknown>((inner, key) => Reflect.get(Object(inner), key), value)
  if (!isMutable(found)) throw new Error(`there is no object at ${path.join(".")}`)
  return found
}

const getOperation = (one: Contract) => getObject(one, "paths", "/v1/widgets", "get")
const getParameter = (one: Contract, index: number) =>
  getObject(one, "paths", "/v1/widgets", "get", "parameters", index)
const getWidget = (one: Contract) => getObject(one, "components", "schemas", "Widget")
const getWidgetFields = (one: Contract) => getObject(one, "components", "schemas", "Widget", "properties")
const getResponses = (one: Contract) => getObject(one, "paths", "/v1/widgets", "get", "responses")

const toArray = (value: unknown): Array<unknown> => Array.isArray(value) ? value : []

/** Changes to the contract, each with the expected difference: its name, its kind, and whether it is breaking. */
const mutations: ReadonlyArray<
  readonly [
    what: string,
    (one: Contract) => unknown,
    name: string | null,
    kind: ContractDifference["kind"],
    breaking: boolean,
  ]
> = [
  ["an endpoint is removed", (c) => Reflect.deleteProperty(c.paths, "/v1/widgets"), null, "removed", true],
  [
    "an endpoint is removed before its sunset",
    (c) => Reflect.deleteProperty(c.paths, "/v1/old"),
    null,
    "removed",
    true,
  ],
  ["an endpoint is added", (c) => Object.assign(c.paths, { "/v1/new": { get: {} } }), null, "added", false],
  [
    "a list becomes text",
    (c) => Object.assign(getParameter(c, 3), { style: "form", explode: false, schema: { type: "string" } }),
    "kind",
    "changed",
    true,
  ],
  [
    "a number becomes text",
    (c) => Object.assign(getParameter(c, 1), { schema: { type: "string", pattern: "^([1-9][0-9]?|100)$" } }),
    "limit",
    "changed",
    true,
  ],
  ["a parameter is removed", (c) => toArray(getOperation(c)["parameters"]).pop(), "kind", "removed", true],
  [
    "a parameter is added",
    (c) => toArray(getOperation(c)["parameters"]).push({ name: "x", in: "query", schema: {} }),
    "x",
    "added",
    false,
  ],
  [
    "a required parameter is added",
    (c) => toArray(getOperation(c)["parameters"]).push({ name: "x", in: "query", required: true, schema: {} }),
    "x",
    "added",
    true,
  ],
  ["a parameter is needed", (c) => Object.assign(getParameter(c, 1), { required: true }), "limit", "changed", true],
  [
    "a parameter becomes optional",
    (c) => Object.assign(getParameter(c, 0), { required: false }),
    "ticker",
    "changed",
    false,
  ],
  [
    "a parameter changes its type",
    (c) => Object.assign(getParameter(c, 0), { schema: { type: "integer" } }),
    "ticker",
    "changed",
    true,
  ],
  [
    "an integer parameter accepts any number",
    (c) => Object.assign(getParameter(c, 1), { schema: { type: "number", minimum: 1, maximum: 100, default: 10 } }),
    "limit",
    "changed",
    false,
  ],
  [
    "a limit becomes stricter",
    (c) => Object.assign(getObject(getParameter(c, 1), "schema"), { maximum: 50 }),
    "limit",
    "changed",
    true,
  ],
  [
    "a limit becomes less strict",
    (c) => Object.assign(getObject(getParameter(c, 1), "schema"), { maximum: 500 }),
    "limit",
    "changed",
    false,
  ],
  [
    "a limit is added",
    (c) => Object.assign(getObject(getParameter(c, 0), "schema"), { maxLength: 6 }),
    "ticker",
    "changed",
    true,
  ],
  [
    "a pattern is added",
    (c) => Object.assign(getObject(getParameter(c, 0), "schema"), { pattern: "^A" }),
    "ticker",
    "changed",
    true,
  ],
  [
    "a default changes",
    (c) => Object.assign(getObject(getParameter(c, 1), "schema"), { default: 20 }),
    "limit",
    "changed",
    true,
  ],
  [
    "a parameter changes its style",
    (c) => Object.assign(getParameter(c, 0), { explode: true }),
    "ticker",
    "changed",
    true,
  ],
  [
    "an enum value of a parameter is removed",
    (c) => Object.assign(getObject(getParameter(c, 2), "schema"), { enum: ["up"] }),
    "sort",
    "removed",
    true,
  ],
  [
    "an enum value of a parameter is added",
    (c) => Object.assign(getObject(getParameter(c, 2), "schema"), { enum: ["up", "down", "off"] }),
    "sort",
    "added",
    false,
  ],
  [
    "a parameter is restricted to enum values",
    (c) => Object.assign(getObject(getParameter(c, 0), "schema"), { enum: ["A"] }),
    "ticker",
    "changed",
    true,
  ],
  ["a field is removed", (c) => Reflect.deleteProperty(getWidgetFields(c), "shape"), "shape", "removed", true],
  [
    "a field is added",
    (c) => Object.assign(getWidgetFields(c), { colour: { type: "string" } }),
    "colour",
    "added",
    false,
  ],
  [
    "a field changes its type",
    (c) => Object.assign(getWidgetFields(c), { name: { type: "integer" } }),
    "name",
    "changed",
    true,
  ],
  [
    "an integer field becomes a number",
    (c) =>
      Object.assign(getObject(getResponses(c), "200", "content", "application/json", "schema", "properties"), {
        count: { type: "number" },
      }),
    "count",
    "changed",
    true,
  ],
  [
    "a field becomes nullable",
    (c) => Object.assign(getWidgetFields(c), { name: { anyOf: [{ type: "string" }, { type: "null" }] } }),
    "name",
    "added",
    true,
  ],
  [
    "a field becomes nullable by a list of types",
    (c) => Object.assign(getWidgetFields(c), { name: { type: ["string", "null"] } }),
    "name",
    "added",
    true,
  ],
  [
    "each of two kinds of rows gets a field",
    (c) => {
      const kinds = toArray(Reflect.get(getObject(getWidgetFields(c), "kinds"), "anyOf"))
      for (const kind of kinds) Object.assign(getObject(kind, "properties"), { colour: { type: "string" } })
      return kinds
    },
    "colour",
    "added",
    false,
  ],
  [
    "a field is never null",
    (c) => Object.assign(getWidgetFields(c), { price: { type: "number" } }),
    "price",
    "removed",
    false,
  ],
  ["a field may be missing", (c) => Object.assign(getWidget(c), { required: ["price"] }), "name", "changed", true],
  [
    "a field becomes required",
    (c) => Object.assign(getWidget(c), { required: ["name", "price", "shape"] }),
    "shape",
    "changed",
    false,
  ],
  [
    "a field changes its format",
    (c) => Object.assign(getWidgetFields(c), { name: { type: "string", format: "date" } }),
    "name",
    "changed",
    true,
  ],
  [
    "an enum value of a field is added",
    (c) => Object.assign(getObject(getWidgetFields(c), "shape"), { enum: ["round", "square", "flat"] }),
    "shape",
    "added",
    false,
  ],
  [
    "a number becomes text whose pattern forbids some of the numbers",
    (c) => Object.assign(getParameter(c, 1), { schema: { type: "string", pattern: "^[1-9][0-9]?$" } }),
    "limit",
    "changed",
    true,
  ],
  [
    "an array is no longer an array",
    (c) => Object.assign(getWidgetFields(c), { parts: { $ref: "#/components/schemas/Widget" } }),
    "parts",
    "changed",
    true,
  ],
  ["a success is gone", (c) => Reflect.deleteProperty(getResponses(c), "200"), "200", "removed", true],
  ["an error is gone", (c) => Reflect.deleteProperty(getResponses(c), "404"), "404", "removed", false],
  ["an error is new", (c) => Object.assign(getResponses(c), { "429": {} }), "429", "added", false],
  [
    "a status gets another error code",
    (c) =>
      Object.assign(getObject(getResponses(c), "404", "content", "application/json"), {
        schema: {
          anyOf: [{ $ref: "#/components/schemas/NotFound" }, {
            type: "object",
            properties: { error: { type: "object", properties: { code: { type: "string", enum: ["lost"] } } } },
          }],
        },
      }),
    "lost",
    "added",
    false,
  ],
  [
    "a media type is removed",
    (c) => Object.assign(getObject(getResponses(c), "200"), { content: {} }),
    "application/json",
    "removed",
    true,
  ],
  [
    "a media type is added",
    (c) => Object.assign(getObject(getResponses(c), "200", "content"), { "text/csv": { schema: { type: "string" } } }),
    "text/csv",
    "added",
    false,
  ],
  [
    "a header is removed",
    (c) => Reflect.deleteProperty(getObject(getResponses(c), "200", "headers"), "ETag"),
    "ETag",
    "removed",
    true,
  ],
  [
    "a referenced header is removed",
    (c) => Reflect.deleteProperty(getObject(getResponses(c), "200", "headers"), "Age"),
    "Age",
    "removed",
    true,
  ],
  [
    "a header becomes optional",
    (c) => Object.assign(c.components.headers.Age, { required: false }),
    "Age",
    "changed",
    true,
  ],
  [
    "a header becomes required",
    (c) => Object.assign(getObject(getResponses(c), "200", "headers", "ETag"), { required: true }),
    "ETag",
    "changed",
    false,
  ],
  [
    "a header changes its type",
    (c) => Object.assign(c.components.headers.Age, { schema: { type: "string" } }),
    "Age",
    "changed",
    true,
  ],
  [
    "an enum value is removed from a parameter that is declared as an array",
    (c) => Object.assign(getParameter(c, 3), { schema: { type: "array", items: { type: "string", enum: ["round"] } } }),
    "kind",
    "removed",
    true,
  ],
  [
    "an array parameter is repeated instead of comma-separated",
    (c) =>
      Object.assign(getParameter(c, 3), {
        style: "form",
        explode: true,
        schema: { type: "array", items: { type: "string", enum: ["round", "square"] } },
      }),
    "kind",
    "changed",
    true,
  ],
  [
    "a header is added",
    (c) => Object.assign(getObject(getResponses(c), "200", "headers"), { "X-Row-Count": { schema: {} } }),
    "X-Row-Count",
    "added",
    false,
  ],
  [
    "a way to send a key is removed",
    (c) => Object.assign(getOperation(c), { security: [{ bearer: [] }] }),
    "authentication",
    "changed",
    true,
  ],
  [
    "a key is sent in another header",
    (c) => Object.assign(c.components.securitySchemes.apiKey, { name: "Api-Key" }),
    "authentication",
    "changed",
    true,
  ],
  [
    "a key becomes required",
    (c) => Object.assign(getObject(c, "paths", "/v1/old", "get"), { security: [{ bearer: [] }] }),
    "authentication",
    "added",
    true,
  ],
  ["no key is needed", (c) => Object.assign(getOperation(c), { security: [] }), "authentication", "removed", false],
  [
    "an endpoint is deprecated",
    (c) => Object.assign(getOperation(c), { deprecated: true }),
    "deprecated",
    "changed",
    false,
  ],
  [
    "a sunset is set",
    (c) => Object.assign(getOperation(c), { "x-sunset": "2029-01-01" }),
    "x-sunset",
    "changed",
    false,
  ],
  [
    "a sunset moves to an earlier date",
    (c) => Object.assign(getObject(c, "paths", "/v1/old", "get"), { "x-sunset": "2027-06-01" }),
    "x-sunset",
    "changed",
    true,
  ],
  [
    "a sunset moves to a later date",
    (c) => Object.assign(getObject(c, "paths", "/v1/old", "get"), { "x-sunset": "2029-06-01" }),
    "x-sunset",
    "changed",
    false,
  ],
]

describe("compareContracts", () => {
  it.each(mutations)("detects that %s, and classifies the change (§9.2, §9.3)", (_, mutate, name, kind, breaking) => {
    const after = makeContract()
    mutate(after)
    const found = compareContracts(makeContract(), after, today)
    assert.isAbove(found.length, 0)
    assert.deepInclude(found.map(({ breaking, kind, name }) => ({ breaking, kind, name })), { breaking, kind, name })
    // A compatible change must not be reported as breaking.
    assert.strictEqual(
      found.some((one) => one.breaking),
      breaking,
      found.map(({ description: says }) => says).join("\n"),
    )
    for (const one of found) assert.match(one.description, /^\/v1\/[a-z]+, /)
  })

  it("reports a renamed field as removed and added (§9.2)", () => {
    const after = makeContract()
    Reflect.deleteProperty(getWidgetFields(after), "shape")
    Object.assign(getWidgetFields(after), { form: { type: "string", enum: ["round", "square"] } })
    assert.sameDeepMembers(
      compareContracts(makeContract(), after, today).map(({ breaking, name }) => ({ breaking, name })),
      [{ name: "shape", breaking: true }, { name: "form", breaking: false }],
    )
  })

  it("accepts the removal of an endpoint after its sunset date, but not on that date (§3, D24)", () => {
    const after = makeContract()
    Reflect.deleteProperty(after.paths, "/v1/old")
    const breaks = (day: string) => compareContracts(makeContract(), after, day).map(({ breaking }) => breaking)
    assert.deepStrictEqual(breaks("2028-01-01"), [true])
    assert.deepStrictEqual(breaks("2028-01-02"), [false])
  })

  it("ignores descriptions, order, schema names and examples (§9.3)", () => {
    const text = JSON.stringify(makeContract()).replaceAll("Widget", "Gadget").replaceAll(
      "Its name.",
      "What it is called.",
    )
    const after = JSON.parse(text)
    after.paths["/v1/widgets"].get.parameters.reverse()
    after.paths["/v1/widgets"].get.summary = "Others"
    after.components.schemas.Gadget.properties.name.examples = ["Wheel"]
    after.components.schemas.Gadget.required.reverse()
    assert.deepStrictEqual(compareContracts(makeContract(), after, today), [])
  })

  it("treats alternatives of an error body and of its property `error` as equal (§9.3)", () => {
    const [before, after] = [makeContract(), makeContract()]
    const errors = ["not_found", "lost"].map((code) => ({
      type: "object",
      properties: { code: { type: "string", enum: [code] } },
    }))
    const makeBody = (error: unknown) => ({ type: "object", properties: { error } })
    const setSchema = (contract: Contract, schema: unknown) =>
      Object.assign(getObject(getResponses(contract), "404", "content", "application/json"), { schema })
    setSchema(before, { anyOf: errors.map(makeBody) })
    setSchema(after, makeBody({ oneOf: errors, discriminator: { propertyName: "code" } }))
    assert.deepStrictEqual(compareContracts(before, after, today), [])
  })

  it("finds no difference between the current contract and itself, even after serialization (§9.2)", () => {
    assert.deepStrictEqual(compareContracts(getDefaultOpenApiDocument(), getDefaultOpenApiDocument(), today), [])
    assert.deepStrictEqual(
      compareContracts(
        getDefaultOpenApiDocument(),
        makeReleasedContract(JSON.parse(JSON.stringify(getDefaultOpenApiDocument())), "1.0.0"),
        today,
      ),
      [],
    )
  })
})

// ---------------------------------------------------------------------------------------------------------------------
// Changes to the real contract
// ---------------------------------------------------------------------------------------------------------------------

const annotationKeywords = new Set([
  "description",
  "examples",
  "summary",
  "tags",
  "title",
  "info",
  "operationId",
  "x-release",
  "identifier",
  "openapi",
])

/** Lists the paths to all values in the contract except annotations. Each path is a list of keys. */
const listPaths = (value: unknown, path: ReadonlyArray<string | number> = []): Array<ReadonlyArray<string | number>> =>
  Array.isArray(value)
    ? value.flatMap((inner, index) => listPaths(inner, [...path, index]))
    : isMutable(value)
    ? Object.entries(value).flatMap(([key, inner]) =>
      annotationKeywords.has(key) && path.at(-1) !== "properties"
        ? []
        : [[...path, key], ...listPaths(inner, [...path, key])]
    )
    : []

const releasedForm: unknown = makeReleasedContract(JSON.parse(JSON.stringify(getDefaultOpenApiDocument())), "1.0.0")
const operations = listPaths({ paths: getObject(releasedForm, "paths") }).filter((path) => path.length > 3)

const hasNoMeaning = (path: ReadonlyArray<string | number>) => {
  const value = getValue(path)
  // false, [] and {} are defaults, so removing them changes nothing.
  return value === false || canonicalJson(value) === "[]" || canonicalJson(value) === "{}"
}

const getValue = (path: ReadonlyArray<string | number>) =>
  path.reduce<unknown>((inner, key) => Reflect.get(Object(inner), key), releasedForm)

/**
 * The paths of the values that the test removes. Array elements are excluded, because removing one shifts the elements
 * after it.
 */
const removablePaths = operations.filter((path) => !Array.isArray(getValue(path.slice(0, -1))) && !hasNoMeaning(path))

const arbitraryRemovablePath = Arbitrary.map(
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: removablePaths.length - 1 }))),
  (index) => removablePaths[index] ?? [],
)

describe("compareContracts on the real contract", () => {
  it.prop(
    "finds each removed part of an endpoint, and no difference at other paths (§9.2)",
    [arbitraryRemovablePath],
    ([path]) => {
      assertFoundMoreThan(1_000, "parts that can be removed", removablePaths)
      const after = structuredClone(releasedForm)
      Reflect.deleteProperty(getObject(after, ...path.slice(0, -1)), path.at(-1) ?? "")
      const found = compareContracts(releasedForm, after, today)
      assert.deepStrictEqual(Array.from(new Set(found.map((one) => one.path))), [String(path[1])], path.join(" "))
    },
    { arbitrary: { runs: getInputCount(25) } },
  )
})
