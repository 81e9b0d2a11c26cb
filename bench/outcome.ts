/** The results of a benchmark run, and functions that summarize them. */
import type { Mode } from "./cases.ts"
import type { serverTitles } from "./servers/names.ts"
import type { MachineLoad } from "./machineLoad.ts"
import { median, quartiles } from "./statistics.ts"

/** The measurements of one server in one round. */
export interface ServerMeasurement {
  /** Requests per second. */
  readonly perSecond: number
  /** Latency percentiles in milliseconds. Undefined for pgbench, which reports only the average. */
  readonly p50: number | undefined
  readonly p99: number | undefined
  readonly p999: number | undefined
  readonly max: number | undefined
  /** The server's CPU time per request, in microseconds. Undefined for pgbench. */
  readonly service: number | undefined
  /** PostgreSQL's CPU time per request, in microseconds. */
  readonly database: number
  /** The CPU usage of the load generator, in cores. */
  readonly generator: number | undefined
  /** The 99.9th percentile of the server's event loop delay, in milliseconds. `delayMax` is the maximum. */
  readonly delayP999: number | undefined
  readonly delayMax: number | undefined
}

/** The service's memory usage after many requests. */
export interface Memory {
  readonly requests: number
  /** The resident memory at the end, in MiB. `most` is the maximum. */
  readonly now: number
  readonly most: number
}

/** How the size of a table affects the request rate. */
export interface TableSizeComparison {
  readonly connections: number
  /** Requests per second with the large table. `small` is the rate with the small table. */
  readonly large: number
  readonly small: number
  /**
   * The time per request with the large table, divided by the time with the small table. It is the median over all
   * rounds.
   */
  readonly ratio: number
}

/** A measurement of a server, and the measurements that it is compared with. */
export interface Round extends ServerMeasurement {
  /**
   * The measurements of Tickerline's servers that were taken just before, by server name. Empty if this is itself a
   * measurement of one of them.
   */
  readonly beside: Readonly<Record<string, ServerMeasurement>>
}

/** All rounds of one server for a combination of case, mode, and number of connections. */
export interface Result {
  readonly server: keyof typeof serverTitles
  readonly case: string
  readonly mode: Mode
  readonly connections: number
  /** The rounds that succeeded. */
  readonly rounds: ReadonlyArray<Round>
  /** The errors of the rounds that failed. */
  readonly failures: ReadonlyArray<string>
}

/** All results of a run. */
export interface Outcome {
  /** How much other programs used the machine during the run. */
  readonly load: MachineLoad
  readonly results: ReadonlyArray<Result>
  readonly notes: ReadonlyArray<string>
  readonly memory: Memory | undefined
  readonly growth: ReadonlyArray<TableSizeComparison>
}

/** Returns the median of a figure over all rounds. */
export const medianOf = (
  { rounds }: Pick<Result, "rounds">,
  name: FigureName,
) => median(rounds.flatMap((figures) => figures[name] ?? []))

type FigureName = keyof ServerMeasurement

/** Returns the interquartile range of the values, relative to their median. */
export const spreadOf = (values: ReadonlyArray<number>) => {
  const [low, high] = quartiles(values)
  return (high - low) / median(values)
}

/** Divides the figure of `server` by that of its rival, for each round in which both were measured successfully. */
export const pairRatios = (
  server: string,
  { rounds }: Pick<Result, "rounds">,
  name: FigureName = "perSecond",
): ReadonlyArray<number> =>
  rounds.flatMap(({ beside, [name]: value }) => {
    const own = beside[server]?.[name]
    return own === undefined || value === undefined ? [] : [own / value]
  })

const row = (cells: ReadonlyArray<string>) => `| ${cells.join(" | ")} |`

/** Formats a Markdown table. The first column is left-aligned, and the others are right-aligned. */
export const formatMarkdownTable = (
  head: ReadonlyArray<string>,
  rows: ReadonlyArray<ReadonlyArray<string>>,
) =>
  [
    row(head),
    row(head.map((_, at) => at === 0 ? "---" : "--:")),
    ...rows.map(row),
  ].join("\n")
