/** Tests that responses, recorded usage and charges agree to the microdollar (D27, prices; D29, usage). */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Exit, FileSystem, Layer, Logger, Random, Redacted, Schedule, Scope } from "effect"
import { HttpServer } from "effect/http"
import { SqlClient } from "effect/sql"
import { Agent, get } from "node:http"
import * as Accounts from "../../../src/accounts/Accounts.ts"
import * as EmbeddedPostgres from "../../../src/postgres/embedded/EmbeddedPostgres.ts"
import * as Migrations from "../../../src/postgres/migrations/Migrations.ts"
import * as Server from "../../../src/Server.ts"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import * as GeneratedRows from "../../support/GeneratedRows.ts"
import { finishDownload, startPausedDownload } from "../../support/ListDownloads.ts"
import * as Service from "../../support/Service.ts"
import { makePoolableClientLayer } from "../../support/PoolerMode.ts"

// @module-tag slow

/** A response as the client received it. */
interface ReceivedResponse {
  readonly account: string
  readonly status: number
  readonly id: string
  readonly bytes: number
  readonly cost: number
  /** Whether the service identified the account and must therefore record the request. */
  readonly isAccountKnown: boolean
}

/** A PostgreSQL server that tests can kill. It restarts on the same port. */
class KillableDatabase
  extends Context.Service<KillableDatabase, { readonly home: string; readonly url: Redacted.Redacted<string> }>()(
    "test/accounts/KillableDatabase",
  ) {
  static readonly layer = Layer.effect(
    KillableDatabase,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const home = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-billing-" })
      const { url } = yield* EmbeddedPostgres.startEmbeddedPostgres(home)
      return { home, url }
    }),
  )
}

/** Kills PostgreSQL with SIGKILL. It is then restarted automatically. */
const killDatabase = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const { home } = yield* KillableDatabase
  const [data] = yield* Effect.map(
    fs.readDirectory(home, { recursive: true }),
    (files) => files.filter((file) => file.endsWith("postmaster.pid")),
  )
  const pid = Number((yield* fs.readFileString(`${home}/${data}`)).split("\n")[0])
  yield* Effect.sync(() => process.kill(pid, "SIGKILL"))
})

const database = Layer.unwrap(Effect.gen(function* () {
  const { url } = yield* KillableDatabase
  return Layer.provideMerge(Migrations.migrationsLayer, PgClient.layer({ url, maxConnections: 4 }))
})).pipe(Layer.provideMerge(KillableDatabase.layer), Layer.provide(Logger.layer([])))

const platformLayer = Layer.mergeAll(NodeServices.layer, NodeCrypto.layer)

/** Starts a service instance with its own connection pool and port. `stop` shuts the instance down. */
const startInstance = Effect.gen(function* () {
  const { url } = yield* KillableDatabase
  const scope = yield* Scope.make()
  const context = yield* Layer.buildWithScope(
    Layer.fresh(Service.listenerLayer.pipe(
      Layer.provideMerge(Server.layer),
      Layer.provide(makePoolableClientLayer({ url, applicationName: "tickerline-instance" })),
      Layer.provide(Logger.layer([])),
      Layer.provide(Service.generousLimitsLayer),
      Layer.provideMerge(Service.httpServerLayer),
      Layer.provide(platformLayer),
    )),
    scope,
  )
  const { address } = Context.get(context, HttpServer.HttpServer)
  return { port: "port" in address ? address.port : 0, stop: Scope.close(scope, Exit.void) }
})

const agent = new Agent({ keepAlive: true, maxSockets: 256 })

/** Sends a request over one of many persistent connections and reads the entire response. */
const sendRequest = (port: number, account: string, key: string, path: string) =>
  Effect.callback<ReceivedResponse, Error>((resume) => {
    const request = get({ agent, port, path, host: "127.0.0.1", headers: { "X-API-Key": key } }, (response) => {
      let bytes = 0
      response.on("data", (chunk: Buffer) => {
        bytes += chunk.length
      }).on("error", (error) => resume(Effect.fail(error))).on("end", () => {
        const header = (name: string) => String(response.headers[name] ?? "")
        resume(Effect.succeed({
          account,
          status: response.statusCode ?? 0,
          id: header("x-request-id"),
          bytes,
          cost: Number(header("x-cost-microdollars")),
          isAccountKnown: header("x-cost-microdollars") !== "",
        }))
      })
    }).on("error", (error) => resume(Effect.fail(error)))
    return Effect.sync(() => request.destroy())
  })

