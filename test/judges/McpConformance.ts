/** Runs the official MCP conformance suite against the MCP server, once for each protocol version. */
import { globSync, readFileSync } from "node:fs"
import { createServer, request } from "node:http"
import { join } from "node:path"
import { type Judge, type JudgedService, runProgram } from "./Judge.ts"

/**
 * The scenarios that apply to this server, by protocol version. The other scenarios require features that the server
 * does not advertise: prompts, logging, the tools of a demonstration server, or sessions.
 */
const scenarios: Readonly<Record<string, ReadonlyArray<string>>> = {
  "2025-06-18": ["server-initialize", "ping", "tools-list", "resources-list"],
  "2025-11-25": [
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
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

/** The checks in these scenarios that cannot pass, each with the reason. */
const expectedFailures: Readonly<Record<string, string>> = {
  "sep-2575-server-rejects-undeclared-capability": "needs a tool that requires a capability of the client",
  "sep-2575-missing-capability-http-400": "needs a tool that requires a capability of the client",
  "sep-2575-http-server-no-independent-requests-on-stream": "needs a tool that asks the client",
  "sep-2575-server-no-log-without-loglevel": "needs a tool that logs",
  "sep-2549-prompts-list-caching-hints": "the server has no prompts",
}

/** Starts a proxy that adds the API key to each request, because the suite sends no key. */
const startProxy = ({ allowedOrigin: { port }, key, origin }: JudgedService) =>
  new Promise<() => void>((resolve, reject) => {
    const server = createServer((incoming, outgoing) => {
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
    }).on("error", reject).listen(port, "127.0.0.1", () => resolve(() => void server.close()))
  })

/** The result of one check, as written by the suite to its result files. */
interface Check {
  readonly id: string
  readonly status: string
  readonly errorMessage?: string
}

/** Runs the suite for one protocol version. Returns a function that reads the check results of a scenario. */
const runSuite = async (url: string, version: string, results: string) => {
  const args = ["server", "--url", url, "--spec-version", version, "--suite", "all", "-o", results]
  // The exit code is not usable: the suite always fails because of the scenarios that do not apply.
  const { output } = await runProgram("conformance", args)
  return (scenario: string) => {
    const [file] = globSync(`server-${scenario}-[0-9]*T*/checks.json`, { cwd: results })
    if (file === undefined) throw new Error(`The suite did not run ${scenario} of ${version}:\n${output}`)
    const checks: ReadonlyArray<Check> = JSON.parse(readFileSync(join(results, file), "utf8"))
    return checks
  }
}

/** Checks the MCP server. A check that passes although it is expected to fail is also a finding. */
export const mcpConformance: Judge = {
  name: "mcp-conformance",
  programs: ["conformance"],
  run: async (target) => {
    const closeProxy = await startProxy(target)
    try {
      const findings: Array<string> = []
      const notYetFailed = new Set(Object.keys(expectedFailures))
      for (const [version, names] of Object.entries(scenarios)) {
        // The suite sends this URL's origin as its valid `Origin` header, so the service must allow that origin.
        const url = `${target.allowedOrigin.origin}/mcp`
        const checksOf = await runSuite(url, version, join(target.folder, `mcp-${version}`))
        for (const name of names) {
          const checks = checksOf(name)
          const failed = checks.filter(({ status }) => status === "FAILURE")
          for (const { errorMessage = "", id } of failed) {
            notYetFailed.delete(id)
            if (expectedFailures[id] === undefined) findings.push(`${version} ${name}: ${id}: ${errorMessage}`)
          }
          if (checks.every(({ status }) => status !== "SUCCESS")) findings.push(`${version} ${name}: nothing passed`)
        }
      }
      return [...findings, ...Array.from(notYetFailed, (id) => `${id} passed; remove it from the expected failures`)]
    } finally {
      closeProxy()
    }
  },
}
