/**
 * Sends random requests to every list. Compares the responses, recorded usage and metrics with the predictions of a
 * second, simpler implementation.
 */
import { assert, layer } from "@effect/vitest"
import { Array, Effect, Layer, Metric, Option, type Schema } from "effect"
import { HttpApi } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { hash } from "node:crypto"
import { Api } from "../../src/contract/Api.ts"
import { findEndpoint } from "../../src/api/catalogue/Endpoints.ts"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { loadableDatasets } from "../../src/contract/Datasets.ts"
import { readLoadableColumns } from "../../src/ingest/load/LoadingTable.ts"
import { computeEtag } from "../../src/query/rows/Etag.ts"
import { makeQueryValidationError } from "../../src/contract/rules/QueryValidation.ts"
import * as CustomerUsage from "../support/CustomerUsage.ts"
import { buildUrl, documentedEndpoints, valueAt } from "../support/DocumentedEndpoints.ts"
import * as GeneratedRows from "../support/GeneratedRows.ts"
import { chooseParameterValue, makeRandomChooser } from "../support/RandomChoices.ts"
import { type ReferenceList, referenceLists, type ReferenceQuery } from "../support/ReferenceLists.ts"
import * as Service from "../support/Service.ts"
import * as ServiceInstances from "../support/ServiceInstances.ts"
import { getInputCount } from "../support/Thoroughness.ts"

/** SQL values that the encoders handle specially, by column type. */
const unusualValues: Readonly<Record<string, string>> = {
  text: `E'=SUM(A1),"é😀"\\\\\\n\\u0001 '`,
  bigint: "-9007199254740991",
  numeric: "-1234567890.1200",
}

/** Stores nulls and unusual values in every column whose constraints allow them. */
const storeUnusualValues = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  for (const { key, table } of loadableDatasets) {
    // Disables triggers. Otherwise the history would record each update, and a job would count each one as a
    // correction.
    yield* sql.unsafe(`alter table ${table} disable trigger user`)
    for (const { is_list, name, type } of yield* readLoadableColumns(table)) {
      if (key.includes(name) || is_list) continue
      const unusual = unusualValues[type.replace(/\(.*/, "")]
      for (const [value, remainder] of [["null", 0], [unusual ?? "null", 1]] as const) {
        const update =
          `update ${table} set "${name}" = ${value} where abs(hashtext('${name}' || ctid::text)) % 9 = ${remainder}`
        yield* Effect.ignore(sql.withTransaction(sql.unsafe(update)))
      }
    }
    yield* sql.unsafe(`alter table ${table} enable trigger user`)
  }
})

const service = Layer.effectDiscard(Effect.andThen(GeneratedRows.fillAllTables(300), storeUnusualValues)).pipe(
  Layer.provideMerge(ServiceInstances.databaseWithKeysLayer),
)

type Format = "json" | "csv" | "ndjson"

// ----------------------------------------------------------------------------------------------------------------
// Requests
// ----------------------------------------------------------------------------------------------------------------

interface RandomRequest {
  readonly list: ReferenceList
  /** The query schema that the contract declares. */
  readonly declaredQuery: Schema.Top
  readonly isEstimate: boolean
  readonly method: "GET" | "HEAD"
  readonly parameters: ReadonlyArray<readonly [string, string]>
  readonly accept: readonly [value: string | undefined, format: Format]
  readonly acceptEncoding: string | undefined
  /** Returns the request's `If-None-Match` header, given the ETag of an earlier response. */
  readonly makeCondition: (etag: string) => string | undefined
  /** Returns the expected `ETag` of a 304 response, or undefined if the response must not be a 304. */
  readonly matchedTag: (etag: string) => string | undefined
  readonly repetitions: number
}

const accepts: readonly [RandomRequest["accept"], ...ReadonlyArray<RandomRequest["accept"]>] = [
  [undefined, "json"],
  [undefined, "json"],
  ["*/*", "json"],
  ["text/html", "json"],
  ["text/csv", "csv"],
  ["application/x-ndjson", "ndjson"],
  ["application/json;q=0.1, text/csv;q=0.5", "csv"],
]

const never = () => undefined
const withSuffix = (etag: string) => `${etag.slice(0, -1)}-gzip"`

