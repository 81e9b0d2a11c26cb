/**
 * §9.2, §9.3: what of a contract is gone, changed or new. No package compares OpenAPI 3.1 within Node: those that are
 * there know 3.0, or fetch a program of another language.
 */
import { at, type Difference, type Place } from "./Difference.ts"
import { canonical, compared, type Json, json, list, resolver, words } from "./Json.ts"
import { gone, lifecycle, security } from "./Promises.ts"
import { schemas } from "./Schemas.ts"

interface Side {
  readonly document: Json
  readonly follow: ReturnType<typeof resolver>
}

interface Sides {
  readonly before: Side
  readonly after: Side
  /** YYYY-MM-DD: what was to end before may be gone. */
  readonly today: string
}

const side = (document: Json): Side => ({ document, follow: resolver(document) })

const methods = new Set(["get", "put", "post", "delete", "options", "head", "patch", "trace", "query"])

const operationsOf = ({ document, follow }: Side): Json =>
  Object.fromEntries(
    Object.entries(json(document["paths"])).flatMap(([path, item]) =>
      Object.entries(follow(item)).filter(([method]) => methods.has(method)).map(([method, operation]) => [
        `${method} ${path}`,
        { parameters: [], ...json(operation), security: json(operation)["security"] ?? document["security"] ?? [] },
      ])
    ),
  )

const schemasOf = (place: Place, old: unknown, now: unknown, { after, before }: Sides) =>
  schemas(place, old, now, { before: before.follow, after: after.follow, seen: new Set() })

/** A list of words is sent as text, so its schema cannot tell which it takes; its description does. */
const listed = /^One of ((?:[\w-]+, )*[\w-]+); several comma-separated/

/** An array of words that is sent comma-separated is the same text; only how it is declared differs. */
const asText = (parameter: Json): Json => {
  const { explode, style, ...rest } = parameter
  const { items, type, ...schema } = json(parameter["schema"])
  const isText = type === "array" && style === "form" && explode === false && json(items)["type"] === "string"
  return isText ? { ...rest, schema: { ...schema, ...json(items) } } : parameter
}

const parameterOf = (declared: Json): Json => {
  const parameter = asText(declared)
  const [, found] = listed.exec(String(parameter["description"] ?? "")) ?? []
  const schema = found === undefined ? parameter["schema"] : { ...json(parameter["schema"]), enum: found.split(", ") }
  return { ...parameter, schema }
}

const parametersOf = (operation: Json, { follow }: Side): Json =>
  Object.fromEntries(
    list(operation["parameters"]).map(follow).map((one) => [`${String(one["in"])} ${String(one["name"])}`, one]),
  )

const parameters = (path: string, old: Json, now: Json, sides: Sides): ReadonlyArray<Difference> => {
  const [left, right] = [parametersOf(old, sides.before), parametersOf(now, sides.after)]
  const { added, both, gone } = compared(left, right)
  const place = (key: string): Place => {
    const [where = "", ...name] = key.split(" ")
    return { path, name: name.join(" "), where: `parameter ${name.join(" ")} (${where})`, sent: true }
  }
  return [
    ...gone.map((key) => at(place(key), { kind: "removed", breaking: true, says: "it is gone" })),
    ...added.map((key) => {
      const breaking = json(right[key])["required"] === true
      return at(place(key), { kind: "added", breaking, says: breaking ? "it is new, and must be sent" : "it is new" })
    }),
    ...both.flatMap((key) => {
      const [one, two] = [parameterOf(json(left[key])), parameterOf(json(right[key]))]
      const [must, mustNow] = [one["required"] === true, two["required"] === true]
      const ways = ["style", "explode", "allowReserved", "content"].filter((way) =>
        canonical(one[way]) !== canonical(two[way])
      )
      return [
        ...(must === mustNow ? [] : [
          at(place(key), { kind: "changed", breaking: mustNow, says: mustNow ? "it must be sent now" : "optional" }),
        ]),
        ...ways.map((way) => at(place(key), { kind: "changed", breaking: true, says: `its ${way} is another` })),
        ...schemasOf(place(key), one["schema"], two["schema"], sides),
      ]
    }),
  ]
}

