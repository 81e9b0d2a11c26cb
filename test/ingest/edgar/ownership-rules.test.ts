/** Tests the rules for ownership rows that no recorded filing exercises (decision 0100). */
import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import { describeStated } from "../../../src/ingest/edgar/read/Doubt.ts"
import { isOwnershipForm, isSchedule13 } from "../../../src/ingest/edgar/read/OwnershipRows.ts"
import { classifyDerivativeByTitle } from "../../../src/ingest/edgar/read/SecurityTitles.ts"
import {
  derivativeHolding,
  derivativeTrade,
  type Form,
  formIssuerCik as cik,
  holding,
  type Line,
  owner,
  trade,
  writeForm,
} from "./OwnershipForms.ts"
import { documentUrl, readFiling, readFilingWithDoubts } from "./OwnershipRecordings.ts"

const rowsOf = (form: Form) => Result.getOrThrow(readFiling(writeForm(form), form.type ?? "4", cik))

/**
 * Returns the doubts about a form. Each consists of the column, the value in the document, the value in the row, and
 * the reason.
 */
const doubtsOf = (form: Form) =>
  Result.getOrThrow(readFilingWithDoubts(writeForm(form), form.type ?? "4", cik)).doubts
    .map(({ column, published, read, reason }) => [column, read, published, reason])

const firstRow = (form: Form) => rowsOf(form)[0] ?? {}

const [isUnclearOrder, isUnclearPosition] = [
  "has transactions whose order is unclear",
  "has lines that may be of one position or of several",
]

const commonShares = (...shares: ReadonlyArray<string>) => firstRow({ shares })["common_shares_amount"]

const options = (...derivatives: ReadonlyArray<string>) => firstRow({ derivatives })["options_amount"]

interface Person {
  readonly name?: string
  readonly cik?: string
  readonly amount?: string
  readonly percent?: string
  /** Additional elements, as XML. */
  readonly rest?: string
}

const writeSchedule = (title: string, ...persons: ReadonlyArray<Person>) =>
  `<edgarSubmission xmlns="http://www.sec.gov/edgar/schedule13D"><headerData><submissionType>SCHEDULE 13D` +
  `</submissionType></headerData><formData><coverPageHeader><securitiesClassTitle>${title}</securitiesClassTitle>` +
  `<dateOfEvent>02/19/2026</dateOfEvent><issuerInfo><issuerCIK>${cik}</issuerCIK></issuerInfo></coverPageHeader>` +
  `<reportingPersons>${
    persons.map(({ amount = "1", cik = "7", name = "Fund LP", percent = "6", rest = "" }) =>
      `<reportingPersonInfo><reportingPersonCIK>${cik}</reportingPersonCIK><reportingPersonName>${name}` +
      `</reportingPersonName><aggregateAmountOwned>${amount}</aggregateAmountOwned>` +
      `<percentOfClass>${percent}</percentOfClass>${rest}</reportingPersonInfo>`
    ).join("")
  }</reportingPersons></formData></edgarSubmission>`

const schedule = (title: string, ...persons: ReadonlyArray<Person>) =>
  Result.getOrThrow(readFiling(writeSchedule(title, ...persons), "SCHEDULE 13D", cik))

const reasonOf = (xml: string, form = "4", issuer = cik) => {
  const result = readFiling(xml, form, issuer)
  return Result.isFailure(result) ? result.failure.reason : assert.fail("the document was accepted")
}

describe("The number of common shares in Forms 3, 4 and 5", () => {
  it("is the sum of the last line of each position", () => {
    const amount = commonShares(
      trade({ held: "100" }),
      trade({ held: "80", nature: "By Trust" }),
      trade({ held: "60" }),
      trade({ held: "70", nature: "by  trust" }),
      trade({ held: "5", title: "Class B Common Stock" }),
    )
    assert.strictEqual(amount, "135")
  })

  it("includes direct and indirect ownership as two positions, even if the nature of the ownership is empty", () => {
    assert.strictEqual(commonShares(trade({ held: "80" }), trade({ held: "70", nature: "" })), "150")
  })

  it("includes two trusts as two positions even if only their footnotes differ", () => {
    const [first, second] = [["F1", "F9"], ["F2", "F9"]]
    const trusts = [{ held: "80", footnotes: first }, { held: "70", footnotes: second }]
    const lines = trusts.map(({ footnotes = [], held }) => trade({ held, nature: "By Trust", footnotes }))
    assert.strictEqual(commonShares(...lines), "150")
  })

  it("is unknown if the footnotes of one line include those of another, because the lines may be one position or two", () => {
    const lines = [[], ["F1"]].map((footnotes) => trade({ held: "80", nature: "By Trust", footnotes }))
    assert.isNull(commonShares(...lines))
  })

  it("is unknown if a holding may be the same position as another line", () => {
    assert.isNull(commonShares(trade({ held: "80" }), holding({ held: "70" })))
    assert.isNull(commonShares(holding({ held: "80" }), holding({ held: "70" })))
  })

  it("is unknown if one of its positions has no number", () => {
    assert.isNull(commonShares(trade({ held: "80" }), holding({ nature: "By Trust" })))
  })

  it("is unknown, and not a part of the sum, if another security may be shares (decision 0100)", () => {
    const common = trade({ held: "100" })
    assert.strictEqual(commonShares(common, trade({ held: "50000", title: "Class C Capital Stock" })), "50100")
    assert.isNull(commonShares(common, trade({ held: "50000", title: "Series C Stock" })))
    assert.isNull(commonShares(common, holding({ title: "Series C Stock" })))
    assert.strictEqual(commonShares(common, trade({ held: "0", title: "Series C Stock" })), "100")
    assert.strictEqual(commonShares(common, trade({ held: "50000", title: "Common Units" })), "100")
    const preferred = trade({ held: "7", title: "Series A Preferred Stock" })
    assert.isNull(
      firstRow({ shares: [preferred, trade({ held: "5", title: "Series C Stock" })] })["preferred_shares_amount"],
    )
  })

  it("is listed as a doubt if another security may be shares (decision 0100)", () => {
    const shares = [trade({ held: "100" }), trade({ held: "50000", title: "Series C Stock" })]
    const reason = "may lack shares of a security whose title is not recognized"
    const common = ["common_shares_amount", "100 and 50000", null, reason]
    assert.deepStrictEqual(doubtsOf({ shares }), [common])
    const preferred = trade({ held: "7", title: "Series A Preferred Stock" })
    assert.deepStrictEqual(doubtsOf({ shares: [...shares, preferred] }), [
      common,
      ["preferred_shares_amount", "7 and 50000", null, reason],
    ])
    assert.deepStrictEqual(doubtsOf({ shares: [trade({ held: "0", title: "Series C Stock" })] }), [])
  })

  it("is unknown if the form also says that nothing is held, which is said (decision 0100)", () => {
    const form = { type: "3", ownsNothing: true, shares: [holding({ held: "500" })] }
    assert.isNull(firstRow(form)["common_shares_amount"])
    assert.deepStrictEqual(doubtsOf(form), [
      ["common_shares_amount", "500", null, "is in a form that says that nothing is held"],
    ])
    const empty = { ...form, shares: [holding({ held: "0" })] }
    assert.strictEqual(firstRow(empty)["common_shares_amount"], "0")
  })

  it("is null if no security is common stock", () => {
    assert.isNull(commonShares(trade({ held: "80", title: "Common Units" })))
    assert.isNull(commonShares())
  })

  it("adds up fractions of shares before it drops the remaining fraction", () => {
    assert.strictEqual(commonShares(trade({ held: "1.5" }), trade({ held: "2.7501", nature: "401(k)" })), "4")
  })

  it("may be at most the largest integer that a column accepts", () => {
    assert.strictEqual(commonShares(trade({ held: "9007199254740991" })), "9007199254740991")
    const shares = [trade({ held: "9007199254740991" }), trade({ held: "1", nature: "By Trust" })]
    assert.isNull(commonShares(...shares))
    assert.deepStrictEqual(doubtsOf({ shares }), [
      ["common_shares_amount", "9007199254740991 and 1", null, "has more than 9007199254740991 shares"],
    ])
  })
})

