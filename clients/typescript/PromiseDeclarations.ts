/**
 * Generates the type declarations of `src/client/PromiseContract.ts` from the contract's schemas. Compiler-generated
 * declarations would refer to Effect's types. With these declarations, the Promise client works without the package
 * `effect`.
 */
import { Predicate, Schema, SchemaAST } from "effect"
import { HttpApi } from "effect/http-api"
import { Api } from "../../src/contract/Api.ts"
import { toEndpointName } from "../../src/client/EndpointTypes.ts"

/**
 * Returns the description of a schema, of its encoded form, or of one of its alternatives. The last case covers
 * nullable schemas, because the schema for null has no description.
 */
const findDescription = (ast: SchemaAST.AST): string | undefined => {
  const encoded = SchemaAST.toEncoded(ast)
  const inner = [...(encoded === ast ? [] : [encoded]), ...(SchemaAST.isUnion(ast) ? ast.types : [])]
  // If a schema has checks, the description is on its last check or on the schema itself.
  const own = SchemaAST.resolveDescription(ast) ?? ast.annotations?.["description"]
  return Predicate.isString(own) ? own : inner.map(findDescription).find((text) => text !== undefined)
}

/** Renders a property. The first description found in the schemas becomes its comment. */
const renderProperty = (
  name: PropertyKey,
  type: string,
  schemas: readonly [SchemaAST.AST, ...Array<SchemaAST.AST>],
) => {
  const description = schemas.map(findDescription).find((text) => text !== undefined)
  const comment = description === undefined ? "" : `/** ${description.replaceAll("*/", "* /")} */\n`
  return `${comment}readonly ${String(name)}${SchemaAST.isOptional(schemas[0]) ? "?" : ""}: ${type}`
}

const renderObject = (properties: ReadonlyArray<string>) =>
  properties.length === 0 ? "{}" : `{\n${properties.join("\n").replaceAll(/^/gm, "  ")}\n}`

/**
 * Renders a response type. Enums also accept any other string, because a newer version of the service may add values
 * (§9.3).
 */
const responseType = (...types: ReadonlyArray<SchemaAST.AST>): string => {
  const hasWord = types.some((ast) => SchemaAST.isLiteral(ast) && Predicate.isString(ast.literal))
  return [...new Set([...types.map(typeOf), ...(hasWord ? ["(string & {})"] : [])])].join(" | ")
}

const typeOf = (declared: SchemaAST.AST): string => {
  const ast = declared.encoding === undefined ? declared : SchemaAST.toType(declared)
  if (ast === Schema.Json.ast) return "Json"
  // The Promise client returns timestamps as the strings it received.
  if (ast.annotations?.["expected"] === "DateTime.Utc") return "string"
  if (SchemaAST.isString(ast)) return "string"
  if (SchemaAST.isNumber(ast)) return "number"
  if (SchemaAST.isBoolean(ast)) return "boolean"
  if (SchemaAST.isNull(ast)) return "null"
  if (SchemaAST.isUnknown(ast)) return "unknown"
  if (SchemaAST.isLiteral(ast)) return JSON.stringify(ast.literal)
  if (SchemaAST.isUnion(ast)) return responseType(...ast.types)
  if (SchemaAST.isArrays(ast)) return arrayType(ast)
  if (SchemaAST.isObjects(ast)) return objectType(ast)
  throw new Error(`The client has no type for ${ast._tag}. Add it to clients/typescript/PromiseDeclarations.ts.`)
}

const arrayType = ({ elements, rest: [rest] }: SchemaAST.Arrays) => {
  const restType = rest === undefined ? [] : [`ReadonlyArray<${responseType(rest)}>`]
  if (elements.length === 0) return restType[0] ?? "readonly []"
  return `readonly [${
    [...elements.map((element) => responseType(element)), ...restType.map((type) => `...${type}`)].join(", ")
  }]`
}

const objectType = ({ indexSignatures, propertySignatures }: SchemaAST.Objects): string =>
  renderObject([
    ...propertySignatures.map(({ name, type }) => renderProperty(name, responseType(type), [type])),
    ...indexSignatures.map(({ type }) => `readonly [name: string]: ${responseType(type)}`),
  ])

/** Renders a request type. Enums accept only the values listed in the contract. */
const requestType = (ast: SchemaAST.AST): string =>
  SchemaAST.isUnion(ast) ? ast.types.map(requestType).join(" | ") : typeOf(ast)

/**
 * Renders a parameter type. List parameters also accept a single item, and limits (`min_…`, `max_…`) also accept a
 * number.
 */
