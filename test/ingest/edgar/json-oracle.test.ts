/**
 * Compares every ingested value with its source document. This test reads the documents with `JSON.parse` only, without
 * the code that builds the rows.
 */
import { assert, describe, it } from "@effect/vitest"
import { findDataset } from "../../../src/contract/Datasets.ts"
import type { RowCells } from "../../../src/contract/Datasets.ts"
import { makeFloatRows } from "../../../src/ingest/edgar/read/FloatRows.ts"
import { makeNewsRows } from "../../../src/ingest/edgar/read/NewsRows.ts"
import { makeRegistrationRows } from "../../../src/ingest/edgar/read/RegistrationRows.ts"
import { makeScreenerRows } from "../../../src/ingest/edgar/read/ScreenerRows.ts"
import { Schema } from "effect"
import {
  ciks,
  companiesWithFacts,
  companiesWithSubmissions,
  factsOf,
  factsText,
  filingsOf,
  imunonPage,
  issuerOf,
  readRecording,
  submissionsOf,
  submissionsText,
  today,
} from "./Recordings.ts"

interface RawFiling {
  readonly [name: string]: string | null
}

interface RawArrays {
  readonly [name: string]: ReadonlyArray<string | null>
}

interface RawFact {
  readonly end: string
  readonly val: number
  readonly accn: string
  readonly form: string
  readonly filed: string
}

const toFilings = (arrays: RawArrays): ReadonlyArray<RawFiling> =>
  (arrays["form"] ?? []).map((_, index) =>
    Object.fromEntries(Object.entries(arrays).map(([name, values]) => [name, values[index] ?? null]))
  )

const parse = (text: string) => JSON.parse(text)

const rawFilingsOf = (cik: string) => [
  ...toFilings(parse(submissionsText(cik)).filings.recent),
  ...(cik === ciks.imunon ? toFilings(parse(readRecording(`submissions/${imunonPage}`))) : []),
]

/** Companies whose documents use Eastern time. All others use UTC (`recordings/README.md`). */
const easternFiles = new Set<string>([ciks.apple, ciks.vincerx, ciks.trFinance, ciks.fannieMae])
const unknownZoneFiles = new Set<string>([ciks.siemensEnergy])

const clock = new Intl.DateTimeFormat("en-CA", {
  timeZone: "America/New_York",
  hourCycle: "h23",
  dateStyle: "short",
  timeStyle: "medium",
})

const newYorkTimeOf = (cik: string, filing: RawFiling) => {
  const stamp = String(filing["acceptanceDateTime"])
  if (unknownZoneFiles.has(cik) || /T0[045]:00:00/.test(stamp)) return null
  return easternFiles.has(cik)
    ? stamp.slice(0, 19).replace("T", " ")
    : clock.format(Date.parse(stamp)).replace(", ", " ")
}

/** Converts a New York time to the offset -05:00. During daylight saving time, the result is an hour earlier. */
const toFixedOffset = (newYorkTime: string) => {
  const asUtc = Date.parse(`${newYorkTime.replace(" ", "T")}Z`)
  const isDaylight =
    [4, 5].map((hours) => clock.format(asUtc + hours * 3_600_000).replace(", ", " "))[0] === newYorkTime
  return new Date(asUtc - (isDaylight ? 3_600_000 : 0)).toISOString().slice(0, 19).replace("T", " ")
}

const linkOf = (cik: string, accession: string, document: string) => {
  const folder = `https://www.sec.gov/Archives/edgar/data/${Number(cik)}/${accession.replaceAll("-", "")}/`
  return folder + (document === "" ? `${accession}-index.htm` : document)
}

const sourceOf = (cik: string, filing: RawFiling) => {
  const recent: ReadonlyArray<string> = parse(submissionsText(cik)).filings.recent.accessionNumber
  const accession = String(filing["accessionNumber"])
  return `https://data.sec.gov/submissions/${recent.includes(accession) ? `CIK${cik}.json` : imunonPage}#${accession}`
}

