/** Tests the exact digits of numbers in responses and in data files (D16, D31). */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Schema } from "effect"
import * as Column from "../../../src/contract/rows/Columns.ts"

const int = (minimum: number, maximum: number) =>
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum, maximum })))

/** The types of decimal columns, with the number of digits before and after the decimal point. */
const kinds = [
  { name: "price", column: Column.price("A price."), integers: 14, decimals: 4 },
  { name: "money", column: Column.money("An amount."), integers: 18, decimals: 2 },
  { name: "ratio", column: Column.ratio("A ratio."), integers: 14, decimals: 4 },
]

/** Returns a function that decodes a value from the driver and encodes it as JSON the way a response does. */
const makePrinter = (column: ReturnType<typeof Column.price>) => {
  const decode = Schema.decodeSync(column.schemas.select)
  const encode = Schema.encodeSync(column.schemas.json)
  return (stored: string) => JSON.stringify({ x: encode(decode(stored)) })
}

/** Formats a `numeric` the way PostgreSQL does: with all decimals of its type and without negative zero. */
const formatNumeric = (scaled: bigint, decimals: number) => {
  const unsigned = scaled < 0n ? -scaled : scaled
  const digits = unsigned.toString().padStart(decimals + 1, "0")
  return `${scaled < 0n ? "-" : ""}${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`
}

/** Computes the shortest text that represents the same value. Uses division instead of string operations. */
const formatShortest = (scaled: bigint, decimals: number) => {
  let [value, places] = [scaled < 0n ? -scaled : scaled, decimals]
  while (places > 0 && value % 10n === 0n) {
    value /= 10n
    places -= 1
  }
  const unit = 10n ** BigInt(places)
  const fraction = places === 0 ? "" : `.${(value % unit).toString().padStart(places, "0")}`
  return `${scaled < 0n ? "-" : ""}${value / unit}${fraction}`
}

/** Any value of a `numeric(integers + decimals, decimals)`, as a scaled integer with any number of trailing zeros. */
const scaledValue = (integers: number, decimals: number) =>
  Arbitrary.map(
    Arbitrary.all({
      digits: Arbitrary.flatMap(int(1, integers + decimals), (length) =>
        Arbitrary.array(int(0, 9), { minLength: length, maxLength: length })),
      zeros: int(0, integers + decimals),
      sign: int(0, 1),
    }),
    ({ digits, sign, zeros }) => {
      const padded = (digits.join("") + "0".repeat(zeros)).slice(0, integers + decimals)
      return BigInt(padded) * (sign === 0 ? 1n : -1n)
    },
  )

/** Matches a JSON number (RFC 8259) without an exponent and without trailing zeros after the decimal point. */
const shortestNumber = /^-?(?:0|[1-9]\d*)(?:\.\d*[1-9])?$/

