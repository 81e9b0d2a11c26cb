/** Reads JSON of unknown structure. The functions do not fail if the structure is not as expected. */
import { Predicate } from "effect"

export type JsonObject = { readonly [name: string]: unknown }

export const isJsonObject = (value: unknown): value is JsonObject => Predicate.isObject(value) && !Array.isArray(value)

/** Returns the value if it is an object, otherwise `{}`. */
export const toObject = (value: unknown): JsonObject => isJsonObject(value) ? value : {}

/** Returns the value if it is an array, otherwise `[]`. */
export const toArray = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : []

export const toStrings = (value: unknown) => toArray(value).map(String)

/** Encodes a value as JSON with sorted keys, so that equal values have equal encodings. */
export const canonicalJson = (value: unknown): string =>
  JSON.stringify(
    value,
    (_, inner: unknown) =>
      isJsonObject(inner)
        ? Object.fromEntries(Object.entries(inner).toSorted(([left], [right]) => left < right ? -1 : 1))
        : inner,
  ) ?? "undefined"

/** Returns a function that resolves `$ref`s within the document. At most 20 references in a chain are followed. */
export const makeReferenceResolver = (document: JsonObject) => {
  const resolve = (value: unknown, remaining = 20): JsonObject => {
    const { $ref, ...rest } = toObject(value)
    if (typeof $ref !== "string" || remaining === 0) return toObject(value)
    const target = $ref.replace(/^#\//, "").split("/").reduce<unknown>(
      (inner, key) => toObject(inner)[key.replaceAll("~1", "/").replaceAll("~0", "~")],
      document,
    )
    return { ...resolve(target, remaining - 1), ...rest }
  }
  return resolve
}

export type ReferenceResolver = ReturnType<typeof makeReferenceResolver>

/** Returns the removed keys, the added keys, and the keys that both objects have. */
export const compareKeys = (before: JsonObject, after: JsonObject) => ({
  removed: Object.keys(before).filter((name) => !(name in after)),
  added: Object.keys(after).filter((name) => !(name in before)),
  common: Object.keys(before).filter((name) => name in after),
})
