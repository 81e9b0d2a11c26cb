/** The API as an OpenAPI 3.1 document, with examples that are answers of the service itself over its sample data. */
import { Predicate, Schema } from "effect"
import { HttpApi, OpenApi } from "effect/http-api"
import examples from "../../samples/examples.json" with { type: "json" }
import { Api } from "../Api.ts"
import { contentTypes } from "../policy/Formats.ts"
import { endpoints } from "./Endpoints.ts"

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

/** In a URL everything is text; what numbers and booleans mean is said by what they are read as. */
const meanings = () => {
  const found = new Map<string, unknown>()
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => {
      if (endpoint.query === undefined) return
      found.set(endpoint.path, at(Schema.toJsonSchemaDocument(Schema.toType(endpoint.query)).schema, "properties"))
    },
  })
  return found
}

const meaning = (parameter: Json, readAs: unknown) => {
  const schema = at(parameter, "schema")
  const description = at(schema, "description")
  // A choice is among what is meant as well.
  if (description === undefined || at(schema, "anyOf") !== undefined) {
    return { ...parameter, description: at(readAs, "description"), schema: readAs }
  }
  // A list stays the comma-separated text that it is sent as.
  const kind = at(schema, "format") === "decimal" ? { type: "number" } : { ...Object(schema), description: undefined }
  return { ...parameter, description, schema: kind }
}

const explainParameters = (spec: Json) => {
  for (const [path, properties] of meanings()) {
    const operation = at(spec, "paths", path, "get")
    const parameters = at(operation, "parameters")
    if (!Predicate.isObject(operation) || !Array.isArray(parameters)) continue
    const explained = parameters.map((parameter: Json) => meaning(parameter, at(properties, String(parameter["name"]))))
    Object.assign(operation, { parameters: explained })
  }
}

/** D28: `/estimate` takes the parameters of every endpoint. */
const explainEstimate = (spec: Json) => {
  const operation = at(spec, "paths", "/estimate", "get")
  const parameters = at(operation, "parameters")
  if (!Predicate.isObject(operation) || !Array.isArray(parameters)) return
  const paths = endpoints.map(({ row }) => row.path)
  Object.assign(operation, {
    parameters: [
      ...parameters.map((parameter: Json) => ({ ...parameter, schema: { type: "string", enum: paths } })),
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

const finish = (spec: Json) => {
  addFormats(spec)
  explainParameters(spec)
  explainEstimate(spec)
  open(at(spec, "components"))
  open(at(spec, "paths"))
  addExamples(spec)
  return JSON.parse(JSON.stringify(spec))
}

/** The same API; only what is said of it is more. */
export const DocumentedApi = Api.annotate(OpenApi.Transform, finish)

export const document = OpenApi.fromApi(DocumentedApi)
