/** The API as an OpenAPI 3.1 document, with examples that are answers of the service itself over its sample data. */
import { Array, Context, Predicate, Schema, SchemaAST } from "effect"
import { HttpApi, type HttpApiEndpoint, OpenApi } from "effect/http-api"
import examples from "../../samples/examples.json" with { type: "json" }
import { Billing } from "../accounts/Authorization.ts"
import { Authentication } from "../accounts/keys/Authentication.ts"
import { Api } from "../Api.ts"
import { HasEtag } from "../rules/EndpointAnnotations.ts"
import { contentTypes } from "../rows/Formats.ts"
import * as Lifecycle from "../rules/Lifecycle.ts"
import { endpoints } from "./Endpoints.ts"
import type { Facts } from "./ResponseHeaders.ts"
import { completeResponses } from "./Responses.ts"
import { getIn, type Json, tidied } from "./Schemas.ts"

const file = (description: string) => ({ schema: { type: "string", description } })

/** D8: the formats beside JSON. */
const files = {
  [contentTypes.csv]: file(
    "RFC 4180, UTF-8 with a byte order mark; the first record names the fields, null is an empty cell, a list is JSON.",
  ),
  [contentTypes.ndjson]: file("One of `results` a line."),
}

interface Example {
  readonly name: string
  readonly request: string
  readonly status: number
  /** Missing until `UPDATE_EXAMPLES=1 npm test -- examples` has filled it in. */
  readonly response?: unknown
}

/** Adds each example that has a response to its path and status; several of one kind stand side by side. */
export const addExamples = (spec: Json, all: ReadonlyArray<Example>) => {
  for (const { name, request, response, status } of all) {
    if (response === undefined) continue
    const path = request.split("?", 1)[0] ?? request
    const content = getIn(spec, "paths", path, "get", "responses", String(status), "content", "application/json")
    if (!Predicate.isObject(content)) throw new Error(`samples/examples.json: nothing documents ${status} of ${path}`)
    Object.assign(content, {
      examples: { ...Object(getIn(content, "examples")), [name]: { summary: request, value: response } },
    })
  }
}

/** §9.3: fields may be added at any time, so no schema of an answer is closed. */
const open = (schema: unknown): void => {
  if (Array.isArray(schema)) return schema.forEach(open)
  if (!Predicate.isObject(schema)) return
  if (getIn(schema, "additionalProperties") === false) Reflect.deleteProperty(schema, "additionalProperties")
  Object.values(schema).forEach(open)
}

interface Declared {
  /** The JSON Schema of each query parameter, as it is decoded. */
  readonly parameters: unknown
  readonly facts: Facts
}

/** Whether it takes parameters of any name. */
const takesAny = ({ query }: HttpApiEndpoint.Top) => {
  const ast = query === undefined ? undefined : SchemaAST.toEncoded(query.ast)
  return ast !== undefined && SchemaAST.isObjects(ast) && ast.indexSignatures.length > 0
}

/** What OpenAPI cannot tell from the endpoints' schemas alone, by path. */
const declarations = () => {
  const found = new Map<string, Declared>()
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, mergedAnnotations, middleware }) => {
      const query = endpoint.query === undefined
        ? undefined
        : Schema.toJsonSchemaDocument(Schema.toType(endpoint.query)).schema
      const parameters = getIn(query, "properties")
      const demands = new Set(Array.fromIterable(middleware).map(({ key }) => key))
      const facts = {
        keyed: demands.has(Authentication.key),
        revalidated: demands.has(Billing.key) || Context.get(mergedAnnotations, HasEtag),
        list: getIn(parameters, "format") !== undefined,
        dropsTickers: getIn(parameters, "ticker", "type") === "array",
        takesAny: takesAny(endpoint),
        life: Lifecycle.getDeprecation(endpoint.annotations),
      }
      found.set(endpoint.path, { parameters, facts })
    },
  })
  return found
}