type Condition = Pick<RandomRequest, "makeCondition" | "matchedTag">
const conditions: readonly [Condition, ...ReadonlyArray<Condition>] = [
  { makeCondition: never, matchedTag: never },
  { makeCondition: never, matchedTag: never },
  { makeCondition: never, matchedTag: never },
  { makeCondition: () => `"other"`, matchedTag: never },
  { makeCondition: (etag) => etag, matchedTag: (etag) => etag },
  { makeCondition: (etag) => `"other", W/${etag}`, matchedTag: (etag) => etag },
  { makeCondition: withSuffix, matchedTag: withSuffix },
  { makeCondition: () => "*", matchedTag: (etag) => etag },
]

/**
 * Parameters that restrict the usage lists to days before the test. Without them, the lists would include the test's
 * own requests.
 */
const past: Readonly<Record<string, string>> = {
  "/v1/usage": "requested_at_to",
  "/v1/usage/daily": "usage_date_to",
}

const wrongValues = ["", "x", "-1", "1e400", "2025-02-30", "@@", "a\0b", "2999-01-01"] as const

type Chooser = ReturnType<typeof makeRandomChooser>

/** A list and some of its results. Random requests take their filter values from these results. */
interface SampledList {
  readonly list: ReferenceList
  readonly samples: ReadonlyArray<object>
}

/** Takes a filter value from a result, so that some results lie exactly on the bound. */
const chooseFromResults = ({ list, samples }: SampledList, name: string, isDate: boolean, choose: Chooser) => {
  const [first, ...rest] = samples
  const column = list.filteredColumns.get(name)
  if (first === undefined || column === undefined) return undefined
  const value: unknown = [Reflect.get(choose([first, ...rest]), column)].flat()[0]
  if (value === null || value === undefined) return undefined
  return isDate ? String(value).slice(0, 10) : String(value).slice(0, 100)
}

/** Chooses query parameters for a list. Most are valid; some are invalid, repeated or unknown. */
const chooseParameters = (sampled: SampledList, choose: Chooser) => {
  const { path } = sampled.list
  const { parameters } = documentedEndpoints.find((documented) => documented.path === path) ?? { parameters: [] }
  const isInvalid = choose([true, false, false, false, false, false])
  const rarity = choose([4, 20, 60])
  const filters = parameters.filter(({ name }) => name !== "page" && name !== "limit").flatMap((parameter) => {
    const { kind, name, required } = parameter
    if (name === past[path]) return [[name, "2024-05-31"] as const]
    const isFrequent = kind === "tickers" || kind === "sort"
    if (!required && !choose([true, ...Array.makeBy(isFrequent ? 1 : rarity, () => false)])) return []
    if (isInvalid && choose([true, false])) return [[name, choose(wrongValues)] as const]
    if (name === "status_code") return [[name, choose(["200", "200,404"])] as const]
    const found = choose([true, true, false]) ? chooseFromResults(sampled, name, kind === "date", choose) : undefined
    const value = found ?? chooseParameterValue(parameter, choose, choose)
    return [[name, kind === "tickers" && choose([true, false, false]) ? `${value},@@, t1` : value] as const]
  })
  const paging = choose<ReadonlyArray<readonly [string, string]>>([
    [],
    [["limit", "100"]],
    [["limit", "007"], ["page", "2"]],
    [["limit", "3"], ["page", choose(["1", "2", "20", "2147483647"])]],
    [["limit", "100"], ["page", choose(["1", "2", "3"])]],
    [["limit", "all"]],
  ])
  const wrongPaging = choose<ReadonlyArray<readonly [string, string]>>([
    [["limit", "0"]],
    [["limit", "101"], ["page", "0"]],
    [["limit", "all"], ["page", "2"]],
    [["limit", "1"], ["limit", "2"]],
    [["limt", "1"], ["nobody_knows", "1"]],
    [["format", "xml"]],
  ])
  const format = choose<ReadonlyArray<readonly [string, string]>>([
    [],
    [],
    [["format", "json"]],
    [["format", "csv"]],
    [["format", "ndjson"]],
  ])
  return [...filters, ...(isInvalid && choose([true, false]) ? wrongPaging : paging), ...format]
}

