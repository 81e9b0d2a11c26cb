/** Tests ticker parameters (§7.3, D5, D6). */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, Result, Schema, SchemaIssue } from "effect"
import { findDroppedTickers, TickerListParameter, TickerParameter } from "../../../src/contract/rules/Tickers.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"

const message = (error: Schema.SchemaError) =>
  SchemaIssue.makeFormatterStandardSchemaV1()(error.issue).issues.map((issue) => issue.message).join("; ")

interface Reading {
  /** The decoded tickers, or the error message. */
  readonly tickers: ReadonlyArray<string> | string
  /** The decoded entries of the `X-Dropped-Tickers` header. */
  readonly dropped: ReadonlyArray<string>
}

/** Decodes the `ticker` parameter of a request. Returns the result and the header. */
const read = Effect.fnUntraced(function* (sent: string) {
  const result = yield* Effect.result(Schema.decodeEffect(TickerListParameter)(sent))
  const header = findDroppedTickers(sent)
  // A header value may contain only printable ASCII characters.
  assert.match(header ?? "", /^[!-~]*$/)
  const reading: Reading = {
    tickers: Result.isSuccess(result) ? result.success : message(result.failure),
    dropped: header === undefined ? [] : header.split(",").map(decodeURIComponent),
  }
  return reading
})

const readOne = (sent: string) =>
  Effect.map(
    Effect.result(Schema.decodeEffect(TickerParameter)(sent)),
    (result) => Result.isSuccess(result) ? { ticker: result.success } : { refusal: message(result.failure) },
  )

const isRefusal = ({ dropped, tickers }: Reading) =>
  typeof tickers === "string" && tickers.startsWith("Invalid ticker(s): ") && dropped.length === 0

// ----------------------------------------------------------------------------------------------------------------
// A reference implementation of D5 without regular expressions
// ----------------------------------------------------------------------------------------------------------------

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.^-"
const lowerCase = "abcdefghijklmnopqrstuvwxyz"
const spaces = [" ", "\t", "\n", "\r", "\f", "\v", "\u00a0", "\u2003", "\u2028", "\u3000", "\ufeff"]

const normalized = (entry: string) =>
  [...entry].filter((letter) => !spaces.includes(letter))
    .map((letter) => lowerCase.includes(letter) ? alphabet[lowerCase.indexOf(letter)] : letter).join("")

const isSymbol = (text: string) =>
  text.length >= 1 && text.length <= 16 && [...text].every((letter) => alphabet.includes(letter))

const expected = (sent: string) => {
  const entries: Array<string> = [""]
  for (const letter of sent) {
    if (letter === ",") entries.push("")
    else entries.push((entries.pop() ?? "") + letter)
  }
  const symbols = entries.map(normalized).filter((entry) => entry !== "")
  return {
    valid: [...new Set(symbols.filter(isSymbol))],
    invalid: symbols.filter((entry) => !isSymbol(entry)),
  }
}

const int = (minimum: number, maximum: number) =>
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum, maximum })))

const letters = (from: ReadonlyArray<string>, minLength: number, maxLength: number) =>
  Arbitrary.map(
    Arbitrary.array(int(0, from.length - 1), { minLength, maxLength }),
    (all) => all.map((at) => from[at]).join(""),
  )

/**
 * Generates list entries. Some use so few letters that entries repeat; some exceed the maximum length of sixteen
 * characters.
 */
const entry = Arbitrary.flatMap(
  int(0, 3),
  (kind) =>
    kind === 0
      ? letters(["a", "A", "b", "B", " "], 0, 3)
      : kind === 1
      ? letters([...alphabet, ...lowerCase, ...spaces], 0, 18)
      : kind === 2
      ? letters(["Q", "q", "9"], 15, 18)
      : letters(["x", "X", "$", "/", "é", "😀", "ı", "А", " "], 0, 4),
)

const list = Arbitrary.map(Arbitrary.array(entry, { minLength: 0, maxLength: 12 }), (entries) => entries.join(","))

