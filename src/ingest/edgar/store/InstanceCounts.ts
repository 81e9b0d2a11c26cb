/**
 * Share counts that the SEC's facts omit because a filing states them per class: they are read from the filing's own
 * XBRL instance, once per filing, and kept in `edgar_instances` (docs/decisions/0103-unknown-values-of-filings.md).
 */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../../postgres/DecodeRows.ts"
import { byFactDate, type CompanyFact, type CompanyFacts, isPeriodicReport, isUsable } from "../read/CompanyFacts.ts"
import { describeStated } from "../read/Doubt.ts"
import { buildFilingIndexUrl, buildInstanceUrl } from "../fetch/EdgarUrls.ts"
import type { EdgarFiling } from "../read/Submissions.ts"
import { CoverCounts } from "../read/XbrlCover.ts"

/** The share counts in the XBRL instance of a filing. */
export interface FilingInstance {
  readonly cik: string
  readonly accession: string
  readonly filingDate: string
  /** Null if the instance has no usable counts, or if there is none. */
  readonly cover: CoverCounts | null
}

/**
 * Whether the filing may have an instance at `buildInstanceUrl`. Reports from before Inline XBRL have one with another
 * name, or none.
 */
export const mayHaveInstance = ({ form, isXbrl, primaryDocument }: EdgarFiling) =>
  isXbrl && isPeriodicReport(form) && primaryDocument.endsWith(".htm")

/**
 * Names a class by its member: `us-gaap:CommonClassAMember` is `Class A`, `goog:CapitalClassCMember` `Capital Class C`.
 */
const describeClass = (member: string) =>
  member.replace(/^.*:/, "").replace(/Member$/, "").replace(/([a-z\d])(?=[A-Z])|([A-Z])(?=[A-Z][a-z])/g, "$& ")
    .replace(/^Common (?=Class )/, "")

const formatShares = (shares: number) => shares.toLocaleString("en-US")

/** Describes the counts of classes for `details`: `Class A (GOOGL): 5,830,000,000; Class B: 841,000,000`. */
const describeClasses = (classes: CoverCounts["classes"]) =>
  classes.flatMap(({ member, shares, symbol }) =>
    member === null ? [] : [`${describeClass(member)}${symbol === null ? "" : ` (${symbol})`}: ${formatShares(shares)}`]
  ).join("; ")

/** Returns the URL of the count on the cover, which names its element in the fragment. */
const buildCountUrl = (cik: string, { accession, primaryDocument }: EdgarFiling) =>
  `${buildInstanceUrl(cik, accession, primaryDocument)}#dei:EntityCommonStockSharesOutstanding`

/**
 * Adds up the classes. Returns the sum in the form of an SEC fact; undefined if it has no date, is 0 or is too large.
 */
const makeFact = (
  cik: string,
  filing: EdgarFiling,
  { classes, date, others = [] }: CoverCounts,
): CompanyFact | undefined => {
  const url = buildCountUrl(cik, filing)
  const val = classes.reduce((sum, { shares }) => sum + shares, 0)
  return date === null || !isUsable({ val }) ? undefined : {
    end: date,
    val,
    accn: filing.accession,
    form: filing.form,
    filed: filing.filingDate,
    path: "dei/EntityCommonStockSharesOutstanding/shares",
    instance: {
      hasClasses: classes.length > 1,
      classes: describeClasses(classes),
      ...(others.length > 0 && { others: describeClasses(others) }),
      source: classes.map(({ member }) => member === null ? url : `${url}[${member}]`),
    },
  }
}

/**
 * Adds the counts of instances to the counts in the facts. Instances with a count that cannot be used are added to
 * the unreadable ones, so that the row of the filing says why its count is unknown.
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

/** Returns what earlier runs found in the instances of a company, by accession number. Null means no usable counts. */
export const readKnownCovers = Effect.fnUntraced(function* (cik: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* decodeKnown(sql`
    select accession, cover::text from edgar_instances where cik = ${cik}
  `)
  return new Map(rows.map(({ accession, cover }) => [accession, cover]))
})

const decodePlaces = decodeRows(Schema.Struct({ place: Schema.String }))

/**
 * Stores what was found in instances. Before a filing's instance could be read, its row in `historical_float_pro` had
 * the count of the balance sheet. That count has another date, so the new row does not replace the old one, which is
 * deleted here.
 */
export const saveInstances = Effect.fnUntraced(function* (instances: ReadonlyArray<FilingInstance>) {
  if (instances.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const given = JSON.stringify(
    instances.map((instance) => ({ ...instance, url: buildFilingIndexUrl(instance.cik, instance.accession) })),
  )
  yield* sql`
    insert into edgar_instances as stored (cik, accession, cover, filed_on)
    select cik, accession, cover, "filingDate" from jsonb_to_recordset(${given}::text::jsonb)
      as given (cik text, accession text, cover jsonb, "filingDate" date)
    on conflict (cik, accession) do update set cover = excluded.cover
    where stored.cover is distinct from excluded.cover
  `
  // Finds pairs of rows of one filing, one with each kind of count, and returns the physical place (`ctid`) of the one
  // from the balance sheet. The pattern escapes the underscore, which would match any character.
  const places = yield* decodePlaces(sql`
    select balance.ctid::text as place
    from jsonb_to_recordset(${given}::text::jsonb) as given (cik text, "filingDate" date, url text)
      join historical_float_pro as balance on balance.filed_at = "filingDate" and balance.document_url = url
      join historical_float_pro as cover on cover.filed_at = "filingDate" and cover.document_url = url
    where balance.cik = given.cik and cover.cik = given.cik and balance.ctid <> cover.ctid
      and array_to_string(balance.source, ' ') like '%#us-gaap/CommonStockSharesOutstanding/%'
      and array_to_string(cover.source, ' ') like '%\\_htm.xml#dei:%'
  `)
  // A statement that deletes nothing would also change the version of the dataset.
  if (places.length === 0) return
  yield* sql`
    delete from historical_float_pro where ctid = any(${places.map(({ place }) => place)}::text[]::tid[])
  `
})
