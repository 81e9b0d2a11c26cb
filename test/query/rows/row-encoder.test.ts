/**
 * Encodes rows from PostgreSQL as JSON and CSV, and compares the output with the encoding that the column schemas
 * produce.
 */
import { assert, layer } from "@effect/vitest"
import { Arbitrary, Effect, Layer, Result, Schema, SchemaAST } from "effect"
import { Model } from "effect/schema"
import { SqlClient } from "effect/sql"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import * as Column from "../../../src/contract/rows/Columns.ts"
import { postgresTypeIds } from "../../../src/query/rows/FieldEncoders.ts"
import { rowOutputBuffer } from "../../../src/query/rows/OutputBuffer.ts"
import {
  findFieldEncoder,
  makeCsvRowWriter,
  makeJsonRowWriter,
  type RowWriter,
} from "../../../src/query/rows/RowEncoder.ts"
import { getColumnNames, isNullableSchema, type RowModel, type RowModels } from "../../../src/contract/rows/RowModel.ts"
import {
  makeCsvOrNdjsonWriter,
  makeGroupResultEncoder,
  makeSingleRowResultEncoder,
} from "../../../src/query/rows/ResultWriter.ts"
import type { BinaryRecord } from "../../../src/postgres/BinaryRecord.ts"
import { getRecordColumn } from "../../../src/postgres/BinaryRecord.ts"
import { FixedOffsetTimeColumn, InstantColumn, NewYorkTimeColumn } from "../../../src/contract/rows/Timestamps.ts"
import { encodeListPage } from "../../../src/query/rows/PageEncoder.ts"
import { ApiKeyRow } from "../../../src/contract/endpoints/account.ts"
import { AfterhoursStat } from "../../../src/contract/endpoints/afterhours-stats.ts"
import {
  Convertible,
  ConvertibleWithAdvancedFields,
  Warrant,
  WarrantWithAdvancedFields,
} from "../../../src/contract/endpoints/dilution-data.ts"
import { FloatOutstanding } from "../../../src/contract/endpoints/float-outstanding.ts"
import { GapStat, GapStatAdvanced } from "../../../src/contract/endpoints/gap-stats.ts"
import { HistoricalFloat } from "../../../src/contract/endpoints/historical-float-pro.ts"
import { IntradayRunner } from "../../../src/contract/endpoints/intraday-runners.ts"
import { ComplianceNotice } from "../../../src/contract/endpoints/nasdaq-compliance.ts"
import { NewsBasicItem, NewsItem } from "../../../src/contract/endpoints/news.ts"
import { Owner, OwnershipFilingHeader } from "../../../src/contract/endpoints/ownership.ts"
import { PremarketStat } from "../../../src/contract/endpoints/premarket-stats.ts"
import { PumpAndDumpSuspect } from "../../../src/contract/endpoints/pump-and-dump-tracker.ts"
import { Registration } from "../../../src/contract/endpoints/registrations.ts"
import { ResearchReport, ResearchReportTldr } from "../../../src/contract/endpoints/research-reports.ts"
import { ScreenerRow } from "../../../src/contract/endpoints/screener.ts"
import { SplitStatus } from "../../../src/contract/endpoints/split-status.ts"
import { DailyUsageRow, UsageRow } from "../../../src/contract/endpoints/usage.ts"
import { encodeReferenceCell } from "../../support/ReferenceLists.ts"
import * as Service from "../../support/Service.ts"

/** A row model, with the schemas that define the encoding that the row encoder must reproduce. */
type Row = RowModel & Schema.Codec<unknown, unknown> & { readonly json: Schema.Codec<unknown, unknown> }

const rows: ReadonlyArray<Row> = [
  ConvertibleWithAdvancedFields,
  WarrantWithAdvancedFields,
  AfterhoursStat,
  ApiKeyRow,
  ComplianceNotice,
  Convertible,
  FloatOutstanding,
  GapStat,
  GapStatAdvanced,
  HistoricalFloat,
  IntradayRunner,
  NewsBasicItem,
  NewsItem,
  Owner,
  OwnershipFilingHeader,
  PremarketStat,
  PumpAndDumpSuspect,
  Registration,
  ResearchReport,
  ResearchReportTldr,
  ScreenerRow,
  SplitStatus,
  DailyUsageRow,
  UsageRow,
  Warrant,
]

const database = Layer.unwrap(
  Effect.map(Service.createTestDatabase(), (url) => databaseClientLayer({ url, applicationName: "tickerline-test" })),
)

