/** Tests the share counts on the cover pages of artificial XBRL instances, some of them hostile (pitfall 6). */
import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import { buildInstanceUrl } from "../../../src/ingest/edgar/fetch/EdgarUrls.ts"
import { decodeCoverCounts, xbrlInstanceLimits } from "../../../src/ingest/edgar/read/XbrlCover.ts"
import { getInputCount } from "../../support/Thoroughness.ts"
import { makeFloatRows } from "../../../src/ingest/edgar/read/FloatRows.ts"
import { listFactSources, makeEmptyFacts } from "../../../src/ingest/edgar/read/CompanyFacts.ts"
import { formatDoubtKey, type OperatorDecisions } from "../../../src/ingest/edgar/read/Doubt.ts"
import type { KnownSplit } from "../../../src/ingest/edgar/read/CountSplits.ts"
import { assessCounts } from "../../../src/ingest/edgar/read/ShareCounts.ts"
import { addInstanceCounts } from "../../../src/ingest/edgar/store/InstanceCounts.ts"
import { ciks, submissionsOf } from "./Recordings.ts"
import { alphabetClasses, alphabetListings, type MadeCount, type MadeInstance, makeInstance } from "./Instances.ts"

const cik = "0001652044"
const url = buildInstanceUrl(cik, "0001652044-26-000048", "goog-20260331.htm")

const decode = (text: string) => decodeCoverCounts(text, url)
const read = (made: Partial<MadeInstance>) => Result.getOrThrow(decode(makeInstance({ cik, counts: [], ...made })))
const sumOf = (made: Partial<MadeInstance>) => {
  const cover = read(made)
  return cover === null || cover.unreadable !== undefined
    ? undefined
    : cover.classes.reduce((sum, { shares }) => sum + shares, 0)
}

const classA = "us-gaap:CommonClassAMember"
const classB = "us-gaap:CommonClassBMember"
const classC = "us-gaap:CommonClassCMember"
const two = [{ member: classA, shares: 300 }, { member: classB, shares: 20 }]

const otherSecurities = [
  "acme:AmericanDepositarySharesMember",
  "acme:AmericanDepositarySharesEachRepresentingTwoOrdinarySharesMember",
  "acme:ADSMember",
  "acme:ClassAADSMember",
  "us-gaap:PreferredStockMember",
  "us-gaap:PreferredClassAMember",
  "ifrs-full:PreferenceSharesMember",
  "us-gaap:WarrantMember",
  "acme:PublicWarrantsMember",
  "us-gaap:RightsMember",
  "dei:AdrMember",
  "acme:AMERICANDEPOSITARYSHARESMember",
  "acme:Americandepositoryreceipts1Member",
  "acme:ClassAAdsMember",
  "acme:WarrantsToPurchaseClassACommonStockMember",
  "acme:CommonStockPurchaseWarrantsMember",
  "acme:RightsToReceiveOneTenthOfOneOrdinaryShareMember",
  "acme:ConvertiblePreferredStockSeriesAMember",
  "us-gaap:TreasuryStockCommonMember",
]

/** Titles of securities that may or may not be common shares. */
const unclearSecurities = [
  "acme:NonAffiliateCommonStockMember",
  "acme:PIPEClassACommonStockMember",
  "acme:SeriesAMember",
  "acme:OrdinarySharesRepresentedByAmericanDepositarySharesMember",
  "acme:OrdinarySharesUnderlyingWarrantsMember",
  "acme:CommonStockHeldInTreasuryMember",
  "acme:BeadsMember",
  "us-gaap:RestrictedStockMember",
]

