/** Makes rows of `float_outstanding` and `historical_float_pro` (docs/decisions/0103-unknown-values-of-filings.md). */
import { Order } from "effect"
import type { RowCells } from "../../load/FileReader.ts"
import { countDays } from "../../rules/Dates.ts"
import { formatLatestAcceptanceTime } from "./AcceptanceTime.ts"
import { byFactDate, type CompanyFact, type CompanyFacts } from "./CompanyFacts.ts"
import { buildCompanyFactsUrl, buildFilingIndexUrl } from "./EdgarUrls.ts"
import { getTickerOn, type Issuer } from "./Issuer.ts"
import { findDepositaryReceiptRegistration } from "./ScreenerRows.ts"
import type { CompanySubmissions } from "./Submissions.ts"

/** Finds the fact with the latest date before the date of `fact`. Facts that were filed after `fact` are ignored. */
const findPrevious = (fact: CompanyFact, facts: ReadonlyArray<CompanyFact>) =>
  facts.findLast(({ end, filed }) => end < fact.end && filed <= fact.filed)

const maxRatio = 10

/**
 * Returns the previous fact if its value differs from that of `fact` by a factor of more than ten. Such a difference
 * suggests a split or an error.
 */
const findJump = (fact: CompanyFact, facts: ReadonlyArray<CompanyFact>) => {
  const previous = findPrevious(fact, facts)
  if (previous === undefined) return undefined
  const ratio = fact.val / previous.val
  return ratio > maxRatio || ratio < 1 / maxRatio ? previous : undefined
}

/** Returns the reasons to doubt a value, for the column `details`. */
const findDoubts = (
  fact: CompanyFact,
  facts: ReadonlyArray<CompanyFact>,
  isRepetitionDoubtful: boolean,
): ReadonlyArray<string> => {
  const jump = findJump(fact, facts)
  const others = facts.filter(({ end, val }) => end === fact.end && val !== fact.val).map(({ val }) => val)
  const repeated = isRepetitionDoubtful ? facts.find(({ end, val }) => end < fact.end && val === fact.val) : undefined
  return [
    ...(jump === undefined ? [] : [`it is more than ten times up or down from ${jump.val} on ${jump.end}`]),
    ...Array.from(new Set(others), (val) => `another filing reports ${val} for the same date`),
    ...(repeated === undefined ? [] : [`the same amount was reported for ${repeated.end}`]),
  ]
}

const formatDoubts = (doubts: ReadonlyArray<string>) => doubts.length === 0 ? "" : ` Unconfirmed: ${doubts.join("; ")}.`

const describeCount = (count: CompanyFact, { counts }: CompanyFacts) =>
  `Shares outstanding from the cover page.${formatDoubts(findDoubts(count, counts, false))}`

const describeFloat = (float: CompanyFact, { floats }: CompanyFacts) =>
  `Public float on ${float.end}: ${float.val} USD.${formatDoubts(findDoubts(float, floats, true))}`

const linkToFact = (cik: string, concept: string, { accn }: CompanyFact) =>
  `${buildCompanyFactsUrl(cik)}#dei/${concept}/${accn}`

const linkToCount = (cik: string, fact: CompanyFact) =>
  linkToFact(cik, "EntityCommonStockSharesOutstanding/shares", fact)

const linkToFloat = (cik: string, fact: CompanyFact) => linkToFact(cik, "EntityPublicFloat/USD", fact)

/**
 * Returns a row for each share count of each filing. The row of a filing's latest count also has the filing's float.
 * A filing without counts has one row, with its float.
 */
