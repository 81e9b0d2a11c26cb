/**
 * Builds HTML in which every text is escaped: a value in the template `markup` becomes text unless it is `Html` itself.
 */
import { type Column, escapeMarkup, renderTable } from "../../site/browser/markup.js"

/** Complete markup. Only `markup`, and the functions of the site that escape their values, make it. */
export class Html {
  readonly #markup: string
  constructor(markup: string) {
    this.#markup = markup
  }
  toString() {
    return this.#markup
  }
}

/** A part of a template. `false`, `null` and `undefined` are left out. */
export type HtmlValue = Html | string | number | false | null | undefined | ReadonlyArray<HtmlValue>

const isList = (value: HtmlValue): value is ReadonlyArray<HtmlValue> => Array.isArray(value)

const toMarkup = (value: HtmlValue): string => {
  if (value === false || value === null || value === undefined) return ""
  if (isList(value)) return value.map(toMarkup).join("")
  return value instanceof Html ? value.toString() : escapeMarkup(String(value))
}

/** The tag of templates, such as markup`<p>${text}</p>`. Attributes must be in double quotes. */
export const markup = (parts: TemplateStringsArray, ...values: ReadonlyArray<HtmlValue>) =>
  new Html(parts.map((part, index) => part + toMarkup(values[index])).join(""))

/** Renders a table, or a sentence if there are no rows. The first cell is the header of its row. */
export const renderRows = (
  label: string,
  columns: ReadonlyArray<Column>,
  rows: ReadonlyArray<ReadonlyArray<HtmlValue>>,
  ifEmpty = "None.",
) =>
  rows.length === 0
    ? markup`<p>${ifEmpty}</p>`
    : new Html(renderTable(columns, rows.map((row) => row.map(toMarkup)), { label }))

/** Renders a time such as `2026-03-02T09:30:00-05:00`. */
export const renderTime = (time: string | null, ifNull = "–") =>
  time === null ? ifNull : markup`<time datetime="${time}">${time.slice(0, 19).replace("T", " ")} UTC-5</time>`

/** Renders text that customers choose, which may be one long word. */
export const renderLong = (text: string) => markup`<span class="long">${text}</span>`

export const renderBadge = (text: string, kind: "bad" | "good" | "quiet" | "warn") =>
  markup`<span class="badge ${kind}">${text}</span>`

/** Renders pairs of a term and its value. */
export const renderFacts = (facts: ReadonlyArray<readonly [string, HtmlValue]>) =>
  markup`<dl class="facts">${facts.map(([term, value]) => markup`<div><dt>${term}</dt><dd>${value}</dd></div>`)}</dl>`
