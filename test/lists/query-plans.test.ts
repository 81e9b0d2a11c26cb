import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { loadableDatasets } from "../../src/load/Datasets.ts"
import {
  buildUrl,
  documentedDatasetEndpoints,
  type DocumentedParameter,
  requiredQuery,
} from "../support/DocumentedEndpoints.ts"
import * as GeneratedRows from "../support/GeneratedRows.ts"
import * as Service from "../support/Service.ts"
import * as StatementRecorder from "../support/StatementRecorder.ts"

// @module-tag slow

/** The number of rows per table, large enough that PostgreSQL prefers an index to a sequential scan. */
const rows = 8_000

const service = Layer.effectDiscard(GeneratedRows.fillAllTables(rows)).pipe(
  Layer.provideMerge(Service.layer),
  Layer.provideMerge(StatementRecorder.layer),
)

const tables = new Set(loadableDatasets.map(({ table }) => table))

/** A value for a parameter that few rows match, which is the usual case. */
const rare = ({ kind, name, words }: DocumentedParameter): string => {
  if (words[0] !== undefined) return words[0]
  if (kind === "boolean") return "true"
  if (kind === "date") return name.endsWith("_to") ? "2014-01-03" : "2024-11-01"
  if (kind === "number") return name.startsWith("min_") ? "9990" : "0.5"
  if (kind === "ticker" || kind === "tickers") return "T7"
  return name === "tag" || name === "filing_type" ? "tag7" : kind === "sort" ? "-price" : "text"
}

/** Each endpoint without filters, and with each of its filters alone. */
const requests = documentedDatasetEndpoints.flatMap((endpoint) => {
  const filters = endpoint.parameters.filter(({ kind, required }) => !required && kind !== "integer")
  return [
    buildUrl(endpoint.path, requiredQuery(endpoint)),
    ...filters.map((filter) => buildUrl(endpoint.path, [...requiredQuery(endpoint), [filter.name, rare(filter)]])),
  ].map((request) => ({ request }))
})

layer(service, { excludeTestServices: true, timeout: "180 seconds" })("PostgreSQL", (it) => {
  it.effect.each(requests)(
    "uses an index for $request (§8)",
    ({ request }) =>
      Effect.gen(function* () {
        const { ultimate } = yield* Service.TestKeys
        const { answer, sent } = yield* StatementRecorder.recordStatements(
          Service.requestJson(request, { key: ultimate }),
        )
        assert.include([200, 404, 409], answer.status, answer.text)
        const statements = sent.filter(({ text }) => Array.from(tables).some((table) => text.includes(table)))
        assert.isAbove(statements.length, 0, "the statement was recorded")
        for (const statement of statements) {
          const plan = yield* StatementRecorder.explainStatement(statement)
          const scanned = GeneratedRows.findSequentialScans(plan).filter((table) => tables.has(table))
          assert.deepStrictEqual(scanned, [], JSON.stringify(plan))
        }
      }),
  )
})
