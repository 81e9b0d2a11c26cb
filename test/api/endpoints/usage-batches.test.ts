/** Compares `/v1/usage` for packed requests with a list in memory: D27 (prices), D29 (usage). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { UsageRecord } from "../../../src/accounts/billing/UsageRecord.ts"
import { settleUsage } from "../../../src/accounts/billing/UsageSettlement.ts"
import { packNumbers } from "../../../src/accounts/billing/UsageEncoding.ts"
import { makeRequestId } from "../../../src/contract/rules/RequestIds.ts"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import * as ListClients from "../../support/ListClients.ts"
import { makeRandomChooser, type RandomChooser } from "../../support/RandomChoices.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

const { requestJson, valueAt } = Service

/** Times at the boundaries of windows, hours, days at -05:00, days in New York, and months. */
const starts = [
  "2025-07-01T00:00:00Z",
  "2025-07-01T03:59:58Z",
  "2025-07-01T04:59:59.990Z",
  "2025-07-01T23:59:59.500Z",
  "2025-07-02T12:00:04.999Z",
  "2025-08-01T04:59:59.999Z",
] as const

const largest = Number.MAX_SAFE_INTEGER

const makeRecord = (choose: RandomChooser, account_id: number, keys: readonly [number, number]): UsageRecord => {
  const requested_at = Date.parse(choose(starts)) + choose([0, 0, 1, 2, 250, 4_999, 5_000, 61_000])
  const status_code = choose([200, 200, 200, 304, 404, 499, 503])
  const isCharged = status_code === 200 && choose([true, true, false])
  const own = choose(["a", "A-b_c.9", "x".repeat(128), "01980000-0000-7000-8000-000000000001"])
  return {
    requested_at,
    account_id,
    key_id: choose([keys[0], keys[0], keys[1]]),
    request_id: choose([true, true, false]) ? makeRequestId(requested_at) : own,
    endpoint: choose(["/v1/news", "/v1/news", "/v1/screener", "/mcp"]),
    status_code,
    records_returned: choose([0, 1, 255, 256, 65_536, 2_147_483_647]),
    bytes: choose([0, 1, 255, 256, 65_535, 65_536, 16_777_216, 4_294_967_295, 4_294_967_296, 8_999_999_999_999]),
    cost_microdollars: isCharged ? choose([1, 255, 70_000, 4_294_967_296, 8_999_999_999_999]) : 0,
    price_per_gb_microdollars: isCharged ? choose([1, 120_000_000]) : 0,
    duration_ms: choose([0, 1, 300, 3_600_000]),
    cached: status_code === 304,
    deprecated: choose([false, false, true]),
    via: choose([null, null, "mcp"]),
    reservation_id: null,
  }
}

const formatTime = (time: number) =>
  new Date(time - 5 * 3_600_000).toISOString().replace(/\.000Z$/, "Z").replace("Z", "-05:00")

const toListed = (hints: ReadonlyMap<number, string>) => (record: UsageRecord) => {
  const { account_id: _, key_id, price_per_gb_microdollars: _price, requested_at, reservation_id: _id, ...rest } =
    record
  return { ...rest, requested_at: formatTime(requested_at), key_hint: hints.get(key_id), request_count: 1 }
}

// Keeps the partitions of past months regardless of the current date.
const service = CustomerUsage.serviceWithSettings({ USAGE_RETENTION: "100000 days" })

