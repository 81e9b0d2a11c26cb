/**
 * Tests GET /estimate over HTTP: D28 (estimates), §4.5. Each estimate is compared with the response to the actual
 * request.
 */
import { PgConnection } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Arbitrary, ConfigProvider, Context, Effect, Layer, Schedule, Schema } from "effect"
import { SqlClient } from "effect/sql"
import * as Accounts from "../../../src/accounts/Accounts.ts"
import * as Endpoints from "../../../src/api/catalogue/Endpoints.ts"
import * as DocumentedEndpoints from "../../support/DocumentedEndpoints.ts"
import * as GeneratedRows from "../../support/GeneratedRows.ts"
import { getResultRows } from "../../support/ListClients.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"
import * as Service from "../../support/Service.ts"
import * as StatementRecorder from "../../support/StatementRecorder.ts"
import { makePoolableClientLayer } from "../../support/PoolerMode.ts"
import { getInputCount, skipUnlessThorough } from "../../support/Thoroughness.ts"

const { valueAt: at, insertRows, TestKeys } = Service

type SentRequest = ReturnType<typeof Service.requestJson>
type ReceivedResponse = Effect.Success<SentRequest>

/** Sends a request, by default with a key that may use every endpoint. */
const send = Effect.fnUntraced(function* (path: string, options: Service.TestRequestOptions = {}) {
  const { ultimate } = yield* TestKeys
  return yield* Service.requestJson(path, { key: ultimate, ...options })
})

// ---------------------------------------------------------------------------------------------------------------------
// The service
// ---------------------------------------------------------------------------------------------------------------------

/**
 * Prices high enough that a single byte changes the cost. News is free, and two other endpoints have individual prices.
 */
const defaultPrice = 7_777_777_777
const ownPrices = new Map([["/v1/news", 0], ["/v1/ownership", 1_000_000_000_000], ["/v1/ticker-changes", 123_456_789]])
const getPrice = (path: string) => ownPrices.get(path) ?? defaultPrice

/** Requests per minute in the pro tier. The rate is so low that no token is refilled while a test counts requests. */
const proRateLimit = 20

const settings = {
  RATE_LIMIT_PRO: String(proRateLimit),
  PRICE_PER_GB_MICRODOLLARS: String(defaultPrice),
  ENDPOINT_PRICES: Array.from(ownPrices, (entry) => entry.join("=")).join(", "),
}

/** A separate database connection, outside the service's pool. */
class OtherConnection
  extends Context.Service<OtherConnection, PgConnection.PgConnection>()("test/api/catalogue/Other") {}

const database = Layer.unwrap(Effect.gen(function* () {
  const url = yield* Service.copyMigratedDatabase
  return Layer.merge(
    makePoolableClientLayer({ url, applicationName: "tickerline-test" }),
    Layer.effect(OtherConnection, PgConnection.make({ url, applicationName: "other" })),
  )
}))

/**
 * Inserts four filings for each of forty companies. The newest filing is always a placeholder. For thirty companies,
 * the three earlier filings have owners. For the other ten, the earlier filings are placeholders, too.
 */
