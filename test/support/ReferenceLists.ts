/**
 * A simple, independent implementation of the lists, against which tests compare the service. For each request, it
 * builds the SQL from scratch, reads all rows through `SqlClient`, and encodes them with their schemas.
 */
import { Clock, Effect, Predicate, Result, Schema } from "effect"
import { HttpApi } from "effect/http-api"
import { SqlClient, type Statement } from "effect/sql"
import { type AdmittedRequest, makeHandler } from "../../src/query/EndpointHandler.ts"
import { Api } from "../../src/contract/Api.ts"
import type { CurrentAccount } from "../../src/contract/Authentication.ts"
import { endpointsByDataset } from "../../src/api/catalogue/DatasetEndpoints.ts"
import { StatementParameter } from "../../src/postgres/CompiledStatement.ts"
import { DatabaseReader } from "../../src/postgres/DatabaseReader.ts"
import { LineageResolver } from "../../src/query/lineage/LineageResolver.ts"
import { ListEndpointFactory } from "../../src/query/lists/ListEndpoints.ts"
import type { ListClauses, ListDefinition, ListQueryShape } from "../../src/query/lists/ListDefinition.ts"
import { getColumnNames, type RowModel } from "../../src/contract/rows/RowModel.ts"
import { QueryNow } from "../../src/contract/rules/Dates.ts"
import {
  type DecodedQuery,
  type FilterOperator,
  getFilterDeclaration,
} from "../../src/contract/rules/FilterDeclarations.ts"
import { type PagingQuery, unlimitedRowCount } from "../../src/contract/rules/Paging.ts"
import { findDroppedTickers, isTickerList } from "../../src/contract/rules/Tickers.ts"
import {
  type QueryCodec,
  queryParseOptions,
  type RawSearchParameters,
} from "../../src/contract/rules/QueryValidation.ts"
import { accountHandlers } from "../../src/api/endpoints/account.ts"
import { afterhoursStatsHandlers } from "../../src/api/endpoints/afterhours-stats.ts"
import { makeDatasetsHandlers } from "../../src/api/endpoints/datasets.ts"
import { dilutionDataHandlers } from "../../src/api/endpoints/dilution-data.ts"
import { floatOutstandingHandlers } from "../../src/api/endpoints/float-outstanding.ts"
import { gapStatsHandlers } from "../../src/api/endpoints/gap-stats.ts"
import { historicalFloatProHandlers } from "../../src/api/endpoints/historical-float-pro.ts"
import { intradayRunnersHandlers } from "../../src/api/endpoints/intraday-runners.ts"
import { nasdaqComplianceHandlers } from "../../src/api/endpoints/nasdaq-compliance.ts"
import { newsHandlers } from "../../src/api/endpoints/news.ts"
import { Owner, OwnershipFilingHeader, OwnershipRow } from "../../src/contract/endpoints/ownership.ts"
import { ownershipHandlers } from "../../src/api/endpoints/ownership.ts"
import { premarketStatsHandlers } from "../../src/api/endpoints/premarket-stats.ts"
import { pumpAndDumpTrackerHandlers } from "../../src/api/endpoints/pump-and-dump-tracker.ts"
import { registrationsHandlers } from "../../src/api/endpoints/registrations.ts"
import { researchReportsHandlers } from "../../src/api/endpoints/research-reports.ts"
import { screenerHandlers } from "../../src/api/endpoints/screener.ts"
import { splitStatusHandlers } from "../../src/api/endpoints/split-status.ts"
import { timelineHandlers } from "../../src/api/endpoints/timeline.ts"
import { usageHandlers } from "../../src/api/endpoints/usage.ts"
import { makeApiRequest } from "./ApiRequests.ts"

// ----------------------------------------------------------------------------------------------------------------
// Rows
// ----------------------------------------------------------------------------------------------------------------

/** Returns the CSV cell for a JSON value without using the service's code. */
export const encodeReferenceCell = (json: string) => {
  const value: unknown = JSON.parse(json)
  if (value === null) return ""
  if (typeof value !== "string") return Array.isArray(value) ? `"${json.replaceAll(`"`, `""`)}"` : json
  const harmless = /^'*[\s\0]*[=+\-@＝＋－＠]|^'*[\t\r\n]/.test(value) ? `'${value}` : value
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll(`"`, `""`)}"` : harmless
}

