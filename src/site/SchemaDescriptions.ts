/** Describes parameters and response fields from the schemas in the OpenAPI document. */
import { Predicate } from "effect"
import { getDefaultOpenApiDocument } from "../api/catalogue/OpenApiDocument.ts"
import { decimalPattern } from "../contract/rules/Filters.ts"
import { getListAt, getTextAt, getValueAt } from "./browser/json-values.js"
import { type Html, markup, renderInlineCode, renderProse } from "./browser/markup.js"

/** Returns the entries of the object at a path; none if there is no object. */
export const getObjectEntriesAt = (
  value: unknown,
  ...path: ReadonlyArray<string>
): ReadonlyArray<readonly [string, unknown]> => {
  const found = getValueAt(value, ...path)
  return Predicate.isObject(found) ? Object.entries(found) : []
}

/** Replaces a `$ref` with the component that it points to. */
export const resolveSchemaReference = (part: unknown): unknown => {
  const [, section = "", name = ""] = /^#\/components\/(\w+)\/(.+)$/.exec(getTextAt(part, "$ref") ?? "") ?? []
  return name === ""
    ? part
    : resolveSchemaReference(getValueAt(getDefaultOpenApiDocument(), "components", section, name))
}

/** Lists the responses of an operation with their statuses. */
export const listOperationResponses = (operation: unknown) =>
  getObjectEntriesAt(operation, "responses").map(([status, response]) =>
    [status, resolveSchemaReference(response)] as const
  )

/** Returns the alternatives that a schema allows, without references and nested alternatives. */
const alternatives = (schema: unknown): ReadonlyArray<unknown> => {
  const resolved = resolveSchemaReference(schema)
  const options = [...getListAt(resolved, "anyOf"), ...getListAt(resolved, "oneOf")]
  return options.length === 0 ? [resolved] : options.flatMap(alternatives)
}

const isNull = (schema: unknown) => getValueAt(schema, "type") === "null"

/** Returns the alternatives that a schema allows, except null. */
export const listNonNullSchemaAlternatives = (schema: unknown) =>
  alternatives(schema).filter((option) => !isNull(option))

/**
 * Returns the first value of a keyword that is found in a schema, in the target of its `$ref`, in its alternatives, or
 * in the `allOf` of any of these.
 */
const keywordOf = (schema: unknown, keyword: string): unknown =>
  [schema, resolveSchemaReference(schema), ...listNonNullSchemaAlternatives(schema)]
    .flatMap((option) => [option, ...getListAt(option, "allOf")])
    .map((option) => getValueAt(option, keyword)).find((value) => value !== undefined)

/** Returns the schema for an array's items. For a tuple, this is the schema of its first item. */
const itemsOf = (array: unknown) => getListAt(array, "prefixItems")[0] ?? getValueAt(array, "items")

/** Lists the fixed values that a schema allows. For an array, these are the values allowed for its items. */
export const listAllowedSchemaValues = (schema: unknown): ReadonlyArray<string> =>
  listNonNullSchemaAlternatives(schema).flatMap((option) => {
    if (getValueAt(option, "type") === "array") return listAllowedSchemaValues(itemsOf(option))
    const constant = getValueAt(option, "const")
    return (constant === undefined ? getListAt(option, "enum") : [constant]).map(String)
  })

/** Returns the name of a format, such as `date`. Number formats are omitted, because only code generators need them. */
const describeSimpleType = (schema: unknown) => {
  const type = getTextAt(schema, "type") ?? "any"
  if (getTextAt(schema, "pattern") === decimalPattern.source) return "number"
  return type === "integer" || type === "number" ? type : getTextAt(schema, "format") ?? type
}

const typeName = (schema: unknown): string => {
  const names = listNonNullSchemaAlternatives(schema).map((option) =>
    getValueAt(option, "type") === "array" ? `array of ${typeName(itemsOf(option))}` : describeSimpleType(option)
  )
  const nullable = alternatives(schema).some(isNull) ? ["null"] : []
  return Array.from(new Set([...names, ...nullable])).join(" or ")
}

/** Renders the name of a schema's type, such as `array of string or null`. */
export const renderSchemaType = (schema: unknown) => markup`<span class="type">${typeName(schema)}</span>`

/** Describes the range and the default, such as `1 to 100. Default: 20.` */
export const describeRangeAndDefault = (schema: unknown) => {
  const [minimum, maximum, initial] = ["minimum", "maximum", "default"].map((keyword) => keywordOf(schema, keyword))
  const hasRange = typeof minimum === "number" && typeof maximum === "number" && maximum < 2 ** 31 - 1
  const range = hasRange ? `${minimum} to ${maximum}.` : ""
  return [range, initial === undefined ? "" : `Default: \`${String(initial)}\`.`].filter(Boolean).join(" ")
}

/** Lists the allowed values in a sentence; empty if there are none. */
export const describeAllowedValues = (values: ReadonlyArray<string>) =>
  values.length === 0 ? "" : `One of ${values.map((value) => `\`${value}\``).join(", ")}.`

/** Joins the sentences that are not empty, and renders them. */
export const renderSentences = (...sentences: ReadonlyArray<string>) => renderProse(sentences.filter(Boolean).join(" "))

interface FieldDescription {
  /** Such as `results[].ticker`. */
  readonly path: string
  /** Plain text. */
  readonly description: string
  /** The cells of the field's row in the table. */
  readonly cells: ReadonlyArray<Html>
}

/** Describes each field of a response once, followed by the fields that it contains. */
export const describeResponseFields = (schema: unknown): ReadonlyArray<FieldDescription> => {
  const visit = (schema: unknown, prefix: string, ancestors: ReadonlyArray<unknown>): ReadonlyArray<FieldDescription> =>
    listNonNullSchemaAlternatives(schema).flatMap((option) => {
      // A recursive schema is described only once.
      if (ancestors.includes(option)) return []
      const inside = [...ancestors, option]
      if (getValueAt(option, "type") === "array") return visit(itemsOf(option), `${prefix}[]`, inside)
      return getObjectEntriesAt(option, "properties").flatMap(([name, field]) => {
        const path = prefix === "" ? name : `${prefix}.${name}`
        const description = String(keywordOf(field, "description") ?? "")
        const meaning = renderSentences(description, describeAllowedValues(listAllowedSchemaValues(field)))
        return [
          { path, description, cells: [markup`${renderInlineCode(path)} ${renderSchemaType(field)}`, meaning] },
          ...visit(field, path, inside),
        ]
      })
    })
  return Array.from(new Map(visit(schema, "", []).map((field) => [String(field.cells[0]), field])).values())
}
