/**
 * Pages with scripts that call the API using the visitor's key. If JavaScript is disabled, they show an equivalent
 * `curl` command.
 */
import { catalogueEndpoints } from "../api/catalogue/Endpoints.ts"
import { getDefaultOpenApiDocument } from "../api/catalogue/OpenApiDocument.ts"
import { endpointsByDataset } from "../api/catalogue/DatasetEndpoints.ts"
import { getListAt, getTextAt } from "./browser/json-values.js"
import { joinMarkup, markup, renderCodeBlock, renderInlineCode, renderTable } from "./browser/markup.js"
import { getPagePath, getReferencePagePath, type SitePage } from "./SitePage.ts"

/**
 * The form in which visitors enter their API key. `browser/api-key.js` activates the form, and hides the input fields
 * once a key is set.
 */
export const apiKeyForm = markup`<div id="key-box" class="key" hidden>
<div class="field"><p id="key-state" role="status"></p>
<button type="button" class="quiet" id="key-change" aria-expanded="false" aria-controls="key-form">Change key</button>
<button type="button" class="quiet" id="key-forget">Forget key</button></div>
<form id="key-form">
<label for="key">Your API key</label>
<div class="field"><input id="key" type="password" autocomplete="off" autocapitalize="off" spellcheck="false"
 placeholder="tl_live_…" aria-describedby="key-state key-note">
<button type="button" class="quiet" id="key-show" aria-pressed="false">Show</button>
<button class="main">Use key</button></div>
<p class="quiet" id="key-note">The key stays in this tab and is sent to this service only. Requests from this page count
 toward the limits and the cost of your account.</p>
</form></div>`

/** Renders a notice for visitors without JavaScript. For all other visitors, a script hides the notice. */
const withoutScripts = (feature: string, path: string) =>
  markup`<div id="without-scripts"><div class="notice">
<p>${feature} needs JavaScript. This command requests the same data:</p></div>${
    renderCodeBlock("Shell", `curl -H "Authorization: Bearer $TICKERLINE_KEY" "$TICKERLINE_URL${path}"`)
  }</div>`

const state = markup`<div id="state" class="state" role="status"></div>`

const sampleSymbols = [
  ["OSTK", "a chain of three changes"],
  ["META", "one symbol, two issuers"],
  ["GOOG", "two changes on one day"],
  ["MEGX", "a former symbol replaced twice"],
  ["FNGU", "changes that do not connect"],
  ["BMR1", "replaced, then used again"],
] as const

/**
 * Returns the endpoints with the parameter `follow_lineage`, which can list a company's rows under each of its symbols.
 */
const listFollowingEndpoints = () =>
  catalogueEndpoints.filter(({ row }) =>
    getListAt(getDefaultOpenApiDocument(), "paths", row.path, "get", "parameters").some((parameter) =>
      getTextAt(parameter, "name") === "follow_lineage"
    )
  )

const explorer: SitePage = {
  path: getPagePath("explorer"),
  title: "Lineage explorer",
  section: "Tools",
  scripts: ["lineage-explorer.js"],
  render: () => ({
    description: "Enter a symbol to see its former and later symbols on a timeline, or why its history is ambiguous.",
    body: markup`<h1>Lineage explorer</h1>
<p>Enter a current or former symbol to see the chain of changes that it belongs to, and the events of the company. If
 the changes do not form a single chain, the explorer shows the conflicts and
 <a href="${getPagePath("lineage")}">why the service returns no chain</a>.</p>
${withoutScripts("The explorer", "/v1/ticker-changes?ticker=META")}
${apiKeyForm}
<form id="lineage-form" class="lineage-form" hidden>
<label for="symbol">Symbol</label>
<div class="field"><input id="symbol" type="text" autocomplete="off" autocapitalize="characters" spellcheck="false"
 size="12" aria-describedby="symbol-note"><button class="main">Show lineage</button></div>
<p class="quiet" id="symbol-note">One to six letters, digits, dots, hyphens or carets. A chain and the events of its
 company are charged by their size; a response without a chain is free.</p>
</form>
<nav id="samples" class="samples" aria-label="Symbols in the sample data" hidden>
<p>Symbols in the sample data:</p><ul class="links">${
      sampleSymbols.map(([symbol, note]) => markup`<li><a href="#${symbol}">${symbol}</a> <span>${note}</span></li>`)
    }</ul></nav>
${state}
<div id="result"></div>
<section id="company" aria-label="Company" hidden>
<h2>Events</h2>
<div id="events-state" class="state" role="status"></div>
<div id="events"></div>
<h2>Show this company's rows in</h2>
<ul class="links">${
      listFollowingEndpoints().map(({ row }) =>
        markup`<li><a href="${
          getReferencePagePath(row.path)
        }" data-path="${row.path}">${row.path}</a> <span>${row.label}</span></li>`
      )
    }</ul>
