/** The schemas of the OpenAPI document as clients see them: under plain names, and readable for code generators. */
import { Predicate } from "effect"

export type Json = Record<string, unknown>

/** A value inside JSON, by its keys. */
export const getIn = (value: unknown, ...path: ReadonlyArray<string>): unknown =>
  path.reduce<unknown>((found, key) => Predicate.isObject(found) ? Reflect.get(found, key) : undefined, value)

/** Every object within, from the inside out, as `change` makes it. */
const mapped = (value: unknown, change: (object: Json) => Json): unknown =>
  Array.isArray(value)
    ? value.map((inner) => mapped(inner, change))
    : Predicate.isObject(value)
    ? change(Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, mapped(inner, change)])))
    : value

/** Effect names the JSON of a class `NameEncoded`; for a client it is `Name`. */
const publicName = (name: string) => name.replace(/Encoded$/, "")

const schemaReference = /^#\/components\/schemas\//

const withPublicNames = (object: Json): Json => {
  const reference = object["$ref"]
  return typeof reference === "string" && schemaReference.test(reference)
    ? { ...object, $ref: publicName(reference) }
    : object
}

/** A list of exactly one: code generators understand `items` better than `prefixItems`. */
const withItems = (object: Json): Json => {
  const { prefixItems, ...rest } = object
  return Array.isArray(prefixItems) && prefixItems.length === 1 && rest["maxItems"] === 1
    ? { ...rest, items: prefixItems[0] }
    : object
}

const withNames = (spec: Json): Json => {
  const components = Object(spec["components"])
  const schemas = Object.entries(Object(components["schemas"])).map(([name, schema]) =>
    [publicName(name), schema] as const
  )
  const names = schemas.map(([name]) => name)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw new Error(`Two schemas of the OpenAPI document are named ${twice}`)
  return { ...spec, components: { ...components, schemas: Object.fromEntries(schemas) } }
}

/** The document with its schemas as clients see them. */
export const tidied = (spec: Json): Json =>
  withNames(Object(mapped(JSON.parse(JSON.stringify(spec)), (object) => withItems(withPublicNames(object)))))
