/**
 * Writes a generated market to a folder, one CSV file per table, in the format that `load` expects (D31, loading data).
 */
import { Effect, FileSystem, Path, Stream } from "effect"
import { Csv } from "effect/encoding"
import { OperationProgress } from "../../src/postgres/metrics/OperationProgress.ts"
import { namedCompanies } from "./Companies.ts"
import type { CompanyHistory } from "./CompanyHistory.ts"
import { generateMarket, type MarketOptions } from "./Market.ts"
import { type SampleCell, type SampleRow, sampleRowBuilders, type TableName } from "./Tables.ts"

/** Options that determine which market to write, and where. */
export interface MarketFilesOptions extends MarketOptions {
  /** The target folder, which is created if it does not exist. Existing files named after tables are overwritten. */
  readonly folder: string
  /** The tables to write. Default: all tables. */
  readonly only?: ReadonlyArray<TableName>
}

/** The number of rows written for each table. */
export type RowCounts = { readonly [table: string]: number }

/** The number of companies whose histories and rows are held in memory at the same time. */
const batchSize = 20

/** Formats a cell for CSV. Undefined is written as an empty cell, which means null. */
const formatCell = (cell: SampleCell) =>
  cell === null
    ? undefined
    : typeof cell === "string"
    ? cell
    : typeof cell === "object"
    ? JSON.stringify(cell)
    : `${cell}`

const formatRow = (row: SampleRow) => {
  const cells: Record<string, string | undefined> = {}
  for (const column in row) cells[column] = formatCell(row[column] ?? null)
  return cells
}

/**
 * Opens the CSV file of a table. Returns the table name, a function that appends the rows of some companies, and a
 * function that returns the number of rows written so far. The header is written together with the first rows, because
 * the column names are only known from a row.
 */
const openTableWriter = Effect.fnUntraced(function* (folder: string, table: TableName) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const file = yield* fs.open(path.join(folder, `${table}.csv`), { flag: "w" })
  const buildRows: (history: CompanyHistory) => ReadonlyArray<SampleRow> = sampleRowBuilders[table]
  let written = 0
  const append = Effect.fnUntraced(function* (histories: ReadonlyArray<CompanyHistory>) {
    const rows = histories.flatMap(buildRows)
    const [first] = rows
    if (first === undefined) return
    const options = { columns: Object.keys(first), headers: written === 0, newline: "\n" } as const
    yield* Stream.fromIterable(rows.map(formatRow)).pipe(
      Stream.pipeThroughChannel(Csv.encode(options)),
      Stream.runForEach((bytes) => file.writeAll(bytes)),
    )
    written += rows.length
  })
  return { table, append, count: () => written }
})

/**
 * Generates a market and writes it to one CSV file per table. Returns the number of rows written for each table. All
 * files are written at the same time, batch of companies by batch, so that memory use does not depend on the scale. The
 * same options always produce identical files.
 */
export const writeMarketFiles = Effect.fnUntraced(
  function* ({ folder, only, ...options }: MarketFilesOptions) {
    const fs = yield* FileSystem.FileSystem
    yield* fs.makeDirectory(folder, { recursive: true })
    const tables = Object.keys(sampleRowBuilders).filter((table): table is TableName =>
      only?.some((name) => name === table) ?? true
    )
    const writers = yield* Effect.forEach(tables, (table) => openTableWriter(folder, table))
    const progress = yield* OperationProgress
    const total = options.scale * namedCompanies.length
    Object.assign(progress, { label: "sample data", done: 0, total, count: 0, unit: "rows" })
    yield* Stream.fromIterable(generateMarket(options), { chunkSize: batchSize }).pipe(
      Stream.runForEachArray(Effect.fnUntraced(function* (histories) {
        yield* Effect.forEach(writers, ({ append }) => append(histories), { discard: true })
        progress.done += histories.length
        progress.count = writers.reduce((sum, { count }) => sum + count(), 0)
      })),
    )
    return Object.fromEntries(writers.map(({ count, table }) => [table, count()])) satisfies RowCounts
  },
  Effect.scoped,
)
