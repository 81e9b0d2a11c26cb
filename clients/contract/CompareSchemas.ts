/**
 * Compares two JSON Schemas (2020-12) for a part of a request or a response: §9.2 (breaking changes), §9.3 (compatible
 * changes).
 */
import { type ContractDifference, type ContractLocation, makeContractDifference } from "./Difference.ts"
import {
  canonicalJson,
  compareKeys,
  isJsonObject,
  type JsonObject,
  type ReferenceResolver,
  toArray,
  toObject,
  toStrings,
} from "./Json.ts"

type Differences = ReadonlyArray<ContractDifference>

// ---------------------------------------------------------------------------------------------------------------------
// Alternatives: a schema as a list of schemas without anyOf, oneOf and allOf
// ---------------------------------------------------------------------------------------------------------------------

/** Keywords that the comparison ignores because they do not restrict values. */
const annotations = new Set([
  "$comment",
  "$id",
  "$schema",
  "contentEncoding",
  "deprecated",
  "description",
  "discriminator",
  "example",
  "examples",
  "title",
  "x-enum-varnames",
  "x-ogen-name",
])

/**
 * The range of integers that JSON numbers represent exactly. Adding these bounds to a document or removing them makes
 * no difference.
 */
const exactIntegerBounds: JsonObject = { minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }

/**
 * Merges the schemas in `allOf` into a single schema. If two schemas have different values for the same keyword, the
 * later values are collected in `also`.
 */
const mergeAllOf = (schema: unknown, resolve: ReferenceResolver): JsonObject => {
  const { allOf, ...rest } = resolve(schema)
  const merged: Record<string, unknown> = Object.fromEntries(
    Object.entries(rest).filter(([keyword, value]) =>
      !annotations.has(keyword) && value !== exactIntegerBounds[keyword]
    ),
  )
  const conflicts: Array<unknown> = []
  for (const part of toArray(allOf)) {
    for (const [keyword, value] of Object.entries(mergeAllOf(part, resolve))) {
      if (keyword in merged && canonicalJson(merged[keyword]) !== canonicalJson(value)) {
        conflicts.push({ [keyword]: value })
      } else merged[keyword] = value
    }
  }
  return conflicts.length === 0 ? merged : { ...merged, also: conflicts }
}

/** Removes a default value of a different type, because the default belongs to another alternative. */
const withoutForeignDefault = ({ default: initial, ...schema }: JsonObject): JsonObject =>
  initial === undefined || (typeof initial === "number") !== (schema["type"] === "integer")
    ? schema
    : { ...schema, default: initial }

/** Splits the schema of an error body into alternatives, one for each alternative of its property `error`. */
const listErrorAlternatives = ({ properties, ...rest }: JsonObject, resolve: ReferenceResolver) =>
  toArray(resolve(toObject(properties)["error"])["oneOf"]).map((error) => ({
    ...rest,
    properties: { ...toObject(properties), error },
  }))

const listAlternatives = (schema: unknown, resolve: ReferenceResolver): ReadonlyArray<JsonObject> => {
  const { anyOf, oneOf, ...rest } = mergeAllOf(schema, resolve)
  const inner = [...toArray(anyOf), ...toArray(oneOf), ...listErrorAlternatives(rest, resolve)]
  if (inner.length > 0) {
    return inner.flatMap((one) => listAlternatives(one, resolve)).map((one) =>
      withoutForeignDefault({ ...rest, ...one })
    )
  }
  const { type } = rest
  return Array.isArray(type) ? type.map((each) => ({ ...rest, type: each })) : [rest]
}

/** Returns the `error.code` in the schema of an error. Returns undefined for any other schema. */
const readErrorCode = (schema: JsonObject, resolve: ReferenceResolver): string | undefined => {
  const error = resolve(toObject(schema["properties"])["error"])
  const code = mergeAllOf(toObject(error["properties"])["code"], resolve)
  const values = toArray(code["enum"])
  const only = code["const"] ?? (values.length === 1 ? values[0] : undefined)
  return typeof only === "string" ? only : undefined
}

/** Returns the key by which alternatives in two schemas are matched: the code for an error, otherwise the type. */
const alternativeKey = (schema: JsonObject, resolve: ReferenceResolver) =>
  readErrorCode(schema, resolve) ?? String(schema["type"] ?? "any")

// ---------------------------------------------------------------------------------------------------------------------
// Comparison
// ---------------------------------------------------------------------------------------------------------------------

const allowedValues = (schema: JsonObject) =>
  "const" in schema ? [canonicalJson(schema["const"])] : toArray(schema["enum"]).map(canonicalJson)
const hasFixedValues = (schema: JsonObject) => "const" in schema || "enum" in schema

