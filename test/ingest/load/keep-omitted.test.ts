/**
 * Tests `load --append --keep-omitted`, which keeps the values of existing rows in columns that the file omits (D22,
 * D31).
 */
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Ref } from "effect"
import { SqlClient } from "effect/sql"
import { type LoadableDataset, loadableDatasets } from "../../../src/contract/Datasets.ts"
import { loadDatasetFile, type LoadTask } from "../../../src/ingest/load/DatasetLoad.ts"
import { type LoadableColumn, readLoadableColumns } from "../../../src/ingest/load/LoadingTable.ts"
import { fillTable } from "../../support/GeneratedRows.ts"
import { makeRandomChooser } from "../../support/RandomChoices.ts"
import { assertEqualRows } from "../../support/RowAssertions.ts"
import * as Service from "../../support/Service.ts"

type Row = Readonly<Record<string, unknown>>

const toNdjson = (rows: ReadonlyArray<Row>) => rows.map((row) => `${JSON.stringify(row)}\n`).join("")

/** Writes a file with the given name and content, and loads it with `--append --keep-omitted`. */
const append = Effect.fnUntraced(
  function* (dataset: string, name: string, content: string, more: Partial<LoadTask> = {}) {
    const fs = yield* FileSystem.FileSystem
    const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-keep-" })}/${name}`
    yield* fs.writeFileString(file, content)
    return yield* loadDatasetFile({ dataset, file, append: true, keepOmitted: true, ...more }, yield* Ref.make(0))
  },
)

/** Reads all rows of a table, with every value as text. */
const readTable = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly row: Readonly<Record<string, string | null>> }>`
    select (select jsonb_object_agg(key, value #>> '{}') from jsonb_each(to_jsonb(t))) as row from ${sql(table)} as t
    order by row
  `
  return rows.map(({ row }) => row)
})

/** Returns SQL that formats a column as in a data file. */
const printColumn = ({ is_list, name, type }: LoadableColumn) =>
  is_list
    ? `to_json("${name}")`
    : type.startsWith("timestamp(3) without") || type.startsWith("timestamp without")
    ? `to_char("${name}", 'YYYY-MM-DD HH24:MI:SS')`
    : type.includes("with time zone")
    ? `to_char("${name}" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`
    : `"${name}"::text`

/** Reads the given columns of all rows, formatted as in a data file. */
const exportRows = Effect.fnUntraced(function* (table: string, columns: ReadonlyArray<LoadableColumn>) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.unsafe<Row>(
    `select ${columns.map((column) => `${printColumn(column)} as "${column.name}"`).join(", ")} from ${table}`,
  )
})

const toCsv = (rows: ReadonlyArray<Row>) => {
  const quote = (cell: unknown) =>
    cell === null ? "" : `"${(Array.isArray(cell) ? JSON.stringify(cell) : String(cell)).replaceAll('"', '""')}"`
  const names = Object.keys(rows[0] ?? {})
  return [names.join(","), ...rows.map((row) => names.map((name) => quote(row[name])).join(","))].join("\n")
}

/**
 * Chooses the columns of a file: the key, the columns that are validated together, and a random selection of the
 * others.
 */
const chooseColumns = (
  { combinedColumns = [], key }: LoadableDataset,
  columns: ReadonlyArray<LoadableColumn>,
  seed: number,
) => {
  const choose = makeRandomChooser(seed)
  return columns.filter(({ name }) => [...key, ...combinedColumns].includes(name) || choose([true, false, false]))
}

const company = {
  company: "Zyx Corp.",
  price: "12.5",
  is_adr: true,
  num_gaps: 3,
  num_runners: 4,
  pending_s1: true,
  last_updated: "2026-06-01 10:00:00",
}

/** Stores two companies, AAA and BBB. */
const storeCompanies = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`truncate screener`
  yield* Service.insertRows("screener", { ticker: "AAA", ...company }, { ticker: "BBB", ...company })
})

