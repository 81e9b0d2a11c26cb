/** What a schema of JSON Schema 2020-12 allows, as a list of plain ones. */
import { canonical, type Json, json, list } from "./Json.ts"

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

export type Follow = (value: unknown) => Json

/** A list of exactly one is the same by `prefixItems` and by `items`. */
const withItems = (schema: Json): Json => {
  const { prefixItems, ...rest } = schema
  const [only, ...others] = list(prefixItems)
  return only !== undefined && others.length === 0 && rest["maxItems"] === 1 ? { ...rest, items: only } : schema
}

/** One object of keywords: what `allOf` demands besides stands beside the rest. */
const flat = (schema: unknown, follow: Follow): Json => {
  const { allOf, ...rest } = withItems(follow(schema))
  const own: Record<string, unknown> = Object.fromEntries(
    Object.entries(rest).filter(([keyword]) => !annotations.has(keyword)),
  )
  const also: Array<unknown> = []
  for (const part of list(allOf)) {
    for (const [keyword, value] of Object.entries(flat(part, follow))) {
      if (keyword in own && canonical(own[keyword]) !== canonical(value)) also.push({ [keyword]: value })
      else own[keyword] = value
    }
  }
  return also.length === 0 ? own : { ...own, also }
}

/** The alternatives of a schema; most have one. */
export const alternatives = (schema: unknown, follow: Follow): ReadonlyArray<Json> => {
  const { anyOf, oneOf, ...rest } = flat(schema, follow)
  const inner = [...list(anyOf), ...list(oneOf)]
  if (inner.length > 0) return inner.flatMap((one) => alternatives(one, follow)).map((one) => ({ ...one, ...rest }))
  const { type } = rest
  return Array.isArray(type) ? type.map((each) => ({ ...rest, type: each })) : [rest]
}

/** Errors are told apart by their code. */
export const codeOf = (schema: Json, follow: Follow): string | undefined => {
  const error = follow(json(schema["properties"])["error"])
  const code = flat(json(error["properties"])["code"], follow)
  const only = code["const"] ?? (list(code["enum"]).length === 1 ? list(code["enum"])[0] : undefined)
  return typeof only === "string" ? only : undefined
}

/** Alternatives of one identity are compared with each other. */
export const identity = (schema: Json, follow: Follow) => codeOf(schema, follow) ?? String(schema["type"] ?? "any")
