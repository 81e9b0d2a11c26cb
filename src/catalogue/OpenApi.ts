/** The API as an OpenAPI 3.1 document, with examples that are answers of the service itself over its sample data. */
import { Array, Context, Predicate, Schema, SchemaAST } from "effect"
import { HttpApi, type HttpApiEndpoint, OpenApi } from "effect/http-api"
import examples from "../../samples/examples.json" with { type: "json" }
import { Charged } from "../account/Admission.ts"
import { Authentication } from "../account/Authentication.ts"
import { Api } from "../Api.ts"
import { BadRequest, MethodNotAllowed } from "../policy/Errors.ts"
import { contentTypes } from "../policy/Formats.ts"
import * as Lifecycle from "../policy/Lifecycle.ts"
import { responseHeaders, Revalidated } from "../policy/ResponseHeaders.ts"
import { priced } from "./Endpoints.ts"
import { type Facts, headersOf } from "./Responses.ts"

type Json = Record<string, unknown>

const at = (value: unknown, ...path: ReadonlyArray<string>): unknown =>
  path.reduce<unknown>((found, key) => Predicate.isObject(found) ? Reflect.get(found, key) : undefined, value)

const file = (description: string) => ({ schema: { type: "string", description } })

/** D8: the formats beside JSON. */
const files = {
  [contentTypes.csv]: file(
    "RFC 4180, UTF-8 with a byte order mark; the first record names the fields, null is an empty cell, a list is JSON.",
  ),
  [contentTypes.ndjson]: file("One of `results` a line."),
}

/** Each example under the path and status that it answers; several of one kind stand side by side. */
const addExamples = (spec: Json) => {
  for (const { name, request, response, status } of examples) {
    const path = request.split("?", 1)[0] ?? request
    const content = at(spec, "paths", path, "get", "responses", String(status), "content", "application/json")
    if (!Predicate.isObject(content)) throw new Error(`samples/examples.json: nothing documents ${status} of ${path}`)
    Object.assign(content, {
      examples: { ...Object(at(content, "examples")), [name]: { summary: request, value: response } },
    })
  }
}

/** §9.3: fields may be added at any time, so no schema of an answer is closed. */
const open = (schema: unknown): void => {
  if (Array.isArray(schema)) return schema.forEach(open)
  if (!Predicate.isObject(schema)) return
  if (at(schema, "additionalProperties") === false) Reflect.deleteProperty(schema, "additionalProperties")
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
      const parameters = at(query, "properties")
      const demands = new Set(Array.fromIterable(middleware).map(({ key }) => key))
      const facts = {
        keyed: demands.has(Authentication.key),
        revalidated: demands.has(Charged.key) || Context.get(mergedAnnotations, Revalidated),
        list: at(parameters, "format") !== undefined,
        dropsTickers: at(parameters, "ticker", "type") === "array",
        takesAny: takesAny(endpoint),
        life: Lifecycle.of(endpoint.annotations),
      }
      found.set(endpoint.path, { parameters, facts })
    },
  })
  return found
}

/** A list of closed words, comma-separated. */
const wordsIn = (readAs: unknown): unknown => at(readAs, "type") === "array" ? at(readAs, "items", "enum") : undefined

/** In a URL everything is text; the schema of what it is decoded to says what it means. */
const meaning = (parameter: Json, readAs: unknown) => {
  const schema = at(parameter, "schema")
  const description = at(schema, "description")
  // A choice is among what is meant as well.
  if (description === undefined || at(schema, "anyOf") !== undefined) {
    return { ...parameter, description: at(readAs, "description"), schema: readAs }
  }
  const words = wordsIn(readAs)
  if (words !== undefined) {
    const items = { type: "string", enum: words }
    return { ...parameter, description, style: "form", explode: false, schema: { type: "array", items } }
  }
  // Any other list stays the comma-separated text that it is sent as.
  const kind = at(schema, "format") === "decimal" ? { type: "number" } : { ...Object(schema), description: undefined }
  return { ...parameter, description, schema: kind }
}

