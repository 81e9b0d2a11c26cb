/** The API reference: an overview, and for each endpoint a page made from the OpenAPI document. */
import { Effect } from "effect"
import { type Endpoint, endpoints } from "../catalogue/Endpoints.ts"
import { document } from "../catalogue/OpenApi.ts"
import { at } from "../catalogue/Schemas.ts"
import { BaseUrl } from "../http/Middleware.ts"
import { code, families, prose } from "./blocks/Tables.ts"
import { escape } from "./Html.ts"
import { example } from "./Guides.ts"
import { fence } from "./Markdown.ts"
import { at as pageAt, type Page, referenceOf, referencePath } from "./Page.ts"
import { parametersOf } from "./Parameters.ts"
import { choices, entriesAt, fieldsOf, kinds, listAt, resolved, responsesOf, textAt, unique } from "./Schemas.ts"
import { table } from "./Table.ts"
import { keyForm } from "./Tools.ts"

/** The examples of an operation, 200 first. */
const examplesOf = (operation: unknown) =>
  responsesOf(operation).flatMap(([status, response]) =>
    entriesAt(response, "content", "application/json", "examples").map(([name, one]) => ({
      name,
      status: Number(status),
      request: textAt(one, "summary"),
      text: JSON.stringify(at(one, "value"), null, 2),
    }))
  ).toSorted((left, right) => left.status - right.status)

const section = (id: string, title: string, body: string) =>
  body === "" ? "" : `<h2 id="${id}">${title}</h2>\n${body}\n`

const codesOf = (response: unknown) =>
  Array.from(
    new Set(
      kinds(at(response, "content", "application/json", "schema")).flatMap((kind) =>
        choices(at(resolved(at(kind, "properties", "error")), "properties", "code"))
      ),
    ),
  )

const errorsOf = (operation: unknown) => {
  const rows = responsesOf(operation).filter(([status]) => Number(status) >= 400)
    .map(([status, response]) => [
      status,
      codesOf(response).map(code).join(" "),
      prose(textAt(response, "description")),
    ])
  return rows.length === 0
    ? ""
    : `${table(["Status", "Code", "Meaning"], rows, { label: "Errors" })}<p><a href="${
      pageAt("errors")
    }">Errors and retries</a> says what to do about each.</p>`
}

const headersOf = (response: unknown) => {
  const rows = entriesAt(response, "headers").map((
    [name, header],
  ) => [code(name), prose(textAt(resolved(header), "description"))])
  return rows.length === 0 ? "" : table(["Header", "Meaning"], rows, { label: "Response headers" })
}

const notice = ({ life, row }: Endpoint) =>
  life._tag === "None"
    ? ""
    : `<div class="notice"><p><strong>Deprecated</strong> since ${escape(life.value.announced)}. Use <a href="${
      referenceOf(life.value.successor)
    }">${code(life.value.successor)}</a>. ${prose(life.value.note)} ${
      row.sunset === null ? "No end date is set." : `It ends after ${escape(row.sunset)}.`
    }</p></div>`

const isDocumented = ({ row }: Endpoint) => at(document, "paths", row.path, "get") !== undefined

const page = (endpoint: Endpoint, origin: string): Page => {
  const { charged, row } = endpoint
  const operation = at(document, "paths", row.path, "get")
  const examples = examplesOf(operation)
  const first = examples.find(({ status }) => status === 200)
  const request = first?.request ?? row.path
  const asked = new URL(request, example).searchParams
  const parameters = parametersOf(operation, asked)
  const header = row.tier === null ? "" : `-H "Authorization: Bearer $TICKERLINE_KEY" \\\n  `
  const title = row.label.replace("DEPRECATED ", "")
  const success = resolved(at(operation, "responses", "200"))
  const fields = unique(fieldsOf(at(success, "content", "application/json", "schema")))
  const block = (text: string) => fence("json", text)
  const others = examples.filter((one) => one !== first)
  return {
    path: referenceOf(row.path),
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
    body: `<h1>${escape(title)}</h1>
<p>${prose(row.description)}</p>
${notice(endpoint)}
<p class="endpoint"><span class="badge good">GET</span> ${code(row.path)}</p>
<p class="quiet">${
      row.tier === null ? "Open without a key" : `Needs a key of the tier <b>${row.tier}</b> or higher`
    }, ${
      charged ? `and <a href="${pageAt("cost")}">costs</a> what the bytes of its answer cost` : "free of charge"
    }.</p>
<h2 id="try-it">Try it</h2>
${row.tier === null ? "" : keyForm}
<p class="quiet" id="without-scripts">With JavaScript, this page sends the request and shows the answer.</p>
<div id="request">${fence("sh", `curl ${header}"${origin}${request}"`)}</div>
<form id="try" data-path="${escape(row.path)}" data-key="${row.tier === null ? "no" : "yes"}" hidden>
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
            table(["Parameter", "Value", "Meaning"], parameters, { label: "Parameters" })
          }</div>`,
      )
    }${
      section(
        "answer-fields",
        "Fields of the answer",
        fields.length === 0 ? "" : table(["Field", "Meaning"], fields, { label: "Fields of the answer" }),
      )
    }${section("response-headers", "Response headers", headersOf(success))}${
      section(
        "examples",
        "More examples",
        others.map(({ name, request, status, text }) =>
          `<details class="example"><summary><span class="badge ${status < 400 ? "good" : "bad"}">${status}</span> ${
            escape(name)
          }: ${code(request)}</summary>${block(text)}</details>`
        ).join(""),
      )
    }${section("errors", "Errors", errorsOf(operation))}`,
  }
}

const overview: Page = {
  path: referencePath,
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
${families({ free: false })}
<h2 id="free">Free of charge</h2>
${families({ free: true })}`,
}

export const reference = Effect.map(BaseUrl, (base): ReadonlyArray<Page> => {
  const pages = endpoints.filter(isDocumented).map((endpoint) => page(endpoint, base === "" ? example : base))
  const paths = new Set(pages.map(({ path }) => path))
  if (paths.size < pages.length) throw new Error("Two endpoints have the same reference page.")
  return [overview, ...pages]
})
