/** Describes endpoints for the site search and for the MCP tool `find_endpoint`. */
import type { CatalogueEndpoint } from "../api/catalogue/Endpoints.ts"
import { getDefaultOpenApiDocument } from "../api/catalogue/OpenApiDocument.ts"
import { getListAt, getTextAt, getValueAt } from "./browser/json-values.js"
import type { Entry } from "./browser/search-matching.js"
import { getReferencePagePath } from "./SitePage.ts"
import { describeResponseFields, resolveSchemaReference } from "./SchemaDescriptions.ts"

/** Returns the OpenAPI operation of an endpoint. */
export const getEndpointOperation = ({ row }: CatalogueEndpoint) =>
  getValueAt(getDefaultOpenApiDocument(), "paths", row.path, "get")

/** Describes the fields of the JSON body of an OpenAPI operation's 200 response. */
export const describeEndpointFields = (operation: unknown) => {
  const success = resolveSchemaReference(getValueAt(operation, "responses", "200"))
  return describeResponseFields(getValueAt(success, "content", "application/json", "schema"))
}

const plain = (text: string) => text.replaceAll("`", "")

/**
 * Returns the entry for an endpoint in the search index. Searches find it by words in the endpoint's description, and
 * in the names and descriptions of its parameters and response fields.
 */
export const makeEndpointSearchEntry = (endpoint: CatalogueEndpoint): Entry => {
  const operation = getEndpointOperation(endpoint)
  const parameters = getListAt(operation, "parameters").map((parameter) => ({
    name: getTextAt(parameter, "name") ?? "",
    description: getTextAt(parameter, "description") ?? "",
  }))
  const fields = describeEndpointFields(operation).map(({ description, path }) => ({
    // Only the field's own name, such as `ticker` for `results[].ticker`.
    name: path.split(".").at(-1) ?? "",
    description,
  }))
  return {
    path: getReferencePagePath(endpoint.row.path),
    page: `${endpoint.title}, ${endpoint.row.path}`,
    heading: "",
    text: plain(endpoint.row.description),
    fields: plain([...parameters, ...fields].map(({ description, name }) => `${name}: ${description}`).join(" ")),
    isChange: false,
  }
}