/** Formats the amounts after the transactions as a doubt describes them. */
const describeHeld = (lines: ReadonlyArray<string>) => lines.map((line) => line.replace(/^.*=/, "")).join(" and ")

/**
 * Writes a transaction from a text such as `+100=600` or `-20=580`, which contains the traded shares and the amount
 * held afterwards.
 */
const write = (text: string, line: Line = {}) => {
  const [, sign, traded = "", held = ""] = /^([+-])([\d.]+)=([\d.]+)$/.exec(text) ?? []
  return trade({ traded, held, direction: sign === "+" ? "A" : "D", date: "2026-02-19", ...line })
}

const commonAfter = (...lines: ReadonlyArray<string>) => commonShares(...lines.map((line) => write(line)))

describe("The last transaction of a position", () => {
  it("is the one with the latest date, wherever the form lists it (decision 0100)", () => {
    const [old, middle, last] = [
      write("+100=600", { date: "2026-02-10" }),
      write("+200=800", { date: "2026-02-12" }),
      write("-300=500", { date: "2026-02-19" }),
    ] as const
    for (const lines of [[old, middle, last], [last, middle, old], [middle, last, old]]) {
      assert.deepInclude(firstRow({ shares: lines }), { common_shares_amount: "500", reported_date: "2026-02-19" })
    }
  })

  it("follows from the amounts of lines of one day, in any order (decision 0100)", () => {
    assert.strictEqual(commonAfter("-400=400", "+200=800", "+100=600"), "400")
    assert.strictEqual(commonAfter("+200=800", "-400=400", "+100=600"), "400")
    assert.strictEqual(commonAfter("+100=600", "+200=800", "-400=400"), "400")
    // Tests fractions, a gift of zero shares, and an exercise followed by a sale of the same shares.
    assert.strictEqual(commonAfter("+10.25=111.75", "+1.5=101.5"), "111")
    assert.strictEqual(commonAfter("-0=500", "-100=500"), "500")
    assert.strictEqual(commonAfter("-1000=500", "-1=499", "+1000=1500"), "499")
  })

  it("may be any of several if all orders that the amounts allow have the same end (decision 0100)", () => {
    // Either round trip, 500 → 600 → 500 or 500 → 400 → 500, may come first. In both orders, the final amount is 700.
    assert.strictEqual(commonAfter("+200=700", "+100=500", "-100=500", "-100=400", "+100=600"), "700")
    // Every line states the amount held after all three transactions.
    assert.strictEqual(commonAfter("+200=900", "+100=900", "-50=900"), "900")
  })

  it("is unknown if the amounts return to where they began, which is said (decision 0100)", () => {
    const circles = [["+100=600", "-100=500"], ["-100=500", "+100=600"], ["-300=500", "+200=800", "+100=600"]]
    for (const lines of circles) {
      const shares = lines.map((line) => write(line))
      assert.isNull(firstRow({ shares })["common_shares_amount"])
      assert.deepStrictEqual(doubtsOf({ shares }), [[
        "common_shares_amount",
        describeHeld(lines),
        null,
        isUnclearOrder,
      ]])
    }
  })

  it("is a sale of the shares that an exercise gave, if the form lists the exercise first (decision 0100)", () => {
    const lines = [
      write("+300=800", { code: "M" }),
      write("-100=700", { code: "S" }),
      write("-200=500", { code: "S" }),
    ]
    assert.strictEqual(commonShares(...lines), "500")
    assert.isNull(commonShares(...lines.toReversed()))
    // The sale may have been a sale of other shares.
    assert.isNull(commonShares(write("-100=400", { code: "S" }), write("+100=500", { code: "M" })))
    // In this case, the filer rounded the amounts.
    const rounded = [write("+300.4=800", { code: "M" }), write("-300.4=500", { code: "S" })]
    assert.strictEqual(commonShares(...rounded), "500")
    assert.isNull(commonShares(...rounded.toReversed()))
  })

  it("follows from the amount of the day before if the amounts return to where they began (decision 0100)", () => {
    const before = write("+50=500", { date: "2026-02-18" })
    assert.strictEqual(commonShares(write("-100=500"), write("+100=600"), before), "500")
    assert.strictEqual(commonShares(before, write("-100=500"), write("+100=600")), "500")
    const [exercise, sale] = [write("+100=600", { code: "M" }), write("-100=500", { code: "S" })]
    assert.strictEqual(commonShares(write("+50=600", { date: "2026-02-18" }), exercise, sale), "600")
    assert.strictEqual(commonShares(write("+50=450", { date: "2026-02-18" }), exercise, sale), "500")
  })

  it("is unknown if the amounts contradict each other, which is said (decision 0100)", () => {
    for (const lines of [["+100=600", "+100=900"], ["-100=500", "+100=650", "-1=2"]]) {
      const shares = lines.map((line) => write(line))
      assert.isNull(firstRow({ shares })["common_shares_amount"])
      assert.deepStrictEqual(doubtsOf({ shares }), [[
        "common_shares_amount",
        describeHeld(lines),
        null,
        isUnclearOrder,
      ]])
    }
    assert.isNull(commonAfter("+100=600", "-100=500", "+30=1030", "-30=1000"))
  })

  it("is unknown if it added more than is held afterwards, which is said (decision 0100)", () => {
    const reason = "is less than a transaction added"
    for (const lines of [["+1000000=1500"], ["+300=0.9"], ["+100=50", "+1=700"], ["+1000000=1500", "-100=1400"]]) {
      const shares = lines.map((line) => write(line))
      assert.deepStrictEqual(doubtsOf({ shares }), [["common_shares_amount", describeHeld(lines), null, reason]])
    }
    // Both lines state the amount after the exercise and the sale. The code shows that the last one is a sale.
    assert.strictEqual(commonAfter("+1000=200", "-1000=200"), "200")
    assert.strictEqual(commonShares(write("+100.4=100")), "100")
    assert.strictEqual(commonShares(write("+100=50", { code: "S" })), "50")
  })

  it("is unknown if the amounts of all days show another one than the dates, which is said (decision 0100)", () => {
    const days = [["-280=35720", "16"], ["-280=35440", "17"], ["-110=35330", "17"], ["-30=35300", "07"]] as const
    const shares = days.map(([line, day]) => write(line, { date: `2026-02-${day}` }))
    for (const lines of [shares, shares.toReversed()]) {
      assert.isNull(commonShares(...lines))
      assert.deepStrictEqual(doubtsOf({ shares: lines }).map(([, , , reason]) => reason), [isUnclearOrder])
    }
    // The chain may have gaps, as long as the dates cause more of them. It may also be in any order.
    const gapped = [write("-50=40000", { date: "2026-02-13" }), ...shares]
    const mixed = [shares[2], shares[0], shares[3], shares[1]].map((line) => line ?? "")
    for (const lines of [gapped, gapped.toReversed(), mixed]) assert.isNull(commonShares(...lines))
    // A gap between two days may be a transaction that need not be reported.
    const gap = [write("-100=900", { date: "2026-02-17" }), write("-100=850", { date: "2026-02-18" })]
    assert.strictEqual(commonShares(...gap), "850")
  })

  it("is unknown if it is alone on its day and contradicts the day before, which is said (decision 0100)", () => {
    const reason = "does not fit the amounts of the days before"
    const impossible = [
      ["+10=900", "-100=5000"],
      ["+10=900000", "-100=899"],
      ["-10=900", "+100=850"],
      ["-1200=7898", "+100=79980"],
      ["-1200=61246", "-11773=494730"],
      ["-1200=61246", "-11773=4973"],
      ["-1200=61246", "+100=61346000"],
    ]
    for (const [before = "", last = ""] of impossible) {
      const shares = [write(before, { date: "2026-02-17" }), write(last)]
      for (const lines of [shares, shares.toReversed()]) {
        const [[column, , published, found] = [], ...others] = doubtsOf({ shares: lines })
        assert.deepStrictEqual([column, published, found, others], ["common_shares_amount", null, reason, []], last)
        assert.isNull(commonShares(...lines), last)
      }
    }
  })

  it("may be alone on its day after transactions that are not reported (decision 0100)", () => {
    const possible = [
      // Acquired some shares, moved most of them into a trust, moved all of them, sold what was acquired before.
      ["+10=900", "-100=850", "850"],
      ["-10=20000", "-100=1050", "1050"],
      ["-10=900000", "-100=0", "0"],
      ["-10=900", "+100=1300", "1300"],
      ["-10=900", "-1000=300", "300"],
      // The direction is wrong, but the code is right.
      ["-10=900", "+100=800", "800"],
    ]
    for (const [before = "", last = "", amount] of possible) {
      const isMarkedWrong = last === "+100=800"
      const shares = [write(before, { date: "2026-02-17" }), write(last, isMarkedWrong ? { code: "S" } : {})]
      assert.strictEqual(commonShares(...shares), amount, last)
      assert.deepStrictEqual(doubtsOf({ shares }), [])
    }
    // The first amount confirms the last one, so the one in between is wrong.
    const days = [["-10=9000", "16"], ["-100=89000", "17"], ["-100=8800", "18"]] as const
    assert.strictEqual(commonShares(...days.map(([line, day]) => write(line, { date: `2026-02-${day}` }))), "8800")
  })

  it("is the last line if the lines do not state how many shares were traded (decision 0100)", () => {
    const date = "2026-02-19"
    assert.strictEqual(commonShares(trade({ held: "800", date }), trade({ held: "500", date })), "500")
    // The code shows that these transactions, although marked as acquisitions, are sales.
    const lines = ["+100=900", "+100=800"].map((line) => write(line, { code: "S" }))
    assert.strictEqual(commonShares(...lines), "800")
    // A wrong code makes no difference if nothing else is wrong.
    const sales = ["+200=700", "-100=600", "-150=450"].map((line) => write(line, { code: "P" }))
    assert.strictEqual(commonShares(...sales), "450")
    assert.strictEqual(commonShares(...sales.toReversed()), "450")
  })

  it("is found in a form with as many lines as a table may have (decision 0100)", () => {
    const lines = Array.from({ length: 1000 }, (_, index) => write(`+${index % 7 + 1}=${10_000 + 4 * index}`))
    assert.isNull(commonShares(...lines))
    const ordered = Array.from({ length: 1000 }, (_, index) => write(`+3=${3 * (index + 1)}`))
    assert.strictEqual(commonShares(...ordered.toReversed()), "3000")
    const circles = Array.from({ length: 499 }, () => [write("-5=0"), write("+5=5")]).flat()
    assert.strictEqual(commonShares(write("+7=7"), ...circles), "7")
  })

  it("is that of each security: common and preferred shares, and derivatives with their underlying shares", () => {
    const option = { title: "Stock Option", price: "3.74", date: "2026-02-19", direction: "D", code: "M" }
    const row = firstRow({
      shares: [
        write("-300=500"),
        write("+1=11", { title: "Series A Preferred Stock" }),
        write("+200=800"),
        write("+10=10", { title: "Series A Preferred Stock" }),
      ],
      derivatives: [
        derivativeTrade({ ...option, traded: "10", underlying: "10", held: "30" }),
        derivativeTrade({ ...option, traded: "10", underlying: "10", held: "40" }),
      ],
    })
    assert.deepInclude(row, { common_shares_amount: "500", preferred_shares_amount: "11", options_amount: "30" })
    // Filers sometimes mark exercises as acquisitions of options.
    const wrong = ["40", "30"].map((held) =>
      derivativeTrade({ ...option, direction: "A", traded: "10", underlying: "10", held })
    )
    assert.strictEqual(options(...wrong), "30")
  })

  it("is found although filers round amounts to whole shares (decision 0100)", () => {
    assert.strictEqual(commonAfter("+10.4=110", "+5.3=116"), "116")
    assert.strictEqual(commonAfter("+5.3=116", "+10.4=110"), "116")
  })
})