/** A list of closed words, comma-separated. */
const wordsIn = (readAs: unknown): unknown =>
  getIn(readAs, "type") === "array" ? getIn(readAs, "items", "enum") : undefined

/** In a URL everything is text; the schema of what it is decoded to says what it means. */
const meaning = (parameter: Json, readAs: unknown) => {
  const schema = getIn(parameter, "schema")
  const description = getIn(schema, "description")
  // A choice is among what is meant as well.
  if (description === undefined || getIn(schema, "anyOf") !== undefined) {
    return { ...parameter, description: getIn(readAs, "description"), schema: readAs }
  }
  const words = wordsIn(readAs)
  if (words !== undefined) {
    const items = { type: "string", enum: words }
    return { ...parameter, description, style: "form", explode: false, schema: { type: "array", items } }
  }
  // Any other list stays the comma-separated text that it is sent as.
  const kind = getIn(schema, "format") === "decimal"
    ? { type: "number" }
    : { ...Object(schema), description: undefined }
  return { ...parameter, description, schema: kind }
}

const explainParameters = (spec: Json, declared: ReturnType<typeof declarations>) => {
  for (const [path, { parameters: properties }] of declared) {
    const operation = getIn(spec, "paths", path, "get")
    const parameters = getIn(operation, "parameters")
    if (!Predicate.isObject(operation) || !Array.isArray(parameters)) continue
    const explained = parameters.map((parameter) =>
      meaning(Object(parameter), getIn(properties, String(getIn(parameter, "name"))))
    )
    Object.assign(operation, { parameters: explained })
  }
}

/** D28: `/estimate` takes the parameters of every endpoint. */
const explainEstimate = (spec: Json) => {
  const operation = getIn(spec, "paths", "/estimate", "get")
  const parameters = getIn(operation, "parameters")
  if (!Predicate.isObject(operation) || !Array.isArray(parameters)) return
  const paths = endpoints.map(({ row }) => row.path)
  Object.assign(operation, {
    parameters: [
      ...parameters.map((parameter) => ({ ...Object(parameter), schema: { type: "string", enum: paths } })),
      {
        name: "parameters",
        in: "query",
        style: "form",
        explode: true,
        description: "The request's own parameters, each under its own name.",
        schema: { type: "object", additionalProperties: { type: "string" } },
      },
    ],
  })
}

/** What a list also answers in, by the name of its schema in JSON. */
const addFormats = (spec: Json) => {
  for (const operation of Object.values(Object(spec["paths"]))) {
    const parameters = getIn(operation, "get", "parameters")
    const content = getIn(operation, "get", "responses", "200", "content")
    const isList = Array.isArray(parameters) && parameters.some((parameter) => getIn(parameter, "name") === "format")
    if (isList && Predicate.isObject(content)) Object.assign(content, files)
  }
}

const finish = (spec: Json) => {
  const declared = declarations()
  addFormats(spec)
  explainParameters(spec, declared)
  explainEstimate(spec)
  addExamples(spec, examples)
  completeResponses(spec, declared)
  open(getIn(spec, "components"))
  open(getIn(spec, "paths"))
  return tidied(spec)
}

/** The same API, described in full. It names no server: the reference page sends requests to where it was read. */
const DocumentedApi = Api.annotate(OpenApi.Transform, finish)

const spec = OpenApi.fromApi(DocumentedApi)

/** D1: where the service listens by default. */
export const defaultServerUrl = "http://127.0.0.1:8080"

/** The document of a service that clients reach at `base`; `/` is the origin from which they read it. */
export const openApiDocumentFor = (base: string) => {
  const contact = { name: "Tickerline", ...(base === "/" ? {} : { url: base + Lifecycle.documentationPath }) }
  const servers = [{ url: base, description: "The address at which clients reach the service." }]
  return { ...spec, info: { ...spec.info, contact }, servers }
}

/** The document of a service at its default address. */
export const openApiDocument = openApiDocumentFor(defaultServerUrl)