describe("News rows", () => {
  for (const cik of companiesWithSubmissions) {
    it(`correspond one to one to the filings of ${cik}`, () => {
      const issuer = issuerOf(cik)
      const rows = makeNewsRows(issuer, filingsOf(cik))
      const raw = rawFilingsOf(cik)
      const { filings: { recent }, tickers } = parse(submissionsText(cik))
      const isRecent = new Set(recent.accessionNumber)
      assert.strictEqual(rows.length, raw.length)
      for (const [index, filing] of raw.entries()) {
        const { title, ...row } = rows[index] ?? {}
        const accession = String(filing["accessionNumber"])
        const items = filing["form"] === "EFFECT" || filing["form"] === "CT ORDER"
          ? []
          : String(filing["items"]).split(",").filter((item) => item !== "")
        const time = newYorkTimeOf(cik, filing)
        const created = time === null ? `${filing["filingDate"]} 00:00:00` : toFixedOffset(time)
        assert.deepStrictEqual(row, {
          id: `${cik}-${accession}`,
          ticker: issuer.ticker,
          tickers: tickers.length === 0 ? ["NONE"] : tickers,
          form_type: filing["form"],
          tags: items,
          accession_number: accession,
          document_url: linkOf(cik, accession, String(filing["primaryDocument"])),
          filed_at: filing["filingDate"],
          filed_at_time: time,
          created_at: created,
          last_updated: created,
          source: [
            `https://data.sec.gov/submissions/${isRecent.has(accession) ? `CIK${cik}.json` : imunonPage}#${accession}`,
          ],
        })
        // A title consists of the form, the description and the items, all as filed.
        const rest = String(title).replace(String(filing["form"]), "")
          .replace(String(filing["primaryDocDescription"]).trim(), "")
          .replace(items.join(", "), "")
        assert.match(rest, /^(:? ?,? ?(items?)?,? ?)?$/, String(title))
        assert.isTrue(String(title).startsWith(String(filing["form"])))
      }
    })
  }
})

/**
 * The end dates of registrations for which a new statement was pending after three years. Each is the day on which the
 * new statement became effective.
 */
const extendedEnds = new Map([["333-262239", "2025-04-02"], ["333-183286", "2015-09-25"], ["333-206789", "2018-10-12"]])

const statementForms = new Set("S-1 S-1MEF F-1 F-3 F-3ASR S-3 S-3ASR S-3MEF S-4 F-4 S-8".split(" "))

