/** What a schema of JSON Schema 2020-12 allows, as a list of plain ones. */
import { canonicalJson, type JsonObject, toArray, toObject } from "./Json.ts"

/** Said of a value, and not of what it may be. */
const annotations = new Set([
  "$comment",
  "$id",
  "$schema",
  "contentEncoding",
  "deprecated",
  "description",
  "example",
  "examples",
  "title",
])

export type ReferenceResolver = (value: unknown) => JsonObject

/** A list of exactly one is the same by `prefixItems` and by `items`. */
const withItems = (schema: JsonObject): JsonObject => {
  const { prefixItems, ...rest } = schema
  const [only, ...others] = toArray(prefixItems)
  return only !== undefined && others.length === 0 && rest["maxItems"] === 1 ? { ...rest, items: only } : schema
}

/** One object of keywords: what `allOf` demands besides stands beside the rest. */
const flat = (schema: unknown, follow: ReferenceResolver): JsonObject => {
  const { allOf, ...rest } = withItems(follow(schema))
  const own: Record<string, unknown> = Object.fromEntries(
    Object.entries(rest).filter(([keyword]) => !annotations.has(keyword)),
  )
  const also: Array<unknown> = []
  for (const part of toArray(allOf)) {
    for (const [keyword, value] of Object.entries(flat(part, follow))) {
      if (keyword in own && canonicalJson(own[keyword]) !== canonicalJson(value)) also.push({ [keyword]: value })
      else own[keyword] = value
    }
  }
  return also.length === 0 ? own : { ...own, also }
}

/** The alternatives of a schema; most have one. */
export const listAlternatives = (schema: unknown, follow: ReferenceResolver): ReadonlyArray<JsonObject> => {
  const { anyOf, oneOf, ...rest } = flat(schema, follow)
  const inner = [...toArray(anyOf), ...toArray(oneOf)]
  if (inner.length > 0) return inner.flatMap((one) => listAlternatives(one, follow)).map((one) => ({ ...one, ...rest }))
  const { type } = rest
  return Array.isArray(type) ? type.map((each) => ({ ...rest, type: each })) : [rest]
}

/** Errors are told apart by their code. */
export const readErrorCode = (schema: JsonObject, follow: ReferenceResolver): string | undefined => {
  const error = follow(toObject(schema["properties"])["error"])
  const code = flat(toObject(error["properties"])["code"], follow)
  const only = code["const"] ?? (toArray(code["enum"]).length === 1 ? toArray(code["enum"])[0] : undefined)
  return typeof only === "string" ? only : undefined
}

/** Alternatives of one identity are compared with each other. */
export const alternativeKey = (schema: JsonObject, follow: ReferenceResolver) =>
  readErrorCode(schema, follow) ?? String(schema["type"] ?? "any")
