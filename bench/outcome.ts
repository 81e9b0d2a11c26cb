/** What a run of the benchmark measured, and how its tables are written. */
import type { Mode } from "./cases.ts"
import type { Measurement } from "./measurement.ts"
import type { Memory, TableSizeComparison } from "./memoryAndTableSize.ts"
import type { serverTitles } from "./servers/index.ts"
import type { MachineLoad } from "./machineLoad.ts"
import { median, quartiles } from "./statistics.ts"

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
