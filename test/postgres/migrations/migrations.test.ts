/**
 * Tests that migrations are applied once and in order, that they preserve existing data, and that scripts are split
 * into statements.
 */
import { NodeServices } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Fiber, FileSystem, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { pathToFileURL } from "node:url"
import * as Migrations from "../../../src/postgres/migrations/Migrations.ts"
import * as MigrationScripts from "../../../src/postgres/migrations/MigrationScripts.ts"
import { makeEmptyDatabase, makeMigrationFolder, migrateUpTo, withDatabase } from "../../support/MigrationDatabases.ts"
import * as Service from "../../support/Service.ts"
import { sampleUnlessThorough } from "../../support/Thoroughness.ts"

const tables = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.map(
    sql<{ readonly name: string }>`select tablename as name from pg_tables where schemaname = 'public' order by 1`,
    (rows) => rows.map(({ name }) => name),
  ))

/** Asserts that migration IDs are unique and ascending. Gaps are allowed. */
const assertOnceInOrder = (applied: ReadonlyArray<readonly [number, string]>) => {
  const ids = applied.map(([id]) => id)
  assert.deepStrictEqual(ids, Array.from(new Set(ids)).toSorted((a, b) => a - b))
}

const all = [[0, "schema"]]

layer(NodeServices.layer, { excludeTestServices: true })("Migrations", (it) => {
  it.effect("are applied to an empty database once, in order, even by concurrent processes (D30, decision 0085)", () =>
    Effect.gen(function* () {
      const url = yield* makeEmptyDatabase
      // Concurrent processes wait for each other for seconds, so `npm test` runs only one process.
      const applied = yield* Effect.all(
        sampleUnlessThorough([1, 2, 3, 4], 4, 0).map(() => withDatabase(url, Migrations.runMigrations)),
        { concurrency: "unbounded" },
      )
      applied.forEach(assertOnceInOrder)
      const first = applied.flat().toSorted(([a], [b]) => a - b)
      assert.deepStrictEqual(first.slice(0, all.length).map((applied) => Array.from(applied)), all)
      assertOnceInOrder(first)
      const found = yield* withDatabase(url, tables)
      assert.includeMembers(found, [
        "accounts",
        "api_keys",
        "credits",
        "historical_tickers",
        "intraday_runners",
        "ticker_changes",
        "usage",
        "usage_daily",
      ])
      assert.deepStrictEqual(yield* withDatabase(url, Migrations.runMigrations), [])
      assert.deepStrictEqual(yield* withDatabase(url, tables), found)
    }))

  it.effect("are refused by a database that is not in UTF-8, as PostgreSQL creates on a machine without a locale (operations/deployment)", () =>
    Effect.gen(function* () {
      const url = yield* Service.createTestDatabase("template0 encoding 'SQL_ASCII' locale_provider libc locale 'C'")
      const error = yield* Effect.flip(withDatabase(url, Migrations.runMigrations))
      assert.match(
        error.message,
        /^The encoding of the database test_\w+ is SQL_ASCII.* Create one in UTF-8: create database/,
      )
      assert.deepStrictEqual(yield* withDatabase(url, tables), [])
    }))

  it.effect("are refused by a database whose extension pg_trgm they cannot find, with the statement that helps (operations/deployment)", () =>
    Effect.gen(function* () {
      const migrate = Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`create schema "my extensions"`
        yield* sql`create extension pg_trgm schema "my extensions"`
        const { message } = yield* Effect.flip(Migrations.runMigrations)
        yield* sql.unsafe(/: (alter extension .*)\.$/.exec(message)?.[1] ?? assert.fail(message))
        return yield* Migrations.runMigrations
      })
      assert.deepStrictEqual(yield* withDatabase(yield* Service.createTestDatabase(), migrate), [[0, "schema"]])
    }))

  it.effect("are refused by a database with objects of another program, of whatever kind (operations/deployment)", () =>
    Effect.forEach(
      ["table news (a integer)", "type ticker as enum ('a')", "domain cik as text"],
      (object) =>
        Effect.gen(function* () {
          const migrate = Effect.gen(function* () {
            yield* (yield* SqlClient.SqlClient).unsafe(`create ${object}`)
            return yield* Effect.flip(Migrations.runMigrations)
          })
          const { message } = yield* withDatabase(yield* Service.createTestDatabase(), migrate)
          assert.match(message, /^The database test_\w+ is not empty, but no migration was applied to it\./)
        }),
    ))

  it.effect("can create an index concurrently while other processes start (operations/deployment)", () =>
    Effect.gen(function* () {
      const url = yield* makeEmptyDatabase
      const later = {
        "0900_index.sql":
          "-- no transaction: an index\ndrop index concurrently if exists x;\ncreate index concurrently x on news (title);",
      }
      const applied = yield* Effect.all(
        Array.from({ length: 3 }, () => withDatabase(url, migrateUpTo("0000", later))),
        {
          concurrency: 3,
        },
      )
      assert.strictEqual(applied.flat().filter(([id]) => id === 900).length, 1)
      const valid = Effect.flatMap(
        SqlClient.SqlClient,
        (sql) => sql`select indisvalid as valid from pg_index where indexrelid = to_regclass('x')`,
      )
      assert.deepStrictEqual(yield* withDatabase(url, valid), [{ valid: true }])
    }))

  it.effect("wait for a long read of a table without blocking other readers (D31, operations/deployment)", () =>
    Effect.gen(function* () {
      const url = yield* Service.copyMigratedDatabase
      const later = yield* makeMigrationFolder("0899", { "0900_column.sql": "alter table news add column x int;" })
      const findTable = Effect.flatMap(
        SqlClient.SqlClient,
        (sql) => sql`select from pg_attribute where attrelid = 'news'::regclass and attname = 'x'`,
      )
      const waits = Effect.flatMap(
        SqlClient.SqlClient,
        (sql) => sql`select from pg_locks where relation = 'news'::regclass and not granted`,
      )
      yield* withDatabase(
        url,
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const migrating = yield* sql.withTransaction(Effect.gen(function* () {
            yield* sql`select from news`
            const migrating = yield* Effect.forkScoped(
              withDatabase(
                url,
                Effect.provideService(Migrations.runMigrations, MigrationScripts.MigrationsFolder, later),
              ),
            )
            for (let look = 0; look < 2; look++) {
              yield* Effect.repeat(waits, { until: (found) => found.length > 0, schedule: Schedule.spaced("5 millis") })
              // This read queues behind the waiting migration. It still proceeds while the long read is using the
              // table.
              yield* withDatabase(url, Effect.flatMap(SqlClient.SqlClient, (other) => other`select from news`))
            }
            assert.deepStrictEqual(yield* withDatabase(url, findTable), [])
            return migrating
          }))
          assert.deepStrictEqual(Array.from(yield* Fiber.join(migrating), ([id]) => id), [900])
          assert.strictEqual((yield* findTable).length, 1)
        }),
      )
    }))

  it.effect("are rolled back and named in the error if they fail, while earlier migrations stay applied (operations/deployment)", () =>
    Effect.gen(function* () {
      const url = yield* Service.copyMigratedDatabase
      const later = {
        "0900_good.sql": "create table good ();",
        "0901_bad.sql": "create table bad ();\nselect 1 / 0;",
      }
      const error = yield* Effect.flip(withDatabase(url, migrateUpTo("0899", later)))
      assert.strictEqual(error.message, "Migration 901_bad failed: division by zero")
      const found = yield* withDatabase(url, tables)
      assert.include(found, "good")
      assert.notInclude(found, "bad")
      const repaired = yield* withDatabase(
        url,
        migrateUpTo("0899", { ...later, "0901_bad.sql": "create table bad ();" }),
      )
      assert.deepStrictEqual(repaired.map(([id]) => id), [901])
    }))

  it.effect("leave nothing behind if the schema cannot be completed, so that the next start tries all of it again (operations/deployment)", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const url = yield* makeEmptyDatabase
      const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-schema-" })
      yield* fs.writeFileString(`${folder}/10_good.sql`, "create table good ();")
      yield* fs.writeFileString(`${folder}/20_bad.sql`, "create table bad ();\nselect 1 / 0;")
      const broken = Effect.provideService(
        Migrations.runMigrations,
        MigrationScripts.SchemaFolder,
        pathToFileURL(`${folder}/`),
      )
      const error = yield* Effect.flip(withDatabase(url, broken))
      assert.strictEqual(error.message, "Migration schema failed: division by zero")
      assert.deepStrictEqual(yield* withDatabase(url, tables), [])
      assert.deepStrictEqual((yield* withDatabase(url, Migrations.runMigrations))[0], [0, "schema"])
    }))

  it.effect("are refused by a database of a development version, whatever migrations it has (operations/deployment)", () =>
    Effect.gen(function* () {
      const url = yield* makeEmptyDatabase
      yield* withDatabase(
        url,
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          yield* sql`create table tickerline_migrations (migration_id int primary key, name text)`
          yield* sql`insert into tickerline_migrations values (1, 'accounts')`
        }),
      )
      const error = yield* Effect.flip(withDatabase(url, Migrations.runMigrations))
      assert.strictEqual(error._tag, "MigrationRefused")
      assert.match(error.message, /made by a development version before 1\.0\.0.* Create another database/)
      assert.deepStrictEqual(yield* withDatabase(url, tables), ["tickerline_migrations"])
    }))

  it.effect("add constraints that reject impossible account balances and credits (D27)", () =>
    Effect.gen(function* () {
      const url = yield* Service.copyMigratedDatabase
      yield* withDatabase(
        url,
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          yield* sql`insert into accounts (name, tier) values ('a', 'pro'), ('b', 'pro')`
          const credit = (account: string, amount: number, reference: string | null) =>
            sql`
              insert into credits (account_id, amount_microdollars, reference)
              select account_id, ${amount}, ${reference} from accounts where name = ${account}
            `
          const key = (name: string, endpoints: string) =>
            sql`
              insert into api_keys (account_id, key_hash, key_hint, name, endpoints)
              select account_id, sha256(${name}::text::bytea), 'tl_live_', ${name}, ${endpoints}::text::text[]
              from accounts where name = 'a'
            `
          yield* credit("a", 5, "one")
          yield* credit("b", 5, "one")
          yield* credit("a", -5, null)
          yield* credit("a", -5, null)
          yield* key("good", "{/v1/news}")
          const wrong = [
            credit("a", 6, "one"),
            credit("a", 0, null),
            credit("a", 1, ""),
            key("", "{/v1/news}"),
            key(" bad ", "{/v1/news}"),
            key("none", "{}"),
          ]
          for (const statement of wrong) {
            const error = yield* Effect.flip(statement)
            assert.include(["ConstraintError", "UniqueViolation"], error.reason._tag)
          }
          const [row] = yield* sql`select count(*)::int as credits, sum(amount_microdollars)::int as sum from credits`
          assert.deepStrictEqual(row, { credits: 4, sum: 0 })
        }),
      )
    }))
})

