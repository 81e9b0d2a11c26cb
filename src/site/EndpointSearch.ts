/** Describes endpoints for the site search and for the MCP tool `find_endpoint`. */
import type { CatalogueEndpoint } from "../api/catalogue/Endpoints.ts"
import { getDefaultOpenApiDocument } from "../api/catalogue/OpenApiDocument.ts"
import { getListAt, getTextAt, getValueAt } from "./browser/json-values.js"
import type { Entry } from "./browser/search-matching.js"
import { getReferencePagePath } from "./Page.ts"
import { describeResponseFields, resolveSchemaReference } from "./SchemaDescriptions.ts"

/** Returns the OpenAPI operation of an endpoint. */
export const getEndpointOperation = ({ row }: CatalogueEndpoint) =>
  getValueAt(getDefaultOpenApiDocument(), "paths", row.path, "get")

/** Describes the fields of an OpenAPI operation's JSON response. */
export const describeEndpointFields = (operation: unknown) => {
  const success = resolveSchemaReference(getValueAt(operation, "responses", "200"))
  return describeResponseFields(getValueAt(success, "content", "application/json", "schema"))
}

const plain = (text: string) => text.replaceAll("`", "")

/** Returns an endpoint's search index entry, which contains its description, parameters and fields. */
export const makeEndpointSearchEntry = (endpoint: CatalogueEndpoint): Entry => {
  const operation = getEndpointOperation(endpoint)
  const parameters = getListAt(operation, "parameters").map((parameter) => ({
    name: getTextAt(parameter, "name") ?? "",
    description: getTextAt(parameter, "description") ?? "",
  }))
  const fields = describeEndpointFields(operation).map(({ description, path }) => ({
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
