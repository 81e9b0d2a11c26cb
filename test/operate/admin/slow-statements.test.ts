/** Tests that admins see slow statements without the values in them (docs/operations/console.md). */
import { assert, layer } from "@effect/vitest"
import { NodeServices } from "@effect/platform-node"
import { Effect, FileSystem, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Admin, adminLog, makeAdminLayer } from "../../support/Admin.ts"
import { DedicatedPostgres } from "../../support/DedicatedPostgres.ts"

// @module-tag slow

/** Starts a dedicated PostgreSQL server, because `pg_stat_statements` must be preloaded at server start. */
const startCountingServer = Effect.gen(function* () {
  const context = yield* Layer.build(DedicatedPostgres.sampleLayer)
  const { cluster, start, stop, url } = yield* Effect.provideContext(DedicatedPostgres, context)
  yield* stop("SIGINT")
  const fs = yield* FileSystem.FileSystem
  yield* fs.writeFileString(
    `${cluster.dataDirectory}/postgresql.auto.conf`,
    "shared_preload_libraries = 'pg_stat_statements'\n",
    { flag: "a" },
  )
  yield* start
  return Redacted.make(url)
}).pipe(Effect.orDie, Effect.provide(NodeServices.layer))

/** A text that every statement in this test contains. */
const secret = "hunter2-Schlüssel"

/**
 * One statement of each kind in which `pg_stat_statements` keeps constants, and some in which it replaces them with
 * parameters.
 */
const statements = [
  `create role spy login password '${secret}'`,
  `alter role spy password '${secret}'`,
  `alter role spy set application_name = '${secret}'`,
  `comment on role spy is '${secret}'`,
  `drop role spy -- ${secret}`,
  `set application_name = '${secret}'`,
  `select set_config('application_name', '${secret}', false)`,
  `do $$ begin perform '${secret}'; end $$`,
  `do language plpgsql $${"hunter"}$ begin perform '${secret}'; end $${"hunter"}$`,
  `create table kept as select '${secret}' as secret`,
  `create view seen as select '${secret}' as secret`,
  `create function tell() returns text language sql as $$ select '${secret}' $$`,
  `create procedure take(secret text) language sql as $$ select 1 $$`,
  `call take('${secret}')`,
  `alter table kept add column more text default '${secret}'`,
  `alter table kept add check (secret <> '${secret}x')`,
  `create index on kept (secret) where secret = '${secret}'`,
  `prepare one as select '${secret}'`,
  `prepare two (text) as select $1 || '${secret}'`,
  `execute two ('${secret}')`,
  `explain select '${secret}'`,
  `explain (format json) execute two ('${secret}')`,
  `declare pointer cursor with hold for select '${secret}'`,
  `copy (select '${secret}') to program 'cat >/dev/null'`,
  `notify channel, '${secret}'`,
  `create subscription fed connection 'host=127.0.0.1 password=${secret}' publication p with (connect = false)`,
  `alter subscription fed connection 'host=127.0.0.1 password=${secret} port=1'`,
  `create foreign data wrapper far options (password '${secret}')`,
  `create server farther foreign data wrapper far options (password '${secret}')`,
  `create user mapping for current_user server farther options (password '${secret}')`,
  `security label on table kept is '${secret}'`,
  `insert into kept values ('${secret}', E'${secret}\\'s', U&'${secret}')`,
  `update kept set secret = '${secret}' /* the '${secret}' */`,
  `-- the "${secret}"\nselect secret from kept where secret = $$${secret}$$`,
  `/* '${secret} */ (select secret from kept where secret in ('${secret}', '${secret}'))`,
  `with known as (select '${secret}' as secret) delete from kept using known where kept.secret = known.secret`,
  `values ('${secret}')`,
  `select "/*" from (select '${secret}' as "/*") as odd where "/*" <> 'x */ ${secret}'`,
]

layer(makeAdminLayer(undefined, startCountingServer), { excludeTestServices: true, timeout: "120 seconds" })(
  "slow statements",
  (it) => {
    it.effect("show the statements of the service, and no constant of any statement (operations/console)", () =>
      Effect.gen(function* () {
        const { role, send } = yield* Admin
        const sql = yield* SqlClient.SqlClient
        yield* sql`create extension pg_stat_statements`
        yield* sql.unsafe(`grant pg_read_all_stats to "${role}"`)
        // Some statements fail, such as the security label without a provider. PostgreSQL counts the others.
        for (const statement of statements) yield* Effect.ignore(sql.unsafe(statement))
        const [counted] = yield* sql`
          select count(*)::int as statements from pg_stat_statements where query like ${`%${secret}%`}
        `
        const minCounted = 15
        assert.isAbove(Number(counted?.["statements"]), minCounted)
        const { body } = yield* send("/statements")
        assert.notInclude(JSON.stringify(body), secret)
        assert.deepNestedPropertyVal(body, "unavailable", null)
        assert.include(JSON.stringify(body), "select secret from kept where secret = $1")
        assert.notInclude(JSON.stringify(adminLog), secret)
      }))
  },
)
