/** Makes rows of `float_outstanding` and `historical_float_pro` (docs/decisions/0103-unknown-values-of-filings.md). */
import type { RowCells } from "../../../contract/Datasets.ts"
import { formatLatestAcceptanceTime } from "./AcceptanceTime.ts"
import type { CompanyFact, CompanyFacts } from "./CompanyFacts.ts"
import { buildCompanyFactsUrl, buildFilingIndexUrl } from "../fetch/EdgarUrls.ts"
import { getTickerOn, type Issuer } from "./Issuer.ts"
import { findDepositaryReceiptRegistration } from "./ScreenerRows.ts"
import {
  assessCounts,
  type AssessedCounts,
  type CurrentCount,
  findCurrentCount,
  isSimilar,
  unknownCount,
} from "./ShareCounts.ts"
import type { CompanySubmissions } from "./Submissions.ts"

/**
 * Returns the fact with the latest date before that of `fact` if the values are not similar, which suggests a split or
 * an error. Facts that were filed after `fact` are ignored.
 */
const findJump = (fact: CompanyFact, facts: ReadonlyArray<CompanyFact>) => {
  const previous = facts.findLast(({ end, filed }) => end < fact.end && filed <= fact.filed)
  return previous === undefined || isSimilar(fact.val, previous.val) ? undefined : previous
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

/** Names the origin of a count, which the path of its fact shows. */
const describeOrigin = ({ instance, path }: CompanyFact) =>
  path.startsWith("dei/")
    ? instance === undefined || instance.classes === ""
      ? "Shares outstanding from the cover page."
      : `Shares outstanding of all classes from the cover page: ${instance.classes}.`
    : "Shares outstanding from the balance sheet (us-gaap), because the facts have no count from the cover page."

const describeCount = (
  count: CompanyFact,
  counts: ReadonlyArray<CompanyFact>,
  { unitErrors }: Pick<AssessedCounts, "unitErrors">,
) => {
  const shownBy = unitErrors.get(count)
  const doubts = shownBy === undefined
    ? findDoubts(count, counts.filter((one) => !unitErrors.has(one)), false)
    : [`it differs from ${shownBy.val} on ${shownBy.end} as if it were in another unit, such as thousands`]
  return `${describeOrigin(count)}${formatDoubts(doubts)}`
}

const describeFloat = (float: CompanyFact, { floats }: CompanyFacts) =>
  `Public float on ${float.end}: ${float.val} USD.${formatDoubts(findDoubts(float, floats, true))}`

/** Why counts of ordinary shares give no market capitalization of receipts (D44). */
const receiptNote = "These are ordinary shares. The number of them per receipt is not in the facts, and without it " +
  "(`ads_ratio`), `market_cap` of the company is null."

const listSources = (cik: string, { accn, instance, path }: CompanyFact): ReadonlyArray<string> =>
  instance?.source ?? [`${buildCompanyFactsUrl(cik)}#${path}/${accn}`]

/**
 * Returns a row for each share count of each filing: those of its cover page or, if it has none, that of its balance
 * sheet. The row of a filing's latest count also has the filing's float. A filing without counts has one row, with its
 * float.
 */
const makeHistoricalRows = (issuer: Issuer, facts: CompanyFacts, isAdr: boolean): ReadonlyArray<RowCells> => {
  const { balanceSheetCounts, counts: coverCounts, floats } = facts
  const filings = new Set([...coverCounts, ...balanceSheetCounts, ...floats].map(({ accn }) => accn))
  const [onCover, onBalanceSheet] = [
    assessCounts(coverCounts, balanceSheetCounts),
    assessCounts(balanceSheetCounts, []),
  ]
  const describe = (count: CompanyFact) =>
    coverCounts.includes(count)
      ? describeCount(count, coverCounts, onCover)
      : describeCount(count, balanceSheetCounts, onBalanceSheet)
  return Array.from(filings).toSorted().flatMap((accession) => {
    const isOfFiling = ({ accn }: CompanyFact) => accn === accession
    const ownCoverCounts = coverCounts.filter(isOfFiling)
    const counts = ownCoverCounts.length === 0 ? balanceSheetCounts.filter(isOfFiling) : ownCoverCounts
    const float = floats.findLast(isOfFiling)
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
        ...(count === undefined ? [] : [describe(count), ...(isAdr ? [receiptNote] : [])]),
        ...(ownFloat === undefined ? [] : [describeFloat(ownFloat, facts)]),
      ].join(" "),
      last_updated: `${(count ?? ownFloat)?.filed} 00:00:00`,
      source: [
        ...(count === undefined ? [] : listSources(issuer.cik, count)),
        ...(ownFloat === undefined ? [] : listSources(issuer.cik, ownFloat)),
      ],
    })
    return latest === undefined
      ? [makeRow(undefined, float)]
      : counts.map((count) => makeRow(count, count === latest ? float : undefined))
  })
}

/**
 * Returns the current count of a company. If its facts have none, the count that is already stored stays (D38).
 * `facts` is undefined if the company has no facts.
 */
export const makeCurrentCount = (
  { cik }: Pick<Issuer, "cik">,
  facts: CompanyFacts | undefined,
  submissions: CompanySubmissions,
  stored: CurrentCount = unknownCount,
): CurrentCount => {
  const count = facts === undefined ? "none" : findCurrentCount(facts, submissions)
  if (count === "doubtful") return unknownCount
  return count === "none" ? stored : {
    outstanding: String(count.val),
    reported_date: count.end,
    filed_at: count.filed,
    document_url: buildFilingIndexUrl(cik, count.accn),
    source: listSources(cik, count),
  }
}

const makeCurrentRows = (
  issuer: Issuer,
  { source, ...count }: CurrentCount,
  submissions: CompanySubmissions,
  isAdr: boolean,
): ReadonlyArray<RowCells> => {
  const [first, ...others] = submissions.filings
  if (first === undefined) return []
  return [{
    ticker: issuer.ticker,
    company: issuer.name,
    is_adr: String(isAdr),
    industry: submissions.sicDescription,
    exchange: issuer.exchange,
    ...count,
    last_updated: count.filed_at === null
      ? formatLatestAcceptanceTime([first, ...others])
      : `${count.filed_at} 00:00:00`,
    source: [...source, submissions.url],
  }]
}

/**
 * Returns the row with the current count, and the rows with the counts and public floats of all filings. If a company
 * has depositary receipts, the counts are those of its ordinary shares.
 */
export const makeFloatRows = (
  issuer: Issuer,
  facts: CompanyFacts,
  submissions: CompanySubmissions,
  count = makeCurrentCount(issuer, facts, submissions),
): {
  readonly float_outstanding: ReadonlyArray<RowCells>
  readonly historical_float_pro: ReadonlyArray<RowCells>
} => {
  const isAdr = findDepositaryReceiptRegistration(issuer, submissions) !== undefined
  return {
    float_outstanding: makeCurrentRows(issuer, count, submissions, isAdr),
    historical_float_pro: makeHistoricalRows(issuer, facts, isAdr),
  }
}
