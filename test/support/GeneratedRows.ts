/**
 * Fills the dataset tables with many rows, which PostgreSQL generates according to the column types.
 *
 * ```ts
 * const service = Layer.effectDiscard(GeneratedRows.fillAllTables(1_000)).pipe(
 *   Layer.provideMerge(ServiceInstances.databaseWithKeysLayer),
 * )
 * ```
 */
import { Effect, Predicate } from "effect"
import { SqlClient } from "effect/sql"
import { type LoadableDataset, loadableDatasets } from "../../src/contract/Datasets.ts"
import { readLoadableColumns } from "../../src/ingest/load/LoadingTable.ts"
import { describeColumns } from "../../src/ingest/load/DatasetDescription.ts"

/** The number of tickers in tables that have several rows per ticker. */
const tickerCount = 2_000

/**
 * Returns the SQL expression for a column's value in row `g`. Columns with different values of `pace` are uncorrelated.
 */
const makeValueExpression = (type: string, words: ReadonlyArray<string>, pace: number, isList: boolean) => {
  const number = `((g * ${pace}) % 1000003)`
  if (type === "boolean") return `${number} % 10 = 0`
  if (words.length > 1) {
    return `(array[${words.map((word) => `'${word}'`).join(", ")}])[1 + ${number} % ${words.length}]`
  }
  if (isList) return `array['tag' || ${number} % 500]`
  if (type === "date") return `date '2014-01-01' + (${number} % 4000)::int`
  if (type.startsWith("timestamp")) return `timestamp '2014-01-01' + make_interval(mins => ${number}::int)`
  if (type.startsWith("numeric")) return `${number} / 100.0`
  if (type === "bigint") return number
  return `'text ' || md5((${number})::text)`
}

/**
 * Adjusts a price so that a high is above all other prices, which are at most 10,000.03, and a low is below them (D34).
 */
const makeRangeExpression = (column: string, value: string) =>
  /^high_(?!time)|_high$/.test(column)
    ? `${value} + 10001`
    : /^low_(?!time)|_low$/.test(column)
    ? `0.0001 + ${value} / 1000000`
    : value

/** SQL expressions for columns whose values must satisfy a key or check constraint. */
const specialExpressions: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  ticker_changes: {
    old_ticker: `'O' || g`,
    new_ticker: `'N' || g`,
    cik: `lpad((g % 100000)::text, 10, '0')`,
    status: `'confirmed'`,
  },
  historical_tickers: { former_ticker: `'F' || g` },
  intraday_runners: { daily_volume_ratio: "10 + g % 90", anomaly_flagged: "true" },
  dilution_data: Object.fromEntries(
    [
      "conversion_price",
      "conversion_price_type",
      "offering_amount",
      "convertible_debt_remaining",
      "interest_rate_percentage",
      "convertible_date",
      "maturity_date",
    ]
      .map((column) => [column, "null"]).concat([["security_type", "'warrant'"]]),
  ),
  news: { form_type: `(array['news', '8-K', 'S-3'])[1 + g % 3]` },
}

/** A SQL expression for one link, two links or null. */
const linksExpression = `case when g % 3 > 0 then
  (array['https://filings.example/' || g || '#a', 'https://filings.example/"' || g || '"'])[:(g % 3)::int] end`

/** A SQL expression for two uppercase letters, like an ISO 3166 alpha-2 code. */
const countryExpression = `chr(65 + (g % 26)::int) || chr(65 + (g / 26 % 26)::int)`

const makeTickerExpression = ({ key }: LoadableDataset) =>
  key.length === 1 && key[0] === "ticker" ? `'T' || g` : `'T' || g % ${tickerCount}`

/**
 * Returns the SQL expression for a key column. Each ticker has one row per day, so pairs of ticker and day are unique.
 */
const makeKeyExpression = (dataset: LoadableDataset, column: string, type: string) => {
  if (column === "ticker") return makeTickerExpression(dataset)
  if (!dataset.key.includes(column)) return undefined
  if (type === "date") return `date '2014-01-01' + (g / ${tickerCount})::int`
  return type === "text" ? `'key ' || g` : undefined
}

/**
 * Runs an insert without recording history, which halves its duration. The service treats such rows as older than the
 * history.
 */
export const skipHistory = Effect.fnUntraced(function* <A, E, R>(table: string, insert: Effect.Effect<A, E, R>) {
  const sql = yield* SqlClient.SqlClient
  yield* sql.withTransaction(Effect.gen(function* () {
    for (const name of ["begin", "insert", "written"]) {
      yield* sql.unsafe(`alter table ${table} disable trigger history_${name}`)
    }
    yield* insert
    for (const name of ["begin", "insert", "written"]) {
      yield* sql.unsafe(`alter table ${table} enable always trigger history_${name}`)
    }
  }))
})

/** Returns a statement that inserts the rows numbered from `first` to `last`. */
export const makeInsert = Effect.fnUntraced(function* (dataset: LoadableDataset, first: number, last: number) {
  const { table } = dataset
  const columns = yield* readLoadableColumns(table)
  const known = Object.fromEntries(describeColumns(dataset).map(({ name, type }) => [name, type]))
  const values = columns.map(({ is_list, name, type }, at) => {
    const words = known[name]?.split(" | ") ?? []
    const key = words.length > 1 ? undefined : makeKeyExpression(dataset, name, type)
    if (known[name] === "list of links") return linksExpression
    return specialExpressions[table]?.[name] ?? (name === "country" ? countryExpression : key) ??
      makeRangeExpression(name, makeValueExpression(type, words, 7919 + at * 104, is_list))
  })
  const names = columns.map(({ name }) => `"${name}"`).join(", ")
  return `insert into ${table} (${names}) select ${values.join(", ")} from generate_series(${first}, ${last}) as g`
})

/** Inserts rows. The service treats rows that are not recorded in the history as older than the history. */
export const fillTable = Effect.fnUntraced(function* (dataset: LoadableDataset, rows: number, isRecorded = true) {
  const sql = yield* SqlClient.SqlClient
  const insert = sql.unsafe(yield* makeInsert(dataset, 1, rows))
  // The session's statement timeout is intended for readers. On a busy machine, this insert may take longer.
  yield* sql.withTransaction(Effect.gen(function* () {
    yield* sql`set local statement_timeout = 0`
    yield* isRecorded ? insert : skipHistory(dataset.table, insert)
    yield* sql.unsafe(`analyze ${dataset.table}`)
  }))
})

/** Inserts rows into every dataset table. */
export const fillAllTables = (rows: number, isRecorded = false) =>
  Effect.forEach(loadableDatasets, (dataset) => fillTable(dataset, rows, isRecorded), { discard: true })

/** Returns the tables on which a query plan performs sequential scans. */
export const findSequentialScans = (plan: unknown): ReadonlyArray<string> => {
  if (Array.isArray(plan)) return plan.flatMap(findSequentialScans)
  if (!Predicate.isObject(plan)) return []
  const own = Reflect.get(plan, "Node Type") === "Seq Scan" ? [String(Reflect.get(plan, "Relation Name"))] : []
  return [...own, ...Object.values(plan).flatMap(findSequentialScans)]
}
