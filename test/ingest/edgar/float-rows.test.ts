/**
 * Tests rows of share counts and public floats that are built from recorded company facts. The expected values were
 * written by hand. The tests cover these pitfalls of the data: companies with several share classes (6), wrong numbers
 * (7), and facts in several filings (8).
 */
import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import type { RowCells } from "../../../src/contract/Datasets.ts"
import { decodeCompanyFacts, listFactSources } from "../../../src/ingest/edgar/read/CompanyFacts.ts"
import { buildCompanyFactsUrl } from "../../../src/ingest/edgar/fetch/EdgarUrls.ts"
import { listCountDoubts, makeFloatRows } from "../../../src/ingest/edgar/read/FloatRows.ts"
import { formatDoubtKey, type OperatorDecisions } from "../../../src/ingest/edgar/read/Doubt.ts"
import type { KnownSplit } from "../../../src/ingest/edgar/read/CountSplits.ts"
import { assessCounts } from "../../../src/ingest/edgar/read/ShareCounts.ts"
import type { CompanySubmissions } from "../../../src/ingest/edgar/read/Submissions.ts"
import { getInputCount } from "../../support/Thoroughness.ts"
import { ciks, companiesWithFacts, factsOf, factsText, submissionsOf } from "./Recordings.ts"

/** Apple's submissions. They stand in for those of other companies, which were not recorded. */
const submissions: CompanySubmissions = submissionsOf(ciks.apple)

const makeIssuer = (cik: string) => ({ cik, ticker: "ZYXA", tickers: ["ZYXA"], name: "Company", exchange: "Nasdaq" })

const rowsOf = (cik: string, facts = factsOf(cik), list = submissions) => makeFloatRows(makeIssuer(cik), facts, list)

const historyOf = (cik: string) => rowsOf(cik).historical_float_pro

const reportOf = (cik: string, accession: string) =>
  historyOf(cik).find((row) => String(row["document_url"]).includes(accession))

interface MadeFact {
  readonly end: string
  readonly val: number
  readonly filed?: string
  readonly accn?: string
  readonly form?: string
}

/** Builds company facts with the given counts and floats. Each fact has its own filing. */
const makeText = (
  counts: ReadonlyArray<MadeFact>,
  floats: ReadonlyArray<MadeFact> = [],
  balanceSheetCounts: ReadonlyArray<MadeFact> = [],
) => {
  const complete = (facts: ReadonlyArray<MadeFact>, series: number) =>
    facts.map((fact, index) => ({
      accn: `000000000${series}-26-${String(index).padStart(6, "0")}`,
      form: "10-Q",
      filed: fact.end,
      ...fact,
    }))
  return JSON.stringify({
    cik: 320193,
    facts: {
      dei: {
        EntityCommonStockSharesOutstanding: { units: { shares: complete(counts, 1) } },
        EntityPublicFloat: { units: { USD: complete(floats, 2) } },
      },
      "us-gaap": { CommonStockSharesOutstanding: { units: { shares: complete(balanceSheetCounts, 1) } } },
    },
  })
}

const decode = (text: string) => Result.getOrThrow(decodeCompanyFacts(text, buildCompanyFactsUrl(ciks.apple)))

const rowsOfText = (text: string, list = submissions) => rowsOf(ciks.apple, decode(text), list)

const currentOf = (...counts: ReadonlyArray<MadeFact>) =>
  rowsOfText(makeText(counts)).float_outstanding[0]?.["outstanding"]

