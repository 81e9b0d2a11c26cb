/**
 * Tests loading all files in a folder, checking files without loading them, and the example files that `datasets`
 * prints (operations/data).
 */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer, Ref } from "effect"
import { SqlClient } from "effect/sql"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import { describeDatasetFormat } from "../../../src/ingest/load/DatasetDescription.ts"
import { findDatasetFiles } from "../../../src/ingest/load/FolderScan.ts"
import { loadDatasetFile } from "../../../src/ingest/load/DatasetLoad.ts"
import * as Service from "../../support/Service.ts"

const TestLayer = Layer.unwrap(
  Effect.map(Service.copyMigratedDatabase, (url) => databaseClientLayer({ url, applicationName: "tickerline-test" })),
).pipe(Layer.provideMerge(NodeServices.layer))

/** Creates a folder with the given files, by name. Returns its path. */
const createFolder = Effect.fnUntraced(function* (files: Readonly<Record<string, string>>) {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-folder-" })
  yield* Effect.forEach(Object.entries(files), ([name, text]) => fs.writeFileString(`${folder}/${name}`, text))
  return folder
})

const load = (task: Parameters<typeof loadDatasetFile>[0]) =>
  Effect.flatMap(Ref.make(0), (progress) => loadDatasetFile(task, progress))

layer(TestLayer, { excludeTestServices: true })("load", (it) => {
  it.effect.each(loadableDatasets)(
    "accepts the example file that `datasets` prints for $table (operations/data)",
    (dataset) =>
      Effect.gen(function* () {
        const [, example = ""] = describeDatasetFormat(dataset).split(`${dataset.table}.csv:\n`)
        const file = `${example.split("\n").map((line) => line.trim()).filter((line) => line !== "").join("\n")}\n`
        const folder = yield* createFolder({ [`${dataset.table}.csv`]: file })
        const path = `${folder}/${dataset.table}.csv`
        const { dropped, rows } = yield* load({ dataset: dataset.table, file: path, append: false, check: true })
        assert.deepStrictEqual({ dropped, rows }, { dropped: 0, rows: 1 }, file)
      }),
  )

  it.effect("reports with --check what a load would do, and changes nothing (operations/data)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const folder = yield* createFolder({
        "good.csv": "ticker,former_ticker,date\nZZ1,ZZ0,2020-01-02\nZZ1,ZZ0,2020-01-02\n",
        "bad.csv": "ticker,former_ticker,date\nZZ1,ZZ0,2020-02-30\n",
      })
      yield* sql`insert into historical_tickers (ticker, former_ticker) values ('KEPT', 'OLD')`
      for (const append of [true, false]) {
        const good = yield* load({ dataset: "historical_tickers", file: `${folder}/good.csv`, append, check: true })
        assert.deepStrictEqual([good.table, good.rows, good.dropped], ["historical_tickers", 1, 1])
        assert.deepStrictEqual(good.merged, {
          added: 1,
          updated: 0,
          unchanged: 0,
          kept: 0,
          ...(append ? {} : { removed: 1 }),
        })
        const bad = yield* Effect.flip(
          load({ dataset: "historical_tickers", file: `${folder}/bad.csv`, append, check: true }),
        )
        assert.match(bad.message, /line 2: date must be a date that exists/)
      }
      assert.deepStrictEqual(yield* sql`select ticker, former_ticker from historical_tickers`, [
        { ticker: "KEPT", former_ticker: "OLD" },
      ])
      assert.deepStrictEqual(yield* sql`select 1 from pg_tables where schemaname = 'loading'`, [])
    }))

  it.effect("finds the files that are named after a table, and lists the folder's other files (operations/data)", () =>
    Effect.gen(function* () {
      const folder = yield* createFolder({
        "news.ndjson.gz": "",
        "gap-stats.CSV": "",
        "daily_prices.jsonl.zst": "",
        "README.md": "",
        "newsletter.csv": "",
        "news.txt": "",
      })
      const { others, tasks } = yield* findDatasetFiles(folder)
      assert.deepStrictEqual(
        tasks.map(({ dataset, file }) => [dataset, file.slice(folder.length + 1)]).toSorted(),
        [["daily_prices", "daily_prices.jsonl.zst"], ["gap_stats", "gap-stats.CSV"], ["news", "news.ndjson.gz"]],
      )
      assert.deepStrictEqual(others, ["README.md", "news.txt", "newsletter.csv"])
    }))

  it.effect("reports ambiguous, empty, missing and invalid folders (operations/data)", () =>
    Effect.gen(function* () {
      const ambiguous = yield* Effect.flip(findDatasetFiles(yield* createFolder({ "news.csv": "", "news.ndjson": "" })))
      assert.match(ambiguous.message, /contains several files for news: news\.csv, news\.ndjson\. Keep one of them\.$/)
      const empty = yield* Effect.flip(findDatasetFiles(yield* createFolder({ "notes.txt": "" })))
      assert.match(empty.message, /No file in .* is named after a table/)
      const missingFolder = yield* Effect.flip(findDatasetFiles("/nowhere/at/all"))
      assert.strictEqual(missingFolder.message, "There is no folder /nowhere/at/all.")
      const file = `${yield* createFolder({ "news.csv": "" })}/news.csv`
      const notFolder = yield* Effect.flip(findDatasetFiles(file))
      assert.strictEqual(
        notFolder.message,
        `${file} is a file, but --all takes a folder. To load the file, name its dataset: load news ${file}`,
      )
    }))

  it.effect("updates an existing row whose key has empty cells (D22)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const header = "ticker,filed_at,is_adr,last_updated"
      const folder = yield* createFolder({
        "first.csv": `${header}\nZZ7,2025-01-02,false,2025-01-02 09:30:00\n`,
        "more.csv": `${header}\nZZ8,2025-01-03,false,2025-01-03 09:30:00\nZZ7,2025-01-02,true,2025-01-02 09:30:00\n`,
      })
      yield* load({ dataset: "historical-float-pro", file: `${folder}/first.csv`, append: false })
      const { merged } = yield* load({ dataset: "historical-float-pro", file: `${folder}/more.csv`, append: true })
      assert.deepStrictEqual(merged, { added: 1, updated: 1, unchanged: 0, kept: 0 })
      assert.deepStrictEqual(yield* sql`select ticker, is_adr from historical_float_pro order by 1`, [
        { ticker: "ZZ7", is_adr: true },
        { ticker: "ZZ8", is_adr: false },
      ])
    }))

  it.effect("reports a missing file, and a folder in place of a file (D31)", () =>
    Effect.gen(function* () {
      const folder = yield* createFolder({ "news.csv": "" })
      const task = { dataset: "news", append: false }
      const directory = yield* Effect.flip(load({ ...task, file: folder }))
      assert.strictEqual(
        directory.message,
        `${folder} is a folder, but load takes a file. To load every file in the folder: load --all ${folder}`,
      )
      const missing = yield* Effect.flip(load({ ...task, file: "exports/none.csv" }))
      assert.strictEqual(missing.message, `There is no file exports/none.csv (${process.cwd()}/exports/none.csv).`)
      const missingSheet = yield* Effect.flip(load({ ...task, file: `${folder}/news.xlsx` }))
      assert.strictEqual(missingSheet.message, `There is no file ${folder}/news.xlsx.`)
    }))
})
