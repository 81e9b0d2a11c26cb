import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { SqlClient, Statement } from "effect/sql"
import { datasets } from "../src/load/Datasets.ts"
import { datasetEndpoints, needed, type Parameter, url } from "./support/Contract.ts"
import * as Plenty from "./support/Plenty.ts"
import * as Service from "./support/Service.ts"

/** Enough that reading all of them is what PostgreSQL avoids where it can. */
const rows = 20_000

interface Asked {
  readonly sql: string
  readonly parameters: ReadonlyArray<unknown>
}

/** The statements that the service ran, with their parameters. */
class Statements extends Context.Service<Statements, Array<Asked>>()("test/plans/Statements") {}

const Recorded = Layer.unwrap(Effect.sync(() => {
  const seen: Array<Asked> = []
  const record: Statement.Transformer = (statement) =>
    Effect.sync(() => {
      const [sql, parameters] = statement.compile()
      seen.push({ sql, parameters })
      return statement
    })
  return Layer.merge(Layer.succeed(Statements, seen), Layer.succeed(Statement.CurrentTransformer, record))
}))

const service = Layer.effectDiscard(Plenty.fillAll(rows)).pipe(
  Layer.provideMerge(Service.layer),
  Layer.provideMerge(Recorded),
)

const tables = new Set(datasets.map(({ table }) => table))

/** A value that few rows have: what a filter is for. */
const rare = ({ kind, name, words }: Parameter): string => {
  if (words[0] !== undefined) return words[0]
  if (kind === "boolean") return "true"
  if (kind === "date") return name.endsWith("_to") ? "2014-01-03" : "2024-11-01"
  if (kind === "number") return name.startsWith("min_") ? "9990" : "0.5"
  if (kind === "ticker" || kind === "tickers") return "T7"
  return name === "tag" || name === "filing_type" ? "tag7" : kind === "sort" ? "-price" : "text"
}

/** Each endpoint as it is, and with each of its filters alone. */
const requests = datasetEndpoints.flatMap((endpoint) => {
  const filters = endpoint.parameters.filter(({ kind, required }) => !required && kind !== "whole")
  return [
    url(endpoint.path, needed(endpoint)),
    ...filters.map((filter) => url(endpoint.path, [...needed(endpoint), [filter.name, rare(filter)]])),
  ].map((request) => ({ request }))
})

layer(service, { excludeTestServices: true, timeout: "120 seconds" })("plans", (it) => {
  it.effect.each(requests)(
    "issue 3, indexes: $request reads no table whole",
    ({ request }) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const seen = yield* Statements
        const { ultimate } = yield* Service.TestKeys
        seen.length = 0
        const { status, text } = yield* Service.ask(request, { key: ultimate })
        assert.include([200, 404, 409], status, text)
        const asked = seen.filter(({ sql }) => Array.from(tables).some((table) => sql.includes(table)))
        assert.isAbove(asked.length, 0, "the statement was recorded")
        for (const { parameters, sql: statement } of asked) {
          const [plan] = yield* sql.unsafe(`explain (format json) ${statement}`, parameters)
          const whole = Plenty.scanned(plan).filter((table) => tables.has(table))
          assert.deepStrictEqual(whole, [], JSON.stringify(plan))
        }
      }),
  )
})
