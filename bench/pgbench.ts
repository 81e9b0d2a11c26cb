/** Runs the service's SQL statements with pgbench, to determine the maximum rate that PostgreSQL supports. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { sorts } from "./cases.ts"
import type { WrkResult } from "./wrk.ts"
import { dataFolder, type Postgres } from "./postgres.ts"
import { runToEnd } from "./processes.ts"
import { type Columns, historicalFloat, intradayRunner, screenerRow } from "./servers/columns.ts"

type PgbenchResult = Pick<WrkResult, "perSecond" | "requests"> & {
  readonly average: number
}

const quoteNames = (names: ReadonlyArray<string>) => names.map((name) => `"${name}"`).join(", ")
const selectRow = (columns: Columns) => `row(${quoteNames(Object.keys(columns))})`

/**
 * Returns an SQL expression for the symbol of a ticker. `m` is the scrambled ticker number, computed as in `data.sql`.
 */
const letters = (length: number) =>
  Array.from({ length }, (_, at) => `chr(65 + :m / ${26 ** at} % 26)`).join(
    " || ",
  )

/**
 * Returns pgbench commands that choose a random ticker number `n`, compute its scrambled number `m`, and choose a
 * random number `c`, which makes the filter values of each request different.
 */
const setTicker = (first = 1) =>
  `\\set n random(${first}, ${first + 4999})
\\set m (:n * 7919) % 456976
\\set c random(1000000000, 1999999999)
`

/**
 * The form of `limit` that the service uses to make PostgreSQL plan each request for its parameter values (decision
 * 143).
 */
const plannedLimit = "limit coalesce((:rows)::bigint, (select count(*) from generate_series(1, 1000000000000000)))"

const runners = (limit: string, conditions: ReadonlyArray<string>) =>
  `select ${selectRow(intradayRunner)} from intraday_runners
where ${
    ["(anomaly_flagged and daily_volume_ratio > 9)", ...conditions].join(
      " and ",
    )
  }
order by date desc, ticker ${limit};`

const belowEveryGap = `('-9000.' || (:c)::text)::text::numeric`

const runnersOfTicker = (limit: number, first = 1) =>
  setTicker(first) +
  runners(`limit ${limit + 1}`, [`"ticker" in (${letters(4)})`, `"gap_percentage" >= (select ${belowEveryGap})`])

const setRange = `\\set rows 11
\\set start random(0, 3499)
\\set gap random(0, 99)
\\set top :gap + 20
\\set c random(1000000000, 1999999999)
`

const runnersOfRange = setRange + runners(plannedLimit, [
  `"date" >= date '2017-01-01' + (:start)::int`,
  `"date" <= date '2017-01-31' + (:start)::int`,
  `"gap_percentage" >= ((:gap)::text || '.0000' || (:c)::text)::numeric`,
  `"gap_percentage" <= (:top)::text::numeric`,
])

const today = `(:'today')::date`

const lineage = (first: number, symbols: number) =>
  `\\set n random(${first}, ${first + symbols - 1})
\\set m (:n * 100003) % 308915776
\\set most 25000
with recursive symbols (ticker) as (
  select (${letters(6)})::text
  union
  select neighbour.ticker
  from symbols, lateral (
    select new_ticker as ticker from ticker_changes
    where old_ticker = symbols.ticker and status = 'confirmed' and effective_date <= ${today}
    union all
    select old_ticker from ticker_changes
    where new_ticker = symbols.ticker and status = 'confirmed' and effective_date <= ${today}
  ) as neighbour
)
select event.old_ticker, event.new_ticker, event.effective_date, event.cik, event.company_name
from (select ticker from symbols limit :most) as reached, lateral (
  select old_ticker, new_ticker, effective_date, cik, company_name from ticker_changes
  where old_ticker = reached.ticker and status = 'confirmed' and effective_date <= ${today}
  limit :most
) as event
limit :most;`

