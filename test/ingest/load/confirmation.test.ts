/** Tests that `load` never removes more rows than the user has confirmed (D31, operations/data). */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { PgConnection } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer, Ref } from "effect"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import { loadDatasetFile } from "../../../src/ingest/load/DatasetLoad.ts"
import * as Service from "../../support/Service.ts"

layer(Layer.mergeAll(NodeServices.layer, NodeCrypto.layer), { excludeTestServices: true })("A confirmed load", (it) => {
  it.effect("is refused if other programs have added many rows since the confirmation (D31)", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const url = yield* Service.copyMigratedDatabase
      const other = yield* PgConnection.make({ url })
      const context = yield* Layer.build(databaseClientLayer({ url, applicationName: "tickerline-test" }))
      const addRows = (prefix: string, count: number) =>
        other.query(
          `insert into historical_tickers (ticker, former_ticker, date)
          select $1 || number, 'OLD', date '2020-01-01' from generate_series(1, $2::int) as number`,
          [prefix, count],
        )
      const countRows = Effect.map(
        other.query("select count(*)::int as count from historical_tickers"),
        ({ rows: [row] }) => row?.["count"],
      )
      const [confirmedRows, laterRows] = [10, 20]
      yield* addRows("A", confirmedRows)
      const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-confirmation-" })}/former.csv`
      yield* fs.writeFileString(file, "ticker,former_ticker,date\nA1,OLD,2020-01-01\n")
      /**
       * Loads the file, which contains only one of the stored rows. While the load waits for confirmation, another
       * program adds rows.
       */
      const load = (added: number) =>
        Effect.gen(function* () {
          const confirmRemoval = () => Effect.as(Effect.orDie(addRows(`B${added}X`, added)), true)
          const task = { dataset: "historical_tickers", file, append: false, confirmRemoval }
          return yield* loadDatasetFile(task, yield* Ref.make(0))
        }).pipe(Effect.provide(context))

      const allRows = confirmedRows + laterRows
      const refused = yield* Effect.flip(load(laterRows))
      assert.strictEqual(refused._tag, "RemovalRefused")
      assert.include(refused.message, `it would remove ${allRows - 1} of the ${allRows} rows. Load it again.`)
      assert.strictEqual(yield* countRows, allRows)
      const { merged } = yield* load(0)
      assert.deepInclude(merged, { added: 0, unchanged: 1, removed: allRows - 1 })
    }))
})