describe("The parser of ticker lists", () => {
  it.effect.prop(
    "agrees with a reference implementation of D5, for any text (D5)",
    [list],
    ([sent]) =>
      Effect.gen(function* () {
        const { invalid, valid } = expected(sent)
        const reading = yield* read(sent)
        if (valid.length === 0) {
          assert.isTrue(isRefusal(reading), JSON.stringify(reading))
        } else {
          assert.deepStrictEqual(reading.tickers, valid)
          assert.deepStrictEqual(reading.dropped, invalid.slice(0, 20))
        }
      }),
    { arbitrary: { runs: 1000 } },
  )

  it.effect.prop("leaves its own result unchanged (D5)", [list], ([sent]) =>
    Effect.gen(function* () {
      const { tickers } = yield* read(sent)
      if (typeof tickers !== "string") {
        assert.deepStrictEqual(yield* read(tickers.join(",")), { tickers, dropped: [] })
      }
    }), { arbitrary: { runs: 300 } })

  type Texts = ReadonlyArray<string>
  const examples: ReadonlyArray<readonly [sent: string, tickers: Texts, dropped: Texts]> = [
    ["META", ["META"], []],
    ["meta", ["META"], []],
    ["META,BYON", ["META", "BYON"], []],
    ["BYON,META", ["BYON", "META"], []],
    [" meta , byon ", ["META", "BYON"], []],
    ["ME TA", ["META"], []],
    ["B\tY\nO\u00a0N", ["BYON"], []],
    ["brk.b,BRK.B,b rk.B", ["BRK.B"], []],
    ["B,A,b,a,C", ["B", "A", "C"], []],
    ["META,,BYON,", ["META", "BYON"], []],
    [",META", ["META"], []],
    ["^GSPC,BF-B,BRK.A,7203", ["^GSPC", "BF-B", "BRK.A", "7203"], []],
    ["ABCDEFGHIJKLMNOP", ["ABCDEFGHIJKLMNOP"], []],
    ["A,ABCDEFGHIJKLMNOPQ", ["A"], ["ABCDEFGHIJKLMNOPQ"]],
    ["$META,BYON", ["BYON"], ["$META"]],
    ["META;BYON,FB", ["FB"], ["META;BYON"]],
    ["A/B,C_D,E+F,G", ["G"], ["A/B", "C_D", "E+F"]],
    ["A,%41", ["A"], ["%41"]],
    ['A,B"C,D\\E,F:G', ["A"], ['B"C', "D\\E", "F:G"]],
    ["A,A\0B", ["A"], ["A\0B"]],
    ["A,😀", ["A"], ["😀"]],
    ["A,$,$", ["A"], ["$", "$"]],
  ]
  it.effect.each(examples)("parses %j (D5)", ([sent, tickers, dropped]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* read(sent), { tickers, dropped })
    }))

  const nothing = ["", ",", ",,,", " ", " , ", "\t", "\u3000,\u00a0"]
  it.effect.each(nothing)("refuses %j, which contains no ticker (D5)", (sent) =>
    Effect.gen(function* () {
      assert.isTrue(isRefusal(yield* read(sent)))
    }))

  const allInvalid = ["$", "$,%", "A_B", "A/B,C/D", "ABCDEFGHIJKLMNOPQ", "😀", "META;BYON"]
  it.effect.each(allInvalid)("refuses %j, which contains no valid ticker (§7.3)", (sent) =>
    Effect.gen(function* () {
      const reading = yield* read(sent)
      assert.isTrue(isRefusal(reading))
      const rule = "Tickers contain only uppercase letters, numbers, dots, hyphens or carets"
      assert.include(reading.tickers, rule)
      for (const symbol of sent.split(",")) assert.include(reading.tickers, symbol)
    }))

  it.effect("names the first twenty dropped tickers in the header (D5)", () =>
    Effect.gen(function* () {
      const wrong = (count: number) => Array.from({ length: count }, (_, at) => `$${at}`)
      assert.deepStrictEqual((yield* read(`A,${wrong(20).join(",")}`)).dropped, wrong(20))
      assert.deepStrictEqual((yield* read(`A,${wrong(21).join(",")}`)).dropped, wrong(20))
      assert.deepStrictEqual((yield* read(`A,${wrong(500).join(",")}`)).dropped, wrong(20))
    }))

  it("keeps the header short for any list (D5)", () => {
    const hostile = Array.from({ length: 50 }, () => "😀".repeat(100)).join(",")
    assert.isBelow(findDroppedTickers(`A,${hostile}`)?.length ?? Infinity, 8192)
  })

  it.effect("drops a ticker with an unpaired surrogate, and encodes it in the header (D5)", () =>
    Effect.gen(function* () {
      const { dropped, tickers } = yield* read("A,B\ud83d,\ude00,C")
      assert.deepStrictEqual(tickers, ["A", "C"])
      assert.strictEqual(dropped.length, 2)
      // Truncating the ticker to 32 characters splits a surrogate pair.
      assert.strictEqual((yield* read(`A,${"x".repeat(31)}😀`)).dropped.length, 1)
    }))

  it("sets no header if no ticker was dropped (D5)", () => {
    assert.isUndefined(findDroppedTickers("A,,B,a"))
  })
})