const compareEnums = (location: ContractLocation, before: JsonObject, after: JsonObject): Differences => {
  const { isRequest } = location
  const [old, now] = [allowedValues(before), allowedValues(after)]
  if (!hasFixedValues(before) && !hasFixedValues(after)) return []
  if (!hasFixedValues(after)) {
    return [makeContractDifference(location, {
      kind: "changed",
      breaking: !isRequest,
      description: "any value is allowed, no longer only fixed values",
    })]
  }
  if (!hasFixedValues(before)) {
    return [makeContractDifference(location, {
      kind: "changed",
      breaking: isRequest,
      description: `only these values are allowed: ${now.join(", ")}`,
    })]
  }
  return [
    ...old.filter((value) => !now.includes(value)).map((value) =>
      makeContractDifference(location, {
        kind: "removed",
        breaking: isRequest,
        description: `${value} is no longer allowed`,
      })
    ),
    ...now.filter((value) => !old.includes(value)).map((value) =>
      makeContractDifference(location, {
        kind: "added",
        breaking: false,
        description: `${value} is allowed`,
        addedValue: value.replaceAll(`"`, ""),
      })
    ),
  ]
}

/**
 * Keywords that set limits. The value is 1 if a higher limit is stricter, as for `minimum`, and -1 if a lower limit is
 * stricter, as for `maximum`.
 */
const strictness: Readonly<Record<string, 1 | -1>> = {
  minimum: 1,
  exclusiveMinimum: 1,
  minLength: 1,
  minItems: 1,
  minProperties: 1,
  maximum: -1,
  exclusiveMaximum: -1,
  maxLength: -1,
  maxItems: -1,
  maxProperties: -1,
}

const compareKeyword = (location: ContractLocation, name: string, before: unknown, after: unknown): Differences => {
  if (canonicalJson(before) === canonicalJson(after)) return []
  // These formats fit all numbers that JSON represents exactly, so adding one changes nothing.
  if (name === "format" && before === undefined && (after === "int64" || after === "double")) return []
  const sign = strictness[name]
  const description = `${name} was ${canonicalJson(before)} and is ${canonicalJson(after)}`
  if (sign !== undefined) {
    const unlimited = sign * -Infinity
    const [old, now] = [before ?? unlimited, after ?? unlimited].map(Number)
    const isStricter = sign * ((now ?? 0) - (old ?? 0)) > 0
    return [
      makeContractDifference(location, { kind: "changed", breaking: isStricter && location.isRequest, description }),
    ]
  }
  // Removing a restriction on a request does not break clients.
  const isRemoved = after === undefined
  return [
    makeContractDifference(location, {
      kind: "changed",
      breaking: name === "default" || !(location.isRequest && isRemoved),
      description,
    }),
  ]
}

const structuralKeywords = new Set(["const", "enum", "items", "prefixItems", "properties", "required", "type"])

interface Context {
  readonly before: ReferenceResolver
  readonly after: ReferenceResolver
  /** Pairs of `$ref`s that are currently being compared. They are skipped, because schemas can be recursive. */
  readonly visited: ReadonlySet<string>
}

const compareProperties = (
  location: ContractLocation,
  before: JsonObject,
  after: JsonObject,
  context: Context,
): Differences => {
  const [old, now] = [toObject(before["properties"]), toObject(after["properties"])]
  const [required, requiredNow] = [toStrings(before["required"]), toStrings(after["required"])]
  const { added, common, removed } = compareKeys(old, now)
  const inner = (name: string): ContractLocation => ({ ...location, name, label: `${location.label}.${name}` })
  return [
    ...removed.map((name) =>
      makeContractDifference(inner(name), { kind: "removed", breaking: true, description: "the field is removed" })
    ),
    ...added.map((name) => {
      const breaking = location.isRequest && requiredNow.includes(name)
      const description = breaking ? "a new required field" : "a new field"
      return makeContractDifference(inner(name), { kind: "added", breaking, description })
    }),
    ...common.flatMap((name) => {
      const [wasRequired, isRequired] = [required.includes(name), requiredNow.includes(name)]
      const description = isRequired ? "is now always present" : "is now optional"
      return [
        ...(wasRequired === isRequired ? [] : [
          makeContractDifference(inner(name), {
            kind: "changed",
            breaking: isRequired === location.isRequest,
            description,
          }),
        ]),
        ...compareSchemas(inner(name), old[name], now[name], context),
      ]
    }),
  ]
}

/** Compares two schemas that have no alternatives. */
const compareAlternative = (
  location: ContractLocation,
  before: JsonObject,
  after: JsonObject,
  context: Context,
): Differences => {
  const { added, common, removed } = compareKeys(before, after)
  const items: ContractLocation = { ...location, label: `${location.label}[]` }
  const [first, firstNow] = [toArray(before["prefixItems"]), toArray(after["prefixItems"])]
  return [
    ...compareEnums(location, before, after),
    ...[...removed, ...added, ...common].filter((name) => !structuralKeywords.has(name)).flatMap((name) =>
      isJsonObject(before[name]) && isJsonObject(after[name])
        ? compareSchemas(location, before[name], after[name], context)
        : compareKeyword(location, name, before[name], after[name])
    ),
    ...compareProperties(location, before, after, context),
    ...("items" in before || "items" in after ? compareSchemas(items, before["items"], after["items"], context) : []),
    ...Array.from({ length: Math.max(first.length, firstNow.length) }).flatMap((_, index) =>
      compareSchemas(items, first[index], firstNow[index], context)
    ),
  ]
}

