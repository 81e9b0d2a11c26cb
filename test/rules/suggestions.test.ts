/** D4: the name that was probably meant. */
import { assert, describe, it } from "@effect/vitest"
import { Option, Schema } from "effect"
import { hint, nearest } from "../../src/rules/Suggestions.ts"

const names = ["ticker", "limit", "page", "date_from", "DATABASE_URL"]

describe("The name that was meant", () => {
  it("D4 a letter too many, too few or another, two that changed places, a beginning, and any case", () => {
    const slips = [["tickerr", "ticker"], ["tickr", "ticker"], ["tocker", "ticker"], ["tikcer", "ticker"]] as const
    for (const [sent, meant] of slips) assert.deepStrictEqual(nearest(sent, names), Option.some(meant))
    assert.deepStrictEqual(nearest("pgae", names), Option.some("page"))
    assert.deepStrictEqual(nearest("date", names), Option.some("date_from"))
    assert.deepStrictEqual(nearest("LIMIT", names), Option.some("limit"))
    assert.deepStrictEqual(nearest("database_ulr", names), Option.some("DATABASE_URL"))
    assert.strictEqual(hint("tikcer", names), " Did you mean ticker?")
  })

  it("D4 what is like none is not guessed", () => {
    assert.deepStrictEqual(nearest("volume", names), Option.none())
    assert.deepStrictEqual(nearest("", names), Option.none())
    assert.strictEqual(hint("volume", names), "")
  })

  it.prop("D4 a name is nearest to itself, and only names are offered", [Schema.String], ([sent]) => {
    for (const name of names) assert.deepStrictEqual(nearest(name, names), Option.some(name))
    const found = nearest(sent, names)
    if (Option.isSome(found)) assert.include(names, found.value)
  })
})
