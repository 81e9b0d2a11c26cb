/**
 * §9.2, §9.3: what of a contract is gone, changed or new. No package compares OpenAPI 3.1 within Node: those that are
 * there know 3.0, or fetch a program of another language.
 */
import { type ContractDifference, type ContractLocation, makeDifference } from "./Difference.ts"
import {
  canonicalJson,
  compareKeys,
  type JsonObject,
  makeReferenceResolver,
  toArray,
  toObject,
  toStrings,
} from "./Json.ts"
import { compareLifecycle, compareSecurity, describeRemovedEndpoint } from "./Promises.ts"
import { compareSchemas } from "./CompareSchemas.ts"

interface Side {
  readonly document: JsonObject
  readonly follow: ReturnType<typeof makeReferenceResolver>
}

interface Sides {
  readonly before: Side
  readonly after: Side
  /** YYYY-MM-DD: what was to end before may be gone. */
  readonly today: string
}

const side = (document: JsonObject): Side => ({ document, follow: makeReferenceResolver(document) })

const methods = new Set(["get", "put", "post", "delete", "options", "head", "patch", "trace", "query"])

const operationsOf = ({ document, follow }: Side): JsonObject =>
  Object.fromEntries(
    Object.entries(toObject(document["paths"])).flatMap(([path, item]) =>
      Object.entries(follow(item)).filter(([method]) => methods.has(method)).map(([method, operation]) => [
        `${method} ${path}`,
        {
          parameters: [],
          ...toObject(operation),
          security: toObject(operation)["security"] ?? document["security"] ?? [],
        },
      ])
    ),
  )

const schemasOf = (place: ContractLocation, old: unknown, now: unknown, { after, before }: Sides) =>
  compareSchemas(place, old, now, { before: before.follow, after: after.follow, seen: new Set() })

/** A list of words is sent as text, so its schema cannot tell which it takes; its description does. */
const listed = /^One of ((?:[\w-]+, )*[\w-]+); several comma-separated/

/** An array of words that is sent comma-separated is the same text; only how it is declared differs. */
const asText = (parameter: JsonObject): JsonObject => {
  const { explode, style, ...rest } = parameter
  const { items, type, ...schema } = toObject(parameter["schema"])
  const isText = type === "array" && style === "form" && explode === false && toObject(items)["type"] === "string"
  return isText ? { ...rest, schema: { ...schema, ...toObject(items) } } : parameter
}

const parameterOf = (declared: JsonObject): JsonObject => {
  const parameter = asText(declared)
  const [, found] = listed.exec(String(parameter["description"] ?? "")) ?? []
  const schema = found === undefined
    ? parameter["schema"]
    : { ...toObject(parameter["schema"]), enum: found.split(", ") }
  return { ...parameter, schema }
}

const parametersOf = (operation: JsonObject, { follow }: Side): JsonObject =>
  Object.fromEntries(
    toArray(operation["parameters"]).map(follow).map((one) => [`${String(one["in"])} ${String(one["name"])}`, one]),
  )

const parameters = (
  path: string,
  old: JsonObject,
  now: JsonObject,
  sides: Sides,
): ReadonlyArray<ContractDifference> => {
  const [left, right] = [parametersOf(old, sides.before), parametersOf(now, sides.after)]
  const { added, both, gone } = compareKeys(left, right)
  const place = (key: string): ContractLocation => {
    const [where = "", ...name] = key.split(" ")
    return { path, name: name.join(" "), label: `parameter ${name.join(" ")} (${where})`, isRequest: true }
  }
  return [
    ...gone.map((key) => makeDifference(place(key), { kind: "removed", breaking: true, description: "it is gone" })),
    ...added.map((key) => {
      const breaking = toObject(right[key])["required"] === true
      return makeDifference(place(key), {
        kind: "added",
        breaking,
        description: breaking ? "it is new, and must be sent" : "it is new",
      })
    }),
    ...both.flatMap((key) => {
      const [one, two] = [parameterOf(toObject(left[key])), parameterOf(toObject(right[key]))]
      const [must, mustNow] = [one["required"] === true, two["required"] === true]
      const ways = ["style", "explode", "allowReserved", "content"].filter((way) =>
        canonicalJson(one[way]) !== canonicalJson(two[way])
      )
      return [
        ...(must === mustNow ? [] : [
          makeDifference(place(key), {
            kind: "changed",
            breaking: mustNow,
            description: mustNow ? "it must be sent now" : "optional",
          }),
        ]),
        ...ways.map((way) =>
          makeDifference(place(key), { kind: "changed", breaking: true, description: `its ${way} is another` })
        ),
        ...schemasOf(place(key), one["schema"], two["schema"], sides),
      ]
    }),
  ]
}

