/** Tests loading the generated sample data into PostgreSQL. */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer, Ref } from "effect"
import { SqlClient } from "effect/sql"
import { databaseClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import { loadableDatasets } from "../../src/contract/Datasets.ts"
import { loadDatasetFile } from "../../src/ingest/load/DatasetLoad.ts"
import { writeMarketFiles } from "../../samples/generator/MarketFiles.ts"
import * as Service from "../support/Service.ts"
import { skipUnlessThorough } from "../support/Thoroughness.ts"

const TestLayer = Layer.unwrap(
  Effect.map(Service.copyMigratedDatabase, (url) => databaseClientLayer({ url, applicationName: "tickerline-test" })),
).pipe(Layer.provideMerge(NodeServices.layer))

layer(TestLayer, { excludeTestServices: true })("the fictional market in PostgreSQL", (it) => {
  it.effect("has every row of every file, and prices for most share counts (samples/README.md)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const fs = yield* FileSystem.FileSystem
      const sql = yield* SqlClient.SqlClient
      const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-market-" })
      const counts: Readonly<Record<string, number>> = yield* writeMarketFiles({ folder, scale: 1, seed: 1 })
      for (const { table } of loadableDatasets) {
        const loaded = yield* loadDatasetFile(
          { dataset: table, file: `${folder}/${table}.csv`, append: false },
          yield* Ref.make(0),
        )
        assert.deepStrictEqual([loaded.rows, loaded.dropped], [counts[table], 0], table)
      }
      // §2.6 (market cap): most rows that have shares and a reported date also have a closing price. Companies without
      // prices have none.
      const [caps] = yield* sql<{ readonly found: number; readonly missing: number }>`
        select count(close)::int as found, (count(*) - count(close))::int as missing
        from historical_float_pro as f left join lateral (
          select close from daily_prices as p where p.ticker = f.ticker and p.date <= f.reported_date
          order by p.date desc limit 1
        ) as last on true
        where reported_date >= '2024-11-13' and outstanding_shares is not null
      `
      assert.isAbove(caps?.found ?? 0, 300)
      assert.isBelow(caps?.missing ?? 99, 20)
      assert.isAbove(caps?.missing ?? 0, 0)
    }))
})