</section>`,
  }),
}

const account: SitePage = {
  path: getPagePath("account"),
  title: "Your account",
  section: "Tools",
  scripts: ["account-page.js"],
  render: () => ({
    description: "Limits, balance, daily usage and cost, recent requests and API keys of your account.",
    body: markup`<h1>Your account</h1>
<p>Limits, balance, daily usage and cost, recent requests and API keys of the account that your key belongs to. This
 page is free of charge; <a href="${getPagePath("cost")}">Cost</a> explains how other requests are charged.</p>
${withoutScripts("This page", "/v1/overview")}
${apiKeyForm}
${state}
<div id="result" hidden>
<h2 id="overview">Overview</h2>
<div id="facts"></div>
<div class="field"><label for="period">Period</label><select id="period"><option value="7">7 days</option>
<option value="30" selected>30 days</option><option value="90">90 days</option></select>
<button type="button" class="quiet" id="refresh">Refresh</button></div>
<h2 id="by-day">Usage by day</h2>
<div id="days"></div>
<h2 id="by-endpoint">Usage by endpoint</h2>
<div id="endpoints"></div>
<h2 id="latest-requests">Latest requests</h2>
<div id="latest"></div>
<h2 id="api-keys">API keys</h2>
<div id="keys"></div>
</div>`,
  }),
}

const invoices: SitePage = {
  path: getPagePath("your-invoices"),
  title: "Your invoices",
  section: "Tools",
  scripts: ["invoices-page.js"],
  render: () => ({
    description: "The closed months of your account, with every line, to read and to print.",
    body: markup`<div class="screen-only"><h1>Your invoices</h1>
<p>The closed months of the account that your key belongs to. <a href="${getPagePath("invoices")}">Invoices</a> explains
 the lines, and how you check them. This page is free of charge.</p>
${withoutScripts("This page", "/v1/account/invoices")}
${apiKeyForm}
${state}
<div id="months"></div></div>
<div id="invoice"></div>`,
  }),
}

/**
 * Renders the table of datasets with the endpoints that read them. The column "Last changed" is empty: a script fills
 * it with the help of the attribute `data-dataset` of its cells.
 */
const renderDatasetTable = () => {
  const labels = new Map(catalogueEndpoints.map(({ row }) => [row.path, row.label]))
  const link = (path: string) =>
    markup`<a href="${getReferencePagePath(path)}">${renderInlineCode(path)}</a> ${labels.get(path)}`
  return renderTable(
    ["Dataset", "Endpoints", "Last changed (-05:00)"],
    endpointsByDataset.map((
      { dataset, endpoints },
    ) => [renderInlineCode(dataset), joinMarkup(endpoints.map(link), markup`<br>`), ""]),
    {
      label: "All datasets",
      attributes: (row, column) => column === 2 && markup` data-dataset="${endpointsByDataset[row]?.dataset}"`,
    },
  )
}

const datasets: SitePage = {
  path: getPagePath("datasets"),
  title: "Datasets",
  section: "Tools",
  scripts: ["datasets-page.js"],
  render: () => ({
    description: "Every dataset, the endpoints that use it, and when its rows last changed.",
    body: markup`<h1>Datasets</h1>
<p>Every dataset, the endpoints that use it, and when its rows last changed. Programs can request the same from
 <code>/v1/datasets</code>, free of charge.</p>
<p>The operator of this service loads files into the datasets, or adds rows. A load replaces all rows of a dataset at
 once, so a response never mixes old and new rows. Responses are at most one second older than the data. Send an
 <code>ETag</code> to check whether a response has changed (<a href="${getPagePath("caching")}">Caching</a>).</p>
<p><a href="${
      getPagePath("corrections")
    }">Corrections</a> shows how often the rows of each dataset were corrected, and how
 late.</p>
${withoutScripts("The column with the last change", "/v1/datasets?limit=100")}
${apiKeyForm}
${state}
<h2 id="all">All datasets</h2>
<div id="freshness"></div>
<div id="datasets" class="without-times">${renderDatasetTable()}</div>`,
  }),
}

/** All pages whose scripts call the API with the visitor's key, in the order in which the navigation lists them. */
export const interactivePages: ReadonlyArray<SitePage> = [explorer, account, invoices, datasets]
