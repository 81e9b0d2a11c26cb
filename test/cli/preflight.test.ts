/** The check that runs before anything is imported: a checkout without its dependencies, an old Node, Windows. */
import { assert, describe, it } from "@effect/vitest"
import { execFileSync, spawnSync } from "node:child_process"
import { cpSync, mkdtempSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { obstacle } from "../../src/cli/preflight.js"
import { candidatePaths, projectRoot } from "../support/Processes.ts"

// @module-tag slow

/** The folder of another Node of the PATH, which does not run TypeScript. */
const older = candidatePaths("node").find((node) => {
  try {
    return execFileSync(node, ["-p", "Boolean(process.features.typescript)"], { encoding: "utf8" }).trim() === "false"
  } catch {
    return false
  }
})

const sentence = /^tickerline: [^\n]+\n$/

/** A checkout as Git makes it, before `npm ci`. */
const withFresh = (use: (folder: string) => void) => {
  const folder = mkdtempSync(join(tmpdir(), "tickerline-fresh-"))
  try {
    for (const name of ["package.json", ".npmrc", "bin", "src"]) {
      cpSync(join(projectRoot, name), join(folder, name), { recursive: true })
    }
    use(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const started = (command: string, args: ReadonlyArray<string>, cwd: string, node = dirname(process.execPath)) =>
  spawnSync(command, args, {
    cwd,
    encoding: "utf8",
    env: { PATH: `${node}:${process.env["PATH"]}`, HOME: process.env["HOME"], npm_config_update_notifier: "false" },
  })

describe("preflight", () => {
  it("README, the two commands: before npm ci every way to start says so in a sentence, and exits with 1", () =>
    withFresh((folder) => {
      symlinkSync(join(folder, "bin/tickerline"), join(folder, "linked"))
      const nodes = [dirname(process.execPath), ...(older === undefined ? [] : [dirname(older)])]
      const ways = nodes.flatMap((node) => [
        ["npm", ["start", "--silent"], node] as const,
        ["npm", ["run", "--silent", "dev"], node] as const,
        ["npm", ["run", "--silent", "tickerline", "--", "doctor"], node] as const,
        [join(folder, "linked"), ["doctor"], node] as const,
      ])
      for (const [command, args, node] of ways) {
        const { status, stderr, stdout } = started(command, args, folder, node)
        const said = stderr.split("\n").filter((line) => !line.startsWith("npm warn")).join("\n")
        assert.deepStrictEqual([status, stdout], [1, ""], `${command} ${args.join(" ")}\n${stderr}`)
        assert.match(said, sentence)
        assert.include(said, `Run \`npm ci\` in ${folder}`)
      }
    }))

  it("README, the two commands: an old Node, and Windows, are refused with what to do", () => {
    const found = { platform: "linux", node: "24.0.0", runsTypeScript: true, root: "/app", missing: [] }
    assert.strictEqual(obstacle(found), undefined)
    assert.strictEqual(obstacle({ ...found, platform: "darwin" }), undefined)
    assert.match(
      obstacle({ ...found, node: "20.1.0", runsTypeScript: false }) ?? "",
      /^Node 20\.1\.0 .*22\.18 or newer/,
    )
    assert.match(obstacle({ ...found, platform: "win32" }) ?? "", /Windows Subsystem for Linux.*wsl --install/)
  })
})
