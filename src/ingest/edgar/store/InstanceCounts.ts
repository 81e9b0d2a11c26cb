/**
 * Share counts that are missing from the SEC's company facts because the filing states them per share class. They are
 * read once from the XBRL instance of each filing and stored in `edgar_instances`
 * (docs/decisions/0103-unknown-values-of-filings.md).
 */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../../postgres/DecodeRows.ts"
import {
  byFactDate,
  type ClassShares,
  type CompanyFact,
  type CompanyFacts,
  hasUsableValue,
  isPeriodicReport,
} from "../read/CompanyFacts.ts"
import { describeStated } from "../read/Doubt.ts"
import { readClassName } from "../read/ShareClassNames.ts"
import { buildInstanceUrl } from "../fetch/EdgarUrls.ts"
import type { EdgarFiling } from "../read/Submissions.ts"
import { CoverCounts } from "../read/XbrlCover.ts"

/** The share counts in the XBRL instance of a filing. */
export interface FilingInstance {
  readonly cik: string
  readonly accession: string
  readonly filingDate: string
  /** The counts on the cover page. Null if the instance has no usable counts or does not exist. */
  readonly cover: CoverCounts | null
}

/**
 * Returns whether the filing may have an XBRL instance at `buildInstanceUrl`. Reports that predate Inline XBRL have an
 * instance with a different name, or none.
 */
export const mayHaveInstance = ({ form, isXbrl, primaryDocument }: EdgarFiling) =>
  isXbrl && isPeriodicReport(form) && primaryDocument.endsWith(".htm")

/**
 * Returns a readable name for a class member. `us-gaap:CommonClassAMember` becomes `Class A`, and
 * `goog:CapitalClassCMember` becomes `Capital Class C`.
 */
const describeClass = (member: string) =>
  member.replace(/^.*:/, "").replace(/Member$/, "").replace(/([a-z\d])(?=[A-Z])|([A-Z])(?=[A-Z][a-z])/g, "$& ")
    .replace(/^Common (?=Class )/, "")

const formatShares = (shares: number) => shares.toLocaleString("en-US")

/** Formats class counts for `details`, as in `Class A (GOOGL): 5,830,000,000; Class B: 841,000,000`. */
const describeClasses = (classes: CoverCounts["classes"]) =>
  classes.flatMap(({ member, shares, symbol }) =>
    member === null ? [] : [`${describeClass(member)}${symbol === null ? "" : ` (${symbol})`}: ${formatShares(shares)}`]
  ).join("; ")

/**
 * Returns the classes by what identifies them: `us-gaap:CommonClassAMember` and
 * `acme:AcmeClassACommonStockMember` are the same class in two filings.
 */
const listClasses = (classes: CoverCounts["classes"]): ReadonlyMap<string, ClassShares> | undefined => {
  const named = classes.flatMap(({ member, shares, symbol }) =>
    member === null ? [] : [{ member, name: describeClass(member), shares, symbol }]
  )
  const readKey = ({ member }: { readonly member: string }) => readClassName(member.replace(/^.*:/, "")).shortIdentity
  const areUnique = new Set(named.map(readKey)).size === named.length
  return named.length === 0 ? undefined : new Map(
    named.map(({ member, ...known }) => [areUnique ? readKey({ member }) : member, known]),
  )
}

/** Returns the URL of the share count in a filing's XBRL instance. The fragment identifies the element. */
const buildCountUrl = (cik: string, { accession, primaryDocument }: EdgarFiling) =>
  `${buildInstanceUrl(cik, accession, primaryDocument)}#dei:EntityCommonStockSharesOutstanding`

/**
 * Sums the counts of the classes that a filing's XBRL instance states. Returns the sum in the form of a fact, like
 * those in the company facts, with the classes in `instance`. Returns undefined if the date is unknown or the sum is 0
 * or too large. `others` are the counts of other securities, which the row only mentions.
 */
const makeFact = (
  cik: string,
  filing: EdgarFiling,
  { classes, date, others = [] }: CoverCounts,
): CompanyFact | undefined => {
  const url = buildCountUrl(cik, filing)
  const val = classes.reduce((sum, { shares }) => sum + shares, 0)
  return date === null || !hasUsableValue({ val }) ? undefined : {
    end: date,
    val,
    accn: filing.accession,
    form: filing.form,
    filed: filing.filingDate,
    path: "dei/EntityCommonStockSharesOutstanding/shares",
    instance: {
      hasClasses: classes.length > 1,
      shares: listClasses(classes),
      classes: describeClasses(classes),
      ...(others.length > 0 && { others: describeClasses(others) }),
      source: classes.map(({ member }) => member === null ? url : `${url}[${member}]`),
    },
  }
}

/**
 * Adds counts from XBRL instances to the counts in the company facts, which lack counts per class. An instance without
 * a usable count is added to `unreadable` instead, so that the filing's row states why its count is unknown. `filings`
 * are the filings that the instances belong to. A date after the filing date is an error, so it counts as unknown.
 */
export const addInstanceCounts = (
  facts: CompanyFacts,
  filings: ReadonlyArray<EdgarFiling>,
  instances: ReadonlyArray<FilingInstance>,
): CompanyFacts => {
  const covers = new Map(instances.map(({ accession, cover }) => [accession, cover]))
  const stated = filings.flatMap((filing) => {
    const cover = covers.get(filing.accession) ?? null
    return cover === null ? [] : [{ filing, cover, fact: makeFact(facts.cik, filing, cover) }]
  })
  const unreadable = stated.flatMap(({ cover, fact, filing }) =>
    fact !== undefined ? [] : [{
      accn: filing.accession,
      end: cover.date !== null && cover.date <= filing.filingDate ? cover.date : null,
      filed: filing.filingDate,
      form: filing.form,
      url: buildCountUrl(facts.cik, filing),
      read: cover.stated ?? describeStated(cover.classes.map(({ shares }) => String(shares))),
      reason: cover.unreadable ?? "is 0 or too large",
      hasClasses: cover.hasClasses,
    }]
  )
  return {
    ...facts,
    counts: [...facts.counts, ...stated.flatMap(({ fact }) => fact ?? [])].toSorted(byFactDate),
    unreadable: [...facts.unreadable, ...unreadable],
  }
}

const decodeKnown = decodeRows(Schema.Struct({
  accession: Schema.String,
  cover: Schema.NullOr(Schema.fromJsonString(CoverCounts)),
}))

/**
 * Reads the share counts that earlier runs have read from the company's XBRL instances, by accession number. Null means
 * that the instance has no usable counts.
 */
export const readKnownCovers = Effect.fnUntraced(function* (cik: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* decodeKnown(sql`
    select accession, cover::text from edgar_instances where cik = ${cik}
  `)
  return new Map(rows.map(({ accession, cover }) => [accession, cover]))
})

/** Stores the results of reading XBRL instances. */
export const saveInstances = Effect.fnUntraced(function* (instances: ReadonlyArray<FilingInstance>) {
  if (instances.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const instanceRows = JSON.stringify(instances)
  yield* sql`
    insert into edgar_instances as stored (cik, accession, cover, filed_on)
    select cik, accession, cover, "filingDate" from jsonb_to_recordset(${instanceRows}::text::jsonb)
      as instances (cik text, accession text, cover jsonb, "filingDate" date)
    on conflict (cik, accession) do update set cover = excluded.cover
    where stored.cover is distinct from excluded.cover
  `
})
