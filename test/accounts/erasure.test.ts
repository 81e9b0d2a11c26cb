/**
 * Tests account erasure: which data is erased, which is kept, and what happens to concurrent requests
 * (docs/operations/erasure.md).
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import * as Erasure from "../../src/accounts/AccountErasure.ts"
import * as Accounts from "../../src/accounts/Accounts.ts"
import { createApiKey } from "../../src/accounts/keys/ApiKeyManagement.ts"
import { settleUsage } from "../../src/accounts/billing/UsageSettlement.ts"
import { makeThrottledRequestCountWriter } from "../../src/accounts/billing/UsageWriter.ts"
import { queueNotice } from "../../src/outbox/mail/Notices.ts"
import { createWebhookEndpoint, enableWebhookEndpoint } from "../../src/outbox/webhooks/WebhookEndpoints.ts"
import { createCustomer, makeRecordWriter, makeUsageRecord } from "../support/CustomerUsage.ts"
import { beginTransaction } from "../support/HeldTransactions.ts"
import { runCommandInProcess } from "../support/InProcessCommands.ts"
import * as Service from "../support/Service.ts"

/** Every value that could identify a customer in these tests contains this text. */
const trace = "zyxw"

/**
 * The tables with a column that may refer to a customer or identify one. An erasure deletes the account's rows, or
 * clears or replaces some columns. The columns listed as `kept` say nothing about a person once the account is erased.
 * A migration that changes any of these tables must also replace `erase_account` or `continue_erasure`, and update
 * docs/operations/erasure.md.
 */
const knownTables: Readonly<Record<string, "deleted" | "about others" | Readonly<Record<"erased" | "kept", string>>>> =
  {
    account_erasures: { erased: "", kept: "account_id batches_until erased_at finished_at usage_until" },
    accounts: {
      erased: "contact_email name news",
      kept: "account_id balance_microdollars budget_microdollars budget_month budget_spent_microdollars budget_stops " +
        "created_at last_charged_at tier",
    },
    // The kept columns identify only the administrator. The digests are removed after a day.
    admin_requests: { erased: "body", kept: "admin headers key_hash request_hash requested_at status" },
    admin_tokens: "about others",
    announcement_mails: {
      erased: "last_error recipient",
      kept: "attempts claimed_by entry_id mail_id next_attempt_at queued_at sent_at status",
    },
    announcements: "deleted",
    api_keys: "deleted",
    audit: {
      erased: "after before subject",
      kept: "account_id actor audit_id change database_role operation origin recorded_at subject_type transaction via",
    },
    balance_reservations: "deleted",
    budget_alerts: {
      erased: "",
      kept: "account_id budget_microdollars month percent recorded_at spent_microdollars stops",
    },
    credits: { erased: "reference", kept: "account_id amount_microdollars created_at credit_id" },
    invoice_lines: {
      erased: "",
      kept: "account_id bytes cost_microdollars endpoint kind line month price_per_gb_microdollars requests usage_date",
    },
    invoices: {
      erased: "",
      kept: "account_id bytes closed_at cost_microdollars digest lines month requests usage_from",
    },
    rate_limit_buckets: { erased: "", kept: "account_id granted refilled_at used" },
    usage: {
      erased: "key_id request_id",
      kept:
        "account_id bytes cached cost_microdollars deprecated duration_ms endpoint records_returned request_count " +
        "requested_at status_code usage_id via",
    },
    unsettled_usage: { erased: "", kept: "account_ids first_at last_at sequence writer" },
    usage_batches: {
      erased: "group_keys id_numbers own_ids",
      kept: "account_id ages bytes costs durations group_bytes group_costs group_kinds group_requests groups moment " +
        "part records requests sequence span_ms writer",
    },
    usage_kind_hours: { erased: "", kept: "account_id hour kind_id" },
    usage_daily: { erased: "", kept: "account_id bytes cost_microdollars endpoint errors requests usage_date" },
    usage_daily_prices: {
      erased: "",
      kept: "account_id bytes cost_microdollars endpoint kind price_per_gb_microdollars requests usage_date",
    },
    webhook_endpoints: "deleted",
    webhook_messages: "deleted",
  }

