/** README, poolers: a start by a way on which something would be lost silently is refused, with the cure. */
import { PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Redacted } from "effect"
import * as Connection from "../../../src/db/Connection.ts"
import { summarizeError } from "../../../src/cli/ErrorReport.ts"
import * as PgBouncer from "../../support/PgBouncer.ts"
import {
  makeServiceRoleDatabase,
  replacePort,
  silentPlatformLayer,
  startTestPooler,
} from "../../support/PooledDatabases.ts"

/** How the service connects with these settings, or in which words it refuses. */
const starts = (settings: Readonly<Record<string, string>>) =>
  Effect.scoped(Layer.build(Connection.serverConnectionLayer("tickerline-test"))).pipe(
    Effect.as("starts"),
    Effect.catch((error) => Effect.succeed(summarizeError(error) ?? "no words")),
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown(settings)),
  )

const inTransactionMode = { ignore_startup_parameters: "lock_timeout, statement_timeout" }

describe.skipIf(PgBouncer.isPgBouncerMissing)(`a start through a pooler${PgBouncer.pgBouncerTestSuffix}`, () => {
  it.live("README, poolers: one in transaction mode alone is refused, with the setting that is missing", () =>
    Effect.gen(function* () {
      const { url } = yield* makeServiceRoleDatabase()
      const plain = yield* starts({ DATABASE_URL: replacePort(url, (yield* startTestPooler()).port) })
      assert.match(plain, /^DATABASE_URL leads through a pooler that refuses .*\(unsupported startup parameter: lock/)
      assert.match(plain, /Name PostgreSQL itself, or a pooler in session mode, in DATABASE_DIRECT_URL too\.$/)
      // What a session asks for is dropped there and nobody is told; the role has it all the same.
      for (const more of [{}, { default_pool_size: "1" }, { server_round_robin: "1" }]) {
        const silent = yield* startTestPooler({ ...inTransactionMode, ...more })
        const refusal = yield* starts({ DATABASE_URL: replacePort(url, silent.port) })
        assert.match(refusal, /^DATABASE_URL leads through a pooler in transaction mode.*in DATABASE_DIRECT_URL too\.$/)
      }
    }).pipe(Effect.provide(silentPlatformLayer), Effect.scoped))

  it.live("README, poolers: one in session mode needs no second way, where the role has the limits", () =>
    Effect.gen(function* () {
      const { url } = yield* makeServiceRoleDatabase()
      const mode = { ...inTransactionMode, pool_mode: "session" }
      assert.strictEqual(
        yield* starts({ DATABASE_URL: replacePort(url, (yield* startTestPooler(mode)).port) }),
        "starts",
      )
      // No second session is to be had: that is no reason to refuse.
      const narrow = yield* startTestPooler({ ...mode, default_pool_size: "1", query_wait_timeout: "1" })
      assert.strictEqual(yield* starts({ DATABASE_URL: replacePort(url, narrow.port) }), "starts")
    }).pipe(Effect.provide(silentPlatformLayer), Effect.scoped))

  it.live("§8, README, poolers: a role without the limits is refused, with what gives it them", () =>
    Effect.gen(function* () {
      const { admin, name, url } = yield* makeServiceRoleDatabase(false)
      const { port } = yield* startTestPooler()
      const settings = { DATABASE_URL: replacePort(url, port), DATABASE_DIRECT_URL: Redacted.value(url) }
      const refusal = yield* starts(settings)
      assert.match(refusal, /^Through DATABASE_URL lock_timeout is 0, not 2s and statement_timeout is 0, not 30s\./)
      assert.include(refusal, `npm run tickerline -- grant ${name}`)
      // The words are the cure: the role itself may say them.
      const [cure = ""] = /alter role .*(?=; and then RECONNECT)/.exec(refusal) ?? []
      const itself = yield* PgConnection.make({ url })
      for (const statement of cure.split("; ")) yield* itself.query(statement)
      assert.match(yield* starts(settings), /It has it by now, but connections of the pooler are older.* RECONNECT/)
      // As RECONNECT does.
      yield* admin.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where usename = '${name}' and pid <> ${itself.processId}`,
      )
      // For a moment the pooler may still hand out a terminated connection.
      const isTerminated = (outcome: string) => outcome.startsWith("PostgreSQL:")
      const outcome = yield* Effect.repeat(starts(settings), { while: isTerminated, times: 20 })
      assert.strictEqual(outcome, "starts")
    }).pipe(Effect.provide(silentPlatformLayer), Effect.scoped))

  it.live("README, poolers: the second way has to lead straight to the same database", () =>
    Effect.gen(function* () {
      const [{ url }, other] = [yield* makeServiceRoleDatabase(), yield* makeServiceRoleDatabase()]
      const [pooled, silent] = [yield* startTestPooler(), yield* startTestPooler(inTransactionMode)]
      const way = replacePort(url, pooled.port)
      const start = (direct: string) => starts({ DATABASE_URL: way, DATABASE_DIRECT_URL: direct })
      assert.match(yield* start(way), /^DATABASE_DIRECT_URL leads .* It has to lead to PostgreSQL itself\.$/)
      assert.match(
        yield* start(replacePort(url, silent.port)),
        /^DATABASE_DIRECT_URL leads through a pooler in transaction mode.* It has to lead to PostgreSQL itself\.$/,
      )
      assert.match(yield* start(Redacted.value(other.url)), /lead to different databases \(test_\w+ and test_\w+, or/)
      const away = new URL(Redacted.value(url))
      away.port = "1"
      assert.match(yield* start(away.href), /^DATABASE_DIRECT_URL: no connection .*ECONNREFUSED/)
      assert.match(yield* starts({ DATABASE_DIRECT_URL: way }), /^DATABASE_DIRECT_URL is set, but DATABASE_URL is not/)
    }).pipe(Effect.provide(silentPlatformLayer), Effect.scoped))

  it.live("README, poolers: named statements stay only where the pooler keeps them apart", () =>
    Effect.gen(function* () {
      const { url } = yield* makeServiceRoleDatabase()
      const { port } = yield* startTestPooler(
        PgBouncer.supportsPreparedStatements ? { max_prepared_statements: "200" } : {},
      )
      const said = yield* starts({
        DATABASE_URL: replacePort(url, port),
        DATABASE_DIRECT_URL: Redacted.value(url),
        DATABASE_POOLER_PREPARES: "true",
      })
      if (PgBouncer.supportsPreparedStatements) assert.strictEqual(said, "starts")
      else {assert.match(
          said,
          /^DATABASE_POOLER_PREPARES is true, but the pooler of DATABASE_URL does not keep .* Unset it/,
        )}
    }).pipe(Effect.provide(silentPlatformLayer), Effect.scoped))
})