/** Media types or headers of a response: each with a schema, and headers that may be required. */
const parts = (place: Place, old: Json, now: Json, sides: Sides): ReadonlyArray<Difference> => {
  const { added, both, gone } = compared(old, now)
  const named = (name: string): Place => ({ ...place, name, where: `${place.where} ${name}` })
  return [
    ...gone.map((name) => at(named(name), { kind: "removed", breaking: true, says: "it is gone" })),
    ...added.map((name) => at(named(name), { kind: "added", breaking: false, says: "it is new" })),
    ...both.flatMap((name) => {
      const [one, two] = [sides.before.follow(old[name]), sides.after.follow(now[name])]
      const [must, mustNow] = [one["required"] === true, two["required"] === true]
      const says = mustNow ? "it is always there now" : "it may be missing now"
      return [
        ...(must === mustNow ? [] : [at(named(name), { kind: "changed", breaking: must, says } as const)]),
        ...schemasOf(named(name), one["schema"], two["schema"], sides),
      ]
    }),
  ]
}

const responses = (path: string, old: Json, now: Json, sides: Sides): ReadonlyArray<Difference> => {
  const [left, right] = [json(old["responses"]), json(now["responses"])]
  const { added, both, gone } = compared(left, right)
  const place = (status: string): Place => ({ path, name: status, where: `response ${status}`, sent: false })
  return [
    ...gone.map((status) =>
      at(place(status), { kind: "removed", breaking: /^[123d]/.test(status), says: "it is no longer answered" })
    ),
    ...added.map((status) => at(place(status), { kind: "added", breaking: false, says: "it is a new answer" })),
    ...both.flatMap((status) => {
      const [one, two] = [sides.before.follow(left[status]), sides.after.follow(right[status])]
      return [
        ...parts(place(status), json(one["content"]), json(two["content"]), sides),
        ...parts({ ...place(status), where: `header of ${status}` }, json(one["headers"]), json(two["headers"]), sides),
      ]
    }),
  ]
}

const operation = (path: string, old: Json, now: Json, sides: Sides): ReadonlyArray<Difference> => {
  const body: Place = { path, name: "body", where: "body", sent: true }
  return [
    ...security(path, old, now, sides.before.document, sides.after.document),
    ...parameters(path, old, now, sides),
    ...(canonical(old["requestBody"]) === canonical(now["requestBody"])
      ? []
      : [at(body, { kind: "changed", breaking: true, says: "what is sent is another" })]),
    ...responses(path, old, now, sides),
    ...lifecycle(path, old, now),
  ]
}

/** Every difference between the documents, none of which is about how something is described. */
export const differences = (before: unknown, after: unknown, today: string): ReadonlyArray<Difference> => {
  const sides: Sides = { before: side(json(before)), after: side(json(after)), today }
  const [old, now] = [operationsOf(sides.before), operationsOf(sides.after)]
  const pathOf = (key: string) => key.slice(key.indexOf(" ") + 1)
  const { added, both, gone: lost } = compared(old, now)
  const found = [
    ...lost.map((key) => gone(pathOf(key), json(old[key]), today)),
    ...added.map((key) =>
      at({ path: pathOf(key), name: null, where: "endpoint", sent: true }, {
        kind: "added",
        breaking: false,
        says: "it is new",
      })
    ),
    ...both.flatMap((key) => operation(pathOf(key), json(old[key]), json(now[key]), sides)),
  ]
  return Array.from(new Map(found.map((one) => [`${one.says} ${one.breaking}`, one])).values())
}

/** The tags, names and summaries that a contract is described by, and examples, are not part of what is promised. */
export const released = (document: Json, release: string): Json => {
  const bare: Json = JSON.parse(
    JSON.stringify(document, (name, value: unknown) => name === "examples" ? undefined : value),
  )
  const { openapi, ...rest } = bare
  return { openapi, "x-release": release, ...rest }
}

export const releaseOf = (document: unknown) => words([json(document)["x-release"]])[0] ?? ""
