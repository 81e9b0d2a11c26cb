/**
 * Builds the API's OpenAPI 3.1 document. Effect generates the basic document from the contract. This file adds file
 * formats, headers, examples and the responses that endpoints do not declare, and simplifies the schemas for code
 * generators.
 */
import { Array, Context, Option, Predicate, Schema } from "effect"
import { OpenApi } from "effect/http-api"
import examples from "../../../samples/examples.json" with { type: "json" }
import { estimatePath } from "../../contract/Authentication.ts"
import { Api } from "../../contract/Api.ts"
import { listContentTypes } from "../../contract/rows/ListFormats.ts"
import { FreeEndpointHasEtag, HasCompanyRows } from "../../contract/rules/EndpointAnnotations.ts"
import { BadRequest, MethodNotAllowed } from "../../contract/rules/ApiErrors.ts"
import { documentationPath } from "../../contract/rules/Deprecation.ts"
import { openApiResponseHeaders, type ResponseHeaderName } from "../../contract/rules/ResponseHeaders.ts"
import { type CatalogueEndpoint, catalogueEndpoints, declaredEndpoints } from "./Endpoints.ts"
import { enumerations } from "./Enumerations.ts"

type JsonObject = Record<string, unknown>

/** Returns the nested value at a path of keys, or undefined if it does not exist. */
const getIn = (value: unknown, ...path: ReadonlyArray<string>): unknown =>
  path.reduce<unknown>((inner, key) => Predicate.isObject(inner) ? Reflect.get(inner, key) : undefined, value)

// ---------------------------------------------------------------------------------------------------------------------
// Facts about endpoints
// ---------------------------------------------------------------------------------------------------------------------

/** Returns the JSON Schemas of an endpoint's query parameters after decoding, by parameter name. */
const describeQuery = ({ query }: CatalogueEndpoint) =>
  query === undefined ? undefined : getIn(Schema.toJsonSchemaDocument(Schema.toType(query)).schema, "properties")

/** Returns the properties of an endpoint that determine its responses and response headers. */
const findFacts = (
  { annotations, deprecation, isEndless, isPriced, row }: CatalogueEndpoint,
  parameters: unknown,
) => ({
  needsKey: row.tier !== null,
  /** Whether complete responses have an `ETag`, so that the endpoint can also respond with 304. */
  hasEtag: !isEndless && (isPriced || Context.get(annotations, FreeEndpointHasEtag)),
  /** Whether the endpoint responds with an endless stream. */
  isEndless,
  /** Whether the endpoint returns a list, which has pages and file formats. */
  isList: getIn(parameters, "format") !== undefined,
  /**
   * Whether invalid symbols in the parameter `ticker`, which is a list, are dropped instead of refused (D5, ticker
   * lists).
   */
  dropsTickers: getIn(parameters, "ticker", "type") === "array",
  /** Whether the endpoint can also return the rows of a company's former symbols (`follow_lineage`). */
  followsLineages: getIn(parameters, "follow_lineage") !== undefined,
  /** Whether a response for one symbol may include rows stored under another symbol of the same company. */
  hasCompanyRows: Context.get(annotations, HasCompanyRows),
  /** Whether the endpoint can return the data as of an earlier time (`as_of`). */
  supportsAsOf: getIn(parameters, "as_of") !== undefined,
  /** Whether clients read further results with a cursor (`after`) instead of `page`. */
  hasCursor: getIn(parameters, "after") !== undefined && getIn(parameters, "page") === undefined,
  /** Whether responses omit events of types that belong to endpoints the account may not use. */
  omitsTypes: getIn(parameters, "types") !== undefined,
  /** Whether the endpoint accepts the parameters of other endpoints (D28, estimates). */
  takesAnyParameter: row.path === estimatePath,
  deprecation,
})

type EndpointFacts = ReturnType<typeof findFacts>

/** Returns the parameters and the facts of each endpoint in the contract, by path. */
const readDeclarations = () =>
  new Map(declaredEndpoints.map((endpoint) => {
    const parameters = describeQuery(endpoint)
    return [endpoint.row.path, { parameters, facts: findFacts(endpoint, parameters) }]
  }))

type Declarations = ReturnType<typeof readDeclarations>

// ---------------------------------------------------------------------------------------------------------------------
// Parameters
// ---------------------------------------------------------------------------------------------------------------------

