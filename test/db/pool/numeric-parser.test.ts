import { PgTypes } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Result, Schema } from "effect"
import { makeTypeRegistry } from "../../../src/db/pool/NumericParser.ts"

const { numeric } = PgTypes.OID

const sent = (text: string) => Result.getOrThrow(PgTypes.encode(text, numeric))

const own = makeTypeRegistry()
const readBack = (text: string) => Result.getOrThrow(PgTypes.decode(sent(text), numeric, 1, own))
const driver = (text: string) => String(Result.getOrThrow(PgTypes.decode(sent(text), numeric, 1)))

const decimals = Arbitrary.schema(Schema.String.check(Schema.isPattern(/^-?\d{1,20}(\.\d{1,12})?$/)))

describe("The numeric parser", () => {
  it.prop("returns the driver's decimal without trailing zeros (D16)", [decimals], ([text]) => {
    const expected = driver(text)
    assert.strictEqual(readBack(text), expected.includes(".") ? expected.replace(/\.?0+$/, "") : expected)
  }, { arbitrary: { runs: 5000 } })

  it("returns NaN and infinities as text, so that encoding them as a number fails (D16)", () => {
    for (const name of ["NaN", "Infinity", "-Infinity"]) assert.strictEqual(readBack(name), name)
  })

  it("keeps significant zeros (D16)", () => {
    for (const text of ["0", "10", "1000000000000", "-10000", "0.5", "100.05", "0.0001"]) {
      assert.strictEqual(readBack(text), text)
    }
    assert.strictEqual(readBack("0.0000"), "0")
    assert.strictEqual(readBack("10.5000"), "10.5")
  })
})
