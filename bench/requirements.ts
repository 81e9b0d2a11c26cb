/** Checks that the required programs are installed. */
import { accessSync, constants, existsSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import { runProgram } from "./processes.ts"

/** Debian packages by program. */
const packages = { wrk: "wrk", pgbench: "postgresql" }

const isThere = (program: string) =>
  (process.env["PATH"] ?? "").split(":").some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK)
      return true
    } catch {
      return false
    }
  })

export const checkRequirements = async () => {
  if (Number(process.versions.node.split(".")[0]) < 24) {
    throw new Error(
      "Node 24 is needed: run npm ci in the folder above, and then npm run bench here",
    )
  }
  const missing = Object.entries(packages).filter(([program]) => !isThere(program)).map(([, name]) => name)
  if (missing.length === 0) return
  const install = `apt-get install --yes ${missing.join(" ")}`
  if (process.getuid?.() !== 0 || !existsSync("/etc/debian_version")) {
    throw new Error(`wrk and pgbench are needed; on Debian: ${install}`)
  }
  console.log(install)
  await runProgram({ program: "apt-get", args: ["update"] })
  await runProgram({
    program: "apt-get",
    args: ["install", "--yes", "--no-install-recommends", ...missing],
  })
}
