/**
 * Runs the judges against one service instance that has the sample data. Exits with 1 if any judge reports a finding.
 */
import { Effect } from "effect"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { openServiceHome, startServiceOnRuntime } from "../support/RuntimeService.ts"
import { compiledClients } from "./CompiledClients.ts"
import { generatedClients } from "./GeneratedClients.ts"
import { helmChart } from "./HelmChart.ts"
import { isInstalled, type Judge, type JudgedService } from "./Judge.ts"
import { mcpConformance } from "./McpConformance.ts"
import { openApiLinters } from "./OpenApiLinters.ts"
import { prism } from "./Prism.ts"
import { schemathesis } from "./Schemathesis.ts"
import { slowhttptest } from "./Slowhttptest.ts"
import { sqlmap } from "./Sqlmap.ts"

const judges: ReadonlyArray<Judge> = [
  slowhttptest,
  helmChart,
  openApiLinters,
  generatedClients,
  compiledClients,
  prism,
  mcpConformance,
  sqlmap,
  schemathesis,
]

const { positionals, values } = parseArgs({ options: { full: { type: "boolean" } }, allowPositionals: true })
const unknownName = positionals.find((name) => judges.every((judge) => judge.name !== name))
if (unknownName !== undefined) {
  throw new Error(`${unknownName} is not one of ${judges.map(({ name }) => name).join(", ")}`)
}
const chosen = judges.filter(({ name }) => positionals.length === 0 || positionals.includes(name))

/** Runs a judge if its programs are installed. Returns its findings, or the reason why the judge failed. */
const runJudge = async ({ name, programs, run }: Judge, target: JudgedService): Promise<ReadonlyArray<string>> => {
  const missing = programs.filter((program) => !isInstalled(program))
  if (missing.length > 0) {
    const problem = `not installed: ${missing.join(", ")}`
    if (process.env["REQUIRE_JUDGES"] === "1") return [problem]
    console.log(`skipped ${name}, because these programs are ${problem}`)
    return []
  }
  const start = Date.now()
  const findings = await run(target).catch((error: unknown) => [String(error)])
  const seconds = ((Date.now() - start) / 1000).toFixed(1)
  console.log(`${findings.length === 0 ? "ok    " : "FAILED"} ${name} (${seconds} s)`)
  return findings
}

// The judges send more requests and more invalid keys per minute than the default limits for an account or address
// allow.
const noLimit = "1000000"
const limits = {
  RATE_LIMIT_BASIC: noLimit,
  RATE_LIMIT_PRO: noLimit,
  RATE_LIMIT_ULTIMATE: noLimit,
  WRONG_KEYS_LIMIT: noLimit,
}

const folder = await mkdtemp(join(tmpdir(), "tickerline-judges-"))
const port = await Effect.runPromise(chooseFreePort)
const allowedOrigin = { origin: `http://localhost:${port}`, port }
const { close, home } = await openServiceHome()
const service = await startServiceOnRuntime("node", home, { ...limits, CORS_ORIGINS: allowedOrigin.origin })
try {
  const text = await fetch(`${service.origin}/v1/openapi.json`).then((response) => response.text())
  const documentFile = join(folder, "openapi.json")
  await writeFile(documentFile, text)
  const { key, origin } = service
  const document: unknown = JSON.parse(text)
  const target = { origin, key, allowedOrigin, document, documentFile, folder, isFull: values.full === true }
  const failures: Array<readonly [string, ReadonlyArray<string>]> = []
  const runAndCollect = async (judge: Judge) => {
    const findings = await runJudge(judge, target)
    if (findings.length > 0) failures.push([judge.name, findings])
  }
  // The slow-client attack mostly waits, so it runs in the background while the other judges run one after another.
  const background = chosen.filter((judge) => judge === slowhttptest).map(runAndCollect)
  for (const judge of chosen) if (judge !== slowhttptest) await runAndCollect(judge)
  await Promise.all(background)
  for (const [name, findings] of failures) console.error(`\n== ${name}\n${findings.join("\n")}`)
  if (failures.length > 0) {
    console.error(`\nFAILED: ${failures.map(([name]) => name).join(", ")}`)
    process.exitCode = 1
  }
} finally {
  await service.stop()
  await close()
  await rm(folder, { recursive: true, force: true })
}
