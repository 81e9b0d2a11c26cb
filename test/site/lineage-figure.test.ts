/** §2.2, D21: lineages drawn and told. */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Result, Schema } from "effect"
import examples from "../../samples/examples.json" with { type: "json" }
import { figure } from "../../src/site/browser/chain.js"
import { resolveLineage, type TickerChangeEvent } from "../../src/v1/ticker-changes/Lineage.ts"
import * as Pictures from "../support/SvgAssertions.ts"

const {
  arbitraryHostileText,
  arbitraryInteger,
  findElementsOutsideViewBox,
  assertWellFormedMarkup,
} = Pictures

const where = { id: "it", today: "2026-11-21" }

const drawn = (body: unknown) => figure(body, where) ?? ""

const day = (number: number) => new Date(Date.UTC(1998, 0, 1 + number)).toISOString().slice(0, 10)

const symbols = ["A", "META", "BRK.B", "ZX-7^", "ABCDEFGHIJKLMNOP", "Q1"]

/** Whatever a table may hold: few symbols, dates and issuers, so that much collides. */
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

/** As the service answers it. */
const answered = ([first, ...others]: ReadonlyArray<TickerChangeEvent>): unknown => {
  if (first === undefined) throw new Error("a component has at least one event")
  const answer = resolveLineage([first, ...others])
  const query_ticker = first.old_ticker
  if (Result.isSuccess(answer)) {
    const { current_ticker, history } = answer.success
    return { count: history.length, results: [{ query_ticker, has_changes: true, current_ticker, history }] }
  }
  const { reasons } = answer.failure
  const details = { query_ticker, reason: reasons[0], ...answer.failure }
  return { error: { code: "ambiguous_ticker_lineage", message: "", details }, request_id: "1" }
}

const exampleOf = (ticker: string) =>
  examples.find(({ request }) => request === `/v1/ticker-changes?ticker=${ticker}`)?.response

const textOf = (html: string) => html.replace(/<svg[\s\S]*?<\/svg>/g, "").replace(/<[^>]+>/g, " ").replace(/\s+/g, " ")

describe("A lineage, drawn", () => {
  it.prop("D21 is well-formed, with finite coordinates and nothing outside of the picture", [events], ([events]) => {
    const html = drawn(answered(events))
    assertWellFormedMarkup(html)
    assert.deepStrictEqual(findElementsOutsideViewBox(html), [])
    assert.lengthOf(html.match(/<svg [^>]*role="img"/g) ?? [], 2)
  }, { arbitrary: { runs: 300 } })

  it.prop("D21 tells each event by its number, and marks those that clash, no others", [events], ([events]) => {
    const html = drawn(answered(events))
    const answer = answered(events)
    const shown = Schema.is(Schema.Struct({ error: Schema.Any }))(answer) ? answer.error.details.events : []
    const clashing = shown.filter(({ reasons }: { reasons: ReadonlyArray<string> }) => reasons.length > 0)
    const drawnClashes = shown.slice(0, 20).filter(({ reasons }: { reasons: ReadonlyArray<string> }) =>
      reasons.length > 0
    )
    assert.lengthOf(html.match(/<li><time/g) ?? [], events.length)
    assert.lengthOf(html.match(/class="joint/g) ?? [], 2 * Math.min(20, events.length))
    assert.lengthOf(html.match(/class="joint clash"/g) ?? [], 2 * drawnClashes.length)
    assert.lengthOf(html.match(/<strong class="clash">/g) ?? [], clashing.length)
  }, { arbitrary: { runs: 300 } })

  it.prop("SECURITY.md, the pages: what comes from outside is text, never markup", [arbitraryHostileText], ([text]) => {
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
      const html = drawn(body)
      assertWellFormedMarkup(html)
      assert.deepStrictEqual(findElementsOutsideViewBox(html), [])
      assert.deepStrictEqual(Pictures.findForbiddenElements(html), [])
    }
  }, { arbitrary: { runs: 200 } })

  it.prop("D21 anything else than an answer is not drawn, and breaks nothing", [Pictures.arbitraryJson], ([body]) => {
    for (const one of [body, { results: [body] }, { error: { code: "ambiguous_ticker_lineage", details: body } }]) {
      const html = figure(one, where)
      if (html !== undefined) assertWellFormedMarkup(html)
    }
    assert.isUndefined(figure(body, where))
  }, { arbitrary: { runs: 200 } })

  it("§2.2 the chain of OSTK is told from its first symbol to its last, with its dates", () => {
    const html = drawn(exampleOf("OSTK"))
    assert.include(textOf(html), "OSTK became NXH in 3 changes.")
    for (const date of ["2023-11-06", "2025-08-29", "2026-08-17"]) {
      assert.include(html, `>${date}</text>`)
      assert.include(textOf(html), date)
    }
    assert.notInclude(html, "clash")
    // The last one is open-ended: an arrow, where the others are bars.
    assert.lengthOf(html.match(/<path class="bar/g) ?? [], 2)
  })

  it("§4.1 the refusal of META says why, marks both events and offers both chains", () => {
    const text = textOf(drawn(exampleOf("META")))
    assert.include(text, "not one unambiguous chain")
    assert.include(text, "multiple_cik_lineages The changes belong to more than one issuer: Roundhill")
    assert.lengthOf(text.match(/Clashes:/g) ?? [], 2)
    assert.include(text, "FB → META (2022-06-09)")
    assert.include(text, "META → METV (2022-01-31)")
  })

  it("D21 a chain that returns to its first symbol says so", () => {
    const history = [
      { old_ticker: "BMR1", new_ticker: "BMR2", effective_date: "2019-05-06" },
      { old_ticker: "BMR2", new_ticker: "BMR1", effective_date: "2022-08-15" },
    ]
    const html = drawn({ results: [{ query_ticker: "BMR2", current_ticker: "BMR1", history }] })
    assert.include(textOf(html), "BMR1 is BMR1 again, after 2 changes.")
    // Two lines, and three bars.
    assert.lengthOf(html.match(/class="bar/g) ?? [], 6)
  })

  it("§4.1.1 a symbol without changes has words, and no picture", () => {
    const html = drawn(exampleOf("AAPL"))
    assert.notInclude(html, "<svg")
    assert.include(html, "says nothing of whether AAPL is listed")
  })

  it("§9.3 a refusal that tells no events is drawn as far as its chains are known", () => {
    const { error } = Object(exampleOf("META"))
    const details = { ...error.details, event_count: undefined, events: undefined }
    const html = drawn({ error: { ...error, details } })
    assert.include(html, "<svg")
    assert.include(html, "FB")
  })

  it("D21 of a record with a hundred events a part is drawn, and the rest is said to be missing", () => {
    const many = Array.from({ length: 130 }, (_, at) => ({
      old_ticker: `S${at}`,
      new_ticker: `S${at + 1}`,
      effective_date: day(at),
      cik: null,
      company_name: null,
    }))
    const html = drawn(answered(many))
    assert.deepStrictEqual(findElementsOutsideViewBox(html), [])
    assert.include(html, "The first 20 of 130 changes are drawn.")
    assert.include(html, "30 more changes are on record.")
  })
})
