/** Tests that migrations added since the last release work while that release is serving, and do not block it. */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import packageJson from "../../../package.json" with { type: "json" }
import { listMigrationScripts, parseMigrationScript } from "../../../src/postgres/migrations/MigrationScripts.ts"
import {
  findUnderfilledTables,
  inspectMigration,
  readSchema,
  runAndRollBack,
} from "../../support/MigrationInspector.ts"
import { recipeBlocks } from "../../support/Recipes.ts"
import { fillTables, makeEmptyDatabase, migrateUpTo } from "../../support/MigrationDatabases.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"

// @module-tag slow

/** The last release. Its tables contain data, and its processes may still be serving while the migrations run. */
const released = { version: "1.0.0", migration: "0000" }

class ReleasedSchema extends Context.Service<ReleasedSchema, Effect.Success<typeof readSchema>>()(
  "test/postgres/ReleasedSchema",
) {
  static readonly layer = Layer.effect(ReleasedSchema, readSchema)
}

const database = Layer.effectDiscard(Effect.andThen(migrateUpTo(released.migration), fillTables)).pipe(
  Layer.provideMerge(Layer.unwrap(Effect.map(makeEmptyDatabase, (url) => PgClient.layer({ url, maxConnections: 2 })))),
  Layer.provideMerge(NodeServices.layer),
)

/** Applies a script to a database of the last release and rolls it back. Returns the problems that the check finds. */
const inspectAndRollBack = (script: string) =>
  Effect.flatMap(
    ReleasedSchema,
    (schema) => runAndRollBack(inspectMigration(parseMigrationScript(script), schema)),
  )

type Case = readonly [name: string, script: string, found: RegExp]

const locking: ReadonlyArray<Case> = [
  [
    "an index creation that blocks writes",
    "create index on news (title)",
    /writes \d+ rows while it holds ShareLock on news/,
  ],
  [
    "a default that differs for each row",
    "alter table news add x uuid not null default gen_random_uuid()",
    /AccessEx/,
  ],
  [
    "a change that rewrites a column",
    "alter table announcement_mails alter last_error type varchar(9000)",
    /rewrites announcement_mails/,
  ],
  ["a generated column", "alter table news add x text generated always as (id || 'x') stored", /rewrites news/],
  [
    "a not-null constraint that scans the table",
    "alter table news alter title set not null",
    /rows while it holds AccessExclusiveLock on news/,
  ],
  [
    "a check constraint that scans the table",
    "alter table news add check (id <> 'x')",
    /rows while it holds AccessExclusiveLock on news/,
  ],
  [
    "a foreign key that is validated at once",
    "alter table usage_daily add foreign key (account_id) references accounts",
    /rows while it holds ShareRowExclusiveLock on accounts/,
  ],
  ["an explicit table lock", "lock table news in exclusive mode", /locks a table explicitly/],
  [
    "a lock held during other work",
    "alter table news add x int; update news set title = 'x'",
    /rows while it holds AccessE/,
  ],
  [
    "a lock inside a function body",
    "do $$ begin create index on news (title); end $$",
    /rows while it holds ShareLock on news/,
  ],
  [
    "an update of all rows at once",
    "update accounts set contact_email = 'x'",
    /changes too many rows in one transaction/,
  ],
  ["a truncated table", "truncate news", /rewrites news/],
  [
    "a table scan before the lock is released",
    "drop index news_filed_at_created_at_id_idx; select count(*) from news",
    /AccessE/,
  ],
  ["an index on a partitioned table", "create index on usage (key_id)", /holds ShareLock on usage/],
]

const breaking: ReadonlyArray<Case> = [
  [
    "a removed column",
    "alter table announcement_mails drop last_error",
    /column announcement_mails\.last_error text/,
  ],
  ["a renamed column", "alter table news rename author to writer", /column news\.author text/],
  ["a renamed table", "alter table edgar_work rename to work", /table edgar_work/],
  [
    "a new required column",
    "alter table credits add y int not null default 1; alter table credits alter y drop default",
    /y is required/,
  ],
  [
    "a column that becomes not null",
    "alter table news alter author set not null",
    /null in column news\.author/,
  ],
  [
    "a removed default",
    "alter table announcement_mails alter attempts drop default",
    /insert into announcement_mails without attempts/,
  ],
  [
    "a changed column type",
    "alter table leases alter holder type text",
    /column leases\.holder uuid/,
  ],
  [
    "a constraint on an existing column",
    "alter table news add constraint c check (title <> '') not valid",
    /may reject rows of news from the previous release: CHECK/,
  ],
  [
    "a unique index on existing columns",
    "create unique index on leases (holder)",
    /may reject rows of leases/,
  ],
  [
    "a removed index",
    "drop index news_filed_at_created_at_id_idx",
    /index .* btree \(filed_at, created_at DESC, id\)/,
  ],
  ["a removed trigger", "drop trigger note_change on news", /trigger note_change of news/],
  ["a disabled trigger", "alter table news disable trigger note_change", /trigger note_change of news/],
  ["a removed function", "drop function usage_window cascade", /function usage_window/],
]

