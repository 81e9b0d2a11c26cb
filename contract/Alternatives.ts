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

/** One object of keywords: what `allOf` demands besides stands beside the rest. */
const flat = (schema: unknown, follow: Follow): Json => {
  const { allOf, ...rest } = follow(schema)
  const own = Object.fromEntries(Object.entries(rest).filter(([keyword]) => !annotations.has(keyword)))
  return list(allOf).reduce<Json>((all, part) => {
    const more = flat(part, follow)
    const { kept, twice } = Object.entries(more).reduce<{ kept: Record<string, unknown>; twice: Array<unknown> }>(
      ({ kept, twice }, [keyword, value]) =>
        keyword in all && canonical(all[keyword]) !== canonical(value)
          ? { kept, twice: [...twice, { [keyword]: value }] }
          : { kept: { ...kept, [keyword]: value }, twice },
      { kept: {}, twice: [] },
    )
    return { ...all, ...kept, ...(twice.length === 0 ? {} : { also: [...list(all["also"]), ...twice] }) }
  }, own)
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
