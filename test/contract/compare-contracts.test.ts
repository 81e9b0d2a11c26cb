/** §9.2, §9.3: that no change of the contract goes unseen, and that each is taken for what it is. */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Schema } from "effect"
import type { ContractDifference } from "../../contract/Difference.ts"
import { compareContracts, makeReleasedContract } from "../../contract/CompareContracts.ts"
import { canonicalJson } from "../../contract/Json.ts"
import { openApiDocument } from "../../src/catalogue/OpenApiDocument.ts"
import { inputs } from "../support/Thoroughness.ts"

type Mutable = { [name: string]: unknown }

const isMutable = (value: unknown): value is Mutable =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const today = "2026-11-21"

/** A small contract in which everything stands where a test can reach it; the real one is walked below. */
const contract = () => ({
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
            schema: { type: "string" },
            description: "One of round, square; several comma-separated.",
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

type Contract = ReturnType<typeof contract>

const into = (value: unknown, ...path: ReadonlyArray<string | number>): Mutable => {
  const found = path.reduce<unknown>((inner, key) => Reflect.get(Object(inner), key), value)
  if (!isMutable(found)) throw new Error(`nothing stands at ${path.join(".")}`)
  return found
}

const operation = (one: Contract) => into(one, "paths", "/v1/widgets", "get")
const parameter = (one: Contract, index: number) => into(one, "paths", "/v1/widgets", "get", "parameters", index)
const widget = (one: Contract) => into(one, "components", "schemas", "Widget")
const fields = (one: Contract) => into(one, "components", "schemas", "Widget", "properties")
const answers = (one: Contract) => into(one, "paths", "/v1/widgets", "get", "responses")

const list = (value: unknown): Array<unknown> => Array.isArray(value) ? value : []

/** What is done to the contract, and what is to be found: name, kind, and whether it breaks. */
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
  ["a parameter is removed", (c) => list(operation(c)["parameters"]).pop(), "kind", "removed", true],
  [
    "a parameter is added",
    (c) => list(operation(c)["parameters"]).push({ name: "x", in: "query", schema: {} }),
    "x",
    "added",
    false,
  ],
  [
    "a needed parameter is added",
    (c) => list(operation(c)["parameters"]).push({ name: "x", in: "query", required: true, schema: {} }),
    "x",
    "added",
    true,
  ],
  ["a parameter is needed", (c) => Object.assign(parameter(c, 1), { required: true }), "limit", "changed", true],
  [
    "a parameter is no longer needed",
    (c) => Object.assign(parameter(c, 0), { required: false }),
    "ticker",
    "changed",
    false,
  ],
  [
    "a parameter's type is another",
    (c) => Object.assign(parameter(c, 0), { schema: { type: "integer" } }),
    "ticker",
    "changed",
    true,
  ],
  [
    "a parameter takes more numbers",
    (c) => Object.assign(parameter(c, 1), { schema: { type: "number", minimum: 1, maximum: 100, default: 10 } }),
    "limit",
    "changed",
    false,
  ],
  [
    "a bound is tightened",
    (c) => Object.assign(into(parameter(c, 1), "schema"), { maximum: 50 }),
    "limit",
    "changed",
    true,
  ],
  [
    "a bound is loosened",
    (c) => Object.assign(into(parameter(c, 1), "schema"), { maximum: 500 }),
    "limit",
    "changed",
    false,
  ],
  [
    "a bound is new",
    (c) => Object.assign(into(parameter(c, 0), "schema"), { maxLength: 6 }),
    "ticker",
    "changed",
    true,
  ],
  [
    "a pattern is new",
    (c) => Object.assign(into(parameter(c, 0), "schema"), { pattern: "^A" }),
    "ticker",
    "changed",
    true,
  ],
  [
    "a default is another",
    (c) => Object.assign(into(parameter(c, 1), "schema"), { default: 20 }),
    "limit",
    "changed",
    true,
  ],
  [
    "a parameter is written in another style",
    (c) => Object.assign(parameter(c, 0), { explode: true }),
    "ticker",
    "changed",
    true,
  ],
  [
    "a word is no longer taken",
    (c) => Object.assign(into(parameter(c, 2), "schema"), { enum: ["up"] }),
    "sort",
    "removed",
    true,
  ],
  [
    "a word is taken, too",
    (c) => Object.assign(into(parameter(c, 2), "schema"), { enum: ["up", "down", "off"] }),
    "sort",
    "added",
    false,
  ],
  [
    "only listed words are taken",
    (c) => Object.assign(into(parameter(c, 0), "schema"), { enum: ["A"] }),
    "ticker",
    "changed",
    true,
  ],
  [
    "a listed word is no longer described",
    (c) => Object.assign(parameter(c, 3), { description: "One of round; several comma-separated." }),
    "kind",
    "removed",
    true,
  ],
  ["a field is removed", (c) => Reflect.deleteProperty(fields(c), "shape"), "shape", "removed", true],
  ["a field is added", (c) => Object.assign(fields(c), { colour: { type: "string" } }), "colour", "added", false],
  [
    "a field's type is another",
    (c) => Object.assign(fields(c), { name: { type: "integer" } }),
    "name",
    "changed",
    true,
  ],
  [
    "a whole number may have decimals",
    (c) =>
      Object.assign(into(answers(c), "200", "content", "application/json", "schema", "properties"), {
        count: { type: "number" },
      }),
    "count",
    "changed",
    true,
  ],
  [
    "a field may be null",
    (c) => Object.assign(fields(c), { name: { anyOf: [{ type: "string" }, { type: "null" }] } }),
    "name",
    "added",
    true,
  ],
  [
    "a field may be null, said otherwise",
    (c) => Object.assign(fields(c), { name: { type: ["string", "null"] } }),
    "name",
    "added",
    true,
  ],
  ["a field is never null", (c) => Object.assign(fields(c), { price: { type: "number" } }), "price", "removed", false],
  ["a field may be missing", (c) => Object.assign(widget(c), { required: ["price"] }), "name", "changed", true],
  [
    "a field is always there",
    (c) => Object.assign(widget(c), { required: ["name", "price", "shape"] }),
    "shape",
    "changed",
    false,
  ],
  [
    "a field's form is another",
    (c) => Object.assign(fields(c), { name: { type: "string", format: "date" } }),
    "name",
    "changed",
    true,
  ],
  [
    "a word is answered, too",
    (c) => Object.assign(into(fields(c), "shape"), { enum: ["round", "square", "flat"] }),
    "shape",
    "added",
    false,
  ],
  [
    "a list is no list",
    (c) => Object.assign(fields(c), { parts: { $ref: "#/components/schemas/Widget" } }),
    "parts",
    "changed",
    true,
  ],
  ["a success is gone", (c) => Reflect.deleteProperty(answers(c), "200"), "200", "removed", true],
  ["an error is gone", (c) => Reflect.deleteProperty(answers(c), "404"), "404", "removed", false],
  ["an error is new", (c) => Object.assign(answers(c), { "429": {} }), "429", "added", false],
  [
    "a status has another code, too",
    (c) =>
      Object.assign(into(answers(c), "404", "content", "application/json"), {
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
    "a format is gone",
    (c) => Object.assign(into(answers(c), "200"), { content: {} }),
    "application/json",
    "removed",
    true,
  ],
  [
    "a format is new",
    (c) => Object.assign(into(answers(c), "200", "content"), { "text/csv": { schema: { type: "string" } } }),
    "text/csv",
    "added",
    false,
  ],
  [
    "a header is gone",
    (c) => Reflect.deleteProperty(into(answers(c), "200", "headers"), "ETag"),
    "ETag",
    "removed",
    true,
  ],
  [
    "a header by reference is gone",
    (c) => Reflect.deleteProperty(into(answers(c), "200", "headers"), "Age"),
    "Age",
    "removed",
    true,
  ],
  [
    "a header may be missing",
    (c) => Object.assign(c.components.headers.Age, { required: false }),
    "Age",
    "changed",
    true,
  ],
  [
    "a header is always there",
    (c) => Object.assign(into(answers(c), "200", "headers", "ETag"), { required: true }),
    "ETag",
    "changed",
    false,
  ],
  [
    "a header's type is another",
    (c) => Object.assign(c.components.headers.Age, { schema: { type: "string" } }),
    "Age",
    "changed",
    true,
  ],
  [
    "a word is no longer taken in a list that is declared as an array",
    (c) =>
      Object.assign(parameter(c, 3), {
        style: "form",
        explode: false,
        schema: { type: "array", items: { type: "string", enum: ["round"] } },
        description: "Its shape.",
      }),
    "kind",
    "removed",
    true,
  ],
  [
    "a list is sent as a parameter for each word",
    (c) =>
      Object.assign(parameter(c, 3), {
        style: "form",
        explode: true,
        schema: { type: "array", items: { type: "string", enum: ["round", "square"] } },
      }),
    "kind",
    "changed",
    true,
  ],
  [
    "a header is new",
    (c) => Object.assign(into(answers(c), "200", "headers"), { "X-Row-Count": { schema: {} } }),
    "X-Row-Count",
    "added",
    false,
  ],
  [
    "a way to send a key is gone",
    (c) => Object.assign(operation(c), { security: [{ bearer: [] }] }),
    "authentication",
    "changed",
    true,
  ],
  [
    "a key is sent otherwise",
    (c) => Object.assign(c.components.securitySchemes.apiKey, { name: "Api-Key" }),
    "authentication",
    "changed",
    true,
  ],
  [
    "a key is needed",
    (c) => Object.assign(into(c, "paths", "/v1/old", "get"), { security: [{ bearer: [] }] }),
    "authentication",
    "added",
    true,
  ],
  ["no key is needed", (c) => Object.assign(operation(c), { security: [] }), "authentication", "removed", false],
  [
    "an endpoint is deprecated",
    (c) => Object.assign(operation(c), { deprecated: true }),
    "deprecated",
    "changed",
    false,
  ],
  [
    "a sunset is committed",
    (c) => Object.assign(operation(c), { "x-sunset": "2029-01-01" }),
    "x-sunset",
    "changed",
    false,
  ],
  [
    "a sunset comes sooner",
    (c) => Object.assign(into(c, "paths", "/v1/old", "get"), { "x-sunset": "2027-06-01" }),
    "x-sunset",
    "changed",
    true,
  ],
  [
    "a sunset comes later",
    (c) => Object.assign(into(c, "paths", "/v1/old", "get"), { "x-sunset": "2029-06-01" }),
    "x-sunset",
    "changed",
    false,
  ],
]

describe("differences", () => {
  it.each(mutations)("§9.2 §9.3 it is seen, and taken for what it is, that %s", (_, mutate, name, kind, breaking) => {
    const after = contract()
    mutate(after)
    const found = compareContracts(contract(), after, today)
    assert.isAbove(found.length, 0)
    assert.deepInclude(found.map(({ breaking, kind, name }) => ({ breaking, kind, name })), { breaking, kind, name })
    // Nothing that does not break is taken for something that does.
    assert.strictEqual(
      found.some((one) => one.breaking),
      breaking,
      found.map(({ description: says }) => says).join("\n"),
    )
    for (const one of found) assert.match(one.description, /^\/v1\/[a-z]+, /)
  })

  it("§9.2 a field under another name is one that is gone and one that is new", () => {
    const after = contract()
    Reflect.deleteProperty(fields(after), "shape")
    Object.assign(fields(after), { form: { type: "string", enum: ["round", "square"] } })
    assert.sameDeepMembers(
      compareContracts(contract(), after, today).map(({ breaking, name }) => ({ breaking, name })),
      [{ name: "shape", breaking: true }, { name: "form", breaking: false }],
    )
  })

  it("§3 D24 an endpoint may go once its sunset has passed, and on that day not yet", () => {
    const after = contract()
    Reflect.deleteProperty(after.paths, "/v1/old")
    const breaks = (day: string) => compareContracts(contract(), after, day).map(({ breaking }) => breaking)
    assert.deepStrictEqual(breaks("2028-01-01"), [true])
    assert.deepStrictEqual(breaks("2028-01-02"), [false])
  })

  it("§9.3 how something is described, ordered, named inside or shown by example is no difference", () => {
    const text = JSON.stringify(contract()).replaceAll("Widget", "Gadget").replaceAll("Its name.", "What it is called.")
    const after = JSON.parse(text)
    after.paths["/v1/widgets"].get.parameters.reverse()
    after.paths["/v1/widgets"].get.summary = "Others"
    after.components.schemas.Gadget.properties.name.examples = ["Wheel"]
    after.components.schemas.Gadget.required.reverse()
    assert.deepStrictEqual(compareContracts(contract(), after, today), [])
  })

  it("§9.3 a comma-separated list declared as an array of words is the same text", () => {
    const after = contract()
    const items = { type: "string", enum: ["round", "square"] }
    Object.assign(parameter(after, 3), { style: "form", explode: false, schema: { type: "array", items } })
    assert.deepStrictEqual(compareContracts(contract(), after, today), [])
  })

  it("§9.3 a list of exactly one is the same by prefixItems and by items", () => {
    const of = (one: object) => {
      const whole = contract()
      Object.assign(fields(whole), { parts: { type: "array", minItems: 1, maxItems: 1, ...one } })
      return whole
    }
    const item = { $ref: "#/components/schemas/Widget" }
    assert.deepStrictEqual(compareContracts(of({ prefixItems: [item] }), of({ items: item }), today), [])
  })

  it("§9.2 the contract of today is the same as itself, written and read again, too", () => {
    assert.deepStrictEqual(compareContracts(openApiDocument, openApiDocument, today), [])
    assert.deepStrictEqual(
      compareContracts(
        openApiDocument,
        makeReleasedContract(JSON.parse(JSON.stringify(openApiDocument)), "1.0.0"),
        today,
      ),
      [],
    )
  })
})

// ---------------------------------------------------------------------------------------------------------------------
// Whatever is done to the real one
// ---------------------------------------------------------------------------------------------------------------------

const annotation = new Set([
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

/** Every place that is a part of the contract: the keys that lead there. */
const places = (value: unknown, path: ReadonlyArray<string | number> = []): Array<ReadonlyArray<string | number>> =>
  Array.isArray(value)
    ? value.flatMap((inner, index) => places(inner, [...path, index]))
    : isMutable(value)
    ? Object.entries(value).flatMap(([key, inner]) =>
      annotation.has(key) && path.at(-1) !== "properties" ? [] : [[...path, key], ...places(inner, [...path, key])]
    )
    : []

const bare: unknown = makeReleasedContract(JSON.parse(JSON.stringify(openApiDocument)), "1.0.0")
const operations = places({ paths: into(bare, "paths") }).filter((path) => path.length > 3)

const meaningless = (path: ReadonlyArray<string | number>) => {
  const value = at(path)
  // false, an empty list or an empty object is what is meant where nothing is said.
  return value === false || canonicalJson(value) === "[]" || canonicalJson(value) === "{}"
}

const at = (path: ReadonlyArray<string | number>) =>
  path.reduce<unknown>((inner, key) => Reflect.get(Object(inner), key), bare)

/** An element of a list moves those behind it, so only named things are taken out. */
const removable = operations.filter((path) => !Array.isArray(at(path.slice(0, -1))) && !meaningless(path))

const chosen = Arbitrary.map(
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: removable.length - 1 }))),
  (index) => removable[index] ?? [],
)

describe("differences of the real contract", () => {
  it.prop("§9.2 whatever is taken out of an endpoint is found there, and nowhere else", [chosen], ([path]) => {
    assert.isAbove(removable.length, 1000)
    const after = structuredClone(bare)
    Reflect.deleteProperty(into(after, ...path.slice(0, -1)), path.at(-1) ?? "")
    const found = compareContracts(bare, after, today)
    assert.deepStrictEqual(Array.from(new Set(found.map((one) => one.path))), [String(path[1])], path.join(" "))
  }, { arbitrary: { runs: inputs(200) } })
})