/**
 * Returns the length limits and the pattern of a query parameter. They come from `schema`, which describes the text in
 * the URL. If it does not define them, they come from `decoded`, which describes the decoded value or, for a list, the
 * items. For lists, only `minLength` is returned.
 */
const describeLimits = (schema: unknown, decoded: unknown): JsonObject => {
  const isList = getIn(decoded, "type") === "array"
  const names = isList ? ["minLength"] : ["minLength", "maxLength", "pattern"]
  const limits = isList ? getIn(decoded, "items") : decoded
  return Object.fromEntries(names.map((name) => [name, getIn(schema, name) ?? getIn(limits, name)]))
}

/**
 * Returns an OpenAPI parameter object with the type and limits of the parameter's decoded value. `parameter` is the
 * object that Effect generated; its schema describes the text in the URL. `decoded` is the JSON Schema of the value
 * after decoding. There are three cases:
 * - The text has no description of its own. Then it is only how the URL spells the value, such as a number, so the
 *   decoded schema replaces the text's schema.
 * - The value is a list whose items come from a fixed set: an array, comma-separated in the URL.
 * - Anything else: the text's schema, with limits from the decoded value. A text with a `format`, such as `date`, needs
 *   no other limits.
 */
const describeParameter = (parameter: JsonObject, decoded: unknown) => {
  const schema = getIn(parameter, "schema")
  const description = getIn(schema, "description")
  if (description === undefined) return { ...parameter, description: getIn(decoded, "description"), schema: decoded }
  const values = getIn(decoded, "type") === "array" ? getIn(decoded, "items", "enum") : undefined
  if (values !== undefined) {
    const items = { type: "string", enum: values }
    return { ...parameter, description, style: "form", explode: false, schema: { type: "array", items, minItems: 1 } }
  }
  // A comma-separated list is documented as a string unless its values are fixed. A decimal is also documented as a
  // string: a generated client might round a `number`, and some generators do not support parameters with several
  // types.
  const limits = getIn(schema, "format") === undefined ? describeLimits(schema, decoded) : {}
  return { ...parameter, description, schema: { ...Object(schema), description: undefined, ...limits } }
}

/** Adds the types and limits of decoded values to the query parameters of all endpoints. */
const describeParameters = (spec: JsonObject, declarations: Declarations) => {
  for (const [path, { parameters: decoded }] of declarations) {
    const operation = getIn(spec, "paths", path, "get")
    const parameters = getIn(operation, "parameters")
    if (!Predicate.isObject(operation) || !Array.isArray(parameters)) continue
    Object.assign(operation, {
      parameters: parameters.map((parameter) =>
        describeParameter(Object(parameter), getIn(decoded, String(getIn(parameter, "name"))))
      ),
    })
  }
}

/**
 * Documents that `/estimate` accepts the parameters of every endpoint (D28, estimates), in addition to `endpoint`, the
 * path of the endpoint to estimate.
 */
const describeEstimateParameters = (spec: JsonObject) => {
  const operation = getIn(spec, "paths", "/estimate", "get")
  const parameters = getIn(operation, "parameters")
  if (!Predicate.isObject(operation) || !Array.isArray(parameters)) return
  const paths = catalogueEndpoints.filter(({ isEndless }) => !isEndless).map(({ row }) => row.path)
  Object.assign(operation, {
    parameters: [
      ...parameters.map((parameter) => ({
        ...Object(parameter),
        schema: { type: "string", enum: paths, examples: ["/v1/news"] },
      })),
      {
        name: "parameters",
        in: "query",
        style: "form",
        explode: true,
        description: "The request's own parameters, each under its own name.",
        schema: { type: "object", additionalProperties: { type: "string" }, examples: [{ ticker: "BYON" }] },
      },
    ],
  })
}

// ---------------------------------------------------------------------------------------------------------------------
// File formats and examples
// ---------------------------------------------------------------------------------------------------------------------

/** Returns an OpenAPI media type object for a file. */
const describeFile = (description: string, schema: JsonObject = {}) => ({
  schema: { type: "string", ...schema, description },
})

/** The content of list responses in formats other than JSON (D8, pages). */
const fileContents = {
  [listContentTypes.csv]: describeFile(
    "RFC 4180, UTF-8 with a byte order mark. The first record has the field names, null is an empty cell, and a list " +
      "is JSON.",
  ),
  [listContentTypes.ndjson]: describeFile("One element of `results` per line."),
  [listContentTypes.parquet]: describeFile(
    "Apache Parquet, only with `limit=all`. It has the rows and columns of the CSV. Decimals are DECIMAL, dates " +
      "DATE, datetimes TIMESTAMP in UTC, and lists LIST.",
    { format: "binary" },
  ),
}

