/**
 * Creates the list of requests that `recorded-requests.test.ts` records, based on the contract of the last release.
 *
 * To add a request for an endpoint or a rule, add it to one of the lists below, such as `pastRequests`:
 *
 *     get("/v1/news?ticker=GAP7&as_of=2026-06-01", { key: "basic" }),
 *
 * Then repeat the recording with the command given in `recorded-requests.test.ts`.
 */
import { Effect, Option, Predicate, Schema } from "effect"
import { readFileSync } from "node:fs"
import { getResultRows } from "../support/ListClients.ts"
import { decimalPattern } from "../../src/contract/rules/FilterParameters.ts"
import { valueAt } from "../support/Service.ts"
import type { SampleReader } from "./Exchanges.ts"
import type { InstanceName, RecordedRequest } from "./Recording.ts"

const Parameter = Schema.Struct({
  name: Schema.String,
  required: Schema.optionalKey(Schema.Boolean),
  schema: Schema.Struct({
    type: Schema.optionalKey(Schema.String),
    format: Schema.optionalKey(Schema.String),
    pattern: Schema.optionalKey(Schema.String),
    enum: Schema.optionalKey(Schema.Array(Schema.String)),
  }),
})
type Parameter = typeof Parameter.Type

const Contract = Schema.fromJsonString(Schema.Struct({
  paths: Schema.Record(
    Schema.String,
    Schema.Struct({ get: Schema.Struct({ parameters: Schema.optionalKey(Schema.Array(Parameter)) }) }),
  ),
}))

/** Reads the last release's contract. */
export const readContract = Effect.sync(() =>
  readFileSync(new URL("../../clients/contract/v1.json", import.meta.url), "utf8")
)
  .pipe(
    Effect.flatMap(Schema.decodeEffect(Contract)),
  )

type Query = ReadonlyArray<readonly [name: string, value: string]>

const makeTarget = (path: string, query: Query = []) =>
  query.length === 0
    ? path
    : `${path}?${query.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")}`

interface Endpoint {
  readonly path: string
  readonly parameters: ReadonlyArray<Parameter>
}

const has = ({ parameters }: Endpoint, name: string) => parameters.some((parameter) => parameter.name === name)

const makeRequiredQuery = ({ parameters }: Endpoint): Query =>
  parameters.flatMap(({ name, required }) =>
    required === true && name === "ticker" ? [["ticker", "GAP7"] as const] : []
  )

const getColumn = (name: string) => name.replace(/^(min|max)_|_(from|to)$/g, "")

/** Returns a column's values in the rows, sorted and without nulls. List elements are returned as separate values. */
const findValues = (column: string, rows: ReadonlyArray<unknown>): ReadonlyArray<string> =>
  rows.flatMap((row) => valueAt(row, column)).filter((value) => Predicate.isString(value) || Predicate.isNumber(value))
    .map(String).toSorted((a, b) => Number(a) - Number(b) || (a < b ? -1 : a > b ? 1 : 0))

/** Values for parameters that are not named after a column. */
const fallbacks: Readonly<Record<string, string>> = {
  query: "offering",
  tag: "offering",
  filing_type: "8-K",
  owner_name: "partners",
  owner_type: "five_percent_owner",
  as_of: "2026-06-01",
  after: "2026-02-15T00:00:00-05:00",
  dataset: "news",
}

const isNumber = ({ pattern, type }: Parameter["schema"]) =>
  type === "number" || type === "integer" || pattern === decimalPattern.source

/**
 * Chooses a valid value for a parameter. Range bounds are quartiles of the rows' values, so that some rows lie within
 * the range.
 */
const chooseValue = ({ name, schema }: Parameter, rows: ReadonlyArray<unknown>): string => {
  if (name === "ticker") return "GAP7"
  if (schema.type === "boolean") return "true"
  const fallback = fallbacks[name]
  if (fallback !== undefined) return fallback
  if (schema.enum !== undefined) return schema.enum.at(-1) ?? ""
  const values = findValues(getColumn(name), rows)
  const quantile = /^min_|_from$/.test(name) ? 0.25 : /^max_|_to$/.test(name) ? 0.75 : 0.5
  const value = values[Math.floor(values.length * quantile)]
  if (schema.format === "date") return value?.slice(0, 10) ?? "2025-01-30"
  return value ?? (isNumber(schema) ? "1" : "x")
}