const explainParameters = (spec: Json, declared: ReturnType<typeof declarations>) => {
  for (const [path, { parameters: properties }] of declared) {
    const operation = at(spec, "paths", path, "get")
    const parameters = at(operation, "parameters")
    if (!Predicate.isObject(operation) || !Array.isArray(parameters)) continue
    const explained = parameters.map((parameter) =>
      meaning(Object(parameter), at(properties, String(at(parameter, "name"))))
    )
    Object.assign(operation, { parameters: explained })
  }
}

/** D28: `/estimate` takes the parameters of every endpoint that has a price. */
const explainEstimate = (spec: Json) => {
  const operation = at(spec, "paths", "/estimate", "get")
  const parameters = at(operation, "parameters")
  if (!Predicate.isObject(operation) || !Array.isArray(parameters)) return
  Object.assign(operation, {
    parameters: [
      ...parameters.map((parameter) => ({ ...Object(parameter), schema: { type: "string", enum: priced } })),
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
    const parameters = at(operation, "get", "parameters")
    const content = at(operation, "get", "responses", "200", "content")
    const isList = Array.isArray(parameters) && parameters.some((parameter) => at(parameter, "name") === "format")
    if (isList && Predicate.isObject(content)) Object.assign(content, files)
  }
}

// -------------------------------------------------------------------------------------------------------------------
// Responses
// -------------------------------------------------------------------------------------------------------------------

const schemaNamed = (name: string) => ({ "application/json": { schema: { $ref: `#/components/schemas/${name}` } } })

const bad = (description: string) => ({ description, content: schemaNamed("BadRequest") })

/** What an endpoint answers without declaring it (D10, D13): the request does not get as far as its handler. */
const undeclared: Readonly<Record<number, Json>> = {
  400: bad("The URL cannot be decoded, or the request names no `Host`."),
  405: { description: "Endpoints answer GET and HEAD.", content: schemaNamed("MethodNotAllowed") },
  408: bad("The request did not arrive in time."),
  413: bad("The request has a body, and it is too long."),
  431: bad("The URL and the headers are too long together, or the headers are too many."),
}

const described = (status: number, response: Json, facts: Facts): Json => {
  const { content, description } = response
  // Effect joins the descriptions of several errors by bars.
  const sentences = String(description).replaceAll(" | ", " ")
  return { description: sentences, headers: headersOf(status, facts), ...(content === undefined ? {} : { content }) }
}

const notModified = { description: "The client has this version already: it sent its `ETag` as `If-None-Match`." }

interface Answer {
  readonly path: string
  readonly status: number
  readonly facts: Facts
  readonly response: Json
}

const answersOf = (path: string, facts: Facts, responses: unknown): ReadonlyArray<Answer> =>
  Object.entries<Json>({
    ...Object(responses),
    ...undeclared,
    ...(facts.revalidated ? { 304: notModified } : {}),
  }).map(([status, response]) => ({
    path,
    status: Number(status),
    facts,
    response: described(Number(status), response, facts),
  }))

/** The names under which responses are shared. */
const sharedNames: Readonly<Record<number, string>> = {
  304: "NotModified",
  400: "BadRequest",
  401: "Unauthorized",
  402: "PaymentRequired",
  403: "Forbidden",
  404: "NotFound",
  405: "MethodNotAllowed",
  408: "RequestTimeout",
  409: "Conflict",
  410: "Gone",
  413: "ContentTooLarge",
  422: "ValidationError",
  429: "TooManyRequests",
  431: "HeadersTooLarge",
  500: "InternalError",
  503: "Unavailable",
}

const variant = ({ dropsTickers, keyed }: Facts) => dropsTickers ? "OfTickers" : keyed ? "" : "WithoutKey"

/** The names of responses that several operations have in common; a success is never shared. */
const namesOf = (answers: ReadonlyArray<Answer>): ReadonlyMap<Answer, string> => {
  const alike = Object.values(Array.groupBy(answers, ({ response, status }) => `${status} ${JSON.stringify(response)}`))
    .filter(([{ status }, ...others]) => status !== 200 && others.length > 0)
  const statuses = alike.map(([{ status }]) => status)
  const named = alike.map((group) => {
    const [{ facts, status }] = group
    const isOnly = statuses.indexOf(status) === statuses.lastIndexOf(status)
    return { group, name: `${sharedNames[status]}${isOnly ? "" : variant(facts)}` }
  })
  if (new Set(named.map(({ name }) => name)).size < named.length) {
    throw new Error("Two responses of the OpenAPI document have one name")
  }
  return new Map(named.flatMap(({ group, name }) => group.map((answer) => [answer, name] as const)))
}

/** Adds the statuses that no endpoint declares, and the headers of all. */
const completeResponses = (spec: Json, declared: ReturnType<typeof declarations>) => {
  const answers = Array.fromIterable(declared).flatMap(([path, { facts }]) =>
    answersOf(path, facts, at(spec, "paths", path, "get", "responses"))
  )
  const names = namesOf(answers)
  for (const [path, own] of Object.entries(Array.groupBy(answers, ({ path }) => path))) {
    const responses = own.map((answer) => {
      const name = names.get(answer)
      return [answer.status, name === undefined ? answer.response : { $ref: `#/components/responses/${name}` }] as const
    })
    Object.assign(Object(at(spec, "paths", path, "get")), { responses: Object.fromEntries(responses) })
  }
  const errors = [BadRequest, MethodNotAllowed].map((error) =>
    Schema.toJsonSchemaDocument(Schema.toCodecJson(error)).definitions
  )
  Object.assign(Object(spec["components"]), {
    schemas: Object.assign({}, at(spec, "components", "schemas"), ...errors),
    headers: responseHeaders,
    responses: Object.fromEntries(Array.fromIterable(names).map(([{ response }, name]) => [name, response])),
  })
}

// -------------------------------------------------------------------------------------------------------------------
// Schemas
// -------------------------------------------------------------------------------------------------------------------

/** Every object within, from the inside out, as `change` makes it. */
const mapped = (value: unknown, change: (object: Json) => Json): unknown =>
  Array.isArray(value)
    ? value.map((inner) => mapped(inner, change))
    : Predicate.isObject(value)
    ? change(Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, mapped(inner, change)])))
    : value

