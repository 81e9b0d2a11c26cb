/**
 * Tests that tables reject values that no response can represent, regardless of which program writes them (D34: stored
 * values).
 */
import { NodeServices } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer, Predicate, Ref, Result, Stream } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { checkConstraints } from "../../../src/operate/cli/doctor/SchemaChecks.ts"
import { type LoadableDataset, loadableDatasets } from "../../../src/contract/Datasets.ts"
import { describeColumns, describeDatasetFormat } from "../../../src/ingest/load/DatasetDescription.ts"
import { type LoadableColumn, readLoadableColumns } from "../../../src/ingest/load/LoadingTable.ts"
import { loadDatasetFile, makeTableValidator } from "../../../src/ingest/load/DatasetLoad.ts"
import { readFileRows } from "../../../src/ingest/load/FileReader.ts"
import { makeEmptyDatabase, migrateUpTo } from "../../support/MigrationDatabases.ts"
import { fillTable } from "../../support/GeneratedRows.ts"
import * as Service from "../../support/Service.ts"

/** Unprintable values in SQL, each with the equivalent CSV cell if there is one. */
const unprintable: Readonly<Record<string, ReadonlyArray<readonly [sql: string, cell?: string]>>> = {
  numeric: [["'NaN'", "NaN"], ["'Infinity'", "Infinity"], ["'-Infinity'", "-Infinity"]],
  bigint: [["9007199254740992", "9007199254740992"], ["-9007199254740992", "-9007199254740992"]],
  "text[]": [
    ["array['a', null]"],
    ["array[null]::text[]"],
    ["array[array['a'], array['b']]"],
    ["'[0:1]={a,b}'"],
  ],
  date: [
    ["'infinity'", "infinity"],
    ["'-infinity'", "-infinity"],
    ["'10000-01-01'", "10000-01-01"],
    ["'0001-12-31 BC'", "0000-12-31"],
  ],
  "timestamp without time zone": [
    ["'infinity'", "infinity"],
    ["'-infinity'", "-infinity"],
    ["'10000-01-01 00:00:00'", "10000-01-01 00:00:00"],
    ["'9999-12-31 23:59:59.9996'", "9999-12-31 23:59:59.9996"],
    ["'0001-01-01 12:00:00'", "0001-01-01 12:00:00"],
    ["'0001-12-31 12:00:00 BC'", "0000-12-31 12:00:00"],
  ],
  "timestamp with time zone": [
    ["'infinity'", "infinity"],
    ["'-infinity'", "-infinity"],
    ["'10000-01-01 05:00:00+00'", "9999-12-31T23:59:59-06:00"],
    ["'0001-01-01 23:59:59+00'", "0001-01-01T23:59:59Z"],
    ["'0001-12-31 12:00:00+00 BC'", "0000-12-31T12:00:00Z"],
  ],
}

/** The bounds of each domain (D42): values at the bounds, and values just outside them. */
const bounds: Readonly<Record<string, Readonly<Record<"inside" | "outside", ReadonlyArray<string>>>>> = {
  price: { inside: ["0.0001", "9999999"], outside: ["0", "-0.0001", "9999999.0001"] },
  floor_price: { inside: ["0.001", "9999999"], outside: ["0", "-0.001", "9999999.001"] },
  ratio: { inside: ["0.0001", "99999999999999.9999"], outside: ["0", "-1"] },
  quantity: { inside: ["0", "9007199254740991"], outside: ["-1", "9007199254740992"] },
  tally: { inside: ["0", "9007199254740991"], outside: ["-1", "9007199254740992"] },
  figure: { inside: ["-99999999999999.9999", "99999999999999.9999"], outside: [] },
  proportion: { inside: ["0", "99999999999999.9999"], outside: ["-0.0001"] },
  change: { inside: ["-100", "99999999999999.9999"], outside: ["-100.0001"] },
  dollars: { inside: ["0", "999999999999999999.99"], outside: ["-0.01"] },
  fact_day: { inside: ["1900-01-01", "2199-12-31"], outside: ["1899-12-31", "2200-01-01"] },
  wall_time: {
    inside: ["1900-01-01 00:00:00", "2199-12-31 23:59:59.999"],
    outside: ["1899-12-31 23:59:59.999", "2200-01-01 00:00:00", "0021-06-01 10:00:00", "2926-06-01 10:00:00"],
  },
  instant: {
    inside: ["1900-01-01T00:00:00-05:00", "2199-12-31T23:59:59.999-05:00"],
    outside: ["1900-01-01T04:59:59.999Z", "2200-01-01T05:00:00Z", "0021-06-01T10:00:00Z"],
  },
}

