/** Tests the search for recorded requests by request id: D12 (request id), D29 (usage). */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Clock, Duration, Effect, Layer, Result } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { eraseAccount, finishErasure } from "../../../src/accounts/AccountErasure.ts"
import * as Search from "../../../src/accounts/billing/UsageSearch.ts"
import { settleUsage } from "../../../src/accounts/billing/UsageSettlement.ts"
import type { UsageRecord } from "../../../src/accounts/billing/UsageRecord.ts"
import { getDateInNewYork } from "../../../src/contract/rules/Dates.ts"
import { makeRequestId } from "../../../src/contract/rules/RequestIds.ts"
import { createCustomer, insertUsageRow, makeRecordWriter, makeUsageRecord } from "../../support/CustomerUsage.ts"
import { beginTransaction } from "../../support/HeldTransactions.ts"
import { makeRandomChooser } from "../../support/RandomChoices.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

const dayMillis = 86_400_000

/** Five seconds before midnight in New York. */
const start = Date.parse("2026-06-01T03:59:55.000Z")

/** Creates an account with a key. Returns the ids of the account and the key. */
const createSender = (name: string) =>
  Effect.map(createCustomer(name), ({ account_id, key_id }) => ({ account_id, key_id }))

/** Records requests in one batch. */
const writeRecords = Effect.fnUntraced(function* (rows: ReadonlyArray<UsageRecord>) {
  const { makeBatch, write } = yield* makeRecordWriter
  yield* write(makeBatch(rows))
})

const madeIds = new Set<string>()

/** Returns a unique request id in the service's format, even if the test's time goes backwards. */
const makeNewId = (now: number): string => {
  const id = makeRequestId(now)
  if (madeIds.has(id)) return makeNewId(now)
  madeIds.add(id)
  return id
}

/** Searches for requests with an id. */
const find = (id: string, search: Partial<Search.UsageSearch> = {}) => Search.findRequests({ id, ...search })

/** Returns the error of a search that is expected to fail. */
const findError = Effect.fnUntraced(function* (id: string, search: Partial<Search.UsageSearch> = {}) {
  const found = yield* Effect.result(find(id, search))
  return Result.isFailure(found)
    ? { tag: found.failure._tag, message: found.failure.message }
    : assert.fail(JSON.stringify(found.success))
})

/** Returns the fields shared by recorded requests and search results. */
const pickFields = ({ account_id, bytes, cost_microdollars, endpoint, key_id, request_id, status_code }:
  | UsageRecord
  | Search.FoundRequest) => ({ account_id, bytes, cost_microdollars, endpoint, key_id, request_id, status_code })

/** Compares requests in any order, because several may have the same time. */
const assertSameRequests = (
  found: ReadonlyArray<Search.FoundRequest>,
  expected: ReadonlyArray<UsageRecord>,
  message: string,
) => {
  const toTexts = (requests: ReadonlyArray<Search.FoundRequest | UsageRecord>) =>
    requests.map((request) => JSON.stringify(pickFields(request))).toSorted()
  assert.deepStrictEqual(toTexts(found), toTexts(expected), message)
}

const TestLayer = Layer.provideMerge(Service.migratedDatabaseLayer, Layer.merge(NodeServices.layer, NodeCrypto.layer))