/** Adds CSV, NDJSON and Parquet to the documented content of list responses. */
const addFileFormats = (spec: JsonObject, declarations: Declarations) => {
  for (const [path, { facts }] of declarations) {
    const content = getIn(spec, "paths", path, "get", "responses", "200", "content")
    if (facts.isList && Predicate.isObject(content)) Object.assign(content, fileContents)
  }
}

/** An example request from `samples/examples.json`, and the response to it with the sample data. */
interface Example {
  readonly name: string
  readonly request: string
  readonly status: number
  /** The response body, generated from the sample data by `UPDATE_EXAMPLES=1 npm run test:all -- samples-examples`. */
  readonly response?: unknown
}

/**
 * Adds each example to the documented response with the same path and status. Throws if the document does not contain
 * that response. Skips examples that have no response.
 */
export const addResponseExamples = (spec: JsonObject, all: ReadonlyArray<Example>) => {
  for (const { name, request, response, status } of all) {
    if (response === undefined) continue
    const path = request.split("?", 1)[0] ?? request
    const content = getIn(spec, "paths", path, "get", "responses", String(status), "content", "application/json")
    if (!Predicate.isObject(content)) {
      throw new Error(`samples/examples.json: the document has no response ${status} of ${path}`)
    }
    Object.assign(content, {
      examples: { ...Object(getIn(content, "examples")), [name]: { summary: request, value: response } },
    })
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Headers
// ---------------------------------------------------------------------------------------------------------------------

/** Whether all of an endpoint's responses with the same status have a header, or only some. Undefined if none do. */
type Presence = "always" | "sometimes" | undefined

/** An endpoint's responses with the same status. */
interface ResponseKind extends EndpointFacts {
  readonly status: number
}

/** Statuses of responses to malformed requests, which do not reach an endpoint. */
const malformedStatuses = new Set([408, 413, 431])

/** Statuses of responses that are sent before a key has been accepted. */
const unauthenticatedStatuses = new Set([400, 401, 405, 410, ...malformedStatuses])

/** Statuses that can occur both before and after a key has been accepted. */
const sometimesAuthenticatedStatuses = new Set([429, 500, 503])

const alwaysIf = (condition: boolean): Presence => condition ? "always" : undefined
const sometimesIf = (condition: boolean): Presence => condition ? "sometimes" : undefined

/**
 * Returns whether the response is a 410 with two possible meanings: the cursor has expired, which is detected after the
 * key check, or the endpoint has been removed, which is detected before it.
 */
const hasTwoMeanings = ({ hasCursor, status }: ResponseKind) => hasCursor && status === 410

/**
 * Returns whether the response is a 410 from `/estimate`, which means that the estimated endpoint has been removed. It
 * is sent after the key check, and does not have the headers that announce the removal.
 */
const isAboutOtherEndpoint = ({ status, takesAnyParameter }: ResponseKind) => takesAnyParameter && status === 410

/** Presence of the rate limit headers, which responses have once a key has been accepted. */
const rateLimitPresence = (response: ResponseKind): Presence => {
  const { needsKey, status } = response
  if (!needsKey) return undefined
  if (isAboutOtherEndpoint(response)) return "always"
  if (sometimesAuthenticatedStatuses.has(status) || hasTwoMeanings(response)) return "sometimes"
  return alwaysIf(!unauthenticatedStatuses.has(status))
}

/** Presence of the headers that only responses in file formats have. */
const filePresence = ({ isList, status }: ResponseKind) => sometimesIf(isList && status === 200)

/** Presence of the headers that every response from a deprecated endpoint has. */
const deprecationPresence = ({ deprecation }: ResponseKind): Presence => alwaysIf(Option.isSome(deprecation))

/** Presence of `Sunset`, which every response from a deprecated endpoint with an end date has. */
const sunsetPresence = ({ deprecation }: ResponseKind): Presence =>
  alwaysIf(Option.exists(deprecation, ({ sunset }) => sunset !== undefined))

/** Presence of the headers that a removed endpoint sends: `Deprecation`, `Sunset` and `Link`. */
const removalPresence = (response: ResponseKind): Presence =>
  hasTwoMeanings(response) ? "sometimes" : alwaysIf(response.status === 410 && !isAboutOtherEndpoint(response))

/**
 * Presence of `X-Cost-Microdollars`. With `limit=all`, the cost is sent as a trailer, so list responses do not always
 * have this header. Endless streams never have it.
 */
const costPresence = (response: ResponseKind): Presence => {
  const { isEndless, isList, needsKey, status } = response
  if (status !== 200) return rateLimitPresence(response)
  if (isEndless) return undefined
  return isList ? sometimesIf(needsKey) : rateLimitPresence(response)
}

/** Presence of `ETag`. With `limit=all`, there is none, so list responses do not always have this header. */
const etagPresence = ({ hasEtag, isList, status }: ResponseKind): Presence => {
  if (status === 304) return "always"
  if (status !== 200 || !hasEtag) return undefined
  return isList ? "sometimes" : "always"
}

/** Defines which responses have each header (D14, D17, D18, D27 and §9.4, headers). */
const headerPresence: Readonly<Record<ResponseHeaderName, (response: ResponseKind) => Presence>> = {
  "X-API-Version": () => "always",
  "X-Request-Id": () => "always",
  "X-Content-Type-Options": () => "always",
  "Vary": () => "sometimes",
  "Deprecation": (response) => deprecationPresence(response) ?? removalPresence(response),
  "Sunset": (response) => sunsetPresence(response) ?? removalPresence(response),
  "Link": (response) =>
    deprecationPresence(response) ??
      sometimesIf(response.isList && (response.status === 200 || response.status === 304)) ??
      removalPresence(response),
  "WWW-Authenticate": ({ status }) => alwaysIf(status === 401),
  "Allow": ({ status }) => alwaysIf(status === 405),
  "Retry-After": ({ status }) => alwaysIf(status === 429 || status === 503),
  "X-RateLimit-Limit": rateLimitPresence,
  "X-RateLimit-Remaining": rateLimitPresence,
  "X-RateLimit-Reset": rateLimitPresence,
  "X-Cost-Microdollars": costPresence,
  "ETag": etagPresence,
  "Cache-Control": () => "always",
  "X-Dropped-Tickers": ({ dropsTickers, status, takesAnyParameter }) =>
    sometimesIf(
      dropsTickers
        ? !unauthenticatedStatuses.has(status) && status !== 403 && status !== 429
        : takesAnyParameter && status === 200,
    ),
  // Errors can also have this header, because a request may fail after its lineage has been resolved.
  "X-Lineage": ({ followsLineages, status }) =>
    sometimesIf(followsLineages && [200, 304, 402, 422, 500, 503].includes(status)),
  "X-Primary-Tickers": ({ hasCompanyRows, status }) =>
    sometimesIf(hasCompanyRows && [200, 304, 402, 409, 422, 500, 503].includes(status)),
  "X-As-Of": ({ supportsAsOf, status }) =>
    sometimesIf(supportsAsOf && [200, 304, 402, 404, 409, 422, 500, 503].includes(status)),
  "X-Omitted-Types": ({ omitsTypes, status }) =>
    sometimesIf(omitsTypes && [200, 304, 402, 422, 500, 503].includes(status)),
  "X-Empty-Reason": ({ isList, status }) => sometimesIf(isList && [200, 304].includes(status)),
  "X-Row-Count": filePresence,
  "Content-Disposition": filePresence,
  "Unencoded-Digest": filePresence,
  "Trailer": filePresence,
}

const isHeaderName = (name: string): name is ResponseHeaderName => name in openApiResponseHeaders

/**
 * Describes the headers of a response. Each is described by a reference to the shared definition of the header, or by a
 * copy of the definition if `required` differs.
 */
const describeHeaders = (response: ResponseKind): JsonObject =>
  Object.fromEntries(
    Object.keys(openApiResponseHeaders).filter(isHeaderName).flatMap((name) => {
      const presence = headerPresence[name](response)
      if (presence === undefined) return []
      const header = openApiResponseHeaders[name]
      const required = presence === "always"
      const isShared = header.required === required
      return [[name, isShared ? { $ref: `#/components/headers/${name}` } : { ...header, required }]]
    }),
  )

// ---------------------------------------------------------------------------------------------------------------------
// Responses
// ---------------------------------------------------------------------------------------------------------------------

/** Returns an OpenAPI response object for an error. `schema` is the name of the schema of its body. */
const describeError = (schema: string, description: string) => ({
  description,
  content: { "application/json": { schema: { $ref: `#/components/schemas/${schema}` } } },
})

/**
 * Responses that endpoints do not declare, because they are sent before a request reaches an endpoint (D10, methods;
 * D13, malformed requests).
 */
const undeclaredResponses: Readonly<Record<number, JsonObject>> = {
  400: describeError("BadRequest", "The URL cannot be decoded, or the `Host` header is missing."),
  405: describeError("MethodNotAllowed", "Endpoints answer GET and HEAD."),
  408: describeError("BadRequest", "The request did not arrive in time."),
  413: describeError("BadRequest", "The request body is too long."),
  431: describeError("BadRequest", "The URL and headers are too long, or there are too many headers."),
}

const notModified = {
  description: "The response has not changed: the client sent its `ETag` as `If-None-Match`.",
}

/** Documents a response with its headers, and with a description that consists of sentences. */
const describeResponse = (response: JsonObject, kind: ResponseKind): JsonObject => {
  const { content, description } = response
  // Effect joins the descriptions of several errors with " | ".
  const sentences = String(description).replaceAll(" | ", " ")
  return { description: sentences, headers: describeHeaders(kind), ...(content === undefined ? {} : { content }) }
}

/** An endpoint's documented response with one status. */
interface EndpointResponse {
  readonly path: string
  readonly status: number
  readonly facts: EndpointFacts
  readonly response: JsonObject
}

/** Lists all of an endpoint's responses: those in `declared`, and those that no endpoint declares. */
const listResponses = (path: string, facts: EndpointFacts, declared: unknown): ReadonlyArray<EndpointResponse> =>
  Object.entries<JsonObject>({
    ...Object(declared),
    ...undeclaredResponses,
    ...(facts.hasEtag ? { 304: notModified } : {}),
    // Health checks ignore parameters (D4), so they never respond with 422.
  }).filter(([code]) => code !== "422" || !path.startsWith("/health/")).map(([code, response]) => {
    const status = Number(code)
    return { path, status, facts, response: describeResponse(response, { ...facts, status }) }
  })

/** Names of responses shared by several operations, by status. */
const sharedResponseNames: Readonly<Record<number, string>> = {
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

/**
 * Returns a suffix that distinguishes shared responses with the same status, such as `NotModified` and
 * `NotModifiedWithoutKey`.
 */
const nameSuffix = ({ hasCompanyRows, dropsTickers, needsKey }: EndpointFacts) => {
  if (hasCompanyRows) return "OfCompanies"
  if (dropsTickers) return "OfTickers"
  return needsKey ? "" : "WithoutKey"
}

/**
 * Assigns names to responses shared by several operations, so that the document describes each of them only once. If
 * different responses with the same status are shared, suffixes distinguish their names.
 */
const nameSharedResponses = (
  responses: ReadonlyArray<EndpointResponse>,
): ReadonlyMap<EndpointResponse, string> => {
  const groups = Object.values(
    Array.groupBy(responses, ({ response, status }) => `${status} ${JSON.stringify(response)}`),
  ).filter(([{ status }, ...others]) => status !== 200 && others.length > 0)
  // Responses with a cursor always have a suffix, so they do not force one on the others.
  const statuses = groups.filter(([{ facts }]) => !facts.hasCursor).map(([{ status }]) => status)
  const makeSuffix = ({ facts, status }: EndpointResponse) => {
    if (facts.hasCursor) return "OfChanges"
    const isUnique = statuses.indexOf(status) === statuses.lastIndexOf(status)
    return isUnique ? "" : nameSuffix(facts)
  }
  const named = groups.map((group) => {
    const [first] = group
    return { group, name: `${sharedResponseNames[first.status]}${makeSuffix(first)}` }
  })
  if (new Set(named.map(({ name }) => name)).size < named.length) {
    throw new Error("Two responses of the OpenAPI document have the same name")
  }
  return new Map(named.flatMap(({ group, name }) => group.map((response) => [response, name] as const)))
}

/**
 * Adds the responses that no endpoint declares, such as 405, and the headers of all responses to the document. Moves
 * responses shared by several operations to `components`, where each has a name, and refers to them by that name. Also
 * adds the schemas of the undeclared errors.
 */
const completeResponses = (spec: JsonObject, declarations: Declarations) => {
  const responses = Array.fromIterable(declarations).flatMap(([path, { facts }]) =>
    listResponses(path, facts, getIn(spec, "paths", path, "get", "responses"))
  )
  const names = nameSharedResponses(responses)
  const describe = (response: EndpointResponse) => {
    const name = names.get(response)
    return name === undefined ? response.response : { $ref: `#/components/responses/${name}` }
  }
  for (const [path, ofPath] of Object.entries(Array.groupBy(responses, ({ path }) => path))) {
    const byStatus = Object.fromEntries(ofPath.map((response) => [response.status, describe(response)]))
    Object.assign(Object(getIn(spec, "paths", path, "get")), { responses: byStatus })
  }
  const errors = [BadRequest, MethodNotAllowed].map((error) =>
    Schema.toJsonSchemaDocument(Schema.toCodecJson(error)).definitions
  )
  Object.assign(Object(spec["components"]), {
    schemas: Object.assign({}, getIn(spec, "components", "schemas"), ...errors),
    headers: openApiResponseHeaders,
    responses: Object.fromEntries(Array.fromIterable(names).map(([{ response }, name]) => [name, response])),
  })
}

// ---------------------------------------------------------------------------------------------------------------------
// Schemas
// ---------------------------------------------------------------------------------------------------------------------

/** Removes `additionalProperties: false`, because later releases may add fields (§9.3, compatible changes). */
const allowUnknownFields = (schema: unknown): void => {
  if (Array.isArray(schema)) return schema.forEach(allowUnknownFields)
  if (!Predicate.isObject(schema)) return
  if (getIn(schema, "additionalProperties") === false) Reflect.deleteProperty(schema, "additionalProperties")
  Object.values(schema).forEach(allowUnknownFields)
}

/** Applies `change` to every object in a nested value, starting with the innermost. */
const mapObjects = (value: unknown, change: (object: JsonObject) => JsonObject): unknown => {
  if (Array.isArray(value)) return value.map((inner) => mapObjects(inner, change))
  if (!Predicate.isObject(value)) return value
  return change(Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, mapObjects(inner, change)])))
}

