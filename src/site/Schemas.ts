/** What the OpenAPI document says of an operation's schemas, as text and HTML. */
import { Predicate } from "effect"
import { document } from "../catalogue/OpenApi.ts"
import { at } from "../catalogue/Schemas.ts"
import { code, prose } from "./blocks/Tables.ts"
import { escape } from "./Html.ts"

type Path = ReadonlyArray<string>

export const listAt = (value: unknown, ...path: Path): ReadonlyArray<unknown> => {
  const found = at(value, ...path)
  return Array.isArray(found) ? found : []
}

export const textAt = (value: unknown, ...path: Path) => {
  const found = at(value, ...path)
  return typeof found === "string" ? found : ""
}

export const entriesAt = (value: unknown, ...path: Path): ReadonlyArray<readonly [string, unknown]> => {
  const found = at(value, ...path)
  return Predicate.isObject(found) ? Object.entries(found) : []
}

/** A part of the document with its references followed. */
export const resolved = (part: unknown): unknown => {
  const [, kind = "", name = ""] = /^#\/components\/(\w+)\/(.+)$/.exec(textAt(part, "$ref")) ?? []
  return name === "" ? part : resolved(at(document, "components", kind, name))
}

/** The responses of an operation by their status. */
export const responsesOf = (operation: unknown) =>
  entriesAt(operation, "responses").map(([status, response]) => [status, resolved(response)] as const)

/** The schemas that a value may follow; `null` is one of them. */
const alternatives = (schema: unknown): ReadonlyArray<unknown> => {
  const own = resolved(schema)
  const among = [...listAt(own, "anyOf"), ...listAt(own, "oneOf")]
  return among.length === 0 ? [own] : among.flatMap(alternatives)
}

const isNull = (schema: unknown) => at(schema, "type") === "null"

export const kinds = (schema: unknown) => alternatives(schema).filter((kind) => !isNull(kind))

/** What the schema, or the first of its alternatives that does, says under a keyword. */
const said = (schema: unknown, keyword: string): unknown =>
  [schema, resolved(schema), ...kinds(schema)].flatMap((one) => [one, ...listAt(one, "allOf")])
    .map((one) => at(one, keyword)).find((value) => value !== undefined)

/** The allowed values of a schema, or of its items if it is an array. */
export const choices = (schema: unknown): ReadonlyArray<string> =>
  kinds(schema).flatMap((kind) =>
    at(kind, "type") === "array"
      ? choices(itemsOf(kind))
      : (at(kind, "const") === undefined ? listAt(kind, "enum") : [at(kind, "const")]).map(String)
  )

/** The schema of a list's items; a tuple is described by its first. */
const itemsOf = (list: unknown) => listAt(list, "prefixItems")[0] ?? at(list, "items")

const typeOf = (schema: unknown): string => {
  const names = kinds(schema).map((kind) => {
    if (at(kind, "type") === "array") return `array of ${typeOf(itemsOf(kind))}`
    return textAt(kind, "format") || textAt(kind, "type") || "any"
  })
  const nullable = alternatives(schema).some(isNull) ? ["null"] : []
  return Array.from(new Set([...names, ...nullable])).join(" or ")
}

export const bounds = (schema: unknown) => {
  const [least, most, otherwise] = ["minimum", "maximum", "default"].map((keyword) => said(schema, keyword))
  const range = typeof least === "number" && typeof most === "number" && most < 2 ** 31 - 1
    ? `${least} to ${most}.`
    : ""
  return [range, otherwise === undefined ? "" : `Default: \`${String(otherwise)}\`.`].filter(Boolean).join(" ")
}

export const oneOf = (values: Path) =>
  values.length === 0 ? "" : `One of ${values.map((value) => `\`${value}\``).join(", ")}.`

export const sentences = (...parts: Path) => prose(parts.filter(Boolean).join(" "))

export const typed = (schema: unknown) => `<span class="type">${escape(typeOf(schema))}</span>`

/** The fields of a response, a line for each, with the fields within them behind. */
export const fieldsOf = (schema: unknown, prefix = "", within: ReadonlyArray<unknown> = []): ReadonlyArray<Path> =>
  kinds(schema).flatMap((kind) => {
    if (within.includes(kind)) return []
    if (at(kind, "type") === "array") return fieldsOf(itemsOf(kind), `${prefix}[]`, [...within, kind])
    return entriesAt(kind, "properties").flatMap(([name, field]) => {
      const path = prefix === "" ? name : `${prefix}.${name}`
      return [
        [
          `${code(path)} ${typed(field)}`,
          sentences(String(said(field, "description") ?? ""), oneOf(choices(field))),
        ],
        ...fieldsOf(field, path, [...within, kind]),
      ]
    })
  })

export const unique = (rows: ReadonlyArray<Path>) =>
  Array.from(new Map(rows.map((row) => [row[0] ?? "", row])).values())
