/** The corrections page: how many rows in each dataset were corrected, after what delay, and in which fields. */
import {
  type CorrectionDelayClass,
  correctionDelayClasses,
  type CorrectionsResponse,
} from "../contract/endpoints/corrections.ts"
import { joinMarkup, makeNumericColumn, markup, renderInlineCode, renderTable } from "./browser/markup.js"
import { formatInteger } from "./browser/number-format.js"
import { getPagePath, getReferencePagePath, type SitePage } from "./SitePage.ts"

type CorrectionCounts = typeof CorrectionsResponse.Type
type DatasetCounts = CorrectionCounts["results"][number]

const path = getPagePath("corrections")

const introduction = markup`<h1>Corrections</h1>
<p>How often the rows of each dataset were corrected, how late, and in which fields. A correction replaces a row with
other values under the same key. Programs can request the same from
<a href="/v1/corrections"><code>/v1/corrections</code></a>, without a key and free of charge.</p>
<p><a href="${
  getReferencePagePath("/v1/changes")
}"><code>/v1/changes</code></a> lists every correction with the row before
and after it, and the names of the changed fields (<a href="${getPagePath("changes")}">Keep a copy up to date</a>).</p>
`

/**
 * The corrections page without counts, used for the navigation and the search index. Visitors get the page returned by
 * `makeCorrectionsPageWithCounts` instead.
 */
export const correctionsPageWithoutCounts: SitePage = {
  path,
  title: "Corrections",
  section: "Reference",
  scripts: [],
  render: () => ({
    description: "How often the rows of each dataset were corrected, how late, and in which fields.",
    body: introduction,
  }),
}

/** Renders a link to a dataset's section on the corrections page. */
export const renderCorrectionsLink = (dataset: string) =>
  markup`<a href="${path}#${dataset}">${renderInlineCode(dataset)}</a>`

const delayNames: Readonly<Record<CorrectionDelayClass, string>> = {
  within_hour: "Within an hour",
  within_day: "Within a day",
  within_week: "Within a week",
  within_30_days: "Within 30 days",
  later: "Later",
  unknown: "Not known",
}

const formatShare = (part: number, whole: number) =>
  whole === 0 ? "–" : `${(100 * part / whole).toLocaleString("en-US", { maximumFractionDigits: 1 })} %`

/** Renders a time such as `2026-11-22T18:14:33.000000-05:00` as `2026-11-22 18:14 -05:00`. */
const renderTime = (time: string) =>
  markup`<time datetime="${time}">${time.slice(0, 16).replace("T", " ")} -05:00</time>`

const maxFields = 10

/** Renders the table of the fields of a dataset that were corrected most often, and the number of all other fields. */
const renderFields = ({ dataset, fields }: DatasetCounts) => {
  const others = fields.length - maxFields
  const table = renderTable(
    ["Field", makeNumericColumn("Corrections")],
    fields.slice(0, maxFields).map(({ corrections, field }) => [renderInlineCode(field), formatInteger(corrections)]),
    { label: `Corrected fields of ${dataset}` },
  )
  return markup`${table}${others > 0 && markup`<p>And ${others} more, less often.</p>`}`
}

/**
 * Renders the table of correction delays for a dataset: how many rows were corrected within each delay, such as a day,
 * in the last 30 days and in total.
 */
const renderDelays = ({ dataset, last_30_days, total }: DatasetCounts) =>
  renderTable(
    [
      "Corrected",
      makeNumericColumn("Last 30 days"),
      makeNumericColumn("In total"),
      makeNumericColumn("Share of the total"),
    ],
    correctionDelayClasses.map((delay) => [
      delayNames[delay],
      formatInteger(last_30_days.delays[delay]),
      formatInteger(total.delays[delay]),
      formatShare(total.delays[delay], total.corrected),
    ]),
    { label: `Delays of corrections in ${dataset}` },
  )

const renderDataset = (counts: DatasetCounts) => {
  const { dataset, total } = counts
  const query = `/v1/changes?dataset=${dataset}&kind=corrected`
  return markup`<h2 id="${dataset}">${renderInlineCode(dataset)}</h2>
<p>Rows added: ${formatInteger(total.added)}. Corrected: ${formatInteger(total.corrected)}. Removed: ${
    formatInteger(total.removed)
  }.</p>
${total.corrected > 0 && [renderDelays(counts), renderFields(counts)]}
<p class="quiet">The request for its corrections: ${renderInlineCode(query)}</p>`
}

/** Renders the part of the corrections page that contains counts: an overview, and a section for each dataset. */
const renderCounts = ({ counted_until, results, since }: CorrectionCounts) =>
  markup`<p>Changes have been counted since ${renderTime(since)}. ${
    counted_until === null
      ? "None has been recorded yet."
      : markup`The newest counted change is from ${renderTime(counted_until)}.`
  } A change appears here about a minute after it took effect.</p>
<h2 id="overview">Overview</h2>
${
    renderTable(
      [
        "Dataset",
        makeNumericColumn("Corrected in the last 30 days"),
        makeNumericColumn("In total"),
        "Most corrected fields",
      ],
      results.map(({ dataset, fields, last_30_days, total }) => [
        renderCorrectionsLink(dataset),
        formatInteger(last_30_days.corrected),
        formatInteger(total.corrected),
        fields.length === 0 ? "–" : joinMarkup(fields.slice(0, 3).map(({ field }) => renderInlineCode(field)), ", "),
      ]),
      { label: "Corrections by dataset" },
    )
  }
<p>A row that is corrected twice counts twice. The delay of a correction is the time since the replaced row was
recorded; it is not known for rows that are older than the counts.</p>
${joinMarkup(results.map(renderDataset), "\n")}`

/** Returns the corrections page. `counts` is undefined if the counts cannot be read from the database. */
export const makeCorrectionsPageWithCounts = (counts: CorrectionCounts | undefined): SitePage => {
  const { body, description } = correctionsPageWithoutCounts.render()
  const countsOrNotice = counts === undefined
    ? markup`<div class="notice"><p>The counts cannot be read at the moment. Try again in a minute.</p></div>`
    : renderCounts(counts)
  return {
    ...correctionsPageWithoutCounts,
    render: () => ({ description, body: markup`${body}${countsOrNotice}` }),
  }
}