/** Returns the type without its modifier, such as `numeric` for `numeric(18,4)`. */
const plainType = ({ type }: LoadableColumn) => type.replace(/\(\d+(,\d+)?\)/, "")

/** Returns whether the column is a text column that is never null. Such a column must not contain empty text (D16). */
const isText = (column: LoadableColumn) => plainType(column) === "text" && !column.is_nullable

const badOf = (column: LoadableColumn, words: ReadonlyArray<string>) => [
  ...(unprintable[plainType(column)] ?? []),
  ...(words.length > 1 && plainType(column) === "text" ? [["'no such word'", "no such word"] as const] : []),
  ...(isText(column) ? [["''", ""] as const] : []),
]

const codeOf = ({ reason: { cause } }: SqlError.SqlError) =>
  Predicate.hasProperty(cause, "code") ? String(cause.code) : ""

/** Returns the one-row example file that the `datasets` command prints. */
const exampleFile = ({ table, ...dataset }: LoadableDataset) => {
  const [, shown = ""] = describeDatasetFormat({ table, ...dataset }).split(`${table}.csv:\n`)
  return shown.split("\n").map((line) => line.trim()).filter((line) => line !== "").join("\n")
}

const written = Effect.fnUntraced(function* (name: string, text: string) {
  const fs = yield* FileSystem.FileSystem
  const path = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-printable-" })}/${name}`
  yield* fs.writeFileString(path, text)
  return path
})

const rowsOf = (path: string, lists: ReadonlySet<string>) => Stream.runCollect(readFileRows(path, lists))

/** Inserts a copy of a row with one column changed. Returns the SQLSTATE of the error, or "inserted". */
const tryInsert = Effect.fnUntraced(
  function* (table: string, columns: ReadonlyArray<LoadableColumn>, of: LoadableColumn, value: string) {
    const sql = yield* SqlClient.SqlClient
    const names = columns.map(({ name }) => `"${name}"`).join(", ")
    const values = columns.map(({ name }) => name === of.name ? `${value}::${of.type}` : `"${name}"`).join(", ")
    const done = yield* Effect.result(
      sql.unsafe(`insert into public.${table} (${names}) select ${values} from public.${table} limit 1`),
    )
    return Result.isFailure(done) ? codeOf(done.failure) : "inserted"
  },
)

