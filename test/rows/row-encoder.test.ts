import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Schema, SchemaAST } from "effect"
import { getColumnNames, makeJsonRowEncoder, type RowModel, type ValueEncoder } from "../../src/rows/RowEncoder.ts"
import { ApiKeyRow } from "../../src/v1/account/Api.ts"
import { AfterhoursStat } from "../../src/v1/afterhours-stats/Api.ts"
import { AdvancedConvertible, AdvancedWarrant, Convertible, Warrant } from "../../src/v1/dilution-data/Api.ts"
import { FloatOutstanding } from "../../src/v1/float-outstanding/Api.ts"
import { GapStat, GapStatAdvanced } from "../../src/v1/gap-stats/Api.ts"
import { HistoricalFloat } from "../../src/v1/historical-float-pro/Api.ts"
import { IntradayRunner } from "../../src/v1/intraday-runners/Api.ts"
import { ComplianceNotice } from "../../src/v1/nasdaq-compliance/Api.ts"
import { NewsBasicItem, NewsItem } from "../../src/v1/news/Api.ts"
import { Owner, OwnershipFiling } from "../../src/v1/ownership/Api.ts"
import { PremarketStat } from "../../src/v1/premarket-stats/Api.ts"
import { PumpAndDumpSuspect } from "../../src/v1/pump-and-dump-tracker/Api.ts"
import { Registration } from "../../src/v1/registrations/Api.ts"
import { ResearchReport, ResearchReportTldr } from "../../src/v1/research-reports/Api.ts"
import { ScreenerRow } from "../../src/v1/screener/Api.ts"
import { SplitStatus } from "../../src/v1/split-status/Api.ts"
import { DailyUsageRow, UsageRow } from "../../src/v1/usage/Api.ts"

type Row = RowModel & Schema.Codec<unknown, unknown> & { readonly json: Schema.Codec<unknown, unknown> }

const rows: ReadonlyArray<Row> = [
  AdvancedConvertible,
  AdvancedWarrant,
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
  OwnershipFiling,
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

const int = (minimum: number, maximum: number) =>
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum, maximum })))

const anyText = Arbitrary.schema(Schema.String)
const anyFlag = Arbitrary.schema(Schema.Boolean)
const anyWhole = Arbitrary.map(int(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER), BigInt)

/** A `numeric` as PostgreSQL formats it, with all decimals of its type. */
const anyDecimal = Arbitrary.map(
  Arbitrary.all({ integer: int(0, Number.MAX_SAFE_INTEGER), part: int(0, 9999), zeros: int(0, 4), sign: anyFlag }),
  ({ part, sign, integer, zeros }) => {
    const decimals = String(part - part % 10 ** zeros).padStart(4, "0")
    return `${sign && (integer > 0 || decimals !== "0000") ? "-" : ""}${integer}${zeros === 2 ? "" : `.${decimals}`}`
  },
)

const hour = 3_600_000
const first = Date.UTC(1700, 0, 1) / hour
const last = Date.UTC(2300, 0, 1) / hour

/** Times from six hundred years. Half of them are on the hour, because clocks change on the hour. */
const anyTime = Arbitrary.map(
  Arbitrary.all({ at: int(first, last), rest: int(0, hour - 1), isSharp: anyFlag }),
  ({ at, isSharp, rest }) => new Date(at * hour + (isSharp ? rest % 2 : rest)),
)
const anyDate = Arbitrary.map(anyTime, (time) => time.toISOString().slice(0, 10))

/** The allowed words of a literal column; empty for all other columns. */
const wordsOf = (ast: SchemaAST.AST): ReadonlyArray<unknown> =>
  SchemaAST.isUnion(ast) ? ast.types.flatMap(wordsOf) : SchemaAST.isLiteral(ast) ? [ast.literal] : []

