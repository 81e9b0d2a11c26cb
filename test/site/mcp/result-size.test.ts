/** Tests how results are truncated to their maximum size, and how the next call continues from there (guides/mcp). */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { choosePageContainingPosition } from "../../../src/site/mcp/QueryTool.ts"
import { estimateTokens, fitRowsToTokens } from "../../../src/site/mcp/ResultSize.ts"

const Position = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 100_000 }))
const Limit = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 50 }))

describe("A page", () => {
  it.prop(
    "contains the position, and has at least half of the maximum number of rows (guides/mcp)",
    [Position, Limit],
    ([at, max]) => {
      const { limit, page, skip } = choosePageContainingPosition(at, max)
      assert.strictEqual((page - 1) * limit + skip, at)
      assert.isAtMost(limit, max)
      assert.isAtLeast(limit, max / 2)
      assert.isBelow(skip, limit)
      if (at % max === 0) assert.deepStrictEqual([limit, skip], [max, 0])
    },
  )
})

describe("Rows", () => {
  it.prop(
    "are cut to the limit without leaving out any in between (guides/mcp)",
    [Schema.Array(Schema.Array(Schema.String))],
    ([rows]) => {
      const maxTokens = 60
      const fitted = fitRowsToTokens(rows, maxTokens)
      const tokens = fitted.rows.reduce((sum: number, row) => sum + estimateTokens(row), 0)
      assert.isAtMost(tokens, maxTokens)
      if (rows.length > 0) assert.isAbove(fitted.rows.length, 0)
      if (!fitted.isShortened) assert.deepStrictEqual(fitted.rows, rows.slice(0, fitted.rows.length))
    },
  )

  it("are reduced to the first row, in shortened form, if that row is too long (guides/mcp)", () => {
    const { isShortened, rows } = fitRowsToTokens(
      [{ id: 1, body: "x".repeat(10_000), list: Array(5000).fill("y") }],
      100,
    )
    assert.isTrue(isShortened)
    assert.isAtMost(estimateTokens(rows[0]), 100)
    assert.match(JSON.stringify(rows[0]), /^\{"id":1,"body":"x+…","list":\["y",/)
  })
})
