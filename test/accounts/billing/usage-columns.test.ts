/** Requests wait as numbers in columns, from which they are packed (D29, usage). */
import { assert, it } from "@effect/vitest"
import { Struct } from "effect"
import { UsageColumns } from "../../../src/accounts/billing/UsageColumns.ts"
import { countWindows, type PackedUsage, packUsage } from "../../../src/accounts/billing/UsagePacking.ts"
import { isSameKind, type UsageRecord } from "../../../src/accounts/billing/UsageRecord.ts"
import { makeRequestId, requestIdSuffix } from "../../../src/contract/rules/RequestIds.ts"
import { makeUsageRecord } from "../../support/CustomerUsage.ts"
import { type Choices, makeRandomChooser, type RandomChooser } from "../../support/RandomChoices.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

const uuid = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"

const start = Date.parse("2026-06-01T12:00:04.500Z")

/** Request ids that customers may send. */
const ownIds: Choices<string> = ["a", "A-b_c.9", "x".repeat(128), uuid, uuid, uuid.toUpperCase()]

/** Generates a random record. Values at the limits of one, two and four bytes are likely: columns have a width. */
const makeRecord = (choose: RandomChooser, accounts: Choices<number>, ids: Choices<string | undefined>) => {
  const requested_at = start + choose([-70_000, 0, 0, 1, 300, 499, 500, 4_999])
  const status_code = choose([200, 200, 304, 503])
  return makeUsageRecord({
    requested_at,
    account_id: choose(accounts),
    key_id: choose([1, 1, 2, Number.MAX_SAFE_INTEGER]),
    request_id: choose(ids) ?? makeRequestId(requested_at),
    endpoint: choose(["/v1/news", "/v1/news", "/v1/screener", "/mcp"]),
    status_code,
    records_returned: choose([0, 1, 255, 256, 65_536, 2_147_483_647]),
    bytes: choose([0, 1, 255, 256, 65_535, 65_536, 16_777_216, 4_294_967_295, 4_294_967_296, 8_999_999_999_999]),
    cost_microdollars: choose([0, 1, 255, 70_000, 4_294_967_296, 8_999_999_999_999]),
    price_per_gb_microdollars: choose([0, 1, 120_000_000]),
    duration_ms: choose([0, 1, 300, 3_600_000]),
    cached: status_code === 304,
    deprecated: choose([false, false, true]),
    via: choose([null, null, "mcp"]),
    reservation_id: choose([null, null, uuid]),
  })
}

/** Reads a packed number, as the database function `packed_number` does. */
const readPacked = (packed: Uint8Array, place: number) => {
  const [width = 0] = packed
  return packed.subarray(1 + width * place, 1 + width * (place + 1)).reduce((number, byte) => number * 256 + byte, 0)
}

/**
 * Reads a request id. Ids that customers sent are stored as text, or after `=` as base64 if they are UUIDs. Ids that
 * the service generated consist of the time and a number.
 */
