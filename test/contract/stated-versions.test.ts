/** Tests that all files that state the version agree with package.json (CONTRIBUTING). */
import { assert, describe, it } from "@effect/vitest"
import { globSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { namedVersion, readStatedVersions } from "../../clients/contract/StatedVersions.ts"
import packageJson from "../../package.json" with { type: "json" }
import { projectRoot } from "../support/Processes.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"

describe("The version in package.json", () => {
  it("is the only one that other files state (CONTRIBUTING.md)", () => {
    for (const [file, versions] of Object.entries(readStatedVersions())) {
      assert.deepStrictEqual(Array.from(new Set(versions)), [packageJson.version], file)
    }
  })

  it("names an image or an archive only in files that a release updates (CONTRIBUTING.md)", () => {
    const files = globSync(["*.{md,yaml}", "{.github,clients,docs,ops,samples}/**/*.{md,yaml,yml}"], {
      cwd: projectRoot,
      exclude: (name) => name === "node_modules" || name === "dist",
    })
    const naming = files.filter((file) => readFileSync(join(projectRoot, file), "utf8").search(namedVersion) >= 0)
    assertFoundMoreThan(3, "files that name a version", naming)
    assert.deepStrictEqual(naming.filter((file) => !(file in readStatedVersions())), [])
  })
})
