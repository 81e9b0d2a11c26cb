/** Tests how a list's format is negotiated and how values are written as CSV cells. */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, Schema, Stream } from "effect"
import { Csv } from "effect/encoding"
import { execFileSync } from "node:child_process"
import process from "node:process"
import { encodeCsvCell, removeFormulaApostrophe } from "../../../src/query/rows/CsvCells.ts"
import { negotiatePageFormat } from "../../../src/contract/rows/ListFormats.ts"

const anyText = Arbitrary.map(Arbitrary.schema(Schema.String), (text) => text.toWellFormed())

/** Returns the text that a CSV parser extracts from the cell. */
const parseCell = Effect.fnUntraced(function* (cell: string) {
  const record = `${cell},after\r\n`
  const [found = []] = yield* Stream.runCollect(Stream.pipeThroughChannel(Stream.make(record), Csv.decodeString()))
  assert.strictEqual(found.length, 2, record)
  return found[0] ?? ""
})

/** Returns whether the text starts like a formula, according to OWASP's page on CSV injection. */
const isFormula = (text: string) => /^[=+\-@\t\r＝＋－＠]/.test(text.replace(/^[ \n\v\f]+/, ""))

describe("The format of a list", () => {
  it.effect.each(
    [
      [undefined, "json"],
      ["*/*", "json"],
      ["", "json"],
      ["application/json", "json"],
      ["text/csv", "csv"],
      ["TEXT/CSV; charset=utf-8; q=1.0", "csv"],
      ["text/*", "csv"],
      ["application/*", "json"],
      ["application/x-ndjson", "ndjson"],
      ["application/jsonl", "ndjson"],
      ["application/json, text/plain, */*", "json"],
      ["text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", "json"],
      ["text/csv, */*", "csv"],
      ["text/csv;q=0.5, application/json", "json"],
      ["text/csv, application/json;q=0.5", "csv"],
      ["text/csv;q=0, */*", "json"],
      ["text/csv;q=0", "json"],
      ["*/*, application/json;q=0", "csv"],
      ["text/csv, application/x-ndjson", "csv"],
      ["text/csv;q=0.8, application/x-ndjson;q=0.9", "ndjson"],
      ["application/json;q=0, text/csv;q=0, application/x-ndjson;q=0", "json"],
      ["image/png", "json"],
      [";,;q=,q=1,/", "json"],
    ] as const,
  )(
    "is negotiated: Accept: %s gets %s (RFC 9110, 12.5.1)",
    ([accept, format]) => Effect.sync(() => assert.strictEqual(negotiatePageFormat(accept), format)),
  )
})

describe("The CSV encoder", () => {
  it.effect.prop(
    "encodes any text so that a CSV parser returns it, except for the apostrophe before a formula (RFC 4180)",
    {
      text: anyText,
    },
    ({ text }) =>
      Effect.gen(function* () {
        const found = yield* parseCell(encodeCsvCell(JSON.stringify(text)))
        assert.include([text, `'${text}`], found)
        assert.strictEqual(removeFormulaApostrophe(found), text)
        assert.isFalse(isFormula(found), JSON.stringify(found))
      }),
  )

  it.effect.each(["'=1", "''  +1", "'tis", "'", "'\t"])(
    "writes a text that begins with an apostrophe so that it can be read back: %j (D31)",
    (text) =>
      Effect.gen(function* () {
        assert.strictEqual(removeFormulaApostrophe(yield* parseCell(encodeCsvCell(JSON.stringify(text)))), text)
      }),
  )

  it.effect.each(["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "\n=1", "＝1", "＋1", "－1", "＠A", '=","'])(
    "puts an apostrophe before the formula %j (SECURITY.md)",
    (text) =>
      Effect.gen(function* () {
        assert.strictEqual(yield* parseCell(encodeCsvCell(JSON.stringify(text))), `'${text}`)
      }),
  )

  it.effect("keeps numbers unchanged, and encodes null as an empty cell and a list as JSON (D16)", () =>
    Effect.gen(function* () {
      for (const json of ["-0.0001", "-5", "99999999999999.9999", "9007199254740991", "true", "false"]) {
        assert.strictEqual(encodeCsvCell(json), json)
      }
      assert.strictEqual(encodeCsvCell("null"), "")
      assert.strictEqual(yield* parseCell(encodeCsvCell(`["=8-K","a \\"b\\""]`)), `["=8-K","a \\"b\\""]`)
      assert.strictEqual(encodeCsvCell(`"plain"`), "plain")
      assert.strictEqual(encodeCsvCell(`"null"`), "null")
    }))

  it("encodes the first cell of a new process (D8)", () => {
    // Runs in a new process: encoding the first cell allocates the output buffer, which earlier tests have already done
    // in this process.
    const code = `import { encodeCsvCell } from "${new URL("../../../src/query/rows/CsvCells.ts", import.meta.url)}"
      process.stdout.write(encodeCsvCell('"first"'))`
    const output = execFileSync(process.execPath, ["--input-type=module", "--eval", code], { encoding: "utf8" })
    assert.strictEqual(output, "first")
  })
})