/** Groups parameters by column, so that both bounds of a range are sent together. */
const groupByColumn = (parameters: ReadonlyArray<Parameter>) =>
  Array.from(Map.groupBy(parameters, ({ name }) => getColumn(name)).values())

const invalidValue = ({ name, schema }: Parameter) =>
  name === "ticker"
    ? "@@"
    : schema.format === "date"
    ? "2025-02-30"
    : schema.type === "boolean" || isNumber(schema)
    ? "1e"
    : "\u0000"

const chunksOf = <A>(values: ReadonlyArray<A>, size: number): ReadonlyArray<ReadonlyArray<A>> =>
  values.length === 0 ? [] : [values.slice(0, size), ...chunksOf(values.slice(size), size)]

const formats = ["csv", "ndjson", "parquet"] as const

const acceptedTypes = {
  csv: "text/csv",
  ndjson: "application/x-ndjson",
  parquet: "application/vnd.apache.parquet",
} as const

/** Creates a request from the account `ultimate`, unless `more` specifies another key. */
const get = (target: string, more: Partial<RecordedRequest> = {}): RecordedRequest => ({
  target,
  key: "ultimate",
  ...more,
})

/**
 * Requests the same URL until the response cache serves it, then requests it with its ETag. The query cache stores the
 * result of the second request, and the response cache stores the third response.
 */
const repeat = (target: string, more: Partial<RecordedRequest> = {}) => [
  ...Array.from({ length: 4 }, () => get(target, more)),
  get(target, { ...more, ifNoneMatch: "last" }),
]

/**
 * Creates the requests that are sent to every dataset endpoint. `rows` is a sample of the endpoint's rows; their values
 * are used as filters.
 */
const makeEndpointRequests = (endpoint: Endpoint, rows: ReadonlyArray<unknown>, index: number) => {
  const { parameters, path } = endpoint
  const required = makeRequiredQuery(endpoint)
  const at = (query: Query) => makeTarget(path, [...required, ...query])
  const format = formats[index % formats.length] ?? "csv"
  const filters = parameters.filter(({ name }) => !["page", "limit", "format"].includes(name))
  const isList = has(endpoint, "limit")
  return [
    ...repeat(at([])),
    get(at([]), { method: "HEAD" }),
    get(at([["unknown", "1"]])),
    ...(required.length > 0 ? [get(path), get(makeTarget(path, [["ticker", ""]]))] : []),
    ...(has(endpoint, "ticker")
      ? [
        get(`${path}?ticker=GAP7&ticker=BIG1`),
        get(`${path}?ticker=GAP7,@@,gap7,BIG1`),
        get(`${path}?ticker=VLT5&follow_lineage=true`),
      ]
      : []),
    ...(isList
      ? [
        get(at([["limit", "2"], ["page", "2"]])),
        get(at([["format", "csv"], ["limit", "2"]])),
        get(at([["limit", "2"]]), { headers: { Accept: acceptedTypes[format] } }),
        get(at([["limit", "all"], ["format", format]])),
        get(at([["limit", "all"]])),
        get(at([["page", "0"], ["limit", "101"], ["format", "xml"]])),
      ]
      : []),
    ...chunksOf(groupByColumn(filters.filter(({ name }) => name !== "ticker")), filters.length > 30 ? 2 : 1).map((
      groups,
    ) => get(at(groups.flat().map((one) => [one.name, chooseValue(one, rows)])))),
    ...chunksOf(filters, 15).map((chunk) => get(makeTarget(path, chunk.map((one) => [one.name, invalidValue(one)])))),
  ]
}

