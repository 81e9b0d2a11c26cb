/**
 * Rows of share counts and public floats from recorded company facts, with expectations written by hand. Pitfalls of
 * the data: companies with several classes of shares (6), wrong numbers (7), facts in several filings (8).
 */
import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import type { RowCells } from "../../../src/load/FileReader.ts"
import { decodeCompanyFacts } from "../../../src/ingest/edgar/CompanyFacts.ts"
import { buildCompanyFactsUrl } from "../../../src/ingest/edgar/EdgarUrls.ts"
import { makeFloatRows } from "../../../src/ingest/edgar/FloatRows.ts"
import type { CompanySubmissions } from "../../../src/ingest/edgar/Submissions.ts"
import { getInputCount } from "../../support/Thoroughness.ts"
import { ciks, companiesWithFacts, factsOf, factsText, submissionsOf } from "./Recordings.ts"

/** Apple's submissions, used for every company with recorded facts, because those of the others were not recorded. */
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

/** Writes company facts with these counts and floats, each in a filing of its own. */
const makeText = (counts: ReadonlyArray<MadeFact>, floats: ReadonlyArray<MadeFact> = []) => {
  const complete = (facts: ReadonlyArray<MadeFact>, series: number) =>
    facts.map((fact, index) => ({
      accn: `000000000${series}-26-00000${index}`,
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
        "0000320193-25-000079",
        "https://data.sec.gov/api/xbrl/companyfacts/CIK0000320193.json#dei/EntityPublicFloat/USD/0000320193-25-000079",
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
        "0001045810-26-000052",
        "https://data.sec.gov/submissions/CIK0000320193.json",
      ],
    }])
  })

  it("is unknown for a company with several classes of shares (pitfall 6)", () => {
    const [current] = rowsOf(ciks.alphabet).float_outstanding
    for (const column of ["outstanding", "reported_date", "filed_at", "document_url"]) assert.isNull(current?.[column])
    assert.deepStrictEqual(
      historyOf(ciks.alphabet).map((row) => [row["reported_date"], row["outstanding_shares"]]),
      Array.from({ length: 10 }, () => [null, null]),
    )
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

  it("counts as unknown if it is not a positive safe integer, or is dated after its filing (pitfall 7)", () => {
    const unusable = [
      { end: "2025-10-15", val: 0 },
      { end: "2025-10-16", val: 1.5 },
      { end: "2025-10-17", val: -5 },
      { end: "2025-10-18", val: 5, filed: "2025-10-17" },
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

  it("must be confirmed by a second filing after it changed more than tenfold (pitfall 7)", () => {
    const before = { end: "2025-05-15", val: 1_000_000 }
    assert.strictEqual(currentOf(before, { end: "2025-08-15", val: 10_000_000 }), "10000000")
    const jump = { end: "2025-08-15", val: 1_000_000_000 }
    assert.isNull(currentOf(before, jump))
    assert.strictEqual(currentOf(before, jump, { end: "2025-11-15", val: 1_000_100_000 }), "1000100000")
    const [, row] = rowsOfText(makeText([before, jump])).historical_float_pro
    assert.strictEqual(row?.["outstanding_shares"], "1000000000")
    assert.strictEqual(
      row?.["details"],
      "Shares outstanding from the cover page. Unconfirmed: it is more than ten times up or down from 1000000 on 2025-05-15.",
    )
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
    assert.isUndefined(reportOf(ciks.alphabet, "0001652044-16-000012"))
    assert.isUndefined(reportOf(ciks.alphabet, "0001652044-16-000022"))
    assert.strictEqual(
      reportOf(ciks.alphabet, "0001652044-17-000008")?.["details"],
      "Public float on 2016-06-30: 413800000000 USD.",
    )
  })

  it("is unconfirmed if it repeats the amount of another year (pitfall 7)", () => {
    assert.strictEqual(
      reportOf(ciks.nvidia, "0001045810-13-000008")?.["details"],
      "Shares outstanding from the cover page. Public float on 2012-07-29: 7980000000 USD. " +
        "Unconfirmed: the same amount was reported for 2011-07-31.",
    )
    assert.notInclude(String(reportOf(ciks.nvidia, "0001045810-12-000013")?.["details"]), "Unconfirmed")
  })

  it("is unconfirmed if filings contradict each other (pitfall 7)", () => {
    assert.strictEqual(
      reportOf(ciks.nvidia, "0001045810-11-000015")?.["details"],
      "Shares outstanding from the cover page. Public float on 2010-08-01: 5000000000 USD. " +
        "Unconfirmed: another filing reports 5033591950 for the same date.",
    )
  })

  it("is unknown if its date is after its filing (pitfall 7)", () => {
    const row = reportOf(ciks.nvidia, "0001045810-11-000031")
    assert.strictEqual(row?.["outstanding_shares"], "600288389")
    assert.strictEqual(row?.["details"], "Shares outstanding from the cover page.")
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
// Repeated and reordered facts
// ----------------------------------------------------------------------------------------------------------------

const byKey = (a: RowCells, b: RowCells) => JSON.stringify(a).localeCompare(JSON.stringify(b))

const seeds = Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000 }))).check(
  Schema.isMinLength(1),
  Schema.isMaxLength(20),
)

/** Reorders the elements, and repeats some. */
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