const makeRequest = (sampled: SampledList, declaredQuery: Schema.Top, seed: number): RandomRequest => {
  const { list } = sampled
  const choose = makeRandomChooser(seed)
  const parameters = chooseParameters(sampled, choose)
  // A request with an `endpoint` filter cannot be estimated, because `/estimate` has its own parameter with that name.
  const isEstimate = !parameters.some(([name]) => name === "endpoint") &&
    choose([true, false, false, false, false, false])
  return {
    list,
    declaredQuery,
    isEstimate,
    method: !isEstimate && choose([true, false, false, false, false]) ? "HEAD" : "GET",
    parameters,
    accept: choose(accepts),
    acceptEncoding: choose([undefined, undefined, "identity", "gzip", "br", "zstd", "gzip, br;q=0"]),
    ...choose(conditions),
    repetitions: choose([1, 1, 3]),
  }
}

/** Returns the encoding that the service must choose: the first supported one that the client accepts. */
const getEncoding = (acceptEncoding: string | undefined) =>
  ["gzip", "br", "zstd"].find((algorithm) => acceptEncoding?.split(",")[0] === algorithm)

// ----------------------------------------------------------------------------------------------------------------
// Expected responses
// ----------------------------------------------------------------------------------------------------------------

/** The price in microdollars per gigabyte. It is so high that bodies of different sizes have different costs. */
const price = 987_654_321

const computeCost = (bytes: number, isPriced: boolean) => isPriced ? Math.ceil(bytes * price / 1_000_000_000) : 0

interface Content {
  readonly format: Format
  readonly body: string
  readonly results: number
  /** The number of rows, if the content is a file. */
  readonly rows: number
  readonly hasMore: boolean
}

const missingFiguresMessage =
  "Some ownership figures on this page are missing: where insider_percent, affiliate_percent or " +
  "institutions_percent is null, no figure is known; a reported 0 is shown as 0."

const figures = ["insider_percent", "affiliate_percent", "institutions_percent"]

const makeContent = (
  list: ReferenceList,
  all: ReadonlyArray<ReadonlyArray<object>>,
  query: ReferenceQuery,
  format: Format,
): Content => {
  const { path } = list
  const { limit, page } = query
  const { columns, encodeResult } = list.makeEncoder(query)
  const start = limit === "all" ? 0 : (page - 1) * limit
  const end = limit === "all" ? all.length : start + limit
  const shown = all.slice(start, end).map(encodeResult)
  const hasMore = all.length > end
  const results = shown.length
  if (format === "ndjson") {
    return { format, body: shown.map(({ json }) => `${json}\n`).join(""), results, rows: results, hasMore }
  }
  if (format === "csv") {
    const records = shown.flatMap(({ csvRecords }) => csvRecords)
    const body = `\uFEFF${[columns.join(","), ...records].map((record) => `${record}\r\n`).join("")}`
    return { format, body, results, rows: records.length, hasMore }
  }
  const isIncomplete = path === "/v1/float-outstanding" &&
    shown.some(({ encoded }) => figures.some((name) => encoded[name] === null))
  const message = isIncomplete ? `"message":${JSON.stringify(missingFiguresMessage)},` : ""
  const body = `{"count":${results},"results":[${shown.map(({ json }) => json).join(",")}],${message}` +
    `"page":${page},"limit":${limit},"has_more":${hasMore}}`
  return { format, body, results, rows: results, hasMore }
}

/** The expected result of a request. An undefined header must be missing. */
interface Expected {
  readonly status: number
  /** The body of a 200 or 304 response to GET, or the `error` object of any other response. */
  readonly body: string | { readonly error: object }
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly trailers: Readonly<Record<string, string | undefined>>
  readonly usage: {
    readonly endpoint: string
    readonly records: number
    readonly bytes?: number
    readonly cost: number
  }
  readonly condition: string | undefined
}

const contentTypes: Readonly<Record<Format, string>> = {
  json: "application/json",
  csv: "text/csv; charset=utf-8; header=present",
  ndjson: "application/x-ndjson",
}

const getTarget = ({ isEstimate, list: { path }, parameters }: RandomRequest) =>
  isEstimate ? buildUrl("/estimate", [["endpoint", path], ...parameters]) : buildUrl(path, parameters)

const makeLink = (request: RandomRequest, page: number) => {
  const url = new URL(getTarget(request), "http://x")
  url.searchParams.set("page", String(page))
  return `<${url.pathname}${url.search}>; rel="next"`
}

