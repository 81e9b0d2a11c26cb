/** Tests the rules for ownership rows that no recorded filing exercises (decision 0100). */
import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { isOwnershipForm, isSchedule13 } from "../../../src/ingest/edgar/read/OwnershipRows.ts"
import { classifyDerivativeByTitle } from "../../../src/ingest/edgar/read/SecurityTitles.ts"
import { readFiling } from "./OwnershipRecordings.ts"

const cik = "0000000042"

const element = (name: string, value: string) => `<${name}><value>${value}</value></${name}>`

interface Line {
  readonly title?: string
  readonly held?: string
  readonly nature?: string
  readonly footnotes?: ReadonlyArray<string>
  readonly price?: string
  /** The id of a footnote that stands in for the exercise date. */
  readonly exercise?: string
  readonly traded?: string
  readonly underlying?: string
  readonly date?: string
}

const writeLine = (name: string, line: Line) => {
  const { date, exercise, footnotes = [], held, nature, price, title = "Common Stock", traded, underlying } = line
  const notes = footnotes.map((id) => `<footnoteId id="${id}"/>`).join("")
  return `<${name}>${element("securityTitle", title)}` +
    (price === undefined ? "" : element("conversionOrExercisePrice", price)) +
    (exercise === undefined ? "" : `<exerciseDate><footnoteId id="${exercise}"/></exerciseDate>`) +
    (date === undefined ? "" : element("transactionDate", date)) +
    (traded === undefined ? "" : `<transactionAmounts>${element("transactionShares", traded)}</transactionAmounts>`) +
    (underlying === undefined
      ? ""
      : `<underlyingSecurity>${element("underlyingSecurityShares", underlying)}</underlyingSecurity>`) +
    (held === undefined
      ? ""
      : `<postTransactionAmounts>${element("sharesOwnedFollowingTransaction", held)}</postTransactionAmounts>`) +
    `<ownershipNature>${element("directOrIndirectOwnership", nature === undefined ? "D" : "I")}` +
    `<natureOfOwnership><value>${nature ?? ""}</value>${notes}</natureOfOwnership></ownershipNature></${name}>`
}

const trade = (line: Line) => writeLine("nonDerivativeTransaction", line)
const holding = (line: Line) => writeLine("nonDerivativeHolding", line)
const derivativeTrade = (line: Line) => writeLine("derivativeTransaction", line)
const derivativeHolding = (line: Line) => writeLine("derivativeHolding", line)

const owner = (relationship: string, id = "7") =>
  `<reportingOwner><reportingOwnerId><rptOwnerCik>${id}</rptOwnerCik><rptOwnerName>Doe Jane</rptOwnerName>` +
  `</reportingOwnerId><reportingOwnerRelationship>${relationship}</reportingOwnerRelationship></reportingOwner>`

interface Form {
  readonly type?: string
  readonly period?: string
  readonly issuer?: string
  readonly owners?: string
  readonly shares?: ReadonlyArray<string>
  readonly derivatives?: ReadonlyArray<string>
}

const writeForm = (form: Form = {}) => {
  const { derivatives = [], issuer = cik, owners = owner(""), period = "2026-02-19", shares = [], type = "4" } = form
  return `<ownershipDocument><documentType>${type}</documentType><periodOfReport>${period}</periodOfReport>` +
    `<issuer><issuerCik>${issuer}</issuerCik></issuer>${owners}` +
    `<nonDerivativeTable>${shares.join("")}</nonDerivativeTable>` +
    `<derivativeTable>${derivatives.join("")}</derivativeTable></ownershipDocument>`
}

const rowsOf = (form: Form) => Result.getOrThrow(readFiling(writeForm(form), form.type ?? "4", cik))

const firstRow = (form: Form) => rowsOf(form)[0] ?? {}

const commonShares = (...shares: ReadonlyArray<string>) => firstRow({ shares })["common_shares_amount"]

const options = (...derivatives: ReadonlyArray<string>) => firstRow({ derivatives })["options_amount"]

