/** §9.2, §9.3, §9.6: what the service promises today, held against what was released last (contract/v1.json). */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { describeProblems, entriesSince, reviewDifferences } from "../../contract/ChangelogCoverage.ts"
import type { ContractDifference } from "../../contract/Difference.ts"
import { compareContracts, readReleaseVersion } from "../../contract/CompareContracts.ts"
import packageJson from "../../package.json" with { type: "json" }
import { openApiDocument } from "../../src/catalogue/OpenApiDocument.ts"
import { changelog, releases } from "../../src/changelog/Changelog.ts"
import type { ChangelogEntry } from "../../src/changelog/ChangelogEntry.ts"

const contract: unknown = JSON.parse(readFileSync(new URL("../../contract/v1.json", import.meta.url), "utf8"))

const today = new Date().toISOString().slice(0, 10)

const [first] = changelog

const entry = (more: Partial<ChangelogEntry>): ChangelogEntry => {
  if (first === undefined) throw new Error("the changelog is empty")
  return { ...first, type: "added", breaking: false, paths: ["/v1/widgets"], names: [], ...more }
}

const field: ContractDifference = {
  path: "/v1/widgets",
  name: "colour",
  kind: "added",
  breaking: false,
  description: "/v1/widgets, response 200.colour: a new field",
}
const broken: ContractDifference = { ...field, kind: "removed", breaking: true }
const endpoint: ContractDifference = { ...field, name: null }

describe("the contract", () => {
  it("§9.2 §9.6 nothing that was released is broken, and every change stands in the changelog", () => {
    const entries = entriesSince(readReleaseVersion(contract), changelog)
    const wrong = describeProblems(reviewDifferences(compareContracts(contract, openApiDocument, today), entries))
    // vitest shows a long text in full only where it is the message.
    if (wrong !== "") throw new Error(wrong)
  })

  it("§9.6 the contract is that of a release that the changelog knows, and no later one than package.json's", () => {
    const order = releases.map(({ release }) => release)
    const [released, current] = [order.indexOf(readReleaseVersion(contract)), order.indexOf(packageJson.version)]
    assert.isAtLeast(current, 0, "package.json's version has no release in the changelog")
    assert.isAtLeast(released, current)
    assert.isAtMost(current, 1, "at most one release is being made")
  })
})

describe("what a changelog covers", () => {
  it("§9.6 a change is told of by an entry that names its path and what of it changed", () => {
    const untold = (one: ContractDifference, ...entries: ReadonlyArray<ChangelogEntry>) =>
      reviewDifferences([one], entries).undocumented.length
    assert.strictEqual(untold(field), 1)
    assert.strictEqual(untold(field, entry({})), 1)
    assert.strictEqual(untold(field, entry({ names: ["color"] })), 1)
    assert.strictEqual(untold(field, entry({ paths: ["/v1/gadgets"], names: ["colour"] })), 1)
    assert.strictEqual(untold(field, entry({ names: ["colour"] })), 0)
    assert.strictEqual(untold(field, entry({ paths: ["/v1/*"], names: ["colour"] })), 0)
  })

  it("§9.6 a new endpoint is told of by its own path, not by a pattern", () => {
    const untold = (paths: ReadonlyArray<string>) =>
      reviewDifferences([endpoint], [entry({ paths })]).undocumented.length
    assert.strictEqual(untold(["/v1/*"]), 1)
    assert.strictEqual(untold(["/v1/widgets"]), 0)
  })

  it("§9.6 D24 a deprecation is told of by the entry that its declaration makes", () => {
    const deprecated: ContractDifference = { ...field, name: "deprecated", kind: "changed" }
    assert.strictEqual(reviewDifferences([deprecated], [entry({})]).undocumented.length, 1)
    assert.strictEqual(reviewDifferences([deprecated], [entry({ type: "deprecated" })]).undocumented.length, 0)
  })

  it("§9.6 where paths are listed a new one is told of by its own entry", () => {
    const listed: ContractDifference = { ...field, path: "/estimate", name: "endpoint", addedValue: "/v1/widgets" }
    assert.strictEqual(reviewDifferences([listed], [entry({})]).undocumented.length, 0)
    assert.strictEqual(reviewDifferences([listed], [entry({ paths: ["/v1/gadgets"] })]).undocumented.length, 1)
  })

  it("§9.2 §9.3 what breaks is broken whatever is told, but for a bug fix that names path and field", () => {
    const breaks = (...entries: ReadonlyArray<ChangelogEntry>) => reviewDifferences([broken], entries).breaking.length
    assert.strictEqual(breaks(entry({ type: "removed", breaking: true, names: ["colour"] })), 1)
    assert.strictEqual(breaks(entry({ type: "fixed", paths: ["/v1/*"], names: ["colour"] })), 1)
    assert.strictEqual(breaks(entry({ type: "fixed" })), 1)
    assert.strictEqual(breaks(entry({ type: "fixed", names: ["colour"] })), 0)
  })

  it("§9.6 entries of releases that are made already excuse nothing", () => {
    const [newest] = releases
    const last = releases.at(-1)
    assert.deepStrictEqual(entriesSince(newest?.release ?? "", changelog), [])
    assert.isAbove(entriesSince(last?.release ?? "", changelog).length, 0)
    assert.isTrue(entriesSince(last?.release ?? "", changelog).every(({ release }) => release !== last?.release))
    assert.throws(() => entriesSince("9.9.9", changelog), /9\.9\.9/)
  })

  it("§9.6 who fails is told what broke, which file to edit and what to write there", () => {
    const text = describeProblems(reviewDifferences([broken, field, endpoint], []))
    assert.include(text, "§9.2")
    assert.include(text, "src/changelog/entries.json")
    assert.include(text, `"paths": ["/v1/widgets"], "names": ["colour"]`)
    assert.include(text, "/v1/widgets, response 200.colour: a new field")
    assert.strictEqual(describeProblems(reviewDifferences([], [])), "")
  })
})
