/**
 * Checks what the service needs before anything else is imported: a platform that it runs on, a Node that runs
 * TypeScript, and the installed dependencies. Plain JavaScript, so that an older Node runs it too.
 */
import { existsSync, readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import process from "node:process"
import { fileURLToPath } from "node:url"

/**
 * What keeps the service from starting, as a sentence; undefined if nothing does.
 *
 * @typedef {{ platform: string, node: string, runsTypeScript: boolean, root: string, missing: string[] }} Found
 * @param {Found} found
 * @returns {string | undefined}
 */
export const obstacle = ({ missing, node, platform, root, runsTypeScript }) => {
  if (platform === "win32") {
    return "Tickerline does not run on Windows itself. Use the Windows Subsystem for Linux: run `wsl --install`, " +
      "then `npm ci` and `npm start` in its shell (https://learn.microsoft.com/windows/wsl/install)."
  }
  const [first] = missing
  if (first !== undefined) {
    return `the dependencies are not installed (${first} is missing in ${join(root, "node_modules")}). ` +
      `Run \`npm ci\` in ${root}, then try again.`
  }
  if (!runsTypeScript) {
    return `Node ${node} is too old: it does not run TypeScript. Start through \`npm start\` or ` +
      "`npm run tickerline`, which use the Node that `npm ci` installs, or use Node 22.18 or newer."
  }
  return undefined
}

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
const require = createRequire(import.meta.url)

/** @param {string} name */
const isInstalled = (name) =>
  (require.resolve.paths(name) ?? []).some((folder) => existsSync(join(folder, name, "package.json")))

const { dependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
const { deno, node } = process.versions

const found = obstacle({
  platform: process.platform,
  node,
  runsTypeScript: deno !== undefined || Boolean(process.features.typescript),
  root,
  missing: Object.keys(dependencies).filter((name) => !isInstalled(name)),
})

if (found !== undefined) {
  console.error(`tickerline: ${found}`)
  process.exit(1)
}
