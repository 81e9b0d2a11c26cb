/**
 * Tests round trips: `load` accepts the files that psql and the service export, and loading them leaves the tables
 * unchanged (D31, files; D39, text).
 */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer, Ref } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import { SqlClient } from "effect/sql"
import { chmodSync } from "node:fs"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import { loadDatasetFile, type LoadTask } from "../../../src/ingest/load/DatasetLoad.ts"
import { ownershipHolderSqlCondition } from "../../../src/contract/endpoints/ownership.ts"
import * as Service from "../../support/Service.ts"
import { sampleUnlessThorough } from "../../support/Thoroughness.ts"

// @module-tag slow

const tables = loadableDatasets.map(({ table }) => ({ table }))

const loadFile = (dataset: string, file: string, options: Partial<LoadTask> = {}) =>
  Effect.flatMap(Ref.make(0), (rows) => loadDatasetFile({ dataset, file, append: false, ...options }, rows))

/** Creates a folder that PostgreSQL's operating system user can write to. */
const sharedFolder = Effect.gen(function* () {
  const folder = yield* (yield* FileSystem.FileSystem).makeTempDirectoryScoped({ prefix: "tickerline-trip-" })
  chmodSync(folder, 0o777)
  return folder
})

const countRows = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly count: number }>`select count(*)::int as count from ${sql(table)}`
  return row?.count ?? 0
})

/** Loads a file and asserts that it contains exactly the rows of the table. */
const assertUnchanged = Effect.fnUntraced(function* (dataset: string, file: string, options: Partial<LoadTask> = {}) {
  const rows = yield* countRows(dataset)
  const { merged } = yield* loadFile(dataset, file, options)
  const removed = options.append === true ? {} : { removed: 0 }
  assert.deepStrictEqual(merged, { added: 0, updated: 0, unchanged: rows, kept: 0, ...removed }, file)
})

/**
 * Stores texts that a spreadsheet might execute as formulas, and lists that contain special characters of JSON and
 * PostgreSQL.
 */