describe("A share count", () => {
  it("comes from the cover page, in a row with the date of the count and the public float in dollars", () => {
    assert.deepStrictEqual(reportOf(ciks.apple, "0000320193-25-000079"), {
      ticker: "ZYXA",
      filed_at: "2025-10-31",
      form_type: "10-K",
      document_url: "https://www.sec.gov/Archives/edgar/data/320193/000032019325000079/0000320193-25-000079-index.htm",
      reported_date: "2025-10-17",
      outstanding_shares: "14776353000",
      cik: "0000320193",
      is_adr: "false",
      details: "Shares outstanding from the cover page. Public float on 2025-03-28: 3253431000000 USD.",
      last_updated: "2025-10-31 00:00:00",
      source: [
        "https://data.sec.gov/api/xbrl/companyfacts/CIK0000320193.json#dei/EntityCommonStockSharesOutstanding/shares/" +
        "0000320193-25-000079/2025-10-17",
        "https://data.sec.gov/api/xbrl/companyfacts/CIK0000320193.json#dei/EntityPublicFloat/USD/" +
        "0000320193-25-000079/2025-03-28",
      ],
    })
  })

  it("is in float_outstanding if the newest filing states it", () => {
    assert.deepStrictEqual(rowsOf(ciks.nvidia).float_outstanding, [{
      ticker: "ZYXA",
      company: "Company",
      outstanding: "24200000000",
      is_adr: "false",
      industry: "Electronic Computers",
      exchange: "Nasdaq",
      reported_date: "2026-05-15",
      filed_at: "2026-05-20",
      document_url: "https://www.sec.gov/Archives/edgar/data/1045810/000104581026000052/0001045810-26-000052-index.htm",
      last_updated: "2026-05-20 00:00:00",
      source: [
        "https://data.sec.gov/api/xbrl/companyfacts/CIK0001045810.json#dei/EntityCommonStockSharesOutstanding/shares/" +
        "0001045810-26-000052/2026-05-15",
        "https://data.sec.gov/submissions/CIK0000320193.json",
      ],
    }])
  })

  it("is that of the balance sheet for a company with several classes of shares (pitfall 6)", () => {
    const [current] = rowsOf(ciks.alphabet).float_outstanding
    assert.deepInclude(current, {
      outstanding: "12116000000",
      reported_date: "2026-03-31",
      filed_at: "2026-04-30",
      source: [
        "https://data.sec.gov/api/xbrl/companyfacts/CIK0001652044.json#us-gaap/CommonStockSharesOutstanding/shares/" +
        "0001652044-26-000048/2026-03-31",
        "https://data.sec.gov/submissions/CIK0000320193.json",
      ],
    })
    assert.deepInclude(reportOf(ciks.alphabet, "0001652044-26-000048"), {
      reported_date: "2026-03-31",
      outstanding_shares: "12116000000",
      details:
        "Shares outstanding from the balance sheet (us-gaap), because the facts have no count from the cover page. They " +
        "may be of several classes. The number of shares of each is not known, and without it `market_cap` of the " +
        "company is null.",
    })
  })

  it("of a balance sheet is never a placeholder, or a count that gives an absurd price (pitfall 6)", () => {
    const balanceOf = (val: number) =>
      rowsOfText(makeText([], [{ end: "2025-06-30", val: 5e9 }], [{ end: "2025-10-15", val }]))
    for (const val of [1, 100, 1000, 9_999, 499_999]) {
      assert.isNull(balanceOf(val).float_outstanding[0]?.["outstanding"], String(val))
      assert.strictEqual(balanceOf(val).historical_float_pro.length, 1)
    }
    assert.strictEqual(balanceOf(500_000).float_outstanding[0]?.["outstanding"], "500000")
  })

  it("of a balance sheet replaces an outdated count of a cover page (pitfall 6)", () => {
    const text = makeText([{ end: "2010-10-15", val: 900_000_000 }], [], [{ end: "2025-12-31", val: 905_000_000 }])
    assert.strictEqual(rowsOfText(text).float_outstanding[0]?.["outstanding"], "905000000")
  })

  it("is that of the balance sheet if a newer report has no count on its cover (D38)", () => {
    const cover = { end: "2025-04-15", val: 61_000_000, form: "10-Q" }
    const currentWith = (...balances: ReadonlyArray<MadeFact>) =>
      rowsOfText(makeText([cover], [], balances)).float_outstanding[0]?.["outstanding"]
    assert.strictEqual(currentWith({ end: "2025-06-25", val: 75_000_000 }), "75000000")
    assert.strictEqual(currentWith({ end: "2025-03-31", val: 75_000_000 }), "61000000")
    const later = ["2025-06-30", "2025-09-30"].map((end, index) => ({ end, accn: `0000000009-26-00000${index}` }))
    const currentAfter = (...counts: ReadonlyArray<number>) =>
      currentWith(...counts.map((val, index) => ({ end: "", ...later[index], val })))
    for (const [first, second] of [[900_000, 910_000], [600_000_000, 610_000_000]] as const) {
      assert.isNull(currentAfter(first), "one report may be wrong")
      assert.strictEqual(currentAfter(first, second), String(second))
      assert.strictEqual(currentAfter(first, 62_000_000), "62000000")
    }
    assert.strictEqual(currentAfter(61_000, 61_500), "61000000", "in thousands")
  })

  it("is unknown if the last count was filed years before the newest report (pitfall 6)", () => {
    const text = makeText([{ end: "2010-10-15", val: 900_000_000 }])
    assert.isNull(rowsOfText(text).float_outstanding[0]?.["outstanding"])
    const old = { ...submissions, filings: submissions.filings.filter(({ filingDate }) => filingDate < "2011") }
    assert.deepStrictEqual(rowsOfText(text, old).float_outstanding, [])
    const recent = makeText([{ end: "2025-10-15", val: 900_000_000 }])
    assert.strictEqual(rowsOfText(recent).float_outstanding[0]?.["outstanding"], "900000000")
  })

  it("is accepted from a foreign filer, whose facts have the CIK as text", () => {
    assert.deepStrictEqual(
      historyOf(ciks.logisticProperties).map((
        row,
      ) => [row["form_type"], row["reported_date"], row["outstanding_shares"]]),
      [["20-F", "2024-03-28", "31709747"], ["20-F/A", "2025-04-02", "31668601"], ["20-F", "2025-04-02", "31668601"]],
    )
  })

  it("counts as unknown if it is not a positive safe integer (pitfall 7)", () => {
    const unusable = [
      { end: "2025-10-15", val: 0 },
      { end: "2025-10-16", val: 1.5 },
      { end: "2025-10-17", val: -5 },
      { end: "2025-10-19", val: 1e17 },
    ]
    assert.isNull(currentOf(...unusable))
    assert.deepStrictEqual(rowsOfText(makeText(unusable)).historical_float_pro, [])
  })

  it("counts as unknown if one filing reports two values for one date", () => {
    const accn = "0000000001-26-000009"
    assert.isNull(currentOf({ end: "2025-10-15", val: 5, accn }, { end: "2025-10-15", val: 6, accn }))
    assert.strictEqual(currentOf({ end: "2025-10-15", val: 5, accn }, { end: "2025-10-15", val: 5, accn }), "5")
  })

  it("must be confirmed by a second filing after it changed more than eightfold (pitfall 7)", () => {
    const before = { end: "2025-05-15", val: 1_000_000 }
    assert.strictEqual(currentOf(before, { end: "2025-08-15", val: 8_000_000 }), "8000000")
    const jump = { end: "2025-08-15", val: 1_000_000_000 }
    assert.isNull(currentOf(before, jump))
    assert.strictEqual(currentOf(before, jump, { end: "2025-11-15", val: 1_000_100_000 }), "1000100000")
    const [, row] = rowsOfText(makeText([before, jump])).historical_float_pro
    assert.strictEqual(row?.["outstanding_shares"], "1000000000")
    assert.strictEqual(
      row?.["details"],
      "Shares outstanding from the cover page. Unconfirmed: it differs from 1000000 on 2025-05-15 as if it were in " +
        "another unit, such as thousands.",
    )
  })

  const report = (end: string, val: number, more: Partial<MadeFact> = {}) => ({ end, val, ...more })

  it("is the newest by its own date, whenever an older one is filed or amended (D38)", () => {
    const [may, august] = [report("2025-05-15", 50_000_000), report("2025-08-15", 80_000_000)]
    assert.strictEqual(currentOf(may, august, { ...may, filed: "2025-12-01", form: "10-Q/A" }), "80000000")
  })

  it("is the one with fewer doubts if an amendment contradicts it (decision 0103)", () => {
    const dated = (filed: string, val: number) => ({ end: "2026-02-15", val, filed, form: "10-K" })
    const floats = [{ end: "2025-06-30", val: 300_000_000 }]
    for (const [first, second] of [[25_123_000, 25_123], [25_123, 25_123_000]] as const) {
      const text = makeText([dated("2026-02-25", first), dated("2026-03-25", second)], floats)
      const { float_outstanding, historical_float_pro } = rowsOfText(text)
      assert.strictEqual(float_outstanding[0]?.["outstanding"], "25123000")
      const counts = historical_float_pro.flatMap((row) => row["outstanding_shares"] ?? [])
      assert.deepStrictEqual(counts, ["25123000"])
    }
  })

  it("is not confirmed by another date of the same filing (decision 0103)", () => {
    const filing = { accn: "0000320193-26-000001", filed: "2026-02-25", form: "10-K" }
    const counts = ["2026-02-15", "2026-02-20"].map((end) => report(end, 25_123, filing))
    const { historical_float_pro } = rowsOfText(makeText(counts, [report("2025-06-30", 300_000_000, filing)]))
    const details = detailsOf(historical_float_pro)
    assert.isAbove(details.length, 0)
    for (const text of details) assert.include(text, "Unconfirmed: it gives a price of 11941 USD")
  })

  it("is confirmed by an amendment after a reverse split of more than 1 for 10 (D38)", () => {
    const before = report("2025-05-15", 900_000_000)
    const after = report("2025-08-15", 30_000_000)
    assert.isNull(currentOf(before, after))
    assert.strictEqual(currentOf(before, after, { ...after, filed: "2025-09-01", form: "10-Q/A" }), "30000000")
    assert.strictEqual(currentOf(before, after, report("2025-11-15", 31_000_000)), "31000000")
    const corrected = { ...after, val: 910_000_000, filed: "2025-09-01", form: "10-Q/A" }
    assert.strictEqual(currentOf(before, after, corrected), "910000000")
  })

  it("is confirmed by the balance sheet of its filing after a reverse split (D38)", () => {
    const reports = [report("2025-05-15", 900_000_000), report("2025-08-15", 30_000_000)]
    const balances = [report("2025-03-31", 890_000_000), report("2025-06-30", 29_000_000)]
    const [row] = rowsOfText(makeText(reports, [], balances)).float_outstanding
    assert.strictEqual(row?.["outstanding"], "30000000")
  })

  const assess = (text: string, splits: ReadonlyArray<KnownSplit> = [], decisions: OperatorDecisions = new Map()) => {
    const { current, counts } = assessCounts({ facts: decode(text), filings: [], splits, decisions })
    return {
      current: typeof current === "string" ? current : current.val,
      reasons: counts.map(({ reasons }) => reasons.join("; ")),
    }
  }

  it("is not believed if a known split has not changed it (D44)", () => {
    for (const [split, dates] of [[30, ["2025-08-05", "2025-11-05"]], [4, ["2025-02-05", "2025-11-05"]]] as const) {
      const splits = [{ day: "2025-10-01", ratio: 1 / split }]
      const [before, unchanged] = dates.map((end) => ({ end, val: 30_000_000 }))
      if (before === undefined || unchanged === undefined) return
      const reason = `does not fit 30000000 on ${dates[0]}, which the splits since then make ${30_000_000 / split}`
      assert.deepStrictEqual(assess(makeText([before, unchanged]), splits), {
        current: "doubtful",
        reasons: ["", reason],
      })
      const restated = { ...unchanged, val: 30_000_000 / split }
      assert.deepStrictEqual(assess(makeText([before, restated]), splits).reasons, ["", ""])
      // The recorded date may be wrong by some days.
      const inexact = [{ day: "2025-11-01", ratio: 1 / split }]
      assert.deepStrictEqual(assess(makeText([before, unchanged]), inexact).reasons, ["", ""])
    }
  })

  const decideOn = (end: string, read: number, value: string | null): OperatorDecisions => {
    const fact = decode(makeText([report(end, read)])).counts[0]
    const url = fact === undefined ? "" : listFactSources(ciks.apple, fact)[0]
    const key = formatDoubtKey({ table: "historical_float_pro", column: "outstanding_shares", url, read: String(read) })
    return new Map([[key, { isConfirmed: false, value }]])
  }

  it("that an operator has corrected stays, however often the error is repeated (decision 0103)", () => {
    const errors = ["2025-05-15", "2025-08-15", "2025-11-15", "2026-02-15"].map((end) => report(end, 25_123))
    const { current, reasons } = assess(makeText(errors), [], decideOn("2025-05-15", 25_123, "25123000"))
    assert.strictEqual(current, 25_123_000)
    const reason = "differs from 25123000 on 2025-05-15 as if it were in another unit, such as thousands"
    assert.deepStrictEqual(reasons, ["", reason, reason, reason])
  })

  it("with a number that an operator has replaced is an error, however often it is repeated (decision 0103)", () => {
    const error = report("2025-08-15", 300_000_000)
    const before = report("2025-05-15", 30_000_000)
    const repeated = ["2025-11-15", "2026-02-15"].map((end) => report(end, error.val))
    const decisions = decideOn(error.end, error.val, "30000000")
    const { current, reasons } = assess(makeText([error, before, ...repeated]), [], decisions)
    assert.strictEqual(current, 30_000_000)
    const reason = "is more than eight times up or down from 30000000 on 2025-08-15"
    assert.deepStrictEqual(reasons, ["", "", reason, reason])
    const right = report("2026-05-15", 30_100_000)
    assert.strictEqual(assess(makeText([error, before, ...repeated, right]), [], decisions).current, right.val)
  })

  it("like one that an operator has replaced is believed after three reports (decision 0103)", () => {
    const ends = ["2024-11-15", "2024-08-15", "2025-02-15", "2025-05-15", "2025-08-15", "2025-11-15"]
    const values = [14_000_000, 10_000_000, 11_000_000, 14_200_000, 14_300_000, 14_400_000]
    const reports = ends.map((end, index) => report(end, values[index] ?? assert.fail()))
    const decisions = decideOn("2024-11-15", 14_000_000, "10500000")
    const assessFirst = (count: number, balanceOf = (val: number) => val) => {
      const balances = reports.slice(0, count).map(({ end, val }) => report(end.replace(/15$/, "01"), balanceOf(val)))
      return assess(makeText(reports.slice(0, count), [], balances), [], decisions)
    }
    const doubted = "is like a number that an operator has corrected"
    // The balance sheets also state the corrected number, so one of them shows nothing.
    assert.strictEqual(assessFirst(3).current, 11_000_000)
    const repeated = assess(makeText(reports.slice(0, 5)), [], decisions)
    assert.strictEqual(assess(makeText(reports.slice(0, 4)), [], decisions).current, 11_000_000)
    assert.strictEqual(repeated.current, "doubtful")
    assert.deepStrictEqual(repeated.reasons, ["", "", "", doubted, doubted])
    assert.strictEqual(assess(makeText(reports), [], decisions).current, 14_400_000)
    assert.deepStrictEqual(assessFirst(6), { current: 14_400_000, reasons: ["", "", "", "", "", ""] })
    assert.strictEqual(assessFirst(6, () => 10_500_000).current, "doubtful")
  })

  it("is not confirmed by a report that repeats a corrected error (decision 0103)", () => {
    const ends = ["2025-02-15", "2024-11-15", "2025-05-15", "2025-08-15"]
    const reports = [132_000_000, 2_039_000_000, 120_000_000, 147_000_000].map((val, index) =>
      report(ends[index] ?? assert.fail(), val)
    )
    const decisions = decideOn("2025-02-15", 132_000_000, "2132000000")
    const assessFirst = (count: number) => assess(makeText(reports.slice(0, count)), [], decisions).current
    assert.deepStrictEqual([2, 3, 4].map(assessFirst), [2_132_000_000, 2_132_000_000, "doubtful"])
    const next = report("2025-11-15", 2_150_000_000)
    assert.strictEqual(assess(makeText([...reports, next]), [], decisions).current, 2_150_000_000)
  })

  it("with a doubled digit that an operator has corrected is an error after a split, too (decision 0103)", () => {
    const ends = ["2025-02-15", "2024-11-15", "2025-05-15", "2025-08-15"]
    const reports = [11_058_000_000, 1_047_000_000, 1_576_000_000, 11_578_000_000].map((val, index) =>
      report(ends[index] ?? assert.fail(), val)
    )
    const decisions = decideOn("2025-02-15", 11_058_000_000, "1058000000")
    const { current, reasons } = assess(makeText(reports), [{ day: "2025-04-01", ratio: 1.5 }], decisions)
    assert.strictEqual(current, 1_576_000_000)
    assert.strictEqual(reasons.at(-1), "is like a number that an operator has corrected")
  })

  it("is not confirmed by two reports if the balance sheet of one contradicts it (decision 0103)", () => {
    const ends = ["2025-02-15", "2025-05-15", "2025-08-15", "2025-11-15"]
    const reports = [63_000_000, 6_400_000, 6_500_000, 6_600_000].map((val, index) =>
      report(ends[index] ?? assert.fail(), val)
    )
    /** Builds the balance sheet of the report with this index. */
    const sheetOf = (index: number, val: number) =>
      report(ends[index]?.replace(/15$/, "01") ?? assert.fail(), val, { accn: `0000000001-26-00000${index}` })
    const current = (count: number, ...sheets: ReadonlyArray<MadeFact>) =>
      assess(makeText(reports.slice(0, count), [], sheets)).current
    assert.strictEqual(current(3), 6_500_000)
    for (const index of [1, 2]) assert.strictEqual(current(3, sheetOf(index, 64_500_000)), "doubtful", ends[index])
    // The balance sheet of the other report agrees, or a third report repeats the count.
    assert.strictEqual(current(3, sheetOf(1, 64_500_000), sheetOf(2, 6_500_000)), 6_500_000)
    assert.strictEqual(current(4, sheetOf(1, 64_500_000)), 6_600_000)
  })

  it("that is copied across a split is not confirmed by another copy (decision 0103)", () => {
    const copies = ["2025-08-05", "2025-11-05", "2026-02-05"].map((end) => report(end, 30_000_000))
    const { current, reasons } = assess(makeText(copies), [{ day: "2025-10-01", ratio: 1 / 30 }])
    assert.strictEqual(current, "doubtful")
    assert.isEmpty(reasons[0])
    assert.isNotEmpty(reasons[1])
    assert.isNotEmpty(reasons[2])
  })

  it("that an operator declares unknown does not bring an older one back (decision 0103)", () => {
    const [before, after] = [
      report("2025-05-15", 5_000_000, { accn: "0000000001-25-000001" }),
      report("2025-08-15", 9e7),
    ]
    const decisions = decideOn(after.end, after.val, null)
    assert.strictEqual(assess(makeText([after, before]), [], decisions).current, "doubtful")
    const next = report("2025-11-15", 6_000_000)
    assert.strictEqual(assess(makeText([after, before, next]), [], decisions).current, 6_000_000)
  })

  it("in the unit of earlier ones that their balance sheets contradict is doubted, too (decision 0103)", () => {
    const reports = ["2025-05-15", "2025-08-15", "2025-11-15"].map((end) => report(end, 25_123))
    const balances = ["2025-03-31", "2025-06-30"].map((end) => report(end, 25_100_000))
    const { current, reasons } = assess(makeText(reports, [], balances))
    assert.strictEqual(current, 25_100_000)
    assert.match(reasons[2] ?? "", /^differs from 25100000 on 2025-06-30 as if it were in another unit/)
  })

  it("is compared with its balance sheet even if only a close speaks against that one (decision 0103)", () => {
    const accn = "0000000001-26-000000"
    const facts = decode(makeText(
      [report("2026-02-20", 1_615_432_700)],
      [report("2025-06-30", 920_796_619, { accn, filed: "2026-02-28" })],
      [report("2025-12-31", 16_154_327)],
    ))
    const { counts } = assessCounts({ facts, filings: [], closes: new Map([["2025-06-30", 3]]) })
    assert.deepStrictEqual(counts[0]?.reasons, ["differs from 16154327 on the balance sheet of 2025-12-31"])
    const near = decode(makeText(
      [report("2026-02-20", 5_000_000)],
      [report("2025-06-30", 90_000_000, { accn, filed: "2026-02-28" })],
      [report("2025-12-31", 1_000_000)],
    ))
    const [cover] = assessCounts({ facts: near, filings: [], closes: new Map([["2025-06-30", 3]]) }).counts
    assert.include(cover?.reasons.join("; "), "differs from 1000000 on the balance sheet of 2025-12-31")
  })

  it.each([512_234_567, 5_123_456, 170_000_000, 17_000_000, 151_300_000])(
    "is doubted if it is %d, and the balance sheet of its filing and the last report say 51,234,567 (decision 0103)",
    (typed) => {
      const right = 51_234_567
      const covers = [report("2025-05-15", right), report("2025-08-15", typed)]
      const balances = [report("2025-03-31", right), report("2025-06-30", right)]
      const { current, reasons } = assess(makeText(covers, [], balances))
      assert.include(reasons[1] ?? "", "differs from 51234567 on the balance sheet of 2025-06-30")
      const isLike = (ratio: number) => ratio <= 8 && ratio >= 1 / 8
      // A factor of about ten contradicts the last report, too. Other factors may be an offering.
      assert.strictEqual(current, isLike(typed / right) ? typed : "doubtful")
      // If no report has a balance sheet, the count of the last report need only be like the one before.
      assert.strictEqual(assess(makeText(covers)).current, isLike(typed / right) ? typed : "doubtful")
      // A split between the two dates of the filing explains the factor.
      const splits = [{ day: "2025-07-20", ratio: typed / right }]
      assert.deepStrictEqual(assess(makeText(covers, [], balances), splits), { current: typed, reasons: ["", ""] })
      assert.strictEqual(assess(makeText(covers, [], balances), [{ day: "2025-07-20", ratio: null }]).reasons[0], "")
    },
  )

  it("that repeats the amount of the public float is doubted (decision 0103)", () => {
    const accn = "0000000001-26-000000"
    const float = report("2025-06-30", 425_123_000, { accn, filed: "2026-02-28" })
    const assessFloat = (balance: number) =>
      assess(makeText([report("2026-02-20", 425_123_000)], [float], [report("2025-12-31", balance)]))
    const reason = "is the same number as the public float in USD"
    assert.deepStrictEqual(assessFloat(400_000_000), { current: 425_123_000, reasons: [reason] })
    assert.deepStrictEqual(assessFloat(50_000_000).reasons, [
      `differs from 50000000 on the balance sheet of 2025-12-31; ${reason}`,
    ])
    assert.notStrictEqual(assessFloat(50_000_000).current, 425_123_000)
  })

  it.each(
    [
      ["in thousands", [58_000, 84_000_000], false],
      ["with a lost digit", [5_800_000, 84_000_000], false],
      ["with a doubled digit", [58_000_000, 844_000_000], false],
      ["after a conversion of nearly all its shares", [2_000_000, 140_000_000], true],
    ] as const,
  )("of a class %s is doubted if it contradicts the last report or the balance sheet (decision 0103)", (
    _,
    shares,
    isRight,
  ) => {
    const facts = decode(makeText(
      [report("2025-05-15", 142_000_000), report("2025-08-15", shares[0] + shares[1])],
      [],
      [report("2025-03-31", 142_000_000), report("2025-06-30", 142_000_000)],
    ))
    const counts = facts.counts.map((fact, index) => ({
      ...fact,
      instance: {
        hasClasses: true,
        classes: "",
        source: [],
        shares: new Map(
          ([["A", 58_000_000], ["B", 84_000_000]] as const).map(([name, first], at) => {
            const changed = index === 0 ? first : shares[at] ?? first
            return [name, { name, shares: changed, symbol: null }] as const
          }),
        ),
      },
    }))
    // Without an earlier report, only the balance sheet shows the error; without one, only the earlier report.
    for (const known of [counts, counts.slice(1)]) {
      for (const balanceSheetCounts of [facts.balanceSheetCounts, []]) {
        const last = assessCounts({ facts: { ...facts, counts: known, balanceSheetCounts }, filings: [] }).counts.at(-1)
        const hasWitness = known.length > 1 || balanceSheetCounts.length > 0
        assert.strictEqual(last?.reasons.length === 0, isRight || !hasWitness, last?.reasons.join("; "))
      }
    }
  })

  it("follows several reverse splits in a row", () => {
    const reports = [report("2025-02-15", 1e9), report("2025-05-15", 2e7), report("2025-08-15", 1e6)]
    assert.isNull(currentOf(...reports))
    assert.strictEqual(currentOf(...reports, report("2025-11-15", 1_100_000)), "1100000")
  })

  const inUnits = [report("2024-11-15", 50_000_000), report("2025-02-15", 50_500_000)]
  const inThousands = [report("2025-05-15", 51_000), report("2025-08-15", 51_500)]
  const detailsOf = (rows: ReadonlyArray<RowCells>) => rows.map(({ details }) => String(details))
  const doubt = "Shares outstanding from the cover page. Unconfirmed: it differs from"
  const unit = "as if it were in another unit, such as thousands."

  it("stays the previous one while reports are in thousands, although they agree with each other (pitfall 7)", () => {
    const { float_outstanding, historical_float_pro } = rowsOfText(makeText([...inUnits, ...inThousands]))
    assert.deepInclude(float_outstanding[0], { outstanding: "50500000", reported_date: "2025-02-15" })
    const plain = "Shares outstanding from the cover page."
    const reason = `${doubt} 50500000 on 2025-02-15 ${unit}`
    assert.deepStrictEqual(detailsOf(historical_float_pro), [plain, plain, reason, reason])
  })

  it("stays the previous one while covers and balance sheets are in thousands (pitfall 7)", () => {
    const balances = inThousands.map(({ val, ...fact }) => ({ ...fact, val: val - 100 }))
    const rows = rowsOfText(makeText([...inUnits, ...inThousands], [], [...inUnits, ...balances]))
    assert.strictEqual(rows.float_outstanding[0]?.["outstanding"], "50500000")
  })

  it("ignores two reports in thousands between others (pitfall 7)", () => {
    const rows = rowsOfText(makeText([...inUnits, ...inThousands, report("2025-11-15", 52_000_000)]))
    assert.strictEqual(rows.float_outstanding[0]?.["outstanding"], "52000000")
    const reason = `${doubt} 50500000`
    assert.deepStrictEqual(
      detailsOf(rows.historical_float_pro).map((details) => details.startsWith(reason)),
      [false, false, true, true, false],
    )
    assert.notInclude(detailsOf(rows.historical_float_pro).at(-1), "Unconfirmed")
  })

  it("is in thousands if the balance sheet of its filing has a thousand times as many (pitfall 7)", () => {
    const balances = [report("2025-03-31", 50_900_000), report("2025-06-30", 51_400_000)]
    const rows = rowsOfText(makeText(inThousands, [], balances))
    assert.strictEqual(rows.float_outstanding[0]?.["outstanding"], "51400000")
    assert.isTrue(detailsOf(rows.historical_float_pro).every((details) => details.endsWith(unit)))
    // Apple's first XBRL balance sheets were in thousands, but its cover pages were not.
    assert.include(factsText(ciks.apple), `"val":899213`)
    assert.deepStrictEqual(detailsOf(historyOf(ciks.apple)).filter((details) => /Unconfirmed/.test(details)), [])
  })

  it.each([11, 20, 300, 1_000, 5_000, 1_000_000])(
    "is doubted if the balance sheet of its filing has %d times as many or as few (decision 0103)",
    (ratio) => {
      const values = [40_000, 40_000 * ratio].map((val) => report("2025-03-31", val))
      for (const [cover, balance] of [values, values.toReversed()]) {
        if (cover === undefined || balance === undefined) return assert.fail()
        const [row] = rowsOfText(makeText([cover], [], [balance])).historical_float_pro
        assert.include(row?.["details"], `Unconfirmed: it differs from ${balance.val} on `, `${cover.val}`)
      }
    },
  )

  it("is not a thousand times that of its balance sheet if the earlier reports agree with that (decision 0103)", () => {
    const wrong = ["2025-05-15", "2025-08-15", "2025-11-15"].map((end) => report(end, 50_600_000_000))
    for (const covers of [wrong.slice(0, 1), wrong.slice(0, 2), wrong]) {
      const balances = [...inUnits, ...covers.map(({ end }) => report(end, 50_600_000))]
      const rows = rowsOfText(makeText([...inUnits, ...covers], [], balances))
      assert.deepInclude(rows.float_outstanding[0], { outstanding: "50600000", reported_date: covers.at(-1)?.end })
      for (const { details } of rows.historical_float_pro.slice(2)) {
        assert.match(String(details), /Unconfirmed|Left out/)
      }
    }
  })

  it("has no doubt after the next report confirms shares issued since the balance sheet (decision 0103)", () => {
    const [first, second] = [report("2025-05-15", 100_000_000), report("2025-08-15", 101_000_000)]
    const balances = [report("2025-03-31", 5_000_000), report("2025-06-30", 100_500_000)]
    const doubtsOf = (count: number) =>
      detailsOf(
        rowsOfText(makeText([first, second].slice(0, count), [], balances.slice(0, count))).historical_float_pro,
      ).map((details) => details.includes("Unconfirmed"))
    assert.deepStrictEqual(doubtsOf(1), [true])
    assert.deepStrictEqual(doubtsOf(2), [false, false])
  })

  it.each([1 / 1_000, 1_000])(
    "is doubted if the price on the day of the float shows that it is %d times the right one (decision 0103)",
    (error) => {
      const facts = decode(makeText([report("2025-08-15", 40_000_000 * error)], [report("2025-06-30", 480_000_000)]))
      const assess = (close: number) =>
        assessCounts({ facts, filings: [], closes: new Map([["2025-06-30", close]]) }).counts[0]?.reasons
      assert.match(assess(12)?.join("; ") ?? "", /but the close on 2025-06-30 was 12 USD/)
      assert.deepStrictEqual(assess(12 / error), [])
    },
  )

  it.each([undefined, 9])(
    "that may be in thousands is not confirmed by earlier ones in the same unit, with a close of %s (decision 0103)",
    (close) => {
      const ends = ["2025-02-15", "2025-05-15", "2025-08-15", "2025-11-15"]
      const covers = ends.map((end, index) => report(end, 40_123 + index))
      const accn = "0000000001-26-000003"
      const float = report("2025-09-30", close === undefined ? 2_100_000_000 : 300_000_000, {
        accn,
        filed: "2025-11-20",
      })
      const balances = ends.map((end, index) => report(end.replace("15", "01"), 40_100 + index))
      for (const sheets of [[], balances]) {
        const facts = decode(makeText(covers, [float], sheets))
        const closes = new Map(close === undefined ? [] : [["2025-09-30", close]])
        const { counts } = assessCounts({ facts, filings: [], closes })
        assert.match(
          counts.at(-1)?.reasons.join("; ") ?? "",
          /^gives a price of [\d.]+ USD per share with the public float/,
        )
      }
      // Too many shares to be in thousands: only the float is doubted.
      const right = covers.map((cover) => ({ ...cover, val: cover.val * 1_000 }))
      const facts = decode(makeText(right, [{ ...float, val: float.val * 1_000 }]))
      const closes = new Map([["2025-09-30", close ?? 10]])
      const { counts, floats } = assessCounts({ facts, filings: [], closes })
      assert.deepStrictEqual(counts.at(-1)?.reasons, [])
      assert.strictEqual(floats[0]?.reasons.length, 1)
    },
  )

  it("is unknown as long as the older reports may have been in thousands (pitfall 7)", () => {
    const [first, second, third] = ["2025-10-15", "2025-11-15", "2025-12-15"].map((end) => report(end, 50_000_000))
    if (first === undefined || second === undefined || third === undefined) return assert.fail()
    assert.isNull(currentOf(...inThousands, first, second))
    assert.strictEqual(currentOf(...inThousands, first, second, third), "50000000")
  })

  it("of Apple never needs confirmation, because Apple's splits were only 7-for-1 and 4-for-1", () => {
    assert.deepStrictEqual(historyOf(ciks.apple).filter((row) => /Unconfirmed/.test(String(row["details"]))), [])
  })
})