const expectError = (request: RandomRequest, error: object, vary: string): Expected => ({
  status: 422,
  body: { error: { code: "validation_error", ...error } },
  headers: { "content-type": "application/json", etag: undefined, link: undefined, "x-cost-microdollars": "0", vary },
  trailers: {},
  usage: { endpoint: request.isEstimate ? "/estimate" : request.list.path, records: 0, cost: 0 },
  condition: request.makeCondition(`"none"`),
})

const expectEstimate = (
  { acceptEncoding, list, makeCondition }: RandomRequest,
  { body: estimated, results }: Content,
  total: number,
  query: ReferenceQuery,
): Expected => {
  const { isPriced = false, unit = "row" } = Option.getOrUndefined(findEndpoint(list.path)) ?? {}
  const bytes = Buffer.byteLength(estimated)
  const body = JSON.stringify({
    count: 1,
    results: [{
      endpoint: list.path,
      unit,
      ticker_count: [query.ticker ?? []].flat().length,
      records_returned: results,
      records_total: total,
      rows_sampled: results,
      estimated_bytes: bytes,
      estimated_cost_microdollars: computeCost(bytes, isPriced),
      price_per_gb_microdollars: isPriced ? price : 0,
    }],
    ...(isPriced ? {} : { message: "This endpoint is free." }),
  })
  return {
    status: 200,
    body,
    headers: {
      "content-type": "application/json",
      etag: undefined,
      "x-cost-microdollars": "0",
      vary: "Accept-Encoding",
      "content-encoding": body.length < 1024 ? undefined : getEncoding(acceptEncoding),
    },
    trailers: {},
    usage: { endpoint: "/estimate", records: 1, bytes: Buffer.byteLength(body), cost: 0 },
    condition: makeCondition(`"none"`),
  }
}

const expectResults = (
  request: RandomRequest,
  { body, format, hasMore, results, rows }: Content,
  query: ReferenceQuery,
  dropped: string | undefined,
  vary: string,
): Expected => {
  const { acceptEncoding, list, makeCondition, matchedTag, method } = request
  const { isPriced = false } = Option.getOrUndefined(findEndpoint(list.path)) ?? {}
  const [isExport, isHead] = [query.limit === "all", method === "HEAD"]
  const size = Buffer.byteLength(body)
  const etag = computeEtag(Buffer.from(body))
  const hasEtag = !isExport && !list.isOfAccount
  const matched = hasEtag ? matchedTag(etag) : undefined
  const encoding = isExport || size >= 1024 ? getEncoding(acceptEncoding) : undefined
  const bytes = isHead || matched !== undefined ? 0 : size
  const cost = computeCost(bytes, isPriced)
  const digest = format === "json" ? undefined : `sha-256=:${hash("sha256", body, "base64")}:`
  const [isFile, isStreamed] = [format !== "json" && matched === undefined, isExport && !isHead]
  return {
    status: matched === undefined ? 200 : 304,
    body: isHead || matched !== undefined ? "" : body,
    headers: {
      "content-type": matched === undefined ? contentTypes[format] : undefined,
      "content-encoding": matched === undefined ? encoding : undefined,
      etag: !hasEtag ? undefined : matched ?? (encoding === undefined ? etag : `${etag.slice(0, -1)}-${encoding}"`),
      link: hasMore ? makeLink(request, query.page + 1) : undefined,
      vary,
      "x-cost-microdollars": isExport ? undefined : String(cost),
      "x-dropped-tickers": dropped,
      "x-lineage": query.follow_lineage === true ? [query.ticker ?? []].flat().join(", ") : undefined,
      "x-row-count": isFile ? String(rows) : undefined,
      "unencoded-digest": isFile && !isExport ? digest : undefined,
    },
    trailers: isStreamed ? { "unencoded-digest": digest, "x-cost-microdollars": String(cost) } : {},
    usage: {
      endpoint: list.path,
      records: matched === undefined && !(isExport && isHead) ? results : 0,
      bytes,
      cost,
    },
    condition: makeCondition(etag),
  }
}

