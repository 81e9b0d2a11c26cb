/**
 * Tests by how much concurrent requests in several processes can exceed the remaining balance or budget (D13; D27,
 * prepaid balances, budgets).
 */
import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect, Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { setBudget } from "../../../src/accounts/billing/Budgets.ts"
import { ReservationTimes } from "../../../src/accounts/billing/PrepaidBalances.ts"
import { createCustomer } from "../../support/CustomerUsage.ts"
import { valueAt } from "../../support/DocumentedEndpoints.ts"
import { download, finishDownload, startPausedDownload } from "../../support/ListDownloads.ts"
import { endProcess } from "../../support/Processes.ts"
import { makeRandomChooser } from "../../support/RandomChoices.ts"
import {
  databaseWithKeysLayer,
  requestOverWire,
  startServiceInstance,
  startServiceProcess,
} from "../../support/ServiceInstances.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

// @module-tag slow

/**
 * Inserts news that takes 18 MB as CSV, which is more than the buffers between the service and a client can hold. The
 * texts barely compress. Tickers that tests request often have shorter texts.
 */
const insertNews = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  sql`
    insert into news (id, ticker, form_type, title, body, filed_at, created_at, last_updated)
    select 'n' || g, case when g <= 20 then 'TINY' when g <= 120 then 'SMALL' else 'LARGE' end, 'news', 'News',
      (select string_agg(md5(g::text || part), '')
        from generate_series(1, case when g <= 120 then 125 else 625 end) as part),
      '2026-01-02', '2026-01-02', '2026-01-02'
    from generate_series(1, 1000) as g
  `)

/** The ports of two service instances that share nothing but the database. */
class Ports extends Context.Service<Ports, readonly [number, number]>()("test/accounts/Ports") {}

/** Allows more concurrent exports than the tests ever send. */
const manyExports = { WHOLE_LISTS: "16" }

const services = Layer.effect(
  Ports,
  Effect.all([startServiceInstance(manyExports), startServiceInstance(manyExports)]),
).pipe(
  Layer.provideMerge(Layer.effectDiscard(insertNews)),
  Layer.provideMerge(databaseWithKeysLayer),
)

/** An account's amounts in microdollars, and its number of recorded requests. */
interface Account {
  /** The prepaid balance or the remaining budget. */
  readonly balance: number
  readonly cost: number
  readonly daily: number
  /** The sum of all unexpired reservations. */
  readonly reserved: number
  readonly rows: number
}

const readAccount = Effect.fnUntraced(function* (account_id: number) {
  const sql = yield* SqlClient.SqlClient
  const [account] = yield* sql<Account>`
    select spendable_microdollars(accounts)::float8 as balance,
      (select coalesce(sum(cost_microdollars), 0)::float8 from usage_requests where usage_requests.account_id = accounts.account_id) as cost,
      (select coalesce(sum(cost_microdollars), 0)::float8 from usage_totals
        where usage_totals.account_id = accounts.account_id) as daily,
      (select coalesce(sum(amount_microdollars), 0)::float8 from balance_reservations as reservation
        where reservation.account_id = accounts.account_id and expires_at > now()) as reserved,
      (select count(*)::int from usage_requests where usage_requests.account_id = accounts.account_id) as rows
    from accounts where account_id = ${account_id}
  `
  return account ?? (yield* Effect.die(new Error(`no account ${account_id}`)))
})

const waitForAccount = (account_id: number, holds: (account: Account) => boolean) =>
  Effect.repeat(readAccount(account_id), { until: holds, schedule: Schedule.spaced("20 millis") }).pipe(
    Effect.timeout("30 seconds"),
  )

/**
 * Waits until `rows` requests are recorded, then checks that the balance is exact and that nothing remains reserved.
 */
const assertExact = Effect.fnUntraced(function* (account_id: number, initial: number, rows: number) {
  const account = yield* waitForAccount(account_id, (found) => found.rows >= rows)
  assert.strictEqual(account.rows, rows)
  assert.strictEqual(account.balance, initial - account.cost)
  assert.strictEqual(account.daily, account.cost)
  assert.strictEqual(account.reserved, 0)
  return account
})

/** Returns the path of an export of all news for one ticker. */
const exportOf = (format: string, ticker = "LARGE") => `/v1/news?limit=all&format=${format}&ticker=${ticker}`