describe("A public float", () => {
  it("is never in the columns float, tradable_float and market_cap", () => {
    for (const cik of companiesWithFacts) {
      const { float_outstanding, historical_float_pro } = rowsOf(cik)
      const columns = new Set([...float_outstanding, ...historical_float_pro].flatMap((row) => Object.keys(row)))
      assert.isFalse(columns.has("float") || columns.has("tradable_float") || columns.has("market_cap"))
    }
  })

  it("is unknown if it is 0 (pitfall 7)", () => {
    assert.include(factsText(ciks.alphabet), `"val":0`)
    for (const accession of ["0001652044-16-000012", "0001652044-16-000022"]) {
      assert.notInclude(String(reportOf(ciks.alphabet, accession)?.["details"] ?? ""), "Public float", accession)
    }
    assert.match(
      String(reportOf(ciks.alphabet, "0001652044-17-000008")?.["details"]),
      / Public float on 2016-06-30: 413800000000 USD\.$/,
    )
  })

  it("is unconfirmed if it repeats the amount of another year (pitfall 7)", () => {
    assert.strictEqual(
      reportOf(ciks.nvidia, "0001045810-13-000008")?.["details"],
      "Shares outstanding from the cover page. Public float on 2012-07-29: 7980000000 USD. " +
        "Unconfirmed: it was also reported for 2011-07-31.",
    )
    assert.notInclude(String(reportOf(ciks.nvidia, "0001045810-12-000013")?.["details"]), "Unconfirmed")
  })

  it("is unconfirmed if filings contradict each other (pitfall 7)", () => {
    assert.strictEqual(
      reportOf(ciks.nvidia, "0001045810-11-000015")?.["details"],
      "Shares outstanding from the cover page. Public float on 2010-08-01: 5000000000 USD. " +
        "Unconfirmed: it is 5033591950 in another filing for the same date.",
    )
  })

  it("is left out if it was reported before, and its date is after its filing (pitfall 7)", () => {
    const row = reportOf(ciks.nvidia, "0001045810-11-000031")
    assert.strictEqual(row?.["outstanding_shares"], "600288389")
    assert.strictEqual(
      row?.["details"],
      "Shares outstanding from the cover page. Public float. Left out: the filing states 5033591950, but it was also " +
        "reported for 2010-08-01; it has the date 2011-08-01, which is after the filing.",
    )
  })

  it("is not doubted for its date if an operator has declared the date unknown (decision 0103)", () => {
    const facts = decode(makeText([], [{ end: "2030-06-30", val: 300_000_000, filed: "2026-02-25" }]))
    const [float] = facts.floats
    if (float === undefined) return assert.fail("There is no public float.")
    const reasonsWith = (decisions?: OperatorDecisions) =>
      assessCounts({ facts, filings: [], decisions }).floats.map(({ reasons }) => reasons)
    assert.deepStrictEqual(reasonsWith(), [["has the date 2030-06-30, which is after the filing"]])
    const url = listFactSources(ciks.apple, float)[0]
    const key = formatDoubtKey({ table: "historical_float_pro", column: "reported_date", url, read: float.end })
    assert.deepStrictEqual(reasonsWith(new Map([[key, { isConfirmed: false, value: null }]])), [[]])
  })

  it("may be repeated in several filings, each of which has its own row (pitfall 8)", () => {
    const rows = historyOf(ciks.nvidia).filter((row) => String(row["details"]).includes("7820789330"))
    assert.deepStrictEqual(rows.map((row) => row["filed_at"]), ["2014-03-13", "2014-05-21", "2014-08-20", "2014-11-19"])
    assert.isTrue(rows.every((row) => !String(row["details"]).includes("Unconfirmed")))
  })

  it("is unconfirmed if it is more than ten times that of the previous year (pitfall 7)", () => {
    const [, row] = rowsOfText(makeText([], [{ end: "2024-06-30", val: 5_000_000 }, { end: "2025-06-30", val: 5e9 }]))
      .historical_float_pro
    assert.strictEqual(
      row?.["details"],
      "Public float on 2025-06-30: 5000000000 USD. Unconfirmed: it is more than ten times up or down from 5000000 on " +
        "2024-06-30.",
    )
  })
})

