/** Describes the endpoints that the tools can query, from the contract and the OpenAPI document. */
import { catalogueEndpoints } from "../../api/catalogue/Endpoints.ts"
import { getDefaultOpenApiDocument } from "../../api/catalogue/OpenApiDocument.ts"
import { estimatePath } from "../../contract/Authentication.ts"
import { getListAt, getTextAt, getValueAt } from "../browser/json-values.js"
import {
  describeAllowedValues,
  describeRangeAndDefault,
  getObjectEntriesAt,
  listAllowedSchemaValues,
  listNonNullSchemaAlternatives,
  resolveSchemaReference,
} from "../SchemaDescriptions.ts"

const joinSentences = (...sentences: ReadonlyArray<string>) => sentences.filter((text) => text !== "").join(" ")

/** Maximum number of rows per call of `query`. */
export const maxRowsPerCall = 50

/** Parameters that the tools set themselves. */
const hiddenParameters = new Set(["format", "page"])

/** Returns the parameters that a model may set, with a description that states their values and range. */
const listParameters = (operation: unknown) =>
  getListAt(operation, "parameters").flatMap((parameter) => {
    const schema = getValueAt(parameter, "schema")
    const name = getTextAt(parameter, "name") ?? ""
    if (hiddenParameters.has(name)) return []
    if (name === "limit") {
      return [{ name, required: false, description: `Rows per call, at most and by default ${maxRowsPerCall}.` }]
    }
    return [{
      name,
      required: getValueAt(parameter, "required") === true,
      description: joinSentences(
        getTextAt(parameter, "description") ?? "",
        describeAllowedValues(listAllowedSchemaValues(schema)),
        describeRangeAndDefault(schema),
      ),
    }]
  })

/** Returns the columns of the rows in `results`, from the response schema. */
const listColumns = (operation: unknown) => {
  const body = resolveSchemaReference(
    getValueAt(operation, "responses", "200", "content", "application/json", "schema"),
  )
  const items = getValueAt(body, "properties", "results", "items")
  const columns = listNonNullSchemaAlternatives(items).flatMap((row) => getObjectEntriesAt(row, "properties"))
  return Array.from(new Map(columns), ([name, schema]) => ({
    name,
    description: getTextAt(resolveSchemaReference(schema), "description") ??
      listNonNullSchemaAlternatives(schema).map((option) => getTextAt(option, "description")).find((text) =>
        text !== undefined
      ) ??
      "",
  }))
}

/**
 * Returns how a list continues. `pages` means numbered pages, in any format; `after` means a cursor, in JSON only.
 * Numbered pages may also begin at a place (`hasPlaces`) that only the link to the page states.
 */
const describePaging = (operation: unknown) => {
  const names = new Set(getListAt(operation, "parameters").map((parameter) => getTextAt(parameter, "name")))
  const paging = names.has("page") ? "pages" : names.has("after") ? "after" : "none"
  return { paging, hasPlaces: paging === "pages" && names.has("after") } as const
}

/** Returns the endpoints that need a key, except `/estimate` and streams. */
const listQueryableEndpoints = () => {
  const document = getDefaultOpenApiDocument()
  return catalogueEndpoints.flatMap((endpoint) => {
    const { path, tier } = endpoint.row
    if (tier === null || path === estimatePath || endpoint.isEndless) return []
    const operation = getValueAt(document, "paths", path, "get")
    return [{
      endpoint,
      path,
      tier,
      parameters: listParameters(operation),
      columns: listColumns(operation),
      ...describePaging(operation),
    }]
  })
}

let queryableEndpoints: ReturnType<typeof listQueryableEndpoints> | undefined

/**
 * Returns the endpoints that `query` and `estimate` accept: those that need a key, except `/estimate` and streams. The
 * list is created when it is first needed, because it depends on the complete OpenAPI document.
 */
export const getQueryableEndpoints = () => queryableEndpoints ??= listQueryableEndpoints()

/** An endpoint as the tools see it. */
export type McpEndpointDescription = ReturnType<typeof getQueryableEndpoints>[number]

/** Finds an endpoint by its path, with or without a trailing slash. */
export const findQueryableEndpoint = (path: string) =>
  getQueryableEndpoints().find((details) => details.path === path.replace(/(.)\/$/, "$1"))
