/**
 * The handwritten endpoints of the Fastify and Express servers: parameters, SQL, and handlers. If SQL=tickerline is
 * set, runners are read with the same statement that Tickerline uses.
 */
import process from "node:process"
import { type Columns, historicalFloat, intradayRunner, screenerRow } from "./columns.ts"
import { type Row, runNamedStatement } from "./database.ts"
import type { Endpoint, Query } from "./endpoint.ts"
import { lineage } from "./lineage.ts"
import { formatEasternWallClock, formatNewYorkWallClock } from "./times.ts"

/** The gzip level. All servers use Tickerline's level, so that the amount of work is the same. */
export const gzipLevel = 4

const paging = {
  page: { type: "integer", minimum: 1, default: 1 },
  limit: { type: "integer", minimum: 1, maximum: 100, default: 10 },
}
const tickers = { type: "string", pattern: "^[A-Z0-9.^,-]+$" }
const word = { type: "string", minLength: 1 }
const day = { type: "string", pattern: "^\\d{4}-\\d{2}-\\d{2}$" }
const number = { type: "number" }

const jsonOf = {
  decimal: "number",
  whole: "integer",
  flag: "boolean",
  text: "string",
  eastern: "string",
  newYork: "string",
}

const rowSchema = (columns: Columns) => ({
  type: "object",
  properties: Object.fromEntries(
    Object.entries(columns).map(([name, kind]) => [
      name,
      kind === "words" ? { type: "array", items: { type: "string" } } : { type: jsonOf[kind], nullable: true },
    ]),
  ),
})

/** Returns the JSON Schema of a page of a list. */
const pageSchema = (columns: Columns) => ({
  type: "object",
  properties: {
    count: { type: "integer" },
    results: { type: "array", items: rowSchema(columns) },
    page: { type: "integer" },
    limit: { type: "integer" },
    has_more: { type: "boolean" },
  },
})

/** The definition of an endpoint that returns a list. */
interface List {
  readonly path: string
  readonly columns: Columns
  /** The schema and the SQL condition of each filter. In the condition, `?` stands for the value. */
  readonly filters: Readonly<
    Record<string, readonly [schema: object, condition: string]>
  >
  readonly sorts?: ReadonlyArray<string>
  /** Whether limit and offset are written into the statement as literals instead of being passed as parameters. */
  readonly hasLiteralPage?: boolean
  /** Builds the complete SQL statement. */
  readonly text: (conditions: string, page: string, sort: string) => string
}

const parameterPage = (parameters: number) => `limit $${parameters + 1} offset $${parameters + 2}`
const literalPage = (limit: number, offset: number) => `limit ${limit}${offset === 0 ? "" : ` offset ${offset}`}`

/**
 * Returns a function that returns the SQL statement of a list for a query. `names` are the filters that the query has.
 * Each statement has a name, under which PostgreSQL prepares it, so that it is planned only once. There is one for each
 * combination of filters, order, and, if they are written into the statement, limit and offset.
 */
const makeStatements = ({ filters, hasLiteralPage = false, text }: List) => {
  const known = new Map<
    string,
    { readonly name: string; readonly text: string }
  >()
  return (query: Query, names: ReadonlyArray<string>, path: string, limit: number, offset: number) => {
    const hasSeveralTickers = String(query["ticker"] ?? "").includes(",")
    const page = hasLiteralPage ? literalPage(limit, offset) : parameterPage(names.length)
    const key = `${hasSeveralTickers} ${query["sort"]} ${names} ${page}`
    const found = known.get(key)
    if (found !== undefined) return found
    const conditions = names.map((name, at) => {
      const isTickerList = hasSeveralTickers && name === "ticker"
      const condition = isTickerList ? "ticker = any (string_to_array(?, ','))" : filters[name]?.[1]
      return (condition ?? "true").replace("?", `$${at + 1}`)
    })
    const statement = {
      name: `${path} ${known.size}`,
      text: text(
        ["true", ...conditions].join(" and "),
        page,
        String(query["sort"] ?? ""),
      ),
    }
    known.set(key, statement)
    return statement
  }
}

/**
 * Creates the endpoint for a list: the JSON Schemas of its parameters and its response, and the handler that reads a
 * page. One row more than `limit` is read, which shows whether there is a next page.
 */
const makeListEndpoint = (definition: List): Endpoint => {
  const getStatement = makeStatements(definition)
  const names = Object.keys(definition.filters)
  const easternColumns = Object.keys(definition.columns).filter((name) => definition.columns[name] === "eastern")
  const newYorkColumns = Object.keys(definition.columns).filter((name) => definition.columns[name] === "newYork")

  const print = (row: Row) => {
    for (const name of easternColumns) {
      if (row[name] !== null) row[name] = formatEasternWallClock(String(row[name]))
    }
    for (const name of newYorkColumns) {
      if (row[name] !== null) row[name] = formatNewYorkWallClock(String(row[name]))
    }
    return row
  }

  return {
    path: definition.path,
    query: {
      ...Object.fromEntries(
        Object.entries(definition.filters).map(([name, [schema]]) => [name, schema]),
      ),
      ...(definition.sorts === undefined ? {} : { sort: { enum: definition.sorts, default: "ticker" } }),
      ...paging,
    },
    response: pageSchema(definition.columns),
    handle: async (query) => {
      const sent = names.filter((name) => query[name] !== undefined)
      const [page, limit] = [Number(query["page"]), Number(query["limit"])]
      const range = [limit + 1, (page - 1) * limit] as const
      const { name, text } = getStatement(query, sent, definition.path, ...range)
      const values = sent.map((name) => query[name])
      const rows = await runNamedStatement(
        name,
        text,
        definition.hasLiteralPage === true ? values : [...values, ...range],
      )
      const results = rows.slice(0, limit).map(print)
      return {
        count: results.length,
        results,
        page,
        limit,
        has_more: rows.length > limit,
      }
    },
  }
}

