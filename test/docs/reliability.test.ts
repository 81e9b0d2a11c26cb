/** That RELIABILITY.md is true: each promise names the test that tries it, and that test is there. */
import { assert, describe, it } from "@effect/vitest"
import { existsSync, globSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { scenarios } from "../cluster/Scenarios.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))

const text = readFileSync(`${root}/RELIABILITY.md`, "utf8")

/** What a cluster is put through, named `cluster/…`. */
const ofCluster = (line: string) => Array.from(line.matchAll(/`cluster\/([\w-]+)`/g), ([, name = ""]) => name)

/** The rows of the tables, without their heads. */
const rows = text.split("\n").filter((line) => /^\| (?!Promise|-)/.test(line))

const named = (line: string) =>
  Array.from(
    line.matchAll(/`((?:test|faults|soak|account)\/[\w/-]+)`/g),
    ([, name = ""]) => `${name.startsWith("test/") ? "" : "test/"}${name}.test.ts`,
  )

describe("RELIABILITY.md", () => {
  it("RELIABILITY each promise names its test, which is there", () => {
    assert.isAbove(rows.length, 25)
    for (const row of rows) {
      const files = named(row)
      const tried = ofCluster(row)
      assert.isAbove(files.length + tried.length, 0, row)
      for (const name of tried) assert.isTrue(scenarios.some((scenario) => scenario.name === name), `${name}: ${row}`)
      for (const file of files) assert.isTrue(existsSync(`${root}/${file}`), `${file}: ${row}`)
    }
  })

  it("RELIABILITY each scenario of the cluster stands behind a promise", () => {
    const behind = new Set(rows.flatMap(ofCluster))
    // How much two processes answer is SCALING.md's.
    const left = scenarios.map(({ name }) => name).filter((name) => name !== "scaling" && !behind.has(name))
    assert.deepStrictEqual(left, [])
  })

  it("RELIABILITY each test of faults stands behind a promise", () => {
    const files = globSync("test/{faults,soak}/*.test.ts", { cwd: root })
    assert.isAbove(files.length, 8)
    const behind = new Set(rows.flatMap(named))
    assert.deepStrictEqual(files.filter((file) => !behind.has(file)), [])
  })
})
