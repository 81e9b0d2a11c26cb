/**
 * Renders the events in a `/v1/timeline` response, in one lane per type: as a drawing, and as lists of links to the
 * rows. Pure.
 */
import { getListAt, getTextAt } from "./json-values.js"
import { isIsoDate } from "./lineage-response.js"
import { figureLayouts, markup, renderElement, renderTextElement, roundCoordinate } from "./markup.js"
import { makeRequestHref } from "./request-links.js"
import { axisMargin, drawYearGrid, makeTimeAxis, yearsHeight } from "./time-axis.js"

/**
 * @typedef {object} CompanyEvent
 * @property {string} date `YYYY-MM-DD`
 * @property {string} type such as `ticker change`
 * @property {string} description
 * @property {string} href a link to the request that finds the row
 */

/**
 * Parses the body of a response. Rows of unknown shape are omitted.
 * @param {unknown} body
 * @returns {ReadonlyArray<CompanyEvent>}
 */
export const parseTimelineEvents = (body) =>
  getListAt(body, "results").flatMap((row) => {
    const [date, endpoint, key] = [
      getTextAt(row, "at")?.slice(0, 10),
      getTextAt(row, "endpoint"),
      getTextAt(row, "key"),
    ]
    const type = getTextAt(row, "type")?.replaceAll("_", " ")
    if (date === undefined || !isIsoDate(date) || endpoint === undefined || key === undefined || type === undefined) {
      return []
    }
    const description = `${date} ${type}: ${getTextAt(row, "title") ?? ""} (${getTextAt(row, "ticker") ?? ""})`
    return [{ date, type, description, href: makeRequestHref(endpoint, key) }]
  })

const laneHeight = 36

/** Positions in a lane, below its upper edge: the baseline of its name, its line, and the upper edge of its marks. */
const [nameY, lineY, markY] = [13, 26, 19]
const mark = { width: 6, height: 14 }

/** @typedef {readonly [type: string, events: ReadonlyArray<CompanyEvent>]} Lane */

/**
 * Draws the lanes. The drawing is hidden from screen readers and the Tab key, because the lists contain the same links.
 * @param {ReadonlyArray<Lane>} lanes
 * @param {import("./time-axis.js").TimeAxis} axis
 * @param {{ readonly layout: string, readonly width: number }} options
 */
const drawLanes = (lanes, axis, { layout, width }) => {
  const { left, right, xOf } = axis
  const height = yearsHeight + lanes.length * laneHeight + axisMargin
  const drawn = lanes.flatMap(([type, events], index) => {
    const y = yearsHeight + index * laneHeight
    return [
      renderElement("path", { class: "grid", d: `M${roundCoordinate(left)} ${y + lineY}H${roundCoordinate(right)}` }),
      renderTextElement("text", { class: "lane", x: axisMargin, y: y + nameY }, type),
      ...events.map(({ date, description, href }) =>
        renderElement("a", { href, tabindex: "-1" }, [
          renderTextElement("title", {}, description),
          renderElement("rect", { class: "event", x: xOf(Date.parse(date)) - mark.width / 2, y: y + markY, ...mark }),
        ])
      ),
    ]
  })
  return renderElement("svg", {
    xmlns: "http://www.w3.org/2000/svg",
    class: `chain ${layout}`,
    viewBox: `0 0 ${width} ${roundCoordinate(height)}`,
    "aria-hidden": "true",
  }, [...drawYearGrid(axis, height), ...drawn])
}

/** A list with more events than this shows only the newest ones, and the others on request. */
const maxListedEvents = 12
const shortListLength = 8

/** Renders a lane as a list of links. @param {Lane} lane @param {number} index */
const renderLane = ([type, events], index) => {
  const id = `lane-${index}`
  const title = `${type.slice(0, 1).toUpperCase()}${type.slice(1)} (${events.length})`
  /** @param {ReadonlyArray<CompanyEvent>} listed */
  const renderList = (listed) => {
    const items = listed.map(({ description, href }) =>
      markup`<li>${renderTextElement("a", { href }, description)}</li>`
    )
    return markup`<ul class="lane" aria-labelledby="${id}">${items}</ul>`
  }
  const heading = renderTextElement("h3", { id }, title)
  if (events.length <= maxListedEvents) return [heading, renderList(events)]
  const older = events.slice(shortListLength)
  return markup`${heading}${
    renderList(events.slice(0, shortListLength))
  }<details class="more"><summary>Show ${older.length} older events: ${type}</summary>${renderList(older)}</details>`
}

/**
 * Renders events, of which there must be at least one, on the time axis of the lineage.
 * @param {import("./lineage-response.js").Lineage} lineage
 * @param {ReadonlyArray<CompanyEvent>} events
 * @param {string} today `YYYY-MM-DD`
 */
export const renderEventLanes = ({ changes }, events, today) => {
  const lanes = Array.from(Map.groupBy(events, ({ type }) => type))
  const symbols = changes.flatMap(({ from, to }) => [from, to])
  const dates = [...changes, ...events].map(({ date }) => date)
  const drawings = figureLayouts.map(([layout, width]) =>
    drawLanes(lanes, makeTimeAxis(symbols, dates, { today, width }), { layout, width })
  )
  return markup`<figure class="lanes">${drawings}</figure>${lanes.map(renderLane)}`
}
