/**
 * Converts the benchmark cases to GraphQL queries for PostGraphile, and compares PostGraphile's responses with
 * Tickerline's.
 */
import { authorizationHeaders, sendRequest } from "../httpClient.ts"
import { type BenchmarkCase, counterPlaceholder, type QueryParameters, requestTarget } from "../cases.ts"
import type { RequestFormatter } from "../requestFiles.ts"
import { type Columns, historicalFloat, intradayRunner, screenerRow } from "./columns.ts"
import { formatEasternWallClock, formatNewYorkWallClock } from "./times.ts"

/** The names that PostGraphile uses for a table, and how the endpoint reads the table. */
interface Table {
  readonly field: string
  readonly filter: string
  readonly columns: Columns
  /** Conditions that the endpoint always applies. */
  readonly fixed: Readonly<Record<string, object>>
  readonly order: (sort: string) => string
  /** Computed columns, which PostGraphile cannot return without additional SQL functions. */
  readonly missing: ReadonlyArray<string>
}

const tables: Readonly<Record<string, Table>> = {
  "/v1/intraday-runners": {
    field: "allIntradayRunners",
    filter: "IntradayRunnerFilter",
    columns: intradayRunner,
    fixed: {
      anomalyFlagged: { equalTo: true },
      dailyVolumeRatio: { greaterThan: "9" },
    },
    order: () => "DATE_DESC, TICKER_ASC",
    missing: [],
  },
  "/v1/screener": {
    field: "allScreeners",
    filter: "ScreenerFilter",
    columns: screenerRow,
    fixed: {},
    order: (sort) => {
      const word = sort.replace("-", "").toUpperCase()
      return `${word}_${sort.startsWith("-") ? "DESC" : "ASC"}, TICKER_ASC`
    },
    missing: [],
  },
  "/v1/historical-float-pro": {
    field: "allHistoricalFloatPros",
    filter: "HistoricalFloatProFilter",
    columns: historicalFloat,
    fixed: {},
    order: () => "REPORTED_DATE_DESC, FILED_AT_DESC, TICKER_ASC, FORM_TYPE_ASC, DOCUMENT_URL_ASC",
    missing: ["tradable_float", "market_cap"],
  },
}

/** Returns whether the case can be converted to a GraphQL query for PostGraphile. */
export const canExpress = ({ path }: BenchmarkCase) => tables[path] !== undefined

const tableOf = ({ path }: BenchmarkCase) => {
  const table = tables[path]
  if (table === undefined) {
    throw new Error(`PostGraphile cannot express ${path}`)
  }
  return table
}

/** Returns PostGraphile's field name for a column. For example, `gain_1_day` becomes `gain1Day`. */
const fieldOf = (column: string) =>
  column.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())
    .replace(/\d[a-z]/g, (pair) => pair.toUpperCase())

const conditionOf = (
  name: string,
  value: string,
): readonly [column: string, condition: object] =>
  name.startsWith("min_")
    ? [name.slice(4), { greaterThanOrEqualTo: value }]
    : name.startsWith("max_")
    ? [name.slice(4), { lessThanOrEqualTo: value }]
    : name.endsWith("_from")
    ? [name.slice(0, -5), { greaterThanOrEqualTo: value }]
    : name.endsWith("_to")
    ? [name.slice(0, -3), { lessThanOrEqualTo: value }]
    : [name, { equalTo: value }]

const filterOf = (
  { fixed }: Table,
  { limit: _limit, sort: _sort, ...filters }: QueryParameters,
) => {
  const filter: Record<string, object> = { ...fixed }
  for (const [name, value] of Object.entries(filters)) {
    const [column, condition] = conditionOf(name, value)
    filter[fieldOf(column)] = { ...filter[fieldOf(column)], ...condition }
  }
  return filter
}

