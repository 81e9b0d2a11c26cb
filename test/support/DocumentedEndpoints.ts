/** The endpoints and their parameters as declared in the OpenAPI document. */
import { Predicate } from "effect"
import { catalogueEndpoints } from "../../src/api/catalogue/Endpoints.ts"
import { getDefaultOpenApiDocument } from "../../src/api/catalogue/OpenApiDocument.ts"
import { decimalPattern } from "../../src/contract/rules/FilterParameters.ts"

/** Reads a nested JSON value by a path of keys and indexes, for example `valueAt(body, "error", "code")`. */
export const valueAt = (body: unknown, ...path: ReadonlyArray<string | number>): unknown =>
  path.reduce<unknown>(
    (value, key) => Predicate.isObject(value) || Array.isArray(value) ? Reflect.get(value, key) : undefined,
    body,
  )

/** Resolves a `$ref` in the document. Returns any other value unchanged. */
export const resolveReference = (value: unknown): unknown => {
  const reference = valueAt(value, "$ref")
  return typeof reference === "string"
    ? resolveReference(valueAt(getDefaultOpenApiDocument(), ...reference.replace("#/", "").split("/")))
    : value
}

/** Returns an endpoint's documented responses by status code. */
export const getDocumentedResponses = (path: string): ReadonlyMap<string, unknown> =>
  new Map(
    Object.entries(Object(valueAt(getDefaultOpenApiDocument(), "paths", path, "get", "responses"))).map((
      [status, response],
    ) => [status, resolveReference(response)] as const),
  )

/** The kind of a parameter, which determines how tests choose its values. */
export type ParameterKind = "number" | "integer" | "date" | "boolean" | "words" | "ticker" | "tickers" | "sort" | "text"

/** A documented query parameter. */
export interface DocumentedParameter {
  readonly name: string
  readonly required: boolean
  readonly kind: ParameterKind
  /** The allowed values, if the document lists any. */
  readonly words: ReadonlyArray<string>
}

/** An endpoint whose responses end, unlike those of a stream. */
export interface DocumentedEndpoint {
  readonly path: string
  readonly parameters: ReadonlyArray<DocumentedParameter>
}

const toArray = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : []

const oneOfPattern = /^One of ((?:\w+, )+\w+); several comma-separated/

const getParameterKind = (name: string, schema: unknown, description: string): ParameterKind => {
  if (name === "ticker") return description.startsWith("One current or former symbol") ? "ticker" : "tickers"
  if (name === "sort") return "sort"
  if (oneOfPattern.test(description)) return "words"
  // `limit` also accepts `all`, which is covered by other tests.
  if (name === "limit") return "integer"
  const type = valueAt(schema, "type")
  if (valueAt(schema, "pattern") === decimalPattern.source) return "number"
  if (type === "integer") return "integer"
  if (type === "boolean") return "boolean"
  return valueAt(schema, "format") === "date" ? "date" : "text"
}

const readParameter = (parameter: unknown): DocumentedParameter => {
  const [name, description] = [String(valueAt(parameter, "name")), String(valueAt(parameter, "description"))]
  const kind = getParameterKind(name, valueAt(parameter, "schema"), description)
  const [, listed = ""] = oneOfPattern.exec(description) ?? []
  const [, named = ""] = /^#\/components\/schemas\/(\w+)$/.exec(String(valueAt(parameter, "schema", "$ref"))) ?? []
  const schemas = valueAt(getDefaultOpenApiDocument(), "components", "schemas")
  const enumerated = [
    ...toArray(valueAt(parameter, "schema", "enum")),
    ...toArray(valueAt(schemas, named, "enum")),
  ].map(String)
  const words = enumerated.length > 0 ? enumerated : listed.split(", ")
  return { name, required: valueAt(parameter, "required") === true, kind, words: words.filter((word) => word !== "") }
}

