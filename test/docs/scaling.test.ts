/**
 * Tests that SCALING.md shows the current results of the capacity model, and that every figure in the model has a value
 * and a source.
 */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Schema } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { computeNeed, figuresByName, listCeilings } from "../../bench/capacity/model.ts"
import { replaceTables } from "../../bench/capacity/tables.ts"
import { projectRoot } from "../support/Processes.ts"

const document = readFileSync(join(projectRoot, "docs/SCALING.md"), "utf8")

/** Removes the padding that a formatter adds to table cells. */
const cells = (text: string) => text.replace(/ +/g, " ").replace(/-{2,}/g, "--")

const integer = (maximum: number) => Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum })))

const share = Arbitrary.map(integer(1000), (thousandths) => thousandths / 1000)
const rate = integer(2_000_000)

describe("SCALING.md", () => {
  it("has a value, unit, kind, source and date for each figure (SCALING.md)", () => {
    for (const [name, figure] of Object.entries(figuresByName)) {
      assert.isNotNull(figure.value, `${name} is not measured yet`)
      assert.isAbove(figure.value ?? 0, 0, name)
      assert.include(["assumed", "measured", "calculated"], figure.kind, name)
      assert.isNotEmpty(figure.unit, name)
      assert.isNotEmpty(figure.how, name)
      assert.match(figure.when, figure.kind === "assumed" ? /^–$/ : /^\d{4}-\d\d-\d\d$/, name)
    }
  })

  it("shows the tables that `npm run capacity -- --write` writes (SCALING.md)", () => {
    assert.strictEqual(cells(replaceTables(document)), cells(document))
  })

  it.prop("never plans fewer resources for more requests, or more resources for more cached responses (SCALING.md)", [
    rate,
    rate,
    share,
    share,
  ], (
    [one, another, few, many],
  ) => {
    const [low, high] = [Math.min(one, another), Math.max(one, another)]
    const counted = ["service", "reading", "processes", "connections", "network", "usage"] as const
    for (const name of counted) {
      assert.isAtMost(computeNeed(low, few)[name], computeNeed(high, few)[name], name)
      assert.isAtLeast(computeNeed(high, Math.min(few, many))[name], computeNeed(high, Math.max(few, many))[name], name)
    }
  })

  it("plans one process up to the first ceiling, and names an addition at each ceiling (SCALING.md)", () => {
    const shares = [0, 0.5, 0.95]
    for (const { add, at, what } of listCeilings()) {
      assert.strictEqual(at.length, shares.length, what)
      assert.isNotEmpty(add, what)
      for (const [place, rate] of at.entries()) assert.isAtLeast(rate, at[place - 1] ?? 0, `${what}, more hits`)
    }
    const [first] = listCeilings()
    for (const [place, hits] of shares.entries()) {
      const found = computeNeed(Math.floor(first?.at[place] ?? 0), hits)
      // The plan contains two processes. This is the idle load of the second one.
      const idleProcess = (figuresByName.serviceIdle.value ?? 0) / 1e6
      assert.isAtMost(found.service - idleProcess, 0.6, "one process")
    }
  })
})