/** Effect names the JSON of a class `NameEncoded`; for a client it is `Name`. */
const publicName = (name: string) => name.replace(/Encoded$/, "")

const schemaReference = /^#\/components\/schemas\//

const withPublicNames = (object: Json): Json => {
  const reference = object["$ref"]
  return typeof reference === "string" && schemaReference.test(reference)
    ? { ...object, $ref: publicName(reference) }
    : object
}

/** A list of exactly one: code generators understand `items` better than `prefixItems`. */
const withItems = (object: Json): Json => {
  const { prefixItems, ...rest } = object
  return Array.isArray(prefixItems) && prefixItems.length === 1 && rest["maxItems"] === 1
    ? { ...rest, items: prefixItems[0] }
    : object
}

const nameSchemas = (spec: Json) => {
  const components = Object(spec["components"])
  const schemas = Object.entries(Object(components["schemas"])).map(([name, schema]) => [publicName(name), schema])
  const names = schemas.map(([name]) => name)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw new Error(`Two schemas of the OpenAPI document are named ${String(twice)}`)
  Object.assign(components, { schemas: Object.fromEntries(schemas) })
}

const finish = (spec: Json) => {
  const declared = declarations()
  addFormats(spec)
  explainParameters(spec, declared)
  explainEstimate(spec)
  addExamples(spec)
  completeResponses(spec, declared)
  nameSchemas(spec)
  open(at(spec, "components"))
  open(at(spec, "paths"))
  return Object(mapped(JSON.parse(JSON.stringify(spec)), (object) => withItems(withPublicNames(object))))
}

/** The same API, described in full. It names no server: the reference page sends requests to where it was read. */
export const DocumentedApi = Api.annotate(OpenApi.Transform, finish)

const spec = OpenApi.fromApi(DocumentedApi)

/** D1: where the service listens by default. */
export const defaultServer = "http://127.0.0.1:8080"

/** The document of a service that clients reach at `base`. */
export const documentAt = (base: string) => ({
  ...spec,
  info: { ...spec.info, contact: { name: "Tickerline", url: `${base.replace(/\/$/, "")}${Lifecycle.documentation}` } },
  servers: [{ url: base, description: "The address at which clients reach the service." }],
})

/** The document of a service at its default address. */
export const document = documentAt(defaultServer)
