/**
 * Writes rows from PostgreSQL as Parquet, reads the file back with hyparquet, and compares the result with the rows'
 * JSON.
 */
import { assert, layer } from "@effect/vitest"
import { Arbitrary, Effect, Layer, Record, Schema } from "effect"
import { Model } from "effect/schema"
import { SqlClient } from "effect/sql"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import * as Column from "../../../src/contract/rows/Columns.ts"
import { rowOutputBuffer } from "../../../src/query/rows/OutputBuffer.ts"
import { makeParquetWriter } from "../../../src/query/lists/ParquetWriter.ts"
import { findFieldEncoder, makeJsonRowWriter } from "../../../src/query/rows/RowEncoder.ts"
import { getColumnNames, type RowModel, type RowModels } from "../../../src/contract/rows/RowModel.ts"
import { type BinaryRecord, getRecordColumn } from "../../../src/postgres/BinaryRecord.ts"
import { FixedOffsetTimeColumn, InstantColumn, NewYorkTimeColumn } from "../../../src/contract/rows/Timestamps.ts"
import {
  findWrongStatistics,
  formatDecimal,
  parseWithDigits,
  readGroupSizes,
  readParquet,
} from "../../support/ParquetFiles.ts"
import { AfterhoursStat } from "../../../src/contract/endpoints/afterhours-stats.ts"
import { DilutiveSecurity } from "../../../src/contract/endpoints/dilution-data.ts"
import { FloatOutstanding } from "../../../src/contract/endpoints/float-outstanding.ts"
import { GapStatAdvanced } from "../../../src/contract/endpoints/gap-stats.ts"
import { DailyPrice, HistoricalFloat } from "../../../src/contract/endpoints/historical-float-pro.ts"
import { IntradayRunner } from "../../../src/contract/endpoints/intraday-runners.ts"
import { OwnershipRow } from "../../../src/contract/endpoints/ownership.ts"
import { PremarketStat } from "../../../src/contract/endpoints/premarket-stats.ts"
import { PumpAndDumpSuspect } from "../../../src/contract/endpoints/pump-and-dump-tracker.ts"
import { Registration } from "../../../src/contract/endpoints/registrations.ts"
import { ResearchReport } from "../../../src/contract/endpoints/research-reports.ts"
import { ScreenerRow } from "../../../src/contract/endpoints/screener.ts"
import { SplitStatus } from "../../../src/contract/endpoints/split-status.ts"
import { assertEqualRows } from "../../support/RowAssertions.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

/** The row models of the tables that have decimal columns. */
const tables: Readonly<Record<string, RowModel>> = {
  afterhours_stats: AfterhoursStat,
  daily_prices: DailyPrice,
  dilution_data: DilutiveSecurity,
  float_outstanding: FloatOutstanding,
  gap_stats: GapStatAdvanced,
  historical_float_pro: HistoricalFloat,
  intraday_runners: IntradayRunner,
  ownership: OwnershipRow,
  premarket_stats: PremarketStat,
  pump_and_dump_tracker: PumpAndDumpSuspect,
  registrations: Registration,
  research_reports: ResearchReport,
  screener: ScreenerRow,
  split_status: SplitStatus,
}

const database = Layer.unwrap(
  Effect.map(Service.copyMigratedDatabase, (url) => databaseClientLayer({ url, applicationName: "tickerline-test" })),
)

const selectRecords = Effect.fnUntraced(function* (list: string, from = "") {
  const sql = yield* SqlClient.SqlClient
  return getRecordColumn(yield* sql.unsafe(`select row(${list}) ${from}`).valuesUnprepared)
})

/** Returns the bytes of a Parquet file that contains the records, written `size` at a time. */
const writeFile = (
  models: RowModels,
  records: ReadonlyArray<BinaryRecord>,
  size = records.length,
  metadata: Readonly<Record<string, string>> = {},
  groupRows?: number,
) => {
  const write = makeParquetWriter(models, getColumnNames(models), metadata, groupRows)
  const chunks: Array<Uint8Array> = []
  for (let index = 0; index < Math.max(1, records.length); index += Math.max(1, size)) {
    const rows = records.slice(index, index + size).map((record) => record.copy())
    for (const { bytes } of write(rows, index + size >= records.length)) chunks.push(bytes)
  }
  return Buffer.concat(chunks)
}

