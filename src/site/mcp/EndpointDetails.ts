/** Describes the endpoints that the MCP tools can query, based on the contract and the OpenAPI document. */
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

/** The maximum number of rows that a single call of `query` returns. */
export const maxRowsPerCall = 50

/** Endpoint parameters that the tools set themselves, so models do not see them. */
const hiddenParameters = new Set(["format", "page"])

/**
 * Returns the parameters of an OpenAPI operation that a model may set. Each has its name, whether it is required, and a
 * description that also states the allowed values, the range and the default.
 */
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

/**
 * Returns the columns of the rows that an OpenAPI operation returns in `results`, each with its name and description.
 * If there are several kinds of rows, such as warrants and convertibles, returns the columns of all of them.
 */
const listColumns = (operation: unknown) => {
  const body = resolveSchemaReference(
    getValueAt(operation, "responses", "200", "content", "application/json", "schema"),
  )
  const items = getValueAt(body, "properties", "results", "items")
  const columns = listNonNullSchemaAlternatives(items).flatMap((row) => getObjectEntriesAt(row, "properties"))
  // The map keeps each name once, although several kinds of rows may have it.
  return Array.from(new Map(columns), ([name, schema]) => ({
    name,
    // The description of a column that may be null is that of its non-null alternative.
    description: getTextAt(resolveSchemaReference(schema), "description") ??
      listNonNullSchemaAlternatives(schema).map((option) => getTextAt(option, "description")).find((text) =>
        text !== undefined
      ) ??
      "",
  }))
}

/**
 * Returns how an endpoint's rows are requested in parts, which follows from its parameters. `paging` is `pages` for
 * numbered pages in any format, `after` for a cursor in each JSON response, and `none` if one response contains all
 * rows. `supportsPageAfter` means that a numbered page can also start after a given row, with the parameter `after`.
 * The value of that parameter is only known for the last row of a page, from the link to the next page.
 */
const describePaging = (operation: unknown) => {
  const names = new Set(getListAt(operation, "parameters").map((parameter) => getTextAt(parameter, "name")))
  const paging = names.has("page") ? "pages" : names.has("after") ? "after" : "none"
  return { paging, supportsPageAfter: paging === "pages" && names.has("after") } as const
}

/**
 * Returns the descriptions of all endpoints that the tool `query` can call: those that require an API key (`tier` is
 * not null), except `/estimate`, which has a tool of its own, and streams, which have no end.
 */
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
 * Returns the endpoints that `query` and `estimate` accept: all that require a key, except `/estimate` and streams. The
 * list is created on first use, because it depends on the complete OpenAPI document.
 */
export const getQueryableEndpoints = () => queryableEndpoints ??= listQueryableEndpoints()

/** An endpoint as the MCP tools describe it. */
export type McpEndpointDescription = ReturnType<typeof getQueryableEndpoints>[number]

/** Finds an endpoint by its path, with or without a trailing slash. */
export const findQueryableEndpoint = (path: string) =>
  getQueryableEndpoints().find((details) => details.path === path.replace(/(.)\/$/, "$1"))