// ----------------------------------------------------------------------------------------------------------------
// Series of counts
// ----------------------------------------------------------------------------------------------------------------

const makeGrowth = (maximum: number) =>
  Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: -30, maximum }))).check(
    Schema.isMinLength(4),
    Schema.isMaxLength(16),
  )
const growth = makeGrowth(60)
const index = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 100 }))

/** Generates quarterly counts that grow by the given percentages. */
const makeSeries = (percentages: ReadonlyArray<number>): ReadonlyArray<MadeFact> => {
  let val = 40_000_000
  return percentages.map((percentage, quarter) => {
    val = Math.round(val * (1 + percentage / 100))
    return { end: new Date(Date.UTC(2022, 2 + quarter * 3, 15)).toISOString().slice(0, 10), val }
  })
}

/** Assesses a series of counts without a list of filings, so that no count is outdated. */
const currentOfSeries = (counts: ReadonlyArray<MadeFact>) =>
  assessCounts({ facts: decode(makeText(counts)), filings: [] }).current
const valueOf = (count: ReturnType<typeof currentOfSeries>) => typeof count === "string" ? count : count.val

describe("The current count of a series", () => {
  it.prop("is the newest, whichever old counts are filed again later (D38)", [growth, index], ([percentages, at]) => {
    const series = makeSeries(percentages)
    const again = series.slice(0, 1 + at % series.length).map((fact) => ({
      ...fact,
      filed: "2030-01-01",
      form: "10-Q/A",
    }))
    assert.strictEqual(valueOf(currentOfSeries(series)), series.at(-1)?.val)
    assert.strictEqual(valueOf(currentOfSeries([...series, ...again])), series.at(-1)?.val)
  }, { arbitrary: { runs: getInputCount(200) } })

  it.prop(
    "is never one of two counts in thousands after two others (pitfall 7)",
    [growth, index],
    ([percentages, at]) => {
      const series = makeSeries(percentages)
      const first = 2 + at % (series.length - 3)
      const damaged = series.map((fact, quarter) =>
        quarter === first || quarter === first + 1 ? { ...fact, val: Math.round(fact.val / 1000) } : fact
      )
      const expected = first + 1 === series.length - 1 ? series[first - 1] : series.at(-1)
      assert.strictEqual(valueOf(currentOfSeries(damaged)), expected?.val)
    },
    { arbitrary: { runs: getInputCount(200) } },
  )

  it.prop(
    "follows a reverse split of 1 for 20 from the second report on (D38)",
    [growth, index],
    ([percentages, at]) => {
      const series = makeSeries(percentages)
      const first = 1 + at % (series.length - 1)
      const split = series.map((fact, quarter) => quarter < first ? { ...fact, val: fact.val * 20 } : fact)
      const isConfirmed = first < series.length - 1
      const [before, after] = [split[first - 1]?.val ?? 0, split[first]?.val ?? 0]
      const isJump = before / after > 10
      assert.strictEqual(
        valueOf(currentOfSeries(split)),
        isConfirmed || !isJump ? series.at(-1)?.val : "doubtful",
      )
    },
    { arbitrary: { runs: getInputCount(200) } },
  )
})

