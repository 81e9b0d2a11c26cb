/**
 * Writes `src/client/PromiseContract.ts` as declarations that name nothing of Effect. They are read from the contract's
 * schemas, so the published Promise client is typed without the package `effect`.
 */
import { Predicate, Schema, SchemaAST } from "effect"
import { HttpApi } from "effect/http-api"
import { Api } from "../src/Api.ts"
import { endpointNameOf } from "../src/client/Contract.ts"

/** A description on a line of its own, which cannot end the comment early. */
const comment = (text: unknown) => Predicate.isString(text) ? `/** ${text.replaceAll("*/", "* /")} */\n` : ""

/** The description may be that of the value as it is sent. */
const described = (ast: SchemaAST.AST) =>
  comment(
    ast.annotations?.["description"] ??
      SchemaAST.toEncoded(ast).annotations?.["description"],
  )

const property = (name: PropertyKey, ast: SchemaAST.AST, type: string) =>
  `${described(ast)}readonly ${String(name)}${SchemaAST.isOptional(ast) ? "?" : ""}: ${type}`

const block = (lines: ReadonlyArray<string>) =>
  lines.length === 0 ? "{}" : `{\n${lines.join("\n").replaceAll(/^/gm, "  ")}\n}`

/** A newer service may know words that this client does not (§9.3), so a listed word is never the only one possible. */
const alternatives = (types: ReadonlyArray<SchemaAST.AST>): string => {
  const isWord = (ast: SchemaAST.AST) => SchemaAST.isLiteral(ast) && Predicate.isString(ast.literal)
  const words = types.some(isWord) ? ["(string & {})"] : []
  return [...new Set([...types.map(typeOf), ...words])].join(" | ")
}

/** The type of a value in an answer. */
const typeOf = (ast: SchemaAST.AST): string => {
  if (ast === Schema.Json.ast) return "Json"
  // A datetime stays the text that was sent.
  if (ast.annotations?.["expected"] === "DateTime.Utc") return "string"
  if (SchemaAST.isString(ast)) return "string"
  if (SchemaAST.isNumber(ast)) return "number"
  if (SchemaAST.isBoolean(ast)) return "boolean"
  if (SchemaAST.isNull(ast)) return "null"
  if (SchemaAST.isUnknown(ast)) return "unknown"
  if (SchemaAST.isLiteral(ast)) return JSON.stringify(ast.literal)
  if (SchemaAST.isUnion(ast)) return alternatives(ast.types)
  if (SchemaAST.isArrays(ast)) return listOf(ast)
  if (SchemaAST.isObjects(ast)) return objectOf(ast)
  throw new Error(
    `The client has no type for ${ast._tag}; add it to client/EndpointTypes.ts.`,
  )
}

/** One word alone is a union of one. */
const opened = (ast: SchemaAST.AST) => alternatives([ast])

const listOf = ({ elements, rest }: SchemaAST.Arrays) => {
  const [tail] = rest
  const each = tail === undefined ? [] : [`ReadonlyArray<${opened(tail)}>`]
  if (elements.length === 0) return each[0] ?? "readonly []"
  return `readonly [${[...elements.map(opened), ...each.map((type) => `...${type}`)].join(", ")}]`
}

const objectOf = (
  { indexSignatures, propertySignatures }: SchemaAST.Objects,
): string => {
  const named = propertySignatures.map(({ name, type }) => property(name, type, opened(type)))
  const others = indexSignatures.map(({ type }) => `readonly [name: string]: ${opened(type)}`)
  return block([...named, ...others])
}

/** A list may be sent as one of its words, and a bound as a number. */
const parameterOf = (name: string, ast: SchemaAST.AST) => {
  if (SchemaAST.isArrays(ast)) {
    const [word = SchemaAST.string] = ast.rest
    return `${exactly(word)} | ReadonlyArray<${exactly(word)}>`
  }
  return /^(min|max)_/.test(name) ? `${exactly(ast)} | number` : exactly(ast)
}

