/** What a run of the benchmark measured, and how its tables are written. */
import type { Mode } from "./cases.ts"
import type { serverTitles } from "./servers/names.ts"
import type { MachineLoad } from "./machineLoad.ts"
import { median, quartiles } from "./statistics.ts"

export interface Measurement {
  readonly perSecond: number
  /** Latencies in milliseconds; undefined for pgbench, which prints only the average. */
  readonly p50: number | undefined
  readonly p99: number | undefined
  readonly p999: number | undefined
  readonly max: number | undefined
  /** CPU time per request in microseconds. */
  readonly service: number | undefined
  readonly database: number
  /** CPU use of the load generator, in cores. */
  readonly generator: number | undefined
  /** Delay of the server's event loop in milliseconds: the 99.9th percentile, and the maximum. */
  readonly delayP999: number | undefined
  readonly delayMax: number | undefined
}

export interface Memory {
  readonly requests: number
  /** Resident memory in MiB: at the end, and the maximum. */
  readonly now: number
  readonly most: number
}

export interface TableSizeComparison {
  readonly connections: number
  /** Requests per second with the large and the small table. */
  readonly large: number
  readonly small: number
  /** By how much a request takes longer with the large table: the median of the rounds. */
  readonly ratio: number
}

export interface Round extends Measurement {
  /** What Tickerline's servers reached just before, by their names; empty for these servers themselves. */
  readonly beside: Readonly<Record<string, Measurement>>
}

export interface Result {
  readonly server: keyof typeof serverTitles
  readonly case: string
  readonly mode: Mode
  readonly connections: number
  /** Figures of each round that succeeded. */
  readonly rounds: ReadonlyArray<Round>
  readonly failures: ReadonlyArray<string>
}

export interface Outcome {
  /** What else the machine did. */
  readonly load: MachineLoad
  readonly results: ReadonlyArray<Result>
  readonly notes: ReadonlyArray<string>
  readonly memory: Memory | undefined
  readonly growth: ReadonlyArray<TableSizeComparison>
}

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

/** Returns the figures of `server` divided by those of the rival, of each round in which both succeeded side by side. */
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

export const formatMarkdownTable = (
  head: ReadonlyArray<string>,
  rows: ReadonlyArray<ReadonlyArray<string>>,
) =>
  [
    row(head),
    row(head.map((_, at) => at === 0 ? "---" : "--:")),
    ...rows.map(row),
  ].join("\n")