/** Lists the columns of every table with at least one column whose name suggests an account or personal data. */
const readTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly table: string; readonly columns: string }>`
    select attrelid::regclass::text as table, string_agg(attname, ' ' order by attname collate "C") as columns
    from pg_attribute join pg_class on pg_class.oid = attrelid join pg_namespace on pg_namespace.oid = relnamespace
    where relkind in ('r', 'p') and not relispartition and attnum > 0 and not attisdropped
      and nspname not like 'pg\\_%' and nspname <> 'information_schema'
    group by attrelid
    having bool_or(attname ~ '^(account|key_id|endpoint_id|admin)|email|recipient|address|network|customer|user|secret|hint')
    order by 1
  `
  return Object.fromEntries(rows.map(({ columns, table }) => [table, columns]))
})

/** Reads the account's daily sums, request count, cost, credits and balance. */
const readSums = Effect.fnUntraced(function* (account_id: number) {
  const sql = yield* SqlClient.SqlClient
  const daily = yield* sql<{ readonly sums: string }>`
    select usage_totals::text as sums from usage_totals where account_id = ${account_id} order by usage_date, endpoint
  `
  const [totals] = yield* sql`
    select (select count(*) from usage_requests where account_id = ${account_id})::int as rows,
      (select sum(request_count) from usage_requests where account_id = ${account_id})::int as requests,
      (select sum(cost_microdollars) from usage_requests where account_id = ${account_id})::text as cost,
      (select sum(amount_microdollars) from credits where account_id = ${account_id})::text as credits,
      (select current_balance(accounts) from accounts where account_id = ${account_id})::text as balance
  `
  return { daily, totals }
})

/** Returns the tables that contain the text in any row. */
const findText = Effect.fnUntraced(function* (text: string) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* Effect.forEach(Object.keys(knownTables), (table) =>
    Effect.map(
      sql.unsafe(`select '${table}' as name from ${table} where strpos(${table}::text, $1) > 0 limit 1`, [text]),
      (rows) => rows.length === 0 ? [] : [table],
    ))
  return found.flat()
})

/** Returns the distinct pairs of key id and request id in an account's usage. */
const readUsageIds = Effect.fnUntraced(function* (account_id: number) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly key_id: number; readonly request_id: string }>`
    select distinct key_id::int as key_id, request_id from usage_requests where account_id = ${account_id} order by 1, 2
  `
  return rows.map(({ key_id, request_id }) => `${key_id} ${request_id}`)
})

/** The result of `readUsageIds` after an erasure: key id 0 and an empty request id. */
const anonymous = ["0 "]

/** Records requests in one batch. */
const writeUsage = Effect.fnUntraced(function* (...records: ReadonlyArray<Parameters<typeof makeUsageRecord>[0]>) {
  const { makeBatch, write } = yield* makeRecordWriter
  yield* write(makeBatch(records.map(makeUsageRecord)))
})

/** Runs a `tickerline` command. */
const run = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
  return yield* runCommandInProcess(args, { DATABASE_URL: yield* Service.databaseUrl })
})

/** Completes the deferred work of an erasure. */
const finish = Effect.fnUntraced(function* (account_id: number) {
  yield* Erasure.finishErasure(account_id)
  assert.notInclude((yield* Erasure.listUnfinishedErasures).map((found) => found.account_id), account_id)
})

const accountPath = "/v1/account"