/** As `typeOf`, for what is sent: only the words that this client knows. */
const exactly = (ast: SchemaAST.AST): string =>
  SchemaAST.isUnion(ast) ? ast.types.map(exactly).join(" | ") : typeOf(ast)

const queryOf = (ast: SchemaAST.AST | undefined) => {
  if (ast === undefined || !SchemaAST.isObjects(SchemaAST.toEncoded(ast))) {
    return "{}"
  }
  const [decoded, encoded] = [SchemaAST.toType(ast), SchemaAST.toEncoded(ast)]
  if (!SchemaAST.isObjects(decoded) || !SchemaAST.isObjects(encoded)) {
    return "{}"
  }
  const types = new Map(
    decoded.propertySignatures.map(({ name, type }) => [name, type]),
  )
  const parameters = encoded.propertySignatures.map(({ name, type }) => {
    const sent = parameterOf(String(name), types.get(name) ?? type)
    return property(
      name,
      type,
      SchemaAST.isOptional(type) ? `${sent} | undefined` : sent,
    )
  })
  return block(parameters)
}

const field = (ast: SchemaAST.AST, name: string) =>
  SchemaAST.isObjects(ast) ? ast.propertySignatures.find((signature) => signature.name === name)?.type : undefined

const isPaged = (ast: SchemaAST.AST) => field(ast, "has_more") !== undefined

/** The text of the declaration file. */
export const endpointTypes = (): string => {
  const endpoints: Array<string> = []
  const types: Array<string> = []
  const codes = new Set<string>()
  const details = new Map<string, Set<string>>()
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, errors, successes }) => {
      const [success] = successes.get(200) ?? []
      if (success === undefined || SchemaAST.isString(success.ast)) return
      const name = endpointNameOf(endpoint.path)
      const title = `${name.charAt(0).toUpperCase()}${name.slice(1)}`
      const answer = SchemaAST.toType(success.ast)
      types.push(`export type ${title}Query = ${queryOf(endpoint.query?.ast)}`)
      types.push(`export type ${title}Answer = ${opened(answer)}`)
      const kind = isPaged(answer) ? "List" : "Resource"
      endpoints.push(
        `/** \`GET ${endpoint.path}\` */\nreadonly ${name}: ${kind}<${title}Query, ${title}Answer>`,
      )
      for (const { ast } of Array.from(errors.values()).flat()) {
        const body = field(SchemaAST.toEncoded(ast), "error")
        const code = body === undefined ? undefined : field(body, "code")
        if (
          body === undefined || code === undefined || !SchemaAST.isLiteral(code)
        ) continue
        codes.add(String(code.literal))
        const held = field(body, "details")
        if (held === undefined) continue
        const known = details.get(String(code.literal)) ?? new Set()
        details.set(String(code.literal), known.add(opened(held)))
      }
    },
  })
  const words = [...codes, "no_answer", "unreadable_answer", "invalid_options"]
    .map((code) => JSON.stringify(code))
  return [
    "/** The contract of the API, as types. Generated from its schemas. */",
    `import type { List, Resource } from "./Resource.js"`,
    "type Json = null | string | number | boolean | ReadonlyArray<Json> | { readonly [name: string]: Json }",
    ...types,
    "/** Each endpoint of the API under the name of its path: `/v1/gap-stats-advanced` is `gapStatsAdvanced`. */",
    `export interface TickerlineClient ${block(endpoints)}`,
    `interface Details ${block(Array.from(details, ([code, held]) => `readonly ${code}: ${[...held].join(" | ")}`))}`,
    "/** The error codes of the API, and three for failures that are not an answer of the service. */",
    `export type Code = ${words.join(" | ")}`,
    "/** The type of `details` for an error code. */",
    "export type DetailsOf<Of> = Of extends keyof Details ? Details[Of] : never",
    "",
  ].join("\n")
}
