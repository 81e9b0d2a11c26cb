/**
 * Tests damaged documents. Each must be rejected or decoded into rows that `load` accepts, and no function may throw.
 */
import { assert, describe, it } from "@effect/vitest"
import { Predicate, Result, Schema } from "effect"
import { decodeCompanyFacts } from "../../../src/ingest/edgar/read/CompanyFacts.ts"
import { decodeDailyIndex } from "../../../src/ingest/edgar/fetch/DailyIndex.ts"
import type { DocumentRejected } from "../../../src/ingest/edgar/fetch/DocumentRejected.ts"
import {
  buildCompanyFactsUrl,
  buildDailyIndexUrl,
  buildSubmissionsPageUrl,
  buildSubmissionsUrl,
  tickerListUrl,
} from "../../../src/ingest/edgar/fetch/EdgarUrls.ts"
import { makeFloatRows } from "../../../src/ingest/edgar/read/FloatRows.ts"
import { makeNewsRows } from "../../../src/ingest/edgar/read/NewsRows.ts"
import { makeRegistrationRows } from "../../../src/ingest/edgar/read/RegistrationRows.ts"
import { makeScreenerRows } from "../../../src/ingest/edgar/read/ScreenerRows.ts"
import { decodeSubmissions, decodeSubmissionsPage } from "../../../src/ingest/edgar/read/Submissions.ts"
import {
  decodeTickerList,
  groupTickersByIssuer,
  inferTickerChanges,
} from "../../../src/ingest/edgar/read/TickerList.ts"
import { findDataset } from "../../../src/contract/Datasets.ts"
import type { RowCells } from "../../../src/contract/Datasets.ts"
import { getInputCount } from "../../support/Thoroughness.ts"
import {
  ciks,
  factsText,
  imunonPage,
  issuerOf,
  readRecording,
  submissionsOf,
  submissionsText,
  today,
} from "./Recordings.ts"

type RowsByTable = { readonly [table: string]: ReadonlyArray<RowCells> }

interface Document {
  readonly name: string
  readonly text: string
  readonly decode: (text: string) => Result.Result<RowsByTable, DocumentRejected>
}

const decodeSubmissionsOf = (cik: string) => (text: string) =>
  Result.map(decodeSubmissions(text, buildSubmissionsUrl(cik)), (submissions): RowsByTable => {
    const issuer = issuerOf(cik)
    return {
      news: makeNewsRows(issuer, submissions.filings),
      registrations: makeRegistrationRows(issuer, submissions.filings, today),
      screener: makeScreenerRows(issuer, submissions),
    }
  })

const documents: ReadonlyArray<Document> = [
  ...[ciks.trFinance, ciks.siemensEnergy, ciks.unicycive].map((cik) => ({
    name: `submissions of ${cik}`,
    text: submissionsText(cik),
    decode: decodeSubmissionsOf(cik),
  })),
  {
    name: "an older page",
    text: readRecording(`submissions/${imunonPage}`),
    decode: (text) =>
      Result.map(decodeSubmissionsPage(text, buildSubmissionsPageUrl(imunonPage)), ({ filings }) => ({
        news: makeNewsRows(issuerOf(ciks.imunon), filings),
        registrations: makeRegistrationRows(issuerOf(ciks.imunon), filings, today),
      })),
  },
  ...[ciks.logisticProperties, ciks.nvidia].map((cik) => ({
    name: `facts of ${cik}`,
    text: factsText(cik),
    decode: (text: string) =>
      Result.map(
        decodeCompanyFacts(text, buildCompanyFactsUrl(cik)),
        (facts): RowsByTable => makeFloatRows(issuerOf(ciks.apple), facts, submissionsOf(ciks.apple)),
      ),
  })),
  {
    name: "a ticker list",
    text: readRecording("tickers/daily/company_tickers_exchange.2026-06-07.excerpt.json"),
    decode: (text) =>
      Result.map(decodeTickerList(text, tickerListUrl), ({ rows }): RowsByTable => {
        assert.strictEqual(groupTickersByIssuer(rows).size, new Set(rows.map(({ cik }) => cik)).size)
        const changed = rows.map((row) => ({ ...row, ticker: row.ticker === "IAC" ? "PPLI" : row.ticker }))
        const days = ["2026-06-08", "2026-06-12", "2026-06-16"]
        return {
          ticker_changes: inferTickerChanges([
            { day: "2026-06-07", rows },
            ...days.map((day) => ({ day, rows: changed })),
          ]),
        }
      }),
  },
]

/** Cells known to be valid. They are not validated again, because most cells in damaged documents are undamaged. */
const acceptedCells = new Set<string>()

/** Returns the first cell that `load` would refuse. */
const findRefusedCell = (rowsByTable: RowsByTable) =>
  Object.entries(rowsByTable).flatMap(([table, rows]) => {
    const fields = findDataset(table)?.row.fields ?? {}
    return rows.flatMap((row) =>
      Object.entries(row).flatMap(([column, cell]) => {
        const named = `${table}.${column}: ${JSON.stringify(cell)}`
        if (acceptedCells.has(named)) return []
        const field = fields[column]
        if (field === undefined || !Schema.is(field)(cell)) return [named]
        acceptedCells.add(named)
        return []
      })
    )
  }).at(0)

