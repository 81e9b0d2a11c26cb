/** sql/citus: the script against the real schema, and a stand-in that refuses what Citus documents that it refuses. */
import { NodeServices } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { fileURLToPath } from "node:url"
import { splitStatements } from "../../src/db/migrations/MigrationScripts.ts"
import { datasets } from "../../src/load/Datasets.ts"
import { runAndRollBack } from "../support/MigrationInspector.ts"
import { copyMigratedDatabase } from "../support/Service.ts"

const run = (file: string) =>
  Effect.gen(function* () {
    const [fs, sql] = [yield* FileSystem.FileSystem, yield* SqlClient.SqlClient]
    const text = yield* fs.readFileString(fileURLToPath(new URL(`../../${file}`, import.meta.url)))
    yield* Effect.forEach(splitStatements(text), (statement) => sql.unsafe(statement), { discard: true })
  })

/** Its own tables are none of the schema. */
const standIn = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* run("test/support/citus.sql")
  yield* sql`create schema citus`
  yield* sql`alter table citus_placed set schema citus`
  yield* sql`create view citus_placed as select * from citus.citus_placed`
})

const database = Layer.effectDiscard(standIn).pipe(
  Layer.provideMerge(
    Layer.unwrap(Effect.map(copyMigratedDatabase, (url) => PgClient.layer({ url, maxConnections: 2 }))),
  ),
  Layer.provideMerge(NodeServices.layer),
)

const distribute = run("sql/citus/distribute.sql")

const why = (error: unknown) =>
  SqlError.isSqlError(error) && error.reason.cause instanceof Error ? error.reason.cause.message : String(error)

layer(database)("a further engine", (it) => {
  it.effect("sql/citus: every dataset has its place, and nothing else is taken off the coordinator", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const placed = yield* runAndRollBack(Effect.andThen(
        distribute,
        sql<{ readonly name: string; readonly kind: string }>`select name::text, kind from citus_placed`,
      ))
      const names = placed?.map(({ name }) => name) ?? []
      assert.sameMembers(names, datasets.map(({ table }) => table))
      const everywhere = placed?.filter(({ kind }) => kind === "everywhere").map(({ name }) => name)
      assert.sameMembers(everywhere ?? [], ["ticker_changes", "historical_tickers"])
      assert.strictEqual(placed?.filter(({ kind }) => kind === "by ticker").length, datasets.length - 2)
    }))

  it.effect("sql/citus: a table that the script does not know stops it before anything is done", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const error = yield* Effect.flip(runAndRollBack(Effect.andThen(sql`create table newcomer (id int)`, distribute)))
      assert.include(why(error), "It is not said where these tables go: newcomer")
    }))

  it.effect("sql/citus: the stand-in refuses the tables as they are: triggers, and keys without the ticker", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const place = sql`select create_distributed_table('news', 'ticker')`
      assert.include(why(yield* Effect.flip(runAndRollBack(place))), "it has triggers: note_change")
      const without = Effect.andThen(sql`drop trigger note_change on news`, place)
      assert.include(
        why(yield* Effect.flip(runAndRollBack(without))),
        "news_pkey does not include the distribution column",
      )
      const accounts = sql`select create_distributed_table('accounts', 'account_id')`
      assert.include(why(yield* Effect.flip(runAndRollBack(accounts))), "foreign key")
    }))

  it.effect("sql/citus: afterwards each dataset takes its rows still, and a ticker has a row of a key once", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const insert = sql`
        insert into split_status (id, ticker, action_type, executed, filed_at, form_type, last_updated)
        values ('a', 'GAP7', 'pending_vote', false, '2026-01-02', '8-K', '2026-01-02 09:30:00')
      `
      const error = yield* Effect.flip(runAndRollBack(Effect.andThen(Effect.andThen(distribute, insert), insert)))
      assert.include(why(error), "duplicate key")
    }))
})
