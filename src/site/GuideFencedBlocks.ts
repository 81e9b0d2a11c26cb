/**
 * Renders the fenced code blocks in guides whose language is a name such as `table` or `chain`. They stand for values
 * from the code, such as the list of errors, which guides would otherwise have to repeat.
 */
import { DateTime, Effect, Option } from "effect"
import { catalogueEndpoints } from "../api/catalogue/Endpoints.ts"
import { renderLineageFigure } from "./browser/lineage-figure.js"
import { markup, renderInlineCode, renderProse, renderTable } from "./browser/markup.js"
import type { GuideBlockRenderers } from "./Markdown.ts"
import { getPagePath } from "./SitePage.ts"
import { makeReferenceTables } from "./ReferenceTables.ts"

/**
 * Returns the day on which the timeline of a figure ends: 200 days after the last change in the response. The current
 * date is not used, because a guide must look the same whenever it is rendered.
 */
const timelineEnd = (body: string) => {
  const dates = Array.from(body.matchAll(/"effective_date":\s*"(\d{4}-\d{2}-\d{2})"/g), ([, date = ""]) => date)
  const last = DateTime.makeUnsafe(`${dates.toSorted().at(-1) ?? "2026-01-01"}T00:00:00Z`)
  return DateTime.formatIsoDate(DateTime.add(last, { days: 200 }))
}

/**
 * Renders a block such as `chain META`, whose text is the response of `/v1/ticker-changes?ticker=META`, as a figure of
 * the symbols on a timeline, with details below it. `chain META picture` renders only the timeline. `argument` is the
 * text after `chain`.
 */
const renderLineageBlock = (body: string, argument: string) => {
  const [symbol = "", variant = ""] = argument.split(" ")
  // A newly added block is empty until `test/docs/examples.test.ts` is run with `UPDATE_EXAMPLES=1`.
  if (body.trim() === "") return markup``
  const figure = renderLineageFigure(JSON.parse(body), {
    id: `chain-${symbol.toLowerCase()}`,
    today: timelineEnd(body),
    isBrief: variant === "picture",
  })
  if (figure === undefined) {
    throw new Error(`docs: the block is not a response of /v1/ticker-changes?ticker=${symbol}: ${body}`)
  }
  return markup`${figure}\n`
}

/** The timestamp converter form, which `browser/timestamp-converter.js` activates. */
const timestampConverter = markup`<div id="converter" class="converter" hidden>
<p class="field"><label for="wall">New York time</label>
<input id="wall" type="datetime-local" step="1" value="2026-07-15T09:30:00"></p>
<p class="field"><label for="printed">API timestamp</label>
<input id="printed" type="text" size="28" spellcheck="false" autocomplete="off" value="2026-07-15T08:30:00-05:00"></p>
<output id="explanation" for="wall printed"></output>
</div>
<noscript><p>Enable JavaScript to use the timestamp converter here.</p></noscript>
`

/** The deprecations of all deprecated endpoints, each with the endpoint's path. */
const deprecated = catalogueEndpoints.flatMap(({ deprecation, row }) =>
  Option.match(deprecation, { onNone: () => [], onSome: (details) => [{ path: row.path, ...details }] })
)

/**
 * Renders the deprecated endpoints (§9.4, D24). In a guide, the block `deprecations short` renders a notice for each,
 * and `deprecations list` renders a table.
 */
const renderDeprecations = (variant: string) => {
  if (deprecated.length === 0) return markup`<p>No endpoint is deprecated.</p>\n`
  if (variant === "short") {
    const notices = deprecated.map(({ announced, note, path, successor, sunset }) => {
      const end = sunset === undefined ? "No end date is set." : `It may stop responding after ${sunset}.`
      const advice = markup`Use ${renderInlineCode(successor)}. ${renderProse(note)}`
      const link = markup`<a href="${getPagePath("deprecations")}">How to migrate</a>`
      return markup`<div class="notice"><p><strong>${
        renderInlineCode(path)
      } has been deprecated</strong> since ${announced}. ${end} ${advice} ${link}</p></div>\n`
    })
    return markup`${notices}`
  }
  return renderTable(
    ["Endpoint", "Announced", "Sunset", "Use instead", "Changes"],
    deprecated.map((
      { announced, note, path, successor, sunset },
    ) => [
      renderInlineCode(path),
      announced,
      sunset ?? "not set",
      renderInlineCode(successor),
      renderProse(note),
    ]),
  )
}

/** Returns the renderers of the four special blocks, by the name that a fenced block begins with. */
export const makeGuideBlockRenderers = Effect.map(
  makeReferenceTables,
  (renderReferenceTable): GuideBlockRenderers => ({
    table: (_, name) => renderReferenceTable(name),
    chain: renderLineageBlock,
    converter: () => timestampConverter,
    deprecations: (_, variant) => renderDeprecations(variant),
  }),
)
