/**
 * Tests the in-memory counter of requests refused with 429, which is written to the database periodically (D29, usage).
 */
import { assert, it } from "@effect/vitest"
import { Arbitrary, Effect, Schema } from "effect"
import * as RefusalCounter from "../../../src/accounts/billing/ThrottledRequestCounter.ts"
import type { ThrottledRequestCount } from "../../../src/accounts/billing/UsageWriter.ts"
import { makeUsageRecord } from "../../support/CustomerUsage.ts"

const integer = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))

/** One test step: refuses a request, or writes at most `write` rows. */
const Step = Schema.Union([
  Schema.Struct({ account: integer(3), endpoint: integer(2), seconds: integer(90), bytes: integer(500) }),
  Schema.Struct({ write: integer(5), isAcknowledged: Schema.Boolean }),
])

const steps = Arbitrary.schema(Schema.Array(Step).check(Schema.isMaxLength(200)))

/**
 * Models the database table in memory. As in the SQL statement, a row changes only if its count still equals
 * `countsBefore`.
 */
const makeTable = () => {
  const rows = new Map<string, ThrottledRequestCount>()
  const write = (batch: ReadonlyArray<ThrottledRequestCount>) => {
    for (const refused of batch) {
      if ((rows.get(refused.id)?.countsAfter.requests ?? 0) === refused.countsBefore.requests) {
        rows.set(refused.id, refused)
      }
    }
  }
  return { rows, write }
}

it.effect.prop(
  "each refused request is counted once, in one row per account, endpoint and minute (D29)",
  { steps },
  ({ steps }) =>
    Effect.sync(() => {
      const refusals = RefusalCounter.makeThrottledRequestCounter()
      const table = makeTable()
      let now = Date.parse("2026-06-01T12:00:00.000Z")
      let sent = { requests: 0, bytes: 0 }
      let unacknowledged: ReturnType<typeof refusals.takeBatch> | undefined
      const flush = (rows: number, isAcknowledged: boolean) => {
        const taken = unacknowledged ?? refusals.takeBatch(rows)
        table.write(taken.batch)
        unacknowledged = isAcknowledged ? undefined : taken
        if (isAcknowledged) taken.markWritten()
      }
      for (const step of steps) {
        if ("write" in step) flush(step.write, step.isAcknowledged)
        else {
          now += step.seconds * 1000
          sent = { requests: sent.requests + 1, bytes: sent.bytes + step.bytes }
          refusals.add(makeUsageRecord({
            requested_at: now,
            account_id: step.account,
            endpoint: `/${step.endpoint}`,
            bytes: step.bytes,
            status_code: 429,
          }))
        }
      }
      while (refusals.countWaitingRows() > 0) flush(3, true)
      assert.strictEqual(refusals.countWaitingRequests(), 0)
      const rows = Array.from(table.rows.values())
      const sum = (getNumber: (row: ThrottledRequestCount) => number) =>
        rows.reduce((total, row) => total + getNumber(row), 0)
      assert.deepStrictEqual({
        requests: sum(({ countsAfter }) => countsAfter.requests),
        bytes: sum(({ countsAfter }) => countsAfter.bytes),
      }, sent)
      const names = rows.map(({ row }) => `${row.account_id} ${row.endpoint} ${Math.floor(row.requested_at / 60_000)}`)
      assert.strictEqual(new Set(names).size, names.length)
    }),
)

it("all rows are written even if the count of one row keeps growing (D29)", () => {
  const refusals = RefusalCounter.makeThrottledRequestCounter()
  for (const endpoint of ["/grows", "/waits"]) refusals.add(makeUsageRecord({ endpoint }))
  const written: Array<string> = []
  for (let times = 0; times < 2; times++) {
    const taken = refusals.takeBatch(1)
    refusals.add(makeUsageRecord({ endpoint: "/grows" }))
    taken.markWritten()
    written.push(...taken.batch.map(({ row }) => row.endpoint))
  }
  assert.deepStrictEqual(written, ["/grows", "/waits"])
})

it("the number of rows in memory is limited while nothing can be written (D29)", () => {
  const maxWaiting = 50
  const refusals = RefusalCounter.makeThrottledRequestCounter(maxWaiting)
  const [accounts, endpoints, hours] = [10, 3, 24]
  let sent = 0
  for (let minute = 0; minute < hours * 60; minute++) {
    for (let account = 0; account < accounts; account++) {
      for (let endpoint = 0; endpoint < endpoints; endpoint++) {
        refusals.add(makeUsageRecord({ requested_at: minute * 60_000, account_id: account, endpoint: `/${endpoint}` }))
        sent += 1
      }
    }
    assert.isAtMost(refusals.countRows(), maxWaiting + accounts * endpoints)
  }
  assert.strictEqual(refusals.countWaitingRequests(), sent)
  while (refusals.countWaitingRows() > 0) refusals.takeBatch(7).markWritten()
  assert.strictEqual(refusals.countWaitingRequests(), 0)
  // The first request of a new minute removes all written rows from memory.
  refusals.add(makeUsageRecord({ requested_at: hours * 3_600_000 }))
  assert.strictEqual(refusals.countRows(), 1)
})