const readCompanies = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) =>
    sql`select ticker, company, exchange, price, num_gaps::int, pending_s1, source from screener order by ticker`,
)

const source = ["https://filings.example/AAA#sic"]

/** A row for AAA that omits some columns. `updated` contains the expected rows of the table after loading it. */
const update = { ticker: "AAA", company: "Zyx Inc.", exchange: null, last_updated: "2026-06-02 10:00:00", source }
const others = { price: "12.5000", num_gaps: 3, pending_s1: true }
const updated = [
  { ticker: "AAA", company: "Zyx Inc.", exchange: null, source, ...others },
  { ticker: "BBB", company: "Zyx Corp.", exchange: null, source: null, ...others },
]

layer(Service.layer, { excludeTestServices: true, timeout: "120 seconds" })("--keep-omitted", (it) => {
  it.effect.each([
    { name: "update.csv", content: toCsv([update]) },
    { name: "update.ndjson", content: toNdjson([update]) },
  ])("updates only the columns that the file contains: $name (D22)", ({ content, name }) =>
    Effect.gen(function* () {
      yield* storeCompanies
      const checked = yield* append("screener", name, content, { check: true })
      assert.deepStrictEqual(checked.merged, { added: 0, updated: 1, unchanged: 0, kept: 0 })
      assert.deepStrictEqual((yield* readCompanies)[0]?.["company"], "Zyx Corp.")
      const { merged } = yield* append("screener", name, content)
      assert.deepStrictEqual(merged, { added: 0, updated: 1, unchanged: 0, kept: 0 })
      assert.deepStrictEqual(yield* readCompanies, updated)
      assert.deepStrictEqual((yield* append("screener", name, content)).merged, {
        added: 0,
        updated: 0,
        unchanged: 1,
        kept: 0,
      })
    }))

  it.effect("gives new rows null or the default, and refuses them if they lack a required column (D31)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* storeCompanies
      const rows = [update, { ...update, ticker: "NEW1" }, { ...update, ticker: "BBB" }, { ...update, ticker: "NEW2" }]
      const before = yield* readTable("screener")
      for (const more of [{}, { check: true }]) {
        const { message } = yield* Effect.flip(append("screener", "a.ndjson", toNdjson(rows), more))
        assert.deepStrictEqual(message.split("\n").slice(1), [
          "  line 2: is_adr is missing, and no existing row has this key",
          "  line 2: pending_s1 is missing, and no existing row has this key",
          "  line 4: is_adr is missing, and no existing row has this key",
          "  line 4: pending_s1 is missing, and no existing row has this key",
        ])
      }
      assertEqualRows("screener", yield* readTable("screener"), before)
      const complete = { ...update, ticker: "NEW1", is_adr: false, pending_s1: false }
      yield* append("screener", "a.ndjson", toNdjson([complete]))
      assert.deepStrictEqual(
        yield* sql`select price, num_gaps::int, num_runners::int from screener where ticker = 'NEW1'`,
        [
          { price: null, num_gaps: 0, num_runners: 0 },
        ],
      )

      const item = {
        id: "n1",
        ticker: "AAA",
        form_type: "8-K",
        filed_at: "2026-06-01",
        created_at: "2026-06-01 10:00:00",
        last_updated: "2026-06-01 10:00:00",
      }
      yield* append("news", "a.ndjson", toNdjson([item]))
      assert.deepStrictEqual(yield* sql`select title, tickers, tags, source from news where id = 'n1'`, [
        { title: null, tickers: [], tags: [], source: null },
      ])
      yield* append("news", "a.ndjson", toNdjson([{ ...item, title: "t", tags: ["x"] }]))
      yield* append("news", "a.csv", toCsv([{ ...item, form_type: "10-K" }]))
      assert.deepStrictEqual(yield* sql`select form_type, title, tags from news where id = 'n1'`, [
        { form_type: "10-K", title: "t", tags: ["x"] },
      ])
    }))

  it.effect("takes the columns of an NDJSON file from its first row, and refuses rows with other columns (D31)", () =>
    Effect.gen(function* () {
      yield* storeCompanies
      const { exchange: _, ...without } = update
      const refuse = (rows: ReadonlyArray<Row>) =>
        Effect.map(
          Effect.flip(append("screener", "a.ndjson", toNdjson(rows))),
          ({ message }) => message.split("\n").slice(1),
        )
      const needed = "and with --keep-omitted all rows need the same columns"
      assert.deepStrictEqual(yield* refuse([update, without, { ...update, price: "1" }]), [
        `  line 2: exchange is missing, but the first row has it, ${needed}`,
        `  line 3: price is not in the first row, ${needed}`,
      ])
      assert.deepStrictEqual(yield* refuse([{ ...update, prise: "1" }]), [
        "  line 1: prise is not a column of this table; did you mean price?",
      ])
      assert.deepStrictEqual(yield* refuse([{ company: "x" }]), ["  line 1: ticker is missing"])
      const { message } = yield* Effect.flip(append("screener", "a.csv", "company,prise\nx,1\n"))
      assert.match(
        message,
        /line 1: prise is not a column of this table; did you mean price\?\n +line 1: ticker is missing$/,
      )
    }))

  it.effect.each(loadableDatasets)(
    "changes nothing in $table if a file has only some columns, with the stored values (D22)",
    (dataset) =>
      Effect.gen(function* () {
        const { table } = dataset
        const columns = yield* readLoadableColumns(table)
        const sql = yield* SqlClient.SqlClient
        yield* sql`truncate ${sql(table)}`
        const [rowCount, fileCount] = [7, 4]
        yield* fillTable(dataset, rowCount)
        const before = yield* readTable(table)
        for (let seed = 1; seed <= fileCount; seed += 1) {
          const rows = yield* exportRows(table, chooseColumns(dataset, columns, seed))
          const [name, content] = seed % 2 === 0 ? ["a.csv", toCsv(rows)] : ["a.ndjson", toNdjson(rows)]
          const { merged } = yield* append(table, name, content)
          assert.deepStrictEqual(merged, { added: 0, updated: 0, unchanged: rowCount, kept: 0 }, content)
        }
        assertEqualRows(table, yield* readTable(table), before)
      }),
  )

  it.effect("keeps a confirmed or blocked event if the file repeats it as an estimate (D22)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const event = { new_ticker: "NEW", effective_date: "2026-06-01", cik: "0000000001", source_links: source }
      const statuses = ["confirmed", "blocked", "estimated"]
      yield* sql`truncate ticker_changes`
      yield* Service.insertRows(
        "ticker_changes",
        ...statuses.map((status, index) => ({ ...event, old_ticker: `OLD${index}`, status, company_name: "before" })),
      )
      const rows = [0, 1, 2, 3].map((index) => ({ old_ticker: `OLD${index}`, ...event, status: "estimated" }))
      for (const keepOmitted of [true, false]) {
        const named = rows.map((row) => ({ ...row, company_name: `after ${keepOmitted}` }))
        const { merged } = yield* append("ticker_changes", "a.ndjson", toNdjson(named), { keepOmitted })
        assert.deepStrictEqual(
          merged,
          keepOmitted
            ? { added: 1, updated: 1, unchanged: 0, kept: 2 }
            : { added: 0, updated: 2, unchanged: 0, kept: 2 },
        )
        assert.deepStrictEqual(
          yield* sql`select status, company_name from ticker_changes order by old_ticker`,
          [...statuses, "estimated"].map((status) => ({
            status,
            company_name: status === "estimated" ? `after ${keepOmitted}` : "before",
          })),
        )
      }
      yield* append("ticker_changes", "a.ndjson", toNdjson(rows.map((row) => ({ ...row, status: "reverted" }))))
      assert.lengthOf(yield* sql`select from ticker_changes where status = 'reverted'`, rows.length)
    }))
})