// ----------------------------------------------------------------------------------------------------------------
// Generated rows
// ----------------------------------------------------------------------------------------------------------------

const int = (minimum: number, maximum: number) =>
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum, maximum })))

/** Characters with a special meaning in JSON, in CSV or in many programs. */
const special = Array.from(`"\\,\r\n\t\b\f\v;=+-@'/\u0001\u001f\u007f\u0085\u2028\u2029\uFEFF＝é€😀`)
const specialText = Arbitrary.map(
  Arbitrary.array(int(0, special.length), { maxLength: 8 }),
  (indexes) => indexes.map((index) => special[index] ?? "plain").join(""),
)
/** Any text that PostgreSQL can store. */
const anyText = Arbitrary.map(
  Arbitrary.all({ text: Arbitrary.schema(Schema.String), unusual: specialText, rarity: int(0, 1) }),
  ({ rarity, text, unusual }) => rarity === 0 ? unusual : text.toWellFormed().replaceAll("\0", ""),
)
const anyBoolean = Arbitrary.schema(Schema.Boolean)
const anyInteger = Arbitrary.map(int(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER), String)

/** Decimals with up to 16 digits before the decimal point and up to 8 digits after it. */
const anyDecimal = Arbitrary.map(
  Arbitrary.all({
    integer: int(0, Number.MAX_SAFE_INTEGER),
    digits: int(0, 16),
    part: int(0, 99_999_999),
    decimals: int(0, 8),
    sign: anyBoolean,
  }),
  ({ decimals, digits, integer, part, sign }) => {
    const fraction = String(part).padStart(8, "0").slice(0, decimals)
    return `${sign ? "-" : ""}${String(integer).slice(-digits - 1)}${fraction === "" ? "" : `.${fraction}`}`
  },
)

const hour = 3_600_000
const [firstHour, lastHour] = [Date.UTC(1700, 0, 1) / hour, Date.UTC(2400, 0, 1) / hour]

/**
 * Timestamps from 1700 to 2399. Half of them are on the hour, because that is when clocks change, and the others have
 * microseconds.
 */
const anyTime = Arbitrary.map(
  Arbitrary.all({ at: int(firstHour, lastHour), rest: int(0, hour - 1), micros: int(0, 999), isSharp: anyBoolean }),
  ({ at, isSharp, micros, rest }) =>
    isSharp
      ? new Date(at * hour).toISOString()
      : new Date(at * hour + rest).toISOString().replace("Z", `${String(micros).padStart(3, "0")}Z`),
)
const anyDate = Arbitrary.map(anyTime, (time) => time.slice(0, 10))

/** Returns the allowed values of a literal column, or an empty list for any other column. */
const wordsOf = (ast: SchemaAST.AST): ReadonlyArray<unknown> =>
  SchemaAST.isUnion(ast) ? ast.types.flatMap(wordsOf) : SchemaAST.isLiteral(ast) ? [ast.literal] : []

/** The SQL name of each type, and random values for it. */
const sqlTypes: { readonly [type: number]: readonly [name: string, values: Arbitrary.Arbitrary<unknown>] } = {
  [postgresTypeIds.boolean]: ["boolean", anyBoolean],
  [postgresTypeIds.bigint]: ["bigint", anyInteger],
  [postgresTypeIds.text]: ["text", anyText],
  [postgresTypeIds.textArray]: ["text[]", Arbitrary.array(anyText, { maxLength: 4 })],
  [postgresTypeIds.date]: ["date", anyDate],
  [postgresTypeIds.timestamp]: ["timestamp", anyTime],
  [postgresTypeIds.timestamptz]: ["timestamptz", anyTime],
  [postgresTypeIds.numeric]: ["numeric", anyDecimal],
}

/** Returns a column's PostgreSQL type and random values for it. */
const columnOf = (row: RowModel, name: string) => {
  const { ast } = row.fields[name] ?? Schema.Null
  const isNumber = SchemaAST.isNumber(SchemaAST.toEncoded(ast))
  const [type, values] = sqlTypes[findFieldEncoder(ast)?.type ?? 0] ??
    (isNumber ? ["int", int(0, 1_000_000)] : ["text[]", Arbitrary.array(anyText, { maxLength: 4 })])
  const words = wordsOf(SchemaAST.toEncoded(ast)).filter((word) => word !== null)
  const some = words.length === 0 ? values : Arbitrary.map(int(0, words.length - 1), (index) => words[index])
  const isNullable = SchemaAST.isUnion(ast) && ast.types.some(SchemaAST.isNull)
  const all = Arbitrary.all({ value: some, rarity: int(0, 4) })
  return { type, values: Arbitrary.map(all, ({ rarity, value }) => isNullable && rarity === 0 ? null : value) }
}

