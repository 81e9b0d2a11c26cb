/** §2.1, D29: usage and cost by day, drawn and told. */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary } from "effect"
import { compact, daysBetween, dollars, figure, grouped, ticks } from "../../src/site/browser/plot.js"
import * as Pictures from "../support/SvgAssertions.ts"

const {
  arbitraryHostileText,
  arbitraryInteger,
  findElementsOutsideViewBox,
  findForbiddenElements,
  assertWellFormedMarkup,
} = Pictures

const plot = (values: ReadonlyArray<number>, more: Partial<Parameters<typeof figure>[0]> = {}) =>
  figure({
    id: "it",
    title: "Cost",
    name: "USD",
    days: daysBetween("2026-01-01", "2027-12-31").slice(0, values.length),
    values,
    within: undefined,
    format: dollars,
    axis: dollars,
    ...more,
  })

const amounts = Arbitrary.flatMap(
  arbitraryInteger(0, 15),
  (digits) => Arbitrary.array(arbitraryInteger(0, 10 ** digits), { minLength: 1, maxLength: 400 }),
)

describe("A plot", () => {
  it.prop("D29 is well-formed, with finite coordinates and nothing outside of the picture", [amounts], ([values]) => {
    const html = plot(values, { within: { name: "errors", values: values.map((value) => Math.floor(value / 3)) } })
    assertWellFormedMarkup(html)
    assert.deepStrictEqual(findElementsOutsideViewBox(html), [])
    assert.deepStrictEqual(findForbiddenElements(html), [])
  }, { arbitrary: { runs: 100 } })

  it.prop("D29 has a bar for each day, those of nothing too, and the table tells the same", [amounts], ([values]) => {
    const html = plot(values, { format: grouped, axis: compact })
    assert.lengthOf(html.match(/class="amount"/g) ?? [], 2 * values.length)
    const cells = Array.from(
      html.matchAll(/<td class="number">([^<]*)<\/td>/g),
      ([, cell = ""]) => Number(cell.replaceAll(",", "")),
    )
    assert.deepStrictEqual(cells, values.toReversed())
  }, { arbitrary: { runs: 50 } })

  it.prop("SECURITY.md, the pages: what it is called is text, never markup", [arbitraryHostileText], ([text]) => {
    const html = plot([1, 2, 3], {
      title: text,
      name: text,
      within: { name: text, values: [1, 1, 1] },
      days: [text, text, text],
    })
    assertWellFormedMarkup(html)
    assert.deepStrictEqual(findForbiddenElements(html), [])
  }, { arbitrary: { runs: 100 } })

  it("D29 what is no amount is drawn as nothing", () => {
    const html = plot([NaN, Infinity, -5, 1e300])
    assertWellFormedMarkup(html)
    assert.notMatch(html, /NaN|Infinity/)
  })

  it.prop("D29 its axis begins at 0, has at most seven round numbers, and reaches the greatest", [
    arbitraryInteger(0, Number.MAX_SAFE_INTEGER),
  ], ([most]) => {
    const marks = ticks(most)
    assert.strictEqual(marks[0], 0)
    assert.isAtMost(marks.length, 7)
    assert.isAtLeast(marks.at(-1) ?? 0, most)
    assert.isTrue(marks.every((mark) => Number.isInteger(mark)))
    assert.match(String(marks[1]), /^[125]0*$|e\+/)
  }, { arbitrary: { runs: 500 } })

  it("D29 days are those of the calendar", () => {
    assert.deepStrictEqual(daysBetween("2024-02-28", "2024-03-01"), ["2024-02-28", "2024-02-29", "2024-03-01"])
    assert.deepStrictEqual(daysBetween("2024-03-01", "2024-02-28"), [])
    assert.deepStrictEqual(daysBetween("x", "2024-02-28"), [])
    assert.lengthOf(daysBetween("0001-01-01", "2024-02-28"), 1000)
  })

  it.prop(
    "D27 microdollars are told to the last one",
    [arbitraryInteger(0, Number.MAX_SAFE_INTEGER)],
    ([microdollars]) => {
      assert.strictEqual(
        Number(dollars(microdollars).replace(/[$,.]/g, "").padEnd(1, "0").replace(/^0+(?=.)/, "")) > 0,
        microdollars > 0,
      )
      const [whole = "", fraction = ""] = dollars(microdollars).slice(1).replaceAll(",", "").split(".")
      assert.strictEqual(BigInt(whole) * 1_000_000n + BigInt(fraction.padEnd(6, "0")), BigInt(microdollars))
    },
    { arbitrary: { runs: 500 } },
  )

  it("D27 some of them", () => {
    assert.deepStrictEqual(
      [0, 3, 25_000, 1_000_000, 1_234_567_890].map(dollars),
      ["$0.00", "$0.000003", "$0.025", "$1.00", "$1,234.56789"],
    )
  })
})
