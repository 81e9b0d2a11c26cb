/**
 * Checks the platform, Node version and dependencies before anything else is imported. Written in JavaScript, so that
 * it runs even on Node versions that cannot run TypeScript.
 */
import { existsSync, readFileSync } from "node:fs"
import module, { createRequire } from "node:module"
import { join } from "node:path"
import process from "node:process"
import { fileURLToPath } from "node:url"
import { installCommand, startCommand } from "../../postgres/ProjectCommands.js"
import { supportedNodeVersions } from "./NodeVersion.js"

/**
 * Returns the reason why the service cannot start, or undefined if it can.
 *
 * @typedef {{ platform: string, node: string, runsTypeScript: boolean, root: string, missing: string[] }} Environment
 * @param {Environment} environment
 * @returns {string | undefined}
 */
export const findStartupProblem = ({ missing, node, platform, root, runsTypeScript }) => {
  if (platform === "win32") {
    return "Tickerline does not run on Windows directly. Use the Windows Subsystem for Linux: run `wsl --install`, " +
      `then run \`${installCommand}\` and \`${startCommand}\` in its shell ` +
      "(https://learn.microsoft.com/windows/wsl/install)."
  }
  const [first] = missing
  if (first !== undefined) {
    return `dependencies are not installed (${first} is missing from ${join(root, "node_modules")}). ` +
      `Run \`${installCommand}\` in ${root}, then try again.`
  }
  if (!runsTypeScript) {
    return `Node ${node} is too old to run TypeScript. Use \`npm start\` or \`npm run tickerline\`, which run the ` +
      `Node that \`npm ci\` installs, or install Node ${supportedNodeVersions}.`
  }
  return undefined
}

const root = join(fileURLToPath(import.meta.url), "../../../..")
const require = createRequire(import.meta.url)

/** @param {string} name */
const isInstalled = (name) =>
  (require.resolve.paths(name) ?? []).some((folder) => existsSync(join(folder, name, "package.json")))

const { dependencies, version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
const { deno, node } = process.versions

const problem = findStartupProblem({
  platform: process.platform,
  node,
  runsTypeScript: deno !== undefined || Boolean(process.features.typescript),
  root,
  missing: Object.keys(dependencies).filter((name) => !isInstalled(name)),
})

if (problem !== undefined) {
  console.error(`tickerline: ${problem}`)
  process.exit(1)
}

// The service's modules take a second to load. With LOG_FORMAT=json, standard error contains only logs.
if (process.argv[2] === "serve" && process.env.LOG_FORMAT !== "json") {
  console.error(`Starting Tickerline ${version}.`)
}

// Caches compiled code, which saves later starts about 0.7 s and 25 MiB of memory. If Node cannot write to the folder,
// it continues without the cache. Older versions of Node lack this function.
module.enableCompileCache?.(join(root, "node_modules/.cache/tickerline"))
