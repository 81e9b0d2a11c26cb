/** What is read of an OpenAPI document, without believing that it is one. */
import { Predicate } from "effect"

export type Json = { readonly [name: string]: unknown }

export const isJson = (value: unknown): value is Json => Predicate.isObject(value) && !Array.isArray(value)

export const json = (value: unknown): Json => isJson(value) ? value : {}

export const list = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : []

export const words = (value: unknown) => list(value).map(String)

/** The same text for the same value, whatever the order of its keys. */
export const canonical = (value: unknown): string =>
  JSON.stringify(
    value,
    (_, inner: unknown) =>
      isJson(inner)
        ? Object.fromEntries(Object.entries(inner).toSorted(([left], [right]) => left < right ? -1 : 1))
        : inner,
  ) ?? "undefined"

/** `#/components/…` followed, as often as it takes. */
export const resolver = (document: Json) => {
  const follow = (value: unknown, left = 20): Json => {
    const { $ref, ...rest } = json(value)
    if (typeof $ref !== "string" || left === 0) return json(value)
    const found = $ref.replace(/^#\//, "").split("/").reduce<unknown>(
      (inner, key) => json(inner)[key.replaceAll("~1", "/").replaceAll("~0", "~")],
      document,
    )
    return { ...follow(found, left - 1), ...rest }
  }
  return follow
}

/** What of each name is gone, new, or in both. */
export const compared = (before: Json, after: Json) => ({
  gone: Object.keys(before).filter((name) => !(name in after)),
  added: Object.keys(after).filter((name) => !(name in before)),
  both: Object.keys(before).filter((name) => name in after),
})