const quoteColumns = (columns: Columns) => Object.keys(columns).map((name) => `"${name}"`).join(", ")

const bounds = (...names: ReadonlyArray<string>) =>
  Object.fromEntries(names.flatMap((name) => [
    [`min_${name}`, [number, `"${name}" >= ?::numeric`] as const],
    [`max_${name}`, [number, `"${name}" <= ?::numeric`] as const],
  ]))

const days = (column: string) => ({
  [`${column}_from`]: [day, `${column} >= ?::date`] as const,
  [`${column}_to`]: [day, `${column} <= ?::date`] as const,
})

const screenerSorts = Object.entries(screenerRow).flatMap(([name, kind]) =>
  name === "ticker" || kind === "decimal" || kind === "whole" ? [name, `-${name}`] : []
)

const direction = (sort: string) =>
  sort.startsWith("-") ? `"${sort.slice(1)}" desc nulls last, ticker` : `"${sort}" nulls last, ticker`

/**
 * Returns filters for bigint columns. The values are cast to bigint, because otherwise PostgreSQL could not use an
 * index.
 */
const wholeBounds = (...names: ReadonlyArray<string>) =>
  Object.fromEntries(names.flatMap((name) => [
    [`min_${name}`, [{ type: "integer" }, `"${name}" >= ?::bigint`] as const],
    [`max_${name}`, [{ type: "integer" }, `"${name}" <= ?::bigint`] as const],
  ]))

const ofTicker = { ticker: [tickers, "ticker = ?"] as const }
const newestFiling = "reported_date desc nulls last, filed_at desc, ticker, form_type, document_url"

const runners: List = {
  path: "/v1/intraday-runners",
  columns: intradayRunner,
  filters: {
    ...ofTicker,
    date: [day, "date = ?::date"],
    ...days("date"),
    ...bounds("gap_percentage"),
  },
  text: (conditions, page) =>
    `select ${quoteColumns(intradayRunner)} from intraday_runners
     where anomaly_flagged and daily_volume_ratio > 9 and ${conditions} order by date desc, ticker ${page}`,
}

/** The runners endpoint with Tickerline's SQL. The subqueries hide the filter values from PostgreSQL's planner. */
const runnersWithTickerlineSql: List = {
  ...runners,
  filters: {
    ticker: [tickers, `"ticker" in (?)`],
    date: [day, `"date" = (select ?::text::date)`],
    date_from: [day, `"date" >= (select ?::text::date)`],
    date_to: [day, `"date" <= (select ?::text::date)`],
    min_gap_percentage: [number, `"gap_percentage" >= (select ?::text::numeric)`],
    max_gap_percentage: [number, `"gap_percentage" <= (select ?::text::numeric)`],
  },
  hasLiteralPage: true,
}

/** All endpoints of the handwritten servers. */
export const endpoints: ReadonlyArray<Endpoint> = [
  makeListEndpoint(process.env["SQL"] === "tickerline" ? runnersWithTickerlineSql : runners),
  makeListEndpoint({
    path: "/v1/screener",
    columns: screenerRow,
    filters: {
      ...ofTicker,
      exchange: [word, "exchange = ?"],
      sector: [word, "sector = ?"],
      ...bounds(
        "price",
        "market_cap",
        "short_float",
        "gain_1_day",
        "gain_30_day",
      ),
      ...wholeBounds("outstanding", "float", "average_volume", "today_volume"),
    },
    sorts: screenerSorts,
    text: (conditions, page, sort) =>
      `select ${quoteColumns(screenerRow)} from screener where ${conditions} order by ${direction(sort)} ${page}`,
  }),
  makeListEndpoint({
    path: "/v1/historical-float-pro",
    columns: historicalFloat,
    filters: {
      ...ofTicker,
      ...wholeBounds("float", "outstanding_shares"),
      ...days("reported_date"),
    },
    text: (conditions, page) =>
      `select ${quoteColumns(historicalFloat)} from (
         select *, "float" - restricted_shares as tradable_float from historical_float_pro
         where ${conditions} order by ${newestFiling} ${page}
       ) as filing left join lateral (
         select round(close * outstanding_shares, 2) as market_cap from daily_prices as price
         where price.ticker = filing.ticker and price.date <= filing.reported_date
         order by price.date desc limit 1
       ) as worth on true order by ${newestFiling}`,
  }),
  lineage,
]