const harmless: ReadonlyArray<readonly [string, string]> = [
  ["a nullable column", "alter table news add x text"],
  ["a column with a constant default", "alter table news add x int not null default 5"],
  ["a new table", "create table x (id int primary key, account_id bigint); create index on x (account_id)"],
  ["a new table with a foreign key to an existing table", "create table x (account_id bigint references accounts)"],
  ["a new function", "create function x() returns int language sql as 'select 1'"],
  [
    "a function with a new body",
    "create or replace function joined(list text[]) returns text language sql immutable strict parallel safe return array_to_string(list, E'\\n')",
  ],
  [
    "an unvalidated constraint on a new column",
    "alter table news add x int; alter table news add check (x > 0) not valid",
  ],
  [
    "a change that rewrites a small table",
    "alter table dataset_versions add x uuid not null default gen_random_uuid()",
  ],
  ["a new trigger", "create trigger x after insert on credits for each statement execute function note_change()"],
  ["a new table with the rows of an existing one", "create table x as select * from accounts"],
  [
    "a new partition",
    "create table x (like usage including all); alter table usage attach partition x for values from ('2001-01-01') to ('2001-02-01')",
  ],
  ["a new view", "create view x as select * from news"],
]

const outside = "-- no transaction: an index\n"

const restarted: ReadonlyArray<readonly [name: string, script: string, found: ReadonlyArray<string>]> = [
  [
    "an index that is dropped first",
    "drop index concurrently if exists x; create index concurrently x on news (title)",
    [],
  ],
  [
    "an update in batches",
    `do $$ begin
      loop
        update accounts set news = false
        where account_id in (select account_id from accounts where news order by 1 limit 300 for update skip locked);
        exit when not found;
        commit;
      end loop;
    end $$`,
    [],
  ],
  [
    "an invalid index that is kept",
    "create index concurrently if not exists x on news (title)",
    ["is not completed by the next run after an interruption during an index build"],
  ],
  [
    "an index that cannot be created twice",
    "create index concurrently x on news (title)",
    ["after statement 1", "during an index build"].map((interruption) =>
      `is not completed by the next run after an interruption ${interruption}`
    ),
  ],
  [
    "statements that could run in a transaction",
    "alter table announcements add if not exists x int",
    ["does not need to run outside a transaction: alter table announcements add if not exists x int"],
  ],
]

layer(Layer.provideMerge(ReleasedSchema.layer, database))("The migration check", (it) => {
  it.effect("runs against filled tables of the last release (CONTRIBUTING.md)", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* findUnderfilledTables, [])
    }))

  it.effect.each(locking)("rejects %s (CONTRIBUTING.md)", ([, script, expected]) =>
    Effect.gen(function* () {
      const found = yield* inspectAndRollBack(script)
      assert.match(found?.locks.join("\n") ?? "", expected)
    }))

  it.effect.each(breaking)(
    "rejects %s while the previous release serves (CONTRIBUTING.md)",
    ([, script, expected]) =>
      Effect.gen(function* () {
        const found = yield* inspectAndRollBack(script)
        assert.match(found?.breaks.join("\n") ?? "", expected)
      }),
  )

  it.effect.each(harmless)("accepts %s (CONTRIBUTING.md)", ([, script]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* inspectAndRollBack(script), {
        locks: [],
        breaks: [],
      })
    }))

  it.effect.each(restarted)(
    "runs a script outside a transaction again after an interruption at any point: %s (CONTRIBUTING.md)",
    ([, script, expected]) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { locks } = yield* Effect.ensuring(
          inspectMigration(parseMigrationScript(outside + script), yield* readSchema),
          Effect.orDie(sql`drop index concurrently if exists x`),
        )
        assert.deepStrictEqual(locks, expected)
      }),
  )

  it.effect("accepts the migrations of the recipes, which a next release may contain (CONTRIBUTING.md)", () =>
    Effect.gen(function* () {
      const scripts = recipeBlocks.flatMap(({ file, text }) =>
        file?.endsWith(".sql") === true ? [{ file, script: parseMigrationScript(text) }] : []
      )
      assertFoundMoreThan(2, "migrations in recipes", scripts)
      const found: Array<string> = []
      for (const { file, script } of scripts) {
        const { breaks, locks } = yield* inspectMigration(script, yield* readSchema)
        found.push(...[...locks, ...breaks].map((what) => `${file} ${what}`))
      }
      assert.deepStrictEqual(found, [])
    }))

  it.effect("accepts all migrations since the last release (CONTRIBUTING.md)", () =>
    Effect.gen(function* () {
      assert.strictEqual(
        released.version,
        packageJson.version,
        "after a release, set its version and last migration here",
      )
      const files = (yield* listMigrationScripts).filter(([id]) => id > Number(released.migration))
      const found: Array<string> = []
      for (const [id, name, read] of files) {
        const script = yield* read
        const { breaks, locks } = yield* inspectMigration(script, yield* readSchema)
        found.push(...[...locks, ...breaks].map((what) => `${id}_${name} ${what}`))
      }
      assert.deepStrictEqual(found, [])
    }))
})
