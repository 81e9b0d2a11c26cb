/** D29: how requests refused with 429 are counted until they are recorded, whatever is sent and written when. */
import { assert, it } from "@effect/vitest"
import { Arbitrary, Effect, Schema } from "effect"
import * as Refusals from "../../../src/accounts/billing/RefusalCounter.ts"
import type { RefusalCount } from "../../../src/accounts/billing/RefusedUsage.ts"
import { makeUsageRecord } from "../../support/CustomerUsage.ts"

const integer = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))

/** A refused request, or a batch that is written (of so many rows at most). */
const Step = Schema.Union([
  Schema.Struct({ account: integer(3), endpoint: integer(2), seconds: integer(90), bytes: integer(500) }),
  Schema.Struct({ write: integer(5), isAcknowledged: Schema.Boolean }),
])

const steps = Arbitrary.schema(Schema.Array(Step).check(Schema.isMaxLength(200)))

/** What the table would hold: it takes a row only from the count that the batch says, as the statement does. */
const makeTable = () => {
  const rows = new Map<string, RefusalCount>()
  const write = (batch: ReadonlyArray<RefusalCount>) => {
    for (const refused of batch) {
      if ((rows.get(refused.id)?.to.requests ?? 0) === refused.from.requests) rows.set(refused.id, refused)
    }
  }
  return { rows, write }
}

it.effect.prop(
  "D29 no refused request is lost or counted twice, and no minute of an account and endpoint has two rows",
  { steps },
  ({ steps }) =>
    Effect.sync(() => {
      const refusals = Refusals.makeRefusalCounter()
      const table = makeTable()
      let now = Date.parse("2026-06-01T12:00:00.000Z")
      let sent = { requests: 0, bytes: 0 }
      let unacknowledged: ReturnType<typeof refusals.take> | undefined
      const flush = (rows: number, isAcknowledged: boolean) => {
        const taken = unacknowledged ?? refusals.take(rows)
        table.write(taken.batch)
        unacknowledged = isAcknowledged ? undefined : taken
        if (isAcknowledged) taken.written()
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
      while (refusals.rows() > 0) flush(3, true)
      assert.strictEqual(refusals.requests(), 0)
      const rows = Array.from(table.rows.values())
      const sum = (of: (refused: RefusalCount) => number) => rows.reduce((total, row) => total + of(row), 0)
      assert.deepStrictEqual({ requests: sum(({ to }) => to.requests), bytes: sum(({ to }) => to.bytes) }, sent)
      const names = rows.map(({ row }) => `${row.account_id} ${row.endpoint} ${Math.floor(row.requested_at / 60_000)}`)
      assert.strictEqual(new Set(names).size, names.length)
    }),
)

it("D29 a row that grows all the time does not keep others from being written", () => {
  const refusals = Refusals.makeRefusalCounter()
  for (const endpoint of ["/grows", "/waits"]) refusals.add(makeUsageRecord({ endpoint }))
  const written: Array<string> = []
  for (let times = 0; times < 2; times++) {
    const taken = refusals.take(1)
    refusals.add(makeUsageRecord({ endpoint: "/grows" }))
    taken.written()
    written.push(...taken.batch.map(({ row }) => row.endpoint))
  }
  assert.deepStrictEqual(written, ["/grows", "/waits"])
})

it("D29 memory is bounded by accounts and endpoints, however long nothing can be written", () => {
  const most = 50
  const refusals = Refusals.makeRefusalCounter(most)
  const [accounts, endpoints, hours] = [10, 3, 24]
  let sent = 0
  for (let minute = 0; minute < hours * 60; minute++) {
    for (let account = 0; account < accounts; account++) {
      for (let endpoint = 0; endpoint < endpoints; endpoint++) {
        refusals.add(makeUsageRecord({ requested_at: minute * 60_000, account_id: account, endpoint: `/${endpoint}` }))
        sent += 1
      }
    }
    assert.isAtMost(refusals.size(), most + accounts * endpoints)
  }
  assert.strictEqual(refusals.requests(), sent)
  while (refusals.rows() > 0) refusals.take(7).written()
  assert.strictEqual(refusals.requests(), 0)
  // What is written is forgotten when the next minute begins.
  refusals.add(makeUsageRecord({ requested_at: hours * 3_600_000 }))
  assert.strictEqual(refusals.size(), 1)
})
