/** The API reference pages: an overview, and one page for each endpoint in the OpenAPI document. */
import { Effect } from "effect"
import { type CatalogueEndpoint, declaredEndpoints } from "../api/catalogue/Endpoints.ts"
import { defaultServerUrl } from "../api/catalogue/OpenApiDocument.ts"
import { BaseUrl } from "../api/BaseUrl.ts"
import { toEndpointName } from "../client/EndpointTypes.ts"
import { getListAt, getTextAt, getValueAt } from "./browser/json-values.js"
import { changeFeedDatasets } from "../contract/endpoints/changes.ts"
import { endpointsByDataset } from "../api/catalogue/DatasetEndpoints.ts"
import { type HtmlValue, joinMarkup, markup, renderInlineCode, renderProse, renderTable } from "./browser/markup.js"
import {
  type ExampleRequest,
  formatCurlExample,
  formatPythonExample,
  formatTypeScriptExample,
} from "./browser/request-examples.js"
import { renderCorrectionsLink } from "./CorrectionsPage.ts"
import { describeEndpointFields, getEndpointOperation, makeEndpointSearchEntry } from "./EndpointSearch.ts"
import { renderHighlightedCode } from "./Markdown.ts"
import { getPagePath, getReferencePagePath, referenceOverviewPath, type SitePage } from "./SitePage.ts"
import { renderEndpointTable } from "./ReferenceTables.ts"
import {
  describeAllowedValues,
  describeRangeAndDefault,
  getObjectEntriesAt,
  listAllowedSchemaValues,
  listNonNullSchemaAlternatives,
  listOperationResponses,
  renderSchemaType,
  renderSentences,
  resolveSchemaReference,
} from "./SchemaDescriptions.ts"
import { apiKeyForm } from "./InteractivePages.ts"

/** Renders a section with a heading, or nothing if the section is empty. */
const section = (id: string, title: string, body: HtmlValue) => body && markup`<h2 id="${id}">${title}</h2>\n${body}\n`

/**
 * Returns the example responses of an OpenAPI operation, ordered by status. Each has its name, its status, the request
 * that leads to it (a path with a query string) and its body as a highlighted code block.
 */
const examplesOf = (operation: unknown) =>
  listOperationResponses(operation).flatMap(([status, response]) =>
    getObjectEntriesAt(response, "content", "application/json", "examples").map(([name, example]) => ({
      name,
      status: Number(status),
      request: getTextAt(example, "summary") ?? "",
      body: renderHighlightedCode("json", JSON.stringify(getValueAt(example, "value"), null, 2)),
    }))
  ).toSorted((left, right) => left.status - right.status)

/**
 * A parameter of an endpoint. `value` is its value in the example request, or an empty string if the example omits it.
 * `type` determines how the Python and TypeScript examples write the value (see `getExampleType`).
 */
interface Parameter {
  readonly name: string
  readonly description: string
  readonly schema: unknown
  readonly isRequired: boolean
  readonly value: string
  readonly type: string
}

/** Returns the type that determines how the Python and TypeScript examples write a parameter's value. */
const getExampleType = (name: string, schema: unknown) => {
  const types = new Set(listNonNullSchemaAlternatives(schema).map((type) => getTextAt(type, "type")))
  if (types.has("object")) return "parameters"
  if (types.has("array")) return "list"
  if (types.has("boolean")) return "boolean"
  // The OpenAPI document declares `limit` as a string, because its value can be `all`.
  return types.has("integer") || name === "limit" ? "number" : "text"
}

/**
 * Returns the parameters of an OpenAPI operation, with their values in the example request. `/estimate` declares its
 * additional parameters, which are those of the estimated endpoint, as one parameter of type object. Its value is a
 * query string with all parameters of the example that are not declared by name.
 */
const listParameters = (operation: unknown, example: URLSearchParams): ReadonlyArray<Parameter> => {
  const parameters = getListAt(operation, "parameters").map((parameter) => {
    const [name, schema] = [getTextAt(parameter, "name") ?? "", getValueAt(parameter, "schema")]
    const description = getTextAt(parameter, "description") ?? ""
    return { name, description, schema, isRequired: getValueAt(parameter, "required") === true }
  })
  const declaredNames = new Set(parameters.map(({ name }) => name))
  const undeclared = new URLSearchParams(Array.from(example).filter(([name]) => !declaredNames.has(name))).toString()
  return parameters.map((parameter) => {
    const type = getExampleType(parameter.name, parameter.schema)
    return { ...parameter, type, value: type === "parameters" ? undeclared : example.get(parameter.name) ?? "" }
  })
}

