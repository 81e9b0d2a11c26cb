/** What a new embedded database is given, so that the first request has an answer: sample data and a demo key. */
import { Effect, FileSystem, Option, Path, Redacted, Ref } from "effect"
import { SqlClient } from "effect/sql"
import * as Accounts from "./account/Accounts.ts"
import { hasher } from "./account/Key.ts"
import * as Keys from "./account/Keys.ts"
import { datasets } from "./load/Datasets.ts"
import { filesIn } from "./load/Folder.ts"
import { load } from "./load/Load.ts"
import { generate } from "./samples/Generate.ts"

const shipped = new URL("../samples/", import.meta.url)

/** Each table's real facts come first; made-up ones are added to them. */
const shippedFiles = [
  { dataset: "ticker_changes", file: "real/ticker_changes.csv" },
  { dataset: "ticker_changes", file: "made-up/ticker_changes.csv" },
  { dataset: "historical_tickers", file: "made-up/historical_tickers.csv" },
]

/** What is shipped, and a fictional market written into the folder, where it also shows what files look like. */
export const loadSamples = Effect.fnUntraced(function* (folder: string) {
  const path = yield* Path.Path
  const own = yield* path.fromFileUrl(shipped)
  yield* generate({ folder, scale: 1, seed: 1 })
  const { tasks } = yield* filesIn(folder)
  const files = [...shippedFiles.map(({ dataset, file }) => ({ dataset, file: path.join(own, file) })), ...tasks]
  const progress = yield* Ref.make(0)
  for (const [at, task] of files.entries()) {
    const append = files.findIndex(({ dataset }) => dataset === task.dataset) < at
    yield* load({ ...task, append }, progress)
  }
  yield* Effect.logInfo(`Loaded sample data: real symbol changes, and a made-up market that is also in ${folder}.`)
})

const demo: Accounts.Wanted = { name: "demo", tier: "ultimate", email: null, prepaid: false }

/** A key that somebody revoked stays so; a new one takes its place. */
const isGood = Effect.fnUntraced(function* (key: string) {
  const sql = yield* SqlClient.SqlClient
  const hash = yield* hasher
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
  yield* Accounts.ensure(demo)
  const key = yield* Keys.create({ account: demo.name, name: "demo", expires: null, endpoints: null })
  yield* fs.writeFileString(file, `${key}\n`, { mode: 0o600 })
  return key
})

/** Rows that somebody loaded before are not replaced by samples. */
const isBare = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const found = yield* Effect.forEach(datasets, ({ table }) => sql`select 1 from ${sql(table)} limit 1`)
  return found.every((rows) => rows.length === 0)
})

/** The demo key; sample data are loaded once, into a database that has no account and no row yet. */
export const prepare = Effect.fnUntraced(function* (home: string) {
  const sql = yield* SqlClient.SqlClient
  const path = yield* Path.Path
  const accounts = yield* sql`select 1 from accounts limit 1`
  if (accounts.length === 0 && (yield* isBare)) yield* loadSamples(path.join(home, "samples"))
  return yield* demoKey(home)
})