interface Person {
  readonly name?: string
  readonly cik?: string
  readonly amount?: string
  readonly percent?: string
}

const writeSchedule = (title: string, ...persons: ReadonlyArray<Person>) =>
  `<edgarSubmission xmlns="http://www.sec.gov/edgar/schedule13D"><headerData><submissionType>SCHEDULE 13D` +
  `</submissionType></headerData><formData><coverPageHeader><securitiesClassTitle>${title}</securitiesClassTitle>` +
  `<dateOfEvent>02/19/2026</dateOfEvent><issuerInfo><issuerCIK>${cik}</issuerCIK></issuerInfo></coverPageHeader>` +
  `<reportingPersons>${
    persons.map(({ amount = "1", cik = "7", name = "Fund LP", percent = "6" }) =>
      `<reportingPersonInfo><reportingPersonCIK>${cik}</reportingPersonCIK><reportingPersonName>${name}` +
      `</reportingPersonName><aggregateAmountOwned>${amount}</aggregateAmountOwned>` +
      `<percentOfClass>${percent}</percentOfClass></reportingPersonInfo>`
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
    assert.strictEqual(reasonOf(writeForm({ shares })), "has more than 9007199254740991 shares")
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
    const rows = schedule("Common Stock", ...["6.125", "6.1249", "100", "0.004"].map((percent) => ({ percent })))
    assert.deepStrictEqual(rows.map((row) => row["percent_of_class"]), ["0.0613", "0.0612", "1.0000", "0.0000"])
  })

  it("have their amount in the column for the kind of shares, or in none", () => {
    const amountsOf = (title: string) =>
      schedule(title, { amount: "5.9" }).map((row) => [row["common_shares_amount"], row["preferred_shares_amount"]])
    assert.deepStrictEqual(amountsOf("Ordinary Shares"), [["5", null]])
    assert.deepStrictEqual(amountsOf("Series A Preferred Stock"), [[null, "5"]])
    assert.deepStrictEqual(amountsOf("American Depositary Shares"), [[null, null]])
  })
})

describe("Misplaced elements", () => {
  const name = "<rptOwnerName>Doe Jane</rptOwnerName>"
  const reasonWith = (replacement: string) => reasonOf(writeForm().replace(name, replacement))

  it("never become part of a value", () => {
    const reason = "has an owner without a name or a CIK"
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
      ["has an owner without a name or a CIK", writeForm({ owners: owner("", "") })],
      ["has no valid CIK in rptOwnerCik", writeForm({ owners: owner("", "12345678901") })],
      ["has no valid date in periodOfReport", writeForm({ period: "2026-02-30" })],
      ["has no valid number in sharesOwnedFollowingTransaction", writeForm({ shares: [trade({ held: secret })] })],
      ["has no valid number in sharesOwnedFollowingTransaction", writeForm({ shares: [trade({ held: "-1" })] })],
      ["has no valid number in sharesOwnedFollowingTransaction", writeForm({ shares: [trade({ held: "1e5" })] })],
      ["has no valid number in sharesOwnedFollowingTransaction", writeForm({ shares: [trade({ held: "." })] })],
      ["has no valid date in transactionDate", writeForm({ shares: [trade({ date: secret })] })],
      [
        "has more than 250 characters in officerTitle",
        writeForm({ owners: owner(`<officerTitle>${secret.repeat(20)}</officerTitle>`) }),
      ],
      ["has more than 1000 lines in a table", writeForm({ shares: Array.from({ length: 1001 }, () => trade({})) })],
    ]
    assert.deepStrictEqual(cases.map(([, xml]) => reasonOf(xml)), cases.map(([reason]) => reason))
    assert.strictEqual(
      reasonOf(writeSchedule("Common Stock", { percent: "101" }), "SCHEDULE 13D"),
      "has more than 100 % in percentOfClass",
    )
    assert.strictEqual(
      reasonOf(writeSchedule("Common Stock", { name: "" }), "SCHEDULE 13D"),
      "has a reporting person without a name",
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