describe("Two spellings", () => {
  /** Reads a form that lists two transactions of the same position, newest first. */
  const amountOf = (first: Line, second: Line) =>
    commonShares(write("-300=500", second), write("+100=800", { date: "2026-02-10", ...first }))

  it("of one class of shares are one holding, and not a sum (decision 0100)", () => {
    const spellings = [
      "Common Stock",
      "Common Stock, par value $0.001",
      "COMMON STOCK, $.01 PAR VALUE",
      "Common Stock, par value $0.0001 per share",
      "Common stock (par value US$0.01 per share)",
      "Common Stock, no par value",
      "Common Stock.",
      "Shares of Common Stock",
      "Common Stock of the Issuer",
      "the Issuer&apos;s Common Stock",
      "Common Shares",
      "Acme Inc. Common Stock",
      "Common Stock (the &quot;Shares&quot;)",
      "Common Stock (1)",
      "Common Stock (see footnote 1)",
      "Common Stock $0.001 Par Value",
      "$.01 Par Value Common Stock",
      "Common Stock, par value EUR 0.01 each",
      "Common Stock, no-par value",
      "Common Stock, 1 cent par",
    ]
    for (const title of spellings) assert.strictEqual(amountOf({ title }, {}), "500", title)
    const ofClass = [
      "Class A Common Stock",
      "Cl. A Common Stock",
      "Common Stock, Class A",
      "Class &quot;A&quot; Common",
    ]
    for (const title of ofClass) {
      assert.strictEqual(amountOf({ title }, { title: "Class A Common Stock, par value $0.01" }), "500", title)
    }
  })

  it("of one nature of ownership are one holding (decision 0100)", () => {
    for (
      const nature of [
        "By Trust",
        "By trust.",
        "Trust",
        "by  the Trust",
        "Held in Trust",
        "(By Trust)",
        "Indirect - by trust",
      ]
    ) {
      assert.strictEqual(amountOf({ nature }, { nature: "By Trust" }), "500", nature)
    }
    for (const nature of ["By 401(k)", "401(k) Plan", "By 401-k plan"]) {
      assert.strictEqual(amountOf({ nature }, { nature: "401(k)" }), "500", nature)
    }
    assert.strictEqual(amountOf({ nature: "By wife" }, { nature: "By Spouse" }), "500")
    const marked = { nature: "By Trust (see footnote 1)" }
    assert.strictEqual(amountOf(marked, { nature: "By Trust", footnotes: ["F1"] }), "500")
  })

  it("of several classes, series or holders are several holdings (decision 0100)", () => {
    const titles = [
      ["Class A Common Stock", "Class B Common Stock"],
      ["Common Stock", "Class B Common Stock"],
      ["Common Stock", "Non-Voting Common Stock"],
      ["Series A Common Stock", "Series C Common Stock"],
      ["Multiple Voting Shares", "Subordinate Voting Shares"],
    ]
    for (const [first, second] of titles) {
      assert.strictEqual(amountOf({ title: first ?? "" }, { title: second ?? "" }), "1300", `${first}, ${second}`)
    }
    const natures = [
      ["By Spouse", "By Son"],
      ["By Trust A", "By Trust B"],
      ["By Trust I", "By Trust II"],
      ["By Doe Family, L.P.", "By Doe Family, LLC"],
    ]
    for (const [first, second] of natures) {
      assert.strictEqual(amountOf({ nature: first ?? "" }, { nature: second ?? "" }), "1300", `${first}, ${second}`)
    }
    assert.strictEqual(amountOf({}, { nature: "By Trust" }), "1300", "held directly, and by a trust")
    // Neither position continues the amounts of the other one.
    for (const nature of ["By Family Trust", "By Spouse&apos;s Trust"]) {
      const shares = [write("-300=500", { nature: "By Trust" }), write("+100=900", { nature })]
      assert.strictEqual(commonShares(...shares), "1400", nature)
    }
    // Two trusts hold and sell the same amounts.
    const twins = ["By Trust", "By Family Trust"].flatMap((nature) => [
      write("-100=900", { nature, date: "2026-02-09" }),
      write("-100=800", { nature, date: "2026-02-10" }),
    ])
    assert.strictEqual(commonShares(...twins), "1600")
    // A transfer from one position to another.
    const transfer = [write("-100=500", { nature: "By Trust" }), write("+100=600", { nature: "By Family Trust" })]
    assert.strictEqual(commonShares(...transfer), "1100")
    const preferred = ["Series A Preferred Stock", "Series A-1 Preferred Stock"].map((title) =>
      trade({ title, held: "10" })
    )
    assert.strictEqual(firstRow({ shares: preferred })["preferred_shares_amount"], "20")
  })

  it("that may be one position or two make the amount unknown, which is said (decision 0100)", () => {
    const cases: ReadonlyArray<readonly [first: Line, second: Line]> = [
      [{ title: "Voting Common Stock" }, {}],
      [{ nature: "By Trust (1)" }, { nature: "By Trust" }],
      [{ nature: "By Wife Trust" }, { nature: "By Husband Trust" }],
      [{ nature: "By Spouse&apos;s Trust" }, { nature: "By Wife&apos;s Trust" }],
      [{ nature: "By Trust fbo Mary of John" }, { nature: "By John Trust fbo Mary" }],
    ]
    for (const [first, second] of cases) {
      const shares = [write("-300=500", second), write("+100=800", first)]
      assert.isNull(commonShares(...shares))
      assert.deepStrictEqual(doubtsOf({ shares }), [["common_shares_amount", "500 and 800", null, isUnclearPosition]])
    }
    const shares = [write("+100=800"), holding({ held: "500", title: "Common Stock, par value $0.001" })]
    assert.deepStrictEqual(doubtsOf({ shares }), [["common_shares_amount", "800 and 500", null, isUnclearPosition]])
  })

  it("with additional words make the amount unknown if one continues the amounts of the other (decision 0100)", () => {
    const titles = [
      "Common Stock USD 0.01",
      "Common Stock - Restricted",
      "Restricted Common Stock",
      "Common Stock 401k",
    ]
    for (const title of titles) assert.isNull(amountOf({ title }, {}), title)
    const natures = [
      ["By Family Trust", "By Trust"],
      ["By Trust", "By Spouse&apos;s Trust"],
      ["By Trustee", "By Trust"],
      ["As trustee of trust", "By Trust"],
      ["By the Doe Family Trust dtd 1/1/2000", "By Doe Family Trust"],
      ["Jointly with Spouse", "Joint with spouse"],
    ]
    for (const [first = "", second = ""] of natures) {
      assert.isNull(amountOf({ nature: first }, { nature: second }), `${first}, ${second}`)
    }
    assert.strictEqual(amountOf({ nature: "By IRA" }, { nature: "By Individual Retirement Account" }), "500")
    const shares = [write("-300=500"), write("+100=800", { title: "Restricted Common Stock" })]
    assert.deepStrictEqual(doubtsOf({ shares }), [["common_shares_amount", "500 and 800", null, isUnclearPosition]])
  })

  it("of the terms of one option are one grant, and different terms or underlying classes are two (decision 0100)", () => {
    const grant = (line: Line) =>
      derivativeTrade({ title: "Stock Option (Right to Buy)", price: "8.88", traded: "10", underlying: "10", ...line })
    const rest = { title: "Employee stock options", price: "8.88", held: "50" }
    assert.strictEqual(options(grant({ held: "60" }), grant({ held: "50", price: "8.880" })), "50")
    const dates = ["2030-01-31", "2030-01-31-05:00"].map((expiration, index) =>
      grant({ held: String(60 - index), expiration })
    )
    assert.strictEqual(options(...dates), "59")
    assert.isNull(options(grant({ held: "60" }), grant(rest)))
    assert.strictEqual(options(grant({ held: "60" }), grant({ held: "50", price: "9" })), "110")
    const [a, b] = ["Class A Common Stock", "Class B Common Stock"]
    assert.strictEqual(
      options(grant({ held: "60", underlyingTitle: a }), grant({ held: "50", underlyingTitle: b })),
      "110",
    )
    assert.strictEqual(
      options(grant({ held: "60", underlyingTitle: a }), grant({ held: "50", underlyingTitle: "Cl A Common" })),
      "50",
    )
  })
})

