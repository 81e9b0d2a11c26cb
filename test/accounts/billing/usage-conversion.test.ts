/** The job that packs the requests of earlier releases: D29 (usage), docs/operations/upgrades.md. */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Logger } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import * as Erasure from "../../../src/accounts/AccountErasure.ts"
import * as Conversion from "../../../src/accounts/billing/UsageConversion.ts"
import { dropUsagePartitionsBefore } from "../../../src/accounts/billing/UsagePartitions.ts"
import { makeUsageWriter } from "../../../src/accounts/billing/UsageWriter.ts"
import { isLockTimeout } from "../../../src/postgres/SqlState.ts"
import { createCustomer, makeUsageRecord, readAllPages, serviceWithSettings } from "../../support/CustomerUsage.ts"
import { beginTransaction, waitUntilBlocked } from "../../support/HeldTransactions.ts"
import { type Choices, makeRandomChooser, type RandomChooser } from "../../support/RandomChoices.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

const { convertUsageBatch } = Conversion
const convertUsage = Effect.provide(Conversion.convertUsage, Logger.layer([]))

/** Keeps the months of these tests, whatever the current date. */
const service = serviceWithSettings({ USAGE_RETENTION: "100000 days" })

const months = ["2025-01", "2025-02", "2025-03", "2025-04"] as const
const endpoints = ["/v1/news", "/v1/screener", "/v1/usage", "/mcp"] as const
const statuses = [200, 200, 200, 304, 304, 402, 403, 404, 409, 422, 499, 500, 503, 429] as const
const times = [
  "00:00:00",
  "00:00:04.999",
  "00:00:05",
  "12:30:00.001",
  "12:59:59.999",
  "13:00:00",
  "23:59:59.999",
] as const
const integers = [0, 1, 2, 255, 256, 65_535, 65_536, 16_777_216, 2_147_483_647] as const
const amounts = [...integers, 4_294_967_295, 4_294_967_296, 2 ** 48, Number.MAX_SAFE_INTEGER] as const
const characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

const chooseText = (choose: RandomChooser, lengths: Choices<number>) =>
  Array.from({ length: choose(lengths) }, () => choose<string>([".", ...characters])).join("")

const chooseId = (choose: RandomChooser) =>
  choose([
    SecureRandom.uuidV7Unsafe(),
    crypto.randomUUID(),
    crypto.randomUUID().toUpperCase(),
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "same",
    chooseText(choose, [1, 2, 22, 23, 24, 36, 127, 128]),
  ])

/** Makes a row of `usage` as an earlier release recorded it. */
const makeRow = (choose: RandomChooser, account_id: number, keys: Choices<number>) => {
  const status_code = choose(statuses)
  return {
    usage_id: SecureRandom.uuidV4Unsafe(),
    requested_at: `${choose(months)}-${choose(["01", "15", "28"])}T${choose(times)}Z`,
    account_id,
    key_id: choose(keys),
    request_id: chooseId(choose),
    endpoint: choose(endpoints),
    status_code,
    records_returned: choose(integers),
    bytes: choose(amounts),
    cost_microdollars: choose(amounts),
    duration_ms: choose(integers),
    cached: choose([true, false]),
    deprecated: choose([true, false]),
    via: choose([null, null, "mcp"]),
    request_count: status_code === 429 ? choose([1, 2, 1_000_000]) : 1,
  }
}

/** Inserts rows, as a process of the previous release does. They are not due to be packed. */
const insertUsage = Effect.fnUntraced(function* (rows: ReadonlyArray<ReturnType<typeof makeRow>>) {
  const sql = yield* SqlClient.SqlClient
  for (const month of months) yield* sql`select create_usage_partition(${`${month}-15T00:00:00Z`}::text::timestamptz)`
  yield* Service.insertRows("usage", ...rows)
})

/** Ends the hour for which requests are not packed. */
const makeDue = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`update unconverted_usage set due_at = now()`)

const makeRows = (choose: RandomChooser, count: number, account_id: number, keys: Choices<number>) =>
  Array.from({ length: count }, () => makeRow(choose, account_id, keys))