/** Creates requests that test formats, pages, conditions and encodings on one endpoint. */
const makeDetailedRequests = (path: string) => {
  const at = (query: string) => `${path}?ticker=GAP7&${query}`
  return [
    ...formats.flatMap((format) => [
      ...repeat(at(`format=${format}&limit=3`)),
      get(at(`format=${format}`), { method: "HEAD" }),
      ...repeat(at("limit=4"), { headers: { Accept: acceptedTypes[format] } }),
      get(at(`limit=all&format=${format}`)),
      get(at(`limit=all&format=${format}`), { method: "HEAD" }),
      get(at(`limit=all&format=${format}`), { headers: { "Accept-Encoding": "gzip" } }),
      get(at("limit=all"), { headers: { Accept: acceptedTypes[format] } }),
      get(at(`limit=all&format=${format}&page=2`)),
      get(`${path}?ticker=NOROWS&format=${format}`),
      get(`${path}?ticker=NOROWS&format=${format}&limit=all`),
    ]),
    get(at("format=json"), { headers: { Accept: "text/csv" } }),
    get(at("limit=1"), { headers: { Accept: "text/csv;q=0.5, application/x-ndjson" } }),
    get(at("limit=1"), { headers: { Accept: "text/html, */*;q=0.1" } }),
    get(at("limit=1"), { headers: { Accept: "image/png" } }),
    ...["", "page=1&limit=1", "page=2147483647", "page=2147483648", "page=-1", "page=1.5", "page=x", "page="]
      .map((query) => get(at(query))),
    ...["limit=0", "limit=100", "limit=-1", "limit=ALL", "limit=", "limit=1&limit=2", "format=", "format=CSV"]
      .map((query) => get(at(query))),
    get(at("limit=5"), { ifNoneMatch: "*" }),
    get(at("limit=5"), { headers: { "If-None-Match": `"other"` } }),
    get(at("limit=5"), { headers: { "If-None-Match": "not a tag" } }),
    get(at("limit=5"), { ifNoneMatch: "among others" }),
    get(at("limit=5"), { ifNoneMatch: "weak" }),
    get(at("limit=5"), { method: "HEAD", ifNoneMatch: "last" }),
    ...["gzip", "br", "zstd", "gzip;q=0.5, br", "identity;q=0, gzip", "*", "deflate"].flatMap((encoding) => [
      get(at("limit=20"), { headers: { "Accept-Encoding": encoding } }),
      get(at("limit=20"), { headers: { "Accept-Encoding": encoding }, ifNoneMatch: "last" }),
    ]),
    ...repeat(at("limit=20"), { headers: { "Accept-Encoding": "gzip" } }),
    get(at("limit=20"), { method: "HEAD", headers: { "Accept-Encoding": "gzip" } }),
  ]
}

/** Requests for lineage: unchanged, changed, ambiguous and unknown symbols, and lists that follow lineages. */
const lineageRequests = [
  ...[
    "OSTK",
    "ostk",
    "AAPL",
    "META",
    "GOOG",
    "BBBY",
    "BD5",
    "ZYX0",
    "CL1.A",
    "BRK.B",
    "PND1",
    "RCY1",
    "ORB4",
    "ALI2",
    "NOROWS",
  ]
    .map((ticker) => get(`/v1/ticker-changes?ticker=${ticker}`)),
  get("/v1/ticker-changes?ticker=META,BYON"),
  get("/v1/ticker-changes?ticker=RCY1&cik=9990000011"),
  get("/v1/ticker-changes?ticker=RCY1&cik=1"),
  get("/v1/ticker-changes?ticker=RCY1&cik=x"),
  ...repeat("/v1/ticker-changes?ticker=VLT4"),
  ...["NXH", "OSTK", "AAPL", "META"].map((ticker) => get(`/v1/historical-tickers?ticker=${ticker}`)),
  ...["/v1/news", "/v1/gap-stats", "/v1/float-outstanding", "/v1/timeline"].flatMap((path) => [
    ...repeat(`${path}?ticker=ORB4&follow_lineage=true`),
    get(`${path}?ticker=ORB3,SLQ1,GAP7&follow_lineage=true&limit=3`),
    get(`${path}?ticker=META&follow_lineage=true`),
    get(`${path}?ticker=META,RCY1,TWN1&follow_lineage=true`),
    get(`${path}?ticker=RCY1&follow_lineage=true&cik=9990000011`),
    get(`${path}?ticker=ORB4&follow_lineage=false`),
    get(`${path}?ticker=ORB4&follow_lineage=yes`),
    get(`${path}?ticker=ORB4&cik=9990001010`),
    get(`${path}?follow_lineage=true`),
  ]),
  get("/v1/news?ticker=ORB4&follow_lineage=true&format=csv"),
  get("/v1/news?ticker=ORB4&follow_lineage=true&format=ndjson&limit=all"),
]