/** Groups repeated parameters, as a query string parser does. */
const collectParameters = (parameters: RandomRequest["parameters"]) => {
  const collected: Record<string, string | ReadonlyArray<string>> = {}
  for (const [name, value] of parameters) {
    collected[name] = collected[name] === undefined ? value : [collected[name], value].flat()
  }
  return collected
}

const exportError = {
  message: "limit can be all only with format=csv, format=ndjson or format=parquet",
  details: { fields: [{ field: "limit", reason: "can be all only with format=csv, format=ndjson or format=parquet" }] },
}

const makeExpected = Effect.fnUntraced(function* (request: RandomRequest, account_id: number) {
  const { declaredQuery, isEstimate, list } = request
  const parameters = collectParameters(request.parameters)
  const decoded = yield* Effect.result(list.decode(parameters))
  if (decoded._tag === "Failure") {
    return expectError(
      request,
      makeQueryValidationError(decoded.failure, parameters, declaredQuery).error,
      "Accept-Encoding",
    )
  }
  const { dropped, query } = decoded.success
  const format = query.format ?? request.accept[1]
  if (format === "parquet") return yield* Effect.die("No request has this format.")
  const vary = query.format === undefined && !isEstimate ? "Accept, Accept-Encoding" : "Accept-Encoding"
  if (query.limit === "all" && format === "json") return expectError(request, exportError, vary)
  const all = yield* list.readAll(query, account_id)
  const content = makeContent(list, all, query, format)
  return isEstimate
    ? expectEstimate(request, content, all.length, query)
    : expectResults(request, content, query, dropped, vary)
})

// ----------------------------------------------------------------------------------------------------------------
// Comparison
// ----------------------------------------------------------------------------------------------------------------

const compareResponse = (
  { body, headers, status, trailers }: Expected,
  response: ServiceInstances.WireResponse,
  id: string,
  isHead: boolean,
  about: string,
) => {
  assert.strictEqual(response.status, status, `${about} ${response.text}`)
  if (typeof body === "string") assert.strictEqual(response.text, body, about)
  else if (!isHead) assert.deepStrictEqual(JSON.parse(response.text), { ...body, request_id: id }, about)
  for (const [name, value] of Object.entries(headers)) {
    // Ignores the start position of a usage page, which the pagination tests cover.
    const received = response.headers[name]?.replace(/&after=[^&>]*/, "")
    assert.strictEqual(received, value, `${name} of ${about}`)
  }
  assert.deepStrictEqual({ ...response.trailers }, { ...trailers }, about)
  assert.strictEqual(response.headers["x-request-id"], id)
}

/** Inserts usage for an earlier month, for `/v1/usage` and `/v1/usage/daily`. */
const fillUsage = Effect.fnUntraced(function* (account_id: number, key_id: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`select create_usage_partition(timestamptz '2024-05-05')`
  yield* sql`
    insert into usage
    select gen_random_uuid(), timestamptz '2024-05-05' + n / 3 * interval '1 minute', ${account_id}::int, ${key_id}::int,
      'request-' || n, (array['/v1/news', '/v1/screener'])[1 + n % 2], (array[200, 404])[1 + n % 2], 1, n, 1, 1, false,
      false
    from generate_series(1, 300) as n
  `
  // Sets the time of last use in the future, so that using the key does not change the list of keys.
  yield* sql`update api_keys set last_used_at = now() + interval '1 day' where account_id = ${account_id}`
})

/** Reads some results of the list as a source of filter values for random requests. */
const sampleList = Effect.fnUntraced(function* (list: ReferenceList, account_id: number) {
  const { query } = yield* list.decode({ ticker: "T1,T2,T7,T50" }).pipe(
    Effect.catch(() => list.decode({ ticker: "T7" })),
    Effect.catch(() => list.decode({})),
  )
  const all = yield* list.readAll(query, account_id)
  const samples = all.slice(0, 40).map((rows): object => {
    const result: unknown = JSON.parse(list.makeEncoder({}).encodeResult(rows).json)
    return { ...Object(result), ...Object(valueAt(result, "owners", 0)) }
  })
  return { list, samples }
})

const declaredQueries = new Map<string, Schema.Top | undefined>()
HttpApi.reflect(Api, {
  onGroup: () => {},
  onEndpoint: ({ endpoint: { path, query } }) => {
    declaredQueries.set(path, query)
  },
})