/** Requests for usage. None of them lists the requests of the test itself. */
const makeQuery = (choose: RandomChooser) => {
  const day = choose([...months, "2025-12"])
  const filters = [
    choose(["", "", `endpoint=${choose(endpoints)}`, "endpoint=/v1/news,/mcp"]),
    choose(["", "", `status_code=${choose(statuses)}`, "status_code=200,304,429"]),
    choose(["", "", `requested_at_from=${choose(["2025-01", ...months.filter((month) => month <= day)])}-15`]),
    `requested_at_to=${day}-${choose(["15", "28"])}`,
  ]
  return `/v1/usage?${filters.filter((filter) => filter !== "").join("&")}`
}

const readText = Effect.fnUntraced(function* (path: string, key: string) {
  const { status, text } = yield* Service.requestJson(path, { key })
  assert.strictEqual(status, 200, `${path} ${text}`)
  return text
})

const readList = Effect.fnUntraced(function* (choose: RandomChooser, path: string, key: string) {
  return yield* choose([
    Effect.map(readAllPages(path, key, choose([10, 17, 50])), (rows) => JSON.stringify(rows)),
    readText(`${path}&format=${choose(["csv", "ndjson"])}&limit=${choose([1, 7, 20])}&page=${choose([1, 2, 3])}`, key),
    readText(`${path}&format=${choose(["csv", "ndjson"])}&limit=all`, key),
  ])
})

/** Returns the same lists each time, as texts. */
const readLists = (seed: number, count: number, key: string) =>
  Effect.forEach(Array.from({ length: count }, (_, index) => seed * 1_000 + index), (listSeed) => {
    const choose = makeRandomChooser(listSeed)
    return readList(choose, makeQuery(choose), key)
  })

/** What packing must not change about the usage of the accounts. */
const readUsage = Effect.fnUntraced(function* (...ids: ReadonlyArray<number>) {
  const sql = yield* SqlClient.SqlClient
  const isOurs = sql`account_id = any(${ids.map(String)}::text[]::bigint[])`
  const requests = yield* sql<{ readonly request: string }>`
    select (to_jsonb(usage_requests) - array['moment', 'writer', 'sequence', 'part', 'place'])::text as request
    from usage_requests where ${isOurs} and requested_at < '2025-12-31' order by 1
  `
  const totals = yield* sql<{ readonly total: string }>`
    select usage_totals::text as total from usage_totals where ${isOurs} and usage_date < '2025-12-31' order by 1
  `
  const accounts = yield* sql<{ readonly account: string }>`
    select concat_ws(' ', account_id, current_balance(accounts), newest_charge(accounts)) as account from accounts
    where ${isOurs} order by 1
  `
  return [
    requests.map(({ request }) => request),
    totals.map(({ total }) => total),
    accounts.map(({ account }) => account),
  ]
})

const assertAllPacked = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  assert.lengthOf(yield* sql`select from usage where status_code <> 429`, 0)
  assert.lengthOf(yield* sql`select from unconverted_usage`, 0)
  const hours = sql`
    select distinct account_id, kind_id, date_trunc('hour', moment, 'UTC') from usage_batch_groups where writer = 0
    except select account_id, kind_id, hour from usage_kind_hours
  `
  assert.lengthOf(yield* hours, 0)
  assert.lengthOf(
    yield* sql`select writer, sequence, part, moment, account_id from usage_batches
    group by 1, 2, 3, 4, 5 having count(*) > 1`,
    0,
  )
})

const countUnpacked = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return (yield* sql`select from usage where status_code <> 429`).length
})

/** Blocks the last statement of a transaction that packs requests. */
const blockConversion = beginTransaction(
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql`lock table usage_kind_hours in exclusive mode`),
)