const screener = (sort: string) =>
  `\\set rows 11
\\set e random(1, 3)
\\set s random(1, 5)
\\set price random(1, 12)
\\set c random(1000000000, 1999999999)
select ${selectRow(screenerRow)} from screener
where lower("exchange") in (lower((array['NASDAQ', 'NYSE', 'AMEX'])[:e]))
and lower("sector") in (lower((array['Healthcare', 'Technology', 'Energy', 'Industrials', 'Utilities'])[:s]))
and "price" >= ((:price)::text || '.25')::numeric
and "market_cap" <= ('3000000000')::text::numeric
and "gain_30_day" >= ${belowEveryGap}
order by ${sort.startsWith("-") ? `"${sort.slice(1)}" desc` : `"${sort}"`} nulls last, ticker
${plannedLimit};`

const marketCap = `round(filing.outstanding_shares * coalesce(
  (
    select close from daily_prices
    where daily_prices.ticker = filing.ticker and daily_prices.date = filing.reported_date
  ),
  case when filing.reported_date is distinct from (
    select traded.date from daily_prices as traded
    where traded.date >= filing.reported_date order by traded.date limit 1
  ) then (
    select close from daily_prices
    where daily_prices.ticker = filing.ticker and daily_prices.date < filing.reported_date
    order by daily_prices.date desc limit 1
  ) end
), 2)`
const newest = "reported_date desc nulls last, filed_at desc, ticker, form_type, document_url"
const float = `${setTicker()}select ${selectRow(historicalFloat)} from (
  select * from (
    select ${quoteNames(Object.keys(historicalFloat).filter((name) => name !== "market_cap"))} from (
      select *, "float" - restricted_shares as tradable_float, ${marketCap} as market_cap
      from historical_float_pro as filing
    ) as computed
    where "ticker" in (${letters(4)}) and "float" >= (select ('-' || (:c)::text)::text::numeric)
  ) as matching
  order by ${newest} limit 11
) as filing cross join lateral (select ${marketCap} as market_cap) as worth
order by ${newest};`

/** The pgbench scripts for each case. pgbench chooses one of them at random for each transaction. */
const scripts: Readonly<Record<string, ReadonlyArray<string>>> = {
  "runners-0": [runnersOfTicker(10, 5001)],
  "runners-10": [runnersOfTicker(10)],
  "runners-100": [runnersOfTicker(100)],
  "runners-range": [runnersOfRange],
  "lineage-3": [lineage(0, 200_000)],
  "lineage-12": [lineage(200_000, 650_000)],
  screener: sorts.map(screener),
  float: [float],
}

/**
 * The maximum number of connections, which equals the pool size of the servers. More connections would only make
 * PostgreSQL slower.
 */
const mostConnections = 10

/** Runs the pgbench scripts of a case. Throws if pgbench fails. */
export const runPgbench = async (
  { password, port }: Postgres,
  name: string,
  connections: number,
  seconds: number,
): Promise<PgbenchResult> => {
  const folder = join(dataFolder, "requests")
  mkdirSync(folder, { recursive: true })
  const files = (scripts[name] ?? []).flatMap((text, at) => {
    const file = join(folder, `${name}-${at}.sql`)
    writeFileSync(
      file,
      text.replaceAll(
        ":'today'",
        `'${new Date().toISOString().slice(0, 10)}'::text`,
      ),
    )
    return ["-f", file]
  })
  const server = ["-h", "127.0.0.1", "-p", String(port), "-U", "bench"]
  const printed = await runToEnd({
    program: "pgbench",
    args: [
      ...server,
      "-n",
      "-M",
      "prepared",
      "-c",
      String(Math.min(connections, mostConnections)),
      "-j",
      "1",
      "-T",
      String(seconds),
      ...files,
      "bench",
    ],
    env: { PGPASSWORD: password },
  })
  const found = (pattern: RegExp) => Number(pattern.exec(printed)?.[1] ?? Number.NaN)
  const perSecond = found(/^tps = ([\d.]+)/m)
  if (!(perSecond > 0)) {
    throw new Error(`pgbench printed no result:\n${printed}`)
  }
  return {
    perSecond,
    requests: found(/actually processed: (\d+)/),
    average: found(/^latency average = ([\d.]+)/m),
  }
}