const countRequests = (text: string) => {
  const found: Record<string, number> = {}
  const line = /^tickerline_http_requests_total\{endpoint="([^"]*)",status="(\d+)",cached="\w+"\} (\d+)$/gm
  for (const [, endpoint = "", status = "", count = "0"] of text.matchAll(line)) {
    const name = `${endpoint} ${status}`
    found[name] = (found[name] ?? 0) + Number(count)
  }
  return found
}

layer(service, { excludeTestServices: true, timeout: "180 seconds" })("The request pipeline", (it) => {
  it.effect("gives each list request the response, usage and metrics of a plain implementation (D8, D16, D17, D27, D28, D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, key, key_id } = yield* CustomerUsage.createCustomer("difference", { tier: "ultimate" })
      yield* Service.ensureAccountWithKey("difference", "ultimate", { name: "second", endpoints: ["/v1/news"] })
      yield* fillUsage(account_id, key_id)
      const lists = yield* Effect.forEach((yield* referenceLists).values(), (list) => sampleList(list, account_id))
      const paths = documentedEndpoints.filter(({ parameters }) => parameters.some(({ name }) => name === "page"))
      assert.sameMembers(lists.map(({ list }) => list.path), paths.map(({ path }) => path))

      const metrics = yield* chooseFreePort
      const port = yield* ServiceInstances.startServiceInstance({
        METRICS_PORT: String(metrics),
        PRICE_PER_GB_MICRODOLLARS: String(price),
        USAGE_RETENTION: "100000 days",
      }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))

      const expectedUsage = new Map<string, object>()
      const expectedCounts: Record<string, number> = {}
      const count = getInputCount(300)
      for (let seed = 1; seed <= count; seed += 1) {
        const sampled = lists[seed % lists.length]
        const declaredQuery = declaredQueries.get(sampled?.list.path ?? "")
        assert.isDefined(sampled)
        assert.isDefined(declaredQuery)
        const request = makeRequest(sampled, declaredQuery, seed)
        const { accept: [accept], acceptEncoding, method, repetitions } = request
        const target = getTarget(request)
        const expected = yield* makeExpected(request, account_id)
        const { condition, status, usage } = expected
        const headers = {
          ...(accept === undefined ? {} : { Accept: accept }),
          ...(acceptEncoding === undefined ? {} : { "Accept-Encoding": acceptEncoding }),
          ...(condition === undefined ? {} : { "If-None-Match": condition }),
        }
        for (let repetition = 1; repetition <= repetitions; repetition += 1) {
          const id = `difference-${seed}-${repetition}`
          const about = `${method} ${target} ${JSON.stringify(headers)}, seed ${seed}, time ${repetition}`
          const response = yield* ServiceInstances.requestOverWire(port, target, key, {
            method,
            headers: { ...headers, "X-Request-Id": id },
          })
          compareResponse(expected, response, id, method === "HEAD", about)
          const bytes = usage.bytes ?? (method === "HEAD" ? 0 : Buffer.byteLength(response.text))
          expectedUsage.set(id, { id, status, ...usage, bytes })
          const name = `${usage.endpoint} ${status}`
          expectedCounts[name] = (expectedCounts[name] ?? 0) + 1
        }
      }

      yield* CustomerUsage.waitForRecordedRequests(account_id, 300 + expectedUsage.size)
      const recorded = yield* sql<{ readonly id: string; readonly records: number }>`
        select request_id as id, status_code::int as status, endpoint, records_returned::int as records,
          bytes::int as bytes, cost_microdollars::int as cost
        from usage_requests where account_id = ${account_id} and requested_at > '2025-01-01'
      `
      assert.strictEqual(recorded.length, expectedUsage.size)
      for (const row of recorded) assert.deepStrictEqual({ ...row }, { ...expectedUsage.get(row.id) }, row.id)
      const { text } = yield* ServiceInstances.requestOverWire(metrics, "/metrics", "")
      assert.deepStrictEqual(countRequests(text), expectedCounts)
      assert.isAbove(recorded.filter(({ records }) => records > 0).length, count / 5)
      const statuses = Object.keys(expectedCounts).map((name) => name.slice(-3))
      assert.sameMembers(Array.fromIterable(new Set(statuses)), ["200", "304", "422"])
    }).pipe(Effect.scoped))
})