describe("Registration rows", () => {
  for (const cik of companiesWithSubmissions) {
    it(`have the values of the filings of ${cik} with the same file number`, () => {
      const rows = makeRegistrationRows(issuerOf(cik), filingsOf(cik), today)
      const raw = rawFilingsOf(cik)
      for (const row of rows) {
        const group = raw.filter((filing) => filing["fileNumber"] === row["file_no"])
          .toSorted((a, b) => String(a["filingDate"]).localeCompare(String(b["filingDate"])))
        const formOf = (filing: RawFiling) => String(filing["form"])
        const statement = group.find((filing) => statementForms.has(formOf(filing))) ?? {}
        const prospectuses = group.filter((filing) => formOf(filing).startsWith("424B"))
        const withdrawal = group.find((filing) => filing["form"] === "RW")
        const notice = group.find((filing) => filing["form"] === "EFFECT")
        const isAutomatic = /ASR|MEF|^S-8$/.test(formOf(statement))
        assert.strictEqual(row["id"], `${cik}-${row["file_no"]}`)
        assert.strictEqual(row["form_type"], statement["form"])
        assert.strictEqual(row["filed_at"], statement["filingDate"])
        assert.strictEqual(row["type"], /^[SF]-3/.test(formOf(statement)) ? "shelf" : "offering")
        const accession = String(statement["accessionNumber"])
        assert.strictEqual(row["document_url"], linkOf(cik, accession, String(statement["primaryDocument"])))
        assert.strictEqual(row["effective_date"], (isAutomatic ? statement : notice)?.["filingDate"] ?? null)
        const isEffective = withdrawal === undefined && (isAutomatic || notice !== undefined || prospectuses.length > 0)
        const effective = row["effective_date"]
        const isShelf = /^[SF]-3/.test(formOf(statement)) &&
          (prospectuses.length === 0 || prospectuses.some((filing) => /424B[1245]/.test(formOf(filing))))
        // Rule 415(a)(5). For older registrations, the three-year period began on 1 December 2005.
        const began = [String(effective ?? prospectuses[0]?.["filingDate"]), "2005-12-01"].toSorted().at(-1) ?? ""
        const end = extendedEnds.get(String(row["file_no"])) ?? `${Number(began.slice(0, 4)) + 3}${began.slice(4)}`
        const isExpired = isEffective && isShelf && end < today
        const isExact = isEffective && isShelf && effective !== null && !formOf(statement).endsWith("MEF")
        assert.strictEqual(row["expiration_date"], isExact ? end : null)
        assert.strictEqual(row["effective_status"], String(isEffective && !isExpired))

        const details = String(row["details"])
        const [, amendments = "0"] = /^(\d+) amendment/.exec(details) ?? []
        const isAmendment = (filing: RawFiling) => /\/A$|^POS|^S-8 POS$/.test(formOf(filing))
        assert.strictEqual(Number(amendments), group.filter(isAmendment).length)
        const [, count = "0", forms = "", latest] =
          /(\d+) prospectus(?:es)? \((.*)\), latest (.{10})\./.exec(details) ?? []
        assert.strictEqual(Number(count), prospectuses.length)
        assert.deepStrictEqual(
          new Set(forms.split(", ").filter((form) => form !== "")),
          new Set(prospectuses.map(formOf)),
        )
        assert.strictEqual(latest, prospectuses.at(-1)?.["filingDate"])

        const times = group.map((filing) => newYorkTimeOf(cik, filing) ?? `${filing["filingDate"]} 00:00:00`)
        const changes = [
          ...times,
          ...(isExpired ? [new Date(Date.parse(end) + 86_400_000).toISOString().slice(0, 10) + " 00:00:00"] : []),
        ]
        assert.strictEqual(row["last_updated"], changes.toSorted().at(-1))
        const used = [statement, withdrawal, isAutomatic ? undefined : notice, prospectuses.at(-1)]
        const known = new Set(group.map((filing) => sourceOf(cik, filing)))
        const sources: ReadonlyArray<unknown> = Array.isArray(row["source"]) ? row["source"] : []
        assert.isTrue(sources.every((link) => known.has(String(link))), JSON.stringify(sources))
        assert.include(sources, sourceOf(cik, used[0] ?? {}))
        for (const filing of used.slice(1, 2)) if (filing !== undefined) assert.include(sources, sourceOf(cik, filing))
        const date = withdrawal?.["filingDate"] ?? row["effective_date"]
        const state = withdrawal !== undefined
          ? `withdrawn on ${date}`
          : isExpired
          ? isExact ? `expired on ${end}` : `expired before ${end}`
          : isEffective
          ? date === null ? "effective" : `effective since ${date}`
          : "pending"
        assert.strictEqual(row["headline"], `${row["form_type"]} of ${parse(submissionsText(cik)).name}: ${state}`)
      }
      const listed = new Set(rows.map((row) => row["file_no"]))
      const missing = raw.filter((filing) => statementForms.has(String(filing["form"])))
        .map((filing) => String(filing["fileNumber"])).filter((number) => !listed.has(number))
      // No filing shows whether this registration from 2001 became effective.
      assert.deepStrictEqual(missing, cik === ciks.imunon ? ["333-64710"] : [])
    })
  }
})

describe("Screener rows", () => {
  for (const cik of companiesWithSubmissions) {
    it(`have the identity of ${cik} as in its submissions`, () => {
      const { exchanges, filings, name, sicDescription, tickers } = parse(submissionsText(cik))
      const [row] = makeScreenerRows(issuerOf(cik), submissionsOf(cik))
      const times = toFilings(filings.recent)
        .map((filing) => newYorkTimeOf(cik, filing) ?? `${filing["filingDate"]} 00:00:00`)
      assert.deepStrictEqual(row, {
        ticker: tickers[0] ?? "NONE",
        company: name,
        cik,
        exchange: exchanges[0] ?? null,
        industry: sicDescription === "" ? null : sicDescription,
        is_adr: "false",
        outstanding: null,
        pending_s1: "false",
        last_updated: times.toSorted().at(-1),
        source: [`https://data.sec.gov/submissions/CIK${cik}.json`],
      })
    })
  }
})