const paths = [
  "/v1/ticker-changes?ticker=O7",
  "/v1/ticker-changes?ticker=TOOLONG",
  "/v1/historical-tickers?ticker=NONE1",
  "/v1/intraday-runners?limit=3",
  "/v1/intraday-runners?ticker=T7&limit=100",
  "/v1/screener?limit=5&sort=-price",
  "/v1/ownership?ticker=T1,T2,T3",
  "/v1/float-outstanding?limit=20",
  "/v1/news?nonsense=1",
  "/v1/research-reports",
  "/v1/overview",
  "/v1/usage?limit=2",
  "/estimate?endpoint=/v1/screener",
]

/**
 * Initial balances in microdollars: `lasting` covers every request, `ending` runs out during the test, and null makes
 * the account postpaid.
 */
const balances = { lasting: 50_000_000, ending: 10_000, later: null }

const requestCount = 3_000

/** Reads an account's balance, recorded usage and daily sums. */
const readAccount = Effect.fnUntraced(function* (name: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{
    readonly balance: string | null
    readonly credited: string
    readonly rows: number
    readonly cost: string
    readonly daily_requests: string
    readonly daily_cost: string
  }>`
    select current_balance(accounts)::text as balance,
      (select coalesce(sum(amount_microdollars), 0)::text from credits where credits.account_id = accounts.account_id)
        as credited,
      (select count(*)::int from usage_requests where usage_requests.account_id = accounts.account_id) as rows,
      (select coalesce(sum(cost_microdollars), 0)::text from usage_requests where usage_requests.account_id = accounts.account_id)
        as cost,
      (select coalesce(sum(requests), 0)::text from usage_totals as daily where daily.account_id = accounts.account_id)
        as daily_requests,
      (select coalesce(sum(cost_microdollars), 0)::text from usage_totals as daily
        where daily.account_id = accounts.account_id) as daily_cost
    from accounts where name = ${name}
  `
  return row ?? (yield* Effect.die(new Error(`no account ${name}`)))
})

const sum = (numbers: ReadonlyArray<number>) => numbers.reduce((total, number) => total + number, 0)

/** Retries the test's own SQL statements, which fail while PostgreSQL restarts. */
const withRetries = Effect.retry({ schedule: Schedule.spaced("100 millis"), times: 300 })

