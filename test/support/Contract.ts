/** The endpoints as the OpenAPI document tells a stranger of them. */
import { Predicate } from "effect"
import { document } from "../../src/catalogue/OpenApi.ts"

/** A value inside JSON, by keys and indexes: `at(body, "error", "code")`. */
export const at = (body: unknown, ...path: ReadonlyArray<string | number>): unknown =>
  path.reduce<unknown>(
    (value, key) => Predicate.isObject(value) || Array.isArray(value) ? Reflect.get(value, key) : undefined,
    body,
  )

/** What a `$ref` of the document leads to; anything else as it is. */
export const resolved = (value: unknown): unknown => {
  const reference = at(value, "$ref")
  return typeof reference === "string" ? resolved(at(document, ...reference.replace("#/", "").split("/"))) : value
}

/** What the document says about a status of an endpoint, by its name in `responses`. */
export const responsesOf = (path: string): ReadonlyMap<string, unknown> =>
  new Map(
    Object.entries(Object(at(document, "paths", path, "get", "responses"))).map(([status, response]) =>
      [status, resolved(response)] as const
    ),
  )

export type Kind = "number" | "whole" | "date" | "boolean" | "words" | "ticker" | "tickers" | "sort" | "text"

export interface Parameter {
  readonly name: string
  readonly required: boolean
  readonly kind: Kind
  /** The words that may be sent, where the document lists them. */
  readonly words: ReadonlyArray<string>
}

export interface Endpoint {
  readonly path: string
  readonly parameters: ReadonlyArray<Parameter>
}

const listOf = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : []

const oneOf = /^One of ((?:\w+, )+\w+); several comma-separated/

const kindOf = (name: string, schema: unknown, description: string): Kind => {
  if (name === "ticker") return description.startsWith("One symbol") ? "ticker" : "tickers"
  if (name === "sort") return "sort"
  if (oneOf.test(description)) return "words"
  // It may also be `all`, which is no page.
  if (name === "limit") return "whole"
  const type = at(schema, "type")
  if (type === "number") return "number"
  if (type === "integer") return "whole"
  if (type === "boolean") return "boolean"
  return at(schema, "format") === "date" ? "date" : "text"
}

const parameterOf = (parameter: unknown): Parameter => {
  const [name, description] = [String(at(parameter, "name")), String(at(parameter, "description"))]
  const kind = kindOf(name, at(parameter, "schema"), description)
  const [, listed = ""] = oneOf.exec(description) ?? []
  const enumerated = listOf(at(parameter, "schema", "enum")).map(String)
  const words = enumerated.length > 0 ? enumerated : listed.split(", ")
  return { name, required: at(parameter, "required") === true, kind, words: words.filter((word) => word !== "") }
}

/** Where an endpoint takes the parameters of another, one that stands for them all tells so; it has no value itself. */
export const isSent = (parameter: unknown) => at(parameter, "schema", "type") !== "object"

/** In what is answered is tested in `test/lists`; everywhere else it is JSON. */
const isFilter = ({ name }: Parameter) => name !== "format"

export const endpoints: ReadonlyArray<Endpoint> = Object.keys(document.paths).map((path) => ({
  path,
  parameters: listOf(at(document, "paths", path, "get", "parameters")).filter(isSent).map(parameterOf).filter(isFilter),
}))

/** The endpoints of datasets. */
export const datasetEndpoints = endpoints.filter(({ parameters }) => parameters.some(({ name }) => name === "ticker"))

const undemanding = endpoints.filter(({ parameters }) => parameters.every(({ required }) => !required))
const undemandingPaths = new Set(undemanding.map(({ path }) => path))

/** Of the words that a parameter takes the one to send: of several paths one that needs nothing more in its turn. */
export const wordOf = (words: ReadonlyArray<string>) => words.find((word) => undemandingPaths.has(word)) ?? words[0]

/** What must be sent for the rest to be looked at. */
export const needed = ({ parameters }: Endpoint, except = "") =>
  parameters.filter(({ name, required }) => required && name !== except).map(({ name, words }) =>
    [name, wordOf(words) ?? "ZZ9"] as const
  )

export const url = (path: string, query: ReadonlyArray<readonly [string, string]>) => {
  const search = query.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join("&")
  return search === "" ? path : `${path}?${search}`
}

/** D27: what tells data has a price; what the service tells of an account, or of itself, has none. */
export const free = [
  "/estimate",
  "/v1/account",
  "/v1/account/api-keys",
  "/v1/datasets",
  "/v1/overview",
  "/v1/usage",
  "/v1/usage/daily",
]