/** Requests for past data, provenance, changes and the timeline. */
const pastRequests = [
  ...["2026-03-02T09:30:00-05:00", "2026-03-02T09:30:00", "2026-01-01", "2999-01-01", "yesterday", ""].map((moment) =>
    get(`/v1/news?ticker=GAP7&limit=2&as_of=${moment}`)
  ),
  ...[
    "/v1/news?ticker=GAP7&limit=2",
    "/v1/ticker-changes?ticker=OSTK",
    "/v1/gap-stats?ticker=ORB4&follow_lineage=true&limit=2",
    "/v1/timeline?ticker=GAP7&limit=2",
  ].flatMap((target) => [get(`${target}&as_of=2026-02-15`), ...repeat(`${target}&as_of=2026-06-01`)]),
  get("/v1/news?ticker=GAP7&as_of=2026-06-01&format=csv"),
  get("/v1/screener?as_of=2026-06-01&limit=2&sort=-price"),
  get("/v1/overview?as_of=2026-06-01"),
  ...["/v1/news", "/v1/historical-float-pro", "/v1/ownership", "/v1/registrations"].flatMap((path) => [
    get(`${path}?ticker=GAP7&provenance=true&limit=2`),
    get(`${path}?ticker=GAP7&provenance=true&limit=2&format=csv`),
    get(`${path}?ticker=GAP7&provenance=1`),
  ]),
  get("/v1/ownership?ticker=GAP7&per_holder=true&limit=3"),
  get("/v1/ownership?ticker=GAP7&accession_number=9990001000-25-000005"),
  get("/v1/changes?dataset=ticker_changes&limit=2"),
  get("/v1/changes?dataset=news&ticker=GAP7&limit=2"),
  get("/v1/changes?kind=added&limit=1&after=2026-02-02T00:00:00-05:00"),
  get("/v1/changes?kind=lost"),
  get("/v1/changes?after=1"),
  get("/v1/changes?after=2025-01-01T00:00:00Z"),
  get("/v1/changes?dataset=research_reports&limit=1", { key: "basic" }),
  get("/v1/changes/stream", { key: null }),
  get("/v1/changes/stream?dataset=news&ticker=GAP7&kind=lost&after=1"),
  get("/estimate?endpoint=/v1/changes/stream&ticker=GAP7"),
  get("/v1/timeline?ticker=GAP7&types=filing,news&limit=3"),
  get("/v1/timeline?ticker=GAP7&types=research_report", { key: "basic" }),
  get("/v1/timeline?ticker=GAP7&limit=3", { key: "basic" }),
  get("/v1/timeline?ticker=GAP7&date_from=2025-01-01&date_to=2025-02-01&format=csv"),
  get("/v1/timeline?ticker=GAP7,BIG1"),
  get("/v1/timeline"),
]

const estimateRequests = (endpoints: ReadonlyArray<Endpoint>) => [
  ...endpoints.map((endpoint, index) =>
    get(makeTarget("/estimate", [
      ["endpoint", endpoint.path],
      ...makeRequiredQuery(endpoint),
      ...(has(endpoint, "limit") && index % 2 === 0 ? [["limit", "all"], ["format", "csv"]] as const : []),
    ]))
  ),
  ...repeat("/estimate?endpoint=/v1/news&ticker=GAP7&limit=2"),
  ...[
    "",
    "?endpoint=/v1/nothing",
    "?endpoint=/v1/news&limit=0",
    "?endpoint=/v1/news&limit=all",
    "?endpoint=/v1/news&endpoint=/v1/news",
    "?endpoint=/v1/news&ticker=META&follow_lineage=true",
    "?endpoint=/v1/news&ticker=GAP7&as_of=2026-06-01",
    "?endpoint=/v1/ticker-changes&ticker=META",
    "?endpoint=/v1/ticker-changes",
    "?endpoint=/v1/account",
  ].map((query) => get(`/estimate${query}`)),
  get("/estimate?endpoint=/v1/news&ticker=GAP7", { key: null }),
  get("/estimate?endpoint=/v1/news&ticker=GAP7", { method: "HEAD" }),
  get("/estimate?endpoint=/v1/research-reports&ticker=GAP7", { key: "basic" }),
  get("/estimate?endpoint=/v1/news&ticker=GAP7", { key: "limited to screener" }),
  get("/estimate?endpoint=/v1/news&ticker=GAP7", { key: "without credit" }),
  get("/estimate?endpoint=/v1/news&ticker=GAP7&format=csv"),
]