/**
 * Returns the values among which visitors choose in the request form. Returns an empty array if visitors type the value
 * instead, because it is not limited to certain words. Array parameters are also typed, because a `select` element has
 * only one value; their description already lists the allowed words.
 */
const optionsOf = ({ schema, type }: Parameter) => {
  if (type === "boolean") return ["true", "false"]
  const hasOnlyWords = listNonNullSchemaAlternatives(schema).every((alternative) =>
    getValueAt(alternative, "type") !== "array" && listAllowedSchemaValues(alternative).length > 0
  )
  return hasOnlyWords ? listAllowedSchemaValues(schema) : []
}

/**
 * Renders the form field for a parameter: a `select` element if there are options, and a text field otherwise. The form
 * itself is elsewhere on the page, so the field refers to it by the id `try`.
 */
const parameterField = (parameter: Parameter) => {
  const { name, type, value } = parameter
  const attributes = markup`id="p-${name}" name="${name}" form="try" data-type="${type}"`
  const options = optionsOf(parameter)
  if (options.length === 0) {
    return markup`<input type="text" ${attributes} value="${value}" autocomplete="off" spellcheck="false">`
  }
  const choices = ["", ...options].map((option) =>
    markup`<option value="${option}"${option === value && " selected"}>${option === "" ? "not sent" : option}</option>`
  )
  return markup`<select ${attributes}>${choices}</select>`
}

/**
 * Renders the table of an endpoint's parameters. If the page has a form that sends requests (`hasForm`), the table
 * contains the form's fields, filled in with the values of the example request, and a button below it. Returns false,
 * which renders as nothing, if the endpoint has no parameters.
 */
const renderParameters = (parameters: ReadonlyArray<Parameter>, hasForm: boolean) => {
  const rows = parameters.map((parameter) => {
    const { description, isRequired, name, schema, type } = parameter
    const badge = isRequired && markup` <span class="badge warn">required</span>`
    const label = hasForm ? markup`<label for="p-${name}">${renderInlineCode(name)}</label>` : renderInlineCode(name)
    return [
      markup`${label} ${renderSchemaType(schema)}${badge}`,
      ...(hasForm ? [parameterField(parameter)] : []),
      renderSentences(
        description,
        type === "boolean" ? "" : describeAllowedValues(optionsOf(parameter)),
        describeRangeAndDefault(schema),
      ),
    ]
  })
  const columns = ["Parameter", ...(hasForm ? ["Value"] : []), "Meaning"]
  const sendButton = markup`<p id="send-below" class="field" hidden><button class="main" form="try">Send</button>
<span>The response appears under <a href="#try-it">Try it</a>.</span></p>`
  const table = renderTable(columns, rows, { label: "Parameters" })
  return rows.length > 0 && markup`<div class="parameters">${table}</div>${hasForm && sendButton}`
}

/** Returns the error codes that a response may contain, according to its schema. */
const errorCodesOf = (response: unknown) => {
  const schema = getValueAt(response, "content", "application/json", "schema")
  const codes = listNonNullSchemaAlternatives(schema)
    .flatMap((body) => listNonNullSchemaAlternatives(getValueAt(body, "properties", "error")))
    .flatMap((error) => listAllowedSchemaValues(getValueAt(error, "properties", "code")))
  return Array.from(new Set(codes))
}

/** Renders the table of an operation's error responses. Returns false, which renders as nothing, if there are none. */
const renderErrors = (operation: unknown) => {
  const rows = listOperationResponses(operation).filter(([status]) => Number(status) >= 400).map((
    [status, response],
  ) => [
    status,
    joinMarkup(errorCodesOf(response).map(renderInlineCode), " "),
    renderProse(getTextAt(response, "description") ?? ""),
  ])
  const table = renderTable(["Status", "Code", "Meaning"], rows, { label: "Errors" })
  const advice = markup`<a href="${getPagePath("errors")}">Errors and retries</a> explains what to do about each error.`
  return rows.length > 0 && markup`${table}<p>${advice}</p>`
}

