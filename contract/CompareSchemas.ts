/** How two schemas of JSON Schema 2020-12 differ, for who sends such values or is answered with them. */
import { alternativeKey, listAlternatives, readErrorCode, type ReferenceResolver } from "./Alternatives.ts"
import { type ContractDifference, type ContractLocation, makeDifference } from "./Difference.ts"
import { canonicalJson, compareKeys, isJsonObject, type JsonObject, toArray, toObject, toStrings } from "./Json.ts"

const allowed = (schema: JsonObject) =>
  "const" in schema ? [canonicalJson(schema["const"])] : toArray(schema["enum"]).map(canonicalJson)
const isListed = (schema: JsonObject) => "const" in schema || "enum" in schema

const listed = (place: ContractLocation, before: JsonObject, after: JsonObject): ReadonlyArray<ContractDifference> => {
  const [old, now] = [allowed(before), allowed(after)]
  if (!isListed(before) && !isListed(after)) return []
  if (!isListed(after)) {
    return [
      makeDifference(place, {
        kind: "changed",
        breaking: !place.isRequest,
        description: "any value is possible, not only listed ones",
      }),
    ]
  }
  if (!isListed(before)) {
    return [
      makeDifference(place, {
        kind: "changed",
        breaking: place.isRequest,
        description: `only these are possible: ${now.join(", ")}`,
      }),
    ]
  }
  return [
    ...old.filter((word) => !now.includes(word)).map((word) =>
      makeDifference(place, {
        kind: "removed",
        breaking: place.isRequest,
        description: `${word} is no longer possible`,
      })
    ),
    ...now.filter((word) => !old.includes(word)).map((word) =>
      makeDifference(place, {
        kind: "added",
        breaking: false,
        description: `${word} is possible`,
        word: word.replaceAll(`"`, ""),
      })
    ),
  ]
}

