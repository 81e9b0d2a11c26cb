/**
 * `npm run inprocess` measures the CPU time of one request without sockets and without PostgreSQL: the client and a
 * PostgreSQL with recorded replies are in the process of the service. See README.md.
 */
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { availableParallelism, cpus } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { recordStatements } from "./inprocess/record.ts"
import { readRecording, writeRecording } from "./inprocess/recording.ts"
import type { Measured } from "./inprocess/measure.ts"
import { options } from "./options.ts"
import { dataFolder } from "./postgres.ts"
import { runToEnd } from "./processes.ts"
import { formatMarkdownTable } from "./outcome.ts"

const root = join(import.meta.dirname, "..")
const file = join(dataFolder, "inprocess.json")

/** Changes if any file changes on which a recorded statement depends. */
const computeVersion = () => {
  const hash = createHash("sha256")
  const patterns = [
    "src/**/*.ts",
    "sql/**/*.sql",
    "bench/data.sql",
    "bench/cases.ts",
    "bench/inprocess/*.ts",
  ]
  for (const name of globSync(patterns, { cwd: root }).toSorted()) {
    hash.update(readFileSync(join(root, name)))
  }
  return hash.digest("hex")
}

const record = async () => {
  const version = computeVersion()
  if (
    !options.fresh && existsSync(file) &&
    readRecording(file).version === version
  ) return
  console.log("Recording the replies of PostgreSQL")
  mkdirSync(dataFolder, { recursive: true })
  writeRecording(file, { version, ...await recordStatements() })
}

const hasTaskset = () => {
  try {
    execFileSync("taskset", ["--version"])
    return true
  } catch {
    return false
  }
}

/** The memory settings of `npm start`, and a function that collects garbage between batches. */
const flags = () => {
  const { scripts } = JSON.parse(
    readFileSync(join(root, "package.json"), "utf8"),
  )
  return [
    ...String(scripts.start).split(" ").filter((word) => /^--(max|heap)/.test(word)),
    "--expose-gc",
  ]
}

const measure = async (
  isPinned: boolean,
  settings: Readonly<Record<string, string>>,
): Promise<ReadonlyArray<Measured>> => {
  const command = [
    ...(isPinned ? ["taskset", "--cpu-list", String(availableParallelism() - 1)] : []),
    process.execPath,
    ...flags(),
    join(import.meta.dirname, "inprocess/measure.ts"),
    ...process.argv.slice(2),
  ]
  const [program = "", ...args] = command
  return JSON.parse(
    await runToEnd({
      program,
      args,
      env: { RECORDING: file, RATE_LIMIT_ULTIMATE: "1000000000", ...settings },
    }),
  )
}

const formatTable = (
  title: string,
  runs: ReadonlyArray<ReadonlyArray<Measured>>,
) =>
  formatMarkdownTable(
    [
      title,
      ...runs.map((_, index) => `process ${index + 1}`),
      "lowest",
      "difference",
    ],
    (runs[0] ?? []).map((first, index) => {
      const values = runs.map((measured) => measured[index]?.micros ?? Number.NaN)
      const [low, high] = [Math.min(...values), Math.max(...values)]
      return [
        first.title,
        ...values.map((value) => value.toFixed(1)),
        low.toFixed(1),
        `${(100 * (high / low - 1)).toFixed(1)}%`,
      ]
    }),
  )

await record()
const isPinned = hasTaskset()
const runs: Array<ReadonlyArray<Measured>> = []
for (let run = 1; run <= options.processes; run += 1) {
  console.log(`Process ${run} of ${options.processes} measures`)
  const cached = await measure(isPinned, {})
  runs.push([...cached, ...await measure(isPinned, { UNCACHED: "1" })])
  writeFileSync(join(dataFolder, "inprocess-results.json"), JSON.stringify(runs))
}
const commit = execFileSync("git", [
  "-C",
  root,
  "describe",
  "--always",
  "--dirty",
], { encoding: "utf8" }).trim()
console.log(
  `\n${new Date().toISOString()} · ${commit} · Node ${process.version} · ${cpus()[0]?.model} · ` +
    `${isPinned ? "one core" : "not pinned to a core"} · the lowest of ${options.batches} batches\n`,
)
for (
  const [part, title] of [["request", "CPU µs per request"], [
    "step",
    "CPU µs per step",
  ]] as const
) {
  console.log(
    `${
      formatTable(
        title,
        runs.map((measured) => measured.filter((one) => one.part === part)),
      )
    }\n`,
  )
}
