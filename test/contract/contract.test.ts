/** Compares the current contract with the released one (clients/contract/v1.json): §9.2, §9.3, §9.6 (notification). */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import {
  describeContractProblems,
  listEntriesSince,
  reviewContractDifferences,
} from "../../clients/contract/ChangelogCoverage.ts"
import type { ContractDifference } from "../../clients/contract/Difference.ts"
import { compareContracts, readReleaseVersion } from "../../clients/contract/CompareContracts.ts"
import packageJson from "../../package.json" with { type: "json" }
import { getDefaultOpenApiDocument } from "../../src/api/catalogue/OpenApiDocument.ts"
import { changelogEntries, changelogReleases } from "../../src/api/changelog/Changelog.ts"
import type { ChangelogEntry } from "../../src/contract/ChangelogEntry.ts"

const contract: unknown = JSON.parse(readFileSync(new URL("../../clients/contract/v1.json", import.meta.url), "utf8"))

const today = new Date().toISOString().slice(0, 10)

const [first] = changelogEntries

/** Builds a changelog entry about `/v1/widgets`. */
const entry = (more: Partial<ChangelogEntry>): ChangelogEntry => {
  if (first === undefined) throw new Error("the changelog is empty")
  return { ...first, type: "added", breaking: false, paths: ["/v1/widgets"], names: [], ...more }
}

/** A new field, a removed field and a new endpoint. */
const field: ContractDifference = {
  path: "/v1/widgets",
  name: "colour",
  kind: "added",
  breaking: false,
  description: "/v1/widgets, response 200.colour: a new field",
}
const broken: ContractDifference = { ...field, kind: "removed", breaking: true }
const endpoint: ContractDifference = { ...field, name: null }

describe("The contract", () => {
  it("breaks nothing that was released, and lists every change in the changelog (§9.2, §9.6)", () => {
    const entries = listEntriesSince(readReleaseVersion(contract), changelogEntries)
    const wrong = describeContractProblems(
      reviewContractDifferences(compareContracts(contract, getDefaultOpenApiDocument(), today), entries),
    )
    // Vitest shows a long text in full only if it is an error message.
    if (wrong !== "") throw new Error(wrong)
  })

  it("belongs to a release in the changelog that is not later than the version in package.json (§9.6)", () => {
    const order = changelogReleases.map(({ release }) => release)
    const [released, current] = [order.indexOf(readReleaseVersion(contract)), order.indexOf(packageJson.version)]
    assert.isAtLeast(current, 0, "package.json's version has no release in the changelog")
    assert.isAtLeast(released, current)
    assert.isAtMost(current, 1, "at most one release is being made")
  })
})

describe("changelog coverage", () => {
  it("an entry documents a change if it names the path and the changed part (§9.6)", () => {
    const findUndocumented = (one: ContractDifference, ...entries: ReadonlyArray<ChangelogEntry>) =>
      reviewContractDifferences([one], entries).undocumented.length
    assert.strictEqual(findUndocumented(field), 1)
    assert.strictEqual(findUndocumented(field, entry({})), 1)
    assert.strictEqual(findUndocumented(field, entry({ names: ["color"] })), 1)
    assert.strictEqual(findUndocumented(field, entry({ paths: ["/v1/gadgets"], names: ["colour"] })), 1)
    assert.strictEqual(findUndocumented(field, entry({ names: ["colour"] })), 0)
    assert.strictEqual(findUndocumented(field, entry({ paths: ["/v1/*"], names: ["colour"] })), 0)
  })

  it("a new endpoint is documented by its own path, not by a pattern (§9.6)", () => {
    const findUndocumented = (paths: ReadonlyArray<string>) =>
      reviewContractDifferences([endpoint], [entry({ paths })]).undocumented.length
    assert.strictEqual(findUndocumented(["/v1/*"]), 1)
    assert.strictEqual(findUndocumented(["/v1/widgets"]), 0)
  })

  it("a deprecation is documented by the entry derived from its declaration (§9.6, D24)", () => {
    const deprecated: ContractDifference = { ...field, name: "deprecated", kind: "changed" }
    assert.strictEqual(reviewContractDifferences([deprecated], [entry({})]).undocumented.length, 1)
    assert.strictEqual(reviewContractDifferences([deprecated], [entry({ type: "deprecated" })]).undocumented.length, 0)
  })

  it("a new path in a list of allowed values is documented by the entry of that path (§9.6)", () => {
    const listed: ContractDifference = { ...field, path: "/estimate", name: "endpoint", addedValue: "/v1/widgets" }
    assert.strictEqual(reviewContractDifferences([listed], [entry({})]).undocumented.length, 0)
    assert.strictEqual(reviewContractDifferences([listed], [entry({ paths: ["/v1/gadgets"] })]).undocumented.length, 1)
  })

  it("a breaking change is reported unless an entry of type fixed names its path and field (§9.2, §9.3)", () => {
    const breaks = (...entries: ReadonlyArray<ChangelogEntry>) =>
      reviewContractDifferences([broken], entries).breaking.length
    assert.strictEqual(breaks(entry({ type: "removed", breaking: true, names: ["colour"] })), 1)
    assert.strictEqual(breaks(entry({ type: "fixed", paths: ["/v1/*"], names: ["colour"] })), 1)
    assert.strictEqual(breaks(entry({ type: "fixed" })), 1)
    assert.strictEqual(breaks(entry({ type: "fixed", names: ["colour"] })), 0)
  })

  it("entries of earlier releases do not count (§9.6)", () => {
    const later = ["1.0.1", "1.1.0", "1.10.0", "2.0.0"].map((release) => entry({ release }))
    assert.deepStrictEqual(listEntriesSince("1.0.0", [...later, entry({ release: "1.0.0" })]), later)
    assert.throws(() => listEntriesSince("9.9.9", changelogEntries), /9\.9\.9/)
  })

  it("the report names the broken part, the file to edit and the text to add (§9.6)", () => {
    const text = describeContractProblems(reviewContractDifferences([broken, field, endpoint], []))
    assert.include(text, "§9.2")
    assert.include(text, "src/api/changelog/entries.json")
    assert.include(text, `"paths": ["/v1/widgets"], "names": ["colour"]`)
    assert.include(text, "/v1/widgets, response 200.colour: a new field")
    assert.strictEqual(describeContractProblems(reviewContractDifferences([], [])), "")
  })
})
