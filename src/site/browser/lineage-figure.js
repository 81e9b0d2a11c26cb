/** Renders a `/v1/ticker-changes` response (a chain or a refusal) as a figure with a timeline and text. Pure. */
import {
  explainRefusalReason,
  formatIssuer,
  getReasonLabel,
  parseLineage,
  summarizeLineage,
} from "./lineage-response.js"
import { drawLineageTimeline, makeTimelineLegend } from "./lineage-timeline.js"
import { escapeMarkup, figureLayouts, renderInlineCode, renderTextElement } from "./markup.js"

/** @typedef {import("./lineage-response.js").Change} Change */
/** @typedef {import("./lineage-response.js").Lineage} Lineage */

/** @param {Change} change */
const renderChange = (change) => {
  const { date, from, reasons, to } = change
  const issuer = formatIssuer(change)
  const conflict = reasons.length === 0
    ? ""
    : ` ${renderTextElement("strong", { class: "clash" }, `Conflict: ${reasons.map(getReasonLabel).join("; ")}.`)}`
  return `<li>${renderTextElement("time", { datetime: date }, date)}: ${renderTextElement("b", {}, from)} became ${
    renderTextElement("b", {}, to)
  }${issuer === undefined ? "" : `, ${escapeMarkup(issuer)}`}.${conflict}</li>`
}

/** @param {Lineage} lineage @param {((cik: string) => string) | undefined} candidateHref */
const renderCandidates = ({ candidateCount, candidates }, candidateHref) => {
  if (candidates.length === 0) return ""
  const items = candidates.map((candidate) => {
    const symbols = [candidate.changes[0]?.from ?? "", ...candidate.changes.map(({ date, to }) => `${to} (${date})`)]
    const issuer = formatIssuer(candidate) ?? ""
    const title = candidateHref === undefined
      ? escapeMarkup(issuer)
      : renderTextElement("a", { href: candidateHref(candidate.cik) }, issuer)
    return `<li>${title}: ${escapeMarkup(symbols.join(" → "))}</li>`
  })
  const hint = candidateHref === undefined ? ":" : ". Choose one to see the events of its company:"
  const omitted = candidateCount - candidates.length
  const note = omitted > 0 ? `<p>There are ${omitted} more issuers.</p>` : ""
  return `<p>The unambiguous chains of single issuers${hint}</p><ul>${items.join("")}</ul>${note}`
}

/** @param {Lineage} lineage */
const renderReasons = (lineage) =>
  lineage.reasons.length === 0
    ? ""
    : `<ul class="reasons">${
      lineage.reasons.map((reason) =>
        `<li>${renderInlineCode(reason)} ${escapeMarkup(explainRefusalReason(lineage, reason))}</li>`
      )
        .join("")
    }</ul>`

/** @param {Lineage} lineage */
const renderLegend = (lineage) => {
  const issuers = makeTimelineLegend(lineage)
  if (issuers.length === 0) return ""
  /** @param {string} shape @param {string} label */
  const item = (shape, label) =>
    `<li><svg class="chain swatch" viewBox="0 0 24 16" aria-hidden="true">${shape}</svg> ${escapeMarkup(label)}</li>`
  const items = issuers.map(({ colour, change }) =>
    item(
      `<rect class="bar ${colour}" x="0" y="2" width="24" height="12"/>`,
      (change === undefined ? undefined : formatIssuer(change)) ?? "Unknown issuer",
    )
  )
  if (lineage.changes.some(({ reasons }) => reasons.length > 0)) {
    items.push(item(`<path class="clashing" d="M12 0l8 8l-8 8l-8 -8z"/>`, "A change with a conflict"))
  }
  return `<ul class="legend" aria-label="Legend">${items.join("")}</ul>`
}

/** @param {Lineage} lineage */
const renderChanges = ({ changes, count }) => {
  if (changes.length === 0) return ""
  const omitted = count - changes.length
  const note = omitted > 0 ? `<p>There are ${omitted} more changes.</p>` : ""
  return `<ol>${changes.map(renderChange).join("")}</ol>${note}`
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
    ? ""
    : renderReasons(lineage) + renderChanges(lineage) + renderCandidates(lineage, candidateHref)
  return `<figure class="lineage ${lineage.kind}">${timelines.join("")}${renderLegend(lineage)}<figcaption>${
    renderTextElement("p", { class: "summary" }, summarizeLineage(lineage))
  }${details}</figcaption></figure>`
}