/** Random rows for a model, as objects for `jsonb_to_recordset`. */
const rowsOf = (row: RowModel) => {
  const names = getColumnNames(row)
  const one = Arbitrary.map(
    Arbitrary.all(names.map((name) => columnOf(row, name).values)),
    (values) => Object.fromEntries(names.map((name, index) => [name, values[index]])),
  )
  return Arbitrary.array(one, { minLength: 1, maxLength: 30 })
}

// ----------------------------------------------------------------------------------------------------------------
// Encoding
// ----------------------------------------------------------------------------------------------------------------

/** Selects a row of SQL expressions in two forms: as a single record, and as the values that the driver returns. */
const select = Effect.fnUntraced(
  function* (expressions: ReadonlyArray<string>, from = "", parameters: ReadonlyArray<unknown> = []) {
    const sql = yield* SqlClient.SqlClient
    const list = expressions.join(", ")
    const rows = yield* sql.unsafe(`select row(${list}), ${list} ${from}`, parameters).valuesUnprepared
    const records = getRecordColumn(rows)
    return rows.flatMap(([, ...values], index) => records.slice(index, index + 1).map((record) => ({ record, values })))
  },
)

const selectRecords = Effect.fnUntraced(function* (list: string, from = "") {
  const sql = yield* SqlClient.SqlClient
  return getRecordColumn(yield* sql.unsafe(`select row(${list}) ${from}`).valuesUnprepared)
})

/** Sends generated rows to PostgreSQL and reads them back as typed columns. */
const sendRows = (row: RowModel, rows: ReadonlyArray<object>) => {
  const names = getColumnNames(row)
  const columns = names.map((name) => `"${name}" ${columnOf(row, name).type}`)
  return select(
    names.map((name) => `"${name}"`),
    `from jsonb_to_recordset($1::text::jsonb) as generated(${columns.join(", ")})`,
    [JSON.stringify(rows)],
  )
}

const textDecoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
const write = (writeRow: RowWriter, record: BinaryRecord) =>
  textDecoder.decode(rowOutputBuffer.take(writeRow(record, 0)))

/**
 * Removes empty texts, which count as missing: in a nullable column they become null, and in a list they are dropped.
 */
const removeEmptyTexts = ({ ast }: Schema.Top, value: unknown) =>
  findFieldEncoder(ast) !== undefined && Array.isArray(value)
    ? value.filter((element) => element !== "")
    : value === "" && isNullableSchema(ast)
    ? null
    : value

/** Returns a function that encodes a row's values as JSON using the schemas of the row's model. */
const encodeWithSchemas = (row: Row) => {
  const decode = Schema.decodeUnknownSync(row)
  const encode = Schema.encodeUnknownSync(row.json)
  const names = getColumnNames(row)
  return (values: ReadonlyArray<unknown>) =>
    JSON.stringify(encode(decode(Object.fromEntries(
      names.map((name, index) => [name, removeEmptyTexts(row.fields[name] ?? Schema.Null, values[index])]),
    ))))
}

/** Returns a function that encodes a row's values as a CSV line using the schemas of the row's model. */
const encodeCellsWithSchemas = (row: Row) => {
  const columns = getColumnNames(row).map((name) => {
    const [select = Schema.Null, json = Schema.Null] = [row.fields[name], row.json.fields[name]]
    const [decode, encode] = [Schema.decodeUnknownSync(select), Schema.encodeUnknownSync(json)]
    return (value: unknown) => encodeReferenceCell(JSON.stringify(encode(decode(removeEmptyTexts(select, value)))))
  })
  return (values: ReadonlyArray<unknown>) => columns.map((encode, index) => encode(values[index])).join(",")
}