const renderHeaders = (response: unknown) => {
  const rows = getObjectEntriesAt(response, "headers").map((
    [name, header],
  ) => [renderInlineCode(name), renderProse(getTextAt(resolveSchemaReference(header), "description") ?? "")])
  return rows.length > 0 && renderTable(["Header", "Meaning"], rows, { label: "Response headers" })
}

const renderDeprecation = ({ deprecation, row }: CatalogueEndpoint) => {
  if (deprecation._tag === "None") return undefined
  const { announced, note, successor } = deprecation.value
  const end = row.sunset === null ? "No end date is set." : `It may stop responding after ${row.sunset}.`
  return markup`<div class="notice"><p><strong>Deprecated</strong> since ${announced}. Use <a href="${
    getReferencePagePath(successor)
  }">${renderInlineCode(successor)}</a>. ${renderProse(note)} ${end}</p></div>`
}

/**
 * Renders links to the corrections of the datasets that the endpoint reads. Closing prices are omitted, because they
 * have no corrections section (§2.6).
 */
const renderCorrectionLinks = ({ row }: CatalogueEndpoint) => {
  const links = endpointsByDataset.flatMap(({ dataset, endpoints }) =>
    endpoints.includes(row.path) && changeFeedDatasets.some((name) => name === dataset)
      ? [renderCorrectionsLink(dataset)]
      : []
  )
  return links.length > 0 && markup`<p class="quiet">Corrections of its data: ${joinMarkup(links, ", ")}.</p>\n`
}

/**
 * Renders the example request in Python or TypeScript, with a link to the client's guide. Renders nothing if the client
 * cannot send the request.
 */
const renderClientExample = (guide: string, language: "Python" | "TypeScript", program: string) =>
  program !== "" && markup`<details class="example"><summary>${language}</summary>
${renderHighlightedCode(language === "Python" ? "python" : "ts", program)}
<p class="quiet">Requires <a href="${getPagePath(guide)}">the ${language} client</a>.</p></details>`

/** Renders the form that sends the request and shows the response. Pages of streaming endpoints omit it. */
const renderRequestForm = (request: ExampleRequest, hasParameters: boolean, response: HtmlValue) =>
  markup`<h2 id="try-it">Try it</h2>
${request.needsKey && apiKeyForm}
<p class="quiet" id="without-scripts">Enable JavaScript to send requests from this page.</p>
<div id="request">${renderHighlightedCode("sh", formatCurlExample(request))}${
    renderClientExample("python", "Python", formatPythonExample(request))
  }${renderClientExample("client", "TypeScript", formatTypeScriptExample(request))}</div>
<form id="try" data-path="${request.path}" data-key="${request.needsKey ? "yes" : "no"}"
data-client-method="${request.clientMethod}" hidden>
<p class="field"><button class="main">Send</button>${
    hasParameters && markup` <a href="#parameters">Change the parameters</a>`
  }</p></form>
<section id="response-section" tabindex="-1" aria-label="Response"><div id="state" class="state" role="status"></div>
<div id="response">${response}</div></section>`

/** Renders which tier the endpoint requires, and whether requests are charged. */
const renderAccess = ({ isPriced, row }: CatalogueEndpoint) => {
  const access = row.tier === null
    ? "No API key required."
    : markup`Requires an API key of tier <b>${row.tier}</b> or higher.`
  const price = isPriced
    ? markup`<a href="${getPagePath("cost")}">Charged</a> by the size of the response.`
    : "Free of charge."
  return markup`<p class="quiet">${access} ${price}</p>`
}

type Example = ReturnType<typeof examplesOf>[number]

const renderFirstExample = ({ body, request }: Example) =>
  markup`<p>Example response from the sample data to ${
    renderInlineCode(request)
  }: <span class="badge good">200</span></p>
${body}`

const renderOtherExample = ({ body, name, request, status }: Example) =>
  markup`<details class="example"><summary><span class="badge ${
    status < 400 ? "good" : "bad"
  }">${status}</span> ${name}: ${renderInlineCode(request)}</summary>${body}</details>`

