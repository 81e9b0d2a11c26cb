/** Tests GET /v1/datasets over HTTP: D30 (tables). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as Endpoints from "../../../src/api/catalogue/Endpoints.ts"
import * as Datasets from "../../../src/contract/Datasets.ts"
import { endpointsByDataset } from "../../../src/api/catalogue/DatasetEndpoints.ts"
import * as Service from "../../support/Service.ts"

const { requestJson, valueAt, insertRows } = Service

/** Requests all datasets and returns them by name. */
const listed = Effect.gen(function* () {
  const { body, status, text } = yield* requestJson("/v1/datasets?limit=100")
  assert.strictEqual(status, 200, text)
  const results = valueAt(body, "results")
  return new Map<unknown, unknown>(Array.isArray(results) ? results.map((row) => [valueAt(row, "dataset"), row]) : [])
})

const changed = (dataset: string) => Effect.map(listed, (rows) => valueAt(rows.get(dataset), "changed_at"))

layer(Service.layer, { excludeTestServices: true })("GET /v1/datasets", (it) => {
  it.effect("lists every loadable dataset by name with the endpoints that read it (D30)", () =>
    Effect.gen(function* () {
      const rows = Array.from((yield* listed).values())
      assert.deepStrictEqual(
        rows.map((row) => valueAt(row, "dataset")),
        Datasets.loadableDatasets.map(({ table }) => table).toSorted(),
      )
      const named = new Set(rows.flatMap((row) => valueAt(row, "endpoints")))
      // /v1/changes covers every dataset, so no row of /v1/datasets lists it as an endpoint.
      const paths = Endpoints.pricedEndpointPaths.filter((path) => !path.startsWith("/v1/changes"))
      assert.deepStrictEqual(Array.from(named).toSorted(), paths.toSorted())
    }))

  it.effect("changed_at is null before the first change, and then the time of the last change, at -05:00 (§2.1)", () =>
    Effect.gen(function* () {
      assert.isNull(yield* changed("ticker_changes"))
      const event = { old_ticker: "FRA", new_ticker: "FRB", effective_date: "2020-01-01", status: "confirmed" }
      const sql = yield* SqlClient.SqlClient
      // Reads PostgreSQL's clock, which may differ from the test's clock.
      const now = Effect.map(
        sql<{ readonly ms: number }>`select extract(epoch from clock_timestamp())::float8 * 1000 as ms`,
        ([row]) => row?.ms ?? 0,
      )
      const began = yield* now
      yield* insertRows("ticker_changes", event)
      const first = String(yield* changed("ticker_changes"))
      assert.match(first, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?-05:00$/)
      assert.isAtLeast(Date.parse(first), Math.floor(began))
      const between = yield* now
      yield* sql`update ticker_changes set status = 'blocked'`
      const second = String(yield* changed("ticker_changes"))
      assert.isAtLeast(Date.parse(second), Math.floor(between))
      assert.isAtMost(Date.parse(second), yield* now)
      assert.isNull(yield* changed("news"))
    }))

  it.effect("changed_at is the latest of several recorded changes, with milliseconds (§2.1)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into dataset_versions (dataset, changes, changed_at)
        values ('screener', 2, '2026-07-01T13:30:00Z'), ('screener', 1, '2026-07-01T13:30:00.250Z'),
          ('screener', 7, '2026-06-30T13:30:00Z'), ('no_dataset', 1, '2026-07-03T13:30:00Z')
      `
      const { text } = yield* requestJson(
        `/v1/datasets?limit=1&page=${endpointsByDataset.findIndex((one) => one.dataset === "screener") + 1}`,
      )
      assert.include(
        text,
        `[{"dataset":"screener","endpoints":["/v1/screener"],"changed_at":"2026-07-01T08:30:00.250-05:00"}]`,
      )
    }))
})