/** Requests a path, checks that the response is complete, and returns its cost. */
const measureCost = Effect.fnUntraced(function* (port: number, path: string) {
  const { ultimate } = yield* Service.TestKeys
  const { headers, isComplete, status, text, trailers } = yield* download(port, path, ultimate)
  assert.isTrue(isComplete && status === 200, text.slice(0, 200))
  return Number(trailers["x-cost-microdollars"] ?? headers["x-cost-microdollars"])
})

/**
 * Runs an effect while the reservations table is locked, so that every request that needs a reservation fails with 503.
 */
const whileNothingCanBeReserved = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql.withTransaction(Effect.andThen(sql`lock table balance_reservations in share mode`, effect)),
  )

/** What limits an account's spending: a prepaid balance, or the budget of a postpaid account. */
type Limit = "balance" | "budget"
const limits = ["balance", "budget"] as const

let customers = 0

/** Creates an account that can spend the given amount. */
const createLimitedCustomer = Effect.fnUntraced(function* (amount: number, limit: Limit = "balance") {
  const name = `prepaid ${++customers}`
  const created = yield* createCustomer(name, limit === "balance" ? { balance: amount } : {})
  if (limit === "budget") yield* setBudget(name, { microdollars: BigInt(amount), stops: true })
  return created
})

const page = "/v1/news?limit=100"

/** Returns the amount that the account can still spend, as stated in a 402 response. */
const readBalance = (text: string) => valueAt(JSON.parse(text), "error", "details", "balance_microdollars")

