/** Tests the failure messages of row comparisons. */
import { assert, describe, it } from "@effect/vitest"
import { assertEqualRows, findRowDifferences } from "./RowAssertions.ts"

const rows = [
  { ticker: "AAA", date: "2025-01-02", close: "1.00" },
  { ticker: "BBB", date: "2025-01-02", close: "2.00" },
  { ticker: "BBB", date: "2025-01-03", close: null },
] as const
const [first, second, third] = rows

const find = (actual: ReadonlyArray<Readonly<Record<string, unknown>>>) =>
  findRowDifferences(["ticker", "date"], actual, rows)

describe("A comparison of rows", () => {
  it("names each cell that differs by row and column (CONTRIBUTING.md)", () => {
    assert.deepStrictEqual(find(rows), [])
    assert.deepStrictEqual(
      find([first, { ...second, close: "2.0" }, { ticker: "BBB", date: "2025-01-03", open: "1" }]),
      [
        `row ticker="BBB" date="2025-01-02", column close: "2.0" instead of "2.00"`,
        `row ticker="BBB" date="2025-01-03", column close: nothing instead of null`,
        `row ticker="BBB" date="2025-01-03", column open: "1" instead of nothing`,
      ],
    )
  })

  it("names missing, unexpected, repeated and misplaced rows (CONTRIBUTING.md)", () => {
    assert.deepStrictEqual(find([first, third]), [`row ticker="BBB" date="2025-01-02" is missing`])
    assert.deepStrictEqual(find([...rows, third]), [`row ticker="BBB" date="2025-01-03" (2) is not expected`])
    assert.deepStrictEqual(find([second, first, third]), [
      `at position 1 is row ticker="BBB" date="2025-01-02" instead of ticker="AAA" date="2025-01-02"`,
    ])
    assert.deepStrictEqual(findRowDifferences([], [{ close: 1 }], [{ close: 2 }]), [
      "row number 1, column close: 1 instead of 2",
    ])
  })

  it("fails with the dataset and at most 20 differences (CONTRIBUTING.md)", () => {
    const many = (close: string) =>
      Array.from({ length: 25 }, (_, day) => ({ ticker: "AAA", date: `2025-01-${day + 1}`, close }))
    assert.doesNotThrow(() => assertEqualRows("gap_stats", many("1"), many("1")))
    assert.throws(
      () => assertEqualRows("gap_stats", many("1"), many("2"), "CSV"),
      /^gap_stats, CSV: 25 differences\n  row ticker="AAA" date="2025-01-1", column close: "1" [\s\S]*\n  and 5 more$/,
    )
  })
})
