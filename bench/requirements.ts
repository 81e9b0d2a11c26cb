/** Checks that the programs required by the benchmark are installed. */
import { accessSync, constants, existsSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import { runToEnd } from "./processes.ts"

/** The required programs, and the Debian packages that contain them. */
const packages = { wrk: "wrk", pgbench: "postgresql" }

const isInstalled = (program: string) =>
  (process.env["PATH"] ?? "").split(":").some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK)
      return true
    } catch {
      return false
    }
  })

/**
 * Installs missing programs if the benchmark runs as root on Debian. Otherwise, fails with installation instructions.
 */
export const checkRequirements = async () => {
  if (Number(process.versions.node.split(".")[0]) < 24) {
    throw new Error(
      "This needs Node 24: run npm ci in the root of the project, then npm run bench here",
    )
  }
  const missing = Object.entries(packages).filter(([program]) => !isInstalled(program)).map(([, name]) => name)
  if (missing.length === 0) return
  const install = `apt-get install --yes ${missing.join(" ")}`
  if (process.getuid?.() !== 0 || !existsSync("/etc/debian_version")) {
    throw new Error(`This needs wrk and pgbench; on Debian run: ${install}`)
  }
  console.log(install)
  await runToEnd({ program: "apt-get", args: ["update"] })
  await runToEnd({
    program: "apt-get",
    args: ["install", "--yes", "--no-install-recommends", ...missing],
  })
}
