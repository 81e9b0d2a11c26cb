/** What a run of the benchmark measures, and functions that summarize it. */
import type { Mode } from "./cases.ts"
import type { serverTitles } from "./servers/names.ts"
import type { MachineLoad } from "./machineLoad.ts"
import { median, quartiles } from "./statistics.ts"

/** The figures of one server in one round. */
export interface Measurement {
  /** Requests per second. */
  readonly perSecond: number
  /** Latencies in milliseconds; undefined for pgbench, which prints only the average. */
  readonly p50: number | undefined
  readonly p99: number | undefined
  readonly p999: number | undefined
  readonly max: number | undefined
  /** CPU time of the server per request, in microseconds; undefined for pgbench. */
  readonly service: number | undefined
  /** CPU time of PostgreSQL per request, in microseconds. */
  readonly database: number
  /** CPU use of the load generator, in cores. */
  readonly generator: number | undefined
  /** Delay of the server's event loop in milliseconds: the 99.9th percentile, and the maximum. */
  readonly delayP999: number | undefined
  readonly delayMax: number | undefined
}

/** The memory of the service after many requests. */
export interface Memory {
  readonly requests: number
  /** Resident memory in MiB: at the end, and the maximum. */
  readonly now: number
  readonly most: number
}

/** How the size of a table affects the rate of requests. */
export interface TableSizeComparison {
  readonly connections: number
  /** Requests per second with the large and the small table. */
  readonly large: number
  readonly small: number
  /** How many times as long a request takes with the large table: the median of the rounds. */
  readonly ratio: number
}

/** A measurement, and the measurements that it is compared with. */
export interface Round extends Measurement {
  /** What our own servers reached just before, by name. Empty for these servers themselves. */
  readonly beside: Readonly<Record<string, Measurement>>
}

/** All rounds of a server in one case, mode and number of connections. */
export interface Result {
  readonly server: keyof typeof serverTitles
  readonly case: string
  readonly mode: Mode
  readonly connections: number
  /** Figures of each round that succeeded. */
  readonly rounds: ReadonlyArray<Round>
  /** The errors of the rounds that failed. */
  readonly failures: ReadonlyArray<string>
}

/** Everything that a run measures. */
export interface Outcome {
  /** What else the machine did. */
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

type FigureName = keyof Measurement

/** Returns the width of the middle half of the values, relative to their median. */
export const spreadOf = (values: ReadonlyArray<number>) => {
  const [low, high] = quartiles(values)
  return (high - low) / median(values)
}

/** Divides the figure of `server` by the figure of its rival, for each round in which both succeeded. */
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