type Encoded = Readonly<Record<string, unknown>>

/** Returns a function that encodes a row with the first model that the row matches. */
const makeEncoder = (models: ReadonlyArray<RowModel>) => {
  const codecs = models.map((model) => ({
    decode: Schema.decodeUnknownResult(Schema.Struct(model.fields)),
    encode: Schema.encodeUnknownSync(Schema.Struct(model.json.fields)),
  }))
  return (row: object): Encoded => {
    for (const { decode, encode } of codecs) {
      const decoded = decode(row)
      if (Result.isSuccess(decoded)) return encode(decoded.success)
    }
    throw new Error(`no schema decodes ${Object.keys(row).join(", ")}`)
  }
}

/** A single result, encoded in each format. */
export interface ReferenceResult {
  readonly encoded: Encoded
  readonly json: string
  readonly csvRecords: ReadonlyArray<string>
}

const formatRecord = (columns: ReadonlyArray<string>, encoded: Encoded) =>
  columns.map((name) => name in encoded ? encodeReferenceCell(JSON.stringify(encoded[name])) : "").join(",")

/** The parameters that add fields to rows. */
type AddingQuery = Pick<ReferenceQuery, "follow_lineage" | "provenance">

const addSource = ({ provenance }: AddingQuery, encoded: Encoded, row: object = {}): Encoded =>
  provenance === true ? { ...encoded, source: Reflect.get(row, "source") } : encoded

/**
 * Adds `lineage_ticker` if the query follows lineages. The value equals the ticker, because the symbols in these tests
 * never change.
 */
const addLineageTicker = ({ follow_lineage }: AddingQuery, encoded: Encoded): Encoded =>
  follow_lineage === true ? { ...encoded, lineage_ticker: encoded["ticker"] } : encoded

const getColumns = (models: ReadonlyArray<RowModel>, { follow_lineage, provenance }: AddingQuery) => [
  ...getColumnNames(models),
  ...(provenance === true ? ["source"] : []),
  ...(follow_lineage === true ? ["lineage_ticker"] : []),
]

const makeRowResults = (models: ReadonlyArray<RowModel>, query: AddingQuery) => {
  const columns = getColumns(models, query)
  const encode = makeEncoder(models)
  const group = (rows: ReadonlyArray<object>) => rows.map((row) => [row])
  const encodeResult = (rows: ReadonlyArray<object>): ReferenceResult => {
    const encoded = addLineageTicker(query, addSource(query, encode(rows[0] ?? {}), rows[0]))
    return { encoded, json: JSON.stringify(encoded), csvRecords: [formatRecord(columns, encoded)] }
  }
  return { columns, group, encodeResult }
}

/**
 * Creates an encoder for ownership filings. Each row of the table is one owner, and rows with the same ticker form one
 * filing. `group` collects the rows of each filing. `encodeResult` encodes them: in JSON as one filing with a list of
 * owners, and in CSV as one record per owner.
 */
const makeOwnershipResults = (query: AddingQuery) => {
  const columns = getColumns([OwnershipRow], query)
  const [encodeRow, encodeFiling, encodeOwner] = [OwnershipRow, OwnershipFilingHeader, Owner].map((model) =>
    makeEncoder([model])
  )
  const group = (rows: ReadonlyArray<object>) =>
    Array.from(Map.groupBy(rows, (row) => Reflect.get(row, "ticker")).values())
  const encodeResult = (rows: ReadonlyArray<object>): ReferenceResult => {
    const owners = rows.map((row) => addSource(query, encodeOwner?.(row) ?? {}, row))
    const filing = addLineageTicker(query, encodeFiling?.(rows[0] ?? {}) ?? {})
    const encoded = { ...filing, owner_count: owners.length, owners }
    const csvRecords = rows.map((row) =>
      formatRecord(columns, addLineageTicker(query, addSource(query, encodeRow?.(row) ?? {}, row)))
    )
    return { encoded, json: JSON.stringify(encoded), csvRecords }
  }
  return { columns, group, encodeResult }
}

