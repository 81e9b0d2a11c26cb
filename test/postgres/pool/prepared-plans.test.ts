/** Tests that the plan of a list query suits its own filter, whatever was requested before (D8). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"

// @module-tag slow

const rows = 20_000

/**
 * Stores intraday runners for 20 symbols over 1,000 days. Gap percentages cover every value from 0 to 999, and none is
 * higher.
 */
const fillRunners = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    insert into intraday_runners (ticker, date, gap_percentage, market_open, previous_day_close, percentage_gain,
      open_to_high_pct, high_price, low_price, daily_volume_ratio, market_close, close_under_50pct_of_range,
      last_updated, anomaly_flagged)
    select 'K' || n % 20, date '2015-01-01' + n / 20, n % 1000, 1, 1, 1, 1, 1, 1, 10, 1, true, '2026-01-01', true
    from generate_series(1, ${rows}::int) as n
  `
  yield* sql.unsafe("vacuum (freeze, analyze) intraday_runners")
})

/**
 * Returns how often an index was scanned and how many entries were read. Counts only what sessions have reported so
 * far.
 */
const readIndexStatistics = Effect.fnUntraced(function* (index: string) {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql<{ readonly scans: number; readonly entries: number }>`
    select idx_scan::float8 as scans, idx_tup_read::float8 as entries from pg_stat_user_indexes
    where indexrelname = ${index}
  `
  return found ?? { scans: 0, entries: 0 }
})

const service = CustomerUsage.serviceWithSettings({ RATE_LIMIT_ULTIMATE: "10000" })

layer(service, { excludeTestServices: true })("Prepared plans", (it) => {
  it.effect("do not scan all rows for a rare value after many requests for a common one (D8)", () =>
    Effect.gen(function* () {
      yield* fillRunners
      const { ultimate } = yield* Service.TestKeys
      const requestGapsFrom = (least: string) =>
        Service.requestJson(`/v1/intraday-runners?min_gap_percentage=${least}`, { key: ultimate })
      // Gives each request a different bound, so no result comes from the cache and every connection runs the query.
      const commonRequests = 150
      for (let common = 0; common < commonRequests; common += 1) {
        assert.strictEqual((yield* requestGapsFrom(`1.${common}`)).status, 200)
      }
      const byGap = "intraday_runners_gap_percentage_idx"
      const byDay = "intraday_runners_date_ticker_idx"
      // Sessions report statistics with a delay, so a few scans may still be missing.
      const daysBefore = yield* CustomerUsage.retryUntil(
        readIndexStatistics(byDay),
        ({ scans }) => scans >= commonRequests - 10,
      )
      const gapsBefore = yield* readIndexStatistics(byGap)
      const rareRequests = 20
      for (let rare = 0; rare < rareRequests; rare += 1) {
        const { body, status } = yield* requestGapsFrom(`5000.${rare}`)
        assert.strictEqual(status, 200)
        assert.deepStrictEqual(ListClients.getResultRows(body), [])
      }
      const wantedScans = gapsBefore.scans + rareRequests
      const gapsAfter = yield* CustomerUsage.retryUntil(readIndexStatistics(byGap), ({ scans }) => scans >= wantedScans)
      assert.isAtLeast(gapsAfter.scans, wantedScans, "the index of gaps was used")
      assert.isBelow(
        (yield* readIndexStatistics(byDay)).entries - daysBefore.entries,
        rows,
        "not all rows were read in their order",
      )
    }))
})