layer(service, { excludeTestServices: true, timeout: "300 seconds" })("Usage in batches", (it) => {
  it.effect("lists exactly what was recorded, for random records, filters and pages, settled or not (D27, D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      for (let seed = 1; seed <= getInputCount(12); seed++) {
        const choose = makeRandomChooser(seed)
        const name = `packed ${seed}`
        const { account_id, key, key_id } = yield* CustomerUsage.createCustomer(name)
        const other = yield* Service.ensureAccountWithKey(name, "basic")
        const second = (yield* CustomerUsage.findAccountAndKeyIds(other)).key_id
        const neighbor = yield* CustomerUsage.createCustomer(`neighbor ${seed}`)
        const hints = new Map([[key_id, key.slice(0, 12)], [second, other.slice(0, 12)]])
        const writers = [yield* CustomerUsage.makeRecordWriter, yield* CustomerUsage.makeRecordWriter] as const
        // A writer receives its number when it writes its first batch.
        for (const { makeBatch, write } of writers) {
          yield* write(makeBatch([makeRecord(choose, neighbor.account_id, [neighbor.key_id, neighbor.key_id])]))
        }
        /** Each of the two writers' records, in the order in which the requests ended. */
        const written: [Array<UsageRecord>, Array<UsageRecord>] = [[], []]
        for (let at = 0; at < choose([1, 3, 8]); at++) {
          const which = choose([0, 1] as const)
          const records = Array.from(
            { length: choose([1, 2, 30, 400]) },
            () => makeRecord(choose, account_id, [key_id, second]),
          )
          const foreign = makeRecord(choose, neighbor.account_id, [neighbor.key_id, neighbor.key_id])
          const { makeBatch, write } = writers[which]
          const batch = makeBatch([...records, foreign])
          yield* write(batch)
          if (choose([true, false])) yield* settleUsage
          if (choose([true, false])) yield* write(batch)
          written[which].push(...records)
        }
        const all = written.flat().map((record, place) => ({ record, place })).toSorted((a, b) =>
          b.record.requested_at - a.record.requested_at || b.place - a.place
        ).map(({ record }) => record)

        const [sums] = yield* sql`
          select (select count(*) from usage_requests where account_id = ${account_id})::int as requests,
            (select coalesce(sum(requests), 0) from usage_totals where account_id = ${account_id})::int as daily,
            (select coalesce(sum(cost_microdollars), 0) from usage_totals where account_id = ${account_id})::text as cost
        `
        const cost = all.reduce((sum, { cost_microdollars }) => sum + BigInt(cost_microdollars), 0n)
        assert.deepStrictEqual(sums, { requests: all.length, daily: all.length, cost: String(cost) }, `seed ${seed}`)

        for (let query = 0; query < 8; query++) {
          const endpoint = choose([undefined, undefined, "/v1/news", "/v1/screener", "/mcp,/v1/news", "/v1/none"])
          const status = choose([undefined, undefined, "200", "304,404", "418"])
          const from = choose([undefined, undefined, "2025-06-30", "2025-07-01", "2025-08-01"])
          const to = choose(["2025-08-01", "2025-07-31", "2025-07-01", "2025-06-30"])
          const limit = choose([1, 7, 100])
          const parameters = new URLSearchParams(
            Object.entries({ endpoint, status_code: status, requested_at_from: from, requested_at_to: to })
              .flatMap(([name, value]) => value === undefined ? [] : [[name, value]]),
          )
          const expected = all.filter((record) => {
            const day = formatTime(record.requested_at).slice(0, 10)
            return (endpoint === undefined || endpoint.split(",").includes(record.endpoint)) &&
              (status === undefined || status.split(",").includes(String(record.status_code))) &&
              (from === undefined || day >= from) && day <= to
          }).map(toListed(hints))
          const message = `seed ${seed} ?${parameters}`
          if (from !== undefined && from > to) continue
          const { text } = yield* requestJson(`/v1/usage?${parameters}&limit=all&format=ndjson`, { key })
          const exported: ReadonlyArray<unknown> = text.trim().split("\n").filter(Boolean).map((line) =>
            JSON.parse(line)
          )
          assert.deepStrictEqual(exported, expected, message)
          const last = Math.max(1, Math.ceil(expected.length / limit))
          for (const page of new Set([1, 2, last, last + 1, 1 + Math.floor(last / 2)])) {
            const { body } = yield* requestJson(`/v1/usage?${parameters}&limit=${limit}&page=${page}`, { key })
            assert.deepStrictEqual(
              ListClients.getResultRows(body),
              expected.slice((page - 1) * limit, page * limit),
              `${message} limit ${limit} page ${page}`,
            )
            assert.strictEqual(valueAt(body, "has_more"), page * limit < expected.length)
          }
        }
      }
    }))

  it.effect("the pages that links lead to have each row once, in order, whatever is written between them (D8, D29)", () =>
    Effect.gen(function* () {
      for (let seed = 1; seed <= getInputCount(30); seed++) {
        const choose = makeRandomChooser(seed)
        const { account_id, key, key_id } = yield* CustomerUsage.createCustomer(`links ${seed}`)
        const writers = [yield* CustomerUsage.makeRecordWriter, yield* CustomerUsage.makeRecordWriter] as const
        let made = 0
        const makeRecords = (count: number) =>
          Array.from({ length: count }, () => ({
            ...makeRecord(choose, account_id, [key_id, key_id]),
            request_id: String(made++),
          }))
        /**
         * The rows written by each of the two writers, followed by the counts of 429 responses, in the order of
         * writing.
         */
        const written: readonly [Array<UsageRecord>, Array<UsageRecord>, Array<UsageRecord>] = [[], [], []]
        const writeMore = (count: number, which: 0 | 1 | 2) =>
          Effect.gen(function* () {
            const records = makeRecords(count)
            if (which === 2) {
              const counts = records.map((record) => ({ ...record, status_code: 429 }))
              yield* Effect.forEach(counts, (record) => CustomerUsage.insertUsageRow(record))
              written[2].push(...counts)
              return
            }
            const { makeBatch, write } = writers[which]
            yield* write(makeBatch(records))
            written[which].push(...records)
          })
        // A writer receives its number when it writes its first batch.
        yield* writeMore(1, 0)
        yield* writeMore(1, 1)
        for (let batch = 0; batch < choose([2, 6]); batch++) {
          yield* writeMore(choose([1, 3, 20, 150]), choose([0, 1]))
          yield* writeMore(choose([0, 1, 5]), 2)
        }
        const [first, second, counts] = written
        const all = [
          ...second.toReversed(),
          ...first.toReversed(),
          ...counts.toReversed(),
        ].toSorted((a, b) => b.requested_at - a.requested_at)
        for (let query = 0; query < 3; query++) {
          const endpoint = choose([undefined, undefined, "/v1/news", "/v1/screener", "/mcp,/v1/news"])
          const status = choose([undefined, undefined, "200", "304,404", "429"])
          const from = choose([undefined, "2025-06-30", "2025-07-01"])
          const to = choose(["2025-08-01", "2025-07-31", "2025-07-01"])
          const parameters = new URLSearchParams(
            Object.entries({ endpoint, status_code: status, requested_at_from: from, requested_at_to: to })
              .flatMap(([name, value]) => value === undefined ? [] : [[name, value]]),
          )
          const known = new Set(all.map(({ request_id }) => request_id))
          const expected = all.filter((record) => {
            const day = formatTime(record.requested_at).slice(0, 10)
            return (endpoint === undefined || endpoint.split(",").includes(record.endpoint)) &&
              (status === undefined || status.split(",").includes(String(record.status_code))) &&
              (from === undefined || day >= from) && day <= to
          }).map(({ request_id }) => request_id)
          const limit = Math.min(100, Math.max(choose([1, 2, 7]), Math.ceil(expected.length / choose([3, 15, 30]))))
          const between = choose([true, false])
            ? Effect.void
            : Effect.suspend(() => writeMore(choose([1, 2, 9]), choose([0, 1, 2])))
          const pages = yield* CustomerUsage.readAllPages(`/v1/usage?${parameters}`, key, limit, between)
          const seen = pages.map((row) => String(valueAt(row, "request_id")))
          const message = `seed ${seed} ?${parameters} limit ${limit}`
          assert.strictEqual(new Set(seen).size, seen.length, message)
          // Ignores requests that were written between pages. They are not in `known` until the next query.
          assert.deepStrictEqual(seen.filter((id) => known.has(id)), expected, message)
          if (between !== Effect.void) break
        }
      }
    }))

  it.effect("packs numbers from 0 to 2^53, which the database unpacks (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      for (const greatest of [0, 1, 255, 256, 65_535, 65_536, 2 ** 24 - 1, 2 ** 24, 2 ** 32 - 1, 2 ** 32, largest]) {
        const numbers = [0, 1, greatest, Math.floor(greatest / 2), Math.max(0, greatest - 1)]
          .filter((number) => number <= greatest)
        const packed = Buffer.from(packNumbers(numbers.length, (at) => numbers[at] ?? 0)).toString("hex")
        const rows = yield* sql<{ readonly number: string }>`
          select packed_number(decode(${packed}, 'hex'), place)::text as number
          from generate_series(0, ${numbers.length - 1}::int) as place order by place
        `
        assert.deepStrictEqual(rows.map(({ number }) => Number(number)), numbers)
      }
    }))
})