/** Removes the suffix `Encoded`, which Effect appends to a class name for the class's JSON form. */
const publicName = (name: string) => name.replace(/Encoded$/, "")

/** Changes a reference to a schema to the schema's public name. */
const withPublicReference = (object: JsonObject): JsonObject => {
  const reference = object["$ref"]
  return typeof reference === "string" && reference.startsWith("#/components/schemas/")
    ? { ...object, $ref: publicName(reference) }
    : object
}

/** Describes an array of exactly one element with `items`, which code generators support better than `prefixItems`. */
const withItems = (object: JsonObject): JsonObject => {
  const { prefixItems, ...rest } = object
  return Array.isArray(prefixItems) && prefixItems.length === 1 && rest["maxItems"] === 1
    ? { ...rest, items: prefixItems[0] }
    : object
}

/**
 * Replaces an `allOf` that only adds a description to a reference. Some generators support `allOf` only for objects.
 */
const withAnnotatedReference = (object: JsonObject): JsonObject => {
  const { allOf, ...rest } = object
  const [reference, annotations, ...others] = Array.isArray(allOf) ? allOf : []
  const isAnnotated = getIn(reference, "$ref") !== undefined &&
    Object.keys(Object(annotations)).join() === "description"
  return isAnnotated && others.length === 0 ? { ...rest, ...Object(reference), ...Object(annotations) } : object
}