const check = ({ decode }: Document, text: string) => {
  const result = decode(text)
  if (Result.isSuccess(result)) return assert.isUndefined(findRefusedCell(result.success))
  assert.strictEqual(result.failure._tag, "DocumentRejected")
  assert.match(result.failure.url, /^https:\/\/(www|data)\.sec\.gov\//)
  assert.match(result.failure.reason, /^(is|has|does|lacks) [\w .:[\],-]{5,120}$/)
}

const strangeValues: ReadonlyArray<unknown> = [
  null,
  true,
  -1,
  0,
  1.5,
  1e300,
  "",
  " ",
  "\0",
  "\ud800",
  "  padded  ",
  "x".repeat(3000),
  "../../etc",
  "<script>",
  "#%zz",
  "2026-02-30",
  "9999-12-31",
  "0000-01-01",
  "2026-06-31T25:00:00.000Z",
  "5.02,,9.01,",
  "EFFECT",
  "424B5",
  "RW",
  [],
  {},
  [[]],
  ["a"],
  { __proto__: null },
  "0000000000-00-000000",
  "333-287699",
  "S-1",
  "constructor",
  "__proto__",
]

/**
 * Replaces or removes one value in a JSON document. `place` selects the value, and `change` selects the replacement.
 */
const mutate = (text: string, place: number, change: number) => {
  const value: unknown = JSON.parse(text)
  const spots: Array<() => void> = []
  const visit = (node: unknown) => {
    const remember = (replace: (next: unknown) => void, remove: () => void) => {
      spots.push(() => change % 5 === 0 ? remove() : replace(strangeValues[change % strangeValues.length]))
    }
    if (Array.isArray(node)) {
      node.forEach((child, index) => {
        remember((next) => node.splice(index, 1, next), () => node.splice(index, 1))
        visit(child)
      })
    } else if (Predicate.isObject(node)) {
      Object.keys(node).forEach((key) => {
        remember((next) => Reflect.set(node, key, next), () => Reflect.deleteProperty(node, key))
        visit(Reflect.get(node, key))
      })
    }
  }
  visit(value)
  spots[place % spots.length]?.()
  return JSON.stringify(value)
}

const number = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000_000 }))

describe("A damaged document", () => {
  for (const document of documents) {
    it(`is valid before it is damaged: ${document.name}`, () => {
      const result = document.decode(document.text)
      assert.isTrue(Result.isSuccess(result))
      if (Result.isSuccess(result)) assert.isAbove(Object.values(result.success).flat().length, 0)
      check(document, document.text)
    })

    it.prop(
      `is decoded into valid rows or rejected if one value is replaced or removed: ${document.name}`,
      [number, number],
      ([place, change]) => {
        check(document, mutate(document.text, place, change))
      },
      { arbitrary: { runs: getInputCount(150) } },
    )

    it.prop(`is rejected if it is truncated: ${document.name}`, [number], ([length]) => {
      const text = document.text.trimEnd()
      const result = document.decode(text.slice(0, length % text.length))
      assert.isTrue(Result.isFailure(result))
      check(document, text.slice(0, length % text.length))
    }, { arbitrary: { runs: getInputCount(100) } })

    it(`is rejected if it is an HTML page with status 200: ${document.name}`, () => {
      const page = "<!DOCTYPE html>\n<html><title>SEC.gov | Request Rate Threshold Exceeded</title></html>"
      const result = document.decode(page)
      assert.strictEqual(
        Result.isFailure(result) ? result.failure.reason : "",
        "is an HTML or XML page instead of JSON",
      )
    })

    it(`is rejected if it is JSON with another structure: ${document.name}`, () => {
      for (const text of ["null", "[]", "{}", "1", `"text"`, `{"cik":"0000320193"}`]) {
        assert.isTrue(Result.isFailure(document.decode(text)), text)
        check(document, text)
      }
    })
  }

  const index = readRecording("index/daily-index.master.20200103.excerpt.idx")

  it.prop(
    "is decoded into well-formed filings or rejected: a daily index",
    [number, number, Schema.String],
    ([from, length, inserted]) => {
      const start = from % index.length
      const text = index.slice(0, start) + inserted + index.slice(start + length % 40)
      const result = decodeDailyIndex(text, buildDailyIndexUrl("2020-01-03"))
      if (Result.isFailure(result)) {
        return assert.match(result.failure.reason, /^(is not an index|has no readable filing)/)
      }
      const malformed = result.success.filter(({ accession, cik, filingDate }) =>
        !/^\d{10}-\d{2}-\d{6}$/.test(accession) || !/^\d{10}$/.test(cik) || !/^\d{4}-\d{2}-\d{2}$/.test(filingDate)
      )
      assert.deepStrictEqual(malformed, [])
    },
    { arbitrary: { runs: getInputCount(1000) } },
  )
})