layer(database)("The row encoder", (it) => {
  for (const row of rows) {
    const [writeJson, writeCsv] = [makeJsonRowWriter(row), makeCsvRowWriter(row)]
    const [expectedJson, expectedCsv] = [encodeWithSchemas(row), encodeCellsWithSchemas(row)]
    it.effect.prop(
      `encodes ${row.identifier} as its schemas do (D15, D16)`,
      [rowsOf(row)],
      ([generated]) =>
        Effect.gen(function* () {
          const sent = yield* sendRows(row, generated)
          assert.strictEqual(sent.length, generated.length)
          for (const { record, values } of sent) {
            assert.strictEqual(write(writeJson, record), expectedJson(values))
            assert.strictEqual(write(writeCsv, record), expectedCsv(values))
          }
        }),
      { arbitrary: { runs: 20 } },
    )
  }

  it("has a field encoder for every column except four of the service's own tables (D16)", () => {
    const withoutEncoder = rows.flatMap((row) =>
      getColumnNames(row).filter((name) => findFieldEncoder((row.fields[name] ?? Schema.Null).ast) === undefined)
    )
    assert.sameMembers(Array.from(new Set(withoutEncoder)), [
      "duration_ms",
      "endpoints",
      "records_returned",
      "status_code",
    ])
  })

  class EveryType extends Model.Class<EveryType>("EveryType")({
    text: Column.nullable(Column.text("")),
    word: Column.nullable(Column.literal(["a", 'b"'], "")),
    texts: Column.nullable(Column.textArray("")),
    integer: Column.nullable(Column.integer("")),
    decimal: Column.nullable(Column.price("")),
    flag: Column.nullable(Column.boolean("")),
    date: Column.nullable(Column.date("")),
    eastern: Column.nullable(FixedOffsetTimeColumn),
    new_york: Column.nullable(NewYorkTimeColumn),
    utc: Column.nullable(InstantColumn),
  }) {}

  /** A SQL null expression for each column of `EveryType`. */
  const nulls: { readonly [column: string]: string } = {
    text: "null::text",
    word: "null::text",
    texts: "null::text[]",
    integer: "null::bigint",
    decimal: "null::numeric",
    flag: "null::boolean",
    date: "null::date",
    eastern: "null::timestamp",
    new_york: "null::timestamp",
    utc: "null::timestamptz",
  }
  /** Returns the SQL expressions for a row in which a single column has a value. */
  const withValue = (column: string, expression: string) =>
    Object.entries(nulls).map(([name, missing]) => name === column ? expression : missing)

  const everyType = makeJsonRowWriter(EveryType)
  const everyCsv = makeCsvRowWriter(EveryType)
  const attempt = <A>(evaluate: () => A) => Result.try({ try: evaluate, catch: String })

  const days = [
    "0044-03-15 BC",
    "0001-12-31 BC",
    "0001-01-01",
    "0001-01-02",
    "1582-10-15",
    "1899-12-31",
    "1900-01-01",
    "1900-02-28",
    "1900-03-01",
    "1999-12-31",
    "2000-01-01",
    "2000-02-29",
    "2026-03-08",
    "2026-11-01",
    "2284-12-31",
    "2285-01-01",
    "2285-06-06",
    "9999-12-31",
    "10000-01-01",
    "12345-06-07",
    "infinity",
    "-infinity",
  ]
  const clocks = ["00:00", "00:00:00.000001", "01:59:59.999999", "02:30", "03:00", "12:34:56.7", "23:59:59.9994"]
  const times = days.flatMap((day) =>
    day.endsWith("infinity")
      ? [day]
      : clocks.map((clock) => day.endsWith(" BC") ? `${day.slice(0, -3)} ${clock} BC` : `${day} ${clock}`)
  )
  const numbers = [
    ["0", "0.0000", "-0", "0.1", "-0.0001", "0.00001", "1e-20", "1", "-1", "10", "9999", "10000", "10001"],
    ["100000000", "1e12", "1e16", "1e40", "1e200", "-1e40", "99999999999999.9999", "999999999999999999.99"],
    ["1.10", "1.0010", "10000.00010000", "12345678901234567890.123456789012345678901234567890123456789"],
    ["NaN", "Infinity", "-Infinity"],
  ].flat()
  const integers = [
    ["0", "1", "-1", "9999", "10000", "-10000", "99999999", "100000000", "9007199254740991", "-9007199254740991"],
    ["9007199254740992", "9007199254740993", "-9007199254740992", "9223372036854775807", "-9223372036854775808"],
  ].flat()
  const everyCharacter = Array.from({ length: 0x300 }, (_, code) => String.fromCharCode(code + 1)).join("")
  const texts = ["", "a", everyCharacter, "\u2028\u2029", "\uFEFFx", "😀\u{10FFFF}", "\uFFFF", `"`, "x".repeat(300_000)]
  const quoteText = (text: string) => `'${text.replaceAll("'", "''")}'`
  const arrays = ["{}", "{a}", "{NULL}", "{a,NULL}", `{"","\\"","\\\\",é}`]

  const cases: ReadonlyArray<readonly [column: string, expressions: ReadonlyArray<string>]> = [
    ["date", days.map((day) => `'${day}'::date`)],
    ["eastern", times.map((time) => `'${time}'::timestamp`)],
    ["new_york", times.map((time) => `'${time}'::timestamp`)],
    ["utc", times.map((time) => `'${time}'::timestamptz`)],
    ["decimal", numbers.map((number) => `'${number}'::numeric`)],
    ["integer", integers.map((number) => `'${number}'::bigint`)],
    ["text", texts.map((text) => `${quoteText(text)}::text`)],
    ["word", ["a", `b"`, "b", "", "A"].map((word) => `${quoteText(word)}::text`)],
    ["texts", arrays.map((array) => `'${array}'::text[]`)],
    ["flag", ["true", "false"]],
  ]
  it.effect.each(cases)(
    "encodes %s, or refuses it, as the schemas do (D15, D16)",
    ([column, expressions]) =>
      Effect.gen(function* () {
        const [json, cells] = [encodeWithSchemas(EveryType), encodeCellsWithSchemas(EveryType)]
        for (const expression of [...expressions, nulls[column] ?? ""]) {
          for (const { record, values } of yield* select(withValue(column, expression))) {
            const expected = attempt(() => ({ json: json(values), csv: cells(values) }))
            const found = attempt(() => ({ json: write(everyType, record), csv: write(everyCsv, record) }))
            const label = expression.slice(0, 100)
            assert.strictEqual(found._tag, expected._tag, label)
            if (Result.isSuccess(expected)) assert.deepStrictEqual(found, expected, label)
          }
        }
      }),
  )

  it.effect("refuses arrays that are not plain lists, and reveals no value in the message (§7.1)", () =>
    Effect.gen(function* () {
      const texts = ["'{{secret,b}}'::text[]", "'[2:3]={secret,b}'::text[]"]
      const found = yield* Effect.forEach(texts, (text) => selectRecords(withValue("texts", text).join(", ")))
      for (const record of found.flat()) {
        assert.throws(() => write(everyType, record), /schema: EveryType\.texts$/)
      }
    }))

  it.effect("refuses a record whose columns do not have the declared types (§7.1)", () =>
    Effect.gen(function* () {
      const wrong: ReadonlyArray<readonly [column: string, expression: string]> = [
        ["text", "1"],
        ["text", "null::int"],
        ["integer", "1"],
        ["decimal", "1.5::float8"],
        ["utc", "now()::timestamp"],
        ["eastern", "now()"],
        ["texts", "array[1]"],
      ]
      for (const [column, expression] of wrong) {
        for (const record of yield* selectRecords(withValue(column, expression).join(", "))) {
          assert.throws(() => write(everyType, record), new RegExp(`type \\d+ instead of \\d+ for ${column}`))
        }
      }
      for (const record of yield* selectRecords("1, 2")) {
        const columns = Object.keys(nulls).length
        assert.throws(() => write(everyType, record), new RegExp(`2 columns instead of ${columns}`))
      }
      const sql = yield* SqlClient.SqlClient
      const plain = yield* sql`select 1`.values
      assert.throws(() => getRecordColumn(plain), /row/)
    }))

  it.effect("refuses a null in a column that is not nullable (§7.1)", () =>
    Effect.gen(function* () {
      class Required extends Model.Class<Required>("Required")({ text: Column.text("") }) {}
      for (const record of yield* selectRecords("null::text")) {
        assert.throws(() => write(makeJsonRowWriter(Required), record), /schema: Required\.text$/)
      }
    }))

  it.effect("encodes a row with the first model that it matches, and refuses a row that matches none (§7.1)", () =>
    Effect.gen(function* () {
      const models: RowModels = [Warrant, Convertible]
      const names = getColumnNames(models)
      /** Writes a row with the given security type, and with null in each nullable column. */
      const show = Effect.fnUntraced(function* (securityType: string, writer: RowWriter) {
        const expressions = names.map((name) => {
          if (name === "security_type") return `'${securityType}'::text`
          const { type } = columnOf(name in Warrant.fields ? Warrant : Convertible, name)
          if (/^(id|ticker|details)$/.test(name)) return "'x'::text"
          return name === "filed_at"
            ? "'2026-01-02'::date"
            : name === "last_updated"
            ? "now()::timestamp"
            : `null::${type}`
        })
        const [record] = yield* selectRecords(expressions.join(", "))
        return record === undefined ? "" : write(writer, record)
      })
      const [json, csv] = [makeJsonRowWriter(models), makeCsvRowWriter(models)]
      const warrant = yield* show("warrant", json)
      assert.include(warrant, `"warrants_amount":null`)
      assert.notInclude(warrant, "conversion_price")
      const convertible = yield* show("convertible_note", json)
      assert.notInclude(convertible, "warrants_amount")
      assert.include(convertible, `"conversion_price":null`)
      assert.strictEqual((yield* show("convertible_note", csv)).split(",").length, names.length)
      const exit = yield* Effect.exit(show("share", json))
      assert.match(String(exit), /Warrant\.security_type, Convertible\.security_type/)
    }))
})