layer(services, { excludeTestServices: true, timeout: "300 seconds" })("Concurrent requests", (it) => {
  it.effect.each([["csv", "balance"], ["ndjson", "balance"], ["parquet", "balance"], ["csv", "budget"]] as const)(
    "for exports on two processes are sent only as far as the account can pay for them: %s, %s (D13, D27)",
    ([format, limit]) =>
      Effect.gen(function* () {
        const ports = yield* Ports
        const path = exportOf(format, "SMALL")
        const cost = yield* measureCost(ports[0], path)
        const initial = Math.floor(cost * 1.5)
        const { account_id, key } = yield* createLimitedCustomer(initial, limit)
        const exports = yield* Effect.forEach(
          [0, 1, 0, 1] as const,
          (at) => download(ports[at], path, key),
          { concurrency: "unbounded" },
        )
        const complete = exports.filter(({ isComplete, status }) => isComplete && status === 200)
        assert.strictEqual(complete.length, 1)
        const refused = exports.filter(({ status }) => status === 402)
        assert.strictEqual(refused.length, 3)
        for (const { text } of refused) {
          const error = valueAt(JSON.parse(text), "error")
          assert.strictEqual(valueAt(error, "code"), "insufficient_credits")
          assert.strictEqual(valueAt(error, "details", "reason"), `${limit}_exhausted`)
          assert.include(text, `The export costs ${cost} microdollars`)
        }
        const { balance } = yield* assertExact(account_id, initial, 4)
        assert.strictEqual(balance, initial - cost)
      }),
    120_000,
  )

  it.effect.each(limits)(
    "for pages take the %s of one process below zero by less than one page (D13, D27)",
    (limit) =>
      Effect.gen(function* () {
        const [port] = yield* Ports
        const cost = yield* measureCost(port, `${page}&ticker=SMALL`)
        // Tests two kinds of requests. The first path differs in every request. The second is always the same, so the
        // response cache serves it after the second request.
        for (const path of [(at: number) => `${page}&page=1&ticker=SMALL,X${at}`, () => `${page}&ticker=SMALL`]) {
          const initial = Math.floor(cost * 2.5)
          const { account_id, key } = yield* createLimitedCustomer(initial, limit)
          const pages = yield* Effect.forEach(
            Array.from({ length: 60 }, (_, at) => at),
            (at) => requestOverWire(port, path(at), key),
            { concurrency: "unbounded" },
          )
          assert.strictEqual(pages.filter(({ status }) => status === 200).length, 3)
          const refused = pages.filter(({ status }) => status === 402)
          // On a busy machine, the remaining requests get 503.
          assert.isAbove(refused.length, 0)
          for (const { headers, text } of refused) {
            assert.include(text, "is used up")
            assert.isUndefined(headers["link"])
          }
          const { balance } = yield* assertExact(account_id, initial, 60)
          assert.isAbove(balance, -cost)
        }
      }),
    120_000,
  )

  it.effect(
    "of any kind are charged to the microdollar, and give back what they reserved (D27, D29)",
    () =>
      Effect.gen(function* () {
        const ports = yield* Ports
        const exports = ["csv", "ndjson", "parquet"].flatMap((format) =>
          ["SMALL", "TINY"].map((ticker) => exportOf(format, ticker))
        )
        const largestPage = `${page}&ticker=SMALL`
        const pages = [largestPage, "/v1/news?limit=10&format=ndjson", "/v1/screener", "/v1/news?limit=0"]
        const pageCost = yield* measureCost(ports[0], largestPage)
        const exportCosts = yield* Effect.forEach(exports, (path) => measureCost(ports[0], path))
        const largestCost = Math.max(...exportCosts)
        for (let seed = 1; seed <= getInputCount(30); seed++) {
          const choose = makeRandomChooser(seed)
          const initial = Math.floor(largestCost * choose([0.03, 0.2, 0.7, 1.4, 2, 2.6, 4, 7]))
          const hasPages = choose([true, false])
          const [first = "", ...others] = hasPages ? [...exports, ...pages] : exports
          const { account_id, key } = yield* createLimitedCustomer(initial, choose(limits))
          const requests = Array.from({ length: 10 }, () => ({
            port: choose(ports),
            path: choose([first, ...others]),
            isAbandoned: choose([false, false, false, true]),
          }))
          yield* Effect.forEach(
            requests,
            ({ isAbandoned, path, port }) =>
              isAbandoned
                ? Effect.asVoid(Effect.scoped(startPausedDownload(port, path, key)))
                : Effect.asVoid(download(port, path, key)),
            { concurrency: "unbounded", discard: true },
          )
          const { balance } = yield* assertExact(account_id, initial, requests.length)
          // Exports never spend more than the remaining amount. Each process may spend that amount once more on pages,
          // and exceed it by one page.
          assert.isAtLeast(balance, hasPages ? -initial - 2 * pageCost : 0, `seed ${seed}`)
        }
      }),
    300_000,
  )

  it.effect("leave part of the balance for others, and the 402 says how much is reserved (D13)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const ports = yield* Ports
      const cost = yield* measureCost(ports[0], exportOf("csv"))
      const { account_id, key } = yield* createLimitedCustomer(cost)
      yield* Effect.gen(function* () {
        yield* startPausedDownload(ports[0], exportOf("csv"), key)
        assert.strictEqual((yield* readAccount(account_id)).reserved, cost)
        // The second instance learns of the reservation within half a second.
        const refused = yield* Effect.repeat(requestOverWire(ports[1], "/v1/screener", key), {
          until: ({ status }) => status === 402,
          schedule: Schedule.spaced("20 millis"),
        })
        assert.include(refused.text, "reserved by exports in progress")
        assert.strictEqual(readBalance(refused.text), 0)
        yield* sql`
          update accounts set balance_microdollars = balance_microdollars + 1000 where account_id = ${account_id}
        `
        const other = yield* Effect.repeat(download(ports[1], exportOf("csv"), key), {
          until: ({ text }) => text.includes("export costs"),
          schedule: Schedule.spaced("20 millis"),
        })
        assert.strictEqual(other.status, 402)
        assert.include(other.text, `of which other exports in progress have reserved ${cost}`)
        assert.strictEqual(readBalance(other.text), 1_000)
        const overview = yield* requestOverWire(ports[1], "/v1/overview", key)
        assert.isAbove(Number(valueAt(JSON.parse(overview.text), "results", 0, "balance_microdollars")), cost / 2)
      }).pipe(Effect.scoped)
      const { rows } = yield* waitForAccount(account_id, ({ reserved }) => reserved === 0)
      yield* assertExact(account_id, cost + 1_000, rows)
      const [left] = yield* sql`select from balance_reservations where account_id = ${account_id}`
      assert.isUndefined(left)
    }))

  it.effect("of an account without a limit reserve nothing (D27)", () =>
    Effect.gen(function* () {
      const [port] = yield* Ports
      yield* whileNothingCanBeReserved(measureCost(port, exportOf("csv")))
    }))
})