describe("A stored decimal", () => {
  for (const { column, decimals, integers, name } of kinds) {
    const print = makePrinter(column)

    it.prop(`is printed without trailing zeros: ${name} (D16)`, [scaledValue(integers, decimals)], ([scaled]) => {
      const printed = print(formatNumeric(scaled, decimals))
      assert.strictEqual(printed, `{"x":${formatShortest(scaled, decimals)}}`)
      assert.match(printed.slice(`{"x":`.length, -1), shortestNumber)
    }, { arbitrary: { runs: 2000 } })

    it(`is printed exactly if it is the smallest or largest with its number of digits: ${name} (D16)`, () => {
      for (let length = 1; length <= integers + decimals; length++) {
        const first = 10n ** BigInt(length - 1)
        for (const scaled of [first, 5n * first, 10n * first - 1n]) {
          assert.strictEqual(print(formatNumeric(scaled, decimals)), `{"x":${formatShortest(scaled, decimals)}}`)
          assert.strictEqual(print(formatNumeric(-scaled, decimals)), `{"x":${formatShortest(-scaled, decimals)}}`)
        }
      }
    })
  }

  const examples: ReadonlyArray<readonly [stored: string, printed: string]> = [
    ["0.1000", "0.1"],
    ["0.3000", "0.3"],
    ["0.0001", "0.0001"],
    ["-0.0001", "-0.0001"],
    ["-0.0500", "-0.05"],
    ["0.0000", "0"],
    ["0", "0"],
    ["100.0000", "100"],
    ["100", "100"],
    ["1000000", "1000000"],
    ["-1000000.0000", "-1000000"],
    ["10.5000", "10.5"],
    ["10.0500", "10.05"],
    ["1.0", "1"],
    ["12.125", "12.125"],
    ["101.1010", "101.101"],
    ["0.07", "0.07"],
    ["1.1", "1.1"],
    ["9007199254740993.00", "9007199254740993"],
    ["12345678901234567.89", "12345678901234567.89"],
    ["-12345678901234567.89", "-12345678901234567.89"],
    ["999999999999999999.99", "999999999999999999.99"],
    ["100000000000000000.00", "100000000000000000"],
    ["99999999999999.9999", "99999999999999.9999"],
  ]
  it.each(examples)("is printed correctly: %s as %s (D16)", (stored, printed) => {
    for (const { column } of kinds) assert.strictEqual(makePrinter(column)(stored), `{"x":${printed}}`)
  })

  it("is printed as null if it is missing, and as 0 if it is zero (D16)", () => {
    for (const { column } of kinds) {
      const optional = Column.nullable(column)
      const [decode, encode] = [Schema.decodeSync(optional.schemas.select), Schema.encodeSync(optional.schemas.json)]
      const print = (stored: string | null) => JSON.stringify(encode(decode(stored)))
      assert.strictEqual(print(null), "null")
      assert.strictEqual(print("0.0000"), "0")
      assert.strictEqual(print("2.5000"), "2.5")
    }
  })

  it("is decoded by a client from a JSON number, but not from a string (D16)", () => {
    for (const { column } of kinds) {
      const read = Schema.decodeUnknownResult(column.schemas.json)
      const accepted = read(10.5)
      assert.strictEqual(accepted._tag === "Success" ? accepted.success : "", "10.5")
      // A lossless JSON parser returns a number as text if it has more digits than a float can represent.
      const exact = read("12345678901234.5678")
      assert.strictEqual(exact._tag === "Success" ? exact.success : "", "12345678901234.5678")
      for (const wrong of ["10.5", "-7", "1e400", "", null, true, [10.5], {}]) {
        assert.strictEqual(read(wrong)._tag, "Failure")
      }
    }
  })
})

/** Returns whether a data file may contain this cell in a column with the given schema. */
const accepts = (schema: Schema.Codec<unknown, unknown>, cell: unknown) => {
  const result = Schema.decodeUnknownResult(schema)(cell)
  // The schema must leave the cell unchanged, because PostgreSQL parses it.
  if (result._tag === "Success") assert.strictEqual(result.success, cell)
  return result._tag === "Success"
}

describe("The schema of a decimal in a data file", () => {
  for (const { column, decimals, integers, name } of kinds) {
    const cell = column.schemas.insert

    it.prop(`accepts every value of the column: ${name} (D31)`, [scaledValue(integers, decimals)], ([scaled]) => {
      assert.isTrue(accepts(cell, formatNumeric(scaled, decimals)), formatNumeric(scaled, decimals))
      assert.isTrue(accepts(cell, formatShortest(scaled, decimals)), formatShortest(scaled, decimals))
    }, { arbitrary: { runs: 500 } })

    it(`accepts at most the digits of the column: ${name} (D31)`, () => {
      const [before, after] = ["9".repeat(integers), "9".repeat(decimals)]
      for (const sign of ["", "-"]) {
        for (const good of [before, `${before}.${after}`, `0.${after}`, "0", "1", "1.5", "0.0"]) {
          assert.isTrue(accepts(cell, sign + good), sign + good)
        }
        for (const bad of [`${before}9`, `${before}9.${after}`, `${before}.${after}9`, `0.${after}9`]) {
          assert.isFalse(accepts(cell, sign + bad), sign + bad)
        }
      }
    })

    const unreadable = ["NaN", "Infinity", "-Infinity", "null", "true", "$1", "1%", "1.2.3", "0x10", "１", "−1", "1/2"]
    const malformed = ["", " ", "-", ".", "1.", ".5", "-.5", "+1", "--1", "1e", "e5", "1e1.5", "1e1000", "1,000", "1,5"]
    it.each([...malformed, ...unreadable, " 1", "1 ", "1\n", 1, null])(`refuses %j: ${name} (D31)`, (text) => {
      assert.isFalse(accepts(cell, text))
    })

    it(`is exact with an exponent: ${name} (D43)`, () => {
      const written = { "1e2": "100", "1E+02": "100", "-1.5e1": "-15", "12.5e-1": "1.25", "100e-2": "1.00" }
      for (const [text, decimal] of Object.entries(written)) {
        assert.strictEqual(Schema.decodeUnknownSync(cell)(text), decimal, text)
      }
      assert.isFalse(accepts(cell, `1e-${decimals + 1}`))
      assert.isFalse(accepts(cell, `1e${integers}`))
    })
  }
})