const isReference = (schema: unknown) => getIn(schema, "$ref") !== undefined

/**
 * Replaces `anyOf` with `oneOf`, which more generators support, if all alternatives are references. A value always
 * matches exactly one of them.
 */
const withOneOf = (object: JsonObject): JsonObject => {
  const { anyOf, ...rest } = object
  return Array.isArray(anyOf) && anyOf.every(isReference) ? { ...rest, oneOf: anyOf } : object
}

/** The names of the enumerations, by their comma-separated values. */
const enumerationNames = new Map(Object.entries(enumerations).map(([name, values]) => [values.join(), name]))

/** Replaces a named enumeration with a reference to its definition. */
const withNamedEnumeration = (object: JsonObject): JsonObject => {
  const { enum: values, type: _, ...rest } = object
  const name = Array.isArray(values) ? enumerationNames.get(values.join()) : undefined
  return name === undefined ? object : { ...rest, $ref: `#/components/schemas/${name}` }
}

/**
 * Adds a number format, because generators assume 32 bits by default. Removes bounds of ±(2^53 - 1), which only say
 * which integers JavaScript represents exactly, and nothing about the field.
 */
const withNumberFormat = (object: JsonObject): JsonObject => {
  const { maximum, minimum, ...rest } = object
  if (rest["type"] === "number") return { ...object, format: "double" }
  if (rest["type"] !== "integer") return object
  return {
    ...rest,
    format: "int64",
    ...(minimum === undefined || minimum === Number.MIN_SAFE_INTEGER ? {} : { minimum }),
    ...(maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? {} : { maximum }),
  }
}