const documents = [
  "/endpoints",
  "/v1/openapi.json",
  "/health/live",
  "/health/ready",
  "/v1/changelog",
  "/v1/changelog?type=added&since=2026-01-01",
  "/v1/changelog.atom?breaking=true",
  "/v1/docs",
  "/v1/docs/corrections",
  "/v1/corrections",
]

/** Requests for documents, which need no key. */
const documentRequests = [
  ...documents.flatMap((target) => [
    get(target, { key: null }),
    get(target, { key: null, ifNoneMatch: "last" }),
    get(target, { key: null, method: "HEAD" }),
    get(target, { key: null, headers: { "Accept-Encoding": "br, gzip" } }),
  ]),
  ...[
    "/v1/changelog?type=nothing",
    "/v1/changelog?since=2026-02-30",
    "/v1/changelog?unknown=1",
    "/v1/changelog?breaking=false&path=/v1/news",
    "/v1/changelog.atom?type=added&since=2026-01-01&path=/v1/news",
    "/endpoints?unknown=1",
    "/health/ready?unknown=1",
    "/v1/docs/nothing",
    "/v1/docs/",
    "/docs",
  ].flatMap((target) => [get(target, { key: null }), get(target, { key: null, headers: { Accept: "text/html" } })]),
]

/** Requests with special paths, methods and headers, some of which are not valid HTTP. */
const protocolRequests = [
  ...["/", "/v1", "/v1/", "/v1/newz", "/v2/news", "/v1/news/", "//v1/news", "/V1/news", "/v1/news;a", "/v1/%6eews"]
    .map((target) => get(target)),
  get("/v1/nothing", { key: null }),
  get("/v1/news?ticker=%E0%A4%A", {}),
  get("/v1/%", {}),
  ...["/enterprise/v1/news?ticker=GAP7&limit=1", "/enterprise/v1/nothing", "/enterprise/v2/news", "/enterprise/v1/"]
    .flatMap((target) => [get(target), get(target, { key: null, method: "HEAD" })]),
  ...["POST", "DELETE", "OPTIONS", "PURGE"].flatMap((method) => [
    get("/v1/news?ticker=GAP7", { method }),
    get("/v1/historical-tickers?ticker=NXH", { method, key: null }),
    get("/v1/nothing", { method }),
  ]),
  get("/docs", { method: "POST", key: null }),
  get("/mcp", { method: "OPTIONS", key: null }),
  get("/enterprise/v1/news", { method: "POST", key: null }),
  get("/v1/news?limit=1", { setHost: false }),
  get("/v1/news?limit=1", { requestId: null }),
  get("/v1/news?limit=0", { requestId: null }),
  get("/v1/news?limit=0", { requestId: "not valid!" }),
  get("/v1/nothing", { requestId: null, key: null }),
  get("/v1/news?limit=1", { headers: { Expect: "100-continue" } }),
  get("/v1/news?limit=1", { headers: { Origin: "https://app.example.com" } }),
  get(`/v1/news?query=${"a".repeat(3_000)}`),
  get(`/v1/news?ticker=${Array.from({ length: 101 }, (_, at) => `A${at}`).join(",")}`),
  ...[
    "GET /v1/screener?limit=1 HTTP/1.0\r\nX-API-Key: {ultimate}\r\n\r\n",
    "GET /v1/screener?limit=1 HTTP/1.1\r\nX-API-Key: {ultimate}\r\nConnection: close\r\n\r\n",
    "GET /v1/screener?limit=1 HTTP/1.1\r\nHost: x\r\nHost: y\r\nX-API-Key: {ultimate}\r\nConnection: close\r\n\r\n",
    "GET http://x/v1/screener?limit=1 HTTP/1.1\r\nHost: x\r\nX-API-Key: {ultimate}\r\nConnection: close\r\n\r\n",
    "GET /v1/news?q=é HTTP/1.1\r\nHost: x\r\nX-API-Key: {ultimate}\r\nConnection: close\r\n\r\n",
    "get /v1/screener HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "BREW /v1/historical-tickers HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /v1/screener HTTP/3.7\r\nHost: x\r\n\r\n",
    "GET /v1/screener HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
    `GET /health/live HTTP/1.1\r\nHost: x\r\nX: ${"a".repeat(40_000)}\r\n\r\n`,
    "nonsense\r\n\r\n",
  ].map((raw) => get("", { raw, key: null })),
]