// ----------------------------------------------------------------------------------------------------------------
// True histories with errors
// ----------------------------------------------------------------------------------------------------------------

const between = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

const TrueHistory = Schema.Struct({
  // Together with a split or an offering of 5 for 1, 60 percent would be a factor of eight.
  percentages: makeGrowth(59),
  /** A split or an offering: its quarter, its factor, and whether it reduces the count. */
  event: Schema.Struct({ at: index, factor: between(1, 5), isReverse: Schema.Boolean }),
  price: between(1, 300),
  hasBalanceSheets: Schema.Boolean,
  hasFloats: Schema.Boolean,
})

const accessionOf = (quarter: number) => `0000000001-26-${String(quarter).padStart(6, "0")}`

const addDays = (day: string, days: number) => new Date(Date.parse(day) + days * 86_400_000).toISOString().slice(0, 10)

/** Builds a company's quarterly reports. Every fourth report has a public float, as an annual report would. */
const makeTrueHistory = ({ event, hasBalanceSheets, hasFloats, percentages, price }: typeof TrueHistory.Type) => {
  const series = makeSeries(percentages)
  const factor = event.isReverse ? 1 / event.factor : event.factor
  const first = event.at % series.length
  return series.map(({ end, val }, quarter) => {
    const count = Math.round(quarter < first ? val : val * factor)
    const before = series[quarter - 1]
    const inBalance = before === undefined || quarter !== first ? count : before.val
    return {
      count: { end, val: count, filed: addDays(end, 7), accn: accessionOf(quarter) },
      balance: hasBalanceSheets
        ? { end: addDays(end, -30), val: inBalance, filed: addDays(end, 7), accn: accessionOf(quarter) }
        : undefined,
      float: hasFloats && quarter % 4 === 0
        ? {
          end: addDays(end, -180),
          val: Math.round(count * price * 0.7),
          filed: addDays(end, 7),
          accn: accessionOf(quarter),
        }
        : undefined,
    }
  })
}