describe("The amount of other securities in Forms 3, 4 and 5", () => {
  it("counts what remains after a transaction if one derivative gives one share", () => {
    const grants = ["3.74", "8.88"].map((price) =>
      derivativeTrade({ title: "Stock Option", price, held: "50", traded: "10", underlying: "10" })
    )
    assert.strictEqual(options(...grants), "100")
  })

  it("counts grants separately if the footnotes in place of their dates differ", () => {
    const grants = ["F1", "F2"].map((exercise) =>
      derivativeTrade({ title: "Stock Option", exercise, held: "50", traded: "10", underlying: "10" })
    )
    assert.strictEqual(options(...grants), "100")
  })

  it("is unknown if a derivative gives more or less than one share, unless none remains", () => {
    const line = { title: "Stock Option", traded: "10", underlying: "100" }
    assert.isNull(options(derivativeTrade({ ...line, held: "50" })))
    assert.strictEqual(options(derivativeTrade({ ...line, held: "0" })), "0")
  })

  it("counts the underlying shares of a holding", () => {
    const row = firstRow({
      derivatives: [
        derivativeHolding({ title: "Warrants", underlying: "10" }),
        derivativeHolding({ title: "Convertible Notes", underlying: "20" }),
        derivativeHolding({ title: "Class B Common Stock", underlying: "30" }),
        derivativeHolding({ title: "Restricted Stock Units", underlying: "40" }),
      ],
    })
    assert.deepInclude(row, {
      common_shares_amount: null,
      options_amount: null,
      warrants_amount: "10",
      shares_underlying_convertibles: "50",
    })
  })

  it("counts preferred shares in both tables, without the shares that they convert into", () => {
    const row = firstRow({
      shares: [holding({ title: "Series A Preferred Stock", held: "7" })],
      derivatives: [
        derivativeTrade({ title: "Series B Convertible Preferred", held: "5", traded: "1", underlying: "10" }),
      ],
    })
    assert.deepInclude(row, { preferred_shares_amount: "12", shares_underlying_convertibles: null })
  })
})

describe("Titles of securities", () => {
  it("determine the kind of derivatives", () => {
    const titles = {
      "Employee Stock Option (rights to buy)": "option",
      "Call Option (right to buy)": "option",
      "Pre-Funded Warrants": "warrant",
      "Warrant (right to purchase Preferred Stock)": "warrant",
      "5% Convertible Senior Notes due 2030": "convertible",
      "Series E Preferred Stock": "convertible",
      "Class B Common Stock": "convertible",
      "Put Option (right to sell)": undefined,
      "Call Option (written)": undefined,
      "Call option sold": undefined,
      "Call Option (obligation to sell)": undefined,
      "Option to purchase Warrants": undefined,
      "Stock Appreciation Right": undefined,
      "Phantom Stock": undefined,
      "Restricted Stock Units": undefined,
      "Total Return Swap": undefined,
    }
    assert.deepStrictEqual(
      Object.keys(titles).map((title) => [title, classifyDerivativeByTitle(title)]),
      Object.entries(titles),
    )
  })
})