// ----------------------------------------------------------------------------------------------------------------
// Queries
// ----------------------------------------------------------------------------------------------------------------

const toTexts = (value: unknown) => Array.isArray(value) ? value.map(String) : [String(value)]

/**
 * Returns a filter's condition in the simplest possible SQL, even if that cannot use an index. `name` is the column,
 * and `value` the decoded parameter: a list for the operators `oneOf…` and `hasElement`, and otherwise one value. Days
 * begin at midnight in the API's time zone, -05:00.
 */
const makeCondition = (sql: SqlClient.SqlClient, operator: FilterOperator, name: string, value: unknown) => {
  const column = sql(name)
  const text = String(value)
  const elements = sql`select from unnest(${column}) as element`
  const day = sql`(${`${text}T00:00:00-05:00`}::text::timestamptz)`
  const contains = (whole: Statement.Fragment) => sql`position(lower(${text}::text) in lower(${whole})) > 0`
  const conditions: Readonly<Record<FilterOperator, () => Statement.Fragment>> = {
    equals: () => sql`${column}::text = ${text}`,
    oneOf: () => sql`${column}::text in ${sql.in(toTexts(value))}`,
    oneOfIgnoringCase: () => sql`lower(${column}) in ${sql.in(toTexts(value).map((item) => item.toLowerCase()))}`,
    oneOfCodes: () => sql`lower(${column}) in ${sql.in(toTexts(value).map((item) => item.toLowerCase()))}`,
    atLeast: () => sql`${column} >= ${text}::text::numeric`,
    atMost: () => sql`${column} <= ${text}::text::numeric`,
    onDay: () => sql`${column} = ${text}::text::date`,
    fromDay: () => sql`${column} >= ${text}::text::date`,
    toDay: () => sql`${column} <= ${text}::text::date`,
    fromDayOfInstant: () => sql`${column} >= ${day}`,
    toDayOfInstant: () => sql`${column} < ${day} + interval '24 hours'`,
    contains: () => contains(sql`${column}`),
    elementContains: () => sql`exists (${elements} where ${contains(sql`element`)})`,
    hasElement: () =>
      sql`exists (${elements} where lower(element) in ${sql.in(toTexts(value).map((item) => item.toLowerCase()))})`,
    matchesWords: () => sql`${column} @@ websearch_to_tsquery('english', ${text})`,
  }
  return conditions[operator]()
}

/** Returns the clauses of a statement that selects all rows instead of one page. */
const makeClauses = (
  sql: SqlClient.SqlClient,
  columns: ReadonlyArray<string>,
  conditions: ReadonlyArray<Statement.Fragment | string>,
): ListClauses => {
  const orderBy = (order: Statement.Fragment) => sql`order by ${order}`
  const selection = sql.literal(columns.map((column) => `"${column}"`).join(", "))
  return {
    columns: selection,
    conditions,
    where: sql.and(conditions),
    orderBy,
    orderAndLimit: orderBy,
    orderUpToPage: orderBy,
    limit: sql.literal(String(unlimitedRowCount)),
    offset: new StatementParameter(() => 0),
    end: new StatementParameter(() => unlimitedRowCount),
    isDeep: false,
    isExport: false,
    period: undefined,
    fromPage: ({ order, table, where }) => sql`${sql(table)} where ${where} ${orderBy(order)}`,
    selectPage: ({ condition = "true", order, table }) =>
      sql`
      select ${selection} from ${sql(table)} where ${sql.and([condition, ...conditions])} ${orderBy(sql.literal(order))}
    `,
  }
}

/** The parameters that the reference implementation supports. */
export interface ReferenceQuery extends PagingQuery {
  readonly ticker?: string | ReadonlyArray<string>
  readonly follow_lineage?: boolean
  readonly provenance?: boolean
}

interface ReferenceEncoder {
  readonly columns: ReadonlyArray<string>
  readonly encodeResult: (rows: ReadonlyArray<object>) => ReferenceResult
}