const parameterType = (name: string, ast: SchemaAST.AST) => {
  if (SchemaAST.isArrays(ast)) {
    const [item = SchemaAST.string] = ast.rest
    return `${requestType(item)} | ReadonlyArray<${requestType(item)}>`
  }
  return /^(min|max)_/.test(name) ? `${requestType(ast)} | number` : requestType(ast)
}

const queryType = (ast: SchemaAST.AST | undefined) => {
  if (ast === undefined) return "{}"
  const [decoded, encoded] = [SchemaAST.toType(ast), SchemaAST.toEncoded(ast)]
  if (!SchemaAST.isObjects(decoded) || !SchemaAST.isObjects(encoded)) return "{}"
  const decodedTypes = new Map(decoded.propertySignatures.map(({ name, type }) => [name, type]))
  const parameters = encoded.propertySignatures.map(({ name, type }) => {
    const decodedType = decodedTypes.get(name) ?? type
    const parameter = parameterType(String(name), decodedType)
    return renderProperty(name, SchemaAST.isOptional(type) ? `${parameter} | undefined` : parameter, [
      type,
      decodedType,
    ])
  })
  // `/estimate` accepts the parameters of any endpoint.
  const others = encoded.indexSignatures.map(({ type }) =>
    `readonly [name: string]: ${parameterType("", type)} | undefined`
  )
  return renderObject([...parameters, ...others])
}

const fieldOf = (ast: SchemaAST.AST | undefined, name: string) =>
  ast !== undefined && SchemaAST.isObjects(ast)
    ? ast.propertySignatures.find((signature) => signature.name === name)?.type
    : undefined

/** Renders the complete declaration file. */
export const renderPromiseContract = (): string => {
  const endpoints: Array<string> = []
  const types: Array<string> = []
  const codes = new Set<string>()
  const details = new Map<string, Set<string>>()
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, errors, successes }) => {
      for (const { ast } of Array.from(errors.values()).flat()) {
        const error = fieldOf(SchemaAST.toEncoded(ast), "error")
        const code = fieldOf(error, "code")
        if (code === undefined || !SchemaAST.isLiteral(code)) continue
        codes.add(String(code.literal))
        const detailsSchema = fieldOf(error, "details")
        if (detailsSchema === undefined) continue
        const variants = details.get(String(code.literal)) ?? new Set()
        details.set(String(code.literal), variants.add(responseType(detailsSchema)))
      }
      const [success] = successes.get(200) ?? []
      // An event stream has error responses, but the client has no method for it.
      if (success === undefined || SchemaAST.isString(success.ast)) return
      const name = toEndpointName(endpoint.path)
      const typePrefix = `${name.charAt(0).toUpperCase()}${name.slice(1)}`
      const body = success.ast
      types.push(`export type ${typePrefix}Query = ${queryType(endpoint.query?.ast)}`)
      types.push(`export type ${typePrefix}Body = ${responseType(body)}`)
      const resource = fieldOf(body, "page") !== undefined
        ? "List"
        : fieldOf(body, "cursor") !== undefined
        ? "ChangeFeed"
        : "Resource"
      endpoints.push(
        `/** \`GET ${endpoint.path}\` */\nreadonly ${name}: ${resource}<${typePrefix}Query, ${typePrefix}Body>`,
      )
    },
  })
  const allCodes = [...codes, "no_answer", "unreadable_answer", "invalid_options"].map((code) => JSON.stringify(code))
  const detailsByCode = Array.from(details, ([code, variants]) => `readonly ${code}: ${[...variants].join(" | ")}`)
  return [
    "/** The contract of the API as types, generated from its schemas. */",
    `import type { ChangeFeed, List, Resource } from "./PromiseResource.js"`,
    "type Json = null | string | number | boolean | ReadonlyArray<Json> | { readonly [name: string]: Json }",
    ...types,
    "/** Every endpoint, named after its path: `/v1/gap-stats-advanced` is `gapStatsAdvanced`. */",
    `export interface TickerlineClient ${renderObject(endpoints)}`,
    '/** The row of an endpoint: `Row<"news">` is the type of an element of `results` of `/v1/news`. */',
    `export type Row<Name extends keyof TickerlineClient> = Awaited<ReturnType<TickerlineClient[Name]["get"]>> extends`,
    "  { readonly results: ReadonlyArray<infer Element> } ? Element : never",
    `interface Details ${renderObject(detailsByCode)}`,
    "/** The error codes of the API, and three codes for errors that the client itself detects. */",
    `export type ErrorCode = ${allCodes.join(" | ")}`,
    "/** The type of `details` for an error code. */",
    "export type DetailsOf<Code> = Code extends keyof Details ? Details[Code] : never",
    "",
  ].join("\n")
}
