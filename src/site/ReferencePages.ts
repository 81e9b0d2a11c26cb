/** The API reference: an overview, and for each endpoint a page made from the OpenAPI document. */
import { Effect } from "effect"
import { type CatalogueEndpoint, endpoints } from "../catalogue/Endpoints.ts"
import { openApiDocument } from "../catalogue/OpenApiDocument.ts"
import { getIn } from "../catalogue/Schemas.ts"
import { BaseUrl } from "../http/Middleware.ts"
import { inlineCode, renderEndpointTable, renderProse } from "./blocks/Tables.ts"
import { escapeHtml } from "./Html.ts"
import { exampleServiceUrl } from "./Guides.ts"
import { renderCodeBlock } from "./Markdown.ts"
import { type Page, pagePath as pageAt, referenceOverviewPath, referencePagePath } from "./Page.ts"
import { parameterRows } from "./Parameters.ts"
import {
  allowedValues,
  entriesAt,
  fieldRows,
  followReference,
  listAt,
  nonNullAlternatives,
  responsesOf,
  textAt,
  uniqueRows,
} from "./SchemaDescriptions.ts"
import { renderHtmlTable } from "./Table.ts"
import { apiKeyForm } from "./ToolPages.ts"

/** The examples of an operation, 200 first. */
const examplesOf = (operation: unknown) =>
  responsesOf(operation).flatMap(([status, response]) =>
    entriesAt(response, "content", "application/json", "examples").map(([name, one]) => ({
      name,
      status: Number(status),
      request: textAt(one, "summary"),
      text: JSON.stringify(getIn(one, "value"), null, 2),
    }))
  ).toSorted((left, right) => left.status - right.status)

const section = (id: string, title: string, body: string) =>
  body === "" ? "" : `<h2 id="${id}">${title}</h2>\n${body}\n`

const codesOf = (response: unknown) =>
  Array.from(
    new Set(
      nonNullAlternatives(getIn(response, "content", "application/json", "schema")).flatMap((kind) =>
        allowedValues(getIn(followReference(getIn(kind, "properties", "error")), "properties", "code"))
      ),
    ),
  )

const errorsOf = (operation: unknown) => {
  const rows = responsesOf(operation).filter(([status]) => Number(status) >= 400)
    .map(([status, response]) => [
      status,
      codesOf(response).map(inlineCode).join(" "),
      renderProse(textAt(response, "description")),
    ])
  return rows.length === 0
    ? ""
    : `${renderHtmlTable(["Status", "Code", "Meaning"], rows, { label: "Errors" })}<p><a href="${
      pageAt("errors")
    }">Errors and retries</a> says what to do about each.</p>`
}

const headersOf = (response: unknown) => {
  const rows = entriesAt(response, "headers").map((
    [name, header],
  ) => [inlineCode(name), renderProse(textAt(followReference(header), "description"))])
  return rows.length === 0 ? "" : renderHtmlTable(["Header", "Meaning"], rows, { label: "Response headers" })
}

const notice = ({ deprecation: life, row }: CatalogueEndpoint) =>
  life._tag === "None"
    ? ""
    : `<div class="notice"><p><strong>Deprecated</strong> since ${escapeHtml(life.value.announced)}. Use <a href="${
      referencePagePath(life.value.successor)
    }">${inlineCode(life.value.successor)}</a>. ${renderProse(life.value.note)} ${
      row.sunset === null ? "No end date is set." : `It ends after ${escapeHtml(row.sunset)}.`
    }</p></div>`

const isDocumented = ({ row }: CatalogueEndpoint) => getIn(openApiDocument, "paths", row.path, "get") !== undefined