describe("The script parser", () => {
  const cases: ReadonlyArray<readonly [string, string, ReadonlyArray<string>]> = [
    ["statements", "create table a ();\ncreate table b ();\n", ["create table a ()", "create table b ()"]],
    ["a last statement without its semicolon", "select 1;\nselect 2", ["select 1", "select 2"]],
    ["several statements on one line", "select 1; select 2;", ["select 1", "select 2"]],
    ["statements of several lines", "select 1,\n  2;\n\n\nselect 3;\r\n", ["select 1,\n  2", "select 3"]],
    ["a script without statements", "\n-- only a comment\n;\n", []],
    [
      "a function body with semicolons",
      "create function f() returns int language plpgsql as $$\nbegin\n  -- one;\n  return 1;\nend;\n$$;\nselect 1;",
      ["create function f() returns int language plpgsql as $$\nbegin\n  -- one;\n  return 1;\nend;\n$$", "select 1"],
    ],
    [
      "a function body with tagged quotes",
      "create function f() returns int language sql as $body$\n  select 1;\n$body$;\nselect 1;",
      ["create function f() returns int language sql as $body$\n  select 1;\n$body$", "select 1"],
    ],
    ["a semicolon at the end of a line inside a text", "select 'one;\ntwo';\nselect 2;", [
      "select 'one;\ntwo'",
      "select 2",
    ]],
    ["a semicolon inside a text", "select 'one; two';\nselect 2;", ["select 'one; two'", "select 2"]],
    ["two hyphens inside a text", "select 'one -- two';\nselect 2;", ["select 'one -- two'", "select 2"]],
    ["a doubled quote inside a text", "select 'it''s;\n--';\nselect 2;", ["select 'it''s;\n--'", "select 2"]],
    ["a semicolon inside a quoted name", 'select 1 as "a;\nb";\nselect 2;', ['select 1 as "a;\nb"', "select 2"]],
    ["dollars inside a text", "select '$$';\nselect '$$';", ["select '$$'", "select '$$'"]],
  ]
  it.each(cases)("splits %s (CONTRIBUTING.md)", (_, script, statements) => {
    assert.deepStrictEqual(MigrationScripts.splitStatements(script), statements)
  })

  it("does not split a statement at a semicolon inside a comment (CONTRIBUTING.md)", () => {
    const bare = (script: string) =>
      MigrationScripts.splitStatements(script).map((statement) =>
        statement.replace(/--.*$/gm, "").replace(/\/\*[^]*?\*\//g, "").trim()
      )
    assert.deepStrictEqual(bare("select 1; -- one;\n-- two;\nselect 2, -- three;\n  3;"), [
      "select 1",
      "select 2, \n  3",
    ])
    assert.deepStrictEqual(bare("/* one;\n two; */\nselect 1;\nselect 2;"), ["select 1", "select 2"])
    assert.deepStrictEqual(bare("select 1; -- it's\nselect 2;"), ["select 1", "select 2"])
    assert.deepStrictEqual(bare("-- $$\nselect 1;\n-- $$\nselect 2;"), ["select 1", "select 2"])
  })
})
