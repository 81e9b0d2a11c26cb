/**
 * Prepares a new embedded database for its first request: loads the sample market and creates a demo key. Also contains
 * the code that later removes the sample market.
 */
import { Effect, FileSystem, Option, Path, Ref, Stream } from "effect"
import { Csv } from "effect/encoding"
import { SqlClient } from "effect/sql"
import { EmbeddedHomeDirectory } from "../../postgres/ConnectionLayers.ts"
import { acquireTableLoadLocks } from "../../ingest/load/LoadingTable.ts"
import { writeMarketFiles } from "../../../samples/generator/MarketFiles.ts"
import { loadableDatasets } from "../../contract/Datasets.ts"
import { findDatasetFiles } from "../../ingest/load/FolderScan.ts"
import { loadDatasetFile, removeFileRows } from "../../ingest/load/DatasetLoad.ts"
import { IngestScheduleConfig } from "../../ingest/edgar/schedule/IngestSchedule.ts"
import { OperationProgress } from "../../postgres/metrics/OperationProgress.ts"
import { createDemoKey, findDemoKeyFile, getSamplesFolder, revokeDemoKey, withDemoKeyRevocation } from "./DemoKey.ts"
import { warnOfSampleMarket } from "./SampleMarket.ts"

const samplesUrl = new URL("../../../samples/", import.meta.url)

/** Files in `samples/` that are appended to the generated files of the sample market. */
const shippedFiles = [
  { table: "ticker_changes", file: "facts/ticker_changes.csv" },
  { table: "ticker_changes", file: "fictional/ticker_changes.csv" },
  { table: "historical_tickers", file: "fictional/historical_tickers.csv" },
]

const readCsvRecords = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  return yield* Stream.runCollect(Stream.pipeThroughChannel(fs.stream(file), Csv.decode({ ignoreEmptyLines: true })))
})

/** Appends the rows of the CSV file `from` to the CSV file `to`. Columns that exist only in `to` are left empty. */
const appendCsvRows = Effect.fnUntraced(function* (from: string, to: string) {
  const fs = yield* FileSystem.FileSystem
  const [header = [], ...rows] = yield* readCsvRecords(from)
  const [columns = []] = yield* readCsvRecords(to)
  yield* Stream.fromIterable(rows).pipe(
    Stream.map((cells) => columns.map((column) => cells[header.indexOf(column)] ?? "")),
    Stream.pipeThroughChannel(Csv.encode({ newline: "\n" })),
    Stream.run(fs.sink(to, { flag: "a" })),
  )
})

/** Writes the sample market to a folder, as one file per table. */
const writeSampleMarket = Effect.fnUntraced(function* (folder: string) {
  const path = yield* Path.Path
  const samples = yield* path.fromFileUrl(samplesUrl)
  yield* writeMarketFiles({ folder, scale: 1, seed: 1 })
  for (const { file, table } of shippedFiles) {
    yield* appendCsvRows(path.join(samples, file), path.join(folder, `${table}.csv`))
  }
})

/** Writes the sample market to a folder and loads it into the database. */
export const loadSampleMarket = Effect.fnUntraced(function* (folder: string) {
  yield* writeSampleMarket(folder)
  const { tasks } = yield* findDatasetFiles(folder)
  const insertedRows = yield* Ref.make(0)
  for (const task of tasks) yield* loadDatasetFile({ ...task, append: false }, insertedRows)
  yield* Effect.logInfo(
    `Loaded sample data: real symbol changes, and a fictional market. The files are in ${folder}.`,
  )
})

/**
 * Returns the folder that contains the sample market files. If the folder no longer exists, writes the files to a
 * temporary folder.
 */
const findSampleFiles = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const { folder: home } = yield* EmbeddedHomeDirectory
  const loaded = Option.isSome(home) ? yield* getSamplesFolder(home.value) : undefined
  if (loaded !== undefined && (yield* fs.exists(loaded))) return loaded
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-samples-" })
  yield* writeSampleMarket(folder)
  return folder
})

/**
 * The condition that selects the fictional rows of a file. The `ticker_changes` file also contains real ticker changes,
 * which are not removed.
 */
const fictionalRows = new Map([["ticker_changes", { condition: "incoming.source = 'made up'" }]])

/**
 * Removes the fictional rows of the sample market in one transaction. Rows that have since been changed are removed
 * only if `includesChanged` is true. Also revokes the demo key, because real data is expected to follow. Returns the
 * row counts for each table.
 */
export const removeSampleMarket = Effect.fnUntraced(function* (includesChanged: boolean) {
  const sql = yield* SqlClient.SqlClient
  const { tasks } = yield* findDatasetFiles(yield* findSampleFiles)
  return yield* withDemoKeyRevocation(sql.withTransaction(Effect.andThen(
    acquireTableLoadLocks(tasks.map(({ dataset }) => dataset)),
    Effect.forEach(tasks, (file) => removeFileRows(file, { ...fictionalRows.get(file.dataset), includesChanged })),
  )))
}, Effect.scoped)

/** The rows of one table that `removeSampleMarket` removed. */
export type RemovedSamples = Effect.Success<ReturnType<typeof removeSampleMarket>>[number]

/** Returns whether the database contains neither accounts nor data. */
const isUnused = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const tables = ["accounts", ...loadableDatasets.map(({ table }) => table)]
  const rows = yield* Effect.forEach(tables, (table) => sql`select 1 from ${sql(table)} limit 1`)
  return rows.flat().length === 0
})

/**
 * If the database is unused, loads the sample market and creates the demo key. Both happen in one transaction, so an
 * interrupted start leaves neither behind.
 */
const loadSamplesIfUnused = Effect.fnUntraced(function* (home: string) {
  const sql = yield* SqlClient.SqlClient
  if (!(yield* isUnused)) return
  yield* Effect.logInfo("Loading sample data. Only the first start does this.")
  Object.assign(yield* OperationProgress, { label: "sample data" })
  yield* sql.withTransaction(Effect.gen(function* () {
    yield* acquireTableLoadLocks(loadableDatasets.map(({ table }) => table), true)
    if (!(yield* isUnused)) return
    yield* loadSampleMarket(yield* getSamplesFolder(home))
    yield* createDemoKey(home)
  }))
})

/**
 * Prepares the first start, and returns the path of the demo key file if the key is valid. If the database is unused,
 * loads the sample market. A service that ingests real data instead gets no sample data, and its demo key is revoked.
 */
export const prepareFirstStart = Effect.fnUntraced(function* (home: string) {
  const sql = yield* SqlClient.SqlClient
  yield* Option.isSome(yield* IngestScheduleConfig)
    ? Effect.andThen(sql.withTransaction(revokeDemoKey(home)), warnOfSampleMarket)
    : loadSamplesIfUnused(home)
  return yield* findDemoKeyFile(home)
})