layer(services, { excludeTestServices: true, timeout: "300 seconds" })("The numbers of an account", (it) => {
  it.effect(
    "count every response at once, whether its usage is written, being written or waits (D13, D27, D29)",
    () =>
      Effect.gen(function* () {
        const [port] = yield* Ports
        const sql = yield* SqlClient.SqlClient
        const largestPage = `${page}&ticker=SMALL`
        const pageCost = yield* measureCost(port, largestPage)
        const priced = [largestPage, "/v1/news?limit=10&format=ndjson", "/v1/screener", exportOf("csv", "TINY")]
        const free = ["/v1/account", "/v1/ticker-changes", "/v1/news?limit=no"]
        for (let seed = 1; seed <= getInputCount(12); seed++) {
          const choose = makeRandomChooser(seed)
          const limit = choose(limits)
          const initial = choose([0, 1, pageCost, 7 * pageCost, 20 * pageCost])
          const { key } = yield* createLimitedCustomer(initial, limit)
          // Some usage cannot be written until the end.
          const isHeld = choose([false, false, true])
          let [spent, requests] = [0, 0]
          const sendRequests = Effect.gen(function* () {
            for (let step = 0; step < 60; step++) {
              const path = choose([page, ...priced, ...free])
              const { headers, status, text, trailers } = yield* download(port, path, key)
              const isExport = path.includes("limit=all")
              const place = `seed ${seed}, step ${step}: ${path} gets ${status} ${text.slice(0, 300)}`
              if (status === 402) {
                assert.strictEqual(readBalance(text), initial - spent, place)
                if (!isExport) assert.isAtMost(initial - spent, 0, place)
              } else if (priced.includes(path)) {
                assert.strictEqual(status, 200, place)
                assert.isAbove(initial - spent, 0, place)
              }
              spent += Number(trailers["x-cost-microdollars"] ?? headers["x-cost-microdollars"])
              requests += 1
              const overview = yield* download(port, "/v1/overview", key)
              const shown = valueAt(JSON.parse(overview.text), "results", 0)
              assert.deepStrictEqual(
                {
                  requests: valueAt(shown, "requests_today"),
                  cost: valueAt(shown, "cost_today_microdollars"),
                  balance: valueAt(shown, "balance_microdollars"),
                  budgetSpent: valueAt(shown, "budget_spent_microdollars"),
                },
                {
                  requests,
                  cost: spent,
                  balance: limit === "balance" ? initial - spent : null,
                  budgetSpent: limit === "budget" ? spent : null,
                },
                place,
              )
              requests += 1
            }
          })
          yield* isHeld
            ? sql.withTransaction(Effect.andThen(sql`lock table usage_batches in share mode`, sendRequests))
            : sendRequests
        }
      }),
    300_000,
  )
})