describe("The cover of an instance", () => {
  it("has a count and, if it is stated, a symbol for each class", () => {
    assert.strictEqual(
      url,
      "https://www.sec.gov/Archives/edgar/data/1652044/000165204426000048/goog-20260331_htm.xml",
    )
    assert.deepStrictEqual(read({ counts: alphabetClasses, listings: alphabetListings }), {
      date: "2026-04-22",
      classes: [
        { member: "us-gaap:CommonClassAMember", symbol: "GOOGL", shares: 5_830_000_000 },
        { member: "us-gaap:CommonClassBMember", symbol: null, shares: 841_000_000 },
        { member: "goog:CapitalClassCMember", symbol: "GOOG", shares: 5_440_000_000 },
      ],
    })
  })

  it("may have prefixes for all namespaces, and a class of which no share is left", () => {
    const text = makeInstance({ cik, counts: [...two, { member: "acme:ClassHMember", shares: 0 }] })
      .replaceAll(/(<\/?)(xbrl|context|entity|identifier|segment|period|instant|unit|measure)(?=[\s>])/g, "$1x:$2")
      .replace("xmlns=", "xmlns:x=")
    assert.deepStrictEqual(Result.getOrThrow(decode(text))?.classes.map(({ shares }) => shares), [300, 20])
  })

  it("keeps the classes beside their total, because each has its own price (D44)", () => {
    const all = { shares: 320 }
    const classes = two.map((count) => ({ ...count, symbol: null }))
    for (const total of [all, { shares: 0 }]) {
      assert.deepStrictEqual(read({ counts: [...two, total] }), { date: "2026-04-22", classes })
    }
    assert.deepStrictEqual(read({ counts: [all] })?.classes, [{ member: null, symbol: null, shares: 320 }])
    const listings = [classA, classB].map((member) => ({ member, title: "Common stock", symbol: "ACME" }))
    const forgotten = read({ counts: [{ shares: 300 }, { shares: 300, member: classA }], listings })
    assert.deepInclude(forgotten, { unreadable: "is not stated once for each class on one date" })
    const unclear = ["acme:FounderSharesMember", classC].map((member, index) => ({
      member,
      shares: [20, 320][index] ?? 0,
    }))
    assert.isUndefined(sumOf({ counts: [all, ...unclear] }), "the number of class C")
    assert.deepInclude(read({ counts: [...two, all, { shares: 501 }] }), {
      classes: [],
      unreadable: "is stated as several numbers",
    })
  })

  it("does not include counts of other entities", () => {
    const subsidiary = { "dei:LegalEntityAxis": "acme:SubsidiaryMember" }
    assert.strictEqual(sumOf({ counts: [...two, { shares: 1_000, axes: subsidiary }] }), 320)
    assert.strictEqual(sumOf({ counts: [...two, { member: classA, shares: 1_000, axes: subsidiary }] }), 320)
    assert.isNull(read({ counts: [{ shares: 1_000, axes: subsidiary }] }))
    const typed = makeInstance({ cik, counts: [...two, { shares: 1_000, axes: { "dei:LegalEntityAxis": "x" } }] })
      .replace(
        /<xbrldi:explicitMember dimension="dei:LegalEntityAxis">x<\/xbrldi:explicitMember>/,
        `<xbrldi:typedMember dimension="dei:LegalEntityAxis"><identifier>y</identifier></xbrldi:typedMember>`,
      )
    assert.deepStrictEqual(Result.getOrThrow(decode(typed))?.classes.length, 2)
  })

  const incomplete: ReadonlyArray<readonly [string, Partial<MadeInstance>]> = [
    ["has counts of two dates", { counts: [two[0] ?? {}, { ...two[1], date: "2026-04-21" }].map(complete) }],
    ["has two counts of a class", { counts: [...two, { member: classB, shares: 21 }] }],
    ["has a negative count", { counts: [...two, { member: "acme:ClassCMember", shares: -1 }] }],
    ["has a fraction of a share", { counts: [...two, { member: "acme:ClassCMember", shares: "1.5" }] }],
    ["has a count with an exponent", { counts: [...two, { member: "acme:ClassCMember", shares: "1e3" }] }],
    ["has a count that is not a number", { counts: [...two, { member: "acme:ClassCMember", shares: "" }] }],
    ["has a huge count", { counts: [...two, { member: "acme:ClassCMember", shares: "9".repeat(16) }] }],
    ["has a count with very many digits", {
      counts: [...two, { member: "acme:ClassCMember", shares: "9".repeat(1e5) }],
    }],
    ["has an element in a count", { counts: [...two, { member: "acme:ClassCMember", shares: "1<unit>2</unit>3" }] }],
    ["has a count of another company", {
      counts: [...two, { member: "acme:ClassCMember", shares: 1, cik: "0000000001" }],
    }],
    ["is of another company", { cik: "0000000001", counts: two }],
    ["has an invalid date", { counts: two.map((count) => ({ ...count, date: "2026-02-30" })) }],
    ["has an invalid member", { counts: [...two, { member: "Class C", shares: 5 }] }],
    ["lacks the count of a listed class", {
      counts: two,
      listings: [{ member: "a:C", title: "Class C Common Stock" }],
    }],
  ]

  function complete(count: Partial<MadeCount>): MadeCount {
    return { shares: 0, ...count }
  }

  it.each(incomplete)("that %s cannot be read, and never gives the sum of some classes", (_, made) => {
    const cover = read(made)
    assert.deepStrictEqual(cover?.classes, [])
    assert.isString(cover?.unreadable)
  })

  it("may have no count", () => {
    assert.isNull(read({}))
    assert.isNull(read({ listings: alphabetListings }))
  })

  const ordinary = "ifrs-full:OrdinarySharesMember"
  const axes = [
    "ifrs-full:ClassesOfShareCapitalAxis",
    "ifrs-full:ClassesOfOrdinarySharesAxis",
    "ifrs:ClassesOfShareCapitalAxis",
  ]

  it.each(axes)("has a count for each class on the axis %s (decision 0103)", (axis) => {
    const counts = [{ shares: 300, axes: { [axis]: ordinary } }, { shares: 20, axes: { [axis]: "acme:ClassBMember" } }]
    const listings = [{ member: ordinary, title: "Ordinary shares", symbol: "ACME" }]
    assert.deepStrictEqual(read({ counts, listings })?.classes, [
      { member: ordinary, symbol: "ACME", shares: 300 },
      { member: "acme:ClassBMember", symbol: null, shares: 20 },
    ])
    const mixed = [...counts, { shares: 5, member: "us-gaap:CommonClassCMember" }]
    assert.strictEqual(sumOf({ counts: mixed }), 325)
  })

  it.each(otherSecurities)(
    "does not add the count of %s, whose holders have no common shares by it (D44)",
    (member) => {
      for (const common of [ordinary, "us-gaap:CommonStockMember", "acme:CommonUnitsMember", classA]) {
        for (const axis of ["us-gaap:StatementClassOfStockAxis", ...axes]) {
          const counts = [{ shares: 300, axes: { [axis]: common } }, { shares: 20, axes: { [axis]: member } }]
          assert.deepStrictEqual(read({ counts }), {
            date: "2026-04-22",
            classes: [{ member: common, symbol: null, shares: 300 }],
            others: [{ member, symbol: null, shares: 20 }],
          })
        }
      }
      const alone = read({ counts: [{ shares: 20, member }] })
      assert.deepInclude(alone, { classes: [], unreadable: "is stated only for other securities than common shares" })
    },
  )

  it("adds common shares whose names mention rights or another class (decision 0103)", () => {
    const members = [
      "acme:CommonStockAndPreferredStockPurchaseRightsMember",
      "acme:SubordinateVotingSharesMember",
      "acme:ClassBOrdinarySharesIncludedAsPartOfTheUnitsMember",
      "acme:SeriesCCommonStockMember",
    ]
    assert.strictEqual(sumOf({ counts: members.map((member, index) => ({ shares: 10 ** index, member })) }), 1_111)
  })

  it("adds units if they are the shares of a partnership, and not beside the shares that they contain", () => {
    const sumOfMembers = (...members: ReadonlyArray<string>) =>
      sumOf({ counts: members.map((member, index) => ({ shares: 10 ** index, member })) })
    assert.strictEqual(sumOfMembers("acme:CommonUnitsMember", "acme:SubordinatedUnitsMember"), 11)
    assert.strictEqual(sumOfMembers("acme:ClassAUnitsMember", "acme:ClassBUnitsMember"), 11)
    assert.strictEqual(sumOfMembers(classA, "acme:UnitsEachConsistingOfOneShareAndOneWarrantMember"), 1)
    assert.isUndefined(sumOfMembers("acme:ClassAMember", "acme:UnitsMember"))
  })

  it("does not add a total, and cannot be read if it is not the sum of the classes (decision 0103)", () => {
    const totals = [
      "acme:TotalSharesMember",
      "acme:AllClassesOfCommonStockMember",
      "us-gaap:ClassOfStockDomain",
      "ifrs-full:ClassesOfShareCapitalMember",
    ]
    for (const member of totals) {
      assert.strictEqual(sumOf({ counts: [...two, { shares: 320, member }] }), 320, member)
      assert.strictEqual(sumOf({ counts: [{ shares: 320, member }] }), 320, member)
      assert.isUndefined(sumOf({ counts: [...two, { shares: 325, member }] }), member)
      assert.isUndefined(sumOf({ counts: [{ shares: 325, member }, { shares: 5, member: "us-gaap:WarrantMember" }] }))
    }
  })

  it.each(unclearSecurities)("cannot be read if it has a count of %s, and the reason names it (D44)", (member) => {
    for (const counts of [[{ shares: 20, member }], [{ shares: 300, member: ordinary }, { shares: 20, member }]]) {
      assert.deepInclude(read({ counts }), {
        classes: [],
        unreadable: `is stated for ${member}, which may not be common shares`,
      })
    }
  })

  it("is read with the titles of members whose names say nothing (D44)", () => {
    const sumWith = (member: string, title: string) =>
      sumOf({ counts: [two[0] ?? { shares: 0 }, { shares: 20, member }], listings: [{ member, title }] })
    assert.strictEqual(sumWith("acme:SecurityTwoMember", "Class B common shares, no par value"), 320)
    assert.strictEqual(sumWith("acme:SeriesBMember", "Series B Common Stock"), 320)
    assert.strictEqual(sumWith("acme:SecurityTwoMember", "5% preferred stock"), 300)
    assert.strictEqual(sumWith("acme:SecurityTwoMember", "Warrants to purchase common stock"), 300)
    assert.isUndefined(sumWith("acme:SecurityTwoMember", "American depositary shares, each representing one share"))
  })

  it("cannot be read if a count without a class is not the sum of the classes beside it (decision 0103)", () => {
    for (const counts of [[{ shares: 300 }, { shares: 20, member: classB }], [{ shares: 310 }, ...two]]) {
      const unreadable = "is stated with a total that is not the sum of the classes"
      assert.deepInclude(read({ counts }), { classes: [], unreadable })
    }
    assert.strictEqual(sumOf({ counts: [{ shares: 320 }, ...two] }), 320)
    assert.strictEqual(
      sumOf({ counts: [{ shares: 300 }, { shares: 20, member: "us-gaap:PreferredStockMember" }] }),
      300,
    )
  })

  it("cannot be read if a class may be the common stock beside it, or their sum (decision 0103)", () => {
    const common = { shares: 300, member: "us-gaap:CommonStockMember" }
    for (const name of ["AcmeCorpCommonStock", "PreSplitCommonStock", "VotingCommonStock"]) {
      const member = `acme:${name}Member`
      const unreadable = `is stated for ${common.member} and ${member}, which may be one class`
      assert.deepInclude(read({ counts: [common, { shares: 20, member }] }), { classes: [], unreadable })
    }
    for (const name of ["AcmeClassA", "SeriesACommonStock", "AcmeClassACommonStock"]) {
      assert.isUndefined(
        sumOf({ counts: [{ shares: 300, member: classA }, { shares: 20, member: `acme:${name}Member` }] }),
      )
    }
    const [first, second] = ["acme:SunClassACommonStockMember", "acme:MoonClassACommonStockMember"]
    assert.strictEqual(sumOf({ counts: [{ shares: 300, member: first }, { shares: 20, member: second }] }), 320)
    // Plain common stock beside classes A and B is their sum.
    assert.strictEqual(sumOf({ counts: [{ ...common, shares: 320 }, ...two] }), 320)
    assert.isUndefined(sumOf({ counts: [common, ...two] }))
    assert.strictEqual(sumOf({ counts: [{ ...common, shares: 0 }, ...two] }), 320)
    const titles = [common.member, classA].map((member) => ({ member, title: "Common stock" }))
    assert.strictEqual(
      sumOf({ counts: [{ ...common, shares: 5 }, ...two], listings: titles }),
      325,
      "a security of its own",
    )
    const same = [common, { shares: common.shares, member: classA }]
    assert.isUndefined(sumOf({ counts: same }), "the same number twice")
    assert.strictEqual(sumOf({ counts: same, listings: titles }), 600, "the same number of two securities")
    const halves = [{ shares: 40, member: classA }, ...[classB, classC].map((member) => ({ shares: 20, member }))]
    assert.strictEqual(sumOf({ counts: halves }), 40, "a total with another name")
    const titled = [{ member: classA, title: "Class A common stock" }]
    assert.isUndefined(
      sumOf({ counts: halves, listings: titled }),
      "a total, or a class that is as large as the others",
    )
    assert.strictEqual(sumOf({ counts: [common, { shares: 20, member: classB }, { shares: 3, member: classC }] }), 323)
    for (const name of ["CommonClassB", "NonvotingCommonStock", "SeriesBCommonStock"]) {
      assert.strictEqual(sumOf({ counts: [common, { shares: 20, member: `acme:${name}Member` }] }), 320)
    }
  })

  /**
   * Assesses quarterly reports that state these numbers of class A and class B. Undefined stands for a class that the
   * cover page does not mention. `balances` are the balance sheets in these reports.
   */
  const assess = (
    reports: ReadonlyArray<readonly [number, number | undefined] | undefined>,
    {
      balances = [],
      decisions,
      lastMembers = [classA, classB],
      lastTotal,
      splits = [],
      symbols = [null, null],
      tickers = [],
    }: {
      readonly balances?: ReadonlyArray<number>
      readonly splits?: ReadonlyArray<KnownSplit>
      /** The number of all shares that the last report states without classes. */
      readonly lastTotal?: number
      readonly decisions?: OperatorDecisions
      /** The members in the last report. Those in the others are `classA` and `classB`. */
      readonly lastMembers?: ReadonlyArray<string>
      readonly symbols?: ReadonlyArray<string | null>
      readonly tickers?: ReadonlyArray<string>
    } = {},
  ) => {
    const formatDay = (month: number, day: number) => new Date(Date.UTC(2026, month, day)).toISOString().slice(0, 10)
    const filings = submissionsOf(ciks.apple).filings.slice(0, reports.length).map((filing, index) => ({
      ...filing,
      accession: `0001652044-26-00000${index}`,
      form: "10-Q",
      filingDate: formatDay(index * 2 + 1, 10),
      reportDate: formatDay(index * 2, 30),
    }))
    const instances = filings.flatMap(({ accession, filingDate }, index) => {
      if (reports[index] === undefined) return []
      const members = index === reports.length - 1 ? lastMembers : [classA, classB]
      const classes = members.flatMap((member, at) => {
        const shares = reports[index]?.[at]
        return shares === undefined ? [] : [{ member, shares, symbol: symbols[at] ?? null }]
      })
      return [{ cik, accession, filingDate, cover: { date: filingDate.replace(/10$/, "01"), classes } }]
    })
    const balanceSheetCounts = filings.flatMap(({ accession, filingDate, form, reportDate }, index) => {
      const val = balances[index]
      const path = `us-gaap/CommonStockSharesOutstanding/shares/${accession}/${reportDate}`
      return val === undefined ? [] : [{ accn: accession, end: reportDate, filed: filingDate, form, path, val }]
    })
    const total = lastTotal === undefined ? [] : filings.slice(-1).map(({ accession, filingDate, form }) => {
      const end = filingDate.replace(/10$/, "01")
      const path = `dei/EntityCommonStockSharesOutstanding/shares/${accession}/${end}`
      return { accn: accession, end, filed: filingDate, form, path, val: lastTotal }
    })
    const empty = { ...makeEmptyFacts(cik), counts: total }
    const facts = { ...addInstanceCounts(empty, filings, instances), balanceSheetCounts }
    const assessment = assessCounts({ facts, filings, decisions, splits, tickers })
    const { counts, current } = assessment
    const issuer = { cik, ticker: "ACME", tickers, name: "Acme", exchange: null }
    const { historical_float_pro } = makeFloatRows(issuer, facts, { ...submissionsOf(ciks.apple), filings }, assessment)
    /** Builds an operator's decision that sets the sum of a report to `value`. */
    const decide = (index: number, value: string, isConfirmed: boolean): OperatorDecisions => {
      const fact = facts.counts[index] ?? assert.fail()
      const url = listFactSources(cik, fact)[0]
      const doubt = { table: "historical_float_pro", column: "outstanding_shares", url, read: String(fact.val) }
      return new Map([[formatDoubtKey(doubt), { isConfirmed, value }]])
    }
    return {
      current: typeof current === "string" ? current : current.val,
      details: String(historical_float_pro.at(-1)?.["details"]),
      reasons: counts.map(({ reasons }) => reasons),
      correct: (index: number, value: string) => decide(index, value, false),
      confirm: (index: number) => decide(index, String(facts.counts[index]?.val), true),
    }
  }

  it("with a class in thousands is compared with the same class of the report before (decision 0103)", () => {
    assert.deepStrictEqual(assess([[58_000_000, 84_000_000], [58_000, 84_000_000]]).reasons, [[], [
      "differs from 142000000 on 2026-02-01 as if it were in another unit, such as thousands",
    ]])
    // Shares of one class were converted into shares of the other one.
    assert.deepStrictEqual(assess([[58_000_000, 84_000_000], [58_000, 141_942_000]]).reasons, [[], []])
  })

  it("with a class in thousands is an error even if an operator has corrected the one before (decision 0103)", () => {
    const reports = [[50_000_000, 10_000_000], [50_000, 10_000_000], [50_100, 10_000_000], [
      50_200_000,
      10_000_000,
    ]] as const
    for (const balances of [[], [60_000_000, 60_000_000, 60_000_000, 60_000_000]]) {
      const assessFirst = (count: number, decisions?: OperatorDecisions) =>
        assess(reports.slice(0, count), { balances: balances.slice(0, count), ...(decisions && { decisions }) })
      const decisions = assessFirst(2).correct(1, "60000000")
      const { current, reasons } = assessFirst(3, decisions)
      assert.strictEqual(current, 60_000_000)
      assert.match(reasons[2]?.[0] ?? "", /as if it were in another unit/)
      const next = assessFirst(4, decisions)
      assert.strictEqual(next.current, 60_200_000)
      assert.deepStrictEqual(next.reasons[3], [])
    }
  })

  it("without a class of the report before is doubted, unless the balance sheet confirms it (decision 0103)", () => {
    const before = [80_000_000, 20_000_000] as const
    const lack = "lacks Class B, which has 20000000 shares on 2026-02-01"
    const forgotten = [before, [80_000_000, undefined], [81_000_000, undefined]] as const
    const { current, reasons } = assess(forgotten)
    assert.deepStrictEqual({ current, reasons }, { current: "doubtful", reasons: [[], [lack], [lack]] })
    const sheets = [100_000_000, 100_000_000, 101_000_000]
    assert.strictEqual(assess(forgotten, { balances: sheets }).current, "doubtful")
    // The class was bought back, or converted into the other one.
    assert.strictEqual(assess(forgotten, { balances: [100_000_000, 80_000_000, 81_000_000] }).current, 81_000_000)
    const confirmed = assess([before, [80_000_000, undefined]], { balances: [100_000_000, 80_000_000] })
    assert.deepStrictEqual(confirmed.reasons, [[], []])
    assert.deepStrictEqual(assess([before, [99_000_000, undefined]]).reasons, [[], []])
    assert.strictEqual(assess([...forgotten, [81_000_000, undefined]]).current, 81_000_000)
    // A small class was converted, and the other one was bought back.
    assert.deepStrictEqual(assess([[100_000_000, 500_000], [98_000_000, undefined]]).reasons, [[], []])
  })

  it("without a class whose symbol the company still has is not confirmed by repetition (D32, D44)", () => {
    const tickers = ["ACME", "ACME-B"]
    const symbols = ["ACME", "ACME.B"]
    const forgotten = [[80_000_000, 20_000_000], [91_000_000, undefined], [92_000_000, undefined]] as const
    const balances = [100_000_000, 91_000_000, 92_000_000]
    assert.strictEqual(assess(forgotten, { balances, symbols, tickers }).current, "doubtful")
    assert.strictEqual(assess(forgotten, { balances, symbols, tickers: ["ACME"] }).current, 92_000_000)
    const small = [[100_000_000, 500_000], [98_000_000, undefined]] as const
    assert.strictEqual(assess(small, { symbols, tickers }).current, "doubtful")
    // The list lags behind a conversion of one class into the other.
    const converted = [[128_146_656, 26_965_303], [152_802_315, undefined]] as const
    assert.strictEqual(assess(converted, { symbols, tickers }).current, 152_802_315)
    // The only class that is left has another name, or none.
    for (const member of ["acme:ClassACommonStockMember", "us-gaap:CommonStockMember"]) {
      const others = { lastMembers: [member], symbols, tickers }
      assert.strictEqual(assess([[80_000_000, 20_000_000], [80_000_000, undefined]], others).current, "doubtful")
    }
    const renamed = { lastMembers: ["us-gaap:CommonStockMember"], symbols, tickers: ["ACME"] }
    assert.strictEqual(assess([[80_000_000, 20_000_000], [100_000_000, undefined]], renamed).current, 100_000_000)
  })

  it("without a class that was corrected is believed after three reports (decision 0103)", () => {
    const [both, onlyA] = [[20_000_000, 10_000_000], [20_000_000, undefined]] as const
    const reports = [both, onlyA, both, [20_500_000, undefined], [20_400_000, undefined], [
      20_600_000,
      undefined,
    ]] as const
    const decisions = assess(reports.slice(0, 2)).correct(1, "30000000")
    const balances = [30_000_000, 30_000_000, 30_000_000, 20_500_000, 20_400_000, 20_600_000]
    const assessFirst = (count: number) =>
      assess(reports.slice(0, count), { balances: balances.slice(0, count), decisions }).current
    assert.deepStrictEqual([4, 5, 6].map(assessFirst), ["doubtful", "doubtful", 20_600_000])
    assert.strictEqual(assess(reports, { decisions }).current, 20_600_000)
    // A number far from both is a new one.
    const grown = [[10_000_000, 20_000_000], [60_000_000, 2_000_000]] as const
    const corrected = assess(grown.slice(0, 1)).correct(0, "12000000")
    assert.strictEqual(assess(grown, { decisions: corrected }).current, 62_000_000)
  })

  it("without a class is doubted if the balance sheet is the sum of both (decision 0103)", () => {
    const [symbols, tickers] = [["ACME", "ACME.B"], ["ACME", "ACME-B"]]
    // The other class has grown by nearly the forgotten one, so the sum has not decreased.
    const grown = [[601_000_000, 170_000_000], [785_000_000, undefined]] as const
    assert.strictEqual(assess(grown, { balances: [771_000_000, 955_000_000], symbols, tickers }).current, "doubtful")
    // The list lags behind a conversion, and shares were issued.
    assert.strictEqual(assess(grown, { balances: [771_000_000, 785_000_000], symbols, tickers }).current, 785_000_000)
    assert.strictEqual(assess(grown, { symbols, tickers }).current, 785_000_000)
    const splits = [{ day: "2026-03-30", ratio: 5 }]
    const split = [[166_000_000, 56_000_000], [undefined, 282_000_000]].map(([a, b]) => [a ?? 0, b] as const)
    const lastMembers = ["acme:None", classB]
    const balances = [222_000_000, 1_107_000_000]
    assert.strictEqual(assess(split, { balances, lastMembers, splits, symbols, tickers }).current, "doubtful")
    // Three reports that forget an unlisted class believe their balance sheets no more than one.
    const unlisted = [[62_000_000, 254_000_000], [69_000_000, undefined], [69_500_000, undefined], [
      70_000_000,
      undefined,
    ]] as const
    const sums = [316_000_000, 322_000_000, 321_500_000, 322_000_000]
    assert.strictEqual(assess(unlisted, { balances: sums }).current, "doubtful")
    assert.strictEqual(assess(unlisted).current, 70_000_000)
  })

  it("of which one class is in thousands in three reports is doubted if their balance sheets are not (pitfall 7)", () => {
    const reports = [[1_300_000_000, 850_000_000], [1_310_000, 850_000_000], [1_320_000, 840_000_000], [
      1_330_000,
      835_000_000,
    ]] as const
    const balances = [2_150_000_000, 2_160_000_000, 2_160_000_000, 2_165_000_000]
    assert.strictEqual(assess(reports, { balances }).current, 2_165_000_000)
  })

  it("that looks like a corrected error is believed if the balance sheet states it (decision 0103)", () => {
    const reports = [[14_400_000, 800_000], [14_400_000, 7_800_000], [14_400_000, 800_000], [
      21_600_000,
      800_000,
    ]] as const
    const balances = [15_200_000, 15_200_000, 15_200_000, 22_400_000]
    const decisions = assess(reports.slice(0, 2), { balances: balances.slice(0, 2) }).correct(1, "15200000")
    const { current, reasons } = assess(reports, { balances, decisions })
    assert.deepStrictEqual([current, reasons.at(-1)], [22_400_000, []])
    const doubted = ["is like a number that an operator has corrected"]
    assert.deepStrictEqual(assess(reports, { decisions }).reasons.at(-1), doubted)
    // The balance sheet beside the error had the same error.
    assert.deepStrictEqual(
      assess(reports, { balances: balances.with(1, 22_200_000), decisions }).reasons.at(-1),
      doubted,
    )
  })

  it("with the same error as one that an operator has corrected is an error, too (decision 0103)", () => {
    const reports = [[50_000, 10_000_000], [50_100, 10_000_000], [50_200_000, 10_000_000]] as const
    const decisions = assess(reports.slice(0, 1)).correct(0, "60000000")
    const { current, reasons } = assess(reports, { decisions })
    assert.deepStrictEqual(reasons, [[], ["is like a number that an operator has corrected"], []])
    assert.strictEqual(current, 60_200_000)
    assert.strictEqual(assess(reports.slice(0, 2), { decisions }).current, 60_000_000)
  })

  it("with the same error is recognized after a split or an issue, too (decision 0103)", () => {
    // The number of class B lacks a digit.
    const first = [15_000_000, 1_200_000] as const
    const decisions = assess([first]).correct(0, "27000000")
    const splits = [{ day: "2026-03-15", ratio: 2 }]
    const known = ["is like a number that an operator has corrected"]
    const afterSplit = assess([first, [30_200_000, 2_400_000], [30_300_000, 24_000_000]], { decisions, splits })
    assert.deepStrictEqual(afterSplit.reasons, [[], known, []])
    assert.strictEqual(afterSplit.current, 54_300_000)
    const afterIssue = assess([first, [17_500_000, 1_200_000], [17_600_000, 12_000_000]], { decisions })
    assert.deepStrictEqual(afterIssue.reasons, [[], known, []])
    assert.strictEqual(afterIssue.current, 29_600_000)
  })

  it("is compared class by class across a split (D44)", () => {
    const splits = [{ day: "2026-03-15", ratio: 1 / 20 }]
    const assessSecond = (a: number, b: number) => assess([[80_000_000, 10_000_000], [a, b]], { splits }).current
    assert.strictEqual(assessSecond(4_000_000, 500_000), 4_500_000)
    assert.strictEqual(assessSecond(4_000_000, 500), 90_000_000, "a class in thousands")
    assert.strictEqual(assessSecond(40_000_000, 500_000), "doubtful", "a digit too many")
  })

  it("for one class is compared with its balance sheet as closely as a sum (decision 0103)", () => {
    const [reasons] = assess([[80_000_000, undefined]], { balances: [101_000_000] }).reasons
    assert.deepStrictEqual(reasons, ["differs from 101000000 on the balance sheet of 2026-01-30"])
  })

  it("that an operator has decided about says why the company has no market cap (D44)", () => {
    const reports = [[80_000_000, 20_000_000], [80_100_000, undefined]] as const
    const corrected = assess(reports, { decisions: assess(reports).correct(1, "100100000") })
    assert.include(corrected.details, "The number of shares of each is not known, and without it `market_cap`")
    // Only an earlier cover page states the class that may be missing.
    const converted = [[20_000_000, 500_000], [20_500_000, undefined], [205_000_000, undefined]] as const
    const digit = assess(converted, { decisions: assess(converted).correct(2, "20500001") })
    assert.include(digit.details, "The number of shares of each is not known, and without it `market_cap`")
    const both = [[80_000_000, 20_000_000], [81_000_000, 20_000_000]] as const
    const symbols = ["ACME", null]
    const confirmed = assess(both, { symbols, tickers: ["ACME"], decisions: assess(both).confirm(1) })
    assert.include(confirmed.details, "No symbol of the company is known for Class B.")
  })

  it("may become like an error that an operator has corrected (decision 0103)", () => {
    const reports = [[50_000_000, 20_000_000], [60_000_000, 28_000_000], [55_000_000, 25_000_000], [
      50_000_000,
      22_000_000,
    ]]
    const counts = reports.map(([a = 0, b]) => [a, b] as const)
    const decisions = assess(counts.slice(0, 1)).correct(0, "100000000")
    assert.strictEqual(assess(counts, { decisions }).current, 72_000_000)
  })

  it("may be merged into one class, and is missing only if the others explain the total (D44)", () => {
    const tickers = ["ACME", "ACME-B"]
    const assessTotal = (a: number, b: number, lastTotal: number) =>
      assess([[a, b], undefined], { lastTotal, symbols: tickers, tickers }).current
    assert.strictEqual(assessTotal(23_000_000, 5_750_000, 7_750_000), 7_750_000)
    assert.strictEqual(assessTotal(80_000_000, 20_000_000, 80_500_000), "doubtful")
  })

  it("is not replaced by balance sheets that are like one of its classes (decision 0103)", () => {
    const reports = [[80_000_000, 20_000_000], undefined, undefined] as const
    const later = assess(reports, { balances: [100_000_000, 80_000_000, 80_100_000] })
    assert.strictEqual(later.current, "doubtful")
    assert.include(later.details, "it differs from 100000000 on 2026-02-01, perhaps by a class of shares")
    assert.strictEqual(assess(reports, { balances: [100_000_000, 100_000_000, 99_000_000] }).current, 99_000_000)
  })

  it("lacks no class that was converted just before a split, whose record is days late (D44)", () => {
    const splits = [{ day: "2026-04-03", ratio: 1 / 10 }]
    const { current, reasons } = assess([[80_000_000, 20_000_000], [10_000_000, undefined]], { splits })
    assert.deepStrictEqual({ current, reasons }, { current: 10_000_000, reasons: [[], []] })
  })

  it("may state more shares in all although a class has fewer (decision 0103)", () => {
    assert.deepStrictEqual(assess([[80_000_000, 57_000_000], [170_000_000, 3_000_000]]).reasons, [[], []])
  })

  it("names what is not added with its count (D44)", () => {
    const stored = {
      date: "2026-04-22",
      classes: [{ member: ordinary, symbol: null, shares: 300 }],
      others: [{ member: "acme:AmericanDepositarySharesMember", symbol: "ACME", shares: 20 }],
    }
    const filing = { accession: "0001652044-26-000048", form: "20-F", filingDate: "2026-04-30", isXbrl: true }
    const listed = submissionsOf(ciks.apple).filings.slice(0, 1).map((first) => ({ ...first, ...filing }))
    const { counts } = addInstanceCounts(makeEmptyFacts(cik), listed, [{ cik, ...filing, cover: stored }])
    assert.deepStrictEqual(counts.map(({ instance, val }) => [val, instance?.classes, instance?.others]), [
      [300, "Ordinary Shares: 300", "American Depositary Shares (ACME): 20"],
    ])
  })

  const unknown: ReadonlyArray<readonly [string, ReadonlyArray<MadeCount>]> = [
    ["on an unknown axis", [{ shares: 300, axes: { "acme:SharesAxis": "acme:A" } }]],
    ["some on an unknown axis", [...two, { shares: 300, axes: { "acme:SharesAxis": "acme:A" } }]],
    ["on two crossed axes", [{ member: classA, shares: 300, axes: { [axes[0] ?? ""]: ordinary } }]],
    ["on the axis of classes and another one", [
      { member: classB, shares: 20 },
      { member: classA, shares: 300, axes: { "srt:StatementGeographicalAxis": "country:US" } },
    ]],
  ]

  it.each(unknown)("with counts %s cannot be read, and the reason names the axes (decision 0103)", (_, counts) => {
    const cover = read({ counts })
    assert.deepStrictEqual(cover?.classes, [])
    assert.match(cover?.unreadable ?? "", /^is stated by \S+Axis( and \S+Axis)?$/)
  })

  it("may list securities without a count, on several exchanges", () => {
    const listings = [
      {
        member: classA,
        title: "Class A Common Stock",
        symbol: "ACME",
        axes: { "dei:EntityListingsExchangeAxis": "e:X" },
      },
      { member: "acme:PreferredMember", title: "5% Preferred Stock", symbol: "ACME-PA" },
      {
        member: "acme:UnitsMember",
        title: "Units, each consisting of one share of Class A common stock",
        symbol: "ACMEU",
      },
      { member: "acme:WarrantsMember", title: "Warrants to purchase Class A common stock", symbol: "ACMEW" },
      { member: classB, symbol: "N/A" },
    ]
    assert.deepStrictEqual(read({ counts: two, listings })?.classes.map(({ symbol }) => symbol), ["ACME", null])
    for (const [stated, symbol] of [["acme.b", "ACME.B"], ["None", null], ["n.a.", null], ["NA", "NA"]] as const) {
      const counts = [{ member: classB, shares: 20 }]
      const listed = read({ counts, listings: [{ member: classB, symbol: stated }] })
      assert.deepStrictEqual(listed?.classes.map((one) => one.symbol), [symbol])
    }
  })

  const plain = makeInstance({ cik, counts: two })
  const hostile: ReadonlyArray<readonly [string, string, RegExp]> = [
    ["another root element", "<ownershipDocument/>", /is not an XBRL instance/],
    ["a root element of another namespace", "<xbrl/>", /is not an XBRL instance/],
    ["no element", "", /is not well-formed XML/],
    ["a truncated document", plain.slice(0, -20), /is not well-formed XML/],
    ["a DTD", plain.replace("<xbrl", `<!DOCTYPE xbrl [<!ENTITY a "1">]><xbrl`), /has a document type definition/],
    ["an undefined entity", plain.replace(">300<", ">&a;<"), /is not well-formed XML/],
    ["deep elements", plain.replace("</xbrl>", "<a>".repeat(100_000)), /has more than 50 levels/],
    [
      "many counts",
      makeInstance({ cik, counts: Array.from({ length: 1_001 }, () => ({ shares: 1 })) }),
      /has more than 1000 facts/,
    ],
    ["contexts with the same id", plain.replace(`id="n-1"`, `id="n-0"`), /has two contexts with the same id/],
    ["too many characters", " ".repeat(xbrlInstanceLimits.characters + 1), /has more than 50000000 characters/],
  ]

  it.each(hostile)("is refused if it has %s", (_, text, reason) => {
    const result = decode(text)
    assert.match(Result.isFailure(result) ? result.failure.message : "", reason)
  })

  it("is read although the instance has 30 MB", () => {
    const note = `<us-gaap:Note contextRef="c-1">${
      "&lt;p&gt;Text of the notes&lt;/p&gt; ".repeat(500)
    }</us-gaap:Note>\n`
    const text = makeInstance({ cik, counts: two, more: note.repeat(Math.ceil(3e7 / note.length)) })
    assert.isAbove(text.length, 3e7)
    assert.strictEqual(Result.getOrThrow(decode(text))?.classes.length, 2)
  })
})

