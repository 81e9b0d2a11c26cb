/** Writes a market into a folder, a file a table, in the format that `load` reads (D31). */
import { Effect, FileSystem, Path, Stream } from "effect"
import { Csv } from "effect/encoding"
import { Progress } from "../../src/observability/Progress.ts"
import { namedCompanies } from "./Companies.ts"
import { type CompanyHistory, generateMarket, type MarketOptions } from "./Market.ts"
import { rowBuilders, type SampleCell, type SampleRow, type TableName } from "./Tables.ts"

export interface MarketFilesOptions extends MarketOptions {
  /** It is made where there is none; files of these names in it are written over. */
  readonly folder: string
  /** Left out: all tables. */
  readonly only?: ReadonlyArray<TableName>
}

/** Rows written, by table. */
export type RowCounts = { readonly [table: string]: number }

/** Companies whose rows are held in memory at a time. */
const batchSize = 20

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

/** An open file that takes the rows of one company after another; the header comes with the first. */
const openTableWriter = Effect.fnUntraced(function* (folder: string, table: TableName) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const file = yield* fs.open(path.join(folder, `${table}.csv`), { flag: "w" })
  const rowsOf: (history: CompanyHistory) => ReadonlyArray<SampleRow> = rowBuilders[table]
  let written = 0
  const take = Effect.fnUntraced(function* (histories: ReadonlyArray<CompanyHistory>) {
    const rows = histories.flatMap(rowsOf)
    const [first] = rows
    if (first === undefined) return
    const options = { columns: Object.keys(first), headers: written === 0, newline: "\n" } as const
    yield* Stream.fromIterable(rows.map(formatRow)).pipe(
      Stream.pipeThroughChannel(Csv.encode(options)),
      Stream.runForEach((bytes) => file.writeAll(bytes)),
    )
    written += rows.length
  })
  return { table, take, count: () => written }
})

/** The same options give the same files, to the byte; memory stays flat however large the market is. */
export const writeMarketFiles = Effect.fnUntraced(
  function* ({ folder, only, ...options }: MarketFilesOptions) {
    const fs = yield* FileSystem.FileSystem
    yield* fs.makeDirectory(folder, { recursive: true })
    const chosen = Object.keys(rowBuilders).filter((table): table is TableName => only?.some((one) => one === table) ?? true)
    const writers = yield* Effect.forEach(chosen, (table) => openTableWriter(folder, table))
    const progress = yield* Progress
    const total = options.scale * namedCompanies.length
    Object.assign(progress, { label: "sample data", done: 0, total, count: 0, unit: "rows" })
    yield* Stream.fromIterable(generateMarket(options), { chunkSize: batchSize }).pipe(
      Stream.runForEachArray(Effect.fnUntraced(function* (histories) {
        yield* Effect.forEach(writers, ({ take }) => take(histories), { discard: true })
        progress.done += histories.length
        progress.count = writers.reduce((sum, { count }) => sum + count(), 0)
      })),
    )
    return Object.fromEntries(writers.map(({ count, table }) => [table, count()])) satisfies RowCounts
  },
  Effect.scoped,
)