/** The reference implementation of one list. */
export interface ReferenceList {
  readonly path: string
  /**
   * Creates an encoder for the results of a query. If the query follows lineages, its symbols must never have changed.
   */
  readonly makeEncoder: (query: AddingQuery) => ReferenceEncoder
  /** The column that each filter compares, by parameter name. */
  readonly filteredColumns: ReadonlyMap<string, string>
  /** Whether the list contains data about the requesting account. If so, its responses are never cached. */
  readonly isOfAccount: boolean
  /** Decodes the parameters. `dropped` is the value of the `X-Dropped-Tickers` header. */
  readonly decode: (
    parameters: RawSearchParameters,
  ) => Effect.Effect<{ readonly query: ReferenceQuery; readonly dropped: string | undefined }, Schema.SchemaError>
  /** Returns all results, ignoring pagination. Each result is a list of rows. */
  readonly readAll: (
    query: ReferenceQuery,
    account_id: number,
  ) => Effect.Effect<ReadonlyArray<ReadonlyArray<object>>, unknown>
}

type Decode<Query> = (parameters: RawSearchParameters, now: number) => Effect.Effect<Query, Schema.SchemaError>

const makeDecoder = <Query>(query: QueryCodec<Query>): Decode<Query> => {
  const decode = Schema.decodeUnknownEffect(
    Schema.toCodecArrayFromSingle(Schema.toCodecStringTree(query)),
    queryParseOptions,
  )
  return (parameters, now) => Effect.provideService(decode(parameters), QueryNow, now)
}

const isModel = (row: unknown): row is RowModel => Predicate.hasProperty(row, "json")

const toModels = (row: unknown): ReadonlyArray<RowModel> => [row].flat().filter(isModel)

/** An account that may use every endpoint. */
const unrestrictedAccount: typeof CurrentAccount.Service = {
  account_id: 1,
  tier: "ultimate",
  spendable_microdollars: null,
  is_limited_by_budget: false,
  key_id: 1,
  endpoints: null,
  networks: null,
}

const notServed = new Error("the reference serves no requests")

/** Builds an HTTP request from the unrestricted account. */
const makeAdmittedRequest = (now: number): AdmittedRequest => ({
  request: makeApiRequest(),
  now,
  account: unrestrictedAccount,
  route: "",
  past: undefined,
  scope: () => {
    throw notServed
  },
  makeStreamUsageRecorder: () => {
    throw notServed
  },
  run: () => Effect.die(notServed),
})

/** A list that has not been assigned a path yet. */
type UnnamedList = Omit<ReferenceList, "path">

const makeReferenceList = <Query extends PagingQuery, ShapedBy extends keyof Query, Decoded extends PagingQuery>(
  sql: SqlClient.SqlClient,
  hasTickerList: boolean,
  decodeQuery: Decode<Decoded>,
  { Query: { fields } = { fields: {} }, Row, select, shapedBy = [] }: ListDefinition<Query, ShapedBy>,
  isOfAccount: boolean,
): UnnamedList => {
  const models = toModels(Row)
  const makeEncoder = (query: AddingQuery) =>
    models.length === 0 ? makeOwnershipResults(query) : makeRowResults(models, query)
  const shaped = new Set<PropertyKey>(shapedBy)

  const makeConditions = (query: DecodedQuery) =>
    Object.entries(fields).flatMap(([name, field]): ReadonlyArray<Statement.Fragment | string> => {
      const filter = getFilterDeclaration(field)
      const value = query[name]
      if (value === undefined || filter === undefined || filter.operator === "statement") return []
      if (filter.operator !== "literal") return [makeCondition(sql, filter.operator, filter.column ?? name, value)]
      const condition = filter.condition(query)
      return condition === undefined ? [] : [condition]
    })

  /**
   * Replaces values that do not affect the shape of the SQL with statement parameters. The cast restores the field
   * names.
   */
  const makeShape = (query: DecodedQuery) =>
    Object.fromEntries(
      Object.entries(query).map(([name, value]) => [
        name,
        shaped.has(name) ? value : new StatementParameter(() => value),
      ]),
    ) as ListQueryShape<Query, ShapedBy>

  const filteredColumns = new Map(
    Object.entries(fields).flatMap(([name, field]) => {
      const filter = getFilterDeclaration(field)
      return filter === undefined || !("column" in filter) ? [] : [[name, filter.column ?? name] as const]
    }),
  )

  return {
    makeEncoder,
    filteredColumns,
    isOfAccount,
    decode: (parameters) =>
      Effect.map(
        Effect.flatMap(Clock.currentTimeMillis, (now) => decodeQuery(parameters, now)),
        (query) => {
          const { ticker } = parameters
          return {
            query,
            dropped: hasTickerList && typeof ticker === "string" ? findDroppedTickers(ticker) : undefined,
          }
        },
      ),
    readAll: (query, account_id) =>
      Effect.suspend(() => {
        const values = { ...query, ...(isOfAccount ? { account_id } : {}) }
        const { columns, group } = makeEncoder({ ...query, follow_lineage: false })
        const statement = select(makeShape(values), makeClauses(sql, columns, makeConditions(values)))
        const [text, parameters] = statement.compile()
        const filled = parameters.map((value) => value instanceof StatementParameter ? value.compute(values) : value)
        return Effect.map(sql.unsafe<object>(text, filled).unprepared, group)
      }),
  }
}