layer(database)("The result writer", (it) => {
  class Holding extends Model.Class<Holding>("Holding")({ filing: Column.text(""), shares: Column.integer("") }) {}
  const writeShares = makeJsonRowWriter(Holding)
  const grouped = makeGroupResultEncoder(
    Holding,
    (row, previous) => row.hasSameField(previous, 0),
    (group, position) => {
      let end = rowOutputBuffer.writeText("[", position)
      for (const row of group) end = writeShares(row, end)
      return rowOutputBuffer.writeText("]", end)
    },
  )
  /** The number of filings that have holdings. The holdings of one filing form a group. */
  const groups = 8
  /** A SQL clause that generates 0 to 6 holdings for each of 9 filings. The seventh filing has none. */
  const holdings = "from generate_series(1, 9) as filing cross join generate_series(1, filing * 5 % 7) as shares"
  const readHoldings = selectRecords("filing::text, shares::bigint", `${holdings} order by filing, shares`)
  const show = (bytes: Uint8Array) => textDecoder.decode(bytes)

  it.effect("encodes groups in the same way, no matter how the rows are divided into chunks (D8)", () =>
    Effect.gen(function* () {
      const records = yield* readHoldings
      for (const encoder of [grouped, makeSingleRowResultEncoder(Holding)]) {
        for (const format of ["csv", "ndjson"] as const) {
          const complete = makeCsvOrNdjsonWriter(encoder, format)(records, true)
          const text = show(complete.bytes)
          assert.strictEqual(complete.results, encoder === grouped ? groups : records.length)
          for (const size of [1, 2, 3, 5, 100]) {
            const writeChunk = makeCsvOrNdjsonWriter(encoder, format)
            const total = { text: "", results: 0 }
            for (let index = 0; index < records.length || index === 0; index += size) {
              // The connection may reuse its buffer once a chunk has been encoded, so the writer receives copies.
              const chunk = records.slice(index, index + size).map((record) => record.copy())
              const { bytes, results } = writeChunk(chunk, index + size >= records.length)
              total.text += show(bytes)
              total.results += results
            }
            assert.deepStrictEqual(total, { text, results: complete.results })
          }
        }
      }
    }))

  it.effect("encodes a page of groups in its envelope (D8)", () =>
    Effect.gen(function* () {
      const rows = yield* readHoldings
      const page = (limit: number, shown = rows) =>
        encodeListPage({ page: 2, limit }, { results: grouped, format: "json", rows: shown, message: () => `"é"` })
      const { body, nextPage, records } = page(3)
      const parsed: unknown = JSON.parse(show(body).replaceAll("}{", "},{"))
      assert.deepInclude(parsed, { count: 3, message: `"é"`, page: 2, limit: 3, has_more: true })
      assert.deepStrictEqual([records, nextPage], [3, { page: 3 }])
      assert.include(show(page(groups).body), `"has_more":false`)
      assert.strictEqual(
        show(page(groups, []).body),
        `{"count":0,"results":[],"message":"\\"é\\"","page":2,"limit":8,"has_more":false}`,
      )
    }))
})

layer(database)("A record", (it) => {
  it.effect("reports which of its fields are null (§2.5)", () =>
    Effect.gen(function* () {
      for (const record of yield* selectRecords("null::text, 1, '', null::int, 'x'")) {
        assert.deepStrictEqual([0, 1, 2, 3, 4].map((index) => record.isNull(index)), [true, false, false, true, false])
      }
    }))
})
