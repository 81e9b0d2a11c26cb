/** Tests that a list's SQL is compiled once per query shape, and that requests only fill in its parameters. */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseReader } from "../../../src/postgres/DatabaseReader.ts"
import { makeListCompiler } from "../../../src/query/lists/ListCompiler.ts"
import { firstFieldOffset, getBytes, getFieldSize, getRecordColumn } from "../../../src/postgres/BinaryRecord.ts"
import { ScreenerQuery, ScreenerRow } from "../../../src/contract/endpoints/screener.ts"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import { buildUrl, documentedEndpoints } from "../../support/DocumentedEndpoints.ts"
import * as GeneratedRows from "../../support/GeneratedRows.ts"
import { chooseParameterValue, makeRandomChooser } from "../../support/RandomChoices.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"
import { TestKeys } from "../../support/Service.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

/** Enough rows for more than ten pages of the maximum size (100). */
const rowsPerTable = 1_500

const service = Layer.effectDiscard(GeneratedRows.fillAllTables(rowsPerTable)).pipe(
  Layer.provideMerge(ServiceInstances.databaseWithKeysLayer),
)

const lists = documentedEndpoints.filter(({ parameters }) => parameters.some(({ name }) => name === "limit"))

/**
 * Parameters that limit the usage lists to days before the test. The test's own requests are recorded, so the lists
 * would otherwise grow between two requests.
 */
const endOfUsage: Readonly<Record<string, string>> = {
  "/v1/usage": "requested_at_to",
  "/v1/usage/daily": "usage_date_to",
}

const oneInThree = [true, false, false] as const
const oneInFour = [true, false, false, false] as const
const oneInEight = [true, false, false, false, false, false, false, false] as const

/** Returns the URL of a random list request. Requests with the same `shape` have the same parameter names. */
const makeRequest = (shape: number, seed: number) => {
  const chooseShape = makeRandomChooser(shape)
  const choose = makeRandomChooser(seed)
  const [first, ...rest] = lists
  assert.isDefined(first)
  const { parameters, path } = chooseShape([first, ...rest])
  const filters = parameters.filter(({ name }) => name !== "page" && name !== "limit").flatMap((parameter) => {
    const { kind, name, required } = parameter
    if (name === endOfUsage[path]) return [[name, "2024-05-31"] as const]
    const isSent = required || chooseShape(kind === "tickers" ? oneInThree : oneInEight)
    if (!isSent) return []
    return [[
      name,
      name === "status_code" ? choose(["200", "200,404"]) : chooseParameterValue(parameter, chooseShape, choose),
    ]] as const
  })
  const paging = chooseShape<ReadonlyArray<readonly [string, string]>>([
    [],
    [["limit", "100"]],
    [["limit", "3"], ["page", choose(["1", "2", "20"])]],
    [["limit", "100"], ["page", choose(["1", "2", "11", "12"])]],
    [["limit", "all"], ["format", "csv"]],
  ])
  const query = [...filters, ...paging]
  return chooseShape(oneInFour) && endOfUsage[path] === undefined
    ? buildUrl("/estimate", [["endpoint", path], ...query])
    : buildUrl(path, query)
}

/** Stores 1,200 requests in May 2024 for the key's account. Half of them have the status 404. */
const fillUsage = Effect.fnUntraced(function* (key: string) {
  const sql = yield* SqlClient.SqlClient
  const { account_id, key_id } = yield* CustomerUsage.findAccountAndKeyIds(key)
  yield* sql`select create_usage_partition(timestamptz '2024-05-05')`
  yield* sql`
    insert into usage (usage_id, requested_at, account_id, key_id, request_id, endpoint, status_code, records_returned,
      bytes, cost_microdollars, duration_ms, cached, deprecated)
    select gen_random_uuid(), timestamptz '2024-05-05' + n / 3 * interval '1 minute', ${account_id}::int, ${key_id}::int,
      'request-' || n, (array['/v1/news', '/v1/screener'])[1 + n % 2], (array[200, 404])[1 + n % 2], 1, 1, 1, 1, false,
      false
    from generate_series(1, 1200) as n
  `
})