/** A random driver value for a column. Its type is one that the column's encoder accepts. */
const someOf = (print: ValueEncoder | undefined, ast: SchemaAST.AST): Arbitrary.Arbitrary<unknown> => {
  const words = wordsOf(SchemaAST.toEncoded(ast))
  if (words.length > 0) return Arbitrary.map(int(0, words.length - 1), (at) => words[at])
  if (print === undefined) {
    const isNumber = SchemaAST.isNumber(SchemaAST.toEncoded(ast))
    return isNumber ? int(0, 1_000_000) : Arbitrary.array(anyText, { maxLength: 4 })
  }
  if (print(true) !== undefined) return anyFlag
  if (print(1n) !== undefined) return anyWhole
  if (print([]) !== undefined) return Arbitrary.array(anyText, { maxLength: 4 })
  if (print(new Date(0)) !== undefined) return anyTime
  if (print("1.50") === "1.5") return anyDecimal
  return print(`"`) === `"""` ? anyDate : anyText
}

const valueOf = (row: RowModel, column: string) => {
  const ast = (row.fields[column] ?? Schema.Null).ast
  const print = SchemaAST.resolve(ast)?.encodeValue
  const isNullable = SchemaAST.isUnion(ast) && ast.types.some(SchemaAST.isNull)
  const all = Arbitrary.all({ value: someOf(print, ast), rarity: int(0, 4) })
  return Arbitrary.map(all, ({ rarity, value }) => isNullable && rarity === 0 ? null : value)
}

const valuesOf = (row: RowModel) => Arbitrary.all(getColumnNames(row).map((column) => valueOf(row, column)))

/** The reference implementation: decodes and encodes a row with its two schemas. */
const byTheSchemas = (row: Row) => {
  const decode = Schema.decodeUnknownSync(row)
  const encode = Schema.encodeUnknownSync(row.json)
  return (values: ReadonlyArray<unknown>) =>
    JSON.stringify(encode(decode(Object.fromEntries(getColumnNames(row).map((column, at) => [column, values[at]])))))
}

describe("Rows", () => {
  for (const row of rows) {
    const [print, reference] = [makeJsonRowEncoder(row), byTheSchemas(row)]
    it.prop(
      `encodes ${row.identifier} as its schemas do (D15, D16)`,
      [valuesOf(row)],
      ([values]) => {
        assert.strictEqual(print(values), reference(values))
      },
      { arbitrary: { runs: 200 } },
    )
  }

  it("have a fast encoder for every column, except numbers in the service's own tables (D16)", () => {
    const long = rows.flatMap((row) =>
      getColumnNames(row).filter((name) =>
        SchemaAST.resolve((row.fields[name] ?? Schema.Null).ast)?.encodeValue === undefined
      )
    )
    assert.sameMembers(Array.from(new Set(long)), ["duration_ms", "endpoints", "records_returned", "status_code"])
  })

  it("are refused if a value has the wrong type (§7.1)", () => {
    const print = makeJsonRowEncoder(GapStat)
    const columns = getColumnNames(GapStat)
    const good = columns.map((name): unknown =>
      /ticker/.test(name) ? "A" : name.endsWith("date") ? "2026-01-02" : /time|updated/.test(name) ? new Date(0) : null
    )
    const wrong: ReadonlyArray<readonly [string, unknown]> = [
      ["gap_percentage", "NaN"],
      ["gap_percentage", "Infinity"],
      ["gap_percentage", 1.5],
      ["gap_percentage", null],
      ["volume", 9_007_199_254_740_993n],
      ["volume", 1],
      ["ticker", null],
      ["last_updated", "2026-01-02"],
      ["last_updated", null],
      ["filing_types", ["a", 1]],
    ]
    for (const [name, value] of wrong) {
      assert.throws(() => print(good.with(columns.indexOf(name), value)), /do not match the schema/)
    }
  })

  it("are encoded with the first model that they match, or refused (§7.1)", () => {
    const kinds = [Warrant, Convertible]
    const columns = getColumnNames(kinds)
    const shown = (security_type: string) => {
      const values = columns.map((name): unknown =>
        name === "security_type"
          ? security_type
          : name === "registered"
          ? true
          : /^(id|ticker|details|form_type|accession_number)$/.test(name)
          ? "x"
          : name === "filed_at"
          ? "2026-01-02"
          : name === "last_updated"
          ? new Date(0)
          : null
      )
      return makeJsonRowEncoder(kinds)(values)
    }
    assert.include(shown("warrant"), `"warrants_amount":null`)
    assert.notInclude(shown("warrant"), "conversion_price")
    assert.throws(() => shown("share"), /security_type, .*security_type/)
  })
})
