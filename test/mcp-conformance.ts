/**
 * Runs the official conformance suite against the MCP server, for each protocol version. The suite sends no keys, so a
 * proxy adds one. Prints one line per scenario, and exits with 1 if a check fails that is not expected to.
 */
import { spawn } from "node:child_process"
import { globSync, readFileSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { createServer, request } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { findFreePort, openHome, startOnRuntime } from "./support/RuntimeService.ts"

const suite = fileURLToPath(
  new URL("../.ci/mcp/node_modules/@modelcontextprotocol/conformance/dist/index.js", import.meta.url),
)

/** The scenarios that apply. All others need tools, prompts or resources of a demonstration server, or a session. */
const scenarios: Readonly<Record<string, ReadonlyArray<string>>> = {
  "2025-06-18": ["server-initialize", "ping", "tools-list", "resources-list", "logging-set-level"],
  "2025-11-25": [
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "logging-set-level",
    "dns-rebinding-protection",
  ],
  "2026-07-28": [
    "server-stateless",
    "tools-list",
    "resources-list",
    "sep-2164-resource-not-found",
    "dns-rebinding-protection",
    "caching",
    "http-header-validation",
  ],
}

/** Checks in these scenarios that cannot pass, with the reason. */
const expectedFailures: Readonly<Record<string, string>> = {
  "sep-2575-server-rejects-undeclared-capability": "needs a tool that requires a capability of the client",
  "sep-2575-missing-capability-http-400": "needs a tool that requires a capability of the client",
  "sep-2575-http-server-no-independent-requests-on-stream": "needs a tool that asks the client",
  "sep-2575-server-no-log-without-loglevel": "needs a tool that logs",
  "sep-2549-prompts-list-caching-hints": "the server has no prompts",
}

/** Starts a proxy that adds the key to each request. */
const startProxy = (port: number, getTarget: () => { readonly origin: string; readonly key: string }) =>
  new Promise<() => void>((resolve) => {
    const server = createServer((incoming, outgoing) => {
      const { key, origin } = getTarget()
      const forwarded = request(
        `${origin}${incoming.url ?? "/"}`,
        { method: incoming.method, headers: { ...incoming.headers, "x-api-key": key } },
        (response) => {
          outgoing.writeHead(response.statusCode ?? 502, response.headers)
          response.pipe(outgoing)
        },
      )
      forwarded.on("error", () => outgoing.destroy())
      incoming.pipe(forwarded)
    }).listen(port, "127.0.0.1", () => resolve(() => void server.close()))
  })

interface Check {
  readonly id: string
  readonly status: string
  readonly errorMessage?: string
}

/** Runs a scenario and returns its checks. */
const runScenario = async (url: string, version: string, scenario: string, results: string) => {
  const args = ["server", "--url", url, "--spec-version", version, "--scenario", scenario, "-o", results]
  const child = spawn(process.execPath, [suite, ...args], { stdio: "ignore" })
  await new Promise((resolve) => child.once("close", resolve))
  const [file] = globSync("*/checks.json", { cwd: results })
  if (file === undefined) throw new Error(`The suite did not run ${scenario}. Run npm ci --prefix .ci/mcp first.`)
  const checks: ReadonlyArray<Check> = JSON.parse(readFileSync(join(results, file), "utf8"))
  return checks
}

const port = await findFreePort()
const folder = await mkdtemp(join(tmpdir(), "tickerline-mcp-"))
// The suite's valid origin is that of the address that it tests.
const settings = { CORS_ORIGINS: `http://localhost:${port}` }
const { close, home } = await openHome()
const service = await startOnRuntime("node", home, settings)
const closeProxy = await startProxy(port, () => service)

try {
  const unmet = new Set(Object.keys(expectedFailures))
  for (const [version, names] of Object.entries(scenarios)) {
    for (const scenario of names) {
      const results = join(folder, `${version}-${scenario}`)
      const checks = await runScenario(`http://localhost:${port}/mcp`, version, scenario, results)
      const failed = checks.filter(({ status }) => status === "FAILURE")
      const unexpected = failed.filter(({ id }) => expectedFailures[id] === undefined)
      for (const { id } of failed) unmet.delete(id)
      const passed = checks.filter(({ status }) => status === "SUCCESS").length
      const isOk = unexpected.length === 0 && passed > 0
      console.log(`${isOk ? "ok    " : "FAILED"} ${version} ${scenario}: ${passed} checks passed`)
      for (const { errorMessage, id } of unexpected) console.log(`       ${id}: ${errorMessage ?? ""}`)
      if (!isOk) process.exitCode = 1
    }
  }
  for (const id of unmet) {
    console.log(`FAILED ${id} passed; remove it from the expected failures`)
    process.exitCode = 1
  }
} finally {
  closeProxy()
  await service.stop()
  await close()
  await rm(folder, { recursive: true, force: true })
}