const writeDifficultValues = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    update news set title = '=1+1', summary = '''=1+1', body = '''''@a', author = '''tis', publisher = E'a\n"b", c',
      tags = array['a, "b"', '{c}', 'null', 'd\\e', '-f', 'g h'], tickers = '{}'
    where id = (select min(id) from news)
  `
  yield* sql`update ticker_changes set source_links = array['https://filings.example/a?b={c},"d"'], recorded_at = now()`
})

layer(Layer.provideMerge(Service.sampleDatabaseLayer, NodeServices.layer), { excludeTestServices: true })(
  "load",
  (it) => {
    it.effect.each(sampleUnlessThorough(tables, 3, 0))(
      "changes nothing in $table if it loads the CSV that psql writes (D31)",
      ({ table }) =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          yield* writeDifficultValues
          const folder = yield* sharedFolder
          for (const zone of ["UTC", "America/New_York"]) {
            const file = `${folder}/${zone.slice(-3)}.csv`
            // psql's `\copy` sends the same statement with standard output as the target, and writes the data that it
            // receives to a file.
            yield* sql.withTransaction(Effect.andThen(
              sql.unsafe(`set local timezone = '${zone}'`),
              sql.unsafe(`copy (select * from ${table}) to '${file}' csv header`),
            ))
            const { ignored } = yield* loadFile(table, file, { check: true })
            assert.deepStrictEqual(ignored, table === "news" ? ["search", "recorded_in"] : ["recorded_in"])
            yield* assertUnchanged(table, file)
          }
        }),
    )
  },
)

/** An endpoint whose exports can be loaded. */
interface ExportedList {
  /** The table that the endpoint reads. */
  readonly table: string
  readonly path: string
  /** An SQL condition for the rows that the endpoint shows. By default, it shows all rows. */
  readonly shown?: string
  /** Whether the endpoint requires the `ticker` parameter. */
  readonly needsTickers?: true
  /** Whether rows have a `source` column with `provenance=true`. */
  readonly hasSource?: true
  /** Whether the endpoint omits a column that is required in the table. */
  readonly lacksColumns?: true
}

/** `/v1/ownership` shows only the newest filing for each symbol. */
const newestFilings = `${ownershipHolderSqlCondition} and (ticker, accession_number) in (
  select distinct on (ticker) ticker, accession_number from ownership where ${ownershipHolderSqlCondition}
  order by ticker, filed_at desc, reported_date desc nulls last, accession_number desc
)`

/**
 * The endpoints that show all columns for which a data file needs values. Ticker changes and former tickers are
 * excluded because the API shows chains instead of rows. Closing prices are excluded because the API does not show them
 * (D36).
 */
const lists: ReadonlyArray<ExportedList> = [
  {
    table: "intraday_runners",
    path: "/v1/intraday-runners",
    shown: "anomaly_flagged and daily_volume_ratio >= 10",
    lacksColumns: true,
  },
  { table: "dilution_data", path: "/v1/dilution-data-advanced" },
  { table: "registrations", path: "/v1/registrations", hasSource: true },
  { table: "pump_and_dump_tracker", path: "/v1/pump-and-dump-tracker" },
  { table: "split_status", path: "/v1/split-status", needsTickers: true },
  { table: "nasdaq_compliance", path: "/v1/nasdaq-compliance" },
  { table: "news", path: "/v1/news", hasSource: true },
  { table: "gap_stats", path: "/v1/gap-stats-advanced" },
  { table: "premarket_stats", path: "/v1/premarket-stats" },
  { table: "afterhours_stats", path: "/v1/afterhours-stats" },
  { table: "research_reports", path: "/v1/research-reports", lacksColumns: true },
  { table: "float_outstanding", path: "/v1/float-outstanding", hasSource: true },
  { table: "historical_float_pro", path: "/v1/historical-float-pro", hasSource: true },
  { table: "ownership", path: "/v1/ownership", shown: newestFilings, needsTickers: true, hasSource: true },
  { table: "screener", path: "/v1/screener", hasSource: true },
]

/** Endpoints that show only some of a table's columns. */
const subsets: ReadonlyArray<ExportedList> = [
  { table: "news", path: "/v1/news-basic" },
  { table: "gap_stats", path: "/v1/gap-stats" },
  { table: "dilution_data", path: "/v1/dilution-data", needsTickers: true },
]

/** The number of symbols to export from an endpoint that requires `ticker`. */
const exportedSymbols = 20

/** Deletes the rows that the endpoint does not show. Returns the query parameters that select all remaining rows. */
const keepShownRows = Effect.fnUntraced(function* ({ needsTickers, shown = "true", table }: ExportedList) {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(`delete from ${table} where not (${shown})`)
  if (needsTickers !== true) return ""
  const kept = yield* sql.unsafe<{ readonly ticker: string }>(
    `select ticker from ${table} group by ticker order by count(*) desc, ticker limit ${exportedSymbols}`,
  )
  const symbols = kept.map(({ ticker }) => ticker)
  yield* sql.unsafe(`delete from ${table} where ticker <> all ($1)`, [symbols])
  return `&ticker=${symbols.join(",")}`
})

/** Exports an endpoint's entire list to a file. */
const exportList = Effect.fnUntraced(function* (path: string, query: string, file: string) {
  const { ultimate } = yield* Service.TestKeys
  const response = yield* HttpClient.execute(
    HttpClientRequest.get(`${path}?limit=all${query}`).pipe(HttpClientRequest.setHeaders({ "X-API-Key": ultimate })),
  )
  assert.strictEqual(response.status, 200, `${path}${query}`)
  // Writes raw bytes, because decoding them as text would drop the byte order mark.
  yield* (yield* FileSystem.FileSystem).writeFile(file, new Uint8Array(yield* response.arrayBuffer))
})

layer(Service.sampleServiceLayer, { excludeTestServices: true })("load", (it) => {
  it.effect.each(sampleUnlessThorough(lists, 3, 0))(
    "changes nothing if it loads the CSV and NDJSON exports of $path (D31, D39)",
    (list) =>
      Effect.gen(function* () {
        yield* writeDifficultValues
        const tickers = yield* keepShownRows(list)
        const folder = yield* sharedFolder
        const options = list.lacksColumns === true ? { append: true, keepOmitted: true } : {}
        for (const format of ["csv", "ndjson"]) {
          for (const provenance of list.hasSource === true ? ["", "&provenance=true"] : [""]) {
            const file = `${folder}/${provenance.slice(1, 5)}.${format}`
            yield* exportList(list.path, `&format=${format}${provenance}${tickers}`, file)
            yield* assertUnchanged(list.table, file, options)
          }
        }
      }),
  )

  it.effect.each(subsets)(
    "changes nothing if it loads the CSV and NDJSON exports of $path with --append --keep-omitted (D31)",
    (list) =>
      Effect.gen(function* () {
        const tickers = yield* keepShownRows(list)
        const folder = yield* sharedFolder
        for (const format of ["csv", "ndjson"]) {
          const file = `${folder}/subset.${format}`
          yield* exportList(list.path, `&format=${format}${tickers}`, file)
          const { merged } = yield* loadFile(list.table, file, { append: true, keepOmitted: true })
          assert.deepInclude(merged, { added: 0, updated: 0 })
        }
      }),
  )

  it.effect("removes the source of a row that a file without sources changes, and keeps those of other rows (D31)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const fs = yield* FileSystem.FileSystem
      const countSources = sql<{ readonly count: number }>`
        select count(source)::int as count from registrations
      `.pipe(Effect.map(([row]) => row?.count ?? 0))
      const [first] = yield* sql<{ readonly id: string; readonly headline: string }>`
        select id, headline from registrations where source is not null order by id limit 1
      `
      const before = yield* countSources
      const file = `${yield* sharedFolder}/registrations.ndjson`
      yield* exportList("/v1/registrations", "&format=ndjson", file)
      const rows = (yield* fs.readFileString(file)).replace(
        `"id":${JSON.stringify(first?.id)}`,
        `"id":${JSON.stringify(first?.id)},"file_no":"333-changed"`,
      ).replace(/("file_no":"333-changed".*?),"file_no":[^,]*/, "$1")
      yield* fs.writeFileString(file, rows)
      const { merged } = yield* loadFile("registrations", file)
      assert.deepInclude(merged, { added: 0, updated: 1, removed: 0 })
      assert.strictEqual(yield* countSources, before - 1)
    }))
})
