/**
 * Tests for budgets: which costs count toward a budget, who is notified, and which requests are refused (D27, budgets).
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as Accounts from "../../../src/accounts/Accounts.ts"
import { type Budget, setBudget } from "../../../src/accounts/billing/Budgets.ts"
import { PrepaidBalances } from "../../../src/accounts/billing/PrepaidBalances.ts"
import { settleUsage } from "../../../src/accounts/billing/UsageSettlement.ts"
import { DatabaseReader } from "../../../src/postgres/DatabaseReader.ts"
import { queueBudgetNotices } from "../../../src/outbox/mail/BudgetNotices.ts"
import { createWebhookEndpoint } from "../../../src/outbox/webhooks/WebhookEndpoints.ts"
import { createCustomer, makeRecordWriter, makeUsageRecord, retryUntil } from "../../support/CustomerUsage.ts"
import { valueAt } from "../../support/DocumentedEndpoints.ts"
import { makeRandomChooser } from "../../support/RandomChoices.ts"
import { databaseWithKeysLayer, requestOverWire, startServiceInstance } from "../../support/ServiceInstances.ts"
import { getInputCount, skipUnlessThorough } from "../../support/Thoroughness.ts"

/** Percentages of a budget. When spending reaches one of them, an alert is sent. */
const thresholds = [75, 90, 100]

/**
 * Returns last month, this month and next month in New York time, each with its first day and the times of its first
 * and last possible usage.
 */
const readMonths = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) =>
    sql<{ readonly first: string; readonly times: ReadonlyArray<number> }>`
    select first::date::text as first, array[
        extract(epoch from first at time zone 'America/New_York') * 1000,
        extract(epoch from (first + interval '1 month') at time zone 'America/New_York') * 1000 - 1
      ]::float8[] as times
    from generate_series(-1, 1) as n, lateral (
      select date_trunc('month', now() at time zone 'America/New_York') + make_interval(months => n) as first
    ) as months order by n
  `,
)

/**
 * Reads how much of its budget an account has spent, from two sources: the account row (`spent`), and the daily sums
 * since the start of the budget month (`daily`). Also reads the alerts, each formatted as month, budget and percentage,
 * such as `2026-06-01 100 75`.
 */
const readBudget = Effect.fnUntraced(function* (account_id: number) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{
    readonly budget: number | null
    readonly month: string | null
    readonly spent: number | null
    readonly daily: number | null
    readonly alerts: ReadonlyArray<string>
    readonly webhooks: ReadonlyArray<string>
  }>`
    select budget_microdollars::float8 as budget, budget_month::text as month, budget_spent_microdollars::float8 as spent,
      case when budget_month is not null then (
        select coalesce(sum(cost_microdollars), 0) from usage_totals
        where usage_totals.account_id = accounts.account_id and usage_date >= budget_month
      ) end::float8 as daily,
      array(
        select concat_ws(' ', month, budget_alerts.budget_microdollars, percent) from budget_alerts
        where budget_alerts.account_id = accounts.account_id order by 1
      ) as alerts,
      array(
        select concat_ws(' ', (data ->> 'month') || '-01', data ->> 'budget_microdollars', data ->> 'percent')
        from webhook_messages join webhook_endpoints using (endpoint_id),
          lateral (select body::json -> 'data' as data) as body
        where webhook_endpoints.account_id = accounts.account_id order by 1
      ) as webhooks
    from accounts where account_id = ${account_id}
  `
  return row ?? (yield* Effect.die(new Error(`no account ${account_id}`)))
})

/** Reads the total cost of an account's requests, in microdollars. */
const readSpent = Effect.fnUntraced(function* (account_id: number) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly cost: number }>`
    select coalesce(sum(cost_microdollars), 0)::float8 as cost from usage_totals where account_id = ${account_id}
  `
  return row?.cost ?? 0
})

/** Creates an account with a budget and a webhook for budget events. */
const createBudgeted = Effect.fnUntraced(function* (name: string, budget: Budget | null = null) {
  const customer = yield* createCustomer(name)
  const webhook = { account: name, url: "https://example.com/", events: ["budget.*"] as const }
  yield* createWebhookEndpoint({ ...webhook, datasets: null, tickers: null })
  if (budget !== null) yield* setBudget(name, budget)
  return { ...customer, name }
})

/** Records requests with the given costs, dated at the start of this month, and charges for them. */
const writeCosts = Effect.fnUntraced(function* (account_id: number, ...costs: ReadonlyArray<number>) {
  const { makeBatch, write } = yield* makeRecordWriter
  const [, current] = yield* readMonths
  const requested_at = current?.times[0] ?? 0
  yield* write(makeBatch(
    costs.map((cost_microdollars) => makeUsageRecord({ account_id, cost_microdollars, requested_at })),
  ))
  yield* settleUsage
})

