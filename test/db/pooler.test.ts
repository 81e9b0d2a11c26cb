/** README, poolers: through PgBouncer in transaction mode nothing is lost silently, and what cannot be kept is refused. */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Fiber, Layer, Logger, Redacted, Schedule } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { inject } from "vitest"
import * as Connection from "../../src/db/Connection.ts"
import { client, Database } from "../../src/db/Database.ts"
import { mend } from "../../src/db/Limits.ts"
import * as Roles from "../../src/db/Roles.ts"
import { inOneLine } from "../../src/Explain.ts"
import * as PgBouncer from "../support/PgBouncer.ts"
import * as Service from "../support/Service.ts"

const { ask, at } = Service

const bare = Layer.mergeAll(NodeServices.layer, NodeCrypto.layer, Logger.layer([]))

const own = (server: string) => {
  const { password, port, username } = new URL(server)
  return { port: Number(port), user: username, password }
}

const pooler = (settings: Readonly<Record<string, string>> = {}, fixed?: number) =>
  PgBouncer.start(own(inject("databaseUrl")), settings, fixed)

const through = (url: Redacted.Redacted, port: number) => {
  const way = new URL(Redacted.value(url))
  way.port = String(port)
  return way.href
}

/** A database, and a role of its own that may serve; the limits are given to it unless a test is about that. */
const served = Effect.fnUntraced(function* (limited = true) {
  const url = yield* Service.ownDatabase
  const admin = yield* PgConnection.make({ url })
  const name = `serving_${SecureRandom.uuidV7Unsafe().replaceAll("-", "")}`
  yield* Effect.acquireRelease(
    admin.query(`create role ${name} login password 'serving'`),
    () => Effect.orDie(Effect.andThen(admin.query(`drop owned by ${name} cascade`), admin.query(`drop role ${name}`))),
  )
  yield* Effect.provide(Roles.grantServing(name), client({ url, applicationName: "owner" }))
  if (!limited) {
    yield* admin.query(`alter role ${name} in database ${new URL(Redacted.value(url)).pathname.slice(1)} reset all`)
  }
  const way = new URL(Redacted.value(url))
  way.username = name
  way.password = "serving"
  return { url: Redacted.make(way.href), name, admin }
})

/** How the service connects with these settings, or in which words it refuses. */
const starts = (settings: Readonly<Record<string, string>>) =>
  Effect.scoped(Layer.build(Connection.serving("tickerline-test"))).pipe(
    Effect.as("starts"),
    Effect.catch((error) => Effect.succeed(inOneLine(error) ?? "no words")),
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown(settings)),
  )