layer(Layer.provideMerge(database, platformLayer), { excludeTestServices: true, timeout: "120 seconds" })(
  "The service",
  (it) => {
    it.effect("charges exactly for 3,000 concurrent requests while the database is killed twice (D27, D29)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* GeneratedRows.fillAllTables(300)
        const keys = yield* Effect.forEach(Object.entries(balances), ([name, balance]) =>
          Effect.gen(function* () {
            const key = yield* Service.ensureAccountWithKey(name, "basic")
            if (balance !== null) {
              const credit = { name, microdollars: BigInt(balance), reference: "first", mayBecomePrepaid: true }
              yield* Accounts.creditAccount(credit)
            }
            return { name, key }
          }))
        const readStartTime = Effect.map(
          sql<{ readonly at: string }>`select pg_postmaster_start_time()::text as at`,
          ([row]) => row?.at,
        )
        const before = yield* readStartTime
        const instances = [yield* startInstance, yield* startInstance]
        const creditInterval = 300
        let receivedCount = 0
        const killed = { first: false, second: false }
        const sendNext = Effect.fnUntraced(function* (at: number) {
          const { key, name } = keys[at % keys.length] ?? { name: "", key: "" }
          const port = instances[yield* Random.nextIntBetween(0, 1)]?.port ?? 0
          const path = paths[yield* Random.nextIntBetween(0, paths.length - 1)] ?? ""
          const response = yield* sendRequest(port, name, key, path)
          receivedCount += 1
          if (!killed.first && receivedCount > requestCount / 3) {
            killed.first = true
            yield* killDatabase
          }
          if (!killed.second && receivedCount > (2 * requestCount) / 3) {
            killed.second = true
            // Waits for the first restart of PostgreSQL.
            yield* CustomerUsage.retryUntil(withRetries(readStartTime), (at) => at !== before)
            yield* killDatabase
          }
          if (at % creditInterval === 0) {
            const credit = { name: "lasting", microdollars: 1_000n, reference: `more ${at}`, mayBecomePrepaid: false }
            yield* withRetries(Effect.catchTag(Accounts.creditAccount(credit), "AlreadyCredited", () => Effect.void))
          }
          return response
        })
        const responses = yield* Effect.forEach(Array.from({ length: requestCount }, (_, at) => at), sendNext, {
          concurrency: "unbounded",
        })
        // Shutting down must write every pending row.
        yield* Effect.forEach(instances, ({ stop }) => stop, { concurrency: 2, discard: true })

        const statuses = new Map<number, number>()
        for (const { status } of responses) statuses.set(status, (statuses.get(status) ?? 0) + 1)
        assert.sameMembers(
          [...statuses.keys()].filter((status) => ![200, 402, 403, 404, 422, 503].includes(status)),
          [],
        )
        for (const status of [200, 402, 403, 404, 422]) assert.isAbove(statuses.get(status) ?? 0, 0, String(status))
        assert.isAbove(statuses.get(200) ?? 0, requestCount / 4)
        assert.strictEqual(killed.first && killed.second, true)
        assert.notStrictEqual(yield* withRetries(readStartTime), before, "the database was started again")

        const identified = responses.filter((response) => response.isAccountKnown)
        // The service does not record requests for which it could not identify the account. Those requests must have
        // received a 503.
        assert.deepStrictEqual(responses.filter((response) => !response.isAccountKnown && response.status !== 503), [])
        const rows = yield* withRetries(sql<{
          readonly request_id: string
          readonly status_code: number
          readonly bytes: string
          readonly cost: string
        }>`select request_id, status_code, bytes::text, cost_microdollars::text as cost from usage_requests`)
        assert.strictEqual(rows.length, identified.length)
        const recorded = new Map(rows.map((row) => [row.request_id, row]))
        for (const { bytes, cost, id, status } of identified) {
          const row = recorded.get(id)
          assert.deepStrictEqual(
            { status: row?.status_code, bytes: Number(row?.bytes), cost: Number(row?.cost) },
            { status, bytes, cost },
          )
        }

        for (const { name } of keys) {
          const account = yield* readAccount(name)
          const own = identified.filter((response) => response.account === name)
          const cost = sum(own.map((response) => response.cost))
          assert.isAbove(cost, 0)
          assert.strictEqual(account.rows, own.length)
          assert.strictEqual(Number(account.cost), cost)
          assert.strictEqual(Number(account.daily_requests), own.length)
          assert.strictEqual(Number(account.daily_cost), cost)
          if (account.balance === null) assert.strictEqual(name, "later")
          else assert.strictEqual(Number(account.balance), Number(account.credited) - cost)
        }
        const ending = yield* readAccount("ending")
        assert.isAtMost(Number(ending.balance), 0, "its balance was used up on the way")
      }))

    it.effect("charges nothing for an export that a killed database cuts off, and reserves nothing further (D27)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const name = "exporting"
        const key = yield* withRetries(Service.ensureAccountWithKey(name, "basic"))
        yield* Accounts.creditAccount({ name, microdollars: 10_000_000n, reference: "first", mayBecomePrepaid: true })
        yield* sql`
          insert into news (id, ticker, form_type, title, body, filed_at, created_at, last_updated)
          select 'long ' || g, 'LONG', 'news', 'Long', repeat('long ', 4000), '2026-01-02', '2026-01-02', '2026-01-02'
          from generate_series(1, 1000) as g
        `
        const { port, stop } = yield* startInstance
        const response = yield* startPausedDownload(port, "/v1/news?limit=all&format=csv&ticker=LONG", key)
        const reserved = sql`select from balance_reservations`
        assert.strictEqual((yield* reserved).length, 1)
        yield* killDatabase
        assert.isFalse(yield* finishDownload(response))
        yield* stop
        const account = yield* withRetries(readAccount(name))
        assert.deepStrictEqual([account.rows, account.cost, account.balance], [1, "0", account.credited])
        assert.strictEqual((yield* withRetries(reserved)).length, 0)
      }).pipe(Effect.scoped))
  },
)