/** Media types or headers of a response: each with a schema, and headers that may be required. */
const parts = (
  place: ContractLocation,
  old: JsonObject,
  now: JsonObject,
  sides: Sides,
): ReadonlyArray<ContractDifference> => {
  const { added, both, gone } = compareKeys(old, now)
  const named = (name: string): ContractLocation => ({ ...place, name, label: `${place.label} ${name}` })
  return [
    ...gone.map((name) => makeDifference(named(name), { kind: "removed", breaking: true, description: "it is gone" })),
    ...added.map((name) => makeDifference(named(name), { kind: "added", breaking: false, description: "it is new" })),
    ...both.flatMap((name) => {
      const [one, two] = [sides.before.follow(old[name]), sides.after.follow(now[name])]
      const [must, mustNow] = [one["required"] === true, two["required"] === true]
      const says = mustNow ? "it is always there now" : "it may be missing now"
      return [
        ...(must === mustNow
          ? []
          : [makeDifference(named(name), { kind: "changed", breaking: must, description: says } as const)]),
        ...schemasOf(named(name), one["schema"], two["schema"], sides),
      ]
    }),
  ]
}

const responses = (path: string, old: JsonObject, now: JsonObject, sides: Sides): ReadonlyArray<ContractDifference> => {
  const [left, right] = [toObject(old["responses"]), toObject(now["responses"])]
  const { added, both, gone } = compareKeys(left, right)
  const place = (status: string): ContractLocation => ({
    path,
    name: status,
    label: `response ${status}`,
    isRequest: false,
  })
  return [
    ...gone.map((status) =>
      makeDifference(place(status), {
        kind: "removed",
        breaking: /^[123d]/.test(status),
        description: "it is no longer answered",
      })
    ),
    ...added.map((status) =>
      makeDifference(place(status), { kind: "added", breaking: false, description: "it is a new answer" })
    ),
    ...both.flatMap((status) => {
      const [one, two] = [sides.before.follow(left[status]), sides.after.follow(right[status])]
      return [
        ...parts(place(status), toObject(one["content"]), toObject(two["content"]), sides),
        ...parts(
          { ...place(status), label: `header of ${status}` },
          toObject(one["headers"]),
          toObject(two["headers"]),
          sides,
        ),
      ]
    }),
  ]
}

const operation = (path: string, old: JsonObject, now: JsonObject, sides: Sides): ReadonlyArray<ContractDifference> => {
  const body: ContractLocation = { path, name: "body", label: "body", isRequest: true }
  return [
    ...compareSecurity(path, old, now, sides.before.document, sides.after.document),
    ...parameters(path, old, now, sides),
    ...(canonicalJson(old["requestBody"]) === canonicalJson(now["requestBody"])
      ? []
      : [makeDifference(body, { kind: "changed", breaking: true, description: "what is sent is another" })]),
    ...responses(path, old, now, sides),
    ...compareLifecycle(path, old, now),
  ]
}

/** Every difference between the documents, none of which is about how something is described. */
export const compareContracts = (before: unknown, after: unknown, today: string): ReadonlyArray<ContractDifference> => {
  const sides: Sides = { before: side(toObject(before)), after: side(toObject(after)), today }
  const [old, now] = [operationsOf(sides.before), operationsOf(sides.after)]
  const pathOf = (key: string) => key.slice(key.indexOf(" ") + 1)
  const { added, both, gone: lost } = compareKeys(old, now)
  const found = [
    ...lost.map((key) => describeRemovedEndpoint(pathOf(key), toObject(old[key]), today)),
    ...added.map((key) =>
      makeDifference({ path: pathOf(key), name: null, label: "endpoint", isRequest: true }, {
        kind: "added",
        breaking: false,
        description: "it is new",
      })
    ),
    ...both.flatMap((key) => operation(pathOf(key), toObject(old[key]), toObject(now[key]), sides)),
  ]
  return Array.from(new Map(found.map((one) => [`${one.description} ${one.breaking}`, one])).values())
}

/** The tags, names and summaries that a contract is described by, and examples, are not part of what is promised. */
export const makeReleasedContract = (document: JsonObject, release: string): JsonObject => {
  const bare: JsonObject = JSON.parse(
    JSON.stringify(document, (name, value: unknown) => name === "examples" ? undefined : value),
  )
  const { openapi, ...rest } = bare
  return { openapi, "x-release": release, ...rest }
}

export const readReleaseVersion = (document: unknown) => toStrings([toObject(document)["x-release"]])[0] ?? ""