const makeHistoricalRows = (issuer: Issuer, facts: CompanyFacts, isAdr: boolean): ReadonlyArray<RowCells> => {
  const filings = Map.groupBy([...facts.counts, ...facts.floats], ({ accn }) => accn)
  return Array.from(filings.keys()).toSorted().flatMap((accession) => {
    const counts = facts.counts.filter(({ accn }) => accn === accession)
    const float = facts.floats.findLast(({ accn }) => accn === accession)
    const latest = counts.at(-1)
    const makeRow = (count: CompanyFact | undefined, ownFloat: CompanyFact | undefined): RowCells => ({
      ticker: getTickerOn(issuer, (count ?? ownFloat)?.filed ?? ""),
      filed_at: (count ?? ownFloat)?.filed,
      form_type: (count ?? ownFloat)?.form,
      document_url: buildFilingIndexUrl(issuer.cik, accession),
      reported_date: count?.end ?? null,
      outstanding_shares: count === undefined ? null : String(count.val),
      cik: issuer.cik,
      is_adr: String(isAdr),
      details: [
        ...(count === undefined ? [] : [describeCount(count, facts)]),
        ...(ownFloat === undefined ? [] : [describeFloat(ownFloat, facts)]),
      ].join(" "),
      last_updated: `${(count ?? ownFloat)?.filed} 00:00:00`,
      source: [
        ...(count === undefined ? [] : [linkToCount(issuer.cik, count)]),
        ...(ownFloat === undefined ? [] : [linkToFloat(issuer.cik, ownFloat)]),
      ],
    })
    return latest === undefined
      ? [makeRow(undefined, float)]
      : counts.map((count) => makeRow(count, count === latest ? float : undefined))
  })
}

const byFiling = Order.combineAll<CompanyFact>([
  Order.mapInput(Order.String, ({ filed }) => filed),
  byFactDate,
])

/**
 * A count is outdated if the company filed a report more than this many days later. Companies report every year, so
 * the company must have stated newer counts with dimensions, which the SEC's facts omit.
 */
const maxAgeInDays = 400

const isOutdated = ({ filed }: CompanyFact, { filings }: CompanySubmissions) =>
  filings.some(({ filingDate, form }) =>
    /^(10-[KQ]|20-F|40-F)/.test(form) && countDays(filed, filingDate) > maxAgeInDays
  )

/**
 * Returns the newest count, or undefined if it is outdated or differs from the previous count by a factor of more than
 * ten. Another filing must confirm such a jump.
 */
const findCurrentCount = ({ counts }: CompanyFacts, submissions: CompanySubmissions) => {
  const newest = counts.toSorted(byFiling).at(-1)
  return newest === undefined || isOutdated(newest, submissions) || findJump(newest, counts) !== undefined
    ? undefined
    : newest
}

const makeCurrentRows = (
  issuer: Issuer,
  facts: CompanyFacts,
  submissions: CompanySubmissions,
  isAdr: boolean,
): ReadonlyArray<RowCells> => {
  const count = findCurrentCount(facts, submissions)
  const [first, ...others] = submissions.filings
  if (first === undefined) return []
  return [{
    ticker: issuer.ticker,
    company: issuer.name,
    outstanding: count === undefined ? null : String(count.val),
    is_adr: String(isAdr),
    industry: submissions.sicDescription,
    exchange: issuer.exchange,
    reported_date: count?.end ?? null,
    filed_at: count?.filed ?? null,
    document_url: count === undefined ? null : buildFilingIndexUrl(issuer.cik, count.accn),
    last_updated: count === undefined ? formatLatestAcceptanceTime([first, ...others]) : `${count.filed} 00:00:00`,
    source: [...(count === undefined ? [] : [linkToCount(issuer.cik, count)]), submissions.url],
  }]
}

/**
 * Returns the row with the newest count, and the rows with the counts and public floats of all filings. If a company
 * has depositary receipts, the counts are those of its ordinary shares.
 */
export const makeFloatRows = (
  issuer: Issuer,
  facts: CompanyFacts,
  submissions: CompanySubmissions,
): {
  readonly float_outstanding: ReadonlyArray<RowCells>
  readonly historical_float_pro: ReadonlyArray<RowCells>
} => {
  const isAdr = findDepositaryReceiptRegistration(issuer, submissions) !== undefined
  return {
    float_outstanding: makeCurrentRows(issuer, facts, submissions, isAdr),
    historical_float_pro: makeHistoricalRows(issuer, facts, isAdr),
  }
}