type MadeReport = ReturnType<typeof makeTrueHistory>[number]

const assessReports = (reports: ReadonlyArray<MadeReport>) => {
  const text = makeText(
    reports.map(({ count }) => count),
    reports.flatMap(({ float }) => float ?? []),
    reports.flatMap(({ balance }) => balance ?? []),
  )
  const facts = decode(text)
  const assessment = assessCounts({ facts, filings: [] })
  return { assessment, doubts: listCountDoubts(ciks.apple, facts, assessment) }
}

const errors = {
  thousands: (count: MadeFact) => ({ ...count, val: Math.round(count.val / 1_000) }),
  millions: (count: MadeFact) => ({ ...count, val: Math.max(1, Math.round(count.val / 1_000_000)) }),
  tooLarge: (count: MadeFact) => ({ ...count, val: count.val * 1_000 }),
  millionfold: (count: MadeFact) => ({ ...count, val: count.val * 1_000_000 }),
  hundredfold: (count: MadeFact) => ({ ...count, val: count.val * 100 }),
  hundredth: (count: MadeFact) => ({ ...count, val: Math.round(count.val / 100) }),
  lostDigit: (count: MadeFact) => ({ ...count, val: Math.floor(count.val / 10) }),
  doubledDigit: (count: MadeFact) => ({ ...count, val: Number(`${String(count.val)[0]}${count.val}`) }),
  one: (count: MadeFact) => ({ ...count, val: 1 }),
  hundred: (count: MadeFact) => ({ ...count, val: 100 }),
  thousand: (count: MadeFact) => ({ ...count, val: 1_000 }),
  yearEarly: (count: MadeFact) => ({ ...count, end: addDays(count.end, -365) }),
  yearLate: (count: MadeFact) => ({ ...count, end: addDays(count.end, 365) }),
  ancient: (count: MadeFact) => ({ ...count, end: `00${count.end.slice(2)}` }),
} satisfies Record<string, (count: MadeFact) => MadeFact>

