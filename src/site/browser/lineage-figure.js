/** Renders a `/v1/ticker-changes` response (a chain or a refusal) as a figure with a timeline and text. Pure. */
import {
  explainRefusalReason,
  formatIssuer,
  getReasonLabel,
  parseLineage,
  summarizeLineage,
} from "./lineage-response.js"
import { drawLineageTimeline, makeTimelineLegend } from "./lineage-timeline.js"
import { figureLayouts, markup, renderInlineCode, renderTextElement } from "./markup.js"

/** @typedef {import("./lineage-response.js").Change} Change */
/** @typedef {import("./lineage-response.js").Lineage} Lineage */

/** @param {Change} change */
const renderChange = (change) => {
  const { date, from, reasons, to } = change
  const issuer = formatIssuer(change)
  const conflict = reasons.length > 0 &&
    markup` <strong class="clash">Conflict: ${reasons.map(getReasonLabel).join("; ")}.</strong>`
  return markup`<li><time datetime="${date}">${date}</time>: <b>${from}</b> became <b>${to}</b>${
    issuer !== undefined && `, ${issuer}`
  }.${conflict}</li>`
}

/** @param {Lineage} lineage @param {((cik: string) => string) | undefined} candidateHref */
const renderCandidates = ({ candidateCount, candidates }, candidateHref) => {
  if (candidates.length === 0) return undefined
  const items = candidates.map((candidate) => {
    const symbols = [candidate.changes[0]?.from ?? "", ...candidate.changes.map(({ date, to }) => `${to} (${date})`)]
    const issuer = formatIssuer(candidate) ?? ""
    const title = candidateHref === undefined
      ? issuer
      : renderTextElement("a", { href: candidateHref(candidate.cik) }, issuer)
    return markup`<li>${title}: ${symbols.join(" → ")}</li>`
  })
  const hint = candidateHref === undefined ? ":" : ". Choose one to see the events of its company:"
  const omitted = candidateCount - candidates.length
  const note = omitted > 0 && markup`<p>There are ${omitted} more issuers.</p>`
  return markup`<p>The unambiguous chains of single issuers${hint}</p><ul>${items}</ul>${note}`
}

/** @param {Lineage} lineage */
const renderReasons = (lineage) =>
  lineage.reasons.length > 0 &&
  markup`<ul class="reasons">${
    lineage.reasons.map((reason) =>
      markup`<li>${renderInlineCode(reason)} ${explainRefusalReason(lineage, reason)}</li>`
    )
  }</ul>`

/** @param {Lineage} lineage */
const renderLegend = (lineage) => {
  const issuers = makeTimelineLegend(lineage)
  if (issuers.length === 0) return undefined
  /** @param {import("./markup.js").Html} shape @param {string} label */
  const item = (shape, label) =>
    markup`<li><svg class="chain swatch" viewBox="0 0 24 16" aria-hidden="true">${shape}</svg> ${label}</li>`
  const items = issuers.map(({ colour, change }) =>
    item(
      markup`<rect class="bar ${colour}" x="0" y="2" width="24" height="12"/>`,
      (change === undefined ? undefined : formatIssuer(change)) ?? "Unknown issuer",
    )
  )
  if (lineage.changes.some(({ reasons }) => reasons.length > 0)) {
    items.push(item(markup`<path class="clashing" d="M12 0l8 8l-8 8l-8 -8z"/>`, "A change with a conflict"))
  }
  return markup`<ul class="legend" aria-label="Legend">${items}</ul>`
}

/** @param {Lineage} lineage */
const renderChanges = ({ changes, count }) => {
  if (changes.length === 0) return undefined
  const omitted = count - changes.length
  const note = omitted > 0 && markup`<p>There are ${omitted} more changes.</p>`
  return markup`<ol>${changes.map(renderChange)}</ol>${note}`
}

/**
 * Renders the figure as HTML. Undefined if the body is neither a chain nor a refusal.
 * @param {unknown} body
 * @param {{ readonly id: string, readonly today: string, readonly isBrief?: boolean,
 *   readonly dates?: ReadonlyArray<string>, readonly candidateHref?: (cik: string) => string }} options `id` is unique
 *   on the page; the timeline includes `today` (`YYYY-MM-DD`) and the additional `dates`; a brief figure omits the
 *   reasons, changes and candidates; `candidateHref` links the candidates of a refusal
 */
export const renderLineageFigure = (body, { candidateHref, dates = [], id, isBrief = false, today }) => {
  const lineage = parseLineage(body)
  if (lineage === undefined) return undefined
  const timelines = lineage.changes.length === 0
    ? []
    : figureLayouts.map(([layout, width]) => drawLineageTimeline(lineage, { id, today, dates, layout, width }))
  const details = isBrief
    ? []
    : [renderReasons(lineage), renderChanges(lineage), renderCandidates(lineage, candidateHref)]
  return markup`<figure class="lineage ${lineage.kind}">${timelines}${renderLegend(lineage)}<figcaption>${
    renderTextElement("p", { class: "summary" }, summarizeLineage(lineage))
  }${details}</figcaption></figure>`
}
