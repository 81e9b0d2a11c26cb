/** Tests the query plans of lists: the indexes that they use, and when PostgreSQL replans a statement (§8). */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import {
  buildUrl,
  documentedDatasetEndpoints,
  type DocumentedParameter,
  isLineageParameter,
  makeRequiredQuery,
} from "../../support/DocumentedEndpoints.ts"
import * as GeneratedRows from "../../support/GeneratedRows.ts"
import * as Service from "../../support/Service.ts"
import * as StatementRecorder from "../../support/StatementRecorder.ts"

// @module-tag slow

/** The number of rows per table, which is enough for PostgreSQL to prefer an index over a sequential scan. */
const rows = 4_000

/**
 * Stores two chains with twelve links each, T1 to T13 and T601 to T613, and a chain with a single link, T701 to T702.
 */
const storeChains = Effect.forEach(
  [...[1, 601].flatMap((first) => Array.from({ length: 12 }, (_, link) => ({ first, link }))), { first: 701, link: 0 }],
  ({ first, link }) =>
    Service.insertRows("ticker_changes", {
      old_ticker: `T${first + link}`,
      new_ticker: `T${first + link + 1}`,
      effective_date: `2014-01-${String(link + 2).padStart(2, "0")}`,
      status: "confirmed",
    }),
  { discard: true },
)

const service = Layer.effectDiscard(Effect.andThen(GeneratedRows.fillAllTables(rows), storeChains)).pipe(
  Layer.provideMerge(Service.layer),
  Layer.provideMerge(StatementRecorder.layer),
)

const tables = new Set(loadableDatasets.map(({ table }) => table))

/** Returns a selective value for a parameter: a value that matches few rows, as is typical of real requests. */
const getSelectiveValue = ({ kind, name, words }: DocumentedParameter): string => {
  if (words[0] !== undefined) return words[0]
  if (kind === "boolean") return "true"
  if (kind === "date") return name.endsWith("_to") ? "2014-01-03" : "2024-11-01"
  if (kind === "number") return name.startsWith("min_") ? "9990" : "0.5"
  if (kind === "ticker" || kind === "tickers") return "T7"
  return name === "tag" || name === "filing_type" ? "tag7" : kind === "sort" ? "-price" : "text"
}

/** Requests to each endpoint without filters and with each filter alone. Where possible, also with `follow_lineage`. */
const requests = documentedDatasetEndpoints.flatMap((endpoint) => {
  const filters = endpoint.parameters.filter((parameter) =>
    !parameter.required && parameter.kind !== "integer" && !isLineageParameter(parameter)
  )
  const isFollowable = endpoint.parameters.some(({ name }) => name === "follow_lineage")
  const takesTickers = endpoint.parameters.some(({ kind }) => kind === "tickers")
  const followed = [["ticker", takesTickers ? "T5,T602" : "T5"], ["follow_lineage", "true"]] as const
  return [
    buildUrl(endpoint.path, makeRequiredQuery(endpoint)),
    ...filters.map((filter) =>
      buildUrl(endpoint.path, [...makeRequiredQuery(endpoint), [filter.name, getSelectiveValue(filter)]])
    ),
    ...(!isFollowable ? [] : [
      buildUrl(endpoint.path, followed),
      buildUrl(endpoint.path, [...followed, ["page", "3"]]),
      buildUrl(endpoint.path, [...followed, ["format", "csv"], ["limit", "all"]]),
      ...filters.filter(({ name }) => name !== "ticker")
        .map((filter) => buildUrl(endpoint.path, [...followed, [filter.name, getSelectiveValue(filter)]])),
    ]),
  ].map((request) => ({ request }))
})

/** List requests that follow the lineage of a company with one, two or thirteen symbols. */
const followedRequests = documentedDatasetEndpoints.flatMap(({ parameters, path }) =>
  parameters.some(({ name }) => name === "follow_lineage")
    ? ["T9", "T701", "T5"].map((ticker) => ({
      request: buildUrl(path, [["ticker", ticker], ["follow_lineage", "true"]]),
    }))
    : []
)

/** Parameters that do not filter rows, so testing one plan is enough. */
const unfilteredNames = new Set(["sort", "format", "provenance", "as_of", "explain"])

/** Requests with a filter but without a symbol. */
const filteredRequests = [
  ...documentedDatasetEndpoints.filter(({ parameters }) =>
    parameters.some(({ name }) => name === "limit") && !parameters.some(({ required }) => required)
  ).flatMap(({ parameters, path }) =>
    parameters
      .filter((parameter) =>
        parameter.kind !== "integer" && !isLineageParameter(parameter) && parameter.name !== "ticker" &&
        !unfilteredNames.has(parameter.name)
      )
      .map((filter) => buildUrl(path, [[filter.name, getSelectiveValue(filter)]]))
  ),
  "/v1/usage?status_code=200",
  "/v1/usage?requested_at_from=2024-01-01",
  "/v1/usage/daily?usage_date_from=2024-01-01",
].map((request) => ({ request }))

