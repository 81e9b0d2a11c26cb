/** Databases with the schema of previous releases. */
import { PgClient } from "@effect/sql-pg"
import { Effect, FileSystem, Layer, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { fileURLToPath, pathToFileURL } from "node:url"
import * as Migrations from "../../src/db/migrations/Migrations.ts"
import { MigrationsFolder } from "../../src/db/migrations/MigrationScripts.ts"
import { loadableDatasets } from "../../src/load/Datasets.ts"
import { fillTable } from "./GeneratedRows.ts"
import { createTestDatabase } from "./Service.ts"

/** Creates an empty database, and drops it when the scope closes. */
export const makeEmptyDatabase = Effect.suspend(() => createTestDatabase())

/** Runs an effect over separate connections to a database, as another process would. */
export const withDatabase = <A, E, R>(url: Redacted.Redacted, work: Effect.Effect<A, E, R>) =>
  Effect.scoped(
    Effect.flatMap(Layer.build(PgClient.layer({ url, maxConnections: 2 })), (context) => Effect.provide(work, context)),
  )

const shipped = fileURLToPath(new URL("../../src/db/migrations/scripts/", import.meta.url))

/** Makes a folder with the migrations up to `last`, and the given additional files. */
export const makeMigrationFolder = Effect.fnUntraced(
  function* (last: string, more: Readonly<Record<string, string>> = {}) {
    const fs = yield* FileSystem.FileSystem
    const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-migrations-" })
    const files = (yield* fs.readDirectory(shipped)).filter((file) => file.slice(0, 4) <= last)
    yield* Effect.forEach(files, (file) => fs.copyFile(shipped + file, `${folder}/${file}`), { discard: true })
    yield* Effect.forEach(Object.entries(more), ([file, text]) => fs.writeFileString(`${folder}/${file}`, text))
    return pathToFileURL(`${folder}/`)
  },
)

/** Applies the migrations up to `last`, and the given additional files. */
export const migrateUpTo = (last: string, more?: Readonly<Record<string, string>>) =>
  Effect.flatMap(
    makeMigrationFolder(last, more),
    (folder) => Effect.provideService(Migrations.runMigrations, MigrationsFolder, folder),
  )

/** If a migration touches more rows than this, its work grows with the size of the table. */
export const smallRowCount = 100

/** Inserts ten times `smallRowCount` rows into each table that can grow. Needs the schema of migration 0025. */
export const fillOldTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = smallRowCount * 10
  yield* sql`select create_usage_partition(now())`
  const tables = yield* sql<{ readonly name: string }>`
    select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'
  `
  const existing = new Set(tables.map(({ name }) => name))
  // Skip tables of later releases, which do not exist yet.
  yield* Effect.forEach(
    loadableDatasets.filter(({ table }) => existing.has(table)),
    (dataset) => fillTable(dataset, rows),
    {
      discard: true,
    },
  )
  const statements = [
    `insert into accounts (name, tier) select 'account ' || g, 'pro' from generate_series(1, ${rows}) as g`,
    `insert into api_keys (account_id, key_hash, key_hint) select account_id, sha256(name::bytea), 'tl_live_' from accounts`,
    `insert into credits (account_id, amount_microdollars) select account_id, 5 from accounts`,
    `insert into usage select gen_random_uuid(), now(), account_id, account_id, 'r', '/v1/news', 200, 1, 1, 1, 1, false, false
      from accounts`,
    `insert into usage_daily select account_id, current_date, '/v1/news', 1, 0, 1, 1 from accounts`,
    `insert into announcements select 'entry ' || g, 's', 't', 'h', true from generate_series(1, ${rows}) as g`,
    `insert into announcement_mails (entry_id, recipient) select entry_id, 'a@example.com' from announcements`,
  ]
  yield* Effect.forEach(statements, (statement) => sql.unsafe(statement), { discard: true })
})