const read = (bytes: Uint8Array) => Effect.promise(() => readParquet(bytes))

/** Parses the JSON of the rows without losing digits of numbers. Columns that a row's model lacks are null. */
const toJsonRows = (models: RowModels, records: ReadonlyArray<BinaryRecord>) => {
  const writeJson = makeJsonRowWriter(models)
  const nulls = Object.fromEntries(getColumnNames(models).map((name) => [name, null]))
  return records.map((record) => ({
    ...nulls,
    ...Object(parseWithDigits(new TextDecoder().decode(rowOutputBuffer.take(writeJson(record, 0))))),
  }))
}

class EveryType extends Model.Class<EveryType>("EveryType")({
  text: Column.nullable(Column.text("")),
  word: Column.nullable(Column.literal(["a", "bé"], "")),
  texts: Column.nullable(Column.textArray("")),
  integer: Column.nullable(Column.integer("")),
  price: Column.nullable(Column.price("")),
  money: Column.nullable(Column.money("")),
  product: Column.nullable(Column.priceTimesShares("")),
  flag: Column.nullable(Column.boolean("")),
  date: Column.nullable(Column.date("")),
  eastern: Column.nullable(FixedOffsetTimeColumn),
  new_york: Column.nullable(NewYorkTimeColumn),
  utc: Column.nullable(InstantColumn),
}) {}

/** A SQL null expression for each column of `EveryType`. */
const nulls: Readonly<Record<string, string>> = {
  text: "null::text",
  word: "null::text",
  texts: "null::text[]",
  integer: "null::bigint",
  price: "null::numeric",
  money: "null::numeric",
  product: "null::numeric",
  flag: "null::boolean",
  date: "null::date",
  eastern: "null::timestamp",
  new_york: "null::timestamp",
  utc: "null::timestamptz",
}

/** Selects a row in which a single column has a value. */
const selectValue = (column: string, expression: string) =>
  selectRecords(Object.entries(nulls).map(([name, missing]) => name === column ? expression : missing).join(", "))

const days = ["0001-01-02", "1582-10-15", "1899-12-31", "1900-01-01", "1969-12-31", "2000-02-29", "2026-03-08"]
const lateDays = ["2026-11-01", "2255-06-06", "2285-06-06", "9999-12-30"]
const clocks = ["00:00", "01:59:59.999999", "02:30", "12:34:56.7", "23:59:59.9994"]
const times = [...days, ...lateDays].flatMap((day) => clocks.map((clock) => `${day} ${clock}`))
const decimals = [
  "0",
  "-0.0001",
  "0.1",
  "9999.9999",
  "10000",
  "-10000.0001",
  "99999999999999.9999",
  "-99999999999999.9999",
]
const amounts = ["0.01", "-999999999999999999.99", "999999999999999999.99", "90071992547409.93", "1234567890123.4"]
const texts = ["", "plain", `"quoted" \\ é 😀`, "x".repeat(300_000), "\u0001\u2028"]
const quote = (text: string) => `'${text.replaceAll("'", "''")}'`

/** SQL expressions for values that a file can hold, by column. */
const valid: Readonly<Record<string, ReadonlyArray<string>>> = {
  text: texts.map((text) => `${quote(text)}::text`),
  word: ["'a'::text", "'bé'::text"],
  texts: ["'{}'::text[]", "'{a}'::text[]", `'{"","\\"",é}'::text[]`],
  integer: ["0", "-1", "9007199254740991", "-9007199254740991"].map((value) => `(${value})::bigint`),
  price: decimals.map((value) => `(${value})::numeric`),
  money: amounts.map((value) => `(${value})::numeric`),
  product: [...amounts, `-${"9".repeat(36)}.99`].map((value) => `(${value})::numeric`),
  flag: ["true", "false"],
  date: [...days, ...lateDays].map((day) => `'${day}'::date`),
  eastern: times.map((time) => `'${time}'::timestamp`),
  new_york: times.map((time) => `'${time}'::timestamp`),
  utc: times.map((time) => `'${time}Z'::timestamptz`),
}

