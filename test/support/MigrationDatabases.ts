/**
 * Creates databases to which only some migrations have been applied, with rows in all tables.
 *
 * ```ts
 * const url = yield* makeEmptyDatabase
 * yield* withDatabase(url, Effect.andThen(migrateUpTo("0000"), fillTables))
 * // … run a migration, and check the rows
 * ```
 */
import { PgClient } from "@effect/sql-pg"
import { Effect, FileSystem, Layer, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { fileURLToPath, pathToFileURL } from "node:url"
import * as Migrations from "../../src/postgres/migrations/Migrations.ts"
import { MigrationsFolder } from "../../src/postgres/migrations/MigrationScripts.ts"
import { loadableDatasets } from "../../src/contract/Datasets.ts"
import { fillTable } from "./GeneratedRows.ts"
import { createTestDatabase } from "./Service.ts"

/** Creates an empty database. Drops it when the scope closes. */
export const makeEmptyDatabase = Effect.suspend(() => createTestDatabase())

/** Runs an effect on separate database connections, as another process would. */
export const withDatabase = <A, E, R>(url: Redacted.Redacted, work: Effect.Effect<A, E, R>) =>
  Effect.scoped(
    Effect.flatMap(Layer.build(PgClient.layer({ url, maxConnections: 2 })), (context) => Effect.provide(work, context)),
  )

const migrationsFolder = fileURLToPath(new URL("../../sql/migrations/", import.meta.url))

/** Creates a folder with the migrations up to `last` (`0000` for none), plus the given additional files. */
export const makeMigrationFolder = Effect.fnUntraced(
  function* (last: string, more: Readonly<Record<string, string>> = {}) {
    const fs = yield* FileSystem.FileSystem
    const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-migrations-" })
    const files = (yield* fs.readDirectory(migrationsFolder)).filter((file) =>
      /^\d/.test(file) && file.slice(0, 4) <= last
    )
    yield* Effect.forEach(files, (file) => fs.copyFile(migrationsFolder + file, `${folder}/${file}`), { discard: true })
    yield* Effect.forEach(Object.entries(more), ([file, text]) => fs.writeFileString(`${folder}/${file}`, text))
    return pathToFileURL(`${folder}/`)
  },
)

/** Applies the schema, the migrations up to `last`, and the given additional files. */
export const migrateUpTo = (last: string, more?: Readonly<Record<string, string>>) =>
  Effect.flatMap(
    makeMigrationFolder(last, more),
    (folder) => Effect.provideService(Migrations.runMigrations, MigrationsFolder, folder),
  )

/** The number of rows that a migration may touch. If it touches more, its duration grows with the size of the table. */
export const smallRowCount = 100

/** SQL expressions for columns in row `g` whose values must satisfy a check constraint or a foreign key. */
const constrainedValues: Readonly<Record<string, string>> = {
  account_id: "g",
  "admin_tokens.kind": "'token'",
  "admin_tokens.opened_with": "null",
  "admin_tokens.scope": "'read'",
  cik: "lpad(g::text, 10, '0')",
  "edgar_doubts.decision": "'corrected'",
  "edgar_runs.status": "'succeeded'",
  "edgar_work.filing": "null",
  "edgar_work.kind": "'absent'",
  "invoice_lines.kind": "'free'",
  "invoice_lines.month": "'2014-01'",
  "invoices.month": "'2014-01'",
  "price_periods.period": "'day'",
  "role_privileges.purpose": "'admin'",
  "symbol_spellings.key": "'S-' || g",
  "symbol_spellings.spelling": "'S.' || g",
  ticker: "'S' || g",
  alias: "'S' || g",
  primary_ticker: "'S' || g",
  tickers: "array['S' || g]",
  former_tickers: "array['S' || g]",
  "usage_batches.moment": "now()",
  "usage_kind_hours.hour": "now()",
  "webhook_messages.status": "'dead'",
}

const valuesByType: Readonly<Record<string, string>> = {
  "bigint[]": "array[g]",
  boolean: "false",
  bytea: "sha256(g::text::bytea)",
  date: "date '2014-01-01' + g",
  jsonb: "'{}'::jsonb",
  "text[]": "array['text ' || g]",
  text: "'text ' || g",
  uuid: "gen_random_uuid()",
}

const makeValue = (table: string, column: string, type: string) =>
  constrainedValues[`${table}.${column}`] ?? constrainedValues[column] ?? valuesByType[type] ??
    (type.startsWith("timestamp") ? "timestamptz '2014-01-01Z' + make_interval(mins => g)" : "g")

/**
 * Inserts ten times `smallRowCount` rows into every table whose row count is not limited, so that a migration that
 * reads or rewrites a table is noticed. The datasets and the tables that others refer to are filled first. Then,
 * `columns` has the columns of all tables that are still empty, which are filled with generated values.
 */
export const fillTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = smallRowCount * 10
  yield* sql`select create_usage_partition(now())`
  yield* Effect.forEach(loadableDatasets, (dataset) => fillTable(dataset, rows), { discard: true })
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
  const columns = yield* sql<{ readonly table: string; readonly name: string; readonly type: string }>`
    select relname as table, attname as name, format_type(coalesce(nullif(typbasetype, 0), atttypid), null) as type
    from pg_class
    join pg_attribute on attrelid = pg_class.oid and attnum > 0 and not attisdropped and attgenerated = ''
    join pg_type on pg_type.oid = atttypid
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
      -- Erased accounts reject changes.
      and relname <> 'account_erasures'
      and query_to_xml(format('select from %s limit 1', pg_class.oid::regclass), false, true, '')::text !~ '<row'
    order by 1, attnum
  `
  // A table that can have only one row gets that row. All inserts run in one transaction, because an invoice is
  // inserted after its lines.
  yield* sql.withTransaction(
    Effect.forEach(Map.groupBy(columns, (column) => column.table), ([table, found]) =>
      sql.unsafe(`
        insert into ${table} (${found.map(({ name }) => `"${name}"`)}) overriding system value
        select ${found.map(({ name, type }) => makeValue(table, name, type))}
        from generate_series(1, ${rows}) as g on conflict do nothing
      `), { discard: true }),
  )
})
