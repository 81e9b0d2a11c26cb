/** Tests the figure that shows a lineage as a timeline and as text (§2.2; D21, ticker changes). */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Result, Schema } from "effect"
import examples from "../../samples/examples.json" with { type: "json" }
import { renderLineageFigure } from "../../src/site/browser/lineage-figure.js"
import { makeAmbiguousLineageError } from "../../src/query/lineage/LineageErrors.ts"
import { resolveLineage, type TickerChangeEvent } from "../../src/query/lineage/LineageRules.ts"
import * as SvgAssertions from "../support/SvgAssertions.ts"

const {
  arbitraryHostileText,
  arbitraryInteger,
  findElementsOutsideViewBox,
  assertWellFormedMarkup,
} = SvgAssertions

/** The maximum number of changes that the timeline draws. */
const maxDrawnChanges = 20

const options = { id: "it", today: "2026-11-21" }

const render = (body: unknown) => String(renderLineageFigure(body, options) ?? "")

const day = (number: number) => new Date(Date.UTC(1998, 0, 1 + number)).toISOString().slice(0, 10)

const symbols = ["A", "META", "BRK.B", "ZX-7^", "ABCDEFGHIJKLMNOP", "Q1"]

/** Arbitrary events between few symbols, with few dates and issuers, which makes conflicts frequent. */
const events: Arbitrary.Arbitrary<ReadonlyArray<TickerChangeEvent>> = Arbitrary.map(
  Arbitrary.array(
    Arbitrary.all({
      from: arbitraryInteger(0, 5),
      to: arbitraryInteger(1, 5),
      date: arbitraryInteger(0, 9000),
      close: arbitraryInteger(0, 3),
      cik: arbitraryInteger(0, 3),
    }),
    { minLength: 1, maxLength: 30 },
  ),
  (all) =>
    all.map(({ cik, close, date, from, to }) => ({
      old_ticker: symbols[from] ?? "",
      new_ticker: symbols[(from + to) % symbols.length] ?? "",
      effective_date: day(close === 0 ? date % 7 : date),
      cik: cik === 0 ? null : `000000000${cik}`,
      company_name: cik === 2 ? `Ünï & "Söhne" <Inc>` : null,
    })),
)

/** Returns the response body that the service sends for the events. */
const responseBody = ([first, ...others]: ReadonlyArray<TickerChangeEvent>): unknown => {
  if (first === undefined) throw new Error("a component has at least one event")
  const resolved = resolveLineage([first, ...others])
  const query_ticker = first.old_ticker
  if (Result.isSuccess(resolved)) {
    const { current_ticker, history } = resolved.success
    return { count: history.length, results: [{ query_ticker, has_changes: true, current_ticker, history }] }
  }
  const { error } = makeAmbiguousLineageError([{ query_ticker, conflict: resolved.failure }], false)
  return { error, request_id: "1" }
}

/** Returns the response for a symbol from the documentation examples. */
const exampleOf = (ticker: string) =>
  examples.find(({ request }) => request === `/v1/ticker-changes?ticker=${ticker}`)?.response

/** Returns a figure's text without its drawings. */
const textOf = (html: string) => html.replace(/<svg[\s\S]*?<\/svg>/g, "").replace(/<[^>]+>/g, " ").replace(/\s+/g, " ")