/**
 * The reference implementations of all lists, by path, such as `/v1/news`.
 *
 * They are built from the service's own declarations. The handlers of the endpoints are created with `recorder` in
 * place of the factory that serves lists: it creates for each list a handler that serves nothing, and stores the list's
 * reference implementation for it. Then, the handler of each endpoint of the API leads to its list. Endpoints that are
 * not lists have none.
 */
export const referenceLists = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const listsByHandler = new Map<unknown, UnnamedList>()
  /** Creates a handler that stands for the list, because handlers do not know their path. */
  const add = <Query>(query: QueryCodec<Query>, list: UnnamedList) => {
    const handler = makeHandler(query, () => Effect.die(notServed))
    listsByHandler.set(handler, list)
    return handler
  }
  const recorder = ListEndpointFactory.of({
    makeEndpoint: (_, definition) => {
      const { Query } = definition
      return add(Query, makeReferenceList(sql, isTickerList(Query), makeDecoder(Query), definition, false))
    },
    makeResolvedEndpoint: (_, query, resolve, definition) => {
      const decode = makeDecoder(query)
      const resolveQuery = (parameters: RawSearchParameters, now: number) =>
        Effect.map(decode(parameters, now), (sent) => resolve(sent, makeAdmittedRequest(now)).query)
      return add(query, makeReferenceList(sql, isTickerList(query), resolveQuery, definition, false))
    },
    makeAccountEndpoint: (query, definition) =>
      add(query, makeReferenceList(sql, isTickerList(query), makeDecoder(query), definition, true)),
  })
  const handlers: Readonly<Record<string, Readonly<Record<string, unknown>>>> = yield* Effect.all({
    account: Effect.provide(accountHandlers, DatabaseReader.layer),
    afterhoursStats: afterhoursStatsHandlers,
    datasets: makeDatasetsHandlers(endpointsByDataset),
    dilutionData: dilutionDataHandlers,
    floatOutstanding: floatOutstandingHandlers,
    gapStats: gapStatsHandlers,
    historicalFloatPro: historicalFloatProHandlers,
    intradayRunners: intradayRunnersHandlers,
    nasdaqCompliance: nasdaqComplianceHandlers,
    news: newsHandlers,
    ownership: ownershipHandlers,
    premarketStats: premarketStatsHandlers,
    pumpAndDumpTracker: pumpAndDumpTrackerHandlers,
    registrations: registrationsHandlers,
    researchReports: researchReportsHandlers,
    screener: screenerHandlers,
    splitStatus: splitStatusHandlers,
    timeline: timelineHandlers,
    usage: usageHandlers,
  }).pipe(
    Effect.provideService(ListEndpointFactory, recorder),
    Effect.provideService(LineageResolver, {
      resolve: () => Effect.die(new Error("the reference follows no lineage")),
    }),
  )
  const lists = new Map<string, ReferenceList>()
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint: { identifier, path }, group }) => {
      const list = listsByHandler.get(handlers[group.identifier]?.[identifier])
      if (list !== undefined) lists.set(path, { path, ...list })
    },
  })
  return lists
})