describe("Owners in Forms 3, 4 and 5", () => {
  it("have the closest relationship as their type", () => {
    const typeOf = (...flags: ReadonlyArray<string>) =>
      firstRow({ owners: owner(flags.map((flag) => `<${flag}>true</${flag}>`).join("")) })["owner_type"]
    assert.strictEqual(typeOf("isTenPercentOwner", "isDirector", "isOfficer"), "executive")
    assert.strictEqual(typeOf("isTenPercentOwner", "isDirector"), "director")
    assert.strictEqual(typeOf("isTenPercentOwner"), "ten_percent_owner")
    assert.isNull(typeOf("isOther"))
  })

  it("have no title that refers to another part of the document", () => {
    const titleOf = (title: string) =>
      firstRow({ owners: owner(`<isOfficer>1</isOfficer><officerTitle>${title}</officerTitle>`) })["title"]
    assert.strictEqual(titleOf("President &amp;\n CEO"), "President & CEO")
    assert.isNull(titleOf("See Remarks"))
    assert.isNull(titleOf(""))
  })

  it("have the amounts only in the row of the first of several owners, so that a sum counts them once", () => {
    const rows = rowsOf({ owners: `${owner("")}${owner("", "8")}`, shares: [trade({ held: "80" })] })
    assert.deepStrictEqual(
      rows.map(({ common_shares_amount, owner_cik }) => [owner_cik, common_shares_amount]),
      [["0000000007", "80"], ["0000000008", null]],
    )
  })

  it("report the date of the latest transaction as the date of their holdings, even if dates have an offset", () => {
    const shares = [trade({ held: "1", date: "2026-02-23" }), trade({ held: "1", date: "2026-02-20-05:00" })]
    const row = firstRow({ period: "2026-02-19-05:00", shares })
    assert.deepInclude(row, { event_date: "2026-02-19", reported_date: "2026-02-23" })
  })
})

describe("Dates in Forms 3, 4 and 5", () => {
  const dated = (...dates: ReadonlyArray<string>) => dates.map((date, index) => write(`+1=${index + 1}`, { date }))
  const reportedDate = (form: Form) => firstRow(form)["reported_date"]

  it("are not believed after the filing or long before it: the period counts, which is said (decision 0103)", () => {
    const cases = [
      ["2035-01-10", "is after the filing"],
      ["2026-09-11", "is after the filing"],
      ["0022-02-10", "is ten years or more before the filing"],
      ["2016-09-10", "is ten years or more before the filing"],
      ["1926-02-19", "is ten years or more before the filing"],
      // The report's period is 2026-02-19, which is the date of the first transaction.
      ["2025-02-19", "is a year or more before the period of the report"],
      ["2016-09-11", "is a year or more before the period of the report"],
      ["2025-02-20", "is before the period of the report by its year"],
      ["2025-09-10", "is before the period of the report by its year"],
    ] as const
    for (const [date, reason] of cases) {
      const shares = dated(date)
      assert.strictEqual(reportedDate({ shares }), "2026-02-19", date)
      assert.deepStrictEqual(doubtsOf({ shares }), [["reported_date", date, "2026-02-19", reason]])
    }
    // The helper dates all filings 2026-09-10. A late form may be filed years after its transactions.
    for (const date of ["2026-09-10", "2016-09-11", "2019-01-31"]) {
      const form = { period: date, shares: dated(date) }
      assert.strictEqual(reportedDate(form), date)
      assert.deepStrictEqual(doubtsOf(form), [])
    }
    // Filers sometimes take a different transaction for the first one. The period of a Form 5 is the end of a fiscal
    // year.
    for (
      const form of [{ shares: dated("2025-09-11") }, { shares: dated("2026-02-18") }, {
        shares: dated("2024-05-01"),
        type: "5" as const,
      }]
    ) {
      assert.deepStrictEqual(doubtsOf(form), [])
    }
  })

  it("are null if the period is not believed either (decision 0103)", () => {
    const form = { period: "2035-01-10", shares: dated("2035-01-10") }
    assert.deepInclude(firstRow(form), { reported_date: null, event_date: null })
    assert.deepStrictEqual(doubtsOf(form), [
      ["reported_date", "2035-01-10", null, "is after the filing"],
      ["event_date", "2035-01-10", null, "is after the filing"],
    ])
    assert.deepInclude(firstRow({ period: "0022-02-10" }), { reported_date: null, event_date: null })
    assert.deepInclude(firstRow({ period: "2062-01-31", type: "5" }), { reported_date: null, event_date: null })
    assert.deepInclude(firstRow({ period: "2035-01-10", shares: dated("2026-02-19") }), {
      reported_date: "2026-02-19",
      event_date: null,
    })
  })

  it("with a year typed wrongly do not decide which transaction is the last one (decision 0100)", () => {
    const shares = [write("-100=900", { date: "2026-03-01" }), write("-100=800", { date: "2025-03-02" })]
    assert.deepInclude(firstRow({ period: "2026-03-02", shares }), { common_shares_amount: "800" })
    assert.deepStrictEqual(doubtsOf({ period: "2026-03-02", shares }), [
      ["reported_date", "2025-03-02", "2026-03-02", "is a year or more before the period of the report"],
    ])
    // The period is the date of the first sale. The second sale took place a day later.
    const later = [write("-100=900", { date: "2026-03-02" }), write("-100=800", { date: "2025-03-03" })]
    for (const shares of [later, later.toReversed()]) {
      assert.deepInclude(firstRow({ period: "2026-03-02", shares }), { common_shares_amount: "800" })
      assert.deepStrictEqual(doubtsOf({ period: "2026-03-02", shares }), [
        ["reported_date", "2025-03-03", "2026-03-02", "is before the period of the report by its year"],
      ])
    }
  })

  it("of a period whose year is earlier than that of all transactions are null, which is said (decision 0103)", () => {
    const shares = dated("2026-02-18", "2026-02-19")
    for (const [period, reason] of [["2025-02-18", "a year or more before"], ["2025-03-18", "before"]] as const) {
      assert.deepInclude(firstRow({ period, shares }), { event_date: null, reported_date: "2026-02-19" })
      const said = `is ${reason} the first transaction${reason === "before" ? " by its year" : ""}`
      assert.deepStrictEqual(doubtsOf({ period, shares }), [["event_date", period, null, said]])
    }
    // Filers may report an earlier transaction late, and the period of a Form 5 is the end of a year.
    assert.deepInclude(firstRow({ period: "2026-02-10", shares }), { event_date: "2026-02-10" })
    assert.deepStrictEqual(doubtsOf({ period: "2025-01-31", type: "5", shares }), [])
  })

  it("that are believed count beside others that are not (decision 0103)", () => {
    const shares = dated("2026-02-23", "2035-01-10", "0022-02-10")
    assert.strictEqual(reportedDate({ shares }), "2026-02-23")
    assert.deepStrictEqual(doubtsOf({ shares }), [[
      "reported_date",
      "2035-01-10 and 0022-02-10",
      "2026-02-23",
      "is after the filing and is ten years or more before the filing",
    ]])
  })

  it("that are not believed do not order transactions; their amounts do (decision 0100)", () => {
    const lines = [
      write("-300=500", { date: "2026-02-12" }),
      write("+200=800", { date: "2035-02-11" }),
      write("+100=600", { date: "2026-02-10" }),
    ]
    assert.strictEqual(commonShares(...lines), "500")
    assert.strictEqual(commonShares(...lines.toReversed()), "500")
    assert.isNull(commonShares(...lines.toSpliced(1, 1, write("+200=801", { date: "2035-02-11" }))))
  })
})