/** Creates a message to the MCP server. */
const mcp = (method: string, params: unknown, more: Partial<RecordedRequest> = {}): RecordedRequest => ({
  target: "/mcp",
  method: "POST",
  key: "ultimate",
  body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  ...more,
  headers: {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",
    ...more.headers,
  },
})

const callTool = (name: string, args: unknown, more: Partial<RecordedRequest> = {}) =>
  mcp("tools/call", { name, arguments: args }, more)

/** Requests with each kind of key, and with keys in each supported header. */
const keyRequests = [
  ...["basic", "disabled", "expired", "revoked", "unknown", "malformed", "limited to screener", "without credit"]
    .flatMap((
      key,
    ) => [
      get("/v1/news?ticker=GAP7&limit=1", { key }),
      get("/v1/screener?limit=1", { key, method: "HEAD" }),
      get("/v1/research-reports?ticker=GAP7", { key }),
      get("/v1/account", { key }),
      get("/v1/news?limit=0", { key }),
      get("/v1/news?limit=all&format=csv&ticker=GAP7", { key }),
    ]),
  ...Array.from({ length: 3 }, () => get("/v1/screener?limit=1", { key: "limited to screener" })),
  get("/v1/research-reports-tldr?ticker=GAP7&limit=1", { key: "pro 1" }),
  get("/v1/research-reports?ticker=GAP7&limit=1", { key: "pro 2" }),
  get("/v1/news?ticker=GAP7&limit=1", { key: "pro 3" }),
  ...["GET", "GET", "HEAD"].map((method) => get("/v1/news?ticker=GAP7&limit=1", { key: "pro 3", method })),
  get("/v1/research-reports?ticker=GAP7&limit=1", { key: "pro 3" }),
  get("/v1/news?limit=0", { key: "pro 3" }),
  get("/estimate?endpoint=/v1/news", { key: "pro 3" }),
  callTool("query", { endpoint: "/v1/news", parameters: {} }, { key: "pro 3" }),
  get("/v1/screener?limit=1", { key: null, headers: { Authorization: "Bearer {ultimate}" } }),
  get("/v1/screener?limit=1", { key: null, headers: { Authorization: "bearer   {ultimate}" } }),
  get("/v1/screener?limit=1", { headers: { Authorization: "Bearer {ultimate}" } }),
  get("/v1/screener?limit=1", { headers: { Authorization: "Bearer {basic}" } }),
  get("/v1/screener?limit=1", { headers: { Authorization: "Basic dXNlcjpwYXNz" } }),
  get("/v1/screener?limit=1", { key: null, headers: { Authorization: "Basic dXNlcjpwYXNz" } }),
  get("/v1/screener?limit=1", { key: null, headers: { Authorization: "Bearer" } }),
  get("/v1/screener?limit=1", { key: null, headers: { "X-API-Key": "" } }),
  get("/v1/screener?api_key={ultimate}", { key: null }),
  get("/v1/screener?limit=1&{ultimate}=1"),
  // The account can afford a few pages but not the export.
  get("/v1/news?limit=all&format=csv", { key: "with little credit" }),
  get("/v1/news?limit=all&format=ndjson", { key: "with little credit" }),
  get("/v1/news?limit=1", { key: "with little credit", method: "HEAD" }),
  ...Array.from({ length: 6 }, () => get("/v1/news?limit=100", { key: "with little credit" })),
  get("/v1/news?limit=1", { key: "with little credit" }),
  get("/v1/overview", { key: "with little credit" }),
]

const initialization = {
  protocolVersion: "2025-11-25",
  capabilities: {},
  clientInfo: { name: "test", version: "1.0.0" },
}

