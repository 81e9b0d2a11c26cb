/**
 * Tests that the server refuses to start behind a pooler that would drop session settings, and that it explains the
 * fix.
 */
import { PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Redacted } from "effect"
import * as Connection from "../../../src/postgres/ConnectionLayers.ts"
import { sessionSettings } from "../../../src/postgres/pool/ConnectionSettings.ts"
import { summarizeError } from "../../../src/operate/cli/ErrorReport.ts"
import * as PgBouncer from "../../support/PgBouncer.ts"
import {
  makeServiceRoleDatabase,
  replaceUrlPort,
  silentPlatformLayer,
  startTestPooler,
} from "../../support/PooledDatabases.ts"

/** Tries to connect with these settings. Returns "starts" or the error message. */
const tryStart = (settings: Readonly<Record<string, string>>) =>
  Effect.scoped(Layer.build(Connection.serverDatabaseClientLayer("tickerline-test"))).pipe(
    Effect.as("starts"),
    Effect.catch((error) => Effect.succeed(summarizeError(error) ?? "no message")),
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown(settings)),
  )

/** The PgBouncer setting that makes it silently drop session settings. */
const inTransactionMode = { ignore_startup_parameters: Object.keys(sessionSettings).join(", ") }

describe.skipIf(PgBouncer.isPgBouncerMissing)(`A start through a pooler${PgBouncer.pgBouncerTestSuffix}`, () => {
  it.live("fails in transaction mode without DATABASE_DIRECT_URL (operations/poolers)", () =>
    Effect.gen(function* () {
      const { url } = yield* makeServiceRoleDatabase()
      const plain = yield* tryStart({ DATABASE_URL: replaceUrlPort(url, (yield* startTestPooler()).port) })
      assert.match(plain, /^The pooler in DATABASE_URL rejects .*\(unsupported startup parameter: lock/)
      assert.match(plain, /Set DATABASE_DIRECT_URL to PostgreSQL itself, or to a pooler in session mode\.$/)
      // These poolers silently drop session settings, but the role has the same settings, so only the check of the pool
      // mode can fail.
      for (const more of [{}, { default_pool_size: "1" }, { server_round_robin: "1" }]) {
        const silent = yield* startTestPooler({ ...inTransactionMode, ...more })
        const refusal = yield* tryStart({ DATABASE_URL: replaceUrlPort(url, silent.port) })
        assert.match(refusal, /^DATABASE_URL names a pooler in transaction mode.* Set DATABASE_DIRECT_URL to .*\.$/)
      }
    }).pipe(Effect.provide(silentPlatformLayer), Effect.scoped))

  it.live("succeeds in session mode without DATABASE_DIRECT_URL, if the role has the time limits (operations/poolers)", () =>
    Effect.gen(function* () {
      const { url } = yield* makeServiceRoleDatabase()
      const mode = { ...inTransactionMode, pool_mode: "session" }
      assert.strictEqual(
        yield* tryStart({ DATABASE_URL: replaceUrlPort(url, (yield* startTestPooler(mode)).port) }),
        "starts",
      )
      // The check needs a second session. If the pooler cannot provide one, the server starts anyway.
      const narrow = yield* startTestPooler({ ...mode, default_pool_size: "1", query_wait_timeout: "1" })
      assert.strictEqual(yield* tryStart({ DATABASE_URL: replaceUrlPort(url, narrow.port) }), "starts")
    }).pipe(Effect.provide(silentPlatformLayer), Effect.scoped))

  it.live("fails if the role lacks the time limits, and prints the statements that set them (§8, operations/poolers)", () =>
    Effect.gen(function* () {
      const { admin, name, url } = yield* makeServiceRoleDatabase(false)
      const { port } = yield* startTestPooler()
      const settings = { DATABASE_URL: replaceUrlPort(url, port), DATABASE_DIRECT_URL: Redacted.value(url) }
      const refusal = yield* tryStart(settings)
      assert.match(
        refusal,
        /^Through DATABASE_URL, lock_timeout is 0, not 2s; statement_timeout is 0, not 30s; jit is on, not off/,
      )
      assert.include(refusal, `npm run tickerline -- grant ${name}`)
      // The role itself is allowed to run the statements in the message.
      const [statements = ""] = /alter role .*(?=; then run RECONNECT)/.exec(refusal) ?? []
      const roleConnection = yield* PgConnection.make({ url })
      for (const statement of statements.split("; ")) yield* roleConnection.query(statement)
      assert.match(
        yield* tryStart(settings),
        /The role has them now, but the pooler's connections are older.* RECONNECT/,
      )
      // Terminates the pooler's sessions, as RECONNECT in the pooler's admin console does.
      yield* admin.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where usename = '${name}' and pid <> ${roleConnection.processId}`,
      )
      // Retries, because the pooler may briefly hand out terminated connections.
      const isTerminated = (outcome: string) => outcome.startsWith("PostgreSQL:")
      const outcome = yield* Effect.repeat(tryStart(settings), { while: isTerminated, times: 20 })
      assert.strictEqual(outcome, "starts")
    }).pipe(Effect.provide(silentPlatformLayer), Effect.scoped))

  it.live("fails if DATABASE_DIRECT_URL leads through a pooler or to another database (operations/poolers)", () =>
    Effect.gen(function* () {
      const [{ url }, other] = [yield* makeServiceRoleDatabase(), yield* makeServiceRoleDatabase()]
      const [pooled, silent] = [yield* startTestPooler(), yield* startTestPooler(inTransactionMode)]
      const pooledUrl = replaceUrlPort(url, pooled.port)
      const start = (direct: string) => tryStart({ DATABASE_URL: pooledUrl, DATABASE_DIRECT_URL: direct })
      assert.match(
        yield* start(pooledUrl),
        /^The pooler in DATABASE_DIRECT_URL rejects .* It must name PostgreSQL itself\.$/,
      )
      assert.match(
        yield* start(replaceUrlPort(url, silent.port)),
        /^DATABASE_DIRECT_URL names a pooler in transaction mode.* It must name PostgreSQL itself\.$/,
      )
      assert.match(yield* start(Redacted.value(other.url)), /lead to different databases \(test_\w+ and test_\w+\) or/)
      const away = new URL(Redacted.value(url))
      away.port = "1"
      assert.match(yield* start(away.href), /^DATABASE_DIRECT_URL: no connection .*ECONNREFUSED/)
      assert.match(
        yield* tryStart({ DATABASE_DIRECT_URL: pooledUrl }),
        /^DATABASE_DIRECT_URL is set, but DATABASE_URL is not/,
      )
    }).pipe(Effect.provide(silentPlatformLayer), Effect.scoped))

  it.live("allows prepared statements only if the pooler keeps those of its clients apart (operations/poolers)", () =>
    Effect.gen(function* () {
      const { url } = yield* makeServiceRoleDatabase()
      const { port } = yield* startTestPooler(
        PgBouncer.supportsPreparedStatements ? { max_prepared_statements: "200" } : {},
      )
      const result = yield* tryStart({
        DATABASE_URL: replaceUrlPort(url, port),
        DATABASE_DIRECT_URL: Redacted.value(url),
        DATABASE_POOLER_PREPARES: "true",
      })
      if (PgBouncer.supportsPreparedStatements) assert.strictEqual(result, "starts")
      else {assert.match(
          result,
          /^DATABASE_POOLER_PREPARES is true, but the pooler in DATABASE_URL does not separate .* Unset it/,
        )}
    }).pipe(Effect.provide(silentPlatformLayer), Effect.scoped))
})
