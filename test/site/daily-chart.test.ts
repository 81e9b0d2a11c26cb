/** Tests the chart of daily usage and cost (§2.1; D29, usage). */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary } from "effect"
import { computeAxisTicks, listDaysBetween, renderDailyChart } from "../../src/site/browser/daily-chart.js"
import { formatCompactNumber, formatDollars, formatInteger } from "../../src/site/browser/number-format.js"
import * as SvgAssertions from "../support/SvgAssertions.ts"

const {
  arbitraryHostileText,
  arbitraryInteger,
  findElementsOutsideViewBox,
  findForbiddenElements,
  assertWellFormedMarkup,
} = SvgAssertions

const renderChart = (values: ReadonlyArray<number>, more: Partial<Parameters<typeof renderDailyChart>[0]> = {}) =>
  renderDailyChart({
    id: "it",
    title: "Cost",
    name: "USD",
    days: listDaysBetween("2026-01-01", "2027-12-31").slice(0, values.length),
    values,
    subset: undefined,
    format: formatDollars,
    formatAxis: formatDollars,
    ...more,
  }).toString()

const amounts = Arbitrary.flatMap(
  arbitraryInteger(0, 15),
  (digits) => Arbitrary.array(arbitraryInteger(0, 10 ** digits), { minLength: 1, maxLength: 400 }),
)

describe("The daily chart", () => {
  it.prop("is well-formed SVG, with every element inside the view box (D29)", [amounts], ([values]) => {
    const html = renderChart(values, {
      subset: { name: "errors", values: values.map((value) => Math.floor(value / 3)) },
    })
    assertWellFormedMarkup(html)
    assert.deepStrictEqual(findElementsOutsideViewBox(html), [])
    assert.deepStrictEqual(findForbiddenElements(html), [])
  }, { arbitrary: { runs: 100 } })

  it.prop("has a bar for every day and a table with the same values (D29)", [amounts], ([values]) => {
    const html = renderChart(values, { format: formatInteger, formatAxis: formatCompactNumber })
    // Each bar is drawn twice: in a wide and in a narrow layout.
    assert.lengthOf(html.match(/class="amount"/g) ?? [], 2 * values.length)
    const cells = Array.from(
      html.matchAll(/<td [^>]*class="number"[^>]*>([^<]*)<\/td>/g),
      ([, cell = ""]) => Number(cell.replaceAll(",", "")),
    )
    assert.deepStrictEqual(cells, values.toReversed())
  }, { arbitrary: { runs: 50 } })

  it.prop("escapes all text (SECURITY.md)", [arbitraryHostileText], ([text]) => {
    const html = renderChart([1, 2, 3], {
      title: text,
      name: text,
      subset: { name: text, values: [1, 1, 1] },
      days: [text, text, text],
    })
    assertWellFormedMarkup(html)
    assert.deepStrictEqual(findForbiddenElements(html), [])
  }, { arbitrary: { runs: 100 } })

  it("draws invalid amounts as 0 (D29)", () => {
    const html = renderChart([NaN, Infinity, -5, 1e300])
    assertWellFormedMarkup(html)
    assert.notMatch(html, /NaN|Infinity/)
  })

  it.prop("has an axis of at most seven round numbers, from 0 to at least the maximum (D29)", [
    arbitraryInteger(0, Number.MAX_SAFE_INTEGER),
  ], ([maximum]) => {
    const ticks = computeAxisTicks(maximum)
    assert.strictEqual(ticks[0], 0)
    assert.isAtMost(ticks.length, 7)
    assert.isAtLeast(ticks.at(-1) ?? 0, maximum)
    assert.isTrue(ticks.every((tick) => Number.isInteger(tick)))
    assert.match(String(ticks[1]), /^[125]0*$|e\+/)
  }, { arbitrary: { runs: 500 } })

  it("lists consecutive calendar days (D29)", () => {
    assert.deepStrictEqual(listDaysBetween("2024-02-28", "2024-03-01"), ["2024-02-28", "2024-02-29", "2024-03-01"])
    assert.deepStrictEqual(listDaysBetween("2024-03-01", "2024-02-28"), [])
    assert.deepStrictEqual(listDaysBetween("x", "2024-02-28"), [])
    assert.lengthOf(listDaysBetween("0001-01-01", "2024-02-28"), 1000)
  })

  it.prop(
    "formats microdollars without rounding (D27)",
    [arbitraryInteger(0, Number.MAX_SAFE_INTEGER)],
    ([microdollars]) => {
      assert.strictEqual(
        Number(formatDollars(microdollars).replace(/[$,.]/g, "").padEnd(1, "0").replace(/^0+(?=.)/, "")) > 0,
        microdollars > 0,
      )
      const [integer = "", fraction = ""] = formatDollars(microdollars).slice(1).replaceAll(",", "").split(".")
      assert.strictEqual(BigInt(integer) * 1_000_000n + BigInt(fraction.padEnd(6, "0")), BigInt(microdollars))
    },
    { arbitrary: { runs: 500 } },
  )

  it("formats examples of microdollars (D27)", () => {
    assert.deepStrictEqual(
      [0, 3, 25_000, 1_000_000, 1_234_567_890].map(formatDollars),
      ["$0.00", "$0.000003", "$0.025", "$1.00", "$1,234.56789"],
    )
  })
})
