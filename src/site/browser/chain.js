/** An answer of `/v1/ticker-changes` drawn and told: a chain, or why it is refused. Pure. */
import { legend } from "./issuers.js"
import { explain, issuerOf, markOf, read, summary } from "./record.js"
import { escape, widths } from "./svg.js"
import { draw } from "./timeline.js"

/** @typedef {import("./record.js").Answer} Answer */
/** @typedef {import("./record.js").Change} Change */

/** @param {Change} change */
const item = (change) => {
  const issuer = issuerOf(change)
  const clash = change.reasons.length === 0
    ? ""
    : ` <strong class="clash">Clashes: ${escape(change.reasons.map(markOf).join("; "))}.</strong>`
  const { date, from, to } = change
  return `<li><time datetime="${escape(date)}">${escape(date)}</time>: <b>${escape(from)}</b> became <b>${
    escape(to)
  }</b>${issuer === undefined ? "" : `, ${escape(issuer)}`}.${clash}</li>`
}

/** @param {Answer} answer */
const offered = ({ candidates }) =>
  candidates.length === 0
    ? ""
    : `<p>What stands alone, each issuer by itself:</p><ul>${
      candidates.map((one) =>
        `<li>${escape(issuerOf(one) ?? "")}: ${
          escape([
            one.changes[0]?.from ?? "",
            ...one.changes.map(({ date, to }) => `${to} (${date})`),
          ].join(" → "))
        }</li>`
      ).join("")
    }</ul>`

/** @param {Answer} answer */
const reasons = (answer) =>
  answer.reasons.length === 0
    ? ""
    : `<ul class="reasons">${
      answer.reasons.map((reason) => `<li><code>${escape(reason)}</code> ${escape(explain(answer, reason))}</li>`).join(
        "",
      )
    }</ul>`

/** The issuer of each colour, and the mark of a change that clashes. @param {Answer} answer */
const key = (answer) => {
  const issuers = legend(answer)
  if (issuers.length === 0) return ""
  const line = (/** @type {string} */ shape, /** @type {string} */ text) =>
    `<li><svg class="chain swatch" viewBox="0 0 24 16" aria-hidden="true">${shape}</svg> ${escape(text)}</li>`
  const lines = issuers.map(({ colour, issuer }) =>
    line(
      `<rect class="bar ${colour}" x="0" y="2" width="24" height="12"/>`,
      (issuer === undefined ? undefined : issuerOf(issuer)) ?? "Issuer not on record",
    )
  )
  const clashes = answer.changes.some(({ reasons }) => reasons.length > 0)
    ? [line(`<path class="clashing" d="M12 0l8 8l-8 8l-8 -8z"/>`, "A change that clashes")]
    : []
  return `<ul class="legend" aria-label="Colours of the picture">${[...lines, ...clashes].join("")}</ul>`
}

/**
 * The body of a 200 or 409 of `/v1/ticker-changes`, drawn and told, as HTML; undefined where it is none.
 * @param {unknown} body
 * @param {{ readonly id: string, readonly today: string, readonly brief?: boolean }} how `id` is unique on the page;
 *   `today` is `YYYY-MM-DD`; `brief` leaves out the list of changes
 */
export const figure = (body, { brief = false, id, today }) => {
  const answer = read(body)
  if (answer === undefined) return undefined
  const pictures = answer.changes.length === 0
    ? ""
    : widths.map(([kind, width]) => draw(answer, { id, today, kind, width })).join("")
  const left = answer.count - answer.changes.length
  const list = answer.changes.length === 0
    ? ""
    : `<ol>${answer.changes.map(item).join("")}</ol>${left > 0 ? `<p>${left} more changes are on record.</p>` : ""}`
  const more = brief ? "" : `${reasons(answer)}${list}${offered(answer)}`
  return `<figure class="lineage ${answer.kind}">${pictures}${key(answer)}<figcaption><p class="summary">${
    escape(summary(answer))
  }</p>${more}</figcaption></figure>`
}
