/** Finds a Node version without TypeScript support, which some users still have. */
import { execFileSync } from "node:child_process"
import { getCandidateProgramPaths, projectRoot } from "./Processes.ts"

/** The path at which `npm ci --prefix test/older-node` installs Node. */
const installed = `${projectRoot}/test/older-node/node_modules/node-linux-${process.arch}/bin/node`

/**
 * The path of a Node executable, version 20 or later, that cannot run TypeScript. Searches PATH and `test/older-node`.
 */
export const olderNode = [...getCandidateProgramPaths("node"), installed].find((node) => {
  const script = "parseInt(process.versions.node) >= 20 && !process.features.typescript"
  try {
    return execFileSync(node, ["-p", script], { encoding: "utf8", stdio: "pipe" }).trim() === "true"
  } catch {
    return false
  }
})

/** Whether tests with an older Node are skipped, because there is none and `REQUIRE_OLDER_NODE` is not set. */
export const isOlderNodeMissing = olderNode === undefined && (process.env["REQUIRE_OLDER_NODE"] ?? "") === ""

/** A suffix for test titles. States that the test is skipped if there is no older Node, and is empty otherwise. */
export const olderNodeTestSuffix = isOlderNodeMissing ? " (skipped: no Node 20 here)" : ""

/** Returns the path of the older Node. Throws if there is none. */
export const requireOlderNode = () => {
  if (olderNode === undefined) {
    throw new Error("REQUIRE_OLDER_NODE is set, but neither the PATH nor test/older-node has one")
  }
  return olderNode
}
