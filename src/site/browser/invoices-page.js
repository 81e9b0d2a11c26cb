/** The page with the invoices: a list of months, and the invoice of the month in the fragment of the address. */
import { activateKeyForm, hasApiKey, requestWithKey } from "./api-key.js"
import { createElement, makeLatestRequestSignal, parseHtml, requireElement } from "./dom.js"
import { createErrorNotice } from "./error-notice.js"
import { getNumberAt, getTextAt, getValueAt } from "./json-values.js"
import { loadEveryPage } from "./list-pages.js"
import { makeNumericColumn, markup, renderInlineCode, renderTable } from "./markup.js"
import { formatDollars, formatInteger } from "./number-format.js"

/** @typedef {import("./api-key.js").ApiResponse} ApiResponse */

const state = requireElement("state", HTMLElement)
const months = requireElement("months", HTMLElement)
const shown = requireElement("invoice", HTMLElement)

/** @param {unknown} row @param {string} field */
const formatCount = (row, field) => formatInteger(getNumberAt(row, field) ?? 0)

/** @param {unknown} row */
const formatCost = (row) => formatDollars(getNumberAt(row, "cost_microdollars") ?? 0)

/** @param {string} title */
const money = (title) => makeNumericColumn(`${title}, USD`)

/** Renders a table with a link to each invoice. @param {ReadonlyArray<unknown>} invoices */
const renderInvoiceList = (invoices) =>
  renderTable(
    ["Month", ...["Lines", "Requests", "Bytes"].map(makeNumericColumn), money("Cost")],
    invoices.map((invoice) => {
      const month = getTextAt(invoice, "month") ?? ""
      return [
        markup`<a href="#${month}">${month}</a>`,
        ...["lines", "requests", "bytes"].map((field) => formatCount(invoice, field)),
        formatCost(invoice),
      ]
    }),
    { label: "Invoices" },
  )

/** @param {unknown} line */
const renderLine = (line) => {
  const price = getNumberAt(line, "price_per_gb_microdollars")
  return [
    formatCount(line, "line"),
    markup`<time>${getTextAt(line, "usage_date") ?? ""}</time>`,
    renderInlineCode(getTextAt(line, "endpoint") ?? ""),
    getTextAt(line, "kind") ?? "",
    formatCount(line, "requests"),
    formatCount(line, "bytes"),
    price === undefined ? "—" : formatDollars(price),
    formatCost(line),
  ]
}

/**
 * Renders an invoice with its lines.
 * @param {unknown} account
 * @param {unknown} invoice
 * @param {ReadonlyArray<unknown>} lines
 */
const renderInvoice = (account, invoice, lines) => {
  const closed = (getTextAt(invoice, "closed_at") ?? "").slice(0, 19).replace("T", " ")
  const facts = [
    ["Account", `${getTextAt(account, "name") ?? "—"} (${getNumberAt(account, "account_id") ?? "—"})`],
    ["Total", formatCost(invoice)],
    ["Requests", formatCount(invoice, "requests")],
    ["Bytes", formatCount(invoice, "bytes")],
    ["Closed", `${closed} -05:00`],
    ["SHA-256", getTextAt(invoice, "digest") ?? "—"],
  ]
  const list = facts.map(([name = "", value = ""]) => markup`<div><dt>${name}</dt><dd class="long">${value}</dd></div>`)
  const table = renderTable(
    [
      makeNumericColumn("Line"),
      "Day",
      "Endpoint",
      "Kind",
      makeNumericColumn("Requests"),
      makeNumericColumn("Bytes"),
      money("Price per GB"),
      money("Cost"),
    ],
    lines.map(renderLine),
    { label: "Lines" },
  )
  return markup`<h2>Invoice for ${getTextAt(invoice, "month") ?? ""}</h2>
<dl class="facts">${list}</dl>
${lines.length === 0 ? markup`<p>No requests.</p>` : table}`
}

const latestSignal = makeLatestRequestSignal()

/** Loads the invoices, and shows the one in the address, or the newest. */
const load = async () => {
  const signal = latestSignal()
  months.replaceChildren()
  shown.replaceChildren()
  state.textContent = hasApiKey() ? "Loading…" : ""
  if (!hasApiKey()) return
  /** @param {ApiResponse} response */
  const fail = (response) => {
    if (!signal.aborted) state.replaceChildren(createErrorNotice(response, () => void load()))
  }
  const account = await requestWithKey("/v1/account", signal)
  if (account.status !== 200) return fail(account)
  const invoices = await loadEveryPage("/v1/account/invoices", signal)
  if (invoices.failure !== undefined) return fail(invoices.failure)
  const month = location.hash.slice(1) || getTextAt(invoices.rows[0], "month")
  const invoice = invoices.rows.find((row) => getTextAt(row, "month") === month)
  const lines = invoice === undefined
    ? { rows: [], failure: undefined }
    : await loadEveryPage(`/v1/account/invoice-lines?month=${month}`, signal)
  if (lines.failure !== undefined) return fail(lines.failure)
  if (signal.aborted) return
  if (invoices.rows.length === 0) {
    state.textContent = "No month is closed yet."
    return
  }
  state.textContent = invoice === undefined ? `There is no invoice for ${month}.` : ""
  months.replaceChildren(parseHtml(renderInvoiceList(invoices.rows)))
  if (invoice === undefined) return
  const print = createElement("button", { type: "button", class: "quiet screen-only" }, "Print")
  print.addEventListener("click", () => globalThis.print())
  shown.replaceChildren(parseHtml(renderInvoice(getValueAt(account.body, "results", 0), invoice, lines.rows)), print)
}

activateKeyForm(() => void load())
addEventListener("hashchange", () => void load())
void load()