const page = (endpoint: CatalogueEndpoint, origin: string): Page => {
  const { isPriced: charged, row } = endpoint
  const operation = getIn(openApiDocument, "paths", row.path, "get")
  const examples = examplesOf(operation)
  const first = examples.find(({ status }) => status === 200)
  const request = first?.request ?? row.path
  const asked = new URL(request, exampleServiceUrl).searchParams
  const parameters = parameterRows(operation, asked)
  const header = row.tier === null ? "" : `-H "Authorization: Bearer $TICKERLINE_KEY" \\\n  `
  const title = row.label.replace("DEPRECATED ", "")
  const success = followReference(getIn(operation, "responses", "200"))
  const fields = uniqueRows(fieldRows(getIn(success, "content", "application/json", "schema")))
  const block = (text: string) => renderCodeBlock("json", text)
  const others = examples.filter((one) => one !== first)
  return {
    path: referencePagePath(row.path),
    title,
    description: row.description,
    section: "Endpoints",
    scripts: ["reference.js"],
    search: {
      title: `${title}, ${row.path}`,
      text: [
        row.description,
        ...listAt(operation, "parameters").map((one) => textAt(one, "name")),
        ...fields.map(([cell = ""]) => (/<code>(.*?)<\/code>/.exec(cell)?.[1] ?? "").split(".").at(-1) ?? ""),
      ].join(" "),
    },
    body: `<h1>${escapeHtml(title)}</h1>
<p>${renderProse(row.description)}</p>
${notice(endpoint)}
<p class="endpoint"><span class="badge good">GET</span> ${inlineCode(row.path)}</p>
<p class="quiet">${
      row.tier === null ? "Open without a key" : `Needs a key of the tier <b>${row.tier}</b> or higher`
    }, ${
      charged ? `and <a href="${pageAt("cost")}">costs</a> what the bytes of its answer cost` : "free of charge"
    }.</p>
<h2 id="try-it">Try it</h2>
${row.tier === null ? "" : apiKeyForm}
<p class="quiet" id="without-scripts">With JavaScript, this page sends the request and shows the answer.</p>
<div id="request">${renderCodeBlock("sh", `curl ${header}"${origin}${request}"`)}</div>
<form id="try" data-path="${escapeHtml(row.path)}" data-key="${row.tier === null ? "no" : "yes"}" hidden>
<p class="field"><button class="main">Send</button>${
      parameters.length === 0 ? "" : ` <a href="#parameters">Change the parameters</a>`
    }</p></form>
<div id="state" class="state" role="status"></div>
<div id="answer">${
      first === undefined ? "" : `<p>Example of an answer, over the sample data: <span class="badge good">200</span></p>
${block(first.text)}`
    }</div>
${
      section(
        "parameters",
        "Parameters",
        parameters.length === 0
          ? ""
          : `<div class="parameters">${
            renderHtmlTable(["Parameter", "Value", "Meaning"], parameters, { label: "Parameters" })
          }</div>`,
      )
    }${
      section(
        "answer-fields",
        "Fields of the answer",
        fields.length === 0 ? "" : renderHtmlTable(["Field", "Meaning"], fields, { label: "Fields of the answer" }),
      )
    }${section("response-headers", "Response headers", headersOf(success))}${
      section(
        "examples",
        "More examples",
        others.map(({ name, request, status, text }) =>
          `<details class="example"><summary><span class="badge ${status < 400 ? "good" : "bad"}">${status}</span> ${
            escapeHtml(name)
          }: ${inlineCode(request)}</summary>${block(text)}</details>`
        ).join(""),
      )
    }${section("errors", "Errors", errorsOf(operation))}`,
  }
}

const overview: Page = {
  path: referenceOverviewPath,
  title: "API reference",
  description: "Every endpoint with its parameters, fields, examples and errors; requests can be tried with your key.",
  section: "Reference",
  scripts: [],
  body: `<h1>API reference</h1>
<p>Every endpoint with its parameters, fields, examples and errors. Each page sends requests with your key.</p>
<p>Programs read the same as an <a href="/v1/openapi.json">OpenAPI 3.1 document</a>, which can generate clients.
Every request is a <code>GET</code>; the key goes into the header <code>Authorization: Bearer …</code> or
<code>X-API-Key</code>.</p>
<h2 id="data">Data</h2>
${renderEndpointTable({ free: false })}
<h2 id="free">Free of charge</h2>
${renderEndpointTable({ free: true })}`,
}

export const renderReference = Effect.map(BaseUrl, (base): ReadonlyArray<Page> => {
  const pages = endpoints.filter(isDocumented).map((endpoint) => page(endpoint, base === "" ? exampleServiceUrl : base))
  const paths = new Set(pages.map(({ path }) => path))
  if (paths.size < pages.length) throw new Error("Two endpoints have the same reference page.")
  return [overview, ...pages]
})
