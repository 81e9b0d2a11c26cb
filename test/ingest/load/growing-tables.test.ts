/** Tests that a row costs the same to write, however many rows the same transaction has written before. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import * as GeneratedRows from "../../support/GeneratedRows.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"

// @module-tag slow

/** So many rows are measured, at the beginning and at the end of a load of so many rows. */
const measuredRows = 200
const loadedRows = 10_000

/** A deeper tree of an index costs another page per row and index; a scan of the whole index, at least 50. */
const allowedGrowth = 2

layer(ServiceInstances.databaseWithKeysLayer, { excludeTestServices: true, timeout: "120 seconds" })(
  "A load into an empty table",
  (it) => {
    it.effect.each(loadableDatasets)(
      "needs no more pages per row at its end than at its beginning: $table (D31)",
      (dataset) =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          // Pages of the catalog depend on what other sessions change meanwhile.
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
  },
)
