/**
 * Tests what an invoice contains, and that all invoices together add up exactly to the recorded usage (D27, invoices).
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Sink } from "effect"
import { HttpClient } from "effect/http"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import * as Accounts from "../../../src/accounts/Accounts.ts"
import { closeMonth } from "../../../src/accounts/billing/Invoices.ts"
import { computeDataCost } from "../../../src/accounts/billing/Pricing.ts"
import { settleUsage } from "../../../src/accounts/billing/UsageSettlement.ts"
import type { UsageRecord } from "../../../src/accounts/billing/UsageRecord.ts"
import { makeThrottledRequestCountWriter } from "../../../src/accounts/billing/UsageWriter.ts"
import {
  createCustomer,
  type CustomerOptions,
  makeRecordWriter,
  makeUsageRecord,
  readAllPages,
  retryUntil,
  serviceWithSettings,
} from "../../support/CustomerUsage.ts"
import { beginTransaction, waitUntilBlocked } from "../../support/HeldTransactions.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import { makeRandomChooser } from "../../support/RandomChoices.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

/** Creates an account with the given creation time. */
const createCustomerAt = Effect.fnUntraced(function* (name: string, created_at: string, options: CustomerOptions = {}) {
  const sql = yield* SqlClient.SqlClient
  const customer = yield* createCustomer(name, options)
  yield* sql`update accounts set created_at = ${created_at}::text::timestamptz where account_id = ${customer.account_id}`
  return { ...customer, name }
})

/** Records requests in one batch. */
const writeUsage = Effect.fnUntraced(function* (...records: ReadonlyArray<Partial<UsageRecord>>) {
  const { makeBatch, write } = yield* makeRecordWriter
  yield* write(makeBatch(records.map(makeUsageRecord)))
})

/**
 * Corrects a day's sums, as an operator might: adds a request with the given cost, or subtracts one if `sign` is -1.
 */