layer(databaseWithKeysLayer, { excludeTestServices: true, timeout: "120 seconds" })("A budget", (it) => {
  it.effect(
    "counts exactly the usage of its month, and each threshold alerts once, for random changes and requests (D27)",
    () =>
      Effect.gen(function* () {
        const months = yield* readMonths
        const { makeBatch, write } = yield* makeRecordWriter
        for (let seed = 1; seed <= getInputCount(40); seed++) {
          const choose = makeRandomChooser(seed)
          const accounts = yield* Effect.forEach(["a", "b"], (name) => createBudgeted(`random ${seed} ${name}`))
          const models = accounts.map((account) => ({
            ...account,
            costs: [0, 0, 0],
            newest: 0,
            month: 0,
            budget: 0,
            alerts: new Set<string>(),
          }))
          for (let step = 0; step < 25; step++) {
            if (choose([true, false, false])) {
              const model = models[choose([0, 1])]
              if (model === undefined) continue
              model.budget = choose([0, 10, 100, 100, 101, 1_000])
              model.month = Math.max(1, model.newest)
              const budget = { microdollars: BigInt(model.budget), stops: choose([true, false]) }
              yield* setBudget(model.name, model.budget === 0 ? null : budget)
            } else {
              const available = choose([[0, 1], [0, 1], [0, 1], [1, 2]] as const)
              const rows = Array.from({ length: choose([1, 2, 5]) }, () => {
                const at = choose([0, 1])
                const month = choose(available)
                const cost_microdollars = choose([0, 1, 7, 15, 80])
                return { at, month, cost_microdollars, requested_at: choose([0, 1]) }
              })
              const batch = makeBatch(rows.map(({ at, cost_microdollars, month, requested_at }) =>
                makeUsageRecord({
                  account_id: models[at]?.account_id ?? 0,
                  cost_microdollars,
                  requested_at: months[month]?.times[requested_at] ?? 0,
                })
              ))
              yield* write(batch)
              if (choose([true, false])) yield* settleUsage
              if (choose([true, false])) yield* write(batch)
              yield* settleUsage
              for (const [at, model] of models.entries()) {
                const own = rows.filter((row) => row.at === at)
                for (const { cost_microdollars, month } of own) {
                  model.newest = Math.max(model.newest, month)
                  model.costs[month] = (model.costs[month] ?? 0) + cost_microdollars
                }
                const charged = own.filter((row) => row.cost_microdollars > 0)
                model.month = Math.max(model.month, ...charged.map(({ month }) => month))
              }
            }
            for (const { account_id, alerts, budget, costs, month } of models) {
              const found = yield* readBudget(account_id)
              const first = months[month]?.first ?? ""
              const spent = costs[month] ?? 0
              const expected = budget === 0 ? [null, null, null] : [first, spent, spent]
              const message = `seed ${seed}, step ${step}`
              assert.deepStrictEqual([found.month, found.spent, found.daily], expected, message)
              for (const percent of thresholds) {
                if (budget > 0 && spent * 100 >= percent * budget) alerts.add(`${first} ${budget} ${percent}`)
              }
              assert.sameMembers([...found.alerts], [...alerts], message)
              assert.sameMembers([...found.webhooks], [...alerts], message)
            }
          }
        }
      }),
    120_000,
  )

  it.effect("stays exact while concurrent writers repeat each batch and the budget changes (D27, D29)", () =>
    Effect.gen(function* () {
      const account = yield* createBudgeted("concurrent", { microdollars: 1_000n, stops: true })
      const [, current] = yield* readMonths
      const requested_at = current?.times[0] ?? 0
      const writes = Array.from({ length: 40 }, () => {
        const rows = Array.from(
          { length: 25 },
          () => makeUsageRecord({ account_id: account.account_id, cost_microdollars: 3, requested_at }),
        )
        return Effect.gen(function* () {
          const { makeBatch, write } = yield* makeRecordWriter
          const batch = makeBatch(rows)
          yield* write(batch)
          yield* settleUsage
          yield* write(batch)
        })
      })
      const changes = writes.map((_, index) =>
        setBudget(account.name, { microdollars: [500n, 2_000n, 3_000n][index % 3] ?? 0n, stops: true })
      )
      const mixed = writes.map((write, index) => Effect.andThen(write, changes[index] ?? Effect.void))
      yield* Effect.forEach(mixed, (effect) => effect, { concurrency: 8, discard: true })
      const { alerts, budget, daily, spent, webhooks } = yield* readBudget(account.account_id)
      assert.deepStrictEqual([spent, daily], [3_000, 3_000])
      assert.includeMembers([...alerts], thresholds.map((percent) => `${current?.first} ${budget} ${percent}`))
      assert.deepStrictEqual(webhooks, alerts)
    }))

  it.effect("alerts again after it is raised, and at once if it is lowered below what has been spent (operations/accounts)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, name } = yield* createBudgeted("raised", { microdollars: 100n, stops: false })
      const readEvents = Effect.map(
        sql<{ readonly type: string; readonly data: unknown }>`
          select type, body::json -> 'data' as data from webhook_messages join webhook_endpoints using (endpoint_id)
          where account_id = ${account_id} order by position
        `,
        (rows) => rows.map(({ data, type }) => ({ type, data })),
      )
      yield* writeCosts(account_id, 74)
      assert.deepStrictEqual(yield* readEvents, [])
      yield* writeCosts(account_id, 1)
      yield* writeCosts(account_id, 20, 10)
      const [, current] = yield* readMonths
      const month = current?.first.slice(0, 7)
      const event = (percent: number, budget_microdollars: number, spent_microdollars: number, stops: boolean) => ({
        type: percent === 100 ? "budget.exhausted" : "budget.warning",
        data: { month, percent, budget_microdollars, spent_microdollars, stops },
      })
      const first = [event(75, 100, 75, false), event(90, 100, 105, false), event(100, 100, 105, false)]
      assert.deepStrictEqual(yield* readEvents, first)
      yield* setBudget(name, { microdollars: 200n, stops: false })
      assert.deepStrictEqual(yield* readEvents, first)
      yield* setBudget(name, { microdollars: 100n, stops: true })
      assert.deepStrictEqual(yield* readEvents, first)
      yield* setBudget(name, { microdollars: 120n, stops: true })
      assert.deepStrictEqual(yield* readEvents, [...first, event(75, 120, 105, true)])
    }))

  it.effect("no longer limits the account, not even its open streams, once it is removed (D13)", () =>
    Effect.gen(function* () {
      const { getRemaining, update } = yield* PrepaidBalances
      const stream = { account_id: 1, spendable_microdollars: 5 }
      update(1, { balance: 5, reserved: 0 }, 1)
      assert.strictEqual(getRemaining(stream), 5)
      update(1, { balance: Infinity, reserved: 0 }, 2)
      assert.strictEqual(getRemaining(stream), Infinity)
      update(1, { balance: -1, reserved: 0 }, 3)
      assert.strictEqual(getRemaining({ ...stream, spendable_microdollars: null }), -1)
      update(2, { balance: Infinity, reserved: 0 }, 1)
      assert.strictEqual(getRemaining({ account_id: 2, spendable_microdollars: 7 }), 7)
    }).pipe(Effect.provide(Layer.provide(PrepaidBalances.layer, DatabaseReader.layer))))

  it.effect("sends one email about the highest threshold that was reached (operations/accounts)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const readEmails = Effect.flatMap(
        queueBudgetNotices,
        () =>
          sql<{ readonly recipient: string; readonly subject: string; readonly text: string }>`
          select recipient, subject, text from announcement_mails join announcements using (entry_id)
          where recipient like '%@budget.example' order by queued_at
        `,
      )
      const { account_id, name } = yield* createBudgeted("emails", { microdollars: 2_500_000n, stops: true })
      yield* writeCosts(account_id, 1_900_000)
      assert.deepStrictEqual(yield* readEmails, [])
      yield* Accounts.updateAccount(name, { contact_email: "a@budget.example" })
      const [warning, ...none] = yield* readEmails
      assert.deepStrictEqual(none, [])
      assert.match(warning?.subject ?? "", /^Tickerline: 75% of the budget for [A-Z][a-z]+ 20\d\d is spent$/)
      assert.include(
        warning?.text.replaceAll(/\s+/g, " "),
        "emails has spent 1.900000 of 2.500000 USD, its budget for ",
      )
      yield* writeCosts(account_id, 600_000)
      const found = yield* readEmails
      assert.strictEqual(found.length, 2)
      assert.match(found[1]?.subject ?? "", /^Tickerline: The budget for [A-Z][a-z]+ 20\d\d is used up$/)
      assert.include(found[1]?.text.replaceAll(/\s+/g, " "), "From now on, requests for data get 402")
      assert.strictEqual((yield* readEmails).length, 2)
      // If the budget changes before the email is queued, the alert about the old amount is dropped.
      const mistyped = yield* createBudgeted("mistyped", { microdollars: 50n, stops: true })
      yield* Accounts.updateAccount(mistyped.name, { contact_email: "mistyped@budget.example" })
      yield* writeCosts(mistyped.account_id, 60)
      yield* setBudget(mistyped.name, { microdollars: 5_000n, stops: true })
      assert.strictEqual((yield* readEmails).length, 2)
      // An alert that could not be sent within a day is dropped.
      const late = yield* createBudgeted("late", { microdollars: 10n, stops: false })
      yield* writeCosts(late.account_id, 10)
      yield* sql`
        update budget_alerts set recorded_at = now() - interval '25 hours' where account_id = ${late.account_id}
      `
      yield* Accounts.updateAccount(late.name, { contact_email: "late@budget.example" })
      assert.strictEqual((yield* readEmails).length, 2)
    }))
})

