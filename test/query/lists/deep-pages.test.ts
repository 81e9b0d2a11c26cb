/** Tests that pages with a large offset (D8) do not read the preceding rows. */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"
import * as StatementRecorder from "../../support/StatementRecorder.ts"

const { requestJson, valueAt: at } = Service

/** Enough rows for two pages beyond the deep-page threshold. The last page is not full. */
const rows = 1_234

/** Stores one runner of DEEPR per day. The gap percentage of row `n` is `n`. */
const fillRunners = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    insert into intraday_runners (ticker, date, gap_percentage, market_open, previous_day_close, percentage_gain,
      open_to_high_pct, high_price, low_price, daily_volume_ratio, market_close, close_under_50pct_of_range,
      last_updated, anomaly_flagged)
    select 'DEEPR', date '2015-01-01' + n, n, 1, 1, 1, 1, 1, 1, 10, 1, true, '2026-01-01', true
    from generate_series(1, ${rows}::int) as n
  `
})

const fillNews = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  // Groups of seven rows share a timestamp, so the ID determines their order.
  yield* sql`
    insert into news (id, ticker, form_type, title, filed_at, created_at, last_updated)
    select 'deep' || lpad(n::text, 5, '0'), 'DEEPN', 'news', 'Title ' || n, '2020-01-01',
      timestamp '2020-01-01' + n / 7 * interval '1 minute', '2020-01-01'
    from generate_series(1, ${rows}::int) as n
  `
})

const fillUsage = Effect.fnUntraced(function* (account: number, keyId: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`select create_usage_partition(timestamptz '2024-05-05')`
  yield* sql`
    insert into usage (usage_id, requested_at, account_id, key_id, request_id, endpoint, status_code, records_returned,
      bytes, cost_microdollars, duration_ms, cached, deprecated)
    select gen_random_uuid(), timestamptz '2024-05-05' + n / 3 * interval '1 millisecond', ${account}::int, ${keyId}::int,
      'deep-' || n, '/v1/news', 200, 1, 1, 1, 1, false, false
    from generate_series(1, ${rows}::int) as n
  `
})

const service = CustomerUsage.serviceWithSettings({ USAGE_RETENTION: "100000 days", RATE_LIMIT_PRO: "10000" }).pipe(
  Layer.provideMerge(StatementRecorder.layer),
)

layer(service, { excludeTestServices: true })("Deep pages", (it) => {
  const readPage = Effect.fnUntraced(function* (path: string, key: string) {
    const { body, status, text } = yield* requestJson(path, { key })
    assert.strictEqual(status, 200, text)
    return { rows: ListClients.getResultRows(body), hasMore: at(body, "has_more") }
  })

  /** Pages around row 1,000, where deep pages begin, and pages at the end of the list. */
  const pages = [
    { limit: 100, page: 10 },
    { limit: 100, page: 11 },
    { limit: 100, page: 12 },
    { limit: 100, page: 13 },
    { limit: 100, page: 14 },
    { limit: 10, page: 101 },
    { limit: 7, page: 176 },
    { limit: 7, page: 178 },
  ]

  /** Compares the column `name` on each of `pages` with `expected`, the column's values in the complete list. */
  const assertPages = Effect.fnUntraced(
    function* (path: string, name: string, key: string, expected: ReadonlyArray<unknown>) {
      assert.strictEqual(expected.length, rows)
      for (const { limit, page } of pages) {
        const found = yield* readPage(`${path}limit=${limit}&page=${page}`, key)
        const start = (page - 1) * limit
        const wanted = expected.slice(start, start + limit)
        assert.deepStrictEqual(found.rows.map((row) => at(row, name)), wanted, `page ${page} of ${limit} rows`)
        assert.strictEqual(found.hasMore, start + limit < rows, `page ${page} of ${limit} rows`)
      }
    },
  )

  const newestFirst = Array.from({ length: rows }, (_, index) => rows - index)

  it.effect("contain the correct runners at a large offset (D8)", () =>
    Effect.gen(function* () {
      yield* fillRunners
      const { ultimate } = yield* Service.TestKeys
      yield* assertPages("/v1/intraday-runners?ticker=DEEPR&", "gap_percentage", ultimate, newestFirst)
    }))

  it.effect("contain the correct news at a large offset, even if many rows have the same time (D8)", () =>
    Effect.gen(function* () {
      yield* fillNews
      const sql = yield* SqlClient.SqlClient
      const { ultimate } = yield* Service.TestKeys
      const ids = yield* sql<{ readonly id: string }>`
        select id from news where ticker = 'DEEPN' order by created_at desc, id
      `
      yield* assertPages("/v1/news?ticker=DEEPN&", "id", ultimate, ids.map(({ id }) => id))
    }))

  it.effect("contain the correct usage at a large offset, with the key of each row (D8, D29)", () =>
    Effect.gen(function* () {
      const { account_id, key, key_id } = yield* CustomerUsage.createCustomer("deep", { tier: "pro" })
      yield* fillUsage(account_id, key_id)
      const sql = yield* SqlClient.SqlClient
      const ids = yield* sql<{ readonly request_id: string }>`
        select request_id from usage where account_id = ${account_id} order by requested_at desc, usage_id desc
      `
      const may = "requested_at_from=2024-05-01&requested_at_to=2024-05-31&"
      yield* assertPages(`/v1/usage?${may}`, "request_id", key, ids.map(({ request_id }) => request_id))
      const { rows: [row] } = yield* readPage(`/v1/usage?${may}limit=100&page=11`, key)
      const keyHintLength = 12
      assert.strictEqual(at(row, "key_hint"), key.slice(0, keyHintLength))
    }))

  it.effect("skip the earlier rows in the index, without reading them from the table (D8)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ultimate } = yield* Service.TestKeys
      const vacuum = Effect.gen(function* () {
        // Without `freeze`, vacuum skips pages that a checkpoint has pinned.
        yield* sql.unsafe("vacuum (freeze, analyze) intraday_runners")
        return yield* sql`select from pg_class where relname = 'intraday_runners' and relallvisible = relpages`
      })
      // Repeats the vacuum, because no page becomes all-visible while a transaction is running that began before the
      // rows were inserted.
      yield* Effect.repeat(vacuum, { until: (found) => found.length > 0, schedule: Schedule.spaced("20 millis") })
      const request = readPage("/v1/intraday-runners?ticker=DEEPR&limit=100&page=12", ultimate)
      const plan = JSON.stringify(yield* StatementRecorder.explainRequest(request, "as page ("))
      assert.include(plan, "Index Only Scan", plan)
    }))
})
