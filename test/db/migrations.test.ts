import { NodeServices } from "@effect/platform-node"
import { PgClient, PgConnection, PgMigrator } from "@effect/sql-pg"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer, Redacted } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { fileURLToPath } from "node:url"
import { inject } from "vitest"
import * as Migrations from "../../src/db/Migrations.ts"
import * as Scripts from "../../src/db/Scripts.ts"

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

/** The database as a release had it whose last migration this was. */
const upTo = Effect.fnUntraced(function* (last: string) {
  const sql = yield* SqlClient.SqlClient
  const fs = yield* FileSystem.FileSystem
  const folder = fileURLToPath(new URL("../../sql/migrations/", import.meta.url))
  const files = (yield* fs.readDirectory(folder)).filter((file) => file.slice(0, 4) <= last)
  const scripts = yield* Effect.forEach(
    files,
    (file) => Effect.map(fs.readFileString(folder + file), (script) => [file.replace(/\.sql$/, ""), script] as const),
  )
  const loader = PgMigrator.fromRecord(Object.fromEntries(scripts.map(([name, script]) => [
    name,
    Effect.forEach(Scripts.statements(script), (statement) => sql.unsafe(statement), { discard: true }),
  ])))
  yield* PgMigrator.run({ loader, table: "tickerline_migrations" })
})

const all = [[1, "accounts"], [2, "ticker_changes"], [3, "intraday_runners"]]

layer(NodeServices.layer)("migrations", (it) => {
  it.effect("D30 an empty database gets all of them once, in order, and then nothing more", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const first = yield* over(url, Migrations.run)
      assert.deepStrictEqual(first.slice(0, all.length).map((applied) => Array.from(applied)), all)
      assertOnceInOrder(first)
      const found = yield* over(url, tables)
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
        applied.forEach(assertOnceInOrder)
        assertOnceInOrder(applied.flat().toSorted(([a], [b]) => a - b))
        assert.isAtLeast(applied.flat().length, all.length)
      }
    }))

  it.effect("D2 D27 README, migrate: keys of a former release stay as they were, and nobody's key comes back", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const applied = yield* over(
        url,
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          yield* upTo("0018")
          yield* sql`insert into accounts (name, tier) values ('former', 'pro')`
          yield* sql`
            insert into api_keys (account_id, key_hash, key_hint, disabled_at)
            select account_id, sha256(hint::bytea), hint, ended
            from accounts, (values ('tl_live_good', null), ('tl_live_gone', timestamptz '2026-01-02 03:04:05Z'))
              as made (hint, ended)
          `
          const applied = yield* Migrations.run
          const keys = yield* sql`
            select key_hint, revoked_at, disabled_at, api_keys.name, endpoints, balance_microdollars
            from api_keys join accounts using (account_id) order by key_id
          `
          const like = { disabled_at: null, name: "default", endpoints: null, balance_microdollars: null }
          assert.deepStrictEqual(keys, [
            { key_hint: "tl_live_good", revoked_at: null, ...like },
            { key_hint: "tl_live_gone", revoked_at: new Date("2026-01-02T03:04:05Z"), ...like },
          ])
          return applied
        }),
      )
      assert.deepStrictEqual(applied.slice(0, 2).map((one) => Array.from(one)), [[19, "credits"], [20, "usage"]])
    }))

  it.effect("D29 README, migrate: usage of a former release is noted, month by month, as that of this one", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      yield* over(
        url,
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          yield* upTo("0021")
          for (const age of ["90 days", "2 days", "0 days"]) {
            yield* sql`select create_usage_partition(date_trunc('second', now()) - ${age}::text::interval)`
            yield* sql`
              insert into usage
              select gen_random_uuid(),
                date_trunc('second', now()) - ${age}::text::interval + number * interval '40 ms', 1, 1, 'request', '/v1/news', case when number % 2 = 0 then 200 else 404 end, 1, 1, 1, 1, false, false
              from generate_series(0, 9) as number
            `
          }
          yield* Migrations.run
          yield* sql`
            insert into usage
            select gen_random_uuid(), requested_at, account_id, key_id, request_id, endpoint, status_code, 1, 1, 1, 1,
              cached, deprecated
            from usage
          `
          const differences = yield* sql`
            select account_id, endpoint, status_code, date_bin('100 ms', requested_at, 'epoch') as moment,
              count(*) as requests
            from usage group by 1, 2, 3, 4
            except select account_id, endpoint, status_code, moment, requests from usage_moments
          `
          assert.deepStrictEqual(differences, [])
          const [sums] = yield* sql`
            select (select count(*)::int from usage) as rows, (select sum(requests)::int from usage_moments) as noted,
              (select count(*)::int from usage_kinds) as kinds
          `
          assert.deepStrictEqual(sums, { rows: 60, noted: 60, kinds: 2 })
          const again = yield* sql`insert into usage select * from usage on conflict do nothing returning usage_id`
          assert.deepStrictEqual(again, [])
        }),
      )
    }))

  it.effect("D27 README, migrate: the database itself keeps an account's books from what cannot be", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      yield* over(
        url,
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          yield* Migrations.run
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
    assert.deepStrictEqual(Scripts.statements(script), statements)
  })

  it("README, migrate: no statement is cut at a semicolon inside a comment", () => {
    const bare = (script: string) =>
      Scripts.statements(script).map((statement) =>
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
