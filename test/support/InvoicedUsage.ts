/** Usage in October 2026 that covers everything that makes an invoice difficult to recompute. The month is closed. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { closeMonth } from "../../src/accounts/billing/Invoices.ts"
import { computeDataCost } from "../../src/accounts/billing/Pricing.ts"
import { makeThrottledRequestCountWriter } from "../../src/accounts/billing/UsageWriter.ts"
import { findAccountAndKeyIds, makeRecordWriter, makeUsageRecord } from "./CustomerUsage.ts"
import { makeRandomChooser } from "./RandomChoices.ts"

/** Times just before and after midnight in New York, including the days before and after the month. */
const times = [
  "2026-09-30T23:59:59.999-04:00",
  "2026-10-01T00:00:00.000-04:00",
  "2026-10-15T23:59:59.999-04:00",
  "2026-10-16T00:00:00.000-04:00",
  "2026-10-31T23:59:59.999-04:00",
  "2026-11-01T00:00:00.000-04:00",
] as const

/**
 * Records 400 random requests with the API key for its account, and requests that the rate limit refused, all at one of
 * `times`. Then closes October 2026 for the account, which creates its invoice. The random numbers are the same in each
 * run.
 */
export const recordInvoicedUsage = Effect.fnUntraced(function* (key: string) {
  const sql = yield* SqlClient.SqlClient
  const { account_id, key_id } = yield* findAccountAndKeyIds(key)
  const [account] = yield* sql<{ readonly name: string }>`
    update accounts set created_at = '2026-09-30 12:00:00Z' where account_id = ${account_id} returning name
  `
  const choose = makeRandomChooser(1)
  const records = Array.from({ length: 400 }, () => {
    const requested_at = Date.parse(choose(times))
    // The price changes on October 16.
    const price = requested_at < Date.parse("2026-10-16T00:00:00-04:00") ? 10_000_000 : 12_500_000
    const status_code = choose([200, 200, 200, 200, 304, 404, 422, 499] as const)
    const endpoint = choose(["/v1/news", "/v1/screener", "/v1/overview"] as const)
    const bytes = status_code === 304 ? 0 : choose([61, 999, 2_007, 1_000_003] as const)
    const isCharged = (status_code === 200 || status_code === 499) && endpoint !== "/v1/overview"
    return makeUsageRecord({
      account_id,
      key_id,
      requested_at,
      endpoint,
      status_code,
      bytes,
      cached: status_code === 304,
      cost_microdollars: isCharged ? computeDataCost(bytes, price) : 0,
      price_per_gb_microdollars: isCharged ? price : 0,
    })
  })
  const { makeBatch, write } = yield* makeRecordWriter
  yield* write(makeBatch(records))
  yield* (yield* makeThrottledRequestCountWriter)(times.map((time, index) => ({
    id: `00000000-0000-4000-8000-${String(index).padStart(12, "0")}`,
    row: makeUsageRecord({
      account_id,
      key_id,
      requested_at: Date.parse(time),
      status_code: 429,
      cost_microdollars: 0,
    }),
    countsBefore: { requests: 0, bytes: 0 },
    countsAfter: { requests: 5 + index, bytes: 200 * (5 + index) },
  })))
  yield* closeMonth({ month: "2026-10", account: account?.name ?? "", skipsEarlierUsage: true })
})