layer(Service.layer, { excludeTestServices: true, timeout: "120 seconds" })("An erasure", (it) => {
  it.effect("covers every table that may identify a customer (operations/erasure)", () =>
    Effect.gen(function* () {
      const known = yield* readTables
      assert.deepStrictEqual(Object.keys(known), Object.keys(knownTables).toSorted())
      for (const [table, columns] of Object.entries(known)) {
        const { [table]: use } = knownTables
        if (typeof use === "string" || use === undefined) continue
        assert.strictEqual(`${use.erased} ${use.kept}`.trim().split(" ").toSorted().join(" "), columns, table)
      }
    }))

  it.effect("leaves no trace of the customer, but keeps all sums (operations/erasure)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, key, key_id } = yield* createCustomer(`${trace} Inc`, {
        balance: 1_000,
        name: `${trace} key`,
        networks: ["198.51.100.0/24"],
      })
      const neighbor = yield* createCustomer("neighbor", { balance: 1_000 })
      const address = `ops@${trace}.example`
      yield* Accounts.updateAccount(`${trace} Inc`, { contact_email: `old@${trace}.example`, news: true })
      yield* sql`insert into announcements (entry_id, subject, text, html, operational) values ('e', 's', 't', 'h', true)`
      yield* sql`
        insert into announcement_mails (entry_id, recipient, status, last_error) values
          ('e', ${`OLD@${trace}.example`}, 'sent', null), ('e', ${address}, 'sent', ${address}),
          ('e', 'neighbor@else.example', 'queued', null)
      `
      yield* Accounts.updateAccount(`${trace} Inc`, { contact_email: address })
      yield* Accounts.creditAccount({
        name: `${trace} Inc`,
        microdollars: 500n,
        reference: `invoice ${trace}`,
        mayBecomePrepaid: false,
      })
      yield* createWebhookEndpoint({
        account: `${trace} Inc`,
        url: `https://${trace}.example/hook`,
        events: null,
        datasets: null,
        tickers: null,
      })
      yield* sql`
        select enqueue_key_event('key.created', key, null, generate_series::text)
        from api_keys as key, generate_series(1, 3) where key_id = ${key_id}
      `
      const notice = { id: `test:${trace}`, account_id: BigInt(account_id), subject: trace, paragraphs: [trace] }
      assert.isTrue(yield* queueNotice(notice))
      yield* sql`insert into balance_reservations values (gen_random_uuid(), ${account_id}, 5, now() + interval '1 hour')`
      yield* sql`
        insert into admin_requests (admin, key_hash, request_hash, body) values
          ('1', '1', '1', ${JSON.stringify({ account_id, name: `${trace} Inc`, tier: "basic" })}), ('1', '2', '2', null)
      `
      const usage = { request_id: trace, cost_microdollars: 7 }
      yield* writeUsage(
        ...[1, 2, 3].map((day) => ({
          ...usage,
          account_id,
          key_id,
          requested_at: Date.parse(`2026-0${day}-01T12:00:00Z`),
        })),
        { ...usage, account_id: neighbor.account_id, key_id: neighbor.key_id, request_id: "neighbor" },
      )
      const sums = yield* readSums(account_id)
      assert.includeMembers(yield* findText(trace), [
        "accounts",
        "admin_requests",
        "announcement_mails",
        "announcements",
        "api_keys",
        "audit",
        "credits",
        "usage_batches",
        "webhook_endpoints",
        "webhook_messages",
      ])

      const preview = yield* run("accounts", "erase", `${trace} Inc`)
      assert.strictEqual(preview.code, 1)
      assert.match(preview.err, /Nothing was changed.*--yes/)
      assert.deepInclude(yield* Erasure.readErasureState(`${trace} Inc`), {
        erased_at: null,
        keys: 1,
        webhooks: 1,
        webhook_messages: 3,
        emails: 3,
        credit_references: 1,
        usage_rows: 3,
      })

      const erased = yield* run("accounts", "erase", `${trace} Inc`, "--yes")
      assert.strictEqual(erased.code, 0, erased.err)
      assert.strictEqual(
        erased.out.trim().split("\n").at(-1),
        `The account is erased. Its name is erased-${account_id}.`,
      )
      for (const text of [trace, trace.toUpperCase(), key.slice(0, 12), "198.51.100"]) {
        assert.deepStrictEqual(yield* findText(text), [], text)
      }
      assert.deepStrictEqual(yield* readSums(account_id), sums)
      assert.deepStrictEqual(yield* readUsageIds(account_id), anonymous)
      assert.deepStrictEqual(yield* readUsageIds(neighbor.account_id), [`${neighbor.key_id} neighbor`])
      assert.deepStrictEqual(
        yield* sql`select recipient, status from announcement_mails where recipient not like 'erased-%'`,
        [{ recipient: "neighbor@else.example", status: "queued" }],
      )
      const audit = yield* sql<{ readonly line: string }>`
        select concat_ws(' ', subject_type, subject, change, before, after) as line from audit
        where account_id = ${account_id} order by audit_id
      `
      const lines = audit.map(({ line }) => line)
      assert.include(lines, `account erased-${account_id} changed {"contact_email": null} {"contact_email": "erased"}`)
      assert.isTrue(
        lines.some((line) => /^account erased-\d+ changed \{"erased": \{.*"keys": 1/.test(line)),
        lines.join("\n"),
      )
      const again = yield* run("accounts", "erase", `erased-${account_id}`, "--yes")
      assert.match(again.out, /was erased at/)
    }))

  it.effect("finds a former address in notices even if the audit log no longer has it (operations/erasure)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id } = yield* createCustomer("forgotten")
      yield* Accounts.updateAccount("forgotten", { contact_email: "Old@forgotten.example" })
      const notice = { id: "test:former", account_id: BigInt(account_id), subject: "s", paragraphs: ["p"] }
      assert.isTrue(yield* queueNotice(notice))
      yield* sql`insert into announcements (entry_id, subject, text, html, operational) values ('f', 's', 't', 'h', true)`
      yield* sql`insert into announcement_mails (entry_id, recipient, status) values ('f', 'old@forgotten.example', 'sent')`
      yield* Accounts.updateAccount("forgotten", { contact_email: "new@forgotten.example" })
      yield* sql`delete from audit where account_id = ${account_id}`
      assert.deepInclude(yield* Erasure.readErasureState("forgotten"), { emails: 2 })
      yield* Erasure.eraseAccount("forgotten")
      yield* finish(account_id)
      assert.deepStrictEqual(yield* findText("forgotten"), [])
    }))

  it.effect("never gives the name of an erased account to another one (operations/erasure)", () =>
    Effect.gen(function* () {
      for (
        const args of [["accounts", "create", "erased-99", "--tier", "pro"], [
          "keys",
          "create",
          "--account",
          "erased-99",
          "--tier",
          "pro",
        ]]
      ) {
        assert.notStrictEqual((yield* run(...args)).code, 0, args.join(" "))
      }
      const sql = yield* SqlClient.SqlClient
      assert.lengthOf(yield* sql`select from accounts where name = 'erased-99'`, 0)
    }))

  it.effect("ends keys within a second, and gives the account no new keys, credits or names (D2, operations/erasure)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, key } = yield* createCustomer("cached")
      yield* Service.waitForResponseStatus(accountPath, key, 200)
      const { endpoint_id } = yield* createWebhookEndpoint({
        account: "cached",
        url: "https://hook.example/",
        events: null,
        datasets: null,
        tickers: null,
      })
      const name = yield* Erasure.eraseAccount("cached")
      yield* Service.waitForResponseStatus(accountPath, key, 401)
      const limits = { name: "k", expires: null, endpoints: null, networks: null }
      const errors = [
        yield* Effect.flip(createApiKey({ account: name, ...limits })),
        yield* Effect.flip(Accounts.updateAccount(name, { contact_email: "again@cached.example" })),
        yield* Effect.flip(
          Accounts.creditAccount({ name, microdollars: 1n, reference: null, mayBecomePrepaid: true }),
        ),
        yield* Effect.flip(Accounts.ensureAccountForKey(name, "basic", null)),
        yield* Effect.flip(enableWebhookEndpoint(Number(endpoint_id))),
      ]
      assert.deepStrictEqual(errors.map(({ _tag }) => _tag), [...Array(4).fill("AccountErased"), "NoSuchEndpoint"])
      const notice = { id: "test:late", account_id: BigInt(account_id), subject: "s", paragraphs: ["p"] }
      assert.isFalse(yield* queueNotice(notice))
      yield* finish(account_id)
      assert.lengthOf(yield* sql`select from api_keys where account_id = ${account_id}`, 0)
    }))

  it.effect("records requests in flight with their cost, anonymously (D29, operations/erasure)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, key_id } = yield* createCustomer("in flight", { balance: 100 })
      const record = { account_id, key_id, request_id: "late", cost_microdollars: 7 }
      const throttled = {
        id: "00000000-0000-4000-8000-000000000001",
        row: makeUsageRecord({ ...record, status_code: 429 }),
      }
      const writeCounts = yield* makeThrottledRequestCountWriter
      const [none, one, two] = [0, 1, 2].map((requests) => ({ requests, bytes: 0 }))
      assert.isDefined(none)
      assert.isDefined(one)
      assert.isDefined(two)
      yield* writeCounts([{ ...throttled, countsBefore: none, countsAfter: one }])

      const { commit } = yield* beginTransaction(Erasure.eraseAccount("in flight"))
      // The writer does not wait for the erasure and cannot see it.
      yield* writeUsage(record)
      const creating = yield* Effect.forkChild(
        Effect.flip(createApiKey({ account: "in flight", name: "k", expires: null, endpoints: null, networks: null })),
      )
      yield* Effect.repeat(
        sql`select from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0`,
        { until: (rows) => rows.length === 1 },
      )
      yield* commit
      assert.strictEqual((yield* Fiber.join(creating))._tag, "AccountErased")
      yield* writeUsage(record, record)
      yield* writeCounts([{ ...throttled, countsBefore: one, countsAfter: two }])
      yield* finish(account_id)
      yield* writeUsage(record)
      yield* settleUsage
      assert.deepStrictEqual(yield* readUsageIds(account_id), anonymous)
      const { daily, totals } = yield* readSums(account_id)
      // The account made four requests at 7 microdollars each and two throttled ones, which are free. Its initial
      // balance was 100.
      assert.deepInclude(totals, { requests: 6, cost: "28", balance: "72" })
      assert.lengthOf(daily, 1)
      assert.lengthOf(yield* sql`select from api_keys where account_id = ${account_id}`, 0)
    }))

  it.effect("continues where it was interrupted, by the job or the command, and doctor reports it (operations/erasure)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [byCommand, byJob] = [yield* createCustomer("by command"), yield* createCustomer("by job")]
      for (const { account_id, key_id } of [byCommand, byJob]) {
        yield* writeUsage(...[1, 2, 3, 4, 5].map((second) => ({
          account_id,
          key_id,
          requested_at: Date.parse(`2026-06-01T12:00:${second}0Z`),
        })))
      }
      /** Returns how many rows still contain a key or a request id, and whether the erasure is complete. */
      const readProgress = Effect.fnUntraced(function* (name: string) {
        const { finished_at, usage_rows } = yield* Erasure.readErasureState(name)
        return [usage_rows, finished_at !== null]
      })
      const name = yield* Erasure.eraseAccount("by command")
      yield* sql`select continue_erasure(${byCommand.account_id}, 2)`
      assert.deepStrictEqual(yield* readProgress(name), [3, false])
      assert.lengthOf(yield* readUsageIds(byCommand.account_id), 2)
      assert.include((yield* run("doctor")).out, `unfinished: ${name} since`)
      assert.strictEqual((yield* run("accounts", "erase", name, "--yes")).code, 0)
      assert.deepStrictEqual(yield* readProgress(name), [0, true])
      assert.deepStrictEqual(yield* readUsageIds(byCommand.account_id), anonymous)

      const other = yield* Erasure.eraseAccount("by job")
      const job = yield* Erasure.erasureJob.prepare()
      assert.isTrue(job._tag === "Some")
      if (job._tag === "Some") yield* job.value
      assert.deepStrictEqual(yield* readProgress(other), [0, true])
      assert.deepStrictEqual(yield* readUsageIds(byJob.account_id), anonymous)
    }))
})
