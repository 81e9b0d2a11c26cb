import { NodeServices } from "@effect/platform-node"
import { PgClient, PgConnection } from "@effect/sql-pg"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { inject } from "vitest"
import * as Migrations from "../../src/db/Migrations.ts"

/** A database without anything in it, dropped at the end. */
const emptyDatabase = Effect.gen(function* () {
  const url = new URL(inject("databaseUrl"))
  const admin = new URL(url)
  admin.pathname = "/postgres"
  url.pathname = `/test_empty_${SecureRandom.uuidV7Unsafe().replaceAll("-", "")}`
  const name = url.pathname.slice(1)
  const as = (statement: string) =>
    Effect.scoped(
      Effect.flatMap(
        PgConnection.make({ url: Redacted.make(admin.href) }),
        (connection) => connection.query(statement),
      ),
    )
  yield* Effect.acquireRelease(
    as(`create database ${name}`),
    () => Effect.orDie(as(`drop database ${name} with (force)`)),
  )
  return Redacted.make(url.href)
})

/** With connections of its own, like a process of its own. */
const over = <A, E, R>(url: Redacted.Redacted, work: Effect.Effect<A, E, R>) =>
  Effect.scoped(
    Effect.flatMap(Layer.build(PgClient.layer({ url, maxConnections: 2 })), (context) => Effect.provide(work, context)),
  )

const tables = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.map(
    sql<{ readonly name: string }>`select tablename as name from pg_tables where schemaname = 'public' order by 1`,
    (rows) => rows.map(({ name }) => name),
  ))

/** Numbers may be left out, but none comes twice or after a later one. */
const assertOnceInOrder = (applied: ReadonlyArray<readonly [number, string]>) => {
  const ids = applied.map(([id]) => id)
  assert.deepStrictEqual(ids, Array.from(new Set(ids)).toSorted((a, b) => a - b))
}

const all = [[1, "accounts"], [2, "ticker_changes"], [3, "intraday_runners"]]

layer(NodeServices.layer)("migrations", (it) => {
  it.effect("D30 an empty database gets all of them once, in order, and then nothing more", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const first = yield* over(url, Migrations.run)
      assert.deepStrictEqual(first.slice(0, all.length).map((applied) => Array.from(applied)), all)
      assertOnceInOrder(first)
      const found = yield* over(url, tables)
      for (const table of ["accounts", "api_keys", "historical_tickers", "intraday_runners", "ticker_changes"]) {
        assert.include(found, table)
      }
      assert.deepStrictEqual(yield* over(url, Migrations.run), [])
      assert.deepStrictEqual(yield* over(url, tables), found)
    }))

  it.effect("README, embedded server: processes that start at once apply each of them once, and none fails", () =>
    Effect.gen(function* () {
      for (let round = 0; round < 3; round++) {
        const url = yield* emptyDatabase
        const applied = yield* Effect.all(Array.from({ length: 4 }, () => over(url, Migrations.run)), {
          concurrency: 4,
        })
        assertOnceInOrder(applied.flat())
        assert.isAtLeast(applied.flat().length, all.length)
      }
    }))
})

describe("statements of a script", () => {
  const cases: ReadonlyArray<readonly [string, string, ReadonlyArray<string>]> = [
    ["statements", "create table a ();\ncreate table b ();\n", ["create table a ()", "create table b ()"]],
    ["a last statement without its semicolon", "select 1;\nselect 2", ["select 1", "select 2"]],
    ["several statements on one line", "select 1; select 2;", ["select 1", "select 2"]],
    ["statements of several lines", "select 1,\n  2;\n\n\nselect 3;\r\n", ["select 1,\n  2", "select 3"]],
    ["nothing", "\n-- only a comment\n;\n", []],
    [
      "a function body with its semicolons",
      "create function f() returns int language plpgsql as $$\nbegin\n  -- one;\n  return 1;\nend;\n$$;\nselect 1;",
      ["create function f() returns int language plpgsql as $$\nbegin\n  -- one;\n  return 1;\nend;\n$$", "select 1"],
    ],
    [
      "a body whose quotes have a name",
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
  it.each(cases)("README, migrate: %s", (_, script, statements) => {
    assert.deepStrictEqual(Migrations.statements(script), statements)
  })

  it("README, migrate: no statement is cut at a semicolon inside a comment", () => {
    const bare = (script: string) =>
      Migrations.statements(script).map((statement) =>
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