const mcpRequests = [
  mcp("initialize", initialization),
  mcp("initialize", { ...initialization, protocolVersion: "2024-01-01" }),
  mcp("initialize", {}),
  mcp("ping", {}),
  mcp("tools/list", {}),
  mcp("tools/list", {}, { key: "limited to screener" }),
  mcp("resources/list", {}),
  mcp("prompts/list", {}),
  mcp("nothing", {}),
  mcp("tools/list", {}, { key: null }),
  mcp("tools/list", {}, { key: "disabled" }),
  mcp("tools/list", {}, { headers: { Origin: "https://app.example.com" } }),
  mcp("tools/list", {}, { headers: { "MCP-Protocol-Version": "1999-01-01" } }),
  mcp("tools/list", {}, { headers: { "Content-Type": "text/plain" } }),
  mcp("tools/list", {}, { headers: { Accept: "text/html" } }),
  mcp("tools/list", {}, { body: "{" }),
  mcp("tools/list", {}, { body: "[]" }),
  mcp("tools/list", {}, { body: JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }) }),
  get("/mcp"),
  get("/mcp", { method: "DELETE" }),
  callTool("nothing", {}),
  callTool("find_endpoint", {}),
  callTool("find_endpoint", { search: "insider ownership" }),
  callTool("find_endpoint", { search: "/v1/news" }),
  callTool("find_endpoint", { search: "float" }, { key: "basic" }),
  callTool("find_endpoint", { search: 1 }),
  callTool("query", {}),
  callTool("query", { endpoint: "/v1/news", parameters: { ticker: "GAP7", limit: 2 } }),
  callTool("query", { endpoint: "/v1/news", parameters: { ticker: "GAP7", limit: 2 }, format: "json" }),
  callTool("query", { endpoint: "/v1/news", parameters: { ticker: ["GAP7", "@@"], follow_lineage: true, limit: 1 } }),
  callTool("query", { endpoint: "/v1/news", parameters: { ticker: "GAP7", as_of: "2026-06-01", limit: 1 } }),
  callTool("query", { endpoint: "/v1/news", parameters: { limit: 0 } }),
  callTool("query", { endpoint: "/v1/news", parameters: { min_nothing: 1 } }),
  callTool("query", { endpoint: "/v1/nothing" }),
  callTool("query", { endpoint: "/v1/historical-tickers", parameters: { ticker: "NXH" } }),
  callTool("query", { endpoint: "/v1/historical-tickers", parameters: { ticker: "AAPL" } }),
  callTool("query", { endpoint: "/v1/screener", parameters: { limit: 100 } }),
  callTool("query", { cursor: "nothing" }),
  callTool("query", { endpoint: "/v1/research-reports", parameters: { ticker: "GAP7" } }, { key: "basic" }),
  callTool("query", { endpoint: "/v1/news", parameters: {} }, { key: "limited to screener" }),
  callTool("query", { endpoint: "/v1/news", parameters: {} }, { key: "without credit" }),
  callTool("lineage", { ticker: "ostk" }),
  callTool("lineage", { ticker: "META" }),
  callTool("lineage", { ticker: "RCY1", cik: "9990000011" }),
  callTool("lineage", { ticker: "OSTK", as_of: "2026-06-01" }),
  callTool("lineage", { ticker: "@@" }),
  callTool("lineage", {}),
  callTool("lineage", { ticker: "OSTK", more: 1 }),
  callTool("estimate", { endpoint: "/v1/news", parameters: { ticker: "GAP7" } }),
  callTool("estimate", { endpoint: "/v1/news", parameters: { limit: 0 } }),
  callTool("estimate", {}),
]

/** Requests for accounts and usage. They go to an instance that starts after the first instance's usage is stored. */
const accountRequests = (endpoints: ReadonlyArray<Endpoint>) => [
  ...["basic", "limited to screener", "with little credit"].flatMap((key) => [
    get("/v1/overview", { key }),
    get("/v1/account", { key }),
    get("/v1/account/api-keys", { key }),
    get("/v1/account/invoices", { key }),
    get("/v1/account/invoice-lines", { key }),
    get("/v1/usage?limit=5", { key }),
    get("/v1/usage/daily", { key }),
  ]),
  ...endpoints.flatMap(({ path }) => [
    get(path, { key: "basic", method: "HEAD" }),
    get(path, { key: "basic", ifNoneMatch: "*" }),
    get(path, { key: null }),
    get(`${path}?unknown=1`, { key: "basic" }),
  ]),
  ...endpoints.filter((endpoint) => has(endpoint, "limit")).flatMap(({ path }) => [
    get(`${path}?limit=1`),
    get(`${path}?limit=2&page=2`),
    get(`${path}?limit=0`),
    get(`${path}?page=999&explain=true`),
    ...formats.flatMap((format) => [
      get(`${path}?limit=2&format=${format}`, { key: "basic" }),
      get(`${path}?limit=all&format=${format}`, { key: "basic" }),
    ]),
  ]),
  ...[
    "endpoint=/v1/news&limit=2",
    "endpoint=/v1/nothing",
    "status_code=403,402&limit=2",
    "status_code=999",
    "requested_at_from=2026-11-20&requested_at_to=2026-11-20&limit=1",
    "requested_at_to=2026-11-19",
    "requested_at_from=2999-01-01",
  ].map((query) => get(`/v1/usage?${query}`)),
  get("/v1/usage/daily?endpoint=/v1/news"),
  get("/v1/usage/daily?usage_date_from=2026-11-20&usage_date_to=2026-11-20"),
  // No rows follow these cursors, because the account was created later.
  get("/v1/usage?after=1760000000000.1.1.0.0"),
  get("/v1/usage/daily?after=2025-10-09/v1/news"),
  get("/v1/account/invoices?month=2026-10"),
  get("/v1/account/invoice-lines?month=2026-10&endpoint=/v1/news&kind=charged"),
  get("/v1/account/invoice-lines?usage_date_from=2026-10-01&usage_date_to=2026-10-31"),
  get("/v1/datasets?explain=true"),
]