const renderResponseFields = (operation: unknown) => {
  const fields = describeEndpointFields(operation)
  return fields.length > 0 &&
    renderTable(["Field", "Meaning"], fields.map(({ cells }) => cells), { label: "Response fields" })
}

/**
 * Renders the reference page of an endpoint from its operation in the OpenAPI document. The first example with status
 * 200 becomes the example request: its parameters fill in the form, and its body is shown as the response. The other
 * examples follow below. Streams have no form, because the page cannot show a response without an end.
 */
const renderEndpointPage = (endpoint: CatalogueEndpoint, serviceUrl: string) => {
  const { isEndless, row, title } = endpoint
  const operation = getEndpointOperation(endpoint)
  const success = resolveSchemaReference(getValueAt(operation, "responses", "200"))
  const examples = examplesOf(operation)
  const firstExample = examples.find(({ status }) => status === 200)
  const otherExamples = examples.filter((example) => example !== firstExample).map(renderOtherExample)
  const exampleTarget = firstExample?.request ?? row.path
  const parameters = listParameters(operation, new URL(exampleTarget, defaultServerUrl).searchParams)
  const request = {
    serviceUrl,
    path: row.path,
    parameters: parameters.filter(({ value }) => value !== ""),
    needsKey: row.tier !== null,
    // The client libraries have no method for endpoints that do not return JSON.
    clientMethod: getValueAt(success, "content", "application/json") === undefined ? "" : toEndpointName(row.path),
  }
  const sections = [
    section("parameters", "Parameters", renderParameters(parameters, !isEndless)),
    section("response-fields", "Response fields", renderResponseFields(operation)),
    section("response-headers", "Response headers", renderHeaders(success)),
    section("examples", "More examples", otherExamples.length > 0 && otherExamples),
    section("errors", "Errors", renderErrors(operation)),
  ]
  return {
    description: row.description,
    search: makeEndpointSearchEntry(endpoint),
    body: markup`<h1>${title}</h1>
<p>${renderProse(row.description)}</p>
${renderDeprecation(endpoint)}
<p class="endpoint"><span class="badge good">GET</span> ${renderInlineCode(row.path)}</p>
${renderAccess(endpoint)}
${renderCorrectionLinks(endpoint)}${
      // Without `-N`, curl buffers its output and prints nothing until many events have arrived.
      isEndless
        ? renderHighlightedCode("sh", formatCurlExample(request, "-N "))
        : renderRequestForm(request, parameters.length > 0, firstExample && renderFirstExample(firstExample))}
${sections}`,
  }
}

const overview: SitePage = {
  path: referenceOverviewPath,
  title: "API reference",
  section: "Reference",
  scripts: [],
  render: () => ({
    description: "Every endpoint with its parameters, fields, examples and errors. Send requests with your own key.",
    body: markup`<h1>API reference</h1>
<p>Every endpoint with its parameters, fields, examples and errors. Each page can send requests with your key.</p>
<p>The same is available as an <a href="/v1/openapi.json">OpenAPI 3.1 document</a>, from which you can generate clients.
All requests use <code>GET</code>; send your key in the header <code>Authorization: Bearer …</code> or
<code>X-API-Key</code>.</p>
<h2 id="data">Data</h2>
${renderEndpointTable({ isPriced: true })}
<h2 id="free">Free of charge</h2>
${renderEndpointTable({ isPriced: false })}`,
  }),
}

/**
 * Creates the pages of the API reference: the overview and a page for each endpoint. Their examples contain this
 * service's base URL. Throws if two endpoints would have pages with the same path, which stops the service at startup.
 */
export const makeReferencePages = Effect.map(BaseUrl, (baseUrl): ReadonlyArray<SitePage> => {
  const pages = declaredEndpoints.map((endpoint): SitePage => ({
    path: getReferencePagePath(endpoint.row.path),
    title: endpoint.title,
    section: "Endpoints",
    scripts: endpoint.isEndless ? [] : ["try-request.js"],
    render: () => renderEndpointPage(endpoint, baseUrl === "" ? defaultServerUrl : baseUrl),
  }))
  if (new Set(pages.map(({ path }) => path)).size < pages.length) {
    throw new Error("Two endpoints have the same reference page.")
  }
  return [overview, ...pages]
})
