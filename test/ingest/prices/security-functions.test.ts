/** Tests how many rows the SQL functions about securities look up (`sql/schema/47_securities.sql`). */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { NodeServices } from "@effect/platform-node"
import { SqlClient } from "effect/sql"
import * as Service from "../../support/Service.ts"
import * as DayBars from "./DayBars.ts"

const TestLayer = Layer.merge(Service.migratedDatabaseLayer, NodeServices.layer)

const functions = [
  "security_periods",
  "security_splits",
  "find_newest_closes",
  "find_share_counts",
  "find_market_caps",
] as const

/** The number of symbols in the smaller call. The larger one has four times as many. */
const symbolCount = 150

layer(TestLayer, { excludeTestServices: true })("The SQL functions about securities", (it) => {
  it.effect.each(functions)(
    "%s looks up no more rows per symbol if there are more symbols (§8)",
    (name) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* DayBars.emptyTables
        const all = symbolCount * 4
        yield* sql`
        insert into price_periods (ticker, date, period, open, high, low, close, volume)
        select 'MANY' || n, '2026-06-01', 'regular', 10, 10, 10, 10, 1000 from generate_series(1, ${all}::int) as n
      `
        yield* sql`
        insert into screener (ticker, outstanding, is_adr, pending_s1, last_updated)
        select 'MANY' || n, 1000000, false, false, '2026-05-01 10:00:00' from generate_series(1, ${all}::int) as n
      `
        const countLookups = Effect.map(
          sql<{ readonly lookups: number }>`
          select sum(coalesce(idx_scan, 0) + seq_scan)::float8 as lookups from pg_stat_xact_user_tables
        `,
          ([total]) => total?.lookups ?? NaN,
        )
        const call = Effect.fnUntraced(function* (count: number) {
          const before = yield* countLookups
          const [found] = yield* sql<{ readonly rows: number }>`
          select count(*)::float8 as rows from ${sql.literal(name)}(
            array(select 'MANY' || n from generate_series(1, ${count}::int) as n), '2026-06-02'
          )
        `
          // No split is stored.
          assert.strictEqual(found?.rows, name === "security_splits" ? 0 : count)
          return (yield* countLookups) - before
        })
        const [few, many] = yield* sql.withTransaction(Effect.all([call(symbolCount), call(all)]))
        assert.isAbove(few, 0)
        // Four times as many symbols would need sixteen times as many lookups if each symbol were compared with all others.
        assert.isAtMost(many, few * 8)
      }),
  )
})
