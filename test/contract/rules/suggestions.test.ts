/** Tests the suggestions for misspelled names (D4). */
import { assert, describe, it } from "@effect/vitest"
import { Option, Schema } from "effect"
import { findNearestName, formatNameSuggestion } from "../../../src/contract/rules/NameSuggestions.ts"

const names = ["ticker", "limit", "page", "date_from", "DATABASE_URL"]

describe("findNearestName", () => {
  it("finds a name despite an extra, missing, wrong or swapped letter, a missing end, or another case (D4)", () => {
    const misspellings = [["tickerr", "ticker"], ["tickr", "ticker"], ["tocker", "ticker"], [
      "tikcer",
      "ticker",
    ]] as const
    for (const [sent, meant] of misspellings) assert.deepStrictEqual(findNearestName(sent, names), Option.some(meant))
    assert.deepStrictEqual(findNearestName("pgae", names), Option.some("page"))
    assert.deepStrictEqual(findNearestName("date", names), Option.some("date_from"))
    assert.deepStrictEqual(findNearestName("LIMIT", names), Option.some("limit"))
    assert.deepStrictEqual(findNearestName("database_ulr", names), Option.some("DATABASE_URL"))
    assert.strictEqual(formatNameSuggestion("tikcer", names), " Did you mean ticker?")
  })

  it("finds nothing if no name is similar (D4)", () => {
    assert.deepStrictEqual(findNearestName("volume", names), Option.none())
    assert.deepStrictEqual(findNearestName("", names), Option.none())
    assert.strictEqual(formatNameSuggestion("volume", names), "")
  })

  it.prop("finds a valid name for itself, and only valid names (D4)", [Schema.String], ([sent]) => {
    for (const name of names) assert.deepStrictEqual(findNearestName(name, names), Option.some(name))
    const found = findNearestName(sent, names)
    if (Option.isSome(found)) assert.include(names, found.value)
  })
})
