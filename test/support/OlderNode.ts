/** A Node without support for TypeScript, which some users still have. */
import { execFileSync } from "node:child_process"
import { getCandidateProgramPaths, projectRoot } from "./Processes.ts"

/** What `npm ci --prefix test/older-node` installs. */
const installed = `${projectRoot}/test/older-node/node_modules/node-linux-${process.arch}/bin/node`

/**
 * The path of a Node from version 20 on that cannot run TypeScript, if there is one in PATH or in `test/older-node`.
 */
export const olderNode = [...getCandidateProgramPaths("node"), installed].find((node) => {
  const script = "parseInt(process.versions.node) >= 20 && !process.features.typescript"
  try {
    return execFileSync(node, ["-p", script], { encoding: "utf8", stdio: "pipe" }).trim() === "true"
  } catch {
    return false
  }
})

/** Whether tests with an older Node are skipped. With `REQUIRE_OLDER_NODE`, they fail instead. */
export const isOlderNodeMissing = olderNode === undefined && (process.env["REQUIRE_OLDER_NODE"] ?? "") === ""

/** Ends the titles of tests that are skipped without an older Node. */
export const olderNodeTestSuffix = isOlderNodeMissing ? " (skipped: no Node 20 here)" : ""

/** Returns the path of the older Node. Throws if there is none. */
export const requireOlderNode = () => {
  if (olderNode === undefined) {
    throw new Error("REQUIRE_OLDER_NODE is set, but neither the PATH nor test/older-node has one")
  }
  return olderNode
}