const readRequestId = ({ id_numbers, own_ids }: PackedUsage, place: number, time: number) => {
  const own = own_ids.split(" ")[place] ?? ""
  if (own.startsWith("=")) {
    const hex = Buffer.from(own.slice(1), "base64").toString("hex")
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")
  }
  if (own !== "") return own
  const [hex, number] = [
    time.toString(16).padStart(12, "0"),
    readPacked(id_numbers, place).toString(16).padStart(3, "0"),
  ]
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7${number}${requestIdSuffix}`
}

/** Returns the records in packed rows, in order, each with the number of its batch. */
const unpack = (rows: ReadonlyArray<PackedUsage>, columns: UsageColumns, kindIds: ReadonlyArray<number>) =>
  rows.flatMap((row) =>
    Array.from({ length: row.requests }, (_, place) => {
      const group = readPacked(row.groups, place)
      const requested_at = row.moment - readPacked(row.ages, place)
      return {
        ...columns.kinds[kindIds.indexOf(readPacked(row.group_kinds, group))],
        sequence: row.sequence,
        requested_at,
        account_id: row.account_id,
        key_id: readPacked(row.group_keys, group),
        request_id: readRequestId(row, place, requested_at),
        records_returned: readPacked(row.records, place),
        bytes: readPacked(row.bytes, place),
        cost_microdollars: readPacked(row.costs, place),
        duration_ms: readPacked(row.durations, place),
      }
    })
  )

const sum = (numbers: ReadonlyArray<number>) => numbers.reduce((total, number) => total + number, 0)

it("packs exactly the records that were added, whatever the columns contained before (D29)", () => {
  for (let seed = 1; seed <= getInputCount(60); seed++) {
    const choose = makeRandomChooser(seed)
    const columns = new UsageColumns()
    for (const wanted of [choose([1, 30]), choose([400, 2_500]), choose([1, 2, 99, 101])]) {
      columns.clear()
      const accounts = choose<Choices<number>>([[7], [1, 2, 3], [0, ...Array.from({ length: 500 }, (_, at) => 1 + at)]])
      const ids = choose<Choices<string | undefined>>([[undefined], [undefined, ...ownIds], ["y".repeat(128)], [uuid]])
      const records: Array<UsageRecord> = []
      while (records.length < wanted) {
        const record = makeRecord(choose, accounts, ids)
        if (!columns.add(record)) break
        records.push(record)
      }
      const message = `seed ${seed}, ${wanted} records`
      // A batch is full at 2,000 records, or earlier if it has many long ids.
      assert.isAtLeast(records.length, Math.min(wanted, 1_000), message)
      assert.isAtMost(records.length, 2_000, message)

      const sequence = choose([0, 41])
      const kindIds = columns.kinds.map((_, at) => 3 * at + 5)
      const rows = Array.from(packUsage(columns, sequence, kindIds))
      const windows = Map.groupBy(records, ({ requested_at }) => Math.floor(requested_at / 5_000))
      const expected = Array.from(windows.values()).flatMap((ofWindow, at) =>
        Array.from(Map.groupBy(ofWindow, ({ account_id }) => account_id).values()).flat().map(
          (record) => ({ ...Struct.omit(record, ["reservation_id"]), sequence: sequence + 1 + at }),
        )
      )
      assert.deepStrictEqual(unpack(rows, columns, kindIds), expected, message)
      const kinds = columns.kinds.map((kind) => JSON.stringify(kind))
      assert.strictEqual(new Set(kinds).size, kinds.length, message)
      assert.isTrue(columns.kinds.every((kind) => records.some((record) => isSameKind(record, kind))), message)
      assert.strictEqual(countWindows(columns), windows.size, message)
      assert.deepStrictEqual(Array.from(packUsage(columns, sequence, kindIds)), rows, `${message}, packed again`)
      assert.deepStrictEqual(
        Array.from(columns.reservations.values()),
        records.flatMap(({ reservation_id }) => reservation_id ?? []),
        message,
      )

      for (const row of rows) {
        assert.isAtMost(row.requests, 100, message)
        assert.isAtMost(row.own_ids.length, 1_000 + 128 + 100, message)
        const groups = new Set(Array.from({ length: row.requests }, (_, place) => readPacked(row.groups, place)))
        const totals = (packed: Uint8Array) => sum(Array.from(groups, (group) => readPacked(packed, group)))
        const numbers = (packed: Uint8Array) =>
          sum(Array.from({ length: row.requests }, (_, place) => readPacked(packed, place)))
        assert.strictEqual(totals(row.group_requests), row.requests, message)
        assert.strictEqual(totals(row.group_bytes), numbers(row.bytes), message)
        assert.strictEqual(totals(row.group_costs), numbers(row.costs), message)
      }
      for (const account_id of accounts.slice(0, 5)) {
        assert.deepStrictEqual(
          columns.findPlaces(account_id).map((place) => columns.costs[place]),
          records.filter((record) => record.account_id === account_id).map(({ cost_microdollars }) =>
            cost_microdollars
          ),
          message,
        )
      }
    }
  }
})
