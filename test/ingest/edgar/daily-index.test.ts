/** Tests the parser for the SEC's daily and quarterly filing indexes (`master` files). */
import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { decodeDailyIndex } from "../../../src/ingest/edgar/fetch/DailyIndex.ts"
import { buildDailyIndexUrl } from "../../../src/ingest/edgar/fetch/EdgarUrls.ts"
import { readRecording } from "./Recordings.ts"

const url = buildDailyIndexUrl("2020-01-03")

const text = readRecording("index/daily-index.master.20200103.excerpt.idx")

const rejectionOf = (changed: string) =>
  Result.match(decodeDailyIndex(changed, url), { onSuccess: () => "accepted", onFailure: ({ reason }) => reason })

const heading = (columns: string) =>
  `Description:           Master Index of EDGAR Dissemination Feed\nLast Data Received:    March 31, 2021\n` +
  `Cloud HTTP:            https://www.sec.gov/Archives/\n \n \n \n ${"\n"}${columns}\n${"-".repeat(80)}\n`

describe("A daily index", () => {
  it("is in the folder of its year and quarter", () => {
    assert.strictEqual(url, "https://www.sec.gov/Archives/edgar/daily-index/2020/QTR1/master.20200103.idx")
    const quarters = ["2026-03-31", "2026-04-01", "2026-09-30", "2026-12-31"].map((day) =>
      buildDailyIndexUrl(day).at(-21)
    )
    assert.deepStrictEqual(quarters, ["1", "2", "3", "4"])
  })

  it("lists every filing, including older ones that were released later", () => {
    const filings = Result.getOrThrow(decodeDailyIndex(text, url))
    assert.strictEqual(filings.length, 298)
    assert.deepStrictEqual(filings[0], {
      cik: "0001000229",
      form: "4",
      filingDate: "2020-01-03",
      accession: "0001209191-20-000788",
    })
    const old = filings.filter(({ filingDate }) => filingDate < "2020-01-03")
    assert.strictEqual(old.map(({ filingDate }) => filingDate).toSorted()[0], "2019-03-13")
    assert.includeMembers(old.map(({ form }) => form), ["CORRESP", "UPLOAD", "REVOKED", "DRS"])
  })

  it("has exactly the filings that an independent regular expression finds", () => {
    const expected = Array.from(
      text.matchAll(/^(\d+)\|.*\|([^|\n]+)\|(\d{4})(\d\d)(\d\d)\|.*?([\d-]{20})\.txt\s*$/gm),
      ([, cik = "", form = "", year, month, day, accession = ""]) => ({
        cik: cik.padStart(10, "0"),
        form,
        filingDate: `${year}-${month}-${day}`,
        accession,
      }),
    )
    assert.deepStrictEqual(Result.getOrThrow(decodeDailyIndex(text, url)), expected)
  })

  it("may also be a quarterly index, whose dates and headings have another format", () => {
    const row = "1000045|NICHOLAS FINANCIAL INC|8-K|2021-02-03|edgar/data/1000045/0001193125-21-027041.txt\n"
    const filings = decodeDailyIndex(heading("CIK|Company Name|Form Type|Date Filed|Filename") + row, url)
    assert.deepStrictEqual(Result.getOrThrow(filings), [
      { cik: "0001000045", form: "8-K", filingDate: "2021-02-03", accession: "0001193125-21-027041" },
    ])
  })

  it("is read correctly if a company's name contains the separator", () => {
    const row = "1|A | B|C|10-K|20210203|edgar/data/1/0001193125-21-027041.txt\r\n\r\n"
    const filings = decodeDailyIndex(heading("CIK|Company Name|Form Type|Date Filed|File Name") + row, url)
    assert.deepStrictEqual(Result.getOrThrow(filings)[0]?.form, "10-K")
  })

  it("is rejected if it is truncated, in another format, or not an index at all", () => {
    assert.strictEqual(rejectionOf(text.trimEnd().slice(0, -7)), "has no readable filing on line 305")
    assert.strictEqual(rejectionOf(text.replace("|20200103|", "|20200230|")), "has no readable filing on line 8")
    const formats = ["daily-index.form.20200318", "daily-index.company.20221003", "full-index.form.2021-QTR1"]
    for (const name of formats) {
      assert.strictEqual(
        rejectionOf(readRecording(`index/${name}.excerpt.idx`)),
        "is not an index in the master format",
      )
    }
    for (const other of ["", "<html>", text.slice(0, 200)]) {
      assert.strictEqual(rejectionOf(other), "is not an index in the master format")
    }
  })
})
