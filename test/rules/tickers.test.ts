/** §7.3, D5, D6: how a ticker parameter is read. */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, Result, Schema, SchemaIssue } from "effect"
import { makeRequestContext, RequestContext } from "../../src/http/RequestContext.ts"
import { Ticker, TickerList } from "../../src/rules/Tickers.ts"

const message = (error: Schema.SchemaError) =>
  SchemaIssue.makeFormatterStandardSchemaV1()(error.issue).issues.map((issue) => issue.message).join("; ")

interface Reading {
  /** The tickers, or the message of the refusal. */
  readonly tickers: ReadonlyArray<string> | string
  /** The header `X-Dropped-Tickers`, decoded, entry by entry. */
  readonly dropped: ReadonlyArray<string>
}

/** One request's `ticker` parameter, and what its answer's headers say. */
const read = Effect.fnUntraced(function* (sent: string) {
  const exchange = makeRequestContext({ id: "request", target: "/" })
  const result = yield* Schema.decodeEffect(TickerList)(sent).pipe(
    Effect.result,
    Effect.provideService(RequestContext, exchange),
  )
  const { "X-Dropped-Tickers": header, ...others } = exchange.headers
  assert.deepStrictEqual(others, {})
  // What stands in a header is printable ASCII.
  assert.match(header ?? "", /^[!-~]*$/)
  const reading: Reading = {
    tickers: Result.isSuccess(result) ? result.success : message(result.failure),
    dropped: header === undefined ? [] : header.split(",").map(decodeURIComponent),
  }
  return reading
})

const readOne = (sent: string) =>
  Effect.map(
    Effect.result(Schema.decodeEffect(Ticker)(sent)),
    (result) => Result.isSuccess(result) ? { ticker: result.success } : { refusal: message(result.failure) },
  )

const isRefusal = ({ dropped, tickers }: Reading) =>
  typeof tickers === "string" && tickers.startsWith("Invalid ticker(s): ") && dropped.length === 0

// ----------------------------------------------------------------------------------------------------------------
// D5 once more, letter by letter and without regular expressions
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

/** Entries over few letters, so that some repeat; up to seventeen of them, so that some are too long. */
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

describe("D5 a list of tickers", () => {
  it.effect.prop("D5 is read as D5 says, letter by letter", [list], ([sent]) =>
    Effect.gen(function* () {
      const { invalid, valid } = expected(sent)
      const reading = yield* read(sent)
      if (valid.length === 0) {
        assert.isTrue(isRefusal(reading), JSON.stringify(reading))
      } else {
        assert.deepStrictEqual(reading.tickers, valid)
        assert.deepStrictEqual(reading.dropped, invalid.slice(0, 20))
      }
    }), { arbitrary: { runs: 1000 } })

  it.effect.prop("D5 a list that was read reads the same again", [list], ([sent]) =>
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
  it.effect.each(examples)("D5 %j", ([sent, tickers, dropped]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* read(sent), { tickers, dropped })
    }))

  const nothing = ["", ",", ",,,", " ", " , ", "\t", "\u3000,\u00a0"]
  it.effect.each(nothing)("D5 %j holds no symbol at all and is refused", (sent) =>
    Effect.gen(function* () {
      assert.isTrue(isRefusal(yield* read(sent)))
    }))

  const allInvalid = ["$", "$,%", "A_B", "A/B,C/D", "ABCDEFGHIJKLMNOPQ", "😀", "META;BYON"]
  it.effect.each(allInvalid)("§7.3 of %j none is valid and it is refused", (sent) =>
    Effect.gen(function* () {
      const reading = yield* read(sent)
      assert.isTrue(isRefusal(reading))
      const rule = "Tickers contain only uppercase letters, numbers, dots, hyphens or carets"
      assert.include(reading.tickers, rule)
      for (const symbol of sent.split(",")) assert.include(reading.tickers, symbol)
    }))

  it.effect("D5 the header names twenty dropped symbols at most, the first ones", () =>
    Effect.gen(function* () {
      const wrong = (count: number) => Array.from({ length: count }, (_, at) => `$${at}`)
      assert.deepStrictEqual((yield* read(`A,${wrong(20).join(",")}`)).dropped, wrong(20))
      assert.deepStrictEqual((yield* read(`A,${wrong(21).join(",")}`)).dropped, wrong(20))
      assert.deepStrictEqual((yield* read(`A,${wrong(500).join(",")}`)).dropped, wrong(20))
    }))

  it.effect("D5 the header stays small whatever was sent", () =>
    Effect.gen(function* () {
      const exchange = makeRequestContext({ id: "request", target: "/" })
      const hostile = Array.from({ length: 50 }, () => "😀".repeat(100)).join(",")
      yield* Effect.provideService(Schema.decodeEffect(TickerList)(`A,${hostile}`), RequestContext, exchange)
      assert.isBelow(exchange.headers["X-Dropped-Tickers"]?.length ?? Infinity, 8192)
    }))

  it.effect("D5 half of a surrogate pair is dropped and does not spoil the header", () =>
    Effect.gen(function* () {
      const { dropped, tickers } = yield* read("A,B\ud83d,\ude00,C")
      assert.deepStrictEqual(tickers, ["A", "C"])
      assert.strictEqual(dropped.length, 2)
      // Here the cut falls between the halves.
      assert.strictEqual((yield* read(`A,${"x".repeat(31)}😀`)).dropped.length, 1)
    }))

  it.effect("D5 without a dropped symbol there is no header", () =>
    Effect.gen(function* () {
      const exchange = makeRequestContext({ id: "request", target: "/" })
      yield* Effect.provideService(Schema.decodeEffect(TickerList)("A,,B,a"), RequestContext, exchange)
      assert.deepStrictEqual(exchange.headers, {})
    }))
})