/** Requests as web pages send them, for an instance with `BASE_URL` and `CORS_ORIGINS`. */
const browserRequests = ["https://app.example.com", "https://other.example.com", undefined].flatMap((origin) =>
  [
    ...repeat("/v1/news?limit=2"),
    get("/v1/news?limit=0"),
    get("/v1/news?limit=all&format=csv&ticker=GAP7"),
    get("/v1/historical-tickers?ticker=NXH", { key: null }),
    get("/v1/historical-tickers?ticker=NXH"),
    get("/v1/nothing", { key: null }),
    get("/v1/news", {
      key: null,
      method: "OPTIONS",
      headers: { "Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "x-api-key" },
    }),
    get("/mcp", { key: null, method: "OPTIONS", headers: { "Access-Control-Request-Method": "POST" } }),
    mcp("ping", {}),
    get("/v1/docs", { key: null }),
    get("/", { key: null }),
    get("/enterprise/v1/news?ticker=GAP7", { key: null }),
    get("/endpoints", { key: null }),
    get("/v1/changelog.atom", { key: null }),
  ].map((request) => origin === undefined ? request : { ...request, headers: { ...request.headers, Origin: origin } })
)

const accountPath = /^\/v1\/(account|usage|overview|datasets)/

/** Creates the request list for each instance. */
export const makeRequestList = Effect.fnUntraced(function* (readSample: SampleReader) {
  const { paths } = yield* readContract
  const endpoints = Object.entries(paths).map(([path, { get: { parameters = [] } }]) => ({ path, parameters }))
  // A stream never ends, so the list contains only stream requests that the service refuses.
  const data = endpoints.filter(({ path }) =>
    path.startsWith("/v1/") && !/changelog|openapi|changes\/stream/.test(path)
  )
  const [accountEndpoints, datasetEndpoints] = [
    data.filter(({ path }) => accountPath.test(path)),
    data.filter(({ path }) => !accountPath.test(path)),
  ]
  const endpointRequests = yield* Effect.forEach(datasetEndpoints, (endpoint, index) =>
    Effect.map(
      readSample(makeTarget(endpoint.path, [
        ...makeRequiredQuery(endpoint),
        ...(has(endpoint, "limit") ? [["limit", "100"]] as const : []),
      ])),
      (sample) => makeEndpointRequests(endpoint, getResultRows(sample), index),
    ))
  const firstCursor = yield* readSample("/v1/changes?dataset=ticker_changes&limit=2")
  const cursor = Option.getOrElse(Option.liftPredicate(valueAt(firstCursor, "cursor"), Predicate.isString), () => "")
  const requests: Readonly<Record<InstanceName, ReadonlyArray<RecordedRequest>>> = {
    main: [
      ...endpointRequests.flat(),
      ...makeDetailedRequests("/v1/news"),
      ...lineageRequests,
      ...pastRequests,
      get(`/v1/changes?dataset=ticker_changes&limit=2&after=${cursor}`),
      ...estimateRequests(datasetEndpoints),
      ...documentRequests,
      ...protocolRequests,
      ...keyRequests,
      ...mcpRequests,
    ],
    account: accountRequests(accountEndpoints),
    browser: browserRequests,
  }
  return requests
})