/** SQL expressions for values that PostgreSQL can hold, but that a file or the API type cannot, by column. */
const invalid: Readonly<Record<string, ReadonlyArray<string>>> = {
  word: ["'c'::text"],
  texts: ["'{NULL}'::text[]", "'{{a},{b}}'::text[]"],
  integer: ["9007199254740992::bigint", "(-9223372036854775808)::bigint"],
  price: ["100000000000000", "-100000000000000", "0.00001", "1e40", "'NaN'", "'Infinity'"].map((value) =>
    `(${value})::numeric`
  ),
  money: ["1000000000000000000", "0.001", "90071992547409.931", "'-Infinity'"].map((value) => `(${value})::numeric`),
  date: ["'infinity'::date", "'10000-01-01'::date", "'0044-03-15 BC'::date"],
  utc: ["'infinity'::timestamptz"],
}

const isEveryType = (row: object) => getColumnNames(EveryType).every((name) => name in row)

layer(database, { excludeTestServices: true })("A Parquet file", (it) => {
  it.effect("has the same values as the JSON, for each type up to its limits (D16)", () =>
    Effect.gen(function* () {
      const records: Array<BinaryRecord> = []
      for (const [column, expressions] of Object.entries(valid)) {
        for (const expression of expressions) records.push(...(yield* selectValue(column, expression)))
      }
      records.push(...(yield* selectValue("", "")))
      const { encodings, metadata, rows, types } = yield* read(
        writeFile(EveryType, records, 7, { name: "ü", none: "" }),
      )
      assertEqualRows("the file", rows, toJsonRows(EveryType, records))
      assert.isTrue(rows.every(isEveryType))
      assert.deepStrictEqual(metadata, { name: "ü", none: "" })
      assert.deepStrictEqual(types, {
        text: "string byte_array?",
        word: "string byte_array?",
        texts: "list of string byte_array?",
        integer: "int64?",
        price: "decimal(18,4) int64?",
        money: "decimal(20,2) fixed_len_byte_array(9)?",
        product: "decimal(38,2) fixed_len_byte_array(16)?",
        flag: "boolean?",
        date: "date int32?",
        eastern: "timestamp(micros,utc) int64?",
        new_york: "timestamp(micros,utc) int64?",
        utc: "timestamp(micros,utc) int64?",
      })
      assert.include(encodings["word"] ?? [], "RLE_DICTIONARY")
    }))

  it.effect("is not written if a value does not fit its type, so that no digits are lost (D16)", () =>
    Effect.gen(function* () {
      for (const [column, expressions] of Object.entries(invalid)) {
        for (const expression of expressions) {
          const records = yield* selectValue(column, expression)
          assert.throws(() => writeFile(EveryType, records), new RegExp(`EveryType.${column}`), expression)
        }
      }
      class Required extends Model.Class<Required>("Required")({ text: Column.text("") }) {}
      const missing = yield* selectRecords("null::text")
      assert.throws(() => writeFile(Required, missing), /Required.text/)
      const other = yield* selectRecords("1::bigint")
      assert.throws(() => writeFile(Required, other), /type 20 instead of 25/)
    }))

  const integersUpTo = (maximum: number) =>
    Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum })))
  /**
   * Characters from which texts are built. Some sort differently in UTF-8 than in JavaScript, and the texts often
   * exceed the length limit for the minimum and maximum statistics in a file.
   */
  const characters = [
    "",
    "a",
    "~",
    "é",
    "\u0001",
    "\uD7FF",
    "\uE000",
    "\uFFFD",
    "😀",
    "\u{10FFFF}",
    "\u{10FFFF}".repeat(4),
  ]
  const text = Arbitrary.map(
    Arbitrary.array(integersUpTo(characters.length - 1), { maxLength: 20 }),
    (indexes) => indexes.map((index) => characters[index]).join(""),
  )
  const choose = (...values: ReadonlyArray<unknown>) =>
    Arbitrary.map(integersUpTo(values.length - 1), (index) => values[index])
  const columnValues: Readonly<Record<string, Arbitrary.Arbitrary<unknown>>> = {
    text,
    word: choose("a", "bé"),
    texts: Arbitrary.array(text, { maxLength: 3 }),
    integer: choose(0, -1, 255, 256, 2 ** 53 - 1, 1 - 2 ** 53),
    price: choose(...decimals),
    money: choose(...amounts, "-0.01", "-92233720368547758.09"),
    product: choose(...amounts, "-0.01", `-${"9".repeat(36)}.99`),
    flag: choose(true, false),
    date: choose(...days, ...lateDays),
    eastern: choose(...times),
    new_york: choose(...times),
    utc: choose(...times.map((time) => `${time}Z`)),
  }
  /** Rows in which each value has a one-in-three chance of being null, so a small row group may contain only nulls. */
  const anyRow = Arbitrary.map(
    Arbitrary.all({
      values: Arbitrary.all(columnValues),
      nulls: Arbitrary.all(Record.map(columnValues, () => integersUpTo(2))),
    }),
    ({ nulls, values }) => Record.map(values, (value, name) => nulls[name] === 0 ? null : value),
  )
  const columnTypes = Object.entries(nulls).map(([name, missing]) => `${name} ${missing.slice("null::".length)}`)
  it.effect.prop(
    "states the minimum, the maximum and the number of nulls of each column in each row group (D8)",
    [Arbitrary.array(anyRow, { minLength: 1, maxLength: 40 }), integersUpTo(9)],
    ([generated, size]) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const records = getRecordColumn(
          yield* sql.unsafe(
            `select row(${Object.keys(nulls).join(", ")})
             from rows from (jsonb_to_recordset($1::text::jsonb) as (${columnTypes.join(", ")})) with ordinality
             order by ordinality`,
            [JSON.stringify(generated)],
          ).valuesUnprepared,
        )
        const groupRows = size + 1
        const file = writeFile(EveryType, records, groupRows, {}, groupRows)
        assert.lengthOf(readGroupSizes(file), Math.ceil(records.length / groupRows))
        const expected = toJsonRows(EveryType, records)
        assert.deepStrictEqual(findWrongStatistics(file, expected), [])
        assert.deepStrictEqual((yield* read(file)).rows, expected)
      }),
    { arbitrary: { runs: getInputCount(200) } },
  )

  class Decimals extends Model.Class<Decimals>("Decimals")({
    thousandths: Column.threeDecimalPrice(""),
    price: Column.price(""),
    money: Column.money(""),
    product: Column.priceTimesShares(""),
  }) {}
  const shapes = [[18, 3], [18, 4], [20, 2], [38, 2]] as const
  /**
   * Unscaled values with any number of digits that the precision allows. Half of them are at the limits for their
   * number of digits.
   */
  const unscaled = Arbitrary.map(
    Arbitrary.all({
      digits: Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 38 }))),
      seed: Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 999_999_999 }))),
      isEdge: Arbitrary.schema(Schema.Boolean),
      isNegative: Arbitrary.schema(Schema.Boolean),
    }),
    ({ digits, isEdge, isNegative, seed }) => (precision: number) => {
      const limit = 10n ** BigInt(Math.min(digits, precision))
      const value = isEdge
        ? limit - 1n - BigInt(seed % 2)
        // Any large odd factor distributes the seed over all digits. This one is derived from the golden ratio.
        : (BigInt(seed) * 0x9E3779B97F4A7C15F39CC0605CEDC834n) % limit
      return isNegative ? -value : value
    },
  )
  it.effect.prop(
    "keeps all digits of decimals (D16)",
    [Arbitrary.array(unscaled, { minLength: 4, maxLength: 40 })],
    ([values]) =>
      Effect.gen(function* () {
        const rows = values.map((make) => shapes.map(([precision, scale]) => formatDecimal(make(precision), scale)))
        const tuples = rows.map((row) => `(${row.map((text) => `'${text}'::numeric`).join(", ")})`).join(", ")
        const records = yield* selectRecords("a, b, c, d", `from (values ${tuples}) as generated (a, b, c, d)`)
        const file = yield* read(writeFile(Decimals, records))
        assert.deepStrictEqual(file.rows.map((row) => Object.values(row)), rows)
      }),
    { arbitrary: { runs: 20 } },
  )

  it.effect("declares the precision and scale of PostgreSQL's columns (D16)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const found = yield* sql<{ readonly name: string; readonly type: string }>`
        select table_name || '.' || column_name as name,
          'decimal(' || numeric_precision || ',' || numeric_scale || ')' as type
        from information_schema.columns where table_schema = current_schema() and data_type = 'numeric'
          and table_name not in ('edgar_fees', 'price_periods')
      `
      const declared = Object.fromEntries(
        Object.entries(tables).flatMap(([table, model]) =>
          Object.entries(model.fields).flatMap(([column, { ast }]) => {
            const element = findFieldEncoder(ast)?.parquet.element
            return element?.logical_type?.type === "DECIMAL"
              ? [[`${table}.${column}`, `decimal(${element.precision},${element.scale})`] as const]
              : []
          })
        ),
      )
      const stored = Object.fromEntries(found.map(({ name, type }) => [name, type]))
      assertFoundMoreThan(100, "columns", found)
      // `market_cap` of historical_float_pro is computed as a product, so no table stores it.
      assert.deepStrictEqual(declared, { ...stored, "historical_float_pro.market_cap": "decimal(38,2)" })
    }))

  class Round
    extends Model.Class<Round>("Round")({ kind: Column.literal(["round"], ""), radius: Column.integer("") }) {}
  class Square
    extends Model.Class<Square>("Square")({ kind: Column.literal(["square"], ""), side: Column.integer("") }) {}
  it.effect("has the columns of all models of its rows, with null if a row's model lacks a column (D8)", () =>
    Effect.gen(function* () {
      const kinds = `case when g % 3 = 0 then 'round' else 'square' end`
      const records = yield* selectRecords(`${kinds}, g, g * 2`, "from generate_series(1::bigint, 10) as g")
      const { rows, types } = yield* read(writeFile([Round, Square], records, 4))
      assert.deepStrictEqual(types, { kind: "string byte_array", radius: "int64?", side: "int64?" })
      assertEqualRows("the file", rows, toJsonRows([Round, Square], records))
      const triangle = yield* selectRecords("'triangle'::text, 1::bigint, 2::bigint")
      assert.throws(() => writeFile([Round, Square], triangle), /Round.kind/)
    }))

  class Line extends Model.Class<Line>("Line")({ number: Column.integer(""), text: Column.text("") }) {}
  it.effect("has row groups of limited size, no matter how many rows are fetched at once (D8)", () =>
    Effect.gen(function* () {
      const manyRows = yield* selectRecords("g, 'x'::text", "from generate_series(1::bigint, 70000) as g")
      const file = yield* read(writeFile(Line, manyRows, 1_000))
      // A row group ends with the first chunk that brings it to at least 32,768 rows.
      assert.deepStrictEqual(file.groupSizes, [33_000, 33_000, 4_000])
      assert.deepStrictEqual(file.rows.map(({ number }) => number), manyRows.map((_, index) => String(index + 1)))
      const largeRows = yield* selectRecords("g, repeat('x', 100000)", "from generate_series(1::bigint, 200) as g")
      // With rows of 100 KB, a row group reaches eight mebibytes after 84 rows.
      assert.deepStrictEqual((yield* read(writeFile(Line, largeRows, 1))).groupSizes, [84, 84, 32])
      const empty = yield* read(writeFile(Line, []))
      assert.deepStrictEqual([empty.rows, empty.groupSizes], [[], []])
    }))
})
