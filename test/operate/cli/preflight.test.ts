/** Tests the check that runs before any import: for missing dependencies, an old Node version, and Windows. */
import { assert, describe, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import { cpSync, mkdtempSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { findStartupProblem } from "../../../src/operate/cli/preflight.js"
import { isOlderNodeMissing, olderNodeTestSuffix, requireOlderNode } from "../../support/OlderNode.ts"
import { projectRoot } from "../../support/Processes.ts"

// @module-tag slow

const sentence = /^tickerline: [^\n]+\n$/

/** Runs a test in a fresh checkout in which `npm ci` has not been run. */
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

const runFresh = (command: string, args: ReadonlyArray<string>, cwd: string, node: string) =>
  spawnSync(command, args, {
    cwd,
    encoding: "utf8",
    env: { PATH: `${node}:${process.env["PATH"]}`, HOME: process.env["HOME"], npm_config_update_notifier: "false" },
  })

describe("preflight", () => {
  const starts = [
    { name: "npm start", command: "npm", args: ["start", "--silent"] },
    { name: "npm run dev", command: "npm", args: ["run", "--silent", "dev"] },
    { name: "npm run tickerline", command: "npm", args: ["run", "--silent", "tickerline", "--", "doctor"] },
    { name: "a link to the command", command: "./linked", args: ["doctor"] },
  ]

  const assertRefused = (command: string, args: ReadonlyArray<string>, node: string) =>
    withFreshCheckout((folder) => {
      symlinkSync(join(folder, "src/operate/cli/tickerline"), join(folder, "linked"))
      const { status, stderr, stdout } = runFresh(command, args, folder, dirname(node))
      const message = stderr.split("\n").filter((line) => !line.startsWith("npm warn")).join("\n")
      assert.deepStrictEqual([status, stdout], [1, ""], stderr)
      assert.match(message, sentence)
      assert.include(message, `Run \`npm ci\` in ${folder}`)
    })

  it.each(starts)(
    "tells the user of $name to run npm ci, and exits with 1 (README.md)",
    ({ args, command }) => assertRefused(command, args, process.execPath),
  )

  it.skipIf(isOlderNodeMissing).each(starts)(
    `tells the user of $name on a Node without TypeScript to run npm ci, and exits with 1${olderNodeTestSuffix} (README.md)`,
    ({ args, command }) => assertRefused(command, args, requireOlderNode()),
  )

  it("keeps compiled code in node_modules, for later starts (operations/deployment)", () => {
    const script = "console.log(process.getBuiltinModule('module').getCompileCacheDir())"
    const { stdout } = spawnSync(process.execPath, ["--import", "./src/operate/cli/preflight.js", "--eval", script], {
      cwd: projectRoot,
      encoding: "utf8",
      env: { PATH: process.env["PATH"] },
    })
    assert.include(stdout, join(projectRoot, "node_modules/.cache/tickerline"))
  })

  it("refuses an old Node and Windows, and explains what to do (README.md)", () => {
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
