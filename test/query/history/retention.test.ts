/** Tests the `history` job, which creates new monthly partitions and drops old ones (operations/history). */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Logger, Schedule, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../../src/postgres/DecodeRows.ts"
import { HealthProbe } from "../../../src/postgres/health/HealthProbe.ts"
import { historyPartitionsJob } from "../../../src/query/history/HistoryRetention.ts"
import { jobRunnerLayer } from "../../../src/postgres/jobs/JobRunner.ts"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import * as Service from "../../support/Service.ts"

const database = Service.migratedDatabaseLayer.pipe(
  Layer.provideMerge(Layer.mergeAll(NodeServices.layer, NodeCrypto.layer)),
)

/** Runs the job in the same way as a service process until the condition is true. */
const runUntil = Effect.fnUntraced(function* <R>(
  settings: Readonly<Record<string, string>>,
  expectation: string,
  condition: Effect.Effect<boolean, unknown, R>,
) {
  yield* Layer.build(
    Layer.fresh(jobRunnerLayer([historyPartitionsJob])).pipe(
      Layer.provide(Layer.fresh(HealthProbe.layer)),
      Layer.provide(ConfigProvider.layerAdd(ConfigProvider.fromUnknown(settings), { asPrimary: true })),
      Layer.provide(Logger.layer([])),
    ),
  )
  yield* condition.pipe(
    Effect.filterOrFail((isMet) => isMet, () => `timed out waiting until ${expectation}`),
    Effect.retry({ schedule: Schedule.spaced("20 millis"), times: 1_000 }),
  )
}, Effect.scoped)

const decodeMonths = decodeRows(Schema.Struct({ month: Schema.String, tables: Schema.Int }))

/** Reads the months that have partitions, each with the number of tables that have one, such as `2020-03 18`. */
const readMonths = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const months = yield* decodeMonths(sql`
    select replace(right(relname, 7), '_', '-') as month, count(*)::int as tables
    from pg_inherits join pg_class on pg_class.oid = inhrelid
    where inhparent in (
      select format('history.%I', whole)::regclass
      from (select 'changes' as whole union all select dataset from history.datasets) as tables
    )
    group by 1 order by 1
  `)
  return months.map(({ month, tables }) => `${month} ${tables}`)
})

const decodeMonth = decodeRows(Schema.Struct({ month: Schema.String }))

const readCurrentMonth = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.map(
    decodeMonth(sql`select to_char(month, 'YYYY-MM') as month from history.current_month`),
    ([row]) => row?.month,
  ))

const isStarted = Effect.map(readCurrentMonth, (month) => month !== "2020-03")

layer(database, { excludeTestServices: true, timeout: "120 seconds" })("The job history", (it) => {
  it.effect("starts a new month, and drops months older than HISTORY_RETENTION after five minutes (operations/history)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const thisMonth = (yield* readCurrentMonth) ?? ""
      // The dataset tables, plus the history's tables for changes and for company symbols.
      const tables = loadableDatasets.length + 2
      // Simulates a database that no service has used since March 2020.
      yield* sql`
        select create_month_partition(('history.' || whole)::regclass, '2020-03-01')
        from (select 'changes' as whole union all select dataset from history.datasets) as tables
      `
      for (const whole of ["changes", ...loadableDatasets.map(({ table }) => table)]) {
        yield* sql.unsafe(`drop table history.${whole}_${thisMonth.replace("-", "_")}`)
      }
      yield* sql`update history.current_month set month = '2020-03-01'`
      yield* sql`insert into daily_prices (ticker, date, close) values ('OLD', '2020-03-02', 1)`
      yield* sql`update history.transactions set recorded_at = '2020-03-02T00:00:00Z'`
      yield* sql`update history.beginning set earliest = '2020-03-01T00:00:00Z', moved_at = '2020-03-01T00:00:00Z'`

      yield* runUntil({}, "the month is started", isStarted)
      assert.deepStrictEqual(yield* readMonths, [`2020-03 ${tables}`, `${thisMonth} ${tables}`], "kept forever")

      const hasMoved = Effect.map(
        sql`select from history.beginning where earliest = '2020-04-01T00:00:00Z'`,
        (rows) => rows.length > 0,
      )
      yield* runUntil({ HISTORY_RETENTION: "31 days" }, "the beginning of the history has moved", hasMoved)
      assert.deepStrictEqual(yield* readMonths, [`2020-03 ${tables}`, `${thisMonth} ${tables}`])

      yield* sql`update history.beginning set moved_at = moved_at - interval '5 minutes'`
      yield* runUntil(
        { HISTORY_RETENTION: "31 days" },
        "the month is dropped",
        Effect.map(readMonths, (months) => months.length === 1),
      )
      assert.deepStrictEqual(yield* readMonths, [`${thisMonth} ${tables}`])
    }))

  it.effect("keeps the last 31 days, whatever a service asks for (operations/history)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const drop = (moment: string | null) => sql`select history.drop_before(${moment}::text::timestamptz)`
      for (const moment of ["infinity", "now", null]) {
        const { reason } = yield* Effect.flip(drop(moment))
        assert.match(String(reason.cause), /the history of the last 31 days cannot be dropped/, String(moment))
      }
      yield* drop("2020-01-01T00:00:00Z")
    }))
})