const loadOwners = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    insert into ownership (ticker, filed_at, form_type, accession_number, owner_name, owner_type, last_updated)
    select 'W' || w, date '2025-01-01' + filing, '4', 'n' || filing,
      case when filing < 4 and w <= 30 then 'owner ' || n end,
      case when filing < 4 and w <= 30 then (array['executive', 'director', 'ten_percent_owner'])[1 + (n * w) % 3] end,
      '2025-01-02'
    from generate_series(1, 40) as w, generate_series(1, 4) as filing, generate_series(1, 1 + w % 4) as n
    on conflict do nothing
  `
})

const makeChange = (old_ticker: string, new_ticker: string) => ({
  old_ticker,
  new_ticker,
  effective_date: "2024-01-02",
  status: "confirmed",
})

/** Loads rows whose values must be encoded in URLs. */
const loadDecodedValues = Effect.gen(function* () {
  const item = { form_type: "news", tags: [], tickers: [], created_at: "2025-01-02", last_updated: "2025-01-02" }
  yield* insertRows(
    "news",
    { ...item, id: "est1", ticker: "EST", filed_at: "2025-01-02", title: "zebra crossing" },
    { ...item, id: "est2", ticker: "EST", filed_at: "2025-01-02", title: "zebra", tags: ["a+b", "endpoint=/v1/x"] },
    { ...item, id: "est3", ticker: "EST", filed_at: "2025-01-02", title: "crossing", tags: ["a b", "ü&ö=%41"] },
  )
  const sql = yield* SqlClient.SqlClient
  yield* sql`update dilution_data set bank = 'J&P Securities #1' where id in (select min(id) from dilution_data)`
  yield* sql`update dilution_data set bank = 'J%26P Securities' where id in (select max(id) from dilution_data)`
})

/** Fills every table with enough rows to test pages and filters, and adds tickers with an ambiguous lineage. */
const loadData = Effect.gen(function* () {
  yield* GeneratedRows.fillAllTables(150)
  yield* loadOwners
  yield* insertRows("ticker_changes", makeChange("AMB1", "AMB2"), makeChange("AMB1", "AMB3"))
  yield* loadDecodedValues
})

const service = Layer.effectDiscard(loadData).pipe(
  Layer.provideMerge(Service.serviceLayerOver(database)),
  Layer.provideMerge(StatementRecorder.layer),
  Layer.provide(ConfigProvider.layerAdd(ConfigProvider.fromUnknown(settings), { asPrimary: true })),
)

// ---------------------------------------------------------------------------------------------------------------------
// Random requests
// ---------------------------------------------------------------------------------------------------------------------

type Query = ReadonlyArray<readonly [string, string]>

const priced = DocumentedEndpoints.documentedTickerEndpoints

const isList = ({ parameters }: DocumentedEndpoints.DocumentedEndpoint) =>
  parameters.some(({ name }) => name === "page")
const lists = priced.filter(isList)
/**
 * List endpoints that accept several symbols. The timeline accepts only one symbol, and timeline.test.ts compares its
 * estimates.
 */
const listsOfTickers = lists.filter(({ parameters }) => parameters.some(({ kind }) => kind === "tickers"))

/** Returns the URL of an estimate, with the `endpoint` parameter inserted at the given index. */
const makeEstimateUrl = (path: string, query: Query, place = 0) =>
  DocumentedEndpoints.buildUrl("/estimate", query.toSpliced(place, 0, ["endpoint", path]))

const requestEstimate = (path: string, query: Query = [], options: Service.TestRequestOptions = {}) =>
  send(makeEstimateUrl(path, query), options)

const getField = ({ body, status, text }: ReceivedResponse, name: string) => {
  assert.strictEqual(status, 200, text)
  return at(body, "results", 0, name)
}

const arbitraryInteger = (minimum: number, maximum: number) =>
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum, maximum })))

const arbitraryChoice = <A>(first: A, ...others: ReadonlyArray<A>) =>
  Arbitrary.map(arbitraryInteger(0, others.length), (at) => others[at - 1] ?? first)

/** Generates true for one of `cases` cases on average. */
const arbitraryOneIn = (cases: number) => Arbitrary.map(arbitraryInteger(1, cases), (number) => number === cases)

const arbitrarySymbols = (letter: string, most: number) =>
  Array.from({ length: most }, (_, at) => `${letter}${at + 1}`).join(",")

const valuesByKind: Readonly<Record<DocumentedEndpoints.ParameterKind, readonly [string, ...ReadonlyArray<string>]>> = {
  number: ["50", "-5.5", "0", "1e3", ".5", "+7", "99999999999999.9999"],
  integer: ["1", "2", "3", "7", "31", "100"],
  date: ["2014-01-02", "2018-06-01", "2020-02-29", "2024-12-30", "2026-11-01"],
  boolean: ["true", "false"],
  words: ["nonsense"],
  ticker: ["T7", "o1", " n149 ", "F3", "AMB1", "T120", "O77", "N5", "T12", "NOBODY", "^VIX"],
  tickers: [
    `${arbitrarySymbols("T", 60)},${arbitrarySymbols("W", 40)}`,
    arbitrarySymbols("T", 100),
    `${arbitrarySymbols("w", 30)},@@,a_b,,W1, W 2 ,${arbitrarySymbols("t", 50)}`,
    "T7,t8,T9,T10",
    "NOBODY",
  ],
  sort: ["nonsense"],
  text: ["text", "100%", "a+b&c=d?e", "a_b'c\"d\\", "Müller 北京", "tag7"],
}

/** Values for parameters whose type alone does not suggest a useful value, by parameter name. */
const valuesByName: Readonly<Record<string, readonly [string, ...ReadonlyArray<string>]>> = {
  owner_name: ["owner 1", "owner 2", "OWNER", "text"],
  page: ["1", "1", "1", "1", "2", "3", "31"],
  limit: ["100", "50", "10", "7", "3", "1"],
}

const invalidValues = ["", "x", "0", "-1", "2025-02-30", "@@", "\0", "nonsense", "5-5", "x".repeat(300)] as const

const getSampleValues = (
  { kind, name, words }: DocumentedEndpoints.DocumentedParameter,
): readonly [string, ...ReadonlyArray<string>] => {
  const [word, ...others] = words
  if (word === undefined) return valuesByName[name] ?? valuesByKind[kind]
  return kind === "words" ? [words.join(","), word, ...others] : [word, ...others]
}

/** Generates a parameter that is omitted, sent once or sent twice, sometimes with an invalid value. */
const arbitraryParameter = (
  parameter: DocumentedEndpoints.DocumentedParameter,
  likely: number,
): Arbitrary.Arbitrary<Query> =>
  Arbitrary.map(
    Arbitrary.all({
      isSent: arbitraryOneIn(parameter.required ? 1 : likely),
      isWrong: arbitraryOneIn(25),
      isTwice: arbitraryOneIn(60),
      right: arbitraryChoice(...getSampleValues(parameter)),
      bad: arbitraryChoice(...invalidValues),
    }),
    ({ bad, isSent, isTwice, isWrong, right }) => {
      if (!isSent) return []
      const sent = [parameter.name, isWrong ? bad : right] as const
      return isTwice ? [sent, sent] : [sent]
    },
  )

/** Unknown parameter names. Some of them are property names that every object inherits. */
const unknownParameters = ["nobody_knows", "endpoints", "Limit", "__proto__", "constructor", "limit[]"] as const

/**
 * Generates a valid or invalid query for an endpoint, and the index at which the estimate inserts its `endpoint`
 * parameter.
 */
const arbitraryEstimateQuery = (endpoint: DocumentedEndpoints.DocumentedEndpoint) => {
  const parameters = endpoint.parameters.filter((parameter) => !DocumentedEndpoints.isLineageParameter(parameter))
  return Arbitrary.map(
    Arbitrary.all({
      query: Arbitrary.all(
        parameters.map((parameter) =>
          arbitraryParameter(parameter, /^(page|limit)$/.test(parameter.name) ? 2 : parameters.length)
        ),
      ),
      hasUnknownName: arbitraryOneIn(25),
      unknownName: arbitraryChoice(...unknownParameters),
      place: arbitraryInteger(0, 20),
    }),
    ({ hasUnknownName, place, query, unknownName }) => {
      const all: Query = [...query.flat(), ...hasUnknownName ? [[unknownName, "1"] as const] : []]
      return { query: all, place: Math.min(place, all.length) }
    },
  )
}

/**
 * Returns the number of distinct valid symbols in a query. Implements D5 (ticker lists) independently of the service.
 */
const listSymbols = (query: Query) => {
  const sent = query.find(([name]) => name === "ticker")?.[1] ?? ""
  const clean = sent.split(",").map((symbol) => symbol.replace(/\s/g, "").toUpperCase())
  return new Set(clean.filter((symbol) => /^[A-Z0-9.^-]{1,16}$/.test(symbol))).size
}

// ---------------------------------------------------------------------------------------------------------------------
// Responses
// ---------------------------------------------------------------------------------------------------------------------

/** Returns the number of records in the response to the estimated request. */
const countRecords = (path: string, { body }: ReceivedResponse) =>
  path === "/v1/ticker-changes" ? getResultRows(body).length : Number(at(body, "count"))

/**
 * Computes the expected cost, rounded up to microdollars. Deliberately uses other arithmetic than the service, as an
 * independent check.
 */
const computeCost = (bytes: number, price: number) => {
  const [exact, gigabyte] = [BigInt(bytes) * BigInt(price), 1_000_000_000n]
  return Number(exact / gigabyte) + (exact % gigabyte === 0n ? 0 : 1)
}

/** Returns whether `total`, the estimated number of records, is consistent with the page in the response. */
const isPossibleTotal = (total: number, page: unknown, has_more: unknown, limit: unknown, count: number) => {
  if (page === undefined) return total === count
  const before = (Number(page) - 1) * Number(limit)
  if (has_more === true) return total > before + count
  return count > 0 || before === 0 ? total === before + count : total <= before
}

/** Requests an estimate, sends the estimated request, and checks that the two responses agree. Returns both. */
const compareEstimate = Effect.fnUntraced(
  function* (path: string, query: Query, place = 0, options: Service.TestRequestOptions = {}) {
    const estimate = yield* send(makeEstimateUrl(path, query, place), options)
    const request = DocumentedEndpoints.buildUrl(path, query)
    const response = yield* send(request, options)
    const message = `${request}\n${response.text}\n${estimate.text}`
    assert.strictEqual(estimate.headers["x-cost-microdollars"], "0", message)
    const unit = path === "/v1/ownership" ? "filing_group" : "row"
    const price = getPrice(path)
    if (response.status === 200) {
      assert.strictEqual(estimate.status, 200, message)
      const [bytes, count] = [Buffer.byteLength(response.text), countRecords(path, response)]
      const { records_total, ...exact } = Object(at(estimate.body, "results", 0))
      assert.strictEqual(estimate.headers["x-dropped-tickers"], response.headers["x-dropped-tickers"], message)
      assert.deepStrictEqual(exact, {
        endpoint: path,
        unit,
        ticker_count: listSymbols(query),
        records_returned: count,
        rows_sampled: count,
        estimated_bytes: bytes,
        estimated_cost_microdollars: Number(response.headers["x-cost-microdollars"]),
        price_per_gb_microdollars: price,
      }, message)
      assert.strictEqual(exact.estimated_cost_microdollars, computeCost(bytes, price), message)
      const { has_more, limit, page } = Object(response.body)
      // Changes may exist after the cursor of /v1/changes, but it is possible that none of them match.
      const isPossible = path === "/v1/changes"
        ? has_more ? records_total >= count : records_total === count
        : isPossibleTotal(records_total, page, has_more, limit, count)
      assert.isTrue(isPossible, message)
      assert.deepStrictEqual(Object.keys(Object(estimate.body)), ["count", "results"])
      assert.strictEqual(at(estimate.body, "count"), 1)
    } else {
      assert.strictEqual(estimate.status, response.status, message)
      assert.deepStrictEqual(at(estimate.body, "error"), at(response.body, "error"), message)
      assert.strictEqual(at(estimate.body, "request_id"), estimate.headers["x-request-id"], message)
      assert.strictEqual(estimate.headers["content-type"], response.headers["content-type"])
    }
    return { estimate, response }
  },
)

/** Reads all pages and returns their rows. */
const readAllPages = Effect.fnUntraced(function* (path: string, query: Query, limit = 100) {
  const seen: Array<unknown> = []
  for (let page = 1, more = true; more; page++) {
    const { body, status, text } = yield* send(
      DocumentedEndpoints.buildUrl(path, [...query, ["page", String(page)], ["limit", String(limit)]]),
    )
    assert.strictEqual(status, 200, text)
    seen.push(...getResultRows(body))
    more = at(body, "has_more") === true
  }
  return seen
})

const waitUntil = <E, R>(condition: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(condition, { until: (holds) => holds, schedule: Schedule.spaced("20 millis") }).pipe(
    Effect.timeout("60 seconds"),
  )

/** Returns the required parameters of an endpoint, with many symbols. Every table contains some of these symbols. */
const makeRequiredQuery = ({ parameters }: DocumentedEndpoints.DocumentedEndpoint): Query =>
  parameters.filter(({ required }) => required).map((
    { name },
  ) => [name, `${arbitrarySymbols("T", 60)},${arbitrarySymbols("W", 40)}`])

// ---------------------------------------------------------------------------------------------------------------------
// Statements
// ---------------------------------------------------------------------------------------------------------------------

/** Returns the SQL statements that read data, without those for keys, accounts, usage and symbol spellings. */
const selectDataStatements = (sent: ReadonlyArray<StatementRecorder.SentStatement>) =>
  sent.filter(({ text }) => !/api_keys|usage|accounts|symbol_spellings/.test(text))

/** Formats a statement on one line with its parameters filled in. Limits that affect only the plan are simplified. */
const formatStatement = ({ parameters, text }: StatementRecorder.SentStatement) =>
  text.replace(/\s+/g, " ").replaceAll("( ", "(").replaceAll(" )", ")").trim()
    .replace(/\$(\d+)/g, (_, number) => JSON.stringify(parameters[Number(number) - 1]))
    .replace(/coalesce\((\d+)::bigint, \(select count\(\*\) from generate_series\(1, \d+\)\)\)/g, "$1")
    .replace(/ as list limit 1$/, " as list")

/** Returns the count statement that should correspond to a statement that reads a page. */
const makeExpectedCount = (page: StatementRecorder.SentStatement, path: string) => {
  const pageStatement = formatStatement(page)
    .replace(/ order by ((?! order by | limit ).)* limit (?!1\b)\d+(::bigint \+ \d+)?( offset "?\d+"?)?/g, "")
    .replace(/ order by [^)]*$/, "")
  const counted = path === "/v1/ownership" ? "distinct (ticker, accession_number)" : "*"
  return `select count(${counted}) as total from (${pageStatement}) as list`
}

layer(service, { excludeTestServices: true, timeout: "180 seconds" })("With GET /estimate,", (it) => {
  // -------------------------------------------------------------------------------------------------------------------
  // Equality with the request
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("exactly the endpoints that read a dataset have a price (D27, D28)", () =>
    Effect.sync(() => {
      const charged = Endpoints.catalogueEndpoints.filter((endpoint) => endpoint.isPriced).map(({ row }) => row.path)
      assert.sameMembers(charged, [...priced.map(({ path }) => path), ...DocumentedEndpoints.streamPaths])
      assertFoundMoreThan(20, "priced endpoints", charged)
    }))

  const runs = 12
  let [attempts, found] = [0, 0]
  for (const endpoint of priced) {
    it.effect.prop(
      `${endpoint.path}: the estimate of any query equals the cost and size of the request (D28)`,
      [arbitraryEstimateQuery(endpoint)],
      ([{ place, query }]) =>
        Effect.gen(function* () {
          const { response } = yield* compareEstimate(endpoint.path, query, place)
          attempts++
          if (response.status === 200 && countRecords(endpoint.path, response) > 0) found++
        }),
      { arbitrary: { runs: getInputCount(runs) } },
    )
  }

  it("enough of the random queries are valid and match rows (D28)", () => {
    assert.isAtLeast(found, attempts / 4, `of ${attempts}`)
  })

  // -------------------------------------------------------------------------------------------------------------------
  // Totals
  // -------------------------------------------------------------------------------------------------------------------

  it.effect.each(listsOfTickers.map((endpoint) => ({ ...endpoint, endpoint })))(
    "$path: records_total counts all pages, with any filter and on any page (D28)",
    ({ endpoint, path }) =>
      Effect.gen(function* () {
        yield* skipUnlessThorough
        const all = yield* readAllPages(path, makeRequiredQuery(endpoint))
        const totals: Array<number> = []
        const filters = endpoint.parameters.filter(({ name }) => !/^(page|limit|sort)$/.test(name))
          .flatMap((parameter) =>
            getSampleValues(parameter).slice(0, parameter.kind === "number" ? 1 : 2).map((
              value,
            ): Query => [[parameter.name, value]])
          )
        for (const filter of [[], ...filters]) {
          const others = makeRequiredQuery(endpoint).filter(([name]) => !filter.some(([other]) => name === other))
          const query: Query = [...others, ...filter]
          const estimate = yield* requestEstimate(path, [...query, ["page", "3"], ["limit", "7"]])
          // Some values match the parameter's type but are invalid, such as a future date.
          if (estimate.status === 422) continue
          const total = Number(getField(estimate, "records_total"))
          assert.lengthOf(yield* readAllPages(path, query), total, DocumentedEndpoints.buildUrl(path, query))
          assert.strictEqual(getField(estimate, "records_returned"), Math.min(7, Math.max(0, total - 14)))
          totals.push(total)
        }
        const first = yield* requestEstimate(path, makeRequiredQuery(endpoint))
        assert.strictEqual(getField(first, "records_total"), all.length)
        assert.strictEqual(getField(first, "records_returned"), 10)
        const beyond = yield* requestEstimate(path, [...makeRequiredQuery(endpoint), ["page", "2147483647"], [
          "limit",
          "100",
        ]])
        assert.strictEqual(getField(beyond, "records_total"), all.length)
        assert.strictEqual(getField(beyond, "records_returned"), 0)
        assert.isAbove(all.length, 25, "several pages")
        assert.isTrue(totals.some((total) => total > 0 && total < all.length), `${totals} of ${all.length}`)
      }),
  )

  it.effect("ownership is counted in filing groups, without placeholders (§4.5, D28)", () =>
    Effect.gen(function* () {
      const companies: Query = [["ticker", arbitrarySymbols("W", 40)]]
      const counted = Effect.fnUntraced(function* (...filters: Query) {
        const estimate = yield* requestEstimate("/v1/ownership", [...companies, ...filters])
        assert.strictEqual(getField(estimate, "unit"), "filing_group")
        return [getField(estimate, "records_returned"), getField(estimate, "records_total")]
      })
      assert.deepStrictEqual(yield* counted(), [10, 30])
      assert.deepStrictEqual(yield* counted(["limit", "100"]), [30, 30])
      assert.deepStrictEqual(yield* counted(["limit", "4"], ["page", "8"]), [2, 30])
      assert.deepStrictEqual(yield* counted(["limit", "4"], ["page", "9"]), [0, 30])
      // Each company has 1 + (number % 4) owners, so 7 of the thirty companies have a fourth owner.
      assert.deepStrictEqual(yield* counted(["owner_name", "owner 4"]), [7, 7])
      assert.deepStrictEqual(yield* counted(["owner_name", "OWNER 4"], ["limit", "3"], ["page", "3"]), [1, 7])
      assert.deepStrictEqual(yield* counted(["owner_name", "owner 5"]), [0, 0])
      assert.deepStrictEqual(yield* counted(["owner_type", "five_percent_owner"]), [0, 0])
      for (const filter of ["executive", "director", "ten_percent_owner", "executive,director"]) {
        const groups = yield* readAllPages("/v1/ownership", [...companies, ["owner_type", filter]])
        assert.isAbove(groups.length, 5)
        assert.isBelow(groups.length, 31)
        const [returned, total] = yield* counted(["owner_type", filter], ["limit", "100"])
        assert.deepStrictEqual([returned, total], [groups.length, groups.length], filter)
      }
      const placeholders: Query = [["ticker", "W31,W32,W40"]]
      assert.strictEqual(getField(yield* requestEstimate("/v1/ownership", placeholders), "records_total"), 0)
      assert.strictEqual(getField(yield* requestEstimate("/v1/screener"), "unit"), "row")
    }))

  it.effect("ticker_count counts distinct valid symbols, even unknown ones, and a header lists the dropped ones (D5, D28)", () =>
    Effect.gen(function* () {
      const counted = Effect.fnUntraced(function* (path: string, ticker: string) {
        const estimate = yield* requestEstimate(path, [["ticker", ticker]])
        return [getField(estimate, "ticker_count"), estimate.headers["x-dropped-tickers"]]
      })
      for (const { path } of listsOfTickers) {
        assert.deepStrictEqual(yield* counted(path, "t1, T2 ,@@,,T1,t 2,a_b"), [2, "%40%40,A_B"], path)
        assert.deepStrictEqual(yield* counted(path, "NOBODY,T9"), [2, undefined], path)
        assert.deepStrictEqual(yield* counted(path, arbitrarySymbols("T", 100)), [100, undefined], path)
      }
      assert.deepStrictEqual(yield* counted("/v1/ticker-changes", " o1 "), [1, undefined])
      assert.deepStrictEqual(yield* counted("/v1/ticker-changes", "NOBODY"), [1, undefined])
      for (const { parameters, path } of lists) {
        if (parameters.some(({ required }) => required)) continue
        const estimate = yield* requestEstimate(path)
        assert.strictEqual(getField(estimate, "ticker_count"), 0, path)
        assert.isUndefined(estimate.headers["x-dropped-tickers"])
      }
      const many = yield* requestEstimate("/v1/screener", [["ticker", arbitrarySymbols("T", 101)]])
      assert.strictEqual(many.status, 422)
      assert.include(many.text, "at most 100 tickers")
    }))

  const unknownCursor = `1.1.${"0".repeat(32)}`

  it.effect.each(
    [
      ["/v1/historical-tickers", [["ticker", "NOBODY"]], 404, "not_found"],
      ["/v1/ticker-changes", [["ticker", "amb2"]], 409, "ambiguous_ticker_lineage"],
      ["/v1/news", [["ticker", "AMB1"], ["follow_lineage", "true"]], 409, "ambiguous_ticker_lineage"],
      ["/v1/timeline", [["ticker", "AMB1"], ["follow_lineage", "true"]], 409, "ambiguous_ticker_lineage"],
      ["/v1/changes", [["after", unknownCursor]], 410, "cursor_expired"],
      ["/v1/changes", [["after", "2999-01-01T00:00:00Z"]], 422, "validation_error"],
      ["/v1/changes", [["page", "2"]], 422, "validation_error"],
      ["/v1/news", [["as_of", "2001-01-01"]], 422, "as_of_too_early"],
      ["/v1/usage", [["status_code", "x"]], 422, "validation_error"],
      ["/endpoints", [["ticker", "T7"]], 422, "validation_error"],
    ] as const,
  )(
    "the estimate of %s %o is answered with the error of the request, and free (D28)",
    ([path, query, status, code]) =>
      Effect.gen(function* () {
        const { estimate, response } = yield* compareEstimate(path, query)
        assert.deepStrictEqual([response.status, at(estimate.body, "error", "code")], [status, code])
      }),
  )

  it.effect("records_total of /v1/changes counts the changes on all pages after the cursor (D28)", () =>
    Effect.gen(function* () {
      for (
        const filter of [[], [["dataset", "news"]], [["ticker", "T7,T8"]], [["kind", "removed"]]] satisfies Query[]
      ) {
        const cursors: Array<string> = []
        const counts: Array<number> = []
        let after: Query = []
        for (let more = true; more;) {
          const { body } = yield* send(
            DocumentedEndpoints.buildUrl("/v1/changes", [...filter, ...after, ["limit", "1000"]]),
          )
          counts.push(getResultRows(body).length)
          cursors.push(String(at(body, "cursor")))
          after = [["after", cursors.at(-1) ?? ""]]
          more = at(body, "has_more") === true
        }
        const total = counts.reduce((sum, count) => sum + count, 0)
        const estimate = yield* requestEstimate("/v1/changes", [...filter, ["limit", "7"]])
        assert.strictEqual(getField(estimate, "records_total"), total, String(filter))
        assert.strictEqual(getField(estimate, "records_returned"), Math.min(7, total))
        const later = yield* requestEstimate("/v1/changes", [...filter, ["after", cursors[0] ?? ""], ["limit", "7"]])
        assert.strictEqual(getField(later, "records_total"), total - (counts[0] ?? 0), String(filter))
      }
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // SQL statements
  // -------------------------------------------------------------------------------------------------------------------

  it.effect.each(priced.map((endpoint) => ({ ...endpoint, endpoint })))(
    "$path: the estimate runs the SQL statement of the request, and counts rows with the same conditions (D28)",
    ({ endpoint, path }) =>
      Effect.gen(function* () {
        let compared = 0
        const count = getInputCount(runs)
        for (
          const { place, query } of yield* Arbitrary.sampleEffect(arbitraryEstimateQuery(endpoint), {
            count,
            seed: path,
          })
        ) {
          const request = DocumentedEndpoints.buildUrl(path, query)
          const { result, sent } = yield* StatementRecorder.recordStatements(send(request))
          const estimated = yield* StatementRecorder.recordStatements(send(makeEstimateUrl(path, query, place)))
          const [page] = selectDataStatements(sent)
          if (page === undefined) {
            assert.strictEqual(result.status, 422)
            assert.deepStrictEqual(selectDataStatements(estimated.sent), [])
          } else if (isList(endpoint)) {
            const [count, ...others] = selectDataStatements(estimated.sent)
            assert.deepStrictEqual(others, selectDataStatements(sent), request)
            assert.strictEqual(
              count === undefined ? "" : formatStatement(count),
              makeExpectedCount(page, path),
              request,
            )
            compared++
          } else {
            // For /v1/changes, further statements count the changes on later pages.
            const statements = selectDataStatements(sent)
            const [first, later] = [
              selectDataStatements(estimated.sent),
              path === "/v1/changes" ? statements.length : Infinity,
            ]
            assert.deepStrictEqual(first.slice(0, later), statements, request)
            compared++
          }
        }
        if (count === runs) assert.isAbove(compared, 5)
      }),
  )

  // -------------------------------------------------------------------------------------------------------------------
  // Cost
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("an estimate is free and recorded only as /estimate (D28, D29)", () =>
    Effect.gen(function* () {
      const name = "estimating"
      yield* Accounts.ensureAccount({ name, tier: "ultimate", email: null, prepaid: true })
      yield* Accounts.creditAccount({ name, microdollars: 1_000_000_000n, reference: null, mayBecomePrepaid: true })
      const key = yield* Service.ensureAccountWithKey(name, "ultimate")
      const used = (query: string) => Effect.map(send(`/v1/usage?${query}`, { key }), ({ body }) => getResultRows(body))
      const left = Effect.map(
        send("/v1/overview", { key }),
        (response) => [getField(response, "balance_microdollars"), getField(response, "last_charged_at")],
      )

      const targets = ["/v1/screener", "/v1/ownership", "/v1/historical-tickers", "/v1/dilution-data"]
      const paths = [
        ...targets.map((path) => makeEstimateUrl(path, [["ticker", "T7"]])),
        makeEstimateUrl("/v1/screener", [["limit", "0"]]),
        "/estimate",
      ]
      for (const path of paths) {
        const { headers } = yield* send(path, { key })
        assert.strictEqual(headers["x-cost-microdollars"], "0")
      }
      yield* waitUntil(Effect.map(used("endpoint=/estimate"), ({ length }) => length === paths.length))
      const rows = yield* used("endpoint=/estimate")
      assert.deepStrictEqual(rows.map((row) => at(row, "status_code")), [422, 422, 200, 200, 200, 200])
      assert.deepStrictEqual(rows.map((row) => at(row, "records_returned")), [0, 0, 1, 1, 1, 1])
      for (const row of rows) {
        assert.strictEqual(at(row, "cost_microdollars"), 0)
        assert.strictEqual(at(row, "deprecated"), false)
        assert.isAbove(Number(at(row, "bytes")), 0)
      }
      assert.deepStrictEqual(yield* used(`endpoint=${targets.join(",")}`), [])
      assert.deepStrictEqual(yield* left, [1_000_000_000, null])

      const { headers } = yield* send("/v1/screener?ticker=T7", { key })
      const cost = Number(headers["x-cost-microdollars"])
      assert.isAbove(cost, 0)
      yield* waitUntil(Effect.map(used("endpoint=/v1/screener"), ({ length }) => length === 1))
      assert.strictEqual((yield* left)[0], 1_000_000_000 - cost)
    }))

  it.effect("an account whose balance is zero or negative can still request estimates (D13, D28)", () =>
    Effect.gen(function* () {
      for (const [name, microdollars] of [["penniless", 0n], ["indebted", -5n]] as const) {
        yield* Accounts.ensureAccount({ name, tier: "ultimate", email: null, prepaid: true })
        if (microdollars !== 0n) {
          yield* Accounts.creditAccount({ name, microdollars, reference: null, mayBecomePrepaid: true })
        }
        const key = yield* Service.ensureAccountWithKey(name, "ultimate")
        for (const { path } of priced) {
          const query: Query = [["ticker", "T7"]]
          const { headers, status } = yield* send(DocumentedEndpoints.buildUrl(path, query), { key })
          assert.strictEqual(status, 402, path)
          assert.strictEqual(headers["x-cost-microdollars"], "0")
          const estimate = yield* requestEstimate(path, query, { key })
          const served = yield* send(DocumentedEndpoints.buildUrl(path, query))
          assert.strictEqual(estimate.status, served.status, path)
          if (served.status !== 200) continue
          assert.strictEqual(getField(estimate, "estimated_bytes"), Buffer.byteLength(served.text), path)
        }
      }
    }))

  it.effect("an estimate counts once against the rate limit, and is refused after the limit is reached (D18, D28)", () =>
    Effect.gen(function* () {
      const key = yield* Service.ensureAccountWithKey("estimating slowly", "pro")
      const paths = [
        "/v1/account",
        makeEstimateUrl("/v1/screener", []),
        makeEstimateUrl("/v1/historical-tickers", [["ticker", "NOBODY"]]),
        makeEstimateUrl("/v1/screener", [["limit", "0"]]),
        makeEstimateUrl("/v1/research-reports", []),
        makeEstimateUrl("/v1/nothing", []),
        "/estimate",
      ]
      for (const [at, path] of paths.entries()) {
        const { headers } = yield* send(path, { key })
        assert.strictEqual(headers["x-ratelimit-remaining"], String(proRateLimit - 1 - at), path)
        assert.strictEqual(headers["x-ratelimit-limit"], String(proRateLimit))
      }
      for (let rest = proRateLimit - paths.length; rest > 0; rest--) yield* send("/v1/account", { key })
      const own = yield* send("/v1/screener", { key })
      const estimate = yield* requestEstimate("/v1/screener", [], { key })
      for (const { headers, status } of [own, estimate]) {
        assert.strictEqual(status, 429)
        assert.isAbove(Number(headers["retry-after"]), 0)
        assert.strictEqual(headers["x-ratelimit-remaining"], "0")
      }
      assert.deepStrictEqual(at(estimate.body, "error"), at(own.body, "error"))
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Access
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("an estimate needs a key, because it queries the database (D2, D28)", () =>
    Effect.gen(function* () {
      for (const path of [makeEstimateUrl("/v1/screener", []), makeEstimateUrl("/v1/nothing", []), "/estimate"]) {
        const { body, status } = yield* send(path, { key: null })
        assert.strictEqual(status, 401)
        assert.strictEqual(at(body, "error", "code"), "missing_api_key")
      }
    }))

  it.effect("an endpoint that the tier does not include cannot be estimated (D3, D28)", () =>
    Effect.gen(function* () {
      const keys = yield* TestKeys
      for (const key of [keys.basic, keys.pro]) {
        const { estimate, response } = yield* compareEstimate("/v1/research-reports", [["limit", "2"]], 0, { key })
        assert.strictEqual(response.status, 403)
        assert.strictEqual(at(estimate.body, "error", "code"), "insufficient_tier")
        assert.deepStrictEqual(Object.keys(Object(at(estimate.body, "error", "details"))), ["required_tier", "tier"])
        yield* compareEstimate("/v1/research-reports", [["limit", "0"]], 0, { key })
        assert.strictEqual((yield* compareEstimate("/v1/research-reports-tldr", [], 0, { key })).response.status, 200)
      }
      assert.strictEqual((yield* compareEstimate("/v1/research-reports", [])).response.status, 200)
    }))

  it.effect("a restricted key may estimate exactly the endpoints that it may use (D28)", () =>
    Effect.gen(function* () {
      for (const allowed of [["/v1/screener"], ["/estimate", "/v1/screener", "/v1/usage"], ["/estimate"]]) {
        const key = yield* Service.ensureAccountWithKey("with lists", "ultimate", { endpoints: allowed })
        for (const { path } of DocumentedEndpoints.documentedEndpoints) {
          if (path === "/estimate") continue
          const response = yield* send(path, { key })
          const estimate = yield* requestEstimate(path, [], { key })
          assert.strictEqual(estimate.status, response.status, `${path} with ${allowed}`)
          assert.deepStrictEqual(at(estimate.body, "error"), at(response.body, "error"))
        }
        const refused = yield* requestEstimate("/v1/news", [], { key })
        assert.strictEqual(refused.status, 403)
        assert.deepStrictEqual(at(refused.body, "error", "details"), { endpoint: "/v1/news", allowed })
        assert.strictEqual((yield* send("/estimate?endpoint=/estimate", { key })).status, 200)
        const endless = yield* requestEstimate("/v1/changes/stream", [], { key })
        assert.deepStrictEqual([endless.status, at(endless.body, "error", "code")], [403, "endpoint_not_allowed"])
      }
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Parameters
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("`endpoint` is required exactly once (D4, D28)", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* send("/estimate?endpoint=/estimate&tickr=T7")).status, 422)
      const cases = [
        ["/estimate", "is required"],
        ["/estimate?ticker=T7", "is required"],
        ["/estimate?Endpoint=/v1/news", "is required"],
        ["/estimate?endpoint=/v1/news&endpoint=/v1/news", "is sent more than once; send it once"],
        ["/estimate?endpoint=/v1/news&limit=1&%65ndpoint=/v1/screener", "is sent more than once; send it once"],
      ] as const
      for (const [path, reason] of cases) {
        const { body, headers, status } = yield* send(path)
        assert.strictEqual(status, 422, path)
        assert.strictEqual(at(body, "error", "code"), "validation_error")
        assert.deepStrictEqual(at(body, "error", "details", "fields"), [{ field: "endpoint", reason }], path)
        assert.strictEqual(at(body, "request_id"), headers["x-request-id"])
      }
    }))

  it.effect("only free lists of the account have a filter `endpoint`, which an estimate cannot contain (D28)", () =>
    Effect.gen(function* () {
      const lists = ["/v1/account/invoice-lines", "/v1/usage", "/v1/usage/daily"]
      const paths = DocumentedEndpoints.documentedEndpoints
        .filter(({ parameters }) => parameters.some(({ name }) => name === "endpoint")).map(({ path }) => path)
      assert.deepStrictEqual(paths.toSorted(), ["/estimate", ...lists])
      for (const path of lists) {
        assert.strictEqual((yield* send(`${path}?endpoint=/v1/news`)).status, 200)
        assert.strictEqual((yield* send(`/estimate?endpoint=${path}&endpoint=/v1/news`)).status, 422)
        assert.strictEqual(getField(yield* requestEstimate(path), "estimated_cost_microdollars"), 0)
      }
    }))

  it.effect.each([
    { name: "nothing", path: "", suggestion: "" },
    { name: "/", path: "/", suggestion: "" },
    { name: "//", path: "//", suggestion: "" },
    { name: "/v1/nothing", path: "/v1/nothing", suggestion: "" },
    { name: "v1/news", path: "v1/news", suggestion: "/v1/news" },
    { name: "/v1/NEWS", path: "/v1/NEWS", suggestion: "/v1/news" },
    { name: "/v1/nwes", path: "/v1/nwes", suggestion: "/v1/news" },
    { name: "/v1/news//", path: "/v1/news//", suggestion: "/v1/news" },
    { name: "a space before the path", path: " /v1/news", suggestion: "/v1/news" },
    { name: "/v1/news?ticker=T7", path: "/v1/news?ticker=T7", suggestion: "/v1/news" },
    { name: "/v1/news#x", path: "/v1/news#x", suggestion: "/v1/news" },
    { name: "/v1/news/../screener", path: "/v1/news/../screener", suggestion: "/v1/news" },
    { name: "/enterprise/v1/news", path: "/enterprise/v1/news", suggestion: "/v1/news" },
    { name: "https://example.com/v1/news", path: "https://example.com/v1/news", suggestion: "" },
    { name: "/v1/%6Eews", path: "/v1/%6Eews", suggestion: "" },
    { name: "a NUL", path: "\0", suggestion: "" },
    { name: "5,000 characters", path: "/v1/".repeat(1000), suggestion: "" },
  ])(
    "an unknown endpoint is refused with the nearest suggestion: $name (D28)",
    ({ path, suggestion }) =>
      Effect.gen(function* () {
        const { body, headers, status } = yield* requestEstimate(path, [["ticker", "T7"]])
        assert.strictEqual(status, 422)
        assert.strictEqual(at(body, "error", "code"), "validation_error")
        const hint = suggestion === "" ? "" : ` Did you mean ${suggestion}?`
        const reason = `is not in the catalogue.${hint} GET /endpoints lists all paths.`
        assert.deepStrictEqual(at(body, "error", "details", "fields"), [{ field: "endpoint", reason }])
        assert.strictEqual(at(body, "error", "message"), `endpoint ${reason}`)
        assert.strictEqual(at(body, "request_id"), headers["x-request-id"])
        assert.strictEqual(headers["x-cost-microdollars"], "0")
      }),
  )

  const free = Endpoints.catalogueEndpoints.filter(({ isPriced: charged }) => !charged).map(({ row }) => row.path)

  it.effect.each(free)("a free endpoint is estimated at 0: %s (D28)", (path) =>
    Effect.gen(function* () {
      const estimate = yield* requestEstimate(path, [], { headers: { "If-None-Match": "*" } })
      assert.strictEqual(getField(estimate, "endpoint"), path)
      assert.strictEqual(getField(estimate, "estimated_cost_microdollars"), 0)
      assert.strictEqual(getField(estimate, "price_per_gb_microdollars"), 0)
      assert.include(String(at(estimate.body, "message")), "is free")
    }))

  it.effect("the estimate of a free endpoint states the size of the response, or fails with the validation errors of the request (D28)", () =>
    Effect.gen(function* () {
      for (const path of ["/endpoints", "/v1/openapi.json", "/v1/account/api-keys", "/v1/docs", "/v1/changelog"]) {
        const { text } = yield* send(path)
        const expected = Buffer.byteLength(text)
        assert.strictEqual(getField(yield* requestEstimate(path), "estimated_bytes"), expected, path)
      }
      const { body, status } = yield* requestEstimate("/v1/usage", [["limit", "0"]])
      assert.strictEqual(status, 422)
      assert.strictEqual(at(body, "error", "details", "fields", 0, "field"), "limit")
      assert.strictEqual((yield* requestEstimate("/v1/docs", [["ticker", "@@"]])).status, 200)
    }))

  it.effect("the estimate of a free list counts its rows (D28)", () =>
    Effect.gen(function* () {
      for (const path of ["/endpoints", "/v1/changelog", "/v1/datasets"]) {
        const { body } = yield* send(path)
        const estimate = yield* requestEstimate(path)
        assert.strictEqual(getField(estimate, "records_returned"), at(body, "count"), path)
      }
    }))

  it.effect("an invalid parameter gets the same error from /estimate as from the estimated endpoint (D4, D28)", () =>
    Effect.gen(function* () {
      const fields = Effect.fnUntraced(function* (path: string, query: Query) {
        const { estimate, response } = yield* compareEstimate(path, query)
        assert.strictEqual(response.status, 422)
        return at(estimate.body, "error", "details", "fields")
      })
      assert.deepStrictEqual(yield* fields("/v1/news", [["limt", "5"]]), [
        { field: "limt", reason: "is not a parameter of this endpoint. Did you mean limit?" },
      ])
      assert.deepStrictEqual(yield* fields("/v1/intraday-runners", [["min_gap_percntage", "5"]]), [
        {
          field: "min_gap_percntage",
          reason: "is not a parameter of this endpoint. Did you mean min_gap_percentage?",
        },
      ])
      assert.deepStrictEqual(yield* fields("/v1/news", [["limit", "5"], ["limit", "5"]]), [
        { field: "limit", reason: "is sent more than once; send it once" },
      ])
      assert.deepStrictEqual(yield* fields("/v1/ownership", []), [{ field: "ticker", reason: "is required" }])
      assert.isDefined(at(yield* fields("/v1/news", [["a", "1"], ["page", "0"]]), 1), "every mistake is named")
    }))

  it.effect.each(["?endpoint", "endpoint[]", "endpoint%20", "%20endpoint", "ENDPOINT", "endpoints", "parameters"])(
    "%s is refused by the estimated request, not by /estimate (D4, D28)",
    (name) =>
      Effect.gen(function* () {
        const own = yield* send(`/v1/news?${name}=/v1/news`)
        assert.strictEqual(own.status, 422)
        for (const search of [`endpoint=/v1/news&${name}=/v1/news`, `${name}=/v1/news&endpoint=/v1/news`]) {
          const estimate = yield* send(`/estimate?${search}`)
          assert.strictEqual(estimate.status, 422, search)
          assert.deepStrictEqual(at(estimate.body, "error"), at(own.body, "error"))
        }
      }),
  )

  it.effect("`endpoint` may be at any position and in any encoding, and its path may end in a slash (D28)", () =>
    Effect.gen(function* () {
      const expected = yield* requestEstimate("/v1/screener", [["limit", "3"], ["page", "2"], ["sort", "-price"]])
      assert.strictEqual(getField(expected, "records_returned"), 3)
      const paths = [
        "/estimate?limit=3&page=2&sort=-price&endpoint=/v1/screener",
        "/estimate?limit=3&endpoint=/v1/screener&page=2&sort=-price",
        "/estimate?limit=3&page=2&%65ndpoint=/v1/screener&sort=-price",
        "/estimate?%65%6E%64%70%6F%69%6E%74=%2Fv1%2Fscreener&%6Cimit=%33&page=2&sort=%2dprice",
        "/estimate?endpoint=%2fv1%2f%73creener&limit=3&page=2&sort=-price",
        "/estimate?endpoint=/v1/screener/&limit=3&page=2&sort=-price",
        "/estimate?&limit=3&&endpoint=/v1/screener&page=2&sort=-price&",
      ]
      for (const path of paths) {
        const { body, status } = yield* send(path)
        assert.strictEqual(status, 200, path)
        assert.deepStrictEqual(body, expected.body, path)
      }
    }))

  it.effect.each([
    { path: "/v1/dilution-data-advanced", search: "bank=J%26P", count: 1 },
    { path: "/v1/dilution-data-advanced", search: "bank=J%2526P", count: 1 },
    { path: "/v1/dilution-data-advanced", search: "bank=securities+%231", count: 1 },
    { path: "/v1/dilution-data-advanced", search: "bank=Securities", count: 2 },
    { path: "/v1/news", search: "ticker=EST", count: 3 },
    { path: "/v1/news", search: "query=zebra+crossing", count: 1 },
    { path: "/v1/news", search: "query=zebra%20crossing", count: 1 },
    { path: "/v1/news", search: "query=zebra+or+crossing", count: 3 },
    { path: "/v1/news", search: "query=%22zebra+crossing%22&ticker=e+s%20t", count: 1 },
    { path: "/v1/news", search: "tag=a%2Bb", count: 1 },
    { path: "/v1/news", search: "tag=a+b", count: 1 },
    { path: "/v1/news", search: "tag=endpoint=/v1/x", count: 1 },
    { path: "/v1/news", search: "tag=endpoint%3D%2Fv1%2Fx", count: 1 },
    { path: "/v1/news", search: "tag=%C3%BC%26%C3%B6=%2541", count: 1 },
    { path: "/v1/news", search: "t%61g=a%2Bb", count: 1 },
    { path: "/v1/news", search: "tag=a?b", count: 0 },
  ])("the parameters of $path reach it unchanged: $search (D28)", ({ count, path, search }) =>
    Effect.gen(function* () {
      const { body, headers, text } = yield* send(`${path}?${search}`)
      assert.strictEqual(at(body, "count"), count)
      for (const parameters of [`endpoint=${path}&${search}`, `${search}&endpoint=${path}`]) {
        const estimate = yield* send(`/estimate?${parameters}`)
        assert.strictEqual(getField(estimate, "records_total"), count, parameters)
        assert.strictEqual(getField(estimate, "records_returned"), count, parameters)
        assert.strictEqual(getField(estimate, "estimated_bytes"), Buffer.byteLength(text), parameters)
        const cost = String(getField(estimate, "estimated_cost_microdollars"))
        assert.strictEqual(cost, headers["x-cost-microdollars"], parameters)
      }
    }))

  it.effect("HEAD is answered like GET, without a body (D10, D28)", () =>
    Effect.gen(function* () {
      for (const query of [[["limit", "3"]], [["limit", "0"]]] satisfies ReadonlyArray<Query>) {
        const path = makeEstimateUrl("/v1/screener", query)
        const get = yield* send(path)
        const head = yield* send(path, { method: "HEAD" })
        assert.strictEqual(head.text, "")
        assert.strictEqual(head.status, get.status)
        assert.strictEqual(head.headers["x-cost-microdollars"], "0")
        assert.strictEqual(head.headers["content-type"], get.headers["content-type"])
        assert.strictEqual(head.headers["content-length"], get.headers["content-length"])
      }
      const { body, headers, status } = yield* send(makeEstimateUrl("/v1/screener", []), { method: "POST" })
      assert.strictEqual(status, 405)
      assert.strictEqual(at(body, "error", "code"), "method_not_allowed")
      assert.strictEqual(headers["allow"], "GET, HEAD")
    }))

  it.effect("a response has paging and deprecation headers, but its estimate does not (D8, D14, D28)", () =>
    Effect.gen(function* () {
      for (const ticker of ["T7", "NOBODY", "TOO LONG"]) {
        const query: Query = [["ticker", ticker]]
        const own = yield* send(DocumentedEndpoints.buildUrl("/v1/historical-tickers", query))
        assert.match(String(own.headers["deprecation"]), /^@\d+$/)
        assert.include(String(own.headers["link"]), "successor-version")
        const estimate = yield* requestEstimate("/v1/historical-tickers", query)
        for (const name of ["deprecation", "sunset", "link"]) assert.isUndefined(estimate.headers[name], name)
      }
      assert.include(String((yield* send("/v1/screener")).headers["link"]), `rel="next"`)
      const { headers } = yield* requestEstimate("/v1/screener")
      assert.isUndefined(headers["link"])
      assert.strictEqual(headers["x-api-version"], "v1")
      assert.match(String(headers["content-type"]), /^application\/json/)
    }))

  it.effect("a client's X-Request-Id is in every response, including the errors of the estimated request (D12, D28)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      const options = { key: basic, headers: { "X-Request-Id": "Order.7_of-9" } }
      const cases = [
        [200, makeEstimateUrl("/v1/screener", [])],
        [409, makeEstimateUrl("/v1/ticker-changes", [["ticker", "AMB1"]])],
        [403, makeEstimateUrl("/v1/research-reports", [])],
        [422, makeEstimateUrl("/v1/screener", [["limit", "0"]])],
        [422, makeEstimateUrl("/v1/nothing", [])],
        [422, "/estimate"],
      ] as const
      for (const [status, path] of cases) {
        const response = yield* send(path, options)
        assert.strictEqual(response.status, status, path)
        assert.strictEqual(response.headers["x-request-id"], "Order.7_of-9")
        assert.strictEqual(at(response.body, "request_id"), status === 200 ? undefined : "Order.7_of-9")
      }
    }))

  it.effect("an estimate gets 503 data_refreshing with Retry-After while a table is locked, like the request itself (§7.2, D28)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const other = yield* OtherConnection
      yield* other.query("begin")
      yield* other.query("lock table screener, ticker_changes in access exclusive mode")
      const responses = yield* Effect.all([
        send("/v1/screener"),
        requestEstimate("/v1/screener"),
        requestEstimate("/v1/ticker-changes", [["ticker", "T7"]]),
      ], { concurrency: "unbounded" })
      yield* other.query("rollback")
      for (const { body, headers, status } of responses) {
        assert.strictEqual(status, 503)
        assert.strictEqual(at(body, "error", "code"), "data_refreshing")
        assert.strictEqual(headers["retry-after"], "5")
        assert.strictEqual(headers["x-cost-microdollars"], "0")
        assert.strictEqual(at(body, "request_id"), headers["x-request-id"])
      }
      const [own, ...estimates] = responses
      for (const { body } of estimates) assert.deepStrictEqual(at(body, "error"), at(own.body, "error"))
      assert.strictEqual((yield* compareEstimate("/v1/screener", [])).response.status, 200)
    }))
})