const correctSums = Effect.fnUntraced(function* (account_id: number, day: string, cost: number, sign: 1 | -1 = 1) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    insert into usage_daily as existing
    values (${account_id}, ${day}::text::date, '/v1/news', ${sign}, 0, ${100 * sign}, ${cost * sign})
    on conflict (account_id, usage_date, endpoint) do update set requests = existing.requests + excluded.requests,
      bytes = existing.bytes + excluded.bytes,
      cost_microdollars = existing.cost_microdollars + excluded.cost_microdollars
  `
})

/** Closes a month for one account, or for all accounts if `account` is null. */
const close = (month: string, account: string | null, skipsEarlierUsage = false) =>
  closeMonth({ month, account, skipsEarlierUsage })

/** An invoice line, with every value as text. */
interface Line {
  readonly month: string
  readonly text: string
}

/** Returns the lines of all the account's invoices as text: day, endpoint, kind, price, requests, bytes and cost. */
const readLines = Effect.fnUntraced(function* (account_id: number) {
  const sql = yield* SqlClient.SqlClient
  const lines = yield* sql<Line>`
    select month, concat_ws(' ', usage_date, endpoint, kind, price_per_gb_microdollars, requests, bytes,
      cost_microdollars) as text
    from invoice_lines where account_id = ${account_id} order by month, line
  `
  return lines.map(({ month, text }) => `${month}: ${text}`)
})

/**
 * Reads an account's total cost from six sources: its invoice lines, its invoices, the daily sums before a given day,
 * all daily sums, its recorded requests, and the amount deducted from its balance.
 */
const readSums = Effect.fnUntraced(function* (account_id: number, until: string) {
  const sql = yield* SqlClient.SqlClient
  const [sums] = yield* sql<Readonly<Record<string, string>>>`
    select
      (select coalesce(sum(cost_microdollars), 0) from invoice_lines where account_id = ${account_id})::text as lines,
      (select coalesce(sum(cost_microdollars), 0) from invoices where account_id = ${account_id})::text as invoices,
      (select coalesce(sum(cost_microdollars), 0) from usage_daily
        where account_id = ${account_id} and usage_date < ${until}::text::date)::text as closed,
      (select coalesce(sum(cost_microdollars), 0) from usage_totals where account_id = ${account_id})::text as daily,
      (select coalesce(sum(cost_microdollars), 0) from usage_requests where account_id = ${account_id})::text as usage,
      ((select coalesce(sum(amount_microdollars), 0) from credits where account_id = ${account_id})
        - (select current_balance(accounts) from accounts where account_id = ${account_id}))::text as charged
  `
  assert.isDefined(sums)
  return sums
})

/** Reads an account's invoices with their lines, and recomputes their digests. */
const readInvoices = Effect.fnUntraced(function* (account_id: number) {
  const sql = yield* SqlClient.SqlClient
  const invoices = yield* sql<{ readonly digest: string; readonly csv: string; readonly row: string }>`
    select digest, invoice_csv(account_id, month) as csv, invoices::text as row from invoices
    where account_id = ${account_id} order by month
  `
  for (const { csv, digest } of invoices) assert.strictEqual(sha256(csv), digest)
  return invoices
})

const sha256 = (data: string | Uint8Array) => createHash("sha256").update(data).digest("hex")

const months = ["2026-04", "2026-05", "2026-06", "2026-07"] as const

/** Returns the first and last millisecond of a summer day in New York. */
const getDayEdges = (day: string) =>
  [Date.parse(`${day}T00:00:00.000-04:00`), Date.parse(`${day}T23:59:59.999-04:00`)] as const

layer(Service.layer, { excludeTestServices: true, timeout: "120 seconds" })("Invoices", (it) => {
  it.effect("are exactly the recorded usage, for random requests, late ones, prices, credits and closings (D27, D29)", () =>
    Effect.gen(function* () {
      const { makeBatch, write } = yield* makeRecordWriter
      const writeCounts = yield* makeThrottledRequestCountWriter
      for (let seed = 1; seed <= getInputCount(40); seed++) {
        const choose = makeRandomChooser(seed)
        const { account_id, name } = yield* createCustomerAt(`random ${seed}`, "2026-04-01T12:00:00-04:00", {
          balance: 0,
        })
        /** Requests, bytes and cost by day, endpoint, kind and price. */
        const expected = new Map<string, [requests: number, bytes: number, cost: number]>()
        const expectLine = (
          day: string,
          endpoint: string,
          line: string,
          requests: number,
          bytes: number,
          cost: number,
        ) => {
          const key = `${day} ${endpoint} ${line}`
          const [requestsBefore, bytesBefore, costBefore] = expected.get(key) ?? [0, 0, 0]
          expected.set(key, [requestsBefore + requests, bytesBefore + bytes, costBefore + cost])
        }
        const chooseDay = () => `${choose(months)}-${choose(["01", "02", "15", "30"])}`
        /** The invoices as of the most recent closing. They must never change. */
        const closedInvoices: Array<string> = []
        let [closed, throttled] = [0, 0]
        for (let step = 0; step < 20 || closed < months.length; step++) {
          const action = choose(["write", "write", "write", "throttled", "corrected", "credit", "close"] as const)
          if (action === "write") {
            const rows = Array.from({ length: choose([1, 2, 10]) }, () => {
              const day = chooseDay()
              const endpoint = choose(["/v1/news", "/v1/screener"])
              const bytes = choose([0, 1, 999, 1_000_003])
              const price = choose([0, 1, 2_000_000, 123_456_789])
              // An export that the client aborts has status 499, and still has a cost.
              const status_code = choose([200, 200, 304, 404, 499])
              const cost = status_code === 200 || status_code === 499 ? computeDataCost(bytes, price) : 0
              const kind = cost > 0 ? `charged ${price}` : status_code >= 400 ? "refused 0" : "free 0"
              expectLine(day, endpoint, kind, 1, bytes, cost)
              return makeUsageRecord({
                account_id,
                endpoint,
                status_code,
                bytes,
                cost_microdollars: cost,
                price_per_gb_microdollars: cost > 0 ? price : 0,
                requested_at: choose(getDayEdges(day)),
              })
            })
            const batch = makeBatch(rows)
            yield* write(batch)
            if (choose([true, false])) yield* write(batch)
          } else if (action === "throttled") {
            const day = chooseDay()
            const requests = choose([1, 7])
            const refusal = makeUsageRecord({ account_id, status_code: 429, requested_at: choose(getDayEdges(day)) })
            throttled += 1
            yield* writeCounts([{
              id: `00000000-0000-4000-8000-${String(seed * 1_000 + throttled).padStart(12, "0")}`,
              row: refusal,
              countsBefore: { requests: 0, bytes: 0 },
              countsAfter: { requests, bytes: requests * 50 },
            }])
            expectLine(day, "/v1/screener", "refused 0", requests, requests * 50, 0)
          } else if (action === "corrected") {
            // Moves a request from one day to another, so that the total over all days still matches the recorded
            // requests.
            const cost = choose([0, 5])
            for (const sign of [1, -1] as const) {
              const day = chooseDay()
              yield* correctSums(account_id, day, cost, sign)
              expectLine(day, "/v1/news", "unitemized", sign, 100 * sign, cost * sign)
            }
          } else if (action === "credit") {
            yield* Accounts.creditAccount({ name, microdollars: 1_000n, reference: null, mayBecomePrepaid: false })
          } else {
            const month = months[closed]
            if (month === undefined) continue
            yield* close(month, name)
            closed += 1
            const invoices = yield* readInvoices(account_id)
            assert.deepStrictEqual(
              invoices.slice(0, -1).map(({ csv, row }) => csv + row),
              closedInvoices,
              `seed ${seed}`,
            )
            closedInvoices.splice(0, Infinity, ...invoices.map(({ csv, row }) => csv + row))
            const { closed: billed, lines } = yield* readSums(account_id, `2026-0${4 + closed}-01`)
            assert.strictEqual(lines, billed, `seed ${seed}`)
          }
        }
        // Usage recorded after a month was closed appears as a correction on the next invoice.
        yield* close("2026-08", name)
        const sums = yield* readSums(account_id, "2026-09-01")
        assert.strictEqual(new Set(Object.values(sums)).size, 1, `seed ${seed}: ${JSON.stringify(sums)}`)
        const sql = yield* SqlClient.SqlClient
        const lines = yield* sql<{ readonly text: string }>`
          select concat_ws(' ', usage_date, endpoint, kind, price_per_gb_microdollars, sum(requests), sum(bytes),
            sum(cost_microdollars)) as text
          from invoice_lines where account_id = ${account_id}
          group by usage_date, endpoint, kind, price_per_gb_microdollars
          having sum(requests) <> 0 or sum(bytes) <> 0 or sum(cost_microdollars) <> 0
        `
        assert.sameMembers(
          lines.map(({ text }) => text),
          Array.from(expected).filter(([, sums]) => sums.some((sum) => sum !== 0)).map(([key, sums]) =>
            `${key} ${sums.join(" ")}`
          ),
          `seed ${seed}`,
        )
      }
    }))

  it.effect("contain late requests of earlier months as lines with their own day (D27)", () =>
    Effect.gen(function* () {
      const { account_id, name } = yield* createCustomerAt("late", "2026-04-01T00:00:00Z")
      const request = { account_id, requested_at: Date.parse("2026-05-31T23:30:00-04:00") }
      yield* writeUsage(request)
      yield* close("2026-05", name)
      yield* writeUsage(request, { ...request, price_per_gb_microdollars: 80_000_000, cost_microdollars: 8 })
      yield* close("2026-06", name)
      yield* close("2026-07", name)
      assert.deepStrictEqual(yield* readLines(account_id), [
        "2026-05: 2026-05-31 /v1/screener charged 70000000 1 100 7",
        "2026-06: 2026-05-31 /v1/screener charged 70000000 1 100 7",
        "2026-06: 2026-05-31 /v1/screener charged 80000000 1 100 8",
      ])
    }))

  it.effect("subtract what operators have taken back (D27)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, name } = yield* createCustomerAt("forgiven", "2026-04-01T00:00:00Z")
      yield* writeUsage({ account_id, requested_at: Date.parse("2026-05-15T12:00:00Z") })
      yield* close("2026-05", name)
      yield* sql`update usage_daily set cost_microdollars = 2 where account_id = ${account_id}`
      yield* close("2026-06", name)
      assert.deepStrictEqual(yield* readLines(account_id), [
        "2026-05: 2026-05-15 /v1/screener charged 70000000 1 100 7",
        "2026-06: 2026-05-15 /v1/screener unitemized 0 0 -5",
      ])
    }))

  it.effect("are refused for months that are not over, out of order, or would leave out usage (D27)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const environment = { DATABASE_URL: yield* Service.databaseUrl }
      const run = (...args: ReadonlyArray<string>) => runCommandInProcess(["invoices", ...args], environment)
      const { account_id } = yield* createCustomerAt("ordered", "2026-04-01T00:00:00Z")
      yield* createCustomerAt("new", "2026-06-10T00:00:00Z")
      yield* writeUsage(
        { account_id, requested_at: Date.parse("2026-04-15T12:00:00Z") },
        { account_id, requested_at: Date.parse("2026-05-15T12:00:00Z") },
      )
      const [{ month } = { month: "" }] = yield* sql<{ readonly month: string }>`
        select to_char(now() at time zone 'America/New_York', 'YYYY-MM') as month
      `
      const refusals: ReadonlyArray<readonly [ReadonlyArray<string>, RegExp]> = [
        [[month, "--account", "ordered"], /is not over\. It can be closed from \d{4}-\d\d-01 on/],
        [["2026-13"], /must be a month/],
        [["2026-05", "--account", "nobody"], /There is no account nobody/],
        [["2026-05", "--account", "new"], /new was created after 2026-05/],
        [["2026-05", "--account", "ordered"], /ordered used the service before 2026-05.*--skip-earlier-usage/s],
      ]
      for (const [args, message] of refusals) {
        const { code, err } = yield* run("close", ...args)
        assert.notStrictEqual(code, 0, args.join(" "))
        assert.match(err.replaceAll(/\s+/g, " "), message)
      }
      assert.lengthOf(yield* sql`select from invoices where account_id = ${account_id}`, 0)

      const begun = yield* run("close", "2026-05", "--account", "ordered", "--skip-earlier-usage")
      assert.strictEqual(begun.out, "Closed 2026-05: 1 new invoice.\n")
      const again = yield* run("close", "2026-05", "--account", "ordered")
      assert.deepInclude(again, { code: 0, out: "2026-05 is closed already. Nothing was changed.\n" })
      assert.match((yield* run("close", "2026-07", "--account", "ordered")).err, /but none for 2026-06/)
      assert.match((yield* run("close", "2026-04", "--account", "ordered")).err, /ordered has an invoice for 2026-05/)
      // Requests from before the first invoice's month that are recorded late appear on no invoice.
      yield* writeUsage(
        { account_id, requested_at: Date.parse("2026-04-16T12:00:00Z") },
        { account_id, requested_at: Date.parse("2026-05-16T12:00:00Z") },
      )
      yield* close("2026-06", "ordered")
      assert.deepStrictEqual(yield* readLines(account_id), [
        "2026-05: 2026-05-15 /v1/screener charged 70000000 1 100 7",
        "2026-06: 2026-05-16 /v1/screener charged 70000000 1 100 7",
      ])
    }))

  it.effect("contain usage exactly once even if it is written while a month is being closed (D27, D29)", () =>
    Effect.gen(function* () {
      const { account_id, name } = yield* createCustomerAt("concurrent", "2026-05-01T00:00:00Z")
      const request = { account_id, requested_at: Date.parse("2026-05-15T12:00:00Z") }
      const { commit } = yield* beginTransaction(Effect.andThen(writeUsage(request), settleUsage))
      const closing = yield* Effect.forkChild(Effect.all([close("2026-05", name), close("2026-05", name)], {
        concurrency: "unbounded",
      }))
      yield* waitUntilBlocked
      yield* commit
      yield* Fiber.join(closing)
      yield* writeUsage(request)
      yield* close("2026-06", name)
      const line = "2026-05-15 /v1/screener charged 70000000 1 100 7"
      assert.deepStrictEqual(yield* readLines(account_id), [`2026-05: ${line}`, `2026-06: ${line}`])
    }))

  it.effect("cannot be changed, not even by the owner of the tables (D27)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, name } = yield* createCustomerAt("fixed", "2026-05-01T00:00:00Z")
      yield* writeUsage({ account_id, requested_at: Date.parse("2026-05-15T12:00:00Z") })
      yield* close("2026-05", name)
      const statements = [
        "update invoices set cost_microdollars = 0",
        "update invoice_lines set cost_microdollars = 0",
        "delete from invoices",
        "delete from invoice_lines",
        "truncate invoice_lines",
        "truncate invoices, invoice_lines",
        `insert into invoice_lines select account_id, month, 2, usage_date, endpoint, kind, requests, bytes,
          price_per_gb_microdollars, cost_microdollars from invoice_lines where account_id = ${account_id}`,
        // The account has no invoice for this month, and every invoice line must belong to an invoice.
        `insert into invoice_lines values (${account_id}, '2026-06', 1, '2026-06-01', '/v1/news', 'free', 1, 1, 0, 0)`,
      ]
      for (const statement of statements) yield* Effect.flip(sql.unsafe(statement))
      // A line cannot be inserted while its month is being closed.
      const { commit } = yield* beginTransaction(sql`select close_invoice(${account_id}, '2026-06', null)`)
      const adding = yield* Effect.forkChild(Effect.flip(sql`
        insert into invoice_lines values (${account_id}, '2026-06', 9, '2026-06-01', '/v1/news', 'free', 1, 1, 0, 0)
      `))
      yield* waitUntilBlocked
      yield* commit
      yield* Fiber.join(adding)
      assert.deepStrictEqual(yield* readLines(account_id), [
        "2026-05: 2026-05-15 /v1/screener charged 70000000 1 100 7",
      ])
      const audit = yield* sql<{ readonly text: string }>`
        select concat_ws(' ', subject, change, after ->> 'cost_microdollars') as text from audit
        where account_id = ${account_id} and subject_type = 'invoice'
      `
      assert.deepStrictEqual(audit, [{ text: "2026-05 created 7" }, { text: "2026-06 created 0" }])
    }))

  it.effect("are the same in the API, its exports and the command, with the SHA-256 that they state (D27)", () =>
    Effect.gen(function* () {
      const environment = { DATABASE_URL: yield* Service.databaseUrl }
      const { account_id, key, name } = yield* createCustomerAt("shown", "2026-05-01T00:00:00Z")
      const other = yield* createCustomerAt("neighbor", "2026-05-01T00:00:00Z")
      const request = { account_id, requested_at: Date.parse("2026-05-15T12:00:00Z") }
      const free = { cost_microdollars: 0, price_per_gb_microdollars: 0 }
      yield* writeUsage(
        request,
        { ...request, ...free, status_code: 304, bytes: 0 },
        { ...request, ...free, status_code: 404, bytes: 30 },
        { ...request, account_id: other.account_id },
      )
      yield* correctSums(account_id, "2026-05-16", 3)
      for (const month of ["2026-05", "2026-06"]) {
        yield* close(month, "shown")
        yield* close(month, "neighbor")
      }
      const invoices = yield* readAllPages("/v1/account/invoices", key, 1)
      assert.deepStrictEqual(
        invoices.map((invoice) => Service.valueAt(invoice, "month")),
        ["2026-06", "2026-05"],
      )
      assert.deepInclude(invoices[1], { lines: 4, requests: 4, bytes: 230, cost_microdollars: 10 })
      const lines = yield* readAllPages("/v1/account/invoice-lines?month=2026-05", key, 3)
      const line = { month: "2026-05", usage_date: "2026-05-15", endpoint: "/v1/screener", requests: 1 }
      assert.deepStrictEqual(lines, [
        { ...line, line: 1, kind: "charged", bytes: 100, price_per_gb_microdollars: 70_000_000, cost_microdollars: 7 },
        { ...line, line: 2, kind: "free", bytes: 0, price_per_gb_microdollars: 0, cost_microdollars: 0 },
        { ...line, line: 3, kind: "refused", bytes: 30, price_per_gb_microdollars: 0, cost_microdollars: 0 },
        {
          ...line,
          line: 4,
          usage_date: "2026-05-16",
          endpoint: "/v1/news",
          kind: "unitemized",
          bytes: 100,
          price_per_gb_microdollars: null,
          cost_microdollars: 3,
        },
      ])
      for (const [index, month] of ["2026-06", "2026-05"].entries()) {
        const exported = yield* HttpClient.get(`/v1/account/invoice-lines?month=${month}&limit=all&format=csv`, {
          headers: { "X-API-Key": key },
        })
        const csv = new Uint8Array(yield* exported.arrayBuffer)
        assert.strictEqual(sha256(csv), Service.valueAt(invoices[index], "digest"), month)
        const printed: Array<Uint8Array> = []
        const shown = yield* runCommandInProcess(["invoices", "show", name, month, "--csv"], environment, {
          stdout: () => Sink.forEach((chunk) => Effect.sync(() => void printed.push(Buffer.from(chunk)))),
        })
        assert.strictEqual(shown.code, 0, shown.err)
        assert.deepStrictEqual(Buffer.concat(printed), Buffer.from(csv))
      }
      const json = yield* runCommandInProcess(["invoices", "show", name, "2026-05", "--json"], environment)
      assert.deepInclude(JSON.parse(json.out), { account: name, cost_microdollars: 10, usage_from: null })
      const table = yield* runCommandInProcess(["invoices", "show", name, "2026-05"], environment)
      assert.match(table.out, /2026-05-15 +\/v1\/screener +charged +1 +100 +70\.000000 +0\.000007\n/)
      const list = yield* runCommandInProcess(["invoices", "list", "--account", name], environment)
      assert.match(list.out, /shown +2026-06[^]*shown +2026-05/)
      const missing = yield* runCommandInProcess(["invoices", "show", name, "2026-07"], environment)
      assert.match(missing.err, /shown has no invoice for 2026-07/)
      for (const query of ["kind=charged", "endpoint=/v1/news", "usage_date_from=2026-05-16", "kind=free,refused"]) {
        const found = yield* readAllPages(`/v1/account/invoice-lines?${query}`, key, 10)
        assert.lengthOf(found, query === "kind=free,refused" ? 2 : 1, query)
      }
    }))
})

layer(serviceWithSettings({ PRICE_PER_GB_MICRODOLLARS: "123456789", ENDPOINT_PRICES: "/v1/news=987654321" }), {
  excludeTestServices: true,
  timeout: "120 seconds",
})("The daily sums for invoices", (it) => {
  it.effect("have the price of each kind of request, including exports, HEAD and 304 (D27, D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, key } = yield* createCustomer("priced")
      const first = yield* Service.requestJson("/v1/news", { key })
      const newsCost = computeDataCost(Buffer.byteLength(first.text), 987_654_321)
      assert.strictEqual(first.headers["x-cost-microdollars"], String(newsCost))
      const requests = [
        ["/v1/news", { headers: { "If-None-Match": first.headers["etag"] ?? "" } }, 304],
        ["/v1/news", { method: "HEAD" }, 200],
        ["/v1/news?limit=0", {}, 422],
        ["/v1/screener?limit=all&format=csv", {}, 200],
        ["/v1/account", {}, 200],
        ["/v1/research-reports", {}, 403],
      ] as const
      for (const [path, options, status] of requests) {
        assert.strictEqual((yield* Service.requestJson(path, { key, ...options })).status, status, path)
      }
      const rows = yield* retryUntil(
        sql<{ readonly text: string; readonly cost: number; readonly requests: number }>`
          select concat_ws(' ', endpoint, kind, price_per_gb_microdollars, requests) as text,
            cost_microdollars::int as cost, requests::int as requests
          from usage_daily_prices where account_id = ${account_id}
        `,
        (found) => found.reduce((sum, { requests }) => sum + requests, 0) === 1 + requests.length,
      )
      assert.sameMembers(rows.map(({ text }) => text), [
        "/v1/news charged 987654321 1",
        "/v1/news free 0 2",
        "/v1/news refused 0 1",
        "/v1/screener charged 123456789 1",
        "/v1/account free 0 1",
        "/v1/research-reports refused 0 1",
      ])
      assert.deepStrictEqual(rows.filter(({ cost, text }) => cost > 0 !== text.includes("charged")), [])
    }))

  it.effect("become invoices of all other accounts even if one account has a later invoice (D27)", () =>
    Effect.gen(function* () {
      const first = yield* createCustomerAt("closed first", "2026-05-01T00:00:00Z")
      const second = yield* createCustomerAt("closed second", "2026-05-01T00:00:00Z")
      yield* close("2026-06", first.name)
      const environment = { DATABASE_URL: yield* Service.databaseUrl }
      const { code, out } = yield* runCommandInProcess(["invoices", "close", "2026-05"], environment)
      assert.strictEqual(code, 0)
      assert.strictEqual(
        out,
        "Closed 2026-05: 1 new invoice. Accounts with only a later invoice, which get none for 2026-05: 1.\n",
      )
      const sql = yield* SqlClient.SqlClient
      const closed = yield* sql`select account_id::int, month from invoices order by month`
      assert.deepStrictEqual(closed, [
        { account_id: second.account_id, month: "2026-05" },
        { account_id: first.account_id, month: "2026-06" },
      ])
    }))
})