describe("The number of tickers", () => {
  const symbols = (count: number) => Array.from({ length: count }, (_, at) => `T${at}`)

  it.effect("may be one hundred (§8)", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* read(symbols(100).join(",")), { tickers: symbols(100), dropped: [] })
    }))

  it.effect.each([101, 102, 1000])("must not be %i (§8)", (count) =>
    Effect.gen(function* () {
      const { tickers } = yield* read(symbols(count).join(","))
      assert.isString(tickers)
      assert.include(tickers, "100")
    }))

  it.effect("counts valid tickers only (§8)", () =>
    Effect.gen(function* () {
      const { dropped, tickers } = yield* read([...symbols(50), "$", "%", ...symbols(100), "&"].join(","))
      assert.deepStrictEqual(tickers, symbols(100))
      assert.deepStrictEqual(dropped, ["$", "%", "&"])
      assert.isString((yield* read(["$", ...symbols(101)].join(","))).tickers)
    }))

  it.effect("counts duplicates once (D5)", () =>
    Effect.gen(function* () {
      const twice = [...symbols(100), ...symbols(100).map((symbol) => symbol.toLowerCase())]
      assert.deepStrictEqual((yield* read(twice.join(","))).tickers, symbols(100))
    }))
})

describe("The parser of single tickers", () => {
  const good: ReadonlyArray<readonly [sent: string, ticker: string]> = [
    ["META", "META"],
    ["meta", "META"],
    ["  MeTa\t", "META"],
    ["\u00a0FB\n", "FB"],
    ["F", "F"],
    ["BRK.B", "BRK.B"],
    ["^GSPC", "^GSPC"],
    ["abc-wt", "ABC-WT"],
    ["7203", "7203"],
    ["ABCDEF", "ABCDEF"],
  ]
  it.effect.each(good)("parses %j as %j (D6)", ([sent, ticker]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* readOne(sent), { ticker })
    }))

  const bad = ["", " ", "\t", "ABCDEFG", "A,B", "META,", ",", "A B", "ME TA", "A\tB", "A_B", "$A", "A\0", "A/B", "😀"]
  it.effect.each(bad)("refuses %j, and names it (§7.2, D6)", (sent) =>
    Effect.gen(function* () {
      const { refusal } = { refusal: "", ...(yield* readOne(sent)) }
      const named = sent.trim() === "" ? "none given" : sent.trim()
      assert.isTrue(
        refusal.startsWith(`Invalid ticker(s): ${named}. Tickers contain only uppercase letters, `),
        refusal,
      )
    }))

  it.effect.prop("agrees with a reference implementation of D6, for any text (D6)", [
    Arbitrary.flatMap(
      int(0, 1),
      (kind) =>
        kind === 0
          ? letters([...alphabet, ...lowerCase, " ", "\t"], 0, 8)
          : letters(["A", "b", "C", "9", ".", " ", ",", "ı", "é", "ß"], 0, 7),
    ),
  ], ([sent]) =>
    Effect.gen(function* () {
      const inner = [...sent]
      while (spaces.includes(inner[0] ?? "")) inner.shift()
      while (spaces.includes(inner[inner.length - 1] ?? "")) inner.pop()
      const ticker = inner.some((letter) => spaces.includes(letter)) ? "" : normalized(inner.join(""))
      const response = yield* readOne(sent)
      if (isSymbol(ticker) && ticker.length <= 6) assert.deepStrictEqual(response, { ticker })
      else assert.hasAllKeys(response, ["refusal"])
    }), { arbitrary: { runs: 1000 } })
})