layer(Layer.provideMerge(Layer.effectDiscard(insertNews), databaseWithKeysLayer), {
  excludeTestServices: true,
  timeout: "120 seconds",
})("A reservation", (it) => {
  const balance = 10_000_000

  it.effect.each(limits)(
    "of a killed process expires, and the %s is as before (D29, RELIABILITY.md)",
    (limit) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { account_id, key } = yield* createLimitedCustomer(balance, limit)
        const { port, running } = yield* startServiceProcess(yield* Service.databaseUrl)
        yield* startPausedDownload(port, exportOf("csv"), key)
        assert.isAbove((yield* readAccount(account_id)).reserved, 0)
        yield* endProcess(running, "SIGKILL")
        const killed = yield* readAccount(account_id)
        assert.isAbove(killed.reserved, 0)
        assert.strictEqual(killed.balance, balance)
        // Expires the reservations immediately instead of waiting a minute.
        yield* sql`update balance_reservations set expires_at = now()`
        const other = yield* startServiceInstance()
        const cost = yield* measureCost(other, exportOf("csv"))
        const column = sql(limit === "balance" ? "balance_microdollars" : "budget_microdollars")
        yield* sql`update accounts set ${column} = ${cost}::float8::bigint where account_id = ${account_id}`
        assert.isTrue((yield* download(other, exportOf("csv"), key)).isComplete)
        assert.strictEqual((yield* assertExact(account_id, cost, 1)).balance, 0)
        const [left] = yield* sql`select from balance_reservations`
        assert.isUndefined(left, "the next reservation removes expired ones")
      }).pipe(Effect.scoped),
  )

  it.effect("is renewed while the client pauses (D27)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, key } = yield* createLimitedCustomer(balance)
      const port = yield* Effect.provideService(startServiceInstance(), ReservationTimes, {
        lease: Duration.seconds(2),
        renewalInterval: Duration.millis(100),
        holderTtl: Duration.seconds(1),
      })
      const response = yield* startPausedDownload(port, exportOf("csv"), key)
      const [first] = yield* sql<{ readonly at: number }>`
        select extract(epoch from expires_at)::float8 as at from balance_reservations where account_id = ${account_id}
      `
      yield* Effect.repeat(
        sql<{ readonly at: number }>`
          select extract(epoch from expires_at)::float8 as at from balance_reservations where account_id = ${account_id}
        `,
        { until: ([now]) => (now?.at ?? 0) > (first?.at ?? Infinity) + 3, schedule: Schedule.spaced("50 millis") },
      )
      assert.isTrue(yield* finishDownload(response))
      yield* assertExact(account_id, balance, 1)
    }).pipe(Effect.scoped))

  it.effect("that was lost is made again, or the export is cut off without trailers (D13, D27)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const port = yield* Effect.provideService(startServiceInstance(), ReservationTimes, {
        lease: Duration.seconds(60),
        renewalInterval: Duration.minutes(1),
        holderTtl: Duration.millis(1),
      })
      for (const left of [balance, 30_000]) {
        const { account_id, key } = yield* createLimitedCustomer(balance)
        const response = yield* startPausedDownload(port, exportOf("csv"), key)
        yield* sql`delete from balance_reservations`
        yield* sql`update accounts set balance_microdollars = ${left}::float8::bigint where account_id = ${account_id}`
        const isComplete = yield* finishDownload(response)
        assert.strictEqual(isComplete, left === balance)
        assert.strictEqual("x-cost-microdollars" in response.trailers, isComplete)
        const account = yield* assertExact(account_id, left, 1)
        if (!isComplete) assert.isAtLeast(account.balance, 0)
        const { text } = yield* requestOverWire(port, "/v1/usage", key)
        assert.strictEqual(valueAt(JSON.parse(text), "results", 0, "status_code"), isComplete ? 200 : 402)
      }
    }).pipe(Effect.scoped))

  it.effect("is given back if the export fails or its client disconnects (D27)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const port = yield* startServiceInstance()
      const failed = yield* createLimitedCustomer(balance)
      const response = yield* startPausedDownload(port, exportOf("csv"), failed.key)
      yield* sql`
        select pg_terminate_backend(pid) from pg_stat_activity where query ~ 'from export' and pid <> pg_backend_pid()
      `
      assert.isFalse(yield* finishDownload(response))
      assert.strictEqual((yield* assertExact(failed.account_id, balance, 1)).balance, balance)

      const gone = yield* createLimitedCustomer(balance)
      yield* Effect.scoped(startPausedDownload(port, exportOf("csv"), gone.key))
      assert.isBelow((yield* assertExact(gone.account_id, balance, 1)).balance, balance)
    }).pipe(Effect.scoped))

  it.effect("is not made by HEAD, an estimate or a refused request (D28)", () =>
    Effect.gen(function* () {
      const port = yield* startServiceInstance()
      const { account_id, key } = yield* createLimitedCustomer(balance)
      const estimate = `/estimate?endpoint=${exportOf("csv").replace("?", "&")}`
      yield* whileNothingCanBeReserved(Effect.gen(function* () {
        assert.strictEqual((yield* requestOverWire(port, exportOf("csv"), key, { method: "HEAD" })).status, 200)
        assert.strictEqual((yield* requestOverWire(port, estimate, key)).status, 200)
        assert.strictEqual((yield* requestOverWire(port, "/v1/news?limit=all&format=json", key)).status, 422)
        assert.strictEqual((yield* requestOverWire(port, exportOf("csv"), key)).status, 503)
      }))
      assert.strictEqual((yield* readAccount(account_id)).balance, balance)
    }).pipe(Effect.scoped))
})
