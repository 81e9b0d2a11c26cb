/** Tests the check that runs before anything is imported: missing dependencies, an old Node, Windows. */
import { assert, describe, it } from "@effect/vitest"
import { execFileSync, spawnSync } from "node:child_process"
import { cpSync, mkdtempSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { findStartupProblem } from "../../src/cli/preflight.js"
import { getCandidateProgramPaths, projectRoot } from "../support/Processes.ts"

// @module-tag slow

/** Path of a Node that cannot run TypeScript, if the PATH has one. */
const oldNode = getCandidateProgramPaths("node").find((node) => {
  try {
    return execFileSync(node, ["-p", "Boolean(process.features.typescript)"], { encoding: "utf8" }).trim() === "false"
  } catch {
    return false
  }
})

const sentence = /^tickerline: [^\n]+\n$/

/** Runs a test in a fresh checkout, before `npm ci`. */
const withFreshCheckout = (use: (folder: string) => void) => {
  const folder = mkdtempSync(join(tmpdir(), "tickerline-fresh-"))
  try {
    for (const name of ["package.json", ".npmrc", "src"]) {
      cpSync(join(projectRoot, name), join(folder, name), { recursive: true })
    }
    use(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const runFresh = (command: string, args: ReadonlyArray<string>, cwd: string, node = dirname(process.execPath)) =>
  spawnSync(command, args, {
    cwd,
    encoding: "utf8",
    env: { PATH: `${node}:${process.env["PATH"]}`, HOME: process.env["HOME"], npm_config_update_notifier: "false" },
  })

describe("preflight", () => {
  it("tells the user to run npm ci and exits with 1, no matter how the command is started (README)", () =>
    withFreshCheckout((folder) => {
      symlinkSync(join(folder, "src/cli/tickerline"), join(folder, "linked"))
      const nodes = [dirname(process.execPath), ...(oldNode === undefined ? [] : [dirname(oldNode)])]
      const starts = nodes.flatMap((node) => [
        ["npm", ["start", "--silent"], node] as const,
        ["npm", ["run", "--silent", "dev"], node] as const,
        ["npm", ["run", "--silent", "tickerline", "--", "doctor"], node] as const,
        [join(folder, "linked"), ["doctor"], node] as const,
      ])
      for (const [command, args, node] of starts) {
        const { status, stderr, stdout } = runFresh(command, args, folder, node)
        const message = stderr.split("\n").filter((line) => !line.startsWith("npm warn")).join("\n")
        assert.deepStrictEqual([status, stdout], [1, ""], `${command} ${args.join(" ")}\n${stderr}`)
        assert.match(message, sentence)
        assert.include(message, `Run \`npm ci\` in ${folder}`)
      }
    }))

  it("keeps compiled code in node_modules, for later starts (operations/deployment)", () => {
    const script = "console.log(process.getBuiltinModule('module').getCompileCacheDir())"
    const { stdout } = spawnSync(process.execPath, ["--import", "./src/cli/preflight.js", "--eval", script], {
      cwd: projectRoot,
      encoding: "utf8",
      env: { PATH: process.env["PATH"] },
    })
    assert.include(stdout, join(projectRoot, "node_modules/.cache/tickerline"))
  })

  it("refuses an old Node and Windows, and explains what to do (README)", () => {
    const environment = { platform: "linux", node: "24.0.0", runsTypeScript: true, root: "/app", missing: [] }
    assert.strictEqual(findStartupProblem(environment), undefined)
    assert.strictEqual(findStartupProblem({ ...environment, platform: "darwin" }), undefined)
    assert.match(
      findStartupProblem({ ...environment, node: "20.1.0", runsTypeScript: false }) ?? "",
      /^Node 20\.1\.0 .*22\.19 or newer/,
    )
    assert.match(
      findStartupProblem({ ...environment, platform: "win32" }) ?? "",
      /Windows Subsystem for Linux.*wsl --install/,
    )
  })
})