describe("Float rows", () => {
  const rowsOf = (cik: string) =>
    makeFloatRows(
      { cik, ticker: "ZYXA", tickers: ["ZYXA"], name: "Company", exchange: null },
      factsOf(cik),
      submissionsOf(ciks.apple),
    )
  const rawFactsOf = (cik: string, concept: string, unit: string, taxonomy = "dei"): ReadonlyArray<RawFact> =>
    parse(factsText(cik)).facts[taxonomy]?.[concept]?.units?.[unit] ?? []

  /**
   * Returns the count on each filing's cover page. If a filing has none there, returns the count from the newest date
   * on its balance sheet.
   */
  const rawCountsOf = (cik: string) => {
    const onCover = rawFactsOf(cik, "EntityCommonStockSharesOutstanding", "shares")
    const onBalanceSheet = rawFactsOf(cik, "CommonStockSharesOutstanding", "shares", "us-gaap").filter((fact) =>
      onCover.every(({ accn }) => accn !== fact.accn) && /^10-[KQ]/.test(fact.form) && fact.val > 1_000_000
    ).toSorted((a, b) => b.end.localeCompare(a.end))
    return [
      ...onCover.map((fact) => ({ ...fact, path: "dei/EntityCommonStockSharesOutstanding" })),
      ...onBalanceSheet.map((fact) => ({ ...fact, path: "us-gaap/CommonStockSharesOutstanding" })),
    ]
  }

  for (const cik of companiesWithFacts) {
    it(`have the values of all facts of ${cik}, and no others`, () => {
      const counts = rawCountsOf(cik)
      const floats = rawFactsOf(cik, "EntityPublicFloat", "USD").filter(({ val }) => val > 0)
      const rows = rowsOf(cik).historical_float_pro
      for (const row of rows) {
        const [, accession = ""] = /\/([\d-]{20})-index\.htm$/.exec(String(row["document_url"])) ?? []
        const count = counts.find(({ accn }) => accn === accession)
        const float = floats.find(({ accn }) => accn === accession)
        assert.strictEqual(row["document_url"], linkOf(cik, accession, ""))
        assert.strictEqual(row["filed_at"], (count ?? float)?.filed)
        assert.strictEqual(row["form_type"], (count ?? float)?.form)
        assert.strictEqual(row["reported_date"], count?.end ?? null)
        assert.strictEqual(row["outstanding_shares"], count === undefined ? null : `${count.val}`)
        assert.strictEqual(row["cik"], cik)
        assert.strictEqual(row["last_updated"], `${(count ?? float)?.filed} 00:00:00`)
        const amounts = Array.from(String(row["details"]).matchAll(/Public float on (\S+): (\d+) USD/g))
        assert.deepStrictEqual(
          amounts.map(([, end, amount]) => [end, Number(amount)]),
          float === undefined || float.end > float.filed ? [] : [[float.end, float.val]],
        )
        const facts = `https://data.sec.gov/api/xbrl/companyfacts/CIK${cik}.json#`
        assert.deepStrictEqual(row["source"], [
          ...(count === undefined ? [] : [`${facts}${count.path}/shares/${accession}/${count.end}`]),
          ...(float === undefined ? [] : [`${facts}dei/EntityPublicFloat/USD/${accession}/${float.end}`]),
        ])
      }
      assert.strictEqual(rows.length, new Set([...counts, ...floats].map(({ accn }) => accn)).size)
    })

    it(`have the newest share count of ${cik}`, () => {
      const newest = rawCountsOf(cik).toSorted((a, b) => a.end.localeCompare(b.end)).at(-1)
      const [row] = rowsOf(cik).float_outstanding
      assert.deepStrictEqual(
        [row?.["outstanding"], row?.["reported_date"], row?.["filed_at"]],
        newest === undefined ? [null, null, null] : [`${newest.val}`, newest.end, newest.filed],
      )
    })
  }
})

describe("All rows", () => {
  const rowsByTable: Record<string, ReadonlyArray<RowCells>> = {
    news: companiesWithSubmissions.flatMap((cik) => makeNewsRows(issuerOf(cik), filingsOf(cik))),
    registrations: companiesWithSubmissions.flatMap((cik) =>
      makeRegistrationRows(issuerOf(cik), filingsOf(cik), today)
    ),
    screener: companiesWithSubmissions.flatMap((cik) => makeScreenerRows(issuerOf(cik), submissionsOf(cik))),
    ...makeFloatRows(issuerOf(ciks.apple), factsOf(ciks.apple), submissionsOf(ciks.apple)),
  }

  for (const [table, rows] of Object.entries(rowsByTable)) {
    it(`of ${table} have the same columns, and cells that load accepts (D31)`, () => {
      const fields = findDataset(table)?.row.fields ?? {}
      const columns = Object.keys(rows[0] ?? {})
      assert.isAbove(columns.length, 5)
      for (const row of rows) {
        assert.deepStrictEqual(Object.keys(row), columns)
        for (const [column, cell] of Object.entries(row)) {
          const field = fields[column]
          assert.isTrue(field !== undefined && Schema.is(field)(cell), `${table}.${column}: ${JSON.stringify(cell)}`)
        }
      }
    })
  }
})