/** Inserts enough news for a page to have a cost. */
const insertNews = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  sql`
    insert into news (id, ticker, form_type, title, filed_at, created_at, last_updated)
    select 'n' || g, 'BDGT', 'news', 'News', '2026-01-02', '2026-01-02', '2026-01-02' from generate_series(1, 100) as g
  `)

const page = "/v1/news?limit=100"

layer(Layer.provideMerge(Layer.effectDiscard(insertNews), databaseWithKeysLayer), {
  excludeTestServices: true,
  timeout: "120 seconds",
})("A budget that stops its account", (it) => {
  it.effect("refuses data with 402 until it is raised or removed, or the month ends, but free endpoints respond (D13, D27)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const sql = yield* SqlClient.SqlClient
      const port = yield* startServiceInstance()
      const { account_id, key, name } = yield* createBudgeted("stopped")
      const send = requestOverWire(port, page, key)
      const untilStatus = (status: number) => retryUntil(send, (response) => response.status === status)
      const readOverview = Effect.map(
        requestOverWire(port, "/v1/overview", key),
        ({ text }) => {
          const parsed: unknown = JSON.parse(text)
          return ["budget_microdollars", "budget_spent_microdollars", "budget_spent_percent", "budget_stops"]
            .map((field) => valueAt(parsed, "results", 0, field))
        },
      )
      const cost = Number((yield* send).headers["x-cost-microdollars"])
      assert.isAbove(cost, 10)
      assert.deepStrictEqual(yield* readOverview, [null, null, null, false])
      yield* retryUntil(readSpent(account_id), (spent) => spent === cost)

      const budget = Math.floor(cost * 1.5)
      yield* setBudget(name, { microdollars: BigInt(budget), stops: true })
      const refused = yield* untilStatus(402)
      assert.strictEqual(valueAt(JSON.parse(refused.text), "error", "code"), "insufficient_credits")
      assert.include(refused.text, "budget for this month is used up")
      const [details, spent] = yield* retryUntil(
        Effect.all([
          Effect.map(send, ({ text }) => valueAt(JSON.parse(text), "error", "details")),
          readSpent(account_id),
        ]),
        ([details, spent]) => valueAt(details, "balance_microdollars") === budget - spent,
      )
      assert.deepStrictEqual(details, { reason: "budget_exhausted", balance_microdollars: budget - spent })
      assert.deepStrictEqual(yield* readOverview, [budget, spent, Math.floor(spent * 100 / budget), true])

      yield* setBudget(name, { microdollars: 1_000_000_000n, stops: true })
      yield* untilStatus(200)
      yield* setBudget(name, { microdollars: 1n, stops: true })
      yield* untilStatus(402)
      yield* setBudget(name, { microdollars: 1n, stops: false })
      yield* untilStatus(200)
      yield* setBudget(name, { microdollars: 1_000_000_000n, stops: true })
      yield* sql`update accounts set budget_spent_microdollars = 1000000000 where account_id = ${account_id}`
      yield* untilStatus(402)
      // Moves the amount spent to last month.
      yield* sql`update accounts set budget_month = budget_month - interval '1 month' where account_id = ${account_id}`
      yield* untilStatus(200)
      const [, spentThisMonth] = yield* readOverview
      assert.isBelow(Number(spentThisMonth), 1_000_000_000)
      yield* setBudget(name, { microdollars: 1n, stops: true })
      yield* untilStatus(402)
      yield* setBudget(name, null)
      yield* untilStatus(200)

      // Now the prepaid balance is lower than the remaining budget.
      yield* sql`update accounts set balance_microdollars = 0 where account_id = ${account_id}`
      yield* setBudget(name, { microdollars: 1_000_000_000n, stops: true })
      const unpaid = yield* untilStatus(402)
      assert.deepStrictEqual(valueAt(JSON.parse(unpaid.text), "error", "details", "reason"), "balance_exhausted")
    }).pipe(Effect.scoped))
})
