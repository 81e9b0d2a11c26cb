/** Tests that the cost of writing a row does not depend on how many rows the same transaction has already written. */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer, Ref } from "effect"
import { SqlClient } from "effect/sql"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import { loadDatasetFile } from "../../../src/ingest/load/DatasetLoad.ts"
import * as GeneratedRows from "../../support/GeneratedRows.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"

// @module-tag slow

/** The number of rows that are measured at the beginning and at the end of a load. */
const measuredRows = 200

/** The number of rows that are loaded. */
const loadedRows = 10_000

/**
 * The maximum growth factor. A deeper index tree costs one more page per row and index, while a scan of the entire
 * index would cost at least 50.
 */
const allowedGrowth = 2

const services = Layer.merge(ServiceInstances.databaseWithKeysLayer, NodeServices.layer)

layer(services, { excludeTestServices: true, timeout: "120 seconds" })(
  "A load into an empty table",
  (it) => {
    it.effect.each(loadableDatasets)(
      "needs no more pages per row at its end than at its beginning: $table (D31)",
      (dataset) =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          // Excludes the system catalog, because the number of its pages that are read depends on other sessions.
          const readFetchedPages = Effect.map(
            sql<{ readonly pages: number }>`
              select sum(pg_stat_get_xact_blocks_fetched(oid))::float8 as pages from pg_class
              where relkind in ('r', 'i') and relnamespace <> 'pg_catalog'::regnamespace
            `,
            ([row]) => row?.pages ?? NaN,
          )
          const countPages = Effect.fnUntraced(function* (first: number, last: number) {
            const before = yield* readFetchedPages
            yield* sql.unsafe(yield* GeneratedRows.makeInsert(dataset, first, last))
            return (yield* readFetchedPages) - before
          })
          const [beginning, end] = yield* Effect.gen(function* () {
            yield* sql`set local statement_timeout = 0`
            const beginning = yield* countPages(1, measuredRows)
            yield* countPages(measuredRows + 1, loadedRows)
            return [beginning, yield* countPages(loadedRows + 1, loadedRows + measuredRows)] as const
          }).pipe(sql.withTransaction)
          assert.isBelow(end, beginning * allowedGrowth, `${end} pages after ${loadedRows} rows, ${beginning} at first`)
        }),
    )

    it.effect("scans the table once, even if PostgreSQL knows that it is empty (D31)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`truncate daily_prices`
        // Puts the table into the state in which autovacuum leaves an emptied table.
        yield* sql`vacuum analyze daily_prices`
        const fs = yield* FileSystem.FileSystem
        const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-growing-" })}/closes.csv`
        const lines = Array.from({ length: loadedRows }, (_, row) => `LOAD${row},2026-06-01,1`)
        yield* fs.writeFileString(file, ["ticker,date,close", ...lines].join("\n"))
        const readFetchedPages = Effect.map(
          sql<{ readonly pages: number }>`
            select pg_stat_get_xact_blocks_fetched('daily_prices'::regclass)::float8 as pages
          `,
          ([row]) => row?.pages ?? NaN,
        )
        const fetched = yield* Effect.gen(function* () {
          const before = yield* readFetchedPages
          yield* loadDatasetFile({ dataset: "daily_prices", file, append: true }, yield* Ref.make(0))
          return (yield* readFetchedPages) - before
        }).pipe(sql.withTransaction)
        // The table has more than 50 pages. A scan for each row would read half of them on average.
        assert.isBelow(fetched, 5 * loadedRows)
      }).pipe(Effect.scoped))
  },
)
