import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, Schema, Stream } from "effect"
import { Csv } from "effect/encoding"
import { encodeCsvCell } from "../../src/rows/CsvCells.ts"
import { negotiateFormat } from "../../src/rows/Formats.ts"

const anyText = Arbitrary.schema(Schema.String)

/** What a reader of CSV finds in the cell. */
const read = Effect.fnUntraced(function* (written: string) {
  const record = `${written},after\r\n`
  const [found = []] = yield* Stream.runCollect(Stream.pipeThroughChannel(Stream.make(record), Csv.decodeString()))
  assert.strictEqual(found.length, 2, record)
  return found[0] ?? ""
})

/** By what OWASP's page on CSV injection warns of. */
const isFormula = (text: string) => /^[=+\-@\t\r＝＋－＠]/.test(text.replace(/^[ \n\v\f]+/, ""))

describe("Formats", () => {
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
    "RFC 9110, 12.5.1, Accept: %s is answered in %s",
    ([accept, format]) => Effect.sync(() => assert.strictEqual(negotiateFormat(accept), format)),
  )

  it.effect.prop(
    "RFC 4180, README, Formats: any text comes out of its cell as it was, but for a formula's apostrophe",
    {
      text: anyText,
    },
    ({ text }) =>
      Effect.gen(function* () {
        const found = yield* read(encodeCsvCell(JSON.stringify(text)))
        assert.include([text, `'${text}`], found)
        assert.isFalse(isFormula(found), JSON.stringify(found))
      }),
  )

  it.effect.each(["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "\n=1", "＝1", "＋1", "－1", "＠A", '=","'])(
    "README, Formats: %j runs in no spreadsheet",
    (text) =>
      Effect.gen(function* () {
        assert.strictEqual(yield* read(encodeCsvCell(JSON.stringify(text))), `'${text}`)
      }),
  )

  it.effect("D16, README, Formats: numbers stand as they are, negative ones too; null is empty, a list is JSON", () =>
    Effect.gen(function* () {
      for (const json of ["-0.0001", "-5", "99999999999999.9999", "9007199254740991", "true", "false"]) {
        assert.strictEqual(encodeCsvCell(json), json)
      }
      assert.strictEqual(encodeCsvCell("null"), "")
      assert.strictEqual(yield* read(encodeCsvCell(`["=8-K","a \\"b\\""]`)), `["=8-K","a \\"b\\""]`)
      assert.strictEqual(encodeCsvCell(`"plain"`), "plain")
      assert.strictEqual(encodeCsvCell(`"null"`), "null")
    }))
})