/**
 * Returns the name of an enumeration value in generated code, such as `ChangeKindAdded` or
 * `ScreenerSortPriceDescending`.
 */
const nameEnumerationValue = (enumeration: string, value: string) =>
  enumeration +
  value.split(/[^A-Za-z0-9]+/).map((word) => word.slice(0, 1).toUpperCase() + word.slice(1)).join("") +
  (value.startsWith("-") ? "Descending" : "")

/**
 * Renames a schema in Go if a security scheme has the same name. The code generator ogen declares a type for both, and
 * the names would conflict.
 */
const withDistinctGoName = (securitySchemes: unknown, name: string): JsonObject =>
  Object.keys(Object(securitySchemes)).some((scheme) => scheme.toLowerCase() === name.toLowerCase())
    ? { "x-ogen-name": `${name}Row` }
    : {}

/**
 * Adds the named enumerations to the document. All values get unique names, because in Go, the values of all
 * enumerations share one scope.
 */
const addEnumerations = (spec: JsonObject) => {
  const components = Object(spec["components"])
  const named = Object.entries(enumerations).map(([name, values]) => [name, { type: "string", enum: values }] as const)
  const schemas = Object.entries({ ...components["schemas"], ...Object.fromEntries(named) }).map(([name, schema]) => {
    const values = getIn(schema, "enum")
    return [
      name,
      Array.isArray(values)
        ? { ...Object(schema), "x-enum-varnames": values.map((value) => nameEnumerationValue(name, String(value))) }
        : { ...Object(schema), ...withDistinctGoName(components["securitySchemes"], name) },
    ]
  })
  return { ...spec, components: { ...components, schemas: Object.fromEntries(schemas) } }
}