const until = <E, R>(condition: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(condition, { until: (holds) => holds, schedule: Schedule.spaced("20 millis") }).pipe(
    Effect.timeout("60 seconds"),
  )

const inTransactionMode = { ignore_startup_parameters: "lock_timeout, statement_timeout" }

describe.skipIf(PgBouncer.skipped)(`a start through a pooler${PgBouncer.suffix}`, () => {
  it.live("README, poolers: one in transaction mode alone is refused, with the setting that is missing", () =>
    Effect.gen(function* () {
      const { url } = yield* served()
      const plain = yield* starts({ DATABASE_URL: through(url, (yield* pooler()).port) })
      assert.match(plain, /^DATABASE_URL leads through a pooler that refuses .*\(unsupported startup parameter: lock/)
      assert.match(plain, /Name PostgreSQL itself, or a pooler in session mode, in DATABASE_DIRECT_URL too\.$/)
      // What a session asks for is dropped there and nobody is told; the role has it all the same.
      for (const more of [{}, { default_pool_size: "1" }, { server_round_robin: "1" }]) {
        const silent = yield* pooler({ ...inTransactionMode, ...more })
        const refusal = yield* starts({ DATABASE_URL: through(url, silent.port) })
        assert.match(refusal, /^DATABASE_URL leads through a pooler in transaction mode.*in DATABASE_DIRECT_URL too\.$/)
      }
    }).pipe(Effect.provide(bare), Effect.scoped))

  it.live("README, poolers: one in session mode needs no second way, where the role has the limits", () =>
    Effect.gen(function* () {
      const { url } = yield* served()
      const mode = { ...inTransactionMode, pool_mode: "session" }
      assert.strictEqual(yield* starts({ DATABASE_URL: through(url, (yield* pooler(mode)).port) }), "starts")
      // No second session is to be had: that is no reason to refuse.
      const narrow = yield* pooler({ ...mode, default_pool_size: "1", query_wait_timeout: "1" })
      assert.strictEqual(yield* starts({ DATABASE_URL: through(url, narrow.port) }), "starts")
    }).pipe(Effect.provide(bare), Effect.scoped))

  it.live("§8, README, poolers: a role without the limits is refused, with what gives it them", () =>
    Effect.gen(function* () {
      const { admin, name, url } = yield* served(false)
      const { port } = yield* pooler()
      const settings = { DATABASE_URL: through(url, port), DATABASE_DIRECT_URL: Redacted.value(url) }
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
      assert.strictEqual(yield* starts(settings), "starts")
    }).pipe(Effect.provide(bare), Effect.scoped))

  it.live("README, poolers: the second way has to lead straight to the same database", () =>
    Effect.gen(function* () {
      const [{ url }, other] = [yield* served(), yield* served()]
      const [pooled, silent] = [yield* pooler(), yield* pooler(inTransactionMode)]
      const way = through(url, pooled.port)
      const start = (direct: string) => starts({ DATABASE_URL: way, DATABASE_DIRECT_URL: direct })
      assert.match(yield* start(way), /^DATABASE_DIRECT_URL leads .* It has to lead to PostgreSQL itself\.$/)
      assert.match(
        yield* start(through(url, silent.port)),
        /^DATABASE_DIRECT_URL leads through a pooler in transaction mode.* It has to lead to PostgreSQL itself\.$/,
      )
      assert.match(yield* start(Redacted.value(other.url)), /lead to different databases \(test_\w+ and test_\w+, or/)
      const away = new URL(Redacted.value(url))
      away.port = "1"
      assert.match(yield* start(away.href), /^DATABASE_DIRECT_URL: no connection .*ECONNREFUSED/)
      assert.match(yield* starts({ DATABASE_DIRECT_URL: way }), /^DATABASE_DIRECT_URL is set, but DATABASE_URL is not/)
    }).pipe(Effect.provide(bare), Effect.scoped))

  it.live("README, poolers: named statements stay only where the pooler keeps them apart", () =>
    Effect.gen(function* () {
      const { url } = yield* served()
      const { port } = yield* pooler(PgBouncer.keepsStatements ? { max_prepared_statements: "200" } : {})
      const said = yield* starts({
        DATABASE_URL: through(url, port),
        DATABASE_DIRECT_URL: Redacted.value(url),
        DATABASE_POOLER_PREPARES: "true",
      })
      if (PgBouncer.keepsStatements) assert.strictEqual(said, "starts")
      else assert.match(said, /^DATABASE_POOLER_PREPARES is true, but the pooler of DATABASE_URL mixes up .* Unset it/)
    }).pipe(Effect.provide(bare), Effect.scoped))
})

const path = "/v1/screener?limit=1"

/** The service over a pooler with one connection to PostgreSQL, so that everything meets on it. */
const service = Effect.fnUntraced(function* (settings: Readonly<Record<string, string>> = {}) {
  const { admin, name, url } = yield* served()
  const started = yield* pooler({ default_pool_size: "1", query_wait_timeout: "1", ...settings })
  const way = Redacted.make(through(url, started.port))
  const owner = yield* Layer.build(client({ url: ownerOf(url), applicationName: "owner" }))
  const keys = yield* Effect.provide(Layer.build(Service.TestKeys.layer), owner)
  const context = yield* Layer.build(
    Service.over(Layer.succeedContext(keys), client({ url: way, direct: url, applicationName: "tickerline-test" })),
  )
  const stranger = PgConnection.make({ url: way, prepare: false })
  return { ...started, admin, name, context, stranger }
})

/** The same database, as its owner reaches it. */
const ownerOf = (url: Redacted.Redacted) => {
  const way = new URL(inject("databaseUrl"))
  way.pathname = new URL(Redacted.value(url)).pathname
  return Redacted.make(way.href)
}

describe.skipIf(PgBouncer.skipped)(`the service through a pooler${PgBouncer.suffix}`, () => {
  it.live("§8, README, poolers: what another program leaves behind on a connection is set right", () =>
    Effect.gen(function* () {
      const { context, stranger } = yield* service()
      const other = yield* stranger
      yield* other.query("set statement_timeout = 0")
      yield* other.query("set lock_timeout = '1h'")
      yield* other.query("set timezone = 'Asia/Tokyo'")
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const now = sql`
          select current_setting('lock_timeout') as lock, current_setting('statement_timeout') as statement,
            current_setting('TimeZone') as zone
        `
        // The pooler itself keeps zones apart.
        assert.deepStrictEqual(yield* now, [{ lock: "1h", statement: "0", zone: "UTC" }])
        yield* mend
        assert.deepStrictEqual(yield* now, [{ lock: "2s", statement: "30s", zone: "UTC" }])
      }).pipe(Effect.provideContext(context))
    }).pipe(Effect.provide(bare), Effect.scoped))

  it.live("RELIABILITY §7.2: sent away from the pooler's line, refused or without it, clients get 503 and it heals", () =>
    Effect.gen(function* () {
      const { context, port, running, stranger } = yield* service({ max_client_conn: "20" })
      const away = Effect.gen(function* () {
        const { body, headers, status } = yield* ask(path)
        assert.strictEqual(status, 503)
        assert.strictEqual(at(body, "error", "code"), "database_pool_timeout")
        assert.strictEqual(headers["retry-after"], "5")
      })
      const back = until(Effect.map(ask(path), ({ status }) => status === 200))
      yield* Effect.gen(function* () {
        yield* back
        const other = yield* stranger
        yield* other.query("begin")
        yield* away
        yield* other.query("rollback")
        yield* back
        yield* Effect.sync(() => running.child.kill("SIGKILL"))
        yield* Effect.promise(() => running.ended)
        yield* away
        yield* pooler({ default_pool_size: "1", max_client_conn: "20" }, port)
        yield* back
      }).pipe(Effect.provideContext(context))
    }).pipe(Effect.provide(bare), Effect.scoped))

  it.live("RELIABILITY: a connection that PostgreSQL ends behind the pooler costs nobody an error", () =>
    Effect.gen(function* () {
      const { admin, context, name } = yield* service({ default_pool_size: "4", server_login_retry: "1" })
      yield* Effect.gen(function* () {
        for (let time = 0; time < 5; time += 1) {
          const answers = yield* Effect.forkChild(
            Effect.all(Array.from({ length: 8 }, () => ask(path)), { concurrency: 8 }),
          )
          yield* admin.query(`select pg_terminate_backend(pid) from pg_stat_activity where usename = '${name}'`)
          assert.deepStrictEqual((yield* Fiber.join(answers)).map(({ status }) => status), Array(8).fill(200))
        }
      }).pipe(Effect.provideContext(context))
    }).pipe(Effect.provide(bare), Effect.scoped))

  it.live("RELIABILITY: a query whose client went away is cancelled behind the pooler, and no other query is", () =>
    Effect.gen(function* () {
      const { admin, context } = yield* service({ default_pool_size: "2", query_wait_timeout: "20" })
      const asleep = (mark: string) =>
        Effect.map(
          admin.query(
            `select 1 from pg_stat_activity where state = 'active' and query like '%/* ${mark} */%' and pid <> pg_backend_pid()`,
          ),
          ({ rowCount }) => rowCount,
        )
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { read } = yield* Effect.provide(Database, Database.layer)
        const slow = (mark: string, seconds: number) =>
          Effect.forkChild(read(sql.unsafe(`select pg_sleep(${seconds}) /* ${mark} */`)))
        const [gone, stays] = [yield* slow("gone", 25), yield* slow("stays", 3)]
        yield* until(Effect.zipWith(asleep("gone"), asleep("stays"), (one, other) => one === 1 && other === 1))
        yield* Fiber.interrupt(gone)
        yield* until(Effect.map(asleep("gone"), (count) => count === 0))
        assert.lengthOf(yield* Fiber.join(stays), 1)
      }).pipe(Effect.provideContext(context))
    }).pipe(Effect.provide(bare), Effect.scoped))
})