// ----------------------------------------------------------------------------------------------------------------
// Random instances
// ----------------------------------------------------------------------------------------------------------------

const small = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))

const RandomCounts = Schema.Array(Schema.Struct({
  member: Schema.NullOr(Schema.Literals(["a:A", "a:B", "a:C"])),
  shares: small(2),
  day: small(1),
  isOther: Schema.Literals([false, false, false, true]),
})).check(Schema.isMinLength(1), Schema.isMaxLength(6))

/** Reads an instance with regular expressions and adds up the counts. */
const sumWithRegularExpressions = (xml: string) => {
  const contexts = new Map(
    Array.from(
      xml.matchAll(/<context id="([^"]*)">([\s\S]*?)<\/context>/g),
      ([, id = "", content = ""]) => [id, content],
    ),
  )
  const facts = Array.from(
    xml.matchAll(/<dei:EntityCommonStockSharesOutstanding contextRef="([^"]*)"[^>]*>(\d+)</g),
    ([, id = "", shares = ""]) => {
      const context = contexts.get(id) ?? ""
      return {
        date: /<instant>(.*)<\/instant>/.exec(context)?.[1] ?? "",
        isOther: context.includes("LegalEntityAxis"),
        member: /StatementClassOfStockAxis">([^<]*)</.exec(context)?.[1] ?? "all",
        shares,
      }
    },
  ).filter(({ isOther }) => !isOther)
  const last = facts.reduce((newest, { date }) => date > newest ? date : newest, "")
  const stated = (member: string) =>
    new Set(facts.filter((fact) => fact.date === last && fact.member === member).map(({ shares }) => shares))
  const parts = new Set(facts.map(({ member }) => member).filter((member) => member !== "all"))
  const single = Array.from(parts, stated).filter(({ size }) => size === 1).map((shares) =>
    Number(Array.from(shares)[0])
  )
  const [total] = stated("all")
  // Filers state a total of 0 for what does not apply.
  const isOmitted = Number(total) === 0 && stated("all").size === 1 && single.length > 0
  const partsOfDate = Array.from(parts).filter((member) => stated(member).size > 0)
  const members = isOmitted ? partsOfDate : stated("all").size > 0 ? ["all"] : [
    ...new Set(facts.map(({ member }) => member)),
  ]
  const isSum = isOmitted || total === undefined || single.length === 0 ||
    single.reduce((a, b) => a + b) === Number(total)
  // Beside a class with one number, one with two numbers makes the total unclear.
  if (!isSum || (total !== undefined && single.length > 0 && single.length < partsOfDate.length)) return undefined
  if (members.length === 0 || members.some((member) => stated(member).size !== 1)) return undefined
  const counts = members.map((member) => Number(Array.from(stated(member))[0]))
  const sum = counts.reduce((a, b) => a + b)
  // One of several classes that is the sum of the others is a total.
  return counts.filter((count) => count > 0).length > 2 && counts.some((count) => count * 2 === sum) ? sum / 2 : sum
}