describe("Amendments of Forms 3, 4 and 5", () => {
  const placeholder = { owner_name: null, owner_cik: null, common_shares_amount: null, event_date: null }
  const reason = "is in an amendment without transactions, which states only a part of the holdings"

  it("are placeholders, which never hide the form that they amend, and their amounts are said (§2.7)", () => {
    const shares = [holding({ held: "500", nature: "By Trust" })]
    for (const type of ["3/A", "4/A", "5/A"]) {
      const rows = rowsOf({ type, shares, owners: `${owner("")}${owner("", "8")}` })
      assert.strictEqual(rows.length, 1)
      assert.deepInclude(rows[0], { ...placeholder, form_type: type, source: [`${documentUrl}#reportingOwner[1]`] })
      const stated = [
        ["common_shares_amount", "500"],
        ["event_date", "2026-02-19"],
        ["owner_cik", "0000000007"],
        ["owner_name", "Doe Jane"],
      ].filter(([column]) => column !== "event_date" || type !== "5/A")
      assert.sameDeepMembers(doubtsOf({ type, shares }), stated.map((one) => [...one, null, reason]))
    }
    const derivatives = [derivativeHolding({ title: "Warrants", underlying: "10" })]
    assert.deepInclude(rowsOf({ type: "4/A", derivatives })[0], placeholder)
    // An amendment may have no lines at all, for example if it only corrects a remark.
    assert.deepInclude(rowsOf({ type: "4/A" })[0], placeholder)
  })

  it("are no placeholders if they have transactions or say that nothing is held, nor are original forms (§2.7)", () => {
    const corrected = { type: "4/A", shares: [write("+100=600")] }
    assert.deepInclude(firstRow(corrected), { common_shares_amount: "600" })
    assert.deepInclude(firstRow({ type: "3/A", ownsNothing: true }), { common_shares_amount: "0" })
    assert.deepInclude(firstRow({ type: "3", shares: [holding({ held: "500" })] }), { common_shares_amount: "500" })
    assert.deepInclude(firstRow({ type: "4", shares: [holding({ held: "500" })] }), { common_shares_amount: "500" })
  })

  it("with transactions have doubtful amounts, because they need not repeat other positions (§2.7)", () => {
    const corrected = { shares: [write("+10=510", { nature: "By Trust" })] }
    const marked = "is in an amendment, which may leave out positions of the original form"
    assert.deepStrictEqual(doubtsOf({ ...corrected, type: "4/A" }), [["common_shares_amount", "510", "510", marked]])
    assert.deepStrictEqual(doubtsOf({ ...corrected, type: "4" }), [])
  })
})

describe("Reporting persons in Schedules 13D and 13G", () => {
  it("have a type only if they hold more than five or more than ten percent", () => {
    const percentages = ["10.01", "10.0", "5.1", "5", "0"]
    const rows = schedule("Common Stock", ...percentages.map((percent) => ({ percent })))
    assert.deepStrictEqual(rows.map(({ owner_type }) => owner_type), [
      "ten_percent_owner",
      "five_percent_owner",
      "five_percent_owner",
      null,
      null,
    ])
  })

  it("have percentages as fractions with four decimals, rounded half up", () => {
    const rows = ["6.125", "6.1249", "100"].flatMap((percent) => schedule("Common Stock", { percent }))
    assert.deepStrictEqual(rows.map((row) => row["percent_of_class"]), ["0.0613", "0.0612", "1.0000"])
  })

  it("have their amount in the column for the kind of shares, or in none", () => {
    const amountsOf = (title: string) =>
      schedule(title, { amount: "5.9" }).map((row) => [row["common_shares_amount"], row["preferred_shares_amount"]])
    assert.deepStrictEqual(amountsOf("Ordinary Shares"), [["5", null]])
    assert.deepStrictEqual(amountsOf("Series A Preferred Stock"), [[null, "5"]])
    assert.deepStrictEqual(amountsOf("American Depositary Shares"), [[null, null]])
  })
})

/** Returns the elements for a person's voting and dispositive power. */
const power = (sole: string, shared: string, dispositive = "0") =>
  `<soleVotingPower>${sole}</soleVotingPower><sharedVotingPower>${shared}</sharedVotingPower>` +
  `<soleDispositivePower>0</soleDispositivePower><sharedDispositivePower>${dispositive}</sharedDispositivePower>`