/** Lists sorted newest first by the date that determines a row's period. */
const newestFirstPaths = [
  "/v1/afterhours-stats",
  "/v1/dilution-data",
  "/v1/dilution-data-advanced",
  "/v1/gap-stats",
  "/v1/gap-stats-advanced",
  "/v1/intraday-runners",
  "/v1/nasdaq-compliance",
  "/v1/premarket-stats",
  "/v1/registrations",
  "/v1/research-reports",
  "/v1/research-reports-tldr",
  "/v1/split-status",
]

/**
 * PostgreSQL plans the first five executions of any statement for their specific values. It then compares the cost of
 * those plans with that of a generic plan, and keeps the generic plan if it is not worse.
 */
const alwaysPlannedExecutions = 5

/** Enough executions to show whether PostgreSQL switches to a generic plan. */
const executions = 8

layer(service, { excludeTestServices: true, timeout: "180 seconds" })("PostgreSQL", (it) => {
  it.effect.each(requests)(
    "uses an index for $request (§8)",
    ({ request }) =>
      Effect.gen(function* () {
        const { ultimate } = yield* Service.TestKeys
        const { result: response, sent } = yield* StatementRecorder.recordStatements(
          Service.requestJson(request, { key: ultimate }),
        )
        assert.include([200, 404, 409], response.status, response.text)
        const statements = sent.filter(({ text }) => Array.from(tables).some((table) => text.includes(table)))
        assert.isAbove(statements.length, 0, "the statement was recorded")
        for (const statement of statements) {
          const plan = yield* StatementRecorder.explainStatement(statement)
          const scanned = GeneratedRows.findSequentialScans(plan).filter((table) => tables.has(table))
          assert.deepStrictEqual(scanned, [], JSON.stringify(plan))
        }
      }),
  )

  it.effect.each(followedRequests)(
    "reuses one plan for $request after five executions, regardless of the number of symbols (§8)",
    ({ request }) =>
      Effect.gen(function* () {
        const { ultimate } = yield* Service.TestKeys
        const { sent } = yield* StatementRecorder.recordStatements(Service.requestJson(request, { key: ultimate }))
        const statements = sent.filter(({ text }) => text.includes("as period"))
        assert.isAbove(statements.length, 0)
        for (const statement of statements) {
          assert.strictEqual(
            yield* StatementRecorder.countCustomPlans(statement, executions),
            alwaysPlannedExecutions,
            statement.text,
          )
        }
      }),
  )

  it.effect.each(filteredRequests)(
    "plans each execution for its values: $request (§8)",
    ({ request }) =>
      Effect.gen(function* () {
        const { ultimate } = yield* Service.TestKeys
        const { sent } = yield* StatementRecorder.recordStatements(Service.requestJson(request, { key: ultimate }))
        const statements = sent.filter(({ text }) => text.includes("select row("))
        assert.lengthOf(statements, 1)
        for (const statement of statements) {
          const plans = yield* StatementRecorder.countCustomPlans(statement, executions)
          assert.isAtLeast(plans ?? 0, executions, statement.text)
        }
      }),
  )

  it.effect.each(["/v1/news", "/v1/news-basic", "/v1/timeline"])(
    "reads the items of a company in order, and counts the omitted items with another index: %s (§8, D35)",
    (path) =>
      Effect.gen(function* () {
        const { ultimate } = yield* Service.TestKeys
        const request = Service.requestJson(`${path}?ticker=T5&follow_lineage=true`, { key: ultimate })
        const plan = JSON.stringify(yield* StatementRecorder.explainRequest(request, "as period"))
        const indexes = Array.from(plan.matchAll(/"Index Name":"(news_[^"]*)"/g), ([, name]) => name)
        assert.sameMembers(indexes, ["news_ticker_created_at_id_idx", "news_ticker_filed_at_idx"])
      }),
  )

  it.effect.each(newestFirstPaths)(
    "reads the newest periods first, so that it can stop after the page: %s (§8, D35)",
    (path) =>
      Effect.gen(function* () {
        const { ultimate } = yield* Service.TestKeys
        const request = Service.requestJson(`${path}?ticker=T5&follow_lineage=true`, { key: ultimate })
        const plan = yield* StatementRecorder.explainRequest(request, "as period")
        assert.include(JSON.stringify(plan), `"Presorted Key":["period.rank"]`)
      }),
  )
})