layer(Service.layer, { excludeTestServices: true })("Unprintable values", (it) => {
  it.effect.each(loadableDatasets)(
    "are rejected in every column of $table, and by load, which reports the line and the column (D34)",
    (dataset) =>
      Effect.gen(function* () {
        const { table } = dataset
        const columns = yield* readLoadableColumns(`public.${table}`)
        const known = Object.fromEntries(describeColumns(dataset).map(({ name, type }) => [name, type]))
        yield* fillTable(dataset, 1)
        const example = yield* written("a.csv", exampleFile(dataset))
        const lists = new Set(columns.filter(({ is_list }) => is_list).map(({ name }) => name))
        const { validateRow } = yield* makeTableValidator(dataset, {})
        const [row] = yield* rowsOf(example, lists)
        const accepted: Array<string> = []
        for (const column of columns) {
          for (const [value, cell] of badOf(column, known[column.name]?.split(" | ") ?? [])) {
            const code = yield* tryInsert(table, columns, column, value)
            // 23514: constraint violation; 22003: number out of range; 2202E: nested array; 0A000: not supported.
            if (!["23514", "22003", "2202E", "0A000"].includes(code)) {
              accepted.push(`${column.name} = ${value}: ${code}`)
            }
            if (cell === undefined || row === undefined) continue
            const checked = validateRow({ ...row, cells: { ...row.cells, [column.name]: cell } })
            const named = Result.isFailure(checked) && checked.failure.some((bad) => bad.column === column.name)
            if (!named) accepted.push(`load: ${column.name} = ${cell}`)
          }
          const isKind = known[column.name] !== undefined
          assert.isTrue(isKind, `${table}.${column.name} is no column of its row`)
        }
        assert.deepStrictEqual(accepted, [])
      }),
  )

  it.effect("are excluded by the domain of every column whose type allows them (D34)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const missing: Array<string> = []
      for (const { table } of loadableDatasets) {
        const bounded = yield* sql<{ readonly column: string }>`
          select attname as column from pg_attribute
          where attrelid = ${`public.${table}`}::regclass and exists (
            select from pg_constraint where contype = 'c' and convalidated
              and (contypid = atttypid or conrelid = attrelid and conkey = array[attnum] and atttypid = 'text'::regtype)
          )
        `
        const names = new Set(bounded.map(({ column }) => column))
        for (const column of yield* readLoadableColumns(`public.${table}`)) {
          const isBounded = names.has(column.name)
          if ((plainType(column) in unprintable || isText(column)) && !isBounded) {
            missing.push(`${table}.${column.name}`)
          }
        }
      }
      assert.deepStrictEqual(missing, [])
    }))

  it.effect.each(Object.entries(bounds))(
    "beside those outside of the bounds of %s, whose bounds are accepted, by SQL and by load (D42)",
    ([domain, { inside, outside }]) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const cast = (value: string) => Effect.result(sql.unsafe(`select $1::text::${domain}`, [value]))
        for (const value of inside) assert.strictEqual((yield* cast(value))._tag, "Success", value)
        for (const value of outside) {
          const refused = yield* cast(value)
          assert.strictEqual(refused._tag === "Failure" ? codeOf(refused.failure) : "accepted", "23514", value)
        }
        const [place] = yield* sql<{ readonly table: string; readonly column: string }>`
          select relname as table, attname as column from pg_attribute join pg_class on pg_class.oid = attrelid
          where atttypid = ${domain}::regtype and relnamespace = 'public'::regnamespace and relname in ${
          sql.in(loadableDatasets.map(({ table }) => table))
        } order by 1, 2 limit 1
        `
        const dataset = loadableDatasets.find(({ table }) => table === place?.table)
        if (place === undefined || dataset === undefined) return assert.fail(`No column of a dataset is a ${domain}`)
        const [names = "", ...rows] = exampleFile(dataset).split("\n")
        const fs = yield* FileSystem.FileSystem
        const example = yield* written("example.csv", [names, ...rows].join("\n"))
        const columns = yield* readLoadableColumns(`public.${dataset.table}`)
        const [row] = yield* rowsOf(example, new Set(columns.flatMap(({ is_list, name }) => is_list ? [name] : [])))
        const load = Effect.fnUntraced(function* (value: string) {
          const file = yield* written("bounds.ndjson", "")
          yield* fs.writeFileString(file, JSON.stringify({ ...row?.cells, [place.column]: value }) + "\n")
          const task = { dataset: place.table, file, append: true, check: true }
          return yield* Effect.result(Effect.flatMap(Ref.make(0), (progress) => loadDatasetFile(task, progress)))
        })
        for (const value of outside) {
          const loaded = yield* load(value)
          assert.match(
            loaded._tag === "Failure" ? String(loaded.failure) : "accepted",
            new RegExp(`line 1: .*${place.column}.*${value.replace(".", "\\.")}`),
            `${place.table}.${place.column}`,
          )
        }
      }),
  )

  it.effect("include numbers below 0, except in columns for changes and in a few others (D42)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const tables = loadableDatasets.map(({ table }) => table)
      const columns = yield* sql<{ readonly column: string; readonly domain: string }>`
        select relname || '.' || attname as column, typname as domain
        from pg_attribute join pg_class on pg_class.oid = attrelid join pg_type on pg_type.oid = atttypid
          join domain_bounds on domain = atttypid
        where relnamespace = 'public'::regnamespace and relname in ${sql.in(tables)} and typcategory = 'N'
          and least::numeric < 0
        order by 1
      `
      // A relative change of a price or volume cannot be below -100%.
      const isChange = (name: string) => /\.(gain_|percentage_gain$|avg_gap$|.*change_|gap_perc|open_to_)/.test(name)
      assert.deepStrictEqual(
        columns.filter(({ domain }) => domain === "change").map(({ column }) => column),
        columns.filter(({ column }) => isChange(column)).map(({ column }) => column),
      )
      assert.deepStrictEqual(columns.filter(({ domain }) => domain !== "change").map(({ column }) => column), [
        "dilution_data.interest_rate_percentage",
        "registrations.baby_shelf_raisable_amount",
        "registrations.calculated_raisable_amount",
        "screener.fee_rate",
        "screener.ratio_debt_to_equity",
      ])
    }))

  it.effect("do not include the most extreme printable values, which are accepted (D34, D16)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`delete from gap_stats`
      const dataset = loadableDatasets.find(({ table }) => table === "gap_stats")
      if (dataset === undefined) return assert.fail("no gap_stats")
      yield* fillTable(dataset, 2)
      yield* sql`
        update gap_stats set date = '1900-01-01', high_time = '1900-01-01', last_updated = '1900-01-01 05:00:00+00',
          volume = 0, market_cap = 0,
          filing_types = '{a}', all_tags = '{}'
        where ticker = 'T1'
      `
      yield* sql`
        update gap_stats set date = '2199-12-31', high_time = '2199-12-31 23:59:59.999',
          last_updated = '2199-12-31 23:59:59.999-05', volume = 9007199254740991, market_cap = 999999999999999999.99
        where ticker = 'T2'
      `
      const { status, text } = yield* Service.requestJson("/v1/gap-stats-advanced")
      assert.strictEqual(status, 200, text)
      for (
        const expectedText of [
          '"date":"1900-01-01"',
          '"high_time":"1900-01-01T00:00:00-05:00"',
          '"last_updated":"1900-01-01T00:00:00-05:00"',
          '"volume":0',
          '"market_cap":0',
          '"filing_types":["a"]',
          '"all_tags":[]',
          '"date":"2199-12-31"',
          '"high_time":"2199-12-31T23:59:59.999-05:00"',
          '"last_updated":"2199-12-31T23:59:59.999-05:00"',
          '"volume":9007199254740991',
        ]
      ) assert.include(text, expectedText)
    }))

  it.effect("stay excluded after a load, which also validates a violated constraint (D34, D31)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const rule = sql<{ readonly valid: boolean }>`
        select convalidated as valid from pg_constraint
        where conrelid = 'public.daily_prices'::regclass and conname = 'own_rule'
      `
      yield* sql`insert into daily_prices values ('BAD', '2025-01-02', 200)`
      yield* sql`alter table daily_prices add constraint own_rule check (close < 100) not valid`
      assert.deepStrictEqual(yield* rule, [{ valid: false }])
      const file = yield* written("prices.csv", "ticker,date,close\nGOOD,2025-01-02,1\n")
      const loading = (append: boolean) =>
        Effect.flatMap(Ref.make(0), (progress) => loadDatasetFile({ dataset: "daily_prices", file, append }, progress))
      assert.deepStrictEqual((yield* loading(true)).merged, { added: 1, updated: 0, unchanged: 0, kept: 0 })
      yield* loading(false)
      assert.deepStrictEqual(yield* rule, [{ valid: true }])
      const bad = yield* Effect.flip(sql`insert into daily_prices values ('BAD', '2025-01-02', 200)`)
      assert.strictEqual(codeOf(bad), "23514")
    }))
})

const before = Layer.effectDiscard(migrateUpTo("0000")).pipe(
  Layer.provideMerge(Layer.unwrap(Effect.map(makeEmptyDatabase, (url) => PgClient.layer({ url, maxConnections: 2 })))),
  Layer.provideMerge(NodeServices.layer),
)

layer(before, { excludeTestServices: true })("Rows older than the constraints", (it) => {
  it.effect("do not stop the upgrade: the constraint applies to new rows, and doctor reports a query that finds old ones (D34)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`insert into daily_prices values ('BAD', '2025-01-02', 200), ('GOOD', '2025-01-02', 1)`
      yield* migrateUpTo("0000", {
        "0901_rule.sql": "alter table daily_prices add constraint own_rule check (close < 100) not valid;",
        "0902_rule_validated.sql":
          "-- no transaction: scans the table\ndo $$ begin alter table daily_prices validate constraint own_rule; " +
          "exception when check_violation then raise warning '%', sqlerrm; end $$;",
      })
      const another = yield* Effect.flip(sql`insert into daily_prices values ('BAD', '2025-01-03', 200)`)
      assert.strictEqual(codeOf(another), "23514")
      const [finding, ...others] = yield* checkConstraints
      assert.deepStrictEqual(others, [])
      if (finding === undefined) assert.fail("no finding")
      assert.strictEqual(finding.state, "warning")
      assert.match(finding.found, /^own_rule is not validated;/)
      const advice = finding.advice ?? ""
      const [, query = ""] = /Find the rows: (.*)\. Correct/.exec(advice) ?? []
      assert.deepStrictEqual(yield* sql.unsafe(`select ticker from (${query}) as found`), [{ ticker: "BAD" }])
      yield* sql`update daily_prices set close = 2 where ticker = 'BAD'`
      const [, repair = ""] = /then run: (alter table .*?)\. Or/.exec(advice) ?? []
      yield* sql.unsafe(repair)
      assert.strictEqual((yield* checkConstraints)[0]?.state, "ok")
    }))
})