describe("A Schedule 13D or 13G that contradicts itself", () => {
  const makeReader = (xml: string, form: string) => {
    const { doubts, rows } = Result.getOrThrow(readFilingWithDoubts(xml, form, cik))
    return {
      values: rows.map((row) => [row["common_shares_amount"], row["percent_of_class"]]),
      doubted: doubts.map(({ column, url }) => `${column} ${url.match(/\[(\d+)\]/)?.[1]}`),
    }
  }
  const first = (...persons: ReadonlyArray<Person>) =>
    makeReader(writeSchedule("Common Stock", ...persons), "SCHEDULE 13D")
  const amended = (...persons: ReadonlyArray<Person>) =>
    makeReader(writeSchedule("Common Stock", ...persons).replace("E 13D<", "E 13D/A<"), "SCHEDULE 13D/A")
  const good = { amount: "7500000", percent: "7.5" }

  it("leaves out an amount that is less than the shares that the person can vote or sell (decision 0100)", () => {
    for (const amount of ["7500", "7", "0", "7499990"]) {
      for (const rest of [power("0", "7500000"), power("7500000", "0"), power("0", "4000", "7500000")]) {
        const { doubted, values } = first({ ...good, amount, rest })
        assert.isNull(values[0]?.[0], amount)
        assert.include(doubted, "common_shares_amount 1")
      }
    }
    const more = first({ ...good, rest: power("7500000", "7500000") })
    assert.deepStrictEqual(more.values, [[null, "0.0750"]])
    assert.deepStrictEqual(more.doubted, ["common_shares_amount 1", "sole_voting_shares 1", "shared_voting_shares 1"])
    const partial = `${power("7500000", "1")}<isAggregateExcludeShares>Y</isAggregateExcludeShares>`
    const rounded = power("3750000.6", "3750000.6", "7500000")
    for (const rest of [partial, rounded]) assert.deepStrictEqual(first({ ...good, rest }).doubted, [])
  })

  it("leaves out a percentage that contradicts those of most other persons (decision 0100)", () => {
    const others = [good, { amount: "9000000", percent: "9.0" }, { amount: "59", percent: "0.0" }]
    assert.deepStrictEqual(first(...others).doubted, [])
    for (const percent of ["0.75", "75", "0.075", "0"]) {
      const { doubted, values } = first(...others, { ...good, percent })
      assert.deepStrictEqual(values.at(-1), ["7500000", null], percent)
      assert.deepStrictEqual(doubted, ["percent_of_class 4"])
    }
    const thousands = first(...others, { amount: "7500", percent: "7.5" })
    assert.deepStrictEqual(thousands.doubted, ["common_shares_amount 4", "percent_of_class 4"])
    const two = first(good, { ...good, percent: "75" })
    assert.deepStrictEqual(two.values, [["7500000", null], ["7500000", null]])
  })

  it("leaves out an amount that is far more than the shares that the persons can vote or sell (decision 0100)", () => {
    const rest = power("0", "7500000", "7500000")
    for (const amount of ["75000000", "7500000000"]) {
      const { doubted, values } = amended({ ...good, amount, rest })
      assert.deepStrictEqual(values, [[null, "0.0750"]])
      assert.deepStrictEqual(doubted, ["common_shares_amount 1", "shared_voting_shares 1"])
    }
    const thousands = amended({ ...good, rest: power("7500", "0", "7500") })
    assert.deepStrictEqual(thousands.doubted, ["common_shares_amount 1", "sole_voting_shares 1"])
    // Votes and dispositive power over different shares, a group whose members state its amount, and persons who do not
    // state their powers.
    assert.deepStrictEqual(amended({ ...good, rest: power("0", "4000000", "3500000") }).doubted, [])
    const members = ["2500000", "5000000"].map((votes) => ({ ...good, rest: power(votes, "0", votes) }))
    assert.deepStrictEqual(amended(...members).doubted, [])
    assert.deepStrictEqual(amended({ ...good, rest: power("0", "0", "0") }, good).doubted, [])
  })

  it("leaves out a percentage that is nearly zero beside millions of shares (decision 0100)", () => {
    for (const percent of ["0", "0.0", "0.075"]) {
      assert.deepStrictEqual(amended({ ...good, percent }).values, [["7500000", null]])
    }
    for (const amount of ["59", "75000"]) assert.deepStrictEqual(amended({ amount, percent: "0.0" }).doubted, [])
  })

  it("is not hidden by persons without shares, or with too few for a percentage (decision 0100)", () => {
    for (const silent of [{ amount: "0", percent: "0" }, { amount: "1000", percent: "0.0" }]) {
      for (const percent of ["0.75", "75"]) {
        const { values } = amended(good, { ...good, percent }, silent)
        assert.deepStrictEqual(values.slice(0, 2), [["7500000", null], ["7500000", null]])
      }
      const thousands = amended(good, good, { amount: "7500", percent: "7.5" }, silent, silent)
      assert.deepStrictEqual(thousands.doubted, ["common_shares_amount 3", "percent_of_class 3"])
      assert.deepStrictEqual(amended(good, silent, silent).doubted, [])
      assert.deepStrictEqual(amended(silent, silent).doubted, [])
    }
  })

  it("doubts the amount of a class whose title may be that of common or preferred shares (decision 0100)", () => {
    const kindDoubt = "is of a class whose title does not say whether it is common or preferred shares"
    const read = (title: string) => {
      const xml = writeSchedule(title, { amount: "700" })
      return Result.getOrThrow(readFilingWithDoubts(xml, "SCHEDULE 13D", cik))
    }
    for (const title of ["Common Stock &amp; Preferred Stock", "Series B Stock"]) {
      const { doubts, rows } = read(title)
      assert.deepStrictEqual(
        rows.map((row) => [row["common_shares_amount"], row["preferred_shares_amount"]]),
        [[null, null]],
      )
      assert.deepStrictEqual(doubts.map(({ column, read, reason }) => [column, read, reason]), [
        ["common_shares_amount", "700", kindDoubt],
        ["preferred_shares_amount", "700", kindDoubt],
      ])
    }
    for (
      const rest of ["issuable upon exercise of Warrants", "par value $0.01 per share, underlying Convertible Notes"]
    ) {
      assert.lengthOf(read(`Common Stock, ${rest}`).doubts, 2)
    }
    const named = writeSchedule("Unit Corporation Common Stock", { amount: "700" })
      .replace("</issuerCIK>", "$&<issuerName>UNIT CORP</issuerName>")
    const [row] = Result.getOrThrow(readFiling(named, "SCHEDULE 13D", cik))
    assert.strictEqual(row?.["common_shares_amount"], "700")
    const shares = [trade({ held: "500", title: "Unit Corporation Common Stock" })]
    assert.strictEqual(firstRow({ issuerName: "Unit Corp", shares })["common_shares_amount"], "500")
    // The title shows that this amount is not a number of shares.
    assert.deepStrictEqual(read("Common Units").doubts, [])
  })

  it("leaves out percentages of less than five in a first schedule, and a percentage of no shares (decision 0100)", () => {
    for (const percent of ["0.075", "0", "4.5"]) {
      assert.deepStrictEqual(first({ ...good, percent }).values, [["7500000", null]])
    }
    assert.deepStrictEqual(amended({ ...good, percent: "4.5" }).doubted, [])
    const group = [{ amount: "3000000", percent: "3" }, { amount: "2000000", percent: "2.0" }]
    assert.deepStrictEqual(first(...group).doubted, [])
    assert.deepStrictEqual(amended({ amount: "0", percent: "7.5" }).values, [[null, null]])
    assert.deepStrictEqual(amended({ amount: "0", percent: "0.0" }).doubted, [])
  })

  /** A person of a random schedule, which is valid if the percentages and powers follow from the amounts. */
  interface Numbers {
    readonly amount: number
    readonly percent: number
    readonly power: number
  }

  const errors = {
    "a percentage ten times too great": (person: Numbers) => ({ ...person, percent: 10 * person.percent }),
    "a percentage ten times too small": (person: Numbers) => ({ ...person, percent: person.percent / 10 }),
    "a fraction for a percentage": (person: Numbers) => ({ ...person, percent: person.percent / 100 }),
    "a percentage of 0": (person: Numbers) => ({ ...person, percent: 0 }),
    "an amount in thousands": (person: Numbers) => ({ ...person, amount: person.amount / 1000 }),
    "an amount ten times too great": (person: Numbers) => ({ ...person, amount: 10 * person.amount }),
    "powers in thousands": (person: Numbers) => ({ ...person, power: person.power / 1000 }),
    "powers ten times too great": (person: Numbers) => ({ ...person, power: 10 * person.power }),
  } satisfies { readonly [error: string]: (person: Numbers) => Numbers }

  const percentage = Schema.Int.check(Schema.isBetween({ minimum: 60, maximum: 99 }))
  const RandomHolders = Schema.Array(percentage).check(Schema.isMinLength(1), Schema.isMaxLength(5))

  for (const [error, change] of Object.entries(errors)) {
    it.prop(`never publishes ${error} without a doubt (decision 0100)`, [RandomHolders, percentage], ([
      tenths,
      choice,
    ]) => {
      const right = tenths.map((tenth) => ({ amount: tenth * 500_000, percent: tenth / 10, power: tenth * 500_000 }))
      // Nothing else than another person shows that a percentage of a single person is too great or small.
      const persons = error.startsWith("a percentage ten") && right.length === 1 ? [...right, ...right] : right
      const wrong = choice % persons.length
      // With powers in thousands, only the powers of one person differ from the amounts.
      const chosen = error === "powers in thousands" ? persons.slice(wrong, wrong + 1) : persons
      const { doubted } = amended(...chosen.map((person, index) => {
        const { amount, percent, power: shares } = chosen.length === 1 || index === wrong ? change(person) : person
        const rest = power("0", String(Math.round(shares)), String(Math.round(shares)))
        return { amount: String(Math.round(amount)), percent: percent.toFixed(2), rest }
      }))
      assert.isNotEmpty(doubted)
    })
  }

  const share = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 100_000 }))
  const RandomPersons = Schema.Array(Schema.Struct({ sole: share, shared: share, dispositive: share }))
    .check(Schema.isMinLength(1), Schema.isMaxLength(6))

  it.prop("has no doubts if its numbers agree (decision 0100)", [RandomPersons, Schema.Literals([0, 1, 2])], (
    [persons, digits],
  ) => {
    const size = 500_000
    const { doubted } = amended(...persons.map(({ dispositive, shared, sole }) => {
      const amount = Math.max(sole + shared, dispositive)
      return {
        amount: String(amount),
        percent: (100 * amount / size).toFixed(digits),
        rest: power(String(sole), String(shared), String(dispositive)),
      }
    }))
    assert.deepStrictEqual(doubted, [])
  })
})

describe("Misplaced elements", () => {
  const name = "<rptOwnerName>Doe Jane</rptOwnerName>"
  const reasonWith = (replacement: string) => reasonOf(writeForm().replace(name, replacement))

  it("never become part of a value", () => {
    const reason = "has no holder with a name"
    assert.strictEqual(reasonWith("<rptOwnerName>Doe<b>12 Main Street</b></rptOwnerName>"), reason)
    assert.strictEqual(reasonWith(name.repeat(2)), reason)
    assert.strictEqual(reasonWith(`<rptOwnerName xmlns="urn:other">Doe Jane</rptOwnerName>`), reason)
  })

  it("never give a CIK to a person who is marked as having none, even if there is a CIK of zeros", () => {
    const xml = writeSchedule("Common Stock", { cik: "0000000000" })
    const marked = xml.replace("<reportingPersonCIK>", "<reportingPersonNoCIK>Y</reportingPersonNoCIK>$&")
    const [row] = Result.getOrThrow(readFiling(marked, "SCHEDULE 13D", cik))
    assert.isNull(row?.["owner_cik"])
  })
})

