/** What the OpenAPI document says of an operation's schemas, as text and HTML. */
import { Predicate } from "effect"
import { openApiDocument } from "../catalogue/OpenApiDocument.ts"
import { getIn } from "../catalogue/Schemas.ts"
import { inlineCode, renderProse } from "./blocks/Tables.ts"
import { escapeHtml } from "./Html.ts"

type Path = ReadonlyArray<string>

export const listAt = (value: unknown, ...path: Path): ReadonlyArray<unknown> => {
  const found = getIn(value, ...path)
  return Array.isArray(found) ? found : []
}

export const textAt = (value: unknown, ...path: Path) => {
  const found = getIn(value, ...path)
  return typeof found === "string" ? found : ""
}

export const entriesAt = (value: unknown, ...path: Path): ReadonlyArray<readonly [string, unknown]> => {
  const found = getIn(value, ...path)
  return Predicate.isObject(found) ? Object.entries(found) : []
}

/** A part of the document with its references followed. */
export const followReference = (part: unknown): unknown => {
  const [, kind = "", name = ""] = /^#\/components\/(\w+)\/(.+)$/.exec(textAt(part, "$ref")) ?? []
  return name === "" ? part : followReference(getIn(openApiDocument, "components", kind, name))
}

/** The responses of an operation by their status. */
export const responsesOf = (operation: unknown) =>
  entriesAt(operation, "responses").map(([status, response]) => [status, followReference(response)] as const)

/** The schemas that a value may follow; `null` is one of them. */
const alternatives = (schema: unknown): ReadonlyArray<unknown> => {
  const own = followReference(schema)
  const among = [...listAt(own, "anyOf"), ...listAt(own, "oneOf")]
  return among.length === 0 ? [own] : among.flatMap(alternatives)
}

const isNull = (schema: unknown) => getIn(schema, "type") === "null"

export const nonNullAlternatives = (schema: unknown) => alternatives(schema).filter((kind) => !isNull(kind))

/** What the schema, or the first of its alternatives that does, says under a keyword. */
const said = (schema: unknown, keyword: string): unknown =>
  [schema, followReference(schema), ...nonNullAlternatives(schema)].flatMap((one) => [one, ...listAt(one, "allOf")])
    .map((one) => getIn(one, keyword)).find((value) => value !== undefined)

/** The allowed values of a schema, or of its items if it is an array. */
export const allowedValues = (schema: unknown): ReadonlyArray<string> =>
  nonNullAlternatives(schema).flatMap((kind) =>
    getIn(kind, "type") === "array"
      ? allowedValues(itemsOf(kind))
      : (getIn(kind, "const") === undefined ? listAt(kind, "enum") : [getIn(kind, "const")]).map(String)
  )

/** The schema of a list's items; a tuple is described by its first. */
const itemsOf = (list: unknown) => listAt(list, "prefixItems")[0] ?? getIn(list, "items")

const typeOf = (schema: unknown): string => {
  const names = nonNullAlternatives(schema).map((kind) => {
    if (getIn(kind, "type") === "array") return `array of ${typeOf(itemsOf(kind))}`
    return textAt(kind, "format") || textAt(kind, "type") || "any"
  })
  const nullable = alternatives(schema).some(isNull) ? ["null"] : []
  return Array.from(new Set([...names, ...nullable])).join(" or ")
}

export const describeBounds = (schema: unknown) => {
  const [least, most, otherwise] = ["minimum", "maximum", "default"].map((keyword) => said(schema, keyword))
  const range = typeof least === "number" && typeof most === "number" && most < 2 ** 31 - 1
    ? `${least} to ${most}.`
    : ""
  return [range, otherwise === undefined ? "" : `Default: \`${String(otherwise)}\`.`].filter(Boolean).join(" ")
}

export const describeAllowedValues = (values: Path) =>
  values.length === 0 ? "" : `One of ${values.map((value) => `\`${value}\``).join(", ")}.`

export const renderSentences = (...parts: Path) => renderProse(parts.filter(Boolean).join(" "))

export const renderType = (schema: unknown) => `<span class="type">${escapeHtml(typeOf(schema))}</span>`

/** The fields of a response, a line for each, with the fields within them behind. */
export const fieldRows = (schema: unknown, prefix = "", within: ReadonlyArray<unknown> = []): ReadonlyArray<Path> =>
  nonNullAlternatives(schema).flatMap((kind) => {
    if (within.includes(kind)) return []
    if (getIn(kind, "type") === "array") return fieldRows(itemsOf(kind), `${prefix}[]`, [...within, kind])
    return entriesAt(kind, "properties").flatMap(([name, field]) => {
      const path = prefix === "" ? name : `${prefix}.${name}`
      return [
        [
          `${inlineCode(path)} ${renderType(field)}`,
          renderSentences(String(said(field, "description") ?? ""), describeAllowedValues(allowedValues(field))),
        ],
        ...fieldRows(field, path, [...within, kind]),
      ]
    })
  })

export const uniqueRows = (rows: ReadonlyArray<Path>) =>
  Array.from(new Map(rows.map((row) => [row[0] ?? "", row])).values())
