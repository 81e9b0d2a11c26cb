/** What a new embedded database is given, so that the first request has an answer: sample data and a demo key. */
import { Effect, FileSystem, Option, Path, Redacted, Ref, Stream } from "effect"
import { Csv } from "effect/encoding"
import { SqlClient } from "effect/sql"
import * as Accounts from "../accounts/Accounts.ts"
import { makeApiKeyHasher } from "../accounts/keys/ApiKey.ts"
import * as Keys from "../accounts/keys/ApiKeys.ts"
import { loadLockName } from "../db/AdvisoryLocks.ts"
import { datasets } from "../load/Datasets.ts"
import { findDatasetFiles } from "../load/FolderScan.ts"
import { loadFile } from "../load/Load.ts"
import { writeMarketFiles } from "../../samples/generator/MarketFiles.ts"
import { Progress } from "../observability/Progress.ts"

const shipped = new URL("../../samples/", import.meta.url)

/** Files of this repository whose rows are added to the generated rows of a table. */
const shippedFiles = [
  { table: "ticker_changes", file: "facts/ticker_changes.csv" },
  { table: "ticker_changes", file: "fictional/ticker_changes.csv" },
  { table: "historical_tickers", file: "fictional/historical_tickers.csv" },
]

/** The records of a CSV file. */
const records = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  return yield* Stream.runCollect(Stream.pipeThroughChannel(fs.stream(file), Csv.decode({ ignoreEmptyLines: true })))
})

/** Adds the rows of one CSV file to another. A column that only the other has stays empty. */
const appendRows = Effect.fnUntraced(function* (from: string, to: string) {
  const fs = yield* FileSystem.FileSystem
  const [header = [], ...rows] = yield* records(from)
  const [columns = []] = yield* records(to)
  yield* Stream.fromIterable(rows).pipe(
    Stream.map((cells) => columns.map((column) => cells[header.indexOf(column)] ?? "")),
    Stream.pipeThroughChannel(Csv.encode({ newline: "\n" })),
    Stream.run(fs.sink(to, { flag: "a" })),
  )
})

/** Writes the sample market into a folder: all that a first start loads, one file per table. */
const writeSamples = Effect.fnUntraced(function* (folder: string) {
  const path = yield* Path.Path
  const own = yield* path.fromFileUrl(shipped)
  yield* writeMarketFiles({ folder, scale: 1, seed: 1 })
  for (const { file, table } of shippedFiles) {
    yield* appendRows(path.join(own, file), path.join(folder, `${table}.csv`))
  }
})

/** Writes the sample market into a folder, and loads it. */
export const loadSampleMarket = Effect.fnUntraced(function* (folder: string) {
  yield* writeSamples(folder)
  const { tasks } = yield* findDatasetFiles(folder)
  const progress = yield* Ref.make(0)
  for (const task of tasks) yield* loadFile({ ...task, append: false }, progress)
  yield* Effect.logInfo(`Loaded sample data: real symbol changes and a made-up market. Its files are in ${folder}.`)
})

const demo: Accounts.NewAccount = { name: "demo", tier: "ultimate", email: null, prepaid: false }

/** A key that somebody revoked stays so; a new one takes its place. */
const isGood = Effect.fnUntraced(function* (key: string) {
  const sql = yield* SqlClient.SqlClient
  const hash = yield* makeApiKeyHasher
  const digest = yield* hash(Redacted.make(key))
  const found = yield* sql`
    select 1 from api_keys
    where key_hash = decode(${digest}, 'hex') and revoked_at is null and disabled_at is null
      and (expires_at is null or expires_at > now())
  `
  return found.length > 0
})

/** Kept in the home in clear, readable by its owner only: it opens sample data on this machine. */
const demoKey = Effect.fnUntraced(function* (home: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const file = path.join(home, "demo-key")
  const kept = yield* Effect.option(fs.readFileString(file))
  if (Option.isSome(kept) && (yield* isGood(kept.value.trim()))) return kept.value.trim()
  yield* Accounts.ensureAccount(demo)
  const key = yield* Keys.createApiKey({ account: demo.name, name: "demo", expires: null, endpoints: null })
  yield* fs.writeFileString(file, `${key}\n`, { mode: 0o600 })
  return key
})

/** Whether the database has neither an account nor a row of data. */
const isUnused = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const tables = ["accounts", ...datasets.map(({ table }) => table)]
  const found = yield* Effect.forEach(tables, (table) => sql`select 1 from ${sql(table)} limit 1`)
  return found.every((rows) => rows.length === 0)
})

/** Waits until no table is being loaded, and lets no other load begin before the transaction ends. */
const lockLoads = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`set local statement_timeout = 0`
  yield* sql`set local lock_timeout = 0`
  for (const { table } of datasets) yield* sql`select pg_advisory_xact_lock(hashtext(${loadLockName(table)}))`
})

/**
 * Loads the sample market into an unused database, in one transaction: a start that is killed leaves nothing behind,
 * and the next one begins anew. Rows that a user loads are never replaced.
 */
const loadSamplesOnce = Effect.fnUntraced(function* (folder: string) {
  const sql = yield* SqlClient.SqlClient
  if (!(yield* isUnused)) return
  Object.assign(yield* Progress, { label: "sample data" })
  yield* sql.withTransaction(Effect.gen(function* () {
    yield* lockLoads
    if (yield* isUnused) yield* loadSampleMarket(folder)
  }))
})

/** Loads the sample market into an unused database. Returns the demo key. */
export const prepareFirstStart = Effect.fnUntraced(function* (home: string) {
  const path = yield* Path.Path
  yield* loadSamplesOnce(path.join(home, "samples"))
  return yield* demoKey(home)
})
