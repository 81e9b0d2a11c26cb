/** Tests the lanes that show a company's events on the time axis of its chain (D35). */
import { assert, describe, it } from "@effect/vitest"
import { parseTimelineEvents, renderEventLanes } from "../../src/site/browser/event-lanes.js"
import { parseLineage } from "../../src/site/browser/lineage-response.js"
import {
  arbitraryHostileText,
  arbitraryInteger,
  arbitraryJson,
  assertWellFormedMarkup,
  findElementsOutsideViewBox,
} from "../support/SvgAssertions.ts"

const today = "2026-11-21"

const makeLineage = (history: ReadonlyArray<unknown>) => {
  const lineage = parseLineage({ results: [{ query_ticker: "A", current_ticker: "B", history }] })
  if (lineage === undefined) throw new Error("not a lineage")
  return lineage
}

const lineages = [
  makeLineage([]),
  makeLineage([{ old_ticker: "A", new_ticker: "B", effective_date: "2024-02-29" }]),
]

const news = { at: "2026-03-02", ticker: "A", type: "news", title: "x", endpoint: "/v1/news", key: "ticker=A" }

describe("The event lanes", () => {
  it.prop("draw every event inside the view box, no matter how far it is from the chain (D35)", [
    arbitraryInteger(0, 60_000),
    arbitraryInteger(0, 60_000),
  ], (days) => {
    const results = days.map((day) => ({ ...news, at: new Date(day * 86_400_000).toISOString() }))
    for (const lineage of lineages) {
      const html = renderEventLanes(lineage, parseTimelineEvents({ results }), today).toString()
      assertWellFormedMarkup(html)
      assert.deepStrictEqual(findElementsOutsideViewBox(html), [])
      // Each event is drawn twice: in a wide and in a narrow layout.
      assert.lengthOf(html.match(/class="event"/g) ?? [], 2 * results.length)
      assert.lengthOf(html.match(/<li>/g) ?? [], results.length)
    }
  })

  it.prop("escape every value, and link only to the reference (SECURITY.md)", [arbitraryHostileText], ([text]) => {
    const events = parseTimelineEvents({
      results: [{ at: "2026-03-02", ticker: text, type: text, title: text, endpoint: text, key: text }],
    })
    assert.lengthOf(events, 1)
    for (const lineage of lineages) {
      const html = renderEventLanes(lineage, events, today).toString()
      assertWellFormedMarkup(html)
      const links = Array.from(html.matchAll(/<a href="([^"]*)"/g), ([, href = ""]) => href)
      // One link in each of the two layouts, and one in the list.
      assert.lengthOf(links, 3)
      for (const href of links) assert.match(href, /^reference\//)
      assert.deepStrictEqual(html.match(/<(?!\/?(figure|svg|path|text|a|title|rect|h3|ul|li)\b)/g), null)
    }
  })

  it.prop("read any JSON, and omit rows of unknown shape (D35)", [arbitraryJson], ([body]) => {
    assert.deepStrictEqual(parseTimelineEvents(body), [])
    assert.lengthOf(
      parseTimelineEvents({ results: [body, { ...news, at: "2026-13-01" }, { ...news, key: 1 }, news] }),
      1,
    )
  })

  it("describe an event with its date, type, title and symbol, and link to its row (D35)", () => {
    const row = { ...news, type: "compliance_notice", endpoint: "/v1/nasdaq-compliance", key: "ticker=A&limit=100" }
    assert.deepStrictEqual(parseTimelineEvents({ results: [row] }), [{
      date: "2026-03-02",
      type: "compliance notice",
      description: "2026-03-02 compliance notice: x (A)",
      href: "reference/nasdaq-compliance?ticker=A&limit=100#try-it",
    }])
  })
})