/** Gives all schemas their public names. Throws if two schemas would get the same name. */
const withPublicSchemaNames = (spec: JsonObject): JsonObject => {
  const components = Object(spec["components"])
  const schemas = Object.entries(Object(components["schemas"])).map(([name, schema]) =>
    [publicName(name), schema] as const
  )
  const names = schemas.map(([name]) => name)
  const duplicate = names.find((name, index) => names.indexOf(name) !== index)
  if (duplicate !== undefined) throw new Error(`Two schemas of the OpenAPI document have the name ${duplicate}`)
  return { ...spec, components: { ...components, schemas: Object.fromEntries(schemas) } }
}

/** Returns the name of the component that a reference refers to. */
const nameOfReference = (schema: unknown) => String(getIn(schema, "$ref")).replace("#/components/schemas/", "")

/** Returns the schema of an error body with its property `error` replaced. */
const withError = (body: unknown, error: JsonObject): JsonObject => ({
  ...Object(body),
  properties: { ...Object(getIn(body, "properties")), error },
})

/**
 * Returns the schema of an `error` property that is one of several errors, distinguished by `code`. `errors` contains
 * the name and the schema of each.
 */
const describeAlternatives = (errors: ReadonlyArray<readonly [name: string, schema: unknown]>): JsonObject => {
  const mapping = Object.fromEntries(
    errors.map(([name, schema]) => [
      String(getIn(schema, "properties", "code", "enum")),
      `#/components/schemas/${name}`,
    ]),
  )
  return {
    oneOf: Object.values(mapping).map(($ref) => ({ $ref })),
    discriminator: { propertyName: "code", mapping },
  }
}

/**
 * Moves the alternatives from an error body to its `error` property: `A | B` becomes `{ error: AError | BError }`. The
 * property `error.code` then distinguishes the alternatives, as required by the code generator ogen.
 */