describe("Characters that look like ASCII", () => {
  const lookAlikes: ReadonlyArray<readonly [what: string, sent: string]> = [
    ["Cyrillic А", "\u0410"],
    ["Cyrillic а", "\u0430"],
    ["Cyrillic М in МETA", "\u041cETA"],
    ["Greek Α", "\u0391"],
    ["Greek ο", "\u03bf"],
    ["full-width Ａ", "\uff21"],
    ["full-width ａ", "\uff41"],
    ["full-width １", "\uff11"],
    ["full-width full stop", "A\uff0eB"],
    ["mathematical bold 𝐀", "\u{1d400}"],
    ["circled Ⓐ", "\u24b6"],
    ["Turkish dotless ı, whose upper case is I", "\u0131"],
    ["dotless ı in ıBM", "\u0131BM"],
    ["Turkish dotted İ", "\u0130"],
    ["long ſ, whose upper case is S", "\u017f"],
    ["long ſ in ſPY", "\u017fPY"],
    ["ß, whose upper case is SS", "\u00df"],
    ["ligature ﬀ, whose upper case is FF", "\ufb00"],
    ["ligature ﬁ, whose upper case is FI", "\ufb01"],
    ["ligature ﬂ, whose upper case is FL", "\ufb02"],
    ["ligature ﬃ, whose upper case is FFI", "\ufb03"],
    ["ligature ﬄ, whose upper case is FFL", "\ufb04"],
    ["ligature ﬅ, whose upper case is ST", "\ufb05"],
    ["ligature ﬆ, whose upper case is ST", "\ufb06"],
    ["Kelvin sign", "\u212a"],
    ["Ångström sign", "\u212b"],
    ["A with a combining accent", "A\u0301"],
    ["á", "\u00e1"],
    ["non-breaking hyphen", "A\u2011B"],
    ["minus sign", "A\u2212B"],
    ["modifier circumflex", "\u02c6A"],
    ["zero-width space", "A\u200bB"],
    ["zero-width joiner", "A\u200dB"],
    ["soft hyphen", "A\u00adB"],
    ["right-to-left mark", "A\u200f"],
  ]

  it.effect.each(lookAlikes)("are dropped from a list: %s (D5)", ([, sent]) =>
    Effect.gen(function* () {
      assert.isTrue(isRefusal(yield* read(sent)))
      const { dropped, tickers } = yield* read(`OK,${sent}`)
      assert.deepStrictEqual(tickers, ["OK"])
      assert.deepStrictEqual(dropped, [normalized(sent)])
    }))

  it.effect.each(lookAlikes)("are refused in a single ticker: %s (D6)", ([, sent]) =>
    Effect.gen(function* () {
      assert.hasAllKeys(yield* readOne(sent), ["refusal"])
    }))

  it.effect("are refused: only the documented characters are accepted, in upper and lower case (D5, D6)", () =>
    Effect.gen(function* () {
      const points = Array.from({ length: 0x110000 }, (_, point) => point)
        .filter((point) => point < 0xd800 || point > 0xdfff)
        // Keeps Latin, Greek and Cyrillic letters, and all characters that a case mapping or compatibility mapping
        // converts to ASCII.
        .filter((point) => {
          const letter = String.fromCodePoint(point)
          const equivalents = [letter.toUpperCase(), letter.toLowerCase(), letter.normalize("NFKD")]
          return point < 0x500 || equivalents.some((text) => /[!-~]/.test(text))
        })
      assertFoundMoreThan(2_000, "code points", points)
      const right = [...alphabet, ...lowerCase].toSorted()
      const inList: Array<string> = []
      const alone: Array<string> = []
      for (const letter of points.map((point) => String.fromCodePoint(point))) {
        if (typeof (yield* read(letter)).tickers !== "string") inList.push(letter)
        if ("ticker" in (yield* readOne(letter))) alone.push(letter)
      }
      assert.deepStrictEqual(inList.toSorted(), right)
      assert.deepStrictEqual(alone.toSorted(), right)
    }))
})
