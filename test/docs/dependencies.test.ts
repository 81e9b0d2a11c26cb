/** Tests that dependencies.md gives a reason for exactly the packages that the project depends on. */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join, matchesGlob } from "node:path"
import denoJson from "../../deno.json" with { type: "json" }
import packageJson from "../../package.json" with { type: "json" }
import { repositoryRoot } from "../support/CodeBlocks.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"
import { findTableRows } from "./TestCitations.ts"

/** The text before the first section. The sections are about packages that are not in package.json. */
const [introduction = ""] = readFileSync(join(repositoryRoot, "docs/dependencies.md"), "utf8").split("\n## ")

/** The names in the first column, in which `*` stands for any part of a name, as in `node-linux-*`. */
const listed = findTableRows(introduction).flatMap((row) =>
  Array.from((row.split("|")[1] ?? "").matchAll(/`(.+?)`/g), ([, name = ""]) => name)
)

/** The packages that need a reason: all except those that only have types. */
const packages = Object.keys({
  ...packageJson.dependencies,
  ...packageJson.optionalDependencies,
  ...packageJson.devDependencies,
}).filter((name) => !name.startsWith("@types/"))

describe("dependencies.md", () => {
  it("gives a reason for every package in package.json except types (dependencies.md)", () => {
    assertFoundMoreThan(30, "packages", packages)
    assert.deepStrictEqual(packages.filter((name) => !listed.some((pattern) => matchesGlob(name, pattern))), [])
  })

  it("lists only packages in package.json or deno.json, and each of them once (dependencies.md)", () => {
    const known = [...packages, ...Object.keys(denoJson.imports)]
    assert.deepStrictEqual(listed.filter((pattern) => !known.some((name) => matchesGlob(name, pattern))), [])
    assert.deepStrictEqual(listed.filter((pattern, at) => listed.indexOf(pattern) !== at), [])
  })
})