layer(service, { excludeTestServices: true, timeout: "120 seconds" })("Packing usage of earlier releases", (it) => {
  it.effect("changes no page, format, export, sum or balance, neither during it nor afterwards (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      for (let seed = 1; seed <= getInputCount(20); seed += 1) {
        const choose = makeRandomChooser(seed)
        const customer = yield* createCustomer(`pages ${seed}`, { tier: "ultimate", balance: 1_000_000_000 })
        const neighbor = yield* createCustomer(`pages neighbor ${seed}`)
        const keys: Choices<number> = [customer.key_id, customer.key_id, neighbor.key_id, 999_999]
        yield* insertUsage([
          ...makeRows(choose, choose([1, 60, 150]), customer.account_id, keys),
          ...makeRows(choose, 20, neighbor.account_id, [neighbor.key_id]),
        ])
        // An erased account has neither keys nor ids.
        const erased = 1_000_000 + seed
        yield* insertUsage(
          makeRows(choose, 20, erased, [0]).map((row) => ({ ...row, request_id: "" })),
        )
        yield* sql`
          insert into usage_daily select account_id, requested_at::date, endpoint, sum(request_count), 0, sum(bytes / 1000), 0
          from usage group by 1, 2, 3 on conflict do nothing
        `
        // Requests that this release has recorded, some at the same times.
        const { makeBatch, write } = yield* makeUsageWriter
        yield* write(makeBatch(
          makeRows(choose, 20, customer.account_id, keys).map((row) =>
            makeUsageRecord({
              account_id: row.account_id,
              key_id: row.key_id,
              request_id: row.request_id,
              endpoint: row.endpoint,
              requested_at: Date.parse(row.requested_at),
            })
          ),
        ))
        const lists = yield* readLists(seed, 6, customer.key)
        const read = readUsage(customer.account_id, neighbor.account_id, erased)
        const usage = yield* read
        assert.strictEqual(yield* convertUsageBatch(10), 0, "not due")
        yield* makeDue
        while ((yield* countUnpacked) > 0) {
          yield* convertUsageBatch(choose([1, 20, 50, 100]))
          assert.deepStrictEqual(yield* readLists(seed, 2, customer.key), lists.slice(0, 2), `seed ${seed}`)
        }
        yield* convertUsage
        assert.deepStrictEqual(yield* readLists(seed, 6, customer.key), lists, `seed ${seed}`)
        assert.deepStrictEqual(yield* read, usage, `seed ${seed}`)
        yield* assertAllPacked
      }
    }))

  it.effect("keeps the order of requests that a process of the previous release records at the same time (D29)", () =>
    Effect.gen(function* () {
      const { account_id, key, key_id } = yield* createCustomer("late")
      const choose = makeRandomChooser(1)
      const path = "/v1/usage?requested_at_to=2025-12-31&limit=100"
      const insert = Effect.forEach(
        [1, 2, 3, 4],
        () =>
          insertUsage(
            makeRows(choose, 3, account_id, [key_id]).map((row) => ({
              ...row,
              requested_at: "2025-02-01T12:00:00.001Z",
              status_code: 200,
              request_count: 1,
            })),
          ),
      )
      yield* insert
      yield* Effect.andThen(makeDue, convertUsage)
      yield* insert
      const text = yield* readText(path, key)
      yield* convertUsage
      assert.strictEqual(yield* countUnpacked, 12, "not due")
      yield* Effect.andThen(makeDue, convertUsage)
      assert.strictEqual(yield* readText(path, key), text)
      yield* assertAllPacked
    }))

  it.effect("packs each request once if its connection ends, or if two processes do it (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, key_id } = yield* createCustomer("killed")
      yield* insertUsage(makeRows(makeRandomChooser(2), 300, account_id, [key_id]))
      const read = readUsage(account_id)
      const usage = yield* read
      yield* makeDue
      const held = yield* blockConversion
      const converting = yield* Effect.forkChild(Effect.exit(convertUsageBatch(100)))
      yield* waitUntilBlocked
      yield* sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0
      `
      assert.strictEqual((yield* Fiber.join(converting))._tag, "Failure")
      // The pool may still have the connection.
      assert.deepStrictEqual(yield* Effect.retry(read, { times: 5 }), usage)
      const interrupted = yield* Effect.forkChild(convertUsageBatch(100))
      yield* waitUntilBlocked
      yield* Effect.all([Fiber.interrupt(interrupted), held.commit], { concurrency: "unbounded" })
      assert.deepStrictEqual(yield* read, usage)
      const steps = Effect.whileLoop({
        while: () => true,
        body: () =>
          Effect.flatMap(convertUsageBatch(7), (rows) => rows === 0 ? Effect.fail("done" as const) : Effect.void),
        step: () => {},
      })
      const both = yield* Effect.all([Effect.flip(steps), Effect.flip(steps)], { concurrency: "unbounded" })
      assert.deepStrictEqual(both, ["done", "done"])
      yield* convertUsage
      assert.deepStrictEqual(yield* read, usage)
      yield* assertAllPacked
    }))

  it.effect("loses no request if the database has lost the writer of packed requests (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, key_id } = yield* createCustomer("writer")
      yield* insertUsage(makeRows(makeRandomChooser(4), 20, account_id, [key_id]))
      const usage = yield* readUsage(account_id)
      yield* makeDue
      yield* sql`delete from usage_writers where writer = 0`
      assert.strictEqual((yield* Effect.flip(convertUsageBatch(10)))._tag, "NotPacked")
      assert.deepStrictEqual(yield* readUsage(account_id), usage)
      yield* sql`insert into usage_writers (writer, id_suffix) overriding system value values (0, '')`
      yield* convertUsage
      assert.deepStrictEqual(yield* readUsage(account_id), usage)
      yield* assertAllPacked
    }))

  it.effect("leaves no trace of an account that is erased at the same time (operations/erasure)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      for (let seed = 1; seed <= getInputCount(20); seed += 1) {
        const choose = makeRandomChooser(seed)
        const { account_id, key_id } = yield* createCustomer(`erased ${seed}`)
        yield* insertUsage(makeRows(choose, 100, account_id, [key_id]))
        yield* makeDue
        if (choose([true, false])) yield* convertUsageBatch(choose([10, 50]))
        const held = yield* blockConversion
        const converting = yield* Effect.forkChild(convertUsageBatch(choose([10, 50])))
        yield* waitUntilBlocked
        yield* Erasure.eraseAccount(`erased ${seed}`)
        const max = choose([1, 10, 1_000])
        const eraseSome = sql<{ readonly rows: string | null }>`
          select continue_erasure(${account_id}::float8::bigint, ${max}::int)::text as rows
        `
        const erasing = yield* Effect.forkChild(eraseSome)
        yield* Effect.all([held.commit, Fiber.join(converting), Fiber.join(erasing)], { concurrency: "unbounded" })
        const erase = Effect.repeat(eraseSome, { until: ([state]) => state?.rows === null })
        yield* Effect.all([erase, Effect.repeat(convertUsageBatch(choose([5, 30])), { until: (rows) => rows === 0 })], {
          concurrency: "unbounded",
        })
        yield* convertUsage
        const found = yield* sql`
          select from usage_requests where account_id = ${account_id} and (key_id <> 0 or request_id <> '')
        `
        assert.lengthOf(found, 0, `seed ${seed}`)
        yield* assertAllPacked
      }
    }))

  it.effect("changes nothing in the months that remain if others are dropped at the same time (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, key, key_id } = yield* createCustomer("dropped")
      yield* insertUsage(makeRows(makeRandomChooser(3), 200, account_id, [key_id]))
      const path = "/v1/usage?requested_at_from=2025-03-02&requested_at_to=2025-12-31&limit=100"
      const text = yield* readText(path, key)
      yield* makeDue
      const held = yield* blockConversion
      const converting = yield* Effect.forkChild(convertUsageBatch(10))
      yield* waitUntilBlocked
      const drop = dropUsagePartitionsBefore(sql`timestamptz '2025-03-01T00:00:00Z'`)
      assert.isTrue(isLockTimeout(yield* Effect.flip(drop)), "waits for the transaction, but not for long")
      yield* Effect.andThen(held.commit, Fiber.join(converting))
      const [dropped] = yield* Effect.all([
        Effect.retry(drop, { while: isLockTimeout }),
        Effect.repeat(convertUsageBatch(10), { until: (rows) => rows === 0 }),
      ], { concurrency: "unbounded" })
      assert.includeMembers(dropped, ["usage_2025_01", "usage_2025_02"])
      yield* convertUsage
      assert.strictEqual(yield* readText(path, key), text)
      assert.lengthOf(yield* sql`select from usage_requests where requested_at < '2025-03-01'`, 0)
      yield* assertAllPacked
    }))
})