layer(TestLayer, { excludeTestServices: true, timeout: "120 seconds" })("usage search", (it) => {
  it.effect("finds every recorded request by its id (D12, D29)", () =>
    Effect.gen(function* () {
      const customers = [yield* createSender("search one"), yield* createSender("search two")] as const
      const nameOf = new Map([[customers[0].account_id, "search one"], [customers[1].account_id, "search two"]])
      const choose = makeRandomChooser(7)
      const clientIds = ["a", "ab", "a.b", "b-", "order_1", SecureRandom.uuidV7Unsafe(), "x".repeat(128)] as const
      for (let round = 0; round < getInputCount(10); round++) {
        const records = Array.from({ length: 60 }, () => {
          const requested_at = start + round * 2 * dayMillis + choose([0, 1, 4_999, 5_000, 7_123, 9_999, 12_000])
          const { account_id, key_id } = choose(customers)
          return makeUsageRecord({
            account_id,
            key_id,
            requested_at,
            request_id: choose([true, false]) ? choose(clientIds) : makeNewId(requested_at),
            bytes: choose([0, 1, 300, 5_000_000_000]),
            endpoint: choose(["/v1/news", "/v1/screener"]),
          })
        })
        // An id that a client created in the service's format contains the time, but not a writer's suffix.
        const requested_at = start + round * 2 * dayMillis + 77
        const request_id = `${makeNewId(requested_at).slice(0, 30)}abcdef`
        const all = [...records, makeUsageRecord({ ...choose(customers), requested_at, request_id })]
        yield* writeRecords(all)
        for (const { account_id, request_id, requested_at } of all) {
          const account = nameOf.get(account_id)
          const day = getDateInNewYork(requested_at)
          const sameId = all.filter((other) =>
            other.account_id === account_id && other.request_id === request_id &&
            getDateInNewYork(other.requested_at) === day
          )
          const found = yield* find(request_id, { account, from: day, to: day })
          assertSameRequests(found.requests, sameId, `round ${round}: ${request_id}`)
          if (clientIds.includes(request_id)) continue
          // The time inside the id is enough to find the request.
          assert.deepStrictEqual(yield* find(request_id), found)
          assert.deepStrictEqual(yield* find(request_id, { account }), found)
          assert.strictEqual(Date.parse(found.requests[0]?.requested_at ?? ""), requested_at)
          assert.strictEqual(found.requests[0]?.usage_day, day)
        }
      }
    }))

  it.effect("finds a request among those of many accounts that are written at once (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const accounts = yield* sql<{ readonly account_id: string }>`
        insert into accounts (name, tier) select 'many ' || number, 'basic' from generate_series(1, 250) as number
        returning account_id::text
      `
      const records = accounts.flatMap(({ account_id }) =>
        [0, 3].map((age) => {
          const requested_at = start + age
          return makeUsageRecord({
            account_id: Number(account_id),
            requested_at,
            request_id: makeNewId(requested_at),
          })
        })
      )
      yield* writeRecords(records)
      for (const record of records.slice(0, 6)) {
        assertSameRequests((yield* find(record.request_id)).requests, [record], record.request_id)
      }
    }))

  it.effect("says to whom and when a request was charged (D27, D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const customer = yield* createSender("settled")
      const record = makeUsageRecord({ ...customer, requested_at: start, request_id: makeNewId(start) })
      yield* writeRecords([record])
      const readFound = Effect.map(find(record.request_id), ({ requests: [request] }) => request)
      assert.deepInclude(yield* readFound, {
        account: "settled",
        key_name: "test",
        key_status: "active",
        price_per_gb_microdollars: record.price_per_gb_microdollars,
        is_settled: false,
      })
      yield* settleUsage
      yield* sql`update api_keys set revoked_at = now() where key_id = ${customer.key_id}`
      assert.deepInclude(yield* readFound, { key_status: "revoked", is_settled: true })
    }))

  it.effect("shows the newest requests if a client repeats an id, including rows that count 429 responses (D29)", () =>
    Effect.gen(function* () {
      const customer = yield* createSender("repeats")
      const records = Array.from(
        { length: 500 },
        (_, index) =>
          makeUsageRecord({ ...customer, requested_at: start + index * 40, request_id: "retry", bytes: index }),
      )
      yield* writeRecords(records)
      const shown = 20
      const { requests } = yield* find("retry", { account: "repeats" })
      assert.deepStrictEqual(
        requests.map(({ bytes }) => bytes),
        records.slice(-shown).map(({ bytes }) => bytes).toReversed(),
      )
      const request_id = makeNewId(start)
      yield* insertUsageRow(
        makeUsageRecord({ ...customer, requested_at: start, request_id, status_code: 429, cost_microdollars: 0 }),
        31,
      )
      const { requests: [counted] } = yield* find(request_id)
      assert.deepInclude(counted, { request_count: 31, status_code: 429, is_settled: true })
    }))

  it.effect("says why it finds nothing, and what to do (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const customer = yield* createSender("mistakes")
      yield* createSender("innocent")
      const id = makeNewId(start)
      yield* writeRecords([
        makeUsageRecord({ ...customer, requested_at: start, request_id: id }),
        makeUsageRecord({ ...customer, requested_at: start, request_id: "mine" }),
      ])
      const now = yield* Clock.currentTimeMillis
      const unknown = makeNewId(start + 3_600_000)
      const assertFails = Effect.fnUntraced(
        function* (tag: string, message: RegExp, ...search: Parameters<typeof findError>) {
          const error = yield* findError(...search)
          assert.strictEqual(error.tag, tag, error.message)
          assert.match(error.message, message)
        },
      )
      yield* assertFails("RequestNotFound", /^There is no request .*2026-06-01T04:59:55.000Z.*429.*--account/, unknown)
      yield* assertFails("AccountRequired", /is shortened. .*36 characters.*--account NAME/, id.slice(0, 23))
      yield* assertFails("AccountRequired", /--account NAME/, "mine")
      yield* assertFails("AccountRequired", /--account NAME/, "ffffffff-ffff-7000-8000-000000000000")
      yield* assertFails("RequestNotFound", /There is no request/, makeNewId(Date.parse("9999-12-31T23:59:59.999Z")))
      yield* assertFails("AccountRequired", /To search days, add --account/, id, { from: "2026-06-01" })
      yield* assertFails("RequestNotFound", /is not of the account innocent, but of mistakes/, id, {
        account: "innocent",
      })
      yield* assertFails("RequestNotFound", /innocent has no request mine to 2026-06-02/, "mine", {
        account: "innocent",
        to: "2026-06-02",
      })
      yield* assertFails("NoSuchAccount", /accounts list/, "mine", { account: "mistake" })
      yield* assertFails("RequestNotFound", /not recorded yet.*Try again/, makeNewId(now - 1_000))
      yield* assertFails("RequestNotFound", /USAGE_RETENTION/, makeNewId(Date.parse("2001-01-01T00:00:00Z")))
      assert.lengthOf((yield* find("mine", { account: "mistakes" })).requests, 1)
      const erased = yield* eraseAccount("mistakes")
      yield* finishErasure(customer.account_id)
      yield* assertFails("RequestNotFound", /erased accounts are removed/, id)
      yield* assertFails("RequestNotFound", /is erased/, "mine", { account: erased })
      assert.lengthOf(yield* sql`select from usage_batches where account_id = ${customer.account_id}`, 1)
    }))

  it.effect("searches an account to the end, in several statements (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const customer = yield* createSender("long")
      yield* writeRecords([
        makeUsageRecord({ ...customer, requested_at: start - 60_000, request_id: "last" }),
        makeUsageRecord({ ...customer, requested_at: start + 8_000_000, request_id: "last" }),
      ])
      // Inserts three rows per millisecond, so that a statement's range may end between rows with the same time.
      yield* sql`
        insert into usage (usage_id, requested_at, account_id, key_id, request_id, endpoint, status_code,
          records_returned, bytes, cost_microdollars, duration_ms, cached, deprecated)
        select gen_random_uuid(), ${new Date(start).toISOString()}::text::timestamptz
            + number / 3 * interval '1 millisecond', ${customer.account_id}::float8::bigint, 1,
          case when number % 20000 < 2 then 'row ' || number else 'other' end, '/v1/news', 429, 0, 1, 0, 1, false, false
        from generate_series(0, 45000) as number
      `
      for (const number of [0, 1, 20_000, 20_001, 40_000, 40_001]) {
        const { requests } = yield* find(`row ${number}`, { account: "long" })
        assert.lengthOf(requests, 1, String(number))
      }
      assert.lengthOf((yield* find("last", { account: "long" })).requests, 2)
    }))

  it.effect("finds the request of an account even if others have used the same id many times (D12)", () =>
    Effect.gen(function* () {
      const [mine, others] = [yield* createSender("one of many"), yield* createSender("many")]
      const request_id = "019e0000-0000-7000-8000-000000000001"
      const requested_at = Number.parseInt("019e00000000", 16)
      const record = { request_id, requested_at, endpoint: "/v1/news" }
      yield* writeRecords([
        makeUsageRecord({ ...record, ...mine, requested_at: requested_at - 1_000 }),
        ...Array.from({ length: 2 * Search.maxFoundRequests }, () => makeUsageRecord({ ...record, ...others })),
      ])
      assert.lengthOf((yield* find(request_id)).requests, Search.maxFoundRequests)
      const { requests } = yield* find(request_id, { account: "one of many" })
      assert.deepStrictEqual(requests.map(({ account_id }) => account_id), [mine.account_id])
      const reversed = yield* findError("any", { account: "many", from: "2026-06-02", to: "2026-06-01" })
      assert.strictEqual(reversed.tag, "DaysReversed")
    }))

  it.effect("stops at its time limit, and says so (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* createSender("slow")
      const locked = yield* beginTransaction(sql`lock table usage_batches in access exclusive mode`)
      const timeLimit = Duration.millis(100)
      const around = yield* findError(makeNewId(start), { timeLimit })
      const inAccount = yield* findError("mine", { account: "slow", timeLimit })
      yield* locked.commit
      assert.deepStrictEqual([around.tag, inAccount.tag], ["UsageSearchStopped", "UsageSearchStopped"])
      assert.match(around.message, /stopped after 100ms/)
      assert.match(inAccount.message, /stopped after 100ms.*--from DAY and --to DAY/)
    }))
})