/** Returns the factor by which two values differ, regardless of which one is larger. */
const differs = (a: number, b: number) => Math.max(a / b, b / a)

const ErrorName = Schema.Literals([
  "thousands",
  "millions",
  "tooLarge",
  "millionfold",
  "hundredfold",
  "hundredth",
  "lostDigit",
  "doubledDigit",
  "one",
  "hundred",
  "thousand",
  "yearEarly",
  "yearLate",
  "ancient",
])

describe("A true history of counts", () => {
  it.prop(
    "has no doubts, whatever splits and offerings below a factor of eight it has (decision 0103)",
    [TrueHistory],
    (
      [history],
    ) => {
      const reports = makeTrueHistory(history)
      const { assessment, doubts } = assessReports(reports)
      const last = reports.at(-1)
      // Until the next report, shares that were issued since the balance sheet are a doubt.
      const isUnconfirmed = last?.balance !== undefined && differs(last.count.val, last.balance.val) > 3
      // Ignores doubts about the public float, which can legitimately change more than tenfold in a year.
      assert.lengthOf(doubts.filter(({ column }) => column !== "details"), isUnconfirmed ? 1 : 0)
      assert.strictEqual(valueOf(assessment.current), reports.at(-1)?.count.val)
    },
    { arbitrary: { runs: getInputCount(1_000) } },
  )

  /**
   * A known split near a report: its day relative to the date of the count, the ratio, by how many days its record is
   * wrong, and whether the report restates its numbers for a split before its filing.
   */
  const SplitNearReport = Schema.Struct({
    at: index,
    offset: between(-20, 30),
    factor: between(2, 30),
    isReverse: Schema.Boolean,
    mistake: between(-7, 7),
    isRestated: Schema.Boolean,
    hasBalanceSheets: Schema.Boolean,
  })

  const makeSplitHistory = (percentages: ReadonlyArray<number>, split: typeof SplitNearReport.Type) => {
    const series = makeSeries(percentages)
    const ratio = split.isReverse ? 1 / split.factor : split.factor
    const day = addDays(series[split.at % series.length]?.end ?? "", split.offset)
    const reports = series.map(({ end, val }, quarter) => {
      const filed = addDays(end, 10)
      const isAfter = (date: string) => date >= day || (split.isRestated && filed >= day)
      const place = { filed, accn: accessionOf(quarter) }
      const before = series[quarter - 1]?.val ?? val
      const balanceDay = addDays(end, -30)
      return {
        count: { end, val: Math.round(isAfter(end) ? val * ratio : val), ...place },
        balance: { end: balanceDay, val: Math.round(isAfter(balanceDay) ? before * ratio : before), ...place },
      }
    })
    return { reports, ratio, splits: [{ day: addDays(day, split.mistake), ratio }] }
  }

  const assessSplit = (
    { reports, splits }: Pick<ReturnType<typeof makeSplitHistory>, "reports" | "splits">,
    hasBalanceSheets: boolean,
  ) => {
    const balances = hasBalanceSheets ? reports.map(({ balance }) => balance) : []
    const facts = decode(makeText(reports.map(({ count }) => count), [], balances))
    return assessCounts({ facts, filings: [], splits })
  }

  it.prop(
    "has no doubts about its counts because of a known split near a report, whose record is a week wrong (D44)",
    [growth, SplitNearReport],
    ([percentages, split]) => {
      const history = makeSplitHistory(percentages, split)
      const { counts, current } = assessSplit(history, split.hasBalanceSheets)
      assert.deepStrictEqual(counts.flatMap(({ reasons }) => reasons), [])
      assert.strictEqual(valueOf(current), history.reports.at(-1)?.count.val)
    },
    { arbitrary: { runs: getInputCount(1_000) } },
  )

  it("that ignores a split is doubted although the split lies near the report before (D44)", () => {
    const makeReport = (quarter: number, end: string, val: number) => {
      const place = { filed: addDays(end, 11), accn: accessionOf(quarter) }
      return { count: { end, val, ...place }, balance: { end: addDays(end, -48), val, ...place } }
    }
    const reports = [makeReport(0, "2025-11-17", 62_200_000), makeReport(1, "2026-02-17", 62_100_000)]
    const splits = [{ day: "2026-02-27", ratio: 1 / 10 }]
    const right = [...reports, makeReport(2, "2026-05-17", 6_266_984)]
    assert.strictEqual(valueOf(assessSplit({ reports: right, splits }, false).current), 6_266_984)
    const wrong = [...reports, makeReport(2, "2026-05-17", 62_669_845)]
    const { counts, current } = assessSplit({ reports: wrong, splits }, false)
    assert.strictEqual(current, "doubtful")
    const reason = "does not fit 62100000 on 2026-02-17, which the splits since then make 6210000"
    assert.deepStrictEqual(counts.at(-1)?.reasons, [reason])
  })

  it.prop("with an error never makes it the current count without a doubt (decision 0103)", [
    TrueHistory,
    ErrorName,
    index,
    Schema.Boolean,
  ], ([history, name, at, isInBalanceSheet]) => {
    const reports = makeTrueHistory(history)
    const wrong = at % reports.length
    const damage = errors[name]
    // If all values of a filing are divided by 10 or 100, it looks the same as a filing after a split, so only the cover
    // count is changed in these cases.
    const isLikeSplit = ["hundredfold", "hundredth", "lostDigit", "doubledDigit"].includes(name)
    const isWholeFiling = isInBalanceSheet && !isLikeSplit
    const damaged = reports.map((report, quarter) =>
      quarter !== wrong ? report : {
        ...report,
        count: { ...report.count, ...damage(report.count) },
        balance: report.balance !== undefined && isWholeFiling
          ? { ...report.balance, val: damage(report.balance).val }
          : report.balance,
      }
    )
    const { assessment, doubts } = assessReports(damaged)
    const { current } = assessment
    const isDateError = ["yearEarly", "yearLate", "ancient"].includes(name)
    const isWrong = typeof current !== "string" && current.accn === accessionOf(wrong)
    // A split in the same quarter may hide a wrong digit.
    const [typed, before, ownBalance] = [damaged[wrong]?.count, reports[wrong - 1]?.count, reports[wrong]?.balance]
    const isUnseen = (name === "lostDigit" || name === "doubledDigit") && typed !== undefined &&
      differs(typed.val, before?.val ?? typed.val) <= 8 && differs(typed.val, ownBalance?.val ?? typed.val) <= 3
    if (isDateError) {
      assert.isTrue(doubts.some(({ column, read }) => column === "reported_date" && read === damaged[wrong]?.count.end))
      assert.strictEqual(valueOf(current), reports.at(-1)?.count.val)
    } else if (isWrong && !isUnseen && current.val !== reports[wrong]?.balance?.val) {
      assert.isTrue(
        doubts.some(({ column, url }) => column === "outstanding_shares" && url.includes(`/${accessionOf(wrong)}/`)),
      )
    }
    // If a filing's cover and balance sheet contradict each other, there must be a doubt, regardless of which value is
    // larger.
    const { balance, count } = damaged[wrong] ?? { balance: undefined, count: { val: 0 } }
    const next = damaged[wrong + 1]?.count.val ?? 0
    const isConfirmed = differs(count.val, balance?.val ?? count.val) < 101 && differs(count.val, next) <= 3
    const isContradicted = balance !== undefined && differs(count.val, balance.val) > 3
    if (isContradicted && !isConfirmed && count.val <= Number.MAX_SAFE_INTEGER) {
      assert.isTrue(doubts.some(({ url }) => url.includes(`/${accessionOf(wrong)}/`)))
    }
    // After three further reports, the error no longer affects the current count.
    if (wrong <= reports.length - 4) assert.strictEqual(valueOf(current), reports.at(-1)?.count.val)
  }, { arbitrary: { runs: getInputCount(2_000) } })
})

