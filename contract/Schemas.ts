/** How two schemas of JSON Schema 2020-12 differ, for who sends such values or is answered with them. */
import { alternatives, codeOf, type Follow, identity } from "./Alternatives.ts"
import { at, type Difference, type Place } from "./Difference.ts"
import { canonical, compared, isJson, type Json, json, list, words } from "./Json.ts"

const allowed = (schema: Json) => "const" in schema ? [canonical(schema["const"])] : list(schema["enum"]).map(canonical)
const isListed = (schema: Json) => "const" in schema || "enum" in schema

const listed = (place: Place, before: Json, after: Json): ReadonlyArray<Difference> => {
  const [old, now] = [allowed(before), allowed(after)]
  if (!isListed(before) && !isListed(after)) return []
  if (!isListed(after)) {
    return [at(place, { kind: "changed", breaking: !place.sent, says: "any value is possible, not only listed ones" })]
  }
  if (!isListed(before)) {
    return [at(place, { kind: "changed", breaking: place.sent, says: `only these are possible: ${now.join(", ")}` })]
  }
  return [
    ...old.filter((word) => !now.includes(word)).map((word) =>
      at(place, { kind: "removed", breaking: place.sent, says: `${word} is no longer possible` })
    ),
    ...now.filter((word) => !old.includes(word)).map((word) =>
      at(place, { kind: "added", breaking: false, says: `${word} is possible`, word: word.replaceAll(`"`, "") })
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

const keyword = (place: Place, name: string, before: unknown, after: unknown): ReadonlyArray<Difference> => {
  if (canonical(before) === canonical(after)) return []
  const sign = bounds[name]
  const says = `${name} was ${canonical(before)} and is ${canonical(after)}`
  if (sign !== undefined) {
    const looser = sign * -Infinity
    const [old, now] = [before ?? looser, after ?? looser].map(Number)
    const isNarrower = sign * ((now ?? 0) - (old ?? 0)) > 0
    return [at(place, { kind: "changed", breaking: isNarrower && place.sent, says })]
  }
  // What is sent may be checked less, and what is answered more, without anybody noticing.
  const isLooser = after === undefined
  return [at(place, { kind: "changed", breaking: name === "default" || !(place.sent && isLooser), says })]
}

const structural = new Set(["const", "enum", "items", "prefixItems", "properties", "required", "type"])

interface Context {
  readonly before: Follow
  readonly after: Follow
  readonly seen: ReadonlySet<string>
}

const objects = (place: Place, before: Json, after: Json, context: Context): ReadonlyArray<Difference> => {
  const [old, now] = [json(before["properties"]), json(after["properties"])]
  const [must, mustNow] = [words(before["required"]), words(after["required"])]
  const { added, both, gone } = compared(old, now)
  const inner = (name: string): Place => ({ ...place, name, where: `${place.where}.${name}` })
  return [
    ...gone.map((name) => at(inner(name), { kind: "removed", breaking: true, says: "the field is gone" })),
    ...added.map((name) => {
      const breaking = place.sent && mustNow.includes(name)
      return at(inner(name), { kind: "added", breaking, says: breaking ? "a new field must be sent" : "a new field" })
    }),
    ...both.flatMap((name) => {
      const [needed, isNeeded] = [must.includes(name), mustNow.includes(name)]
      const says = isNeeded ? "is always there now" : "may be missing now"
      return [
        ...(needed === isNeeded
          ? []
          : [at(inner(name), { kind: "changed", breaking: isNeeded === place.sent, says } as const)]),
        ...schemas(inner(name), old[name], now[name], context),
      ]
    }),
  ]
}

const same = (place: Place, before: Json, after: Json, context: Context): ReadonlyArray<Difference> => {
  const { added, both, gone } = compared(before, after)
  const items: Place = { ...place, where: `${place.where}[]` }
  const [first, firstNow] = [list(before["prefixItems"]), list(after["prefixItems"])]
  return [
    ...listed(place, before, after),
    ...[...gone, ...added, ...both].filter((name) => !structural.has(name)).flatMap((name) =>
      isJson(before[name]) && isJson(after[name])
        ? schemas(place, before[name], after[name], context)
        : keyword(place, name, before[name], after[name])
    ),
    ...objects(place, before, after, context),
    ...("items" in before || "items" in after ? schemas(items, before["items"], after["items"], context) : []),
    ...Array.from({ length: Math.max(first.length, firstNow.length) }).flatMap((_, index) =>
      schemas(items, first[index], firstNow[index], context)
    ),
  ]
}

/** In two directions: what is answered may become less, what is sent more. */
const alternative = (place: Place, kind: "added" | "removed", name: string, code: string | undefined) => {
  const here = code === undefined ? place : { ...place, name: code }
  const breaking = code === undefined && (kind === "added") !== place.sent
  return at(here, { kind, breaking, says: `${name} is ${kind === "added" ? "possible" : "no longer possible"}` })
}

export const schemas = (place: Place, before: unknown, after: unknown, context: Context): ReadonlyArray<Difference> => {
  const [name, nameNow] = [json(before)["$ref"], json(after)["$ref"]]
  const pair = `${String(name)} ${String(nameNow)}`
  const isNamed = name !== undefined || nameNow !== undefined
  // A schema may hold itself.
  if (isNamed && context.seen.has(pair)) return []
  const inside = isNamed ? { ...context, seen: new Set([...context.seen, pair]) } : context
  const old = Object.groupBy(alternatives(before, context.before), (one) => identity(one, context.before))
  const now = Object.groupBy(alternatives(after, context.after), (one) => identity(one, context.after))
  const isPlain = Object.keys(old).length === 1 && Object.keys(now).length === 1
  const [kind] = Object.keys(old)
  const [kindNow] = Object.keys(now)
  if (isPlain && kind !== kindNow) {
    const isWider = place.sent && kind === "integer" && kindNow === "number"
    return [at(place, { kind: "changed", breaking: !isWider, says: `it was ${kind} and is ${kindNow}` })]
  }
  const code = (one: Json | undefined, follow: Follow) => one === undefined ? undefined : codeOf(one, follow)
  const { added, both, gone } = compared(old, now)
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
const unordered = (place: Place, left: ReadonlyArray<Json>, right: ReadonlyArray<Json>, context: Context) => {
  const differs = (one: Json, two: Json) => same(place, one, two, context).length > 0
  const gone = left.filter((one) => right.every((two) => differs(one, two)))
  const added = right.filter((two) => left.every((one) => differs(one, two)))
  const [one, two] = [gone[0], added[0]]
  if (gone.length === 1 && added.length === 1 && one !== undefined && two !== undefined) {
    return same(place, one, two, context)
  }
  return [
    ...gone.map((one) => alternative(place, "removed", canonical(one), undefined)),
    ...added.map((two) => alternative(place, "added", canonical(two), undefined)),
  ]
}