/** Returns false for the placeholder that stands for all parameters of the endpoint whose cost `/estimate` computes. */
export const isQueryParameter = (parameter: unknown) => valueAt(parameter, "schema", "type") !== "object"

/** Returns all documented query parameters of an endpoint. */
export const getDocumentedParameters = (path: string): ReadonlyArray<DocumentedParameter> =>
  toArray(valueAt(getDefaultOpenApiDocument(), "paths", path, "get", "parameters")).filter(isQueryParameter)
    .map(readParameter)

/** Returns the names of all documented parameters of an endpoint. */
export const getParameterNames = (path: string) =>
  toArray(valueAt(getDefaultOpenApiDocument(), "paths", path, "get", "parameters")).map((parameter) =>
    String(valueAt(parameter, "name"))
  )

/**
 * Excludes `format` and `as_of`, because most tests expect current rows as JSON. Both parameters are tested in
 * `test/query/rows` and `test/query/history`.
 */
const isFilter = ({ name }: DocumentedParameter) => name !== "format" && name !== "as_of"

/** The endpoints whose responses never end. They are tested in `test/query/history/stream.test.ts`. */
export const streamPaths: ReadonlySet<string> = new Set(
  catalogueEndpoints.filter(({ isEndless }) => isEndless).map(({ row }) => row.path),
)

/** All endpoints whose responses end. */
export const documentedEndpoints: ReadonlyArray<DocumentedEndpoint> = Object.keys(getDefaultOpenApiDocument().paths)
  .filter((path) => !streamPaths.has(path)).map((
    path,
  ) => ({
    path,
    parameters: toArray(valueAt(getDefaultOpenApiDocument(), "paths", path, "get", "parameters")).filter(
      isQueryParameter,
    ).map(
      readParameter,
    ).filter(isFilter),
  }))

/**
 * Returns whether a parameter selects lineages. Such a parameter requires other parameters, and makes the request read
 * `ticker_changes` as well.
 */
export const isLineageParameter = ({ name }: Pick<DocumentedParameter, "name">) =>
  name === "follow_lineage" || name === "cik"

/** The endpoints with a `ticker` parameter. They return data about symbols. */
export const documentedTickerEndpoints = documentedEndpoints.filter(({ parameters }) =>
  parameters.some(({ name }) => name === "ticker")
)

/**
 * The endpoints that return current rows of a single dataset. The change feed is not included, because it covers all
 * datasets.
 */
export const documentedDatasetEndpoints = documentedTickerEndpoints.filter(({ path }) => path !== "/v1/changes")

const withoutRequiredParameters = documentedEndpoints.filter(({ parameters }) =>
  parameters.every(({ required }) => !required)
)
const optionalOnlyPaths = new Set(withoutRequiredParameters.map(({ path }) => path))

/**
 * Picks one of a parameter's allowed values. If the values are paths, prefers an endpoint without required parameters.
 */
export const pickSampleValue = (words: ReadonlyArray<string>) =>
  words.find((word) => optionalOnlyPaths.has(word)) ?? words[0]

/** Returns the names and values of the required parameters, omitting the parameter `except`. */
export const makeRequiredQuery = ({ parameters }: DocumentedEndpoint, except = "") =>
  parameters.filter(({ name, required }) => required && name !== except).map(({ name, words }) =>
    [name, pickSampleValue(words) ?? "ZZ9"] as const
  )

/** Appends a query to a path, URL-encoding its names and values. */
export const buildUrl = (path: string, query: ReadonlyArray<readonly [string, string]>) => {
  const search = query.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join("&")
  return search === "" ? path : `${path}?${search}`
}

/** The endpoints that are free of charge (D27). They return data about the account or about the service itself. */
export const freeEndpointPaths = [
  "/estimate",
  "/v1/account",
  "/v1/account/api-keys",
  "/v1/account/invoice-lines",
  "/v1/account/invoices",
  "/v1/datasets",
  "/v1/overview",
  "/v1/usage",
  "/v1/usage/daily",
]