/** Bounds of what may be; the sign says which way is narrower. */
const bounds: Readonly<Record<string, 1 | -1>> = {
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

const keyword = (
  place: ContractLocation,
  name: string,
  before: unknown,
  after: unknown,
): ReadonlyArray<ContractDifference> => {
  if (canonicalJson(before) === canonicalJson(after)) return []
  const sign = bounds[name]
  const says = `${name} was ${canonicalJson(before)} and is ${canonicalJson(after)}`
  if (sign !== undefined) {
    const looser = sign * -Infinity
    const [old, now] = [before ?? looser, after ?? looser].map(Number)
    const isNarrower = sign * ((now ?? 0) - (old ?? 0)) > 0
    return [makeDifference(place, { kind: "changed", breaking: isNarrower && place.isRequest, description: says })]
  }
  // What is sent may be checked less, and what is answered more, without anybody noticing.
  const isLooser = after === undefined
  return [
    makeDifference(place, {
      kind: "changed",
      breaking: name === "default" || !(place.isRequest && isLooser),
      description: says,
    }),
  ]
}

const structural = new Set(["const", "enum", "items", "prefixItems", "properties", "required", "type"])

interface Context {
  readonly before: ReferenceResolver
  readonly after: ReferenceResolver
  readonly seen: ReadonlySet<string>
}

const objects = (
  place: ContractLocation,
  before: JsonObject,
  after: JsonObject,
  context: Context,
): ReadonlyArray<ContractDifference> => {
  const [old, now] = [toObject(before["properties"]), toObject(after["properties"])]
  const [must, mustNow] = [toStrings(before["required"]), toStrings(after["required"])]
  const { added, both, gone } = compareKeys(old, now)
  const inner = (name: string): ContractLocation => ({ ...place, name, label: `${place.label}.${name}` })
  return [
    ...gone.map((name) =>
      makeDifference(inner(name), { kind: "removed", breaking: true, description: "the field is gone" })
    ),
    ...added.map((name) => {
      const breaking = place.isRequest && mustNow.includes(name)
      return makeDifference(inner(name), {
        kind: "added",
        breaking,
        description: breaking ? "a new field must be sent" : "a new field",
      })
    }),
    ...both.flatMap((name) => {
      const [needed, isNeeded] = [must.includes(name), mustNow.includes(name)]
      const says = isNeeded ? "is always there now" : "may be missing now"
      return [
        ...(needed === isNeeded ? [] : [
          makeDifference(
            inner(name),
            { kind: "changed", breaking: isNeeded === place.isRequest, description: says } as const,
          ),
        ]),
        ...compareSchemas(inner(name), old[name], now[name], context),
      ]
    }),
  ]
}

const same = (
  place: ContractLocation,
  before: JsonObject,
  after: JsonObject,
  context: Context,
): ReadonlyArray<ContractDifference> => {
  const { added, both, gone } = compareKeys(before, after)
  const items: ContractLocation = { ...place, label: `${place.label}[]` }
  const [first, firstNow] = [toArray(before["prefixItems"]), toArray(after["prefixItems"])]
  return [
    ...listed(place, before, after),
    ...[...gone, ...added, ...both].filter((name) => !structural.has(name)).flatMap((name) =>
      isJsonObject(before[name]) && isJsonObject(after[name])
        ? compareSchemas(place, before[name], after[name], context)
        : keyword(place, name, before[name], after[name])
    ),
    ...objects(place, before, after, context),
    ...("items" in before || "items" in after ? compareSchemas(items, before["items"], after["items"], context) : []),
    ...Array.from({ length: Math.max(first.length, firstNow.length) }).flatMap((_, index) =>
      compareSchemas(items, first[index], firstNow[index], context)
    ),
  ]
}

/** In two directions: what is answered may become less, what is sent more. */
const alternative = (place: ContractLocation, kind: "added" | "removed", name: string, code: string | undefined) => {
  const here = code === undefined ? place : { ...place, name: code }
  const breaking = code === undefined && (kind === "added") !== place.isRequest
  return makeDifference(here, {
    kind,
    breaking,
    description: `${name} is ${kind === "added" ? "possible" : "no longer possible"}`,
  })
}

export const compareSchemas = (
  place: ContractLocation,
  before: unknown,
  after: unknown,
  context: Context,
): ReadonlyArray<ContractDifference> => {
  const [name, nameNow] = [toObject(before)["$ref"], toObject(after)["$ref"]]
  const pair = `${String(name)} ${String(nameNow)}`
  const isNamed = name !== undefined || nameNow !== undefined
  // A schema may hold itself.
  if (isNamed && context.seen.has(pair)) return []
  const inside = isNamed ? { ...context, seen: new Set([...context.seen, pair]) } : context
  const old = Object.groupBy(listAlternatives(before, context.before), (one) => alternativeKey(one, context.before))
  const now = Object.groupBy(listAlternatives(after, context.after), (one) => alternativeKey(one, context.after))
  const isPlain = Object.keys(old).length === 1 && Object.keys(now).length === 1
  const [kind] = Object.keys(old)
  const [kindNow] = Object.keys(now)
  if (isPlain && kind !== kindNow) {
    const isWider = place.isRequest && kind === "integer" && kindNow === "number"
    return [
      makeDifference(place, { kind: "changed", breaking: !isWider, description: `it was ${kind} and is ${kindNow}` }),
    ]
  }
  const code = (one: JsonObject | undefined, follow: ReferenceResolver) =>
    one === undefined ? undefined : readErrorCode(one, follow)
  const { added, both, gone } = compareKeys(old, now)
  return [
    ...gone.map((name) => alternative(place, "removed", name, code(old[name]?.[0], context.before))),
    ...added.map((name) => alternative(place, "added", name, code(now[name]?.[0], context.after))),
    ...both.flatMap((name) => {
      const [left, right] = [old[name] ?? [], now[name] ?? []]
      const [one, two] = [left[0], right[0]]
      if (left.length === 1 && right.length === 1 && one !== undefined && two !== undefined) {
        return same(place, one, two, inside)
      }
      return unordered(place, left, right, inside)
    }),
  ]
}

/** Several of one kind: those that are alike are the same; of the others nobody can say which became which. */
const unordered = (
  place: ContractLocation,
  left: ReadonlyArray<JsonObject>,
  right: ReadonlyArray<JsonObject>,
  context: Context,
) => {
  const differs = (one: JsonObject, two: JsonObject) => same(place, one, two, context).length > 0
  const gone = left.filter((one) => right.every((two) => differs(one, two)))
  const added = right.filter((two) => left.every((one) => differs(one, two)))
  const [one, two] = [gone[0], added[0]]
  if (gone.length === 1 && added.length === 1 && one !== undefined && two !== undefined) {
    return same(place, one, two, context)
  }
  return [
    ...gone.map((one) => alternative(place, "removed", canonicalJson(one), undefined)),
    ...added.map((two) => alternative(place, "added", canonicalJson(two), undefined)),
  ]
}
