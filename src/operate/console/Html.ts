/** HTML elements that the console's pages share. */
import { type Column, type HtmlValue, markup, renderTable } from "../../site/browser/markup.js"

/** Renders a table, or a sentence if there are no rows. The first cell of each row is the row header. */
export const renderRows = (
  label: string,
  columns: ReadonlyArray<Column>,
  rows: ReadonlyArray<ReadonlyArray<HtmlValue>>,
  ifEmpty = "None.",
) => rows.length === 0 ? markup`<p>${ifEmpty}</p>` : renderTable(columns, rows, { label })

/** Renders a timestamp, such as `2026-03-02T09:30:00-05:00`, in a readable format. */
export const renderTime = (time: string | null, ifNull = "–") =>
  time === null ? ifNull : markup`<time datetime="${time}">${time.slice(0, 19).replace("T", " ")} UTC-5</time>`

/** Renders text chosen by customers, which may consist of a single long word. */
export const renderBreakableText = (text: string) => markup`<span class="long">${text}</span>`

/** Renders a short highlighted label. */
export const renderBadge = (text: string, kind: "bad" | "good" | "quiet" | "warn") =>
  markup`<span class="badge ${kind}">${text}</span>`

/** Renders a list of terms with their values. */
export const renderFacts = (facts: ReadonlyArray<readonly [string, HtmlValue]>) =>
  markup`<dl class="facts">${facts.map(([term, value]) => markup`<div><dt>${term}</dt><dd>${value}</dd></div>`)}</dl>`
