/** The pages that ask the service with the visitor's key. Their text is here, and reads without scripts. */
import { endpoints } from "../catalogue/Endpoints.ts"
import { datasetEndpoints } from "../v1/datasets/DatasetEndpoints.ts"
import { escapeHtml } from "./Html.ts"
import { type Page, pagePath, referencePagePath } from "./Page.ts"
import { renderHtmlTable } from "./Table.ts"

/** The form for the visitor's key, the same on every page; `browser/key.js` handles it. */
export const apiKeyForm = `<form id="key-form" class="key" hidden>
<label for="key">Your API key</label>
<div class="field"><input id="key" type="password" autocomplete="off" autocapitalize="off" spellcheck="false"
 placeholder="tl_live_…" aria-describedby="key-state key-note">
<button type="button" class="quiet" id="key-show" aria-pressed="false">Show</button>
<button class="main">Use this key</button>
<button type="button" class="quiet" id="key-forget" hidden>Forget it</button></div>
<p class="quiet" id="key-state" role="status"></p>
<p class="quiet" id="key-note">It stays in this tab, and is sent to this service alone. What is asked with it counts as
 your requests.</p>
</form>`

/** What is read where no script runs; the first of them hides it. */
const withoutScripts = (what: string, path: string) =>
  `<div id="without-scripts"><div class="notice"><p>${what} needs JavaScript. The same is told by</p></div>
<div class="code" data-language="sh"><p class="language">Shell</p>
<pre tabindex="0"><code>curl -H "Authorization: Bearer $TICKERLINE_KEY" "$TICKERLINE_URL${
    escapeHtml(path)
  }"</code></pre></div></div>`

const state = `<div id="state" class="state" role="status"></div>`

/** Symbols of the sample data. */
const samples = [
  ["OSTK", "a chain of three changes"],
  ["META", "one symbol, two issuers"],
  ["GOOG", "two changes on one day"],
  ["MEGX", "its former symbol given up twice"],
  ["FNGU", "changes that do not connect"],
  ["BMR1", "given up, and taken back"],
] as const

const explorer: Page = {
  path: pagePath("explorer"),
  title: "Lineage explorer",
  description: "Type a symbol and see what it was called before and since, as a line of time, or why that is refused.",
  section: "Tools",
  scripts: ["explorer.js"],
  body: `<h1>Lineage explorer</h1>
<p>Type a symbol, one of today or a former one, and see the chain of changes that it belongs to, or why the record is no
 single chain and <a href="${pagePath("lineage")}">is refused</a>, with the changes that clash.</p>
${withoutScripts("The explorer", "/v1/ticker-changes?ticker=META")}
${apiKeyForm}
<form id="lineage-form" class="lineage-form" hidden>
<label for="symbol">Symbol</label>
<div class="field"><input id="symbol" type="text" autocomplete="off" autocapitalize="characters" spellcheck="false"
 size="12" aria-describedby="symbol-note"><button class="main">Show its lineage</button></div>
<p class="quiet" id="symbol-note">One to six letters, digits, dots, hyphens or carets. A chain costs what its bytes
 cost; a refusal is free.</p>
</form>
<nav id="samples" class="samples" aria-label="Symbols of the sample data" hidden>
<p>Symbols of the sample data:</p><ul>${
    samples.map(([symbol, what]) => `<li><a href="#${symbol}">${symbol}</a> <span>${what}</span></li>`).join("")
  }</ul></nav>
${state}
<div id="result"></div>`,
}

const account: Page = {
  path: pagePath("account"),
  title: "Your account",
  description: "Limits, balance, usage and cost by day, and the latest requests, with your own API key.",
  section: "Tools",
  scripts: ["account.js"],
  body: `<h1>Your account</h1>
<p>What your key may know of its account: tier and limits, what is left of the balance, usage and cost by day and by
 endpoint, and the latest requests. All of it is free of charge; how cost comes about is told in
 <a href="${pagePath("cost")}">Cost</a>.</p>
${withoutScripts("This page", "/v1/overview")}
${apiKeyForm}
${state}
<div id="result" hidden>
<h2 id="now">Now</h2>
<div id="facts"></div>
<div class="field"><label for="period">Show</label><select id="period"><option value="7">7 days</option>
<option value="30" selected>30 days</option><option value="90">90 days</option></select>
<button type="button" class="quiet" id="refresh">Ask again</button></div>
<h2 id="by-day">By day</h2>
<div id="days"></div>
<h2 id="by-endpoint">By endpoint</h2>
<div id="endpoints"></div>
<h2 id="latest-requests">Latest requests</h2>
<div id="latest"></div>
<h2 id="api-keys">API keys</h2>
<div id="keys"></div>
</div>`,
}

const labels = new Map(endpoints.map(({ row }) => [row.path, row.label]))

const datasetTable = renderHtmlTable(
  ["Dataset", "Endpoints", "Changed (-05:00)"],
  datasetEndpoints.map(({ dataset, endpoints }) => [
    `<code>${escapeHtml(dataset)}</code>`,
    endpoints.map((path) =>
      `<a href="${referencePagePath(path)}"><code>${escapeHtml(path)}</code></a> ${escapeHtml(labels.get(path) ?? "")}`
    ).join("<br>"),
    "",
  ]),
  {
    label: "All datasets",
    attributes: (row, column) =>
      column === 2 ? ` data-dataset="${escapeHtml(datasetEndpoints[row]?.dataset ?? "")}"` : "",
  },
)

const freshness: Page = {
  path: pagePath("datasets"),
  title: "Datasets",
  description: "Every dataset, the endpoints that answer from it, and when its rows changed last.",
  section: "Tools",
  scripts: ["datasets.js"],
  body: `<h1>Datasets</h1>
<p>Every dataset, the endpoints that answer from it, and when its rows changed last. <code>/v1/datasets</code> tells the
 same to programs, free of charge.</p>
<p>Whoever runs this service loads files into the datasets, or adds rows to them. A load replaces all rows of a dataset
 in one moment: until then you are answered from the old ones, and never from a half of the new. What you are answered
 is at most a second older than the data; an <code>ETag</code> tells you cheaply whether an answer is still the same
 (<a href="${pagePath("caching")}">Caching</a>).</p>
${withoutScripts("To see when they changed", "/v1/datasets?limit=100")}
${apiKeyForm}
${state}
<h2 id="all">All datasets</h2>
<div id="freshness"></div>
<div id="datasets" class="no-answer">${datasetTable}</div>`,
}

export const toolPages: ReadonlyArray<Page> = [explorer, account, freshness]