describe("§8 how many tickers", () => {
  const symbols = (count: number) => Array.from({ length: count }, (_, at) => `T${at}`)

  it.effect("§8 exactly one hundred pass", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* read(symbols(100).join(",")), { tickers: symbols(100), dropped: [] })
    }))

  it.effect.each([101, 102, 1000])("§8 %i do not", (count) =>
    Effect.gen(function* () {
      const { tickers } = yield* read(symbols(count).join(","))
      assert.isString(tickers)
      assert.include(tickers, "100")
    }))

  it.effect("§8 they are counted after invalid ones are removed", () =>
    Effect.gen(function* () {
      const { dropped, tickers } = yield* read([...symbols(50), "$", "%", ...symbols(100), "&"].join(","))
      assert.deepStrictEqual(tickers, symbols(100))
      assert.deepStrictEqual(dropped, ["$", "%", "&"])
      assert.isString((yield* read(["$", ...symbols(101)].join(","))).tickers)
    }))

  it.effect("D5 duplicates are one symbol", () =>
    Effect.gen(function* () {
      const twice = [...symbols(100), ...symbols(100).map((symbol) => symbol.toLowerCase())]
      assert.deepStrictEqual((yield* read(twice.join(","))).tickers, symbols(100))
    }))
})

describe("D6 one ticker", () => {
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
  it.effect.each(good)("D6 %j is %j", ([sent, ticker]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* readOne(sent), { ticker })
    }))

  const bad = ["", " ", "\t", "ABCDEFG", "A,B", "META,", ",", "A B", "ME TA", "A\tB", "A_B", "$A", "A\0", "A/B", "😀"]
  it.effect.each(bad)("D6 %j is none", (sent) =>
    Effect.gen(function* () {
      const { refusal } = { refusal: "", ...(yield* readOne(sent)) }
      assert.match(refusal, /^Invalid ticker/)
    }))

  it.effect.prop("D6 is read as D6 says, letter by letter", [
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
      const answer = yield* readOne(sent)
      if (isSymbol(ticker) && ticker.length <= 6) assert.deepStrictEqual(answer, { ticker })
      else assert.hasAllKeys(answer, ["refusal"])
    }), { arbitrary: { runs: 1000 } })
})

describe("D5 D6 look-alikes", () => {
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

  it.effect.each(lookAlikes)("D5 %s is dropped from a list", ([, sent]) =>
    Effect.gen(function* () {
      assert.isTrue(isRefusal(yield* read(sent)))
      const { dropped, tickers } = yield* read(`OK,${sent}`)
      assert.deepStrictEqual(tickers, ["OK"])
      assert.deepStrictEqual(dropped, [normalized(sent)])
    }))

  it.effect.each(lookAlikes)("D6 %s is no ticker", ([, sent]) =>
    Effect.gen(function* () {
      assert.hasAllKeys(yield* readOne(sent), ["refusal"])
    }))

  it.effect("D5 D6 of all that Unicode has, only the alphabet in both cases is a symbol", () =>
    Effect.gen(function* () {
      const points = Array.from({ length: 0x110000 }, (_, point) => point)
        .filter((point) => point < 0xd800 || point > 0xdfff)
        // The beginning, and all that a change of case or compatibility could turn into ASCII.
        .filter((point) => {
          const letter = String.fromCodePoint(point)
          const relatives = [letter.toUpperCase(), letter.toLowerCase(), letter.normalize("NFKD")]
          return point < 0x500 || relatives.some((text) => /[!-~]/.test(text))
        })
      assert.isAbove(points.length, 2000)
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
