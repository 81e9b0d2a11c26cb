/** Tests that every promise in RELIABILITY.md cites an existing test. */
import { assert, describe, it } from "@effect/vitest"
import { globSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { clusterScenarios } from "../cluster/Scenarios.ts"
import { repositoryRoot } from "../support/CodeBlocks.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"
import { findCitations, findMissingCitations, findTableRows } from "./TestCitations.ts"

const rows = findTableRows(readFileSync(join(repositoryRoot, "docs/RELIABILITY.md"), "utf8"))

/** Returns the names of the cluster scenarios that a table row cites as `cluster/name`. */
const scenariosOf = (row: string) => Array.from(row.matchAll(/`cluster\/([\w-]+)`/g), ([, name = ""]) => name)

describe("RELIABILITY.md", () => {
  it("cites at least one test or cluster scenario for every promise (RELIABILITY.md)", () => {
    assertFoundMoreThan(25, "promises", rows)
    assert.deepStrictEqual(rows.filter((row) => findCitations(row).length + scenariosOf(row).length === 0), [])
  })

  it("cites only existing tests and scenarios, by their exact titles (RELIABILITY.md)", () => {
    assert.deepStrictEqual(findMissingCitations(rows.flatMap(findCitations)), [])
    const known = new Set(clusterScenarios.map(({ name }) => name))
    assert.deepStrictEqual(rows.flatMap(scenariosOf).filter((name) => !known.has(name)), [])
  })

  it("has a promise for every cluster scenario except `scaling` (RELIABILITY.md)", () => {
    const cited = new Set(rows.flatMap(scenariosOf))
    // The `scaling` scenario backs no promise. It measures throughput for SCALING.md.
    const uncited = clusterScenarios.map(({ name }) => name).filter((name) => name !== "scaling" && !cited.has(name))
    assert.deepStrictEqual(uncited, [])
  })

  it("has a promise for every fault and soak test (RELIABILITY.md)", () => {
    const files = globSync("test/{faults,soak}/*.test.ts", { cwd: repositoryRoot })
    assertFoundMoreThan(8, "fault and soak tests", files)
    const cited = new Set(rows.flatMap(findCitations).map(({ file }) => file))
    assert.deepStrictEqual(files.filter((file) => !cited.has(file)), [])
  })
})
