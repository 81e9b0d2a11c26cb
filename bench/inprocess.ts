/**
 * `npm run inprocess` measures the CPU time of a single request without sockets and without a real PostgreSQL server.
 * The client and a simulated PostgreSQL server, which replays recorded replies, run in the same process as the service.
 * See README.md.
 */
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { availableParallelism, cpus } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { recordStatements } from "./inprocess/record.ts"
import { readRecording, writeRecording } from "./inprocess/recording.ts"
import type { CachedLineageMemory } from "./inprocess/heap.ts"
import type { Measured } from "./inprocess/measure.ts"
import { options } from "./options.ts"
import { dataFolder } from "./postgres.ts"
import { runToEnd } from "./processes.ts"
import { describeLoad, watchMachine } from "./machineLoad.ts"
import { formatMarkdownTable } from "./outcome.ts"
import { median, quartiles } from "./statistics.ts"

const root = join(import.meta.dirname, "..")
const file = join(dataFolder, "inprocess.json")

/** Returns a hash of all files that the recording depends on. */
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

/** Records the replies of a real PostgreSQL server, unless a recording for the current files exists. */
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

/** Returns the memory flags that `npm start` passes to Node. */
const memorySettings = () => {
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
  return String(scripts.start).split(" ").filter((word) => /^--(max|heap)/.test(word))
}

/**
 * Runs Node with the given arguments in a separate process, which reads the recording. Parses the JSON that the process
 * prints.
 *
 * @param isPinned whether the process is pinned to the last core
 */
const measure = async (
  isPinned: boolean,
  command: ReadonlyArray<string>,
  settings: Readonly<Record<string, string>> = {},
) => {
  const [program = "", ...args] = [
    ...(isPinned ? ["taskset", "--cpu-list", String(availableParallelism() - 1)] : []),
    process.execPath,
    ...memorySettings(),
    ...command,
  ]
  const env = { RECORDING: file, RATE_LIMIT_ULTIMATE: "1000000000", ...settings }
  return JSON.parse(await runToEnd({ program, args, env }))
}

const main = join(import.meta.dirname, "main.ts")

const measureCases = (
  isPinned: boolean,
  settings: Readonly<Record<string, string>>,
): Promise<ReadonlyArray<Measured>> =>
  measure(isPinned, [
    main,
    "measure",
    `--batches=${options.batches}`,
    ...(options.only === undefined ? [] : [`--only=${options.only.join()}`]),
  ], settings)

const measureHeap = (isPinned: boolean): Promise<CachedLineageMemory> =>
  measure(isPinned, ["--expose-gc", main, "heap"])

type Runs = ReadonlyArray<ReadonlyArray<Measured>>

/** Groups the results of all processes by case title, for requests or for steps. */
const groupCases = (runs: Runs, part: Measured["part"]) =>
  Array.from(Map.groupBy(runs.flat().filter((one) => one.part === part), ({ title }) => title))

/** Returns the largest difference between the medians of the processes, in percent of the lowest median. */
const compareProcesses = (all: ReadonlyArray<Measured>) => {
  const medians = all.map(({ micros }) => median(micros))
  return 100 * (Math.max(...medians) / Math.min(...medians) - 1)
}

const formatTimes = (all: ReadonlyArray<Measured>) => {
  const micros = all.flatMap(({ micros }) => micros)
  return [
    median(micros).toFixed(1),
    quartiles(micros).map((value) => value.toFixed(1)).join(" to "),
    `${compareProcesses(all).toFixed(1)}%`,
  ]
}

const headOfTimes = ["median", "middle half", "processes differ by"]

const formatTimeTable = (title: string, part: Measured["part"], runs: Runs) =>
  formatMarkdownTable(
    [title, ...headOfTimes],
    groupCases(runs, part).map(([name, all]) => [name, ...formatTimes(all)]),
  )

const formatMillis = (values: ReadonlyArray<number>, value: number) => values.length === 0 ? "–" : value.toFixed(1)

/**
 * Formats a table that shows how much garbage the requests create, how long its collection pauses the process, and how
 * long the event loop is blocked.
 */
const formatPauseTable = (runs: Runs) =>
  formatMarkdownTable(
    [
      "Garbage and pauses",
      "promoted MB per scavenge",
      "scavenges per 1,000 requests",
      "ms each",
      "longest",
      "mark-compacts",
      "longest, ms",
      "delay of the event loop, p99.9, ms",
      "longest, ms",
    ],
    groupCases(runs, "request").map(([name, all]) => {
      const sum = (value: (one: Measured) => number) => all.reduce((total, one) => total + value(one), 0)
      const scavenges = all.flatMap(({ scavenges }) => scavenges)
      const markCompacts = all.flatMap(({ markCompacts }) => markCompacts)
      return [
        name,
        (sum(({ promotedBytes }) => promotedBytes) / scavenges.length / 1e6).toFixed(3),
        (1000 * scavenges.length / sum(({ requests }) => requests)).toFixed(2),
        formatMillis(scavenges, median(scavenges)),
        formatMillis(scavenges, Math.max(...scavenges)),
        String(markCompacts.length),
        formatMillis(markCompacts, Math.max(...markCompacts)),
        median(all.map(({ delay }) => delay.p999)).toFixed(1),
        Math.max(...all.map(({ delay }) => delay.max)).toFixed(1),
      ]
    }),
  )

const formatHeap = (found: ReadonlyArray<CachedLineageMemory>) => {
  const kilobytes = (name: "buffers" | "counted" | "heap") => (median(found.map((one) => one[name])) / 1000).toFixed(2)
  return `Each cached lineage takes ${kilobytes("heap")} KB of V8's heap and ${
    kilobytes("buffers")
  } KB of buffers in all ` +
    `caches; ${kilobytes("counted")} KB are counted for CACHE_MEGABYTES.`
}

await record()
const readLoad = watchMachine()
const isPinned = hasTaskset()
const runs: Array<ReadonlyArray<Measured>> = []
const heaps: Array<CachedLineageMemory> = []
for (let run = 1; run <= options.processes; run += 1) {
  console.log(`Process ${run} of ${options.processes} measures`)
  runs.push([...await measureCases(isPinned, {}), ...await measureCases(isPinned, { UNCACHED: "1" })])
  if (options.only?.includes("heap") ?? true) heaps.push(await measureHeap(isPinned))
  writeFileSync(join(dataFolder, "inprocess-results.json"), JSON.stringify({ runs, heaps }))
}
const commit = execFileSync("git", ["-C", root, "describe", "--always", "--dirty"], { encoding: "utf8" }).trim()
console.log(
  [
    `${new Date().toISOString()} · ${commit} · Node ${process.version} · ${cpus()[0]?.model} · ` +
    `${isPinned ? "one core" : "not pinned to a core"} · ${options.batches} batches`,
    describeLoad(readLoad()),
    ...(groupCases(runs, "request").length === 0
      ? []
      : [formatTimeTable("CPU µs per request", "request", runs), formatPauseTable(runs)]),
    ...(groupCases(runs, "step").length === 0 ? [] : [formatTimeTable("CPU µs per step", "step", runs)]),
    ...(heaps.length === 0 ? [] : [formatHeap(heaps)]),
  ].map((text) => `\n${text}`).join("\n"),
)