describe("An integer", () => {
  const column = Column.integer("A count.")
  const [decode, encode] = [Schema.decodeSync(column.schemas.select), Schema.encodeSync(column.schemas.json)]
  const read = Schema.decodeUnknownResult(column.schemas.select)
  const greatest = 9_007_199_254_740_991n
  const print = (stored: bigint) => JSON.stringify({ x: encode(decode(stored)) })

  it.prop("is printed with all digits if it is at most 2^53-1 (D16)", [
    Arbitrary.map(int(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER), (value) => BigInt(value)),
  ], ([stored]) => {
    assert.strictEqual(print(stored), `{"x":${stored}}`)
  }, { arbitrary: { runs: 1000 } })

  it("is printed correctly for every power of ten and two, and for the integers next to them (D16)", () => {
    for (const base of [2n, 10n]) {
      for (let value = 1n; value <= greatest; value *= base) {
        for (const stored of [value - 1n, value, -value, 1n - value]) {
          assert.strictEqual(print(stored), `{"x":${stored}}`)
        }
      }
    }
    for (const stored of [greatest, -greatest, greatest - 1n]) assert.strictEqual(print(stored), `{"x":${stored}}`)
  })

  it("is refused if it exceeds the precision of a JSON number (D16)", () => {
    for (const stored of [greatest + 1n, greatest + 2n, -greatest - 1n, 2n ** 63n - 1n, -(2n ** 63n)]) {
      assert.strictEqual(read(stored)._tag, "Failure", String(stored))
    }
  })

  it("is decoded only from a bigint (D16)", () => {
    for (const wrong of ["1", 1.5, null, true]) assert.strictEqual(read(wrong)._tag, "Failure")
  })

  it("is encoded only from a safe integer (D16)", () => {
    const encode = Schema.encodeUnknownResult(column.schemas.json)
    assert.strictEqual(encode(12)._tag, "Success")
    for (const wrong of [1.5, NaN, Infinity, Number.MAX_SAFE_INTEGER + 1, "12", 12n]) {
      assert.strictEqual(encode(wrong)._tag, "Failure", String(wrong))
    }
  })

  it("is printed as null if it is missing, and as 0 if it is zero (D16)", () => {
    const optional = Column.nullable(column)
    const [decode, encode] = [Schema.decodeSync(optional.schemas.select), Schema.encodeSync(optional.schemas.json)]
    const print = (stored: bigint | null) => JSON.stringify(encode(decode(stored)))
    assert.strictEqual(print(null), "null")
    assert.strictEqual(print(0n), "0")
  })

  const good = ["0", "1", "-1", "42", "1000000", "9007199254740991", "-9007199254740991"]
  it.each(good)("is accepted in a data file: %s (D31)", (text) => {
    assert.isTrue(accepts(column.schemas.insert, text))
  })

  it.each([["1.0", "1"], ["100.00", "100"], ["1e3", "1000"], ["1.5E+03", "1500"], ["150e-1", "15"]])(
    "is accepted in a data file with zeros as decimals, or an exponent: %s (D43)",
    (text, digits) => {
      assert.strictEqual(Schema.decodeUnknownSync(column.schemas.insert)(text), digits)
    },
  )

  const tooGreat = ["9007199254740992", "-9007199254740992", "9223372036854775807", "99999999999999999999"]
  const unreadable = [
    "1.5",
    "1.",
    ".5",
    "",
    " ",
    "-",
    "+1",
    "15e-1",
    "1e",
    "1e16",
    "1,000",
    " 1",
    "1 ",
    "1\n",
    "0x1",
    "１",
  ]
  it.each([...tooGreat, ...unreadable, "NaN", "Infinity", "true", 1, null])(
    "is refused in a data file: %j (D31)",
    (text) => {
      assert.isFalse(accepts(column.schemas.insert, text))
    },
  )
})
