/** What a run of the benchmark measured, and how its tables are written. */
import type { Mode } from "./cases.ts"
import type { Measurement } from "./measurement.ts"
import type { Memory, TableSizeComparison } from "./memoryAndTableSize.ts"
import type { serverTitles } from "./servers/index.ts"
import { median } from "./statistics.ts"

export interface Result {
  readonly server: keyof typeof serverTitles
  readonly case: string
  readonly mode: Mode
  readonly connections: number
  /** Figures of each round that succeeded. */
  readonly rounds: ReadonlyArray<Measurement>
  readonly failures: ReadonlyArray<string>
}

export interface Outcome {
  readonly results: ReadonlyArray<Result>
  readonly notes: ReadonlyArray<string>
  readonly memory: Memory | undefined
  readonly growth: ReadonlyArray<TableSizeComparison>
}

export const medianOf = (
  { rounds }: Pick<Result, "rounds">,
  name: keyof Measurement,
) => median(rounds.flatMap((figures) => figures[name] ?? []))

export const spreadOf = ({ rounds }: Pick<Result, "rounds">) => {
  const rates = rounds.map(({ perSecond }) => perSecond)
  return (Math.max(...rates) - Math.min(...rates)) / median(rates)
}

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
