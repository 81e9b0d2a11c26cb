/** What is read of an OpenAPI document, without believing that it is one. */
import { Predicate } from "effect"

export type JsonObject = { readonly [name: string]: unknown }

export const isJsonObject = (value: unknown): value is JsonObject => Predicate.isObject(value) && !Array.isArray(value)

export const toObject = (value: unknown): JsonObject => isJsonObject(value) ? value : {}

export const toArray = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : []

export const toStrings = (value: unknown) => toArray(value).map(String)

/** The same text for the same value, whatever the order of its keys. */
export const canonicalJson = (value: unknown): string =>
  JSON.stringify(
    value,
    (_, inner: unknown) =>
      isJsonObject(inner)
        ? Object.fromEntries(Object.entries(inner).toSorted(([left], [right]) => left < right ? -1 : 1))
        : inner,
  ) ?? "undefined"

/** `#/components/…` followed, as often as it takes. */
export const makeReferenceResolver = (document: JsonObject) => {
  const follow = (value: unknown, left = 20): JsonObject => {
    const { $ref, ...rest } = toObject(value)
    if (typeof $ref !== "string" || left === 0) return toObject(value)
    const found = $ref.replace(/^#\//, "").split("/").reduce<unknown>(
      (inner, key) => toObject(inner)[key.replaceAll("~1", "/").replaceAll("~0", "~")],
      document,
    )
    return { ...follow(found, left - 1), ...rest }
  }
  return follow
}

/** What of each name is gone, new, or in both. */
export const compareKeys = (before: JsonObject, after: JsonObject) => ({
  gone: Object.keys(before).filter((name) => !(name in after)),
  added: Object.keys(after).filter((name) => !(name in before)),
  both: Object.keys(before).filter((name) => name in after),
})