const withDistinguishedErrors = (spec: JsonObject): JsonObject => {
  const components = Object(spec["components"])
  const schemas: JsonObject = { ...components["schemas"] }
  /** The schemas to add, by name: the `error` property of each alternative, and the bodies with alternatives. */
  const added = new Map<string, unknown>()
  /** Replaces the schema of an error body that is one of several by a reference to a new body (`added`). */
  const replaceAlternatives = (object: JsonObject): JsonObject => {
    const names = Array.isArray(object["oneOf"]) ? object["oneOf"].map(nameOfReference) : []
    const errors = names.map((name) => [`${name}Error`, getIn(schemas, name, "properties", "error")] as const)
    const areErrorBodies = errors.length > 0 && errors.every(([, error]) => error !== undefined)
    if (!areErrorBodies) return object
    for (const [name, error] of errors) added.set(name, error)
    const bodyName = names.join("Or")
    // The bodies differ only in their `error` property, which is replaced, so any of them can serve as the model.
    added.set(bodyName, withError(getIn(schemas, names[0] ?? ""), describeAlternatives(errors)))
    return { $ref: `#/components/schemas/${bodyName}` }
  }
  // The schemas are left out here and added below, so that `documentText` contains only the references from endpoints.
  const replaced = mapObjects({ ...spec, components: { ...components, schemas: {} } }, replaceAlternatives)
  const documentText = JSON.stringify(replaced)
  const remaining = Object.entries(schemas).flatMap(([name, schema]) => {
    if (!added.has(`${name}Error`)) return [[name, schema]]
    // A body that was replaced everywhere by a body with alternatives is no longer needed.
    const isUsed = documentText.includes(`"#/components/schemas/${name}"`)
    return isUsed ? [[name, withError(schema, { $ref: `#/components/schemas/${name}Error` })]] : []
  })
  Object.assign(Object(getIn(replaced, "components")), { schemas: Object.fromEntries([...remaining, ...added]) })
  return Object(replaced)
}

/** The changes that `simplifySchemas` makes to every object in the document, in this order. */
const simplifications = [
  withPublicReference,
  withItems,
  withNumberFormat,
  withNamedEnumeration,
  withAnnotatedReference,
  withOneOf,
]

/** Rewrites the document's schemas in forms that code generators support better. */
const simplifySchemas = (spec: JsonObject): JsonObject => {
  // A conversion to JSON and back removes properties that are undefined.
  const copy: unknown = JSON.parse(JSON.stringify(spec))
  const simplified = mapObjects(copy, (object) => simplifications.reduce((value, change) => change(value), object))
  return addEnumerations(withDistinguishedErrors(withPublicSchemaNames(Object(simplified))))
}

// ---------------------------------------------------------------------------------------------------------------------
// Document
// ---------------------------------------------------------------------------------------------------------------------

/** Adds everything to the document that Effect does not generate, and simplifies the result. */
const completeDocument = (spec: JsonObject) => {
  const declarations = readDeclarations()
  addFileFormats(spec, declarations)
  describeParameters(spec, declarations)
  describeEstimateParameters(spec)
  addResponseExamples(spec, examples)
  completeResponses(spec, declarations)
  allowUnknownFields(getIn(spec, "components"))
  allowUnknownFields(getIn(spec, "paths"))
  return simplifySchemas(spec)
}

const generateSpec = () => OpenApi.fromApi(Api.annotate(OpenApi.Transform, completeDocument))

let generatedSpec: ReturnType<typeof generateSpec> | undefined

/** Generates the document on first use, because generating it takes one fifth of a command's startup time. */
const getSpec = () => generatedSpec ??= generateSpec()

/** The URL of a service with default settings (D1, address). */
export const defaultServerUrl = "http://127.0.0.1:8080"

/**
 * Returns the document for a service at `baseUrl`. With `/`, clients send requests to the origin from which they
 * fetched the document.
 */
export const makeOpenApiDocument = (baseUrl: string) => {
  const spec = getSpec()
  const contact = { name: "Tickerline", ...(baseUrl === "/" ? {} : { url: baseUrl + documentationPath }) }
  const servers = [{ url: baseUrl, description: "The address at which clients reach the service." }]
  return { ...spec, info: { ...spec.info, contact }, servers }
}

/** Returns the document for a service at the default URL. */
export const getDefaultOpenApiDocument = () => makeOpenApiDocument(defaultServerUrl)