describe("Random instances", () => {
  it.prop("give the sum that another reader finds, or none", [RandomCounts], ([counts]) => {
    const made = {
      cik,
      counts: counts.map(({ day, isOther, member, shares }): MadeCount => ({
        ...(member !== null && { member }),
        ...(isOther && { axes: { "dei:LegalEntityAxis": "a:Other" } }),
        shares,
        date: `2026-04-2${day}`,
      })),
    }
    assert.strictEqual(sumOf(made), sumWithRegularExpressions(makeInstance(made)))
  }, { arbitrary: { runs: getInputCount(500) } })

  const securities = {
    common: [
      classB,
      classC,
      "us-gaap:CommonStockMember",
      "a:NonvotingCommonSharesMember",
      "a:SubordinateSharesMember",
    ],
    other: otherSecurities,
    unclear: unclearSecurities,
  }
  const RandomSecurities = Schema.Array(Schema.Struct({
    kind: Schema.Literals(["common", "common", "other", "other", "unclear"]),
    index: small(100),
    shares: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000 })),
  })).check(Schema.isMinLength(1), Schema.isMaxLength(8))

  it.prop("never add another security to common shares, in any order (D44)", [RandomSecurities, Schema.Boolean], (
    [made, hasTotal],
  ) => {
    const named = made.map(({ index, kind, shares }) => ({
      kind,
      shares,
      member: securities[kind][index % securities[kind].length] ?? "",
    }))
    const counts = Array.from(new Map(named.map((count) => [count.member, count])).values())
    const common = counts.filter(({ kind }) => kind === "common")
    const sum = common.reduce((sum, { shares }) => sum + shares, 0)
    const total = hasTotal && common.length > 0 ? [{ shares: sum, member: "a:TotalSharesMember" }] : []
    // Plain common stock with the number of another class may be the same class.
    const plain = common.find(({ member }) => member === "us-gaap:CommonStockMember")
    const hasTwin = common.some((other) => other !== plain && other.shares === plain?.shares)
    const isClear = common.length > 0 && !hasTwin && counts.every(({ kind }) => kind !== "unclear")
    assert.strictEqual(sumOf({ counts: [...total, ...counts] }), isClear ? sum : undefined)
  }, { arbitrary: { runs: getInputCount(2_000) } })

  const place = small(1_000_000)

  it.prop("are decoded or refused, but never fail, if parts are lost", [place, place], ([from, length]) => {
    const text = makeInstance({ cik, counts: alphabetClasses, listings: alphabetListings })
    const start = from % text.length
    const result = decode(text.slice(0, start) + text.slice(start + length % 200))
    if (Result.isSuccess(result) && result.success !== null) {
      assert.isAtMost(result.success.classes.length, alphabetClasses.length)
    }
  }, { arbitrary: { runs: getInputCount(500) } })
})