const bodyOf = (table: Table, parameters: QueryParameters) => {
  const shown = Object.keys(table.columns).filter((column) => !table.missing.includes(column)).map(fieldOf)
  const order = table.order(parameters["sort"] ?? "ticker")
  const query = `query ($filter: ${table.filter}!, $first: Int!) { ${table.field}(first: $first, filter: $filter, ` +
    `orderBy: [${order}]) { nodes { ${shown.join(" ")} } pageInfo { hasNextPage } } }`
  const variables = {
    filter: filterOf(table, parameters),
    first: Number(parameters["limit"] ?? 10),
  }
  return JSON.stringify({ query, variables }).replaceAll("\\u001a", counterPlaceholder)
}

/** Formats an HTTP request for PostGraphile. */
export const formatGraphQLRequest: RequestFormatter = (benchmarkCase, parameters) => {
  const body = bodyOf(tableOf(benchmarkCase), parameters)
  return [
    "POST /graphql HTTP/1.1",
    "Host: 127.0.0.1",
    "Accept: application/json",
    "Content-Type: application/json",
    `Content-Length: ${body.replaceAll(counterPlaceholder, "0123456789").length}`,
    "",
    body,
  ].join("\r\n")
}

/** Converts a value to the format of Tickerline's responses. */
const convertValue = (value: unknown, kind: Columns[string] | undefined) => {
  if (value === null || value === undefined) return null
  if (kind === "decimal" || kind === "whole") return Number(value)
  if (kind === "eastern") return formatEasternWallClock(String(value).slice(0, 19))
  return kind === "newYork" ? formatNewYorkWallClock(String(value).replace("T", " ").slice(0, 19)) : value
}

interface Page {
  readonly nodes: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly pageInfo: { readonly hasNextPage: boolean }
}

interface GraphQLResponse {
  readonly data: Readonly<Record<string, Page>> | null
  readonly errors?: unknown
}

interface RestResponse {
  readonly results: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly has_more: boolean
}

/**
 * Compares the responses of PostGraphile and Tickerline. Throws if they contain different rows or values. Returns the
 * average size of PostGraphile's response bodies, and notes on formatting differences.
 *
 * @param graphql the port of PostGraphile
 * @param other the port of Tickerline
 */
export const compareWithTickerline = async (
  graphql: number,
  other: number,
  benchmarkCase: BenchmarkCase,
  sample: Readonly<Record<"popular" | "misses", ReadonlyArray<QueryParameters>>>,
  key: string,
) => {
  const table = tableOf(benchmarkCase)
  let bytes = 0
  const all = [...sample.popular, ...sample.misses]
  for (const parameters of all) {
    const json = {
      "content-type": "application/json",
      accept: "application/json",
    }
    const { body } = await sendRequest(graphql, "/graphql", json, bodyOf(table, parameters))
    bytes += body.length
    const { data, errors }: GraphQLResponse = JSON.parse(body.toString())
    const page = data?.[table.field]
    if (page === undefined) {
      throw new Error(`PostGraphile returned ${JSON.stringify(errors)}`)
    }
    const expectedPage: RestResponse = JSON.parse(
      (await sendRequest(other, requestTarget(benchmarkCase, parameters), authorizationHeaders(key))).body.toString(),
    )
    const columns = Object.keys(table.columns).filter((column) => !table.missing.includes(column))
    const returned = page.nodes.map((node) =>
      columns.map((name) => convertValue(node[fieldOf(name)], table.columns[name]))
    )
    const expected = expectedPage.results.map((row) => columns.map((name) => row[name] ?? null))
    const [left, right] = [[returned, page.pageInfo.hasNextPage], [
      expected,
      expectedPage.has_more,
    ]].map((both) => JSON.stringify(both))
    if (left !== right) {
      throw new Error(
        `PostGraphile returns different rows for ${requestTarget(benchmarkCase, parameters)}:\n${left}\n${right}`,
      )
    }
  }
  const form =
    "PostGraphile writes numbers as text with trailing zeros and times without a zone; converted, its rows are " +
    "the same."
  const lacks = table.missing.length === 0 ? [] : [
    `PostGraphile's responses to ${benchmarkCase.name} lack ${table.missing.join(" and ")}.`,
  ]
  return { bytes: bytes / all.length, notes: [form, ...lacks] }
}
