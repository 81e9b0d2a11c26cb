/** Describes parameters and response fields, based on the schemas in the OpenAPI document. */
import { Predicate } from "effect"
import { getDefaultOpenApiDocument } from "../api/catalogue/OpenApiDocument.ts"
import { decimalPattern } from "../contract/rules/FilterParameters.ts"
import { getListAt, getTextAt, getValueAt } from "./browser/json-values.js"
import { type Html, markup, renderInlineCode, renderProse } from "./browser/markup.js"

/** Returns the entries of the object at a path, or an empty array if there is no object. */
export const getObjectEntriesAt = (
  value: unknown,
  ...path: ReadonlyArray<string>
): ReadonlyArray<readonly [string, unknown]> => {
  const found = getValueAt(value, ...path)
  return Predicate.isObject(found) ? Object.entries(found) : []
}

/**
 * Replaces a `$ref`, such as `#/components/schemas/News`, with the component of the OpenAPI document that it refers to.
 * Anything else is returned unchanged.
 */
export const resolveSchemaReference = (part: unknown): unknown => {
  const [, section = "", name = ""] = /^#\/components\/(\w+)\/(.+)$/.exec(getTextAt(part, "$ref") ?? "") ?? []
  return name === ""
    ? part
    : resolveSchemaReference(getValueAt(getDefaultOpenApiDocument(), "components", section, name))
}

/** Lists an OpenAPI operation's responses, each with its status, such as `"200"`. */
export const listOperationResponses = (operation: unknown) =>
  getObjectEntriesAt(operation, "responses").map(([status, response]) =>
    [status, resolveSchemaReference(response)] as const
  )

/**
 * Returns the alternatives of a schema, which `anyOf` and `oneOf` list, with references resolved and nested
 * alternatives flattened. A schema without alternatives is its own only alternative.
 */
const alternatives = (schema: unknown): ReadonlyArray<unknown> => {
  const resolved = resolveSchemaReference(schema)
  const options = [...getListAt(resolved, "anyOf"), ...getListAt(resolved, "oneOf")]
  return options.length === 0 ? [resolved] : options.flatMap(alternatives)
}

const isNull = (schema: unknown) => getValueAt(schema, "type") === "null"

/** Returns the alternatives of a schema, excluding null. */
export const listNonNullSchemaAlternatives = (schema: unknown) =>
  alternatives(schema).filter((option) => !isNull(option))

/**
 * Returns the first value found for a JSON Schema keyword, such as `default`. The search covers the schema itself, the
 * target of its `$ref`, its alternatives, and the `allOf` of each of these.
 */
const keywordOf = (schema: unknown, keyword: string): unknown =>
  [schema, resolveSchemaReference(schema), ...listNonNullSchemaAlternatives(schema)]
    .flatMap((option) => [option, ...getListAt(option, "allOf")])
    .map((option) => getValueAt(option, keyword)).find((value) => value !== undefined)

/** Returns the schema of an array's items. For a tuple, returns the schema of the first item. */
const itemsOf = (array: unknown) => getListAt(array, "prefixItems")[0] ?? getValueAt(array, "items")

/** Lists the constant values that a schema allows. For an array schema, lists the values allowed for the items. */
export const listAllowedSchemaValues = (schema: unknown): ReadonlyArray<string> =>
  listNonNullSchemaAlternatives(schema).flatMap((option) => {
    if (getValueAt(option, "type") === "array") return listAllowedSchemaValues(itemsOf(option))
    const constant = getValueAt(option, "const")
    return (constant === undefined ? getListAt(option, "enum") : [constant]).map(String)
  })

/**
 * Returns the name of a schema's type or, for strings, of their format: `integer` or `date`, for example. Formats of
 * numbers are ignored, because only code generators need them. Strings with the pattern of decimal numbers are
 * described as numbers.
 */
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

/** Renders the type name of a schema, such as `array of string or null`. */
export const renderSchemaType = (schema: unknown) => markup`<span class="type">${typeName(schema)}</span>`

/**
 * Describes the range and the default value of a parameter, such as `1 to 100. Default: 20.` Omits a range that extends
 * to the largest 32-bit integer, because it only means that the number is not limited.
 */
export const describeRangeAndDefault = (schema: unknown) => {
  const [minimum, maximum, initial] = ["minimum", "maximum", "default"].map((keyword) => keywordOf(schema, keyword))
  const hasRange = typeof minimum === "number" && typeof maximum === "number" && maximum < 2 ** 31 - 1
  const range = hasRange ? `${minimum} to ${maximum}.` : ""
  return [range, initial === undefined ? "" : `Default: \`${String(initial)}\`.`].filter(Boolean).join(" ")
}

/** Lists the allowed values in a sentence. Returns an empty string if there are none. */
export const describeAllowedValues = (values: ReadonlyArray<string>) =>
  values.length === 0 ? "" : `One of ${values.map((value) => `\`${value}\``).join(", ")}.`

/** Joins and renders the sentences, skipping empty ones. */
export const renderSentences = (...sentences: ReadonlyArray<string>) => renderProse(sentences.filter(Boolean).join(" "))

interface FieldDescription {
  /** The path of the field, such as `results[].ticker`. */
  readonly path: string
  /** The description as plain text. */
  readonly description: string
  /** The cells of the table row that describes the field. */
  readonly cells: ReadonlyArray<Html>
}

/**
 * Describes the fields within a schema, each followed by its nested fields. `prefix` is the path of the value that the
 * schema describes, such as `results[]`. `ancestors` are the schemas that contain this one.
 */
const describeFieldsWithin = (
  schema: unknown,
  prefix: string,
  ancestors: ReadonlyArray<unknown>,
): ReadonlyArray<FieldDescription> =>
  listNonNullSchemaAlternatives(schema).flatMap((alternative) => {
    // A recursive schema contains itself. Without this check, describing it would never end.
    if (ancestors.includes(alternative)) return []
    const path = [...ancestors, alternative]
    if (getValueAt(alternative, "type") === "array") {
      return describeFieldsWithin(itemsOf(alternative), `${prefix}[]`, path)
    }
    return getObjectEntriesAt(alternative, "properties").flatMap(([name, field]) => {
      const fieldPath = prefix === "" ? name : `${prefix}.${name}`
      const description = String(keywordOf(field, "description") ?? "")
      const meaning = renderSentences(description, describeAllowedValues(listAllowedSchemaValues(field)))
      const cells = [markup`${renderInlineCode(fieldPath)} ${renderSchemaType(field)}`, meaning]
      return [{ path: fieldPath, description, cells }, ...describeFieldsWithin(field, fieldPath, path)]
    })
  })

/**
 * Describes the fields of a response with the given schema, each followed by its nested fields. If several kinds of
 * rows have a field with the same name and type, it is described only once, in the words of the last one.
 */
export const describeResponseFields = (schema: unknown): ReadonlyArray<FieldDescription> => {
  // The first cell contains the path and the type.
  const fields = describeFieldsWithin(schema, "", []).map((field) => [String(field.cells[0]), field] as const)
  return Array.from(new Map(fields).values())
}
