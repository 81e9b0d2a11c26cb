/** SCALING.md says what the model says, and the model stands on figures that were taken. */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Schema } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { all, ceilings, need } from "../../bench/capacity/model.ts"
import { withTables } from "../../bench/capacity/tables.ts"
import { projectRoot } from "../support/Processes.ts"

const document = readFileSync(join(projectRoot, "SCALING.md"), "utf8")

/** However a formatter lines the tables up. */
const cells = (text: string) => text.replace(/ +/g, " ").replace(/-{2,}/g, "--")

const whole = (maximum: number) => Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum })))

const share = Arbitrary.map(whole(1000), (thousandths) => thousandths / 1000)
const rate = whole(2_000_000)

describe("SCALING.md", () => {
  it("SCALING.md has a value for each figure, with its unit, its kind and how and when it was taken", () => {
    for (const [name, figure] of Object.entries(all)) {
      assert.isNotNull(figure.value, `${name} is not measured yet`)
      assert.isAbove(figure.value ?? 0, 0, name)
      assert.include(["assumed", "measured", "reckoned"], figure.kind, name)
      assert.isNotEmpty(figure.unit, name)
      assert.isNotEmpty(figure.how, name)
      assert.match(figure.when, figure.kind === "assumed" ? /^–$/ : /^\d{4}-\d\d-\d\d$/, name)
    }
  })

  it("SCALING.md shows what `npm run capacity` prints; renew it with --write", () => {
    assert.strictEqual(cells(withTables(document)), cells(document))
  })

  it.prop("SCALING.md: more requests never need less, and more hits never need more", [rate, rate, share, share], (
    [one, another, few, many],
  ) => {
    const [low, high] = [Math.min(one, another), Math.max(one, another)]
    const counted = ["service", "reading", "processes", "connections", "network", "usage"] as const
    for (const name of counted) {
      assert.isAtMost(need(low, few)[name], need(high, few)[name], name)
      assert.isAtLeast(need(high, Math.min(few, many))[name], need(high, Math.max(few, many))[name], name)
    }
  })

  it("SCALING.md: below the first ceiling one of everything is enough, and above each something is added", () => {
    const shares = [0, 0.5, 0.95]
    for (const { add, at, what } of ceilings()) {
      assert.strictEqual(at.length, shares.length, what)
      assert.isNotEmpty(add, what)
      for (const [place, rate] of at.entries()) assert.isAtLeast(rate, at[place - 1] ?? 0, `${what}, more hits`)
    }
    const [first] = ceilings()
    for (const [place, hits] of shares.entries()) {
      const found = need(Math.floor(first?.at[place] ?? 0), hits)
      assert.isAtMost(found.service, 0.6, "one process")
    }
  })
})