layer(service, { excludeTestServices: true, timeout: "180 seconds" })("Compiled statements", (it) => {
  it.effect("return the same results when they are reused as when they are compiled anew (D8)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* TestKeys
      yield* fillUsage(ultimate)
      const settings = { CACHE_MEGABYTES: "0", USAGE_RETENTION: "100000 days" }
      const [port, otherPort] = [
        yield* ServiceInstances.startServiceInstance(settings),
        yield* ServiceInstances.startServiceInstance(settings),
      ]
      const request = (at: number, url: string) =>
        Effect.map(ServiceInstances.requestOverWire(at, url, ultimate), ({ status, text }) => ({
          status,
          text: text.replace(/"(last_used_at|request_id)":"[^"]+"/g, ""),
        }))
      let withRows = 0
      const shapes = getInputCount(400)
      // Two requests with the same shape have different values, because their seeds differ.
      const [seedOfFirst, seedOfReused] = [2_000_000, 1_000_000]
      for (let shape = 1; shape <= shapes; shape += 1) {
        const url = makeRequest(shape, shape + seedOfReused)
        yield* request(port, makeRequest(shape, shape + seedOfFirst))
        const known = yield* request(port, url)
        assert.deepStrictEqual(known, yield* request(otherPort, url), url)
        assert.include([200, 422], known.status, `${url} ${known.text}`)
        if (url.startsWith("/v1/") && /"results":\[\{|\n./.test(known.text)) withRows += 1
      }
      // Comparing empty lists would prove little.
      const leastWithRows = shapes / 5
      assert.isAbove(withRows, leastWithRows)
    }).pipe(Effect.scoped))

  /** Compiles a list of screener rows. `selected` collects the sort order of each compiled statement. */
  const makeScreener = Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const compileList = yield* Effect.provide(makeListCompiler, DatabaseReader.layer)
    const selected: Array<string> = []
    const list = compileList<typeof ScreenerQuery.Type, "sort">({
      Query: ScreenerQuery,
      Row: ScreenerRow,
      shapedBy: ["sort"],
      select: ({ sort }, { columns, orderAndLimit, where }) => {
        selected.push(sort)
        return sql`select ${columns} from screener where ${where} ${orderAndLimit(sql`${sql(sort)}, ticker`)}`
      },
    })
    return { list, selected }
  })
  const page = { page: 1, limit: 10, sort: "price" } as const

  it.effect("are compiled once per query shape, regardless of the values (§8)", () =>
    Effect.gen(function* () {
      const { list, selected } = yield* makeScreener
      const compiled = [["A", "B", "C"], ["D", "E", "F", "G"]].map((sector, index) =>
        list.compile({ ...page, sector, min_price: `${index}.5`, is_adr: index === 0 }, "page")
      )
      assert.strictEqual(compiled[0]?.text, compiled[1]?.text)
      assert.deepStrictEqual(selected, ["price"])
      // One row beyond the page size shows whether there is a next page.
      const fetchedRows = page.limit + 1
      // Three values are padded to four to reduce the number of shapes. Repeating a value does not change the result.
      assert.deepStrictEqual(
        compiled.map(({ parameters }) => parameters),
        [
          ["A", "B", "C", "C", true, "0.5", fetchedRows],
          ["D", "E", "F", "G", false, "1.5", fetchedRows],
        ],
      )
      const compiledBefore = selected.length
      const differentShapes = [
        page,
        { ...page, sort: "float" as const },
        { ...page, limit: 11 },
        { ...page, page: 2 },
        { ...page, sector: ["A"] },
      ]
      const sameShapeAsPage2 = { ...page, page: 3 }
      const texts = [
        ...[...differentShapes, sameShapeAsPage2].map((query) => list.compile(query, "page").text),
        list.compile(page, "export").text,
        list.compile(page, "count").text,
      ]
      const distinct = texts.length - [sameShapeAsPage2].length
      assert.strictEqual(new Set(texts).size, distinct)
      assert.lengthOf(selected, compiledBefore + distinct)
    }))

  /**
   * Reads the ticker, the first column of the list, from each row. Rows arrive as records in PostgreSQL's binary
   * format.
   */
  const readTickers = (rows: ReadonlyArray<ReadonlyArray<unknown>>) =>
    getRecordColumn(rows).map(({ view }) =>
      new TextDecoder().decode(getBytes(view, firstFieldOffset, getFieldSize(view, firstFieldOffset)))
    )

  it.effect("are parsed once, and planned for their values if there are filters, but no ticker (§8)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { list } = yield* makeScreener

      const executions = 20
      const alwaysForValues = [{ custom: executions, generic: 0 }]
      const neverForValues = [{ custom: 0, generic: executions }]
      // PostgreSQL plans the first five executions for their specific values. It then compares the cost of those plans
      // with that of a generic plan.
      const genericAfterFive = [{ custom: 5, generic: executions - 5 }]

      /**
       * Executes a statement repeatedly on one connection. Returns the results, and how often PostgreSQL used a custom
       * and a generic plan.
       */
      const countPlans = Effect.fnUntraced(
        function* (purpose: "page" | "count", makeQuery: (execution: number) => typeof ScreenerQuery.Type) {
          const texts = new Set<string>()
          const results: Array<ReadonlyArray<ReadonlyArray<unknown>>> = []
          for (let execution = 1; execution <= executions; execution += 1) {
            const { isPrepared, parameters, text } = list.compile(makeQuery(execution), purpose)
            assert.isTrue(isPrepared)
            texts.add(text)
            results.push(yield* sql.unsafe(text, parameters).values)
          }
          assert.lengthOf(Array.from(texts), 1)
          const plans = yield* sql<{ readonly custom: number; readonly generic: number }>`
            select custom_plans::int as custom, generic_plans::int as generic from pg_prepared_statements
            where ${sql.in("statement", Array.from(texts))}
          `
          return { plans, results }
        },
        sql.withTransaction,
      )

      const makeFilteredQuery = (execution: number) => ({
        ...page,
        limit: 1 + execution % 7,
        page: 2,
        min_price: `${execution * 20}.5`,
        max_float: `${9_000 - execution}.5`,
      })
      const filtered = yield* countPlans("page", makeFilteredQuery)
      assert.deepStrictEqual(filtered.plans, alwaysForValues)
      const counted = yield* countPlans("count", makeFilteredQuery)
      assert.deepStrictEqual(counted.plans, alwaysForValues)
      let rowsFound = 0
      for (let execution = 1; execution <= executions; execution += 1) {
        const { limit, max_float, min_price } = makeFilteredQuery(execution)
        const expected = (yield* sql<{ readonly ticker: string }>`
          select ticker from screener
          where price >= ${min_price}::text::numeric and "float" <= ${max_float}::text::numeric order by price, ticker
        `).map(({ ticker }) => ticker)
        const rows = readTickers(filtered.results[execution - 1] ?? [])
        // The query requests page 2. The statement also reads the first row of page 3.
        const startOfPage2 = limit
        const endOfPage2 = 2 * limit
        assert.deepStrictEqual(rows, expected.slice(startOfPage2, endOfPage2 + 1))
        assert.deepStrictEqual(counted.results[execution - 1], [[BigInt(expected.length)]])
        rowsFound += rows.length
      }
      // On average, an execution finds more than one row.
      assert.isAbove(rowsFound, executions)

      // PostgreSQL estimates as few rows for these sectors as for unknown values. By cost alone, it would therefore
      // choose a generic plan.
      const bySector = yield* countPlans("page", (execution) => ({ ...page, sector: [`Sector ${execution}`] }))
      assert.deepStrictEqual(bySector.plans, alwaysForValues)

      assert.deepStrictEqual((yield* countPlans("page", () => page)).plans, neverForValues)
      const byTicker = yield* countPlans(
        "page",
        (execution) => ({ ...page, ticker: [`T${execution}`], min_price: "1" }),
      )
      assert.deepStrictEqual(byTicker.plans, genericAfterFive)
    }))

  it.effect("are evicted if there are too many, and are neither stored nor prepared if they are too long (§8)", () =>
    Effect.gen(function* () {
      const { list, selected } = yield* makeScreener
      const compileFirst = () => list.compile(page, "page")
      compileFirst()
      compileFirst()
      assert.lengthOf(selected, 1)
      // Every subset of these parameters is a query shape. With twelve parameters, the statements exceed the byte limit
      // of the statement cache.
      const names = Object.keys(ScreenerQuery.fields).filter((name) => name.startsWith("min_")).slice(0, 12)
      for (let subset = 1; subset < 2 ** names.length; subset += 1) {
        // The bits of `subset` determine which parameters are sent.
        const sent = names.filter((_, index) => (subset >> index) % 2 === 1)
        list.compile({ ...page, ...Object.fromEntries(sent.map((name) => [name, "1"])) }, "page")
      }
      const compiledBefore = selected.length
      compileFirst()
      assert.lengthOf(selected, compiledBefore + 1, "the first statement was evicted")
      const tooManyValuesToStore = 300
      const long = { ...page, sector: Array.from({ length: tooManyValuesToStore }, String) }
      list.compile(long, "page")
      list.compile(long, "page")
      assert.lengthOf(selected, compiledBefore + 3, "the long statement was compiled both times")
      const ticker = ["A"] as const
      assert.isTrue(list.compile({ ...page, ticker }, "page").isPrepared)
      assert.isFalse(list.compile({ ...long, ticker }, "page").isPrepared)
    }))
})