describe("A value that is not what its element promises", () => {
  const secret = "12 Main Street"

  it("is null and named, and the rest of a Form 3, 4 or 5 stays; no text is repeated (decision 0103)", () => {
    const amount = "has no valid number in sharesOwnedFollowingTransaction"
    const good = write("+1=7", { title: "Series A Preferred Stock" })
    const cases: ReadonlyArray<readonly [form: Form, column: string, read: string, reason: string]> = [
      [{ shares: [trade({ held: secret }), good] }, "common_shares_amount", describeStated([secret]), amount],
      [{ shares: [trade({ held: "-1" }), good] }, "common_shares_amount", "-1", amount],
      [{ shares: [trade({ held: "1e5" }), good] }, "common_shares_amount", describeStated(["1e5"]), amount],
      [{ shares: [trade({ held: "1,000" }), good] }, "common_shares_amount", "1,000", amount],
      [{ shares: [trade({ held: "." }), good] }, "common_shares_amount", ".", amount],
      [
        { owners: owner("", "12345678901"), shares: [good] },
        "owner_cik",
        "12345678901",
        "has no valid CIK in rptOwnerCik",
      ],
      [{ owners: owner("", ""), shares: [good] }, "owner_cik", "", "is missing"],
      [
        { owners: owner(`<officerTitle>${secret.repeat(20)}</officerTitle>`), shares: [good] },
        "title",
        describeStated([secret.repeat(20)]),
        "has more than 250 characters in officerTitle",
      ],
    ]
    for (const [form, column, read, reason] of cases) {
      assert.deepInclude(firstRow(form), { owner_name: "Doe Jane", preferred_shares_amount: "7", [column]: null })
      assert.deepStrictEqual(doubtsOf(form), [[column, read, null, reason]])
      assert.notInclude(read, "Street")
    }
    assert.notStrictEqual(describeStated(["less than one"]), describeStated(["seven and a half"]))
    const dates = ["2026-02-30", "2026-13-01", secret].map((date) => ({ shares: [write("+1=7", { date })] }))
    for (const form of dates) {
      assert.deepInclude(firstRow(form), { common_shares_amount: "7", reported_date: "2026-02-19" })
      assert.deepStrictEqual(doubtsOf(form).map(([column]) => column), ["reported_date"])
    }
    assert.deepStrictEqual(doubtsOf({ period: "2026-02-30" }), [
      ["reported_date", "2026-02-30", null, "has no valid date in periodOfReport"],
      ["event_date", "2026-02-30", null, "has no valid date in periodOfReport"],
    ])
    const tooLong = { shares: Array.from({ length: 1001 }, () => trade({ held: "1" })) }
    assert.deepInclude(firstRow(tooLong), { owner_name: "Doe Jane", common_shares_amount: null })
    assert.deepInclude(doubtsOf(tooLong), [
      "common_shares_amount",
      "1001 lines",
      null,
      "has more than 1000 lines in a table",
    ])
  })

  it("does not matter if the amount is known without it (decision 0103)", () => {
    const shares = [write("+100=600"), write("+1=601", { held: "x" }), write("-1=600")]
    assert.strictEqual(commonShares(...shares), "600")
    assert.deepStrictEqual(doubtsOf({ shares }), [])
  })

  it("is null and named in a Schedule 13D or 13G, and the rest of it stays (decision 0103)", () => {
    const read = (xml: string) => {
      const { doubts, rows } = Result.getOrThrow(readFilingWithDoubts(xml, "SCHEDULE 13D", cik))
      return { rows, doubts: doubts.map(({ column, read, reason, url }) => [url.split("#")[1], column, read, reason]) }
    }
    const xml = writeSchedule("Common Stock", { percent: "101", amount: "5" }, { name: "Other", amount: "9.9.9" })
    const { doubts, rows } = read(xml)
    assert.deepInclude(rows[0], { owner_name: "Fund LP", common_shares_amount: "5", percent_of_class: null })
    assert.isNull(rows[0]?.["owner_type"])
    assert.deepInclude(rows[1], { owner_name: "Other", common_shares_amount: null, percent_of_class: "0.0600" })
    assert.deepStrictEqual(doubts, [
      ["reportingPersonInfo[1]", "percent_of_class", "101", "has more than 100 % in percentOfClass"],
      ["reportingPersonInfo[2]", "common_shares_amount", "9.9.9", "has no valid number in aggregateAmountOwned"],
    ])
    const dates = [
      ["02/19/2062", "2062-02-19", "is after the filing"],
      ["02/19/0206", "0206-02-19", "is ten years or more before the filing"],
      ["02/30/2026", "02/30/2026", "has no valid date in dateOfEvent"],
    ] as const
    for (const [date, stated, reason] of dates) {
      const schedule = read(writeSchedule("Common Stock", {}, { name: "Other" }).replace("02/19/2026", date))
      assert.deepStrictEqual(schedule.rows.map(({ event_date }) => event_date), [null, null])
      assert.deepStrictEqual(
        schedule.doubts,
        [1, 2].map((person) => [`reportingPersonInfo[${person}]`, "event_date", stated, reason]),
      )
    }
    const unnamed = read(writeSchedule("Common Stock", { name: "" }, { cik: "x" }))
    assert.deepStrictEqual(unnamed.rows.map(({ owner_cik, owner_name }) => [owner_name, owner_cik]), [
      [null, "0000000007"],
      ["Fund LP", null],
    ])
    assert.deepStrictEqual(unnamed.doubts, [
      ["reportingPersonInfo[1]", "owner_name", "", "is missing"],
      ["reportingPersonInfo[2]", "owner_cik", describeStated(["x"]), "has no valid CIK in reportingPersonCIK"],
    ])
  })
})

describe("Rejected ownership documents", () => {
  it("are reported with a reason that contains no text of the document", () => {
    const secret = "12 Main Street"
    const cases: ReadonlyArray<readonly [reason: string, xml: string]> = [
      ["is not well-formed XML (line 1)", "Your request rate is too high."],
      ["is not well-formed XML (line 2)", "<html>\n<br></html>"],
      ["is not an ownership document", "<html></html>"],
      ["is not an ownership document", `<ownershipDocument xmlns="http://www.sec.gov/edgar/ownership"/>`],
      ["is not a Schedule 13D or 13G", `<edgarSubmission xmlns="http://www.sec.gov/edgar/ownership"/>`],
      ["is of another form than its filing", writeForm({ type: "3" })],
      ["has no issuer", writeForm({ issuer: "" })],
      ["has no valid CIK in issuerCik", writeForm({ issuer: secret })],
      ["has no holders", writeForm({ owners: "" })],
      ["has no holder with a name", writeForm({ owners: owner("").replace("Doe Jane", secret.repeat(20)) })],
    ]
    assert.deepStrictEqual(cases.map(([, xml]) => reasonOf(xml)), cases.map(([reason]) => reason))
    assert.strictEqual(
      reasonOf(writeSchedule("Common Stock", { name: "" }), "SCHEDULE 13D"),
      "has no holder with a name",
    )
  })

  it("do not include filings about another issuer, which simply have no rows", () => {
    assert.deepStrictEqual(rowsOf({ issuer: "43" }), [])
  })

  it("do not include schedules that the SEC lists as SC 13D instead of SCHEDULE 13D", () => {
    assert.isTrue(Result.isSuccess(readFiling(writeSchedule("Common Stock", {}), "SC 13D", cik)))
  })
})

describe("Forms with owners", () => {
  it("are recognized by their exact names", () => {
    const forms = ["3", "4/A", "5", "SC 13D", "SC 13G/A", "SCHEDULE 13D/A", "SCHEDULE 13G", "424B2", "144", "SC 13E3"]
    assert.deepStrictEqual(forms.filter(isOwnershipForm), ["3", "4/A", "5"])
    assert.deepStrictEqual(forms.filter(isSchedule13), ["SC 13D", "SC 13G/A", "SCHEDULE 13D/A", "SCHEDULE 13G"])
  })
})
