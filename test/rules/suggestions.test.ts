/** D4: the name that was probably meant. */
import { assert, describe, it } from "@effect/vitest"
import { Option, Schema } from "effect"
import { findNearestName, suggestName } from "../../src/rules/Suggestions.ts"

const names = ["ticker", "limit", "page", "date_from", "DATABASE_URL"]

describe("The name that was meant", () => {
  it("D4 a letter too many, too few or another, two that changed places, a beginning, and any case", () => {
    const slips = [["tickerr", "ticker"], ["tickr", "ticker"], ["tocker", "ticker"], ["tikcer", "ticker"]] as const
    for (const [sent, meant] of slips) assert.deepStrictEqual(findNearestName(sent, names), Option.some(meant))
    assert.deepStrictEqual(findNearestName("pgae", names), Option.some("page"))
    assert.deepStrictEqual(findNearestName("date", names), Option.some("date_from"))
    assert.deepStrictEqual(findNearestName("LIMIT", names), Option.some("limit"))
    assert.deepStrictEqual(findNearestName("database_ulr", names), Option.some("DATABASE_URL"))
    assert.strictEqual(suggestName("tikcer", names), " Did you mean ticker?")
  })

  it("D4 what is like none is not guessed", () => {
    assert.deepStrictEqual(findNearestName("volume", names), Option.none())
    assert.deepStrictEqual(findNearestName("", names), Option.none())
    assert.strictEqual(suggestName("volume", names), "")
  })

  it.prop("D4 a name is nearest to itself, and only names are offered", [Schema.String], ([sent]) => {
    for (const name of names) assert.deepStrictEqual(findNearestName(name, names), Option.some(name))
    const found = findNearestName(sent, names)
    if (Option.isSome(found)) assert.include(names, found.value)
  })
})