/**
 * Creates the difference for an added or removed alternative. Adding an alternative to a response or removing one from
 * a request breaks clients, unless the alternative is an error code.
 */
const describeAlternative = (
  location: ContractLocation,
  kind: "added" | "removed",
  name: string,
  code: string | undefined,
) => {
  const target = code === undefined ? location : { ...location, name: code }
  const breaking = code === undefined && (kind === "added") !== location.isRequest
  const description = `${name} is ${kind === "added" ? "allowed" : "no longer allowed"}`
  return makeContractDifference(target, { kind, breaking, description })
}

export const compareSchemas = (
  location: ContractLocation,
  before: unknown,
  after: unknown,
  context: Context,
): Differences => {
  const [reference, referenceNow] = [toObject(before)["$ref"], toObject(after)["$ref"]]
  const pair = `${String(reference)} ${String(referenceNow)}`
  const isReference = reference !== undefined || referenceNow !== undefined
  if (isReference && context.visited.has(pair)) return []
  const inside = isReference ? { ...context, visited: new Set([...context.visited, pair]) } : context
  const old = Object.groupBy(listAlternatives(before, context.before), (one) => alternativeKey(one, context.before))
  const now = Object.groupBy(listAlternatives(after, context.after), (one) => alternativeKey(one, context.after))
  const isSingle = Object.keys(old).length === 1 && Object.keys(now).length === 1
  const [type] = Object.keys(old)
  const [typeNow] = Object.keys(now)
  if (isSingle && type !== typeNow) {
    const isWider = location.isRequest && type === "integer" && typeNow === "number"
    return [
      makeContractDifference(location, {
        kind: "changed",
        breaking: !isWider,
        description: `was ${type} and is ${typeNow}`,
      }),
    ]
  }
  const codeOf = (one: JsonObject | undefined, resolve: ReferenceResolver) =>
    one === undefined ? undefined : readErrorCode(one, resolve)
  const { added, common, removed } = compareKeys(old, now)
  return [
    ...removed.map((name) => describeAlternative(location, "removed", name, codeOf(old[name]?.[0], context.before))),
    ...added.map((name) => describeAlternative(location, "added", name, codeOf(now[name]?.[0], context.after))),
    ...common.flatMap((name) => {
      const [left, right] = [old[name] ?? [], now[name] ?? []]
      const [one, other] = [left[0], right[0]]
      return left.length === 1 && right.length === 1 && one !== undefined && other !== undefined
        ? compareAlternative(location, one, other, inside)
        : compareUnordered(location, left, right, inside)
    }),
  ]
}

/**
 * Pairs each alternative in `left` with the first unpaired alternative in `right` that differs only in compatible ways.
 */
const pairCompatible = (
  left: ReadonlyArray<JsonObject>,
  right: ReadonlyArray<JsonObject>,
  compare: (one: JsonObject, other: JsonObject) => Differences,
) => {
  const unpaired = new Set(right)
  const differences: Array<ContractDifference> = []
  const removed = left.filter((one) => {
    const other = Array.from(unpaired).find((candidate) => compare(one, candidate).every(({ breaking }) => !breaking))
    if (other === undefined) return true
    unpaired.delete(other)
    differences.push(...compare(one, other))
    return false
  })
  return { removed, added: Array.from(unpaired), differences }
}

/**
 * Compares alternatives that have the same key. Pairs equal alternatives first, and then compatible ones. If only one
 * alternative is left on each side, compares these two.
 */
const compareUnordered = (
  location: ContractLocation,
  left: ReadonlyArray<JsonObject>,
  right: ReadonlyArray<JsonObject>,
  context: Context,
) => {
  const compare = (one: JsonObject, other: JsonObject) => compareAlternative(location, one, other, context)
  const { added, differences, removed } = pairCompatible(
    left.filter((one) => right.every((other) => compare(one, other).length > 0)),
    right.filter((other) => left.every((one) => compare(one, other).length > 0)),
    compare,
  )
  const [one, other] = [removed[0], added[0]]
  if (removed.length === 1 && added.length === 1 && one !== undefined && other !== undefined) {
    return [...differences, ...compare(one, other)]
  }
  return [
    ...differences,
    ...removed.map((one) => describeAlternative(location, "removed", canonicalJson(one), undefined)),
    ...added.map((other) => describeAlternative(location, "added", canonicalJson(other), undefined)),
  ]
}