describe("The lineage figure", () => {
  it.prop("is well-formed SVG, with every element inside the view box (D21)", [events], ([events]) => {
    const html = render(responseBody(events))
    assertWellFormedMarkup(html)
    assert.deepStrictEqual(findElementsOutsideViewBox(html), [])
    assert.lengthOf(html.match(/<svg [^>]*role="img"/g) ?? [], 2)
  }, { arbitrary: { runs: 300 } })

  it.prop("numbers every change, and marks exactly those with a conflict (D21)", [events], ([events]) => {
    const html = render(responseBody(events))
    const body = responseBody(events)
    const shown = Schema.is(Schema.Struct({ error: Schema.Any }))(body) ? body.error.details.events : []
    // A change that is recorded both with and without a CIK counts once (D20).
    const count = Schema.is(Schema.Struct({ count: Schema.Int }))(body) ? body.count : shown.length
    const conflicting = shown.filter(({ reasons }: { reasons: ReadonlyArray<string> }) => reasons.length > 0)
    const drawnConflicts = shown.slice(0, maxDrawnChanges).filter(({ reasons }: { reasons: ReadonlyArray<string> }) =>
      reasons.length > 0
    )
    assert.lengthOf(html.match(/<li><time/g) ?? [], count)
    // Each change is drawn twice: in a wide and in a narrow layout.
    assert.lengthOf(html.match(/class="joint/g) ?? [], 2 * Math.min(maxDrawnChanges, count))
    assert.lengthOf(html.match(/class="joint clash"/g) ?? [], 2 * drawnConflicts.length)
    assert.lengthOf(html.match(/<strong class="clash">/g) ?? [], conflicting.length)
  }, { arbitrary: { runs: 300 } })

  it.prop("escapes every value of a response (SECURITY.md)", [arbitraryHostileText], ([text]) => {
    const change = {
      old_ticker: text,
      new_ticker: `${text}2`,
      effective_date: "2020-01-01",
      cik: text,
      company_name: text,
      reasons: [text],
    }
    const details = {
      query_ticker: text,
      reasons: [text],
      events: [change],
      candidates: [{ cik: text, company_name: text, current_ticker: text, history: [change] }],
    }
    const chain = { results: [{ query_ticker: text, current_ticker: text, history: [change] }] }
    for (const body of [chain, { error: { code: "ambiguous_ticker_lineage", details } }]) {
      const html = render(body)
      assertWellFormedMarkup(html)
      assert.deepStrictEqual(findElementsOutsideViewBox(html), [])
      assert.deepStrictEqual(SvgAssertions.findForbiddenElements(html), [])
    }
  }, { arbitrary: { runs: 200 } })

  it.prop("accepts any JSON, and renders only lineages (D21)", [SvgAssertions.arbitraryJson], ([body]) => {
    for (const one of [body, { results: [body] }, { error: { code: "ambiguous_ticker_lineage", details: body } }]) {
      assertWellFormedMarkup(render(one))
    }
    assert.isUndefined(renderLineageFigure(body, options))
  }, { arbitrary: { runs: 200 } })

  it("shows the chain of OSTK from its first to its current symbol, with dates (§2.2)", () => {
    const html = render(exampleOf("OSTK"))
    assert.include(textOf(html), "OSTK became NXH in 3 changes.")
    for (const date of ["2023-11-06", "2025-08-29", "2026-08-17"]) {
      assert.include(html, `>${date}</text>`)
      assert.include(textOf(html), date)
    }
    assert.notInclude(html, "clash")
    // One bar with an arrow, for the current symbol, in each of the two layouts.
    assert.lengthOf(html.match(/<path class="bar/g) ?? [], 2)
  })

  it("explains the refusal of META, marks both events and lists both chains (§4.1)", () => {
    const text = textOf(render(exampleOf("META")))
    assert.include(text, "is ambiguous")
    assert.include(text, "multiple_cik_lineages The changes belong to more than one issuer: Roundhill")
    assert.lengthOf(text.match(/Conflict:/g) ?? [], 2)
    assert.include(text, "FB → META (2022-06-09)")
    assert.include(text, "META → METV (2022-01-31)")
  })

  it("states that a chain returns to its first symbol (D21)", () => {
    const history = [
      { old_ticker: "BMR1", new_ticker: "BMR2", effective_date: "2019-05-06" },
      { old_ticker: "BMR2", new_ticker: "BMR1", effective_date: "2022-08-15" },
    ]
    const html = render({ results: [{ query_ticker: "BMR2", current_ticker: "BMR1", history }] })
    assert.include(textOf(html), "BMR1 is BMR1 again after 2 changes.")
    // Three bars in each of the two layouts.
    assert.lengthOf(html.match(/class="bar/g) ?? [], 6)
  })

  it("has text but no timeline for a symbol without changes (§4.1.1)", () => {
    const html = render(exampleOf("AAPL"))
    assert.notInclude(html, "<svg")
    assert.include(html, "does not mean that AAPL is or was listed")
  })

  it("draws the candidate chains of a refusal without events (§9.3)", () => {
    const { error } = Object(exampleOf("META"))
    const details = { ...error.details, event_count: undefined, events: undefined }
    const html = render({ error: { ...error, details } })
    assert.include(html, "<svg")
    assert.include(html, "FB")
  })

  it("draws the first part of a long record and states how much is missing (D21)", () => {
    const many = Array.from({ length: 130 }, (_, at) => ({
      old_ticker: `S${at}`,
      new_ticker: `S${at + 1}`,
      effective_date: day(at),
      cik: null,
      company_name: null,
    }))
    const html = render(responseBody(many))
    assert.deepStrictEqual(findElementsOutsideViewBox(html), [])
    assert.include(html, "The timeline shows the first 20 of 130 changes.")
    assert.include(html, "There are 30 more changes.")
  })

  it("lists the first candidates of a refusal and states how many are missing (D21)", () => {
    const issuers = Array.from({ length: 130 }, (_, at) => ({
      old_ticker: `S${at}`,
      new_ticker: "HUB",
      effective_date: day(at),
      cik: String(at + 1).padStart(10, "0"),
      company_name: null,
    }))
    const html = render(responseBody(issuers))
    assert.include(textOf(html), "CIK 0000000100: S99 → HUB")
    assert.notInclude(textOf(html), "CIK 0000000101: S100 → HUB")
    assert.include(html, "There are 30 more issuers.")
  })
})