// ----------------------------------------------------------------------------------------------------------------
// Repeated and reordered facts
// ----------------------------------------------------------------------------------------------------------------

const byKey = (a: RowCells, b: RowCells) => JSON.stringify(a).localeCompare(JSON.stringify(b))

const seeds = Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000 }))).check(
  Schema.isMinLength(1),
  Schema.isMaxLength(20),
)

/** Shuffles the elements and repeats some of them. */
const shuffle = <A>(elements: ReadonlyArray<A>, seeds: ReadonlyArray<number>) => {
  const random = (index: number) => ((seeds[index % seeds.length] ?? 0) * 7919 + index * 104_729) % 1_000_003
  const repeated = elements.filter((_, index) => random(index) % 3 === 0)
  return [...elements, ...repeated]
    .map((element, index) => ({ element, rank: random(index + 1) }))
    .toSorted((a, b) => a.rank - b.rank)
    .map(({ element }) => element)
}

describe("Reordered and repeated facts", () => {
  for (const cik of [ciks.nvidia, ciks.apple, ciks.logisticProperties]) {
    it.prop(`do not change the rows of ${cik} (pitfall 8)`, [seeds], ([numbers]) => {
      const changed: unknown = JSON.parse(
        factsText(cik),
        (_, value: unknown) => Array.isArray(value) ? shuffle(value, numbers) : value,
      )
      const facts = Result.getOrThrow(decodeCompanyFacts(JSON.stringify(changed), buildCompanyFactsUrl(cik)))
      const [rows, expected] = [rowsOf(cik, facts), rowsOf(cik)]
      assert.deepStrictEqual(rows.float_outstanding, expected.float_outstanding)
      assert.deepStrictEqual(
        rows.historical_float_pro.toSorted(byKey),
        expected.historical_float_pro.toSorted(byKey),
      )
    }, { arbitrary: { runs: getInputCount(50) } })
  }
})
