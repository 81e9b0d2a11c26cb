/**
 * Builds the rows of `float_outstanding` (a company's current share count) and `historical_float_pro` (the share counts
 * and the public float in each filing; docs/decisions/0103-unknown-values-of-filings.md). The column `details` explains
 * each count in words.
 */
import type { RowCells } from "../../../contract/Datasets.ts"
import { countDays } from "../../../contract/rules/Dates.ts"
import { formatLatestAcceptanceTime } from "./AcceptanceTime.ts"
import { type CompanyFact, type CompanyFacts, listFactSources, type UnreadableCount } from "./CompanyFacts.ts"
import type { Doubt } from "./Doubt.ts"
import { buildFilingIndexUrl } from "../fetch/EdgarUrls.ts"
import { findOwnSymbol, getTickerOn, hasClassSymbols, type Issuer } from "./Issuer.ts"
import { findDepositaryReceiptRegistration } from "./ScreenerRows.ts"
import {
  assessCounts,
  type AssessedFact,
  type CountAssessment,
  type CurrentCount,
  unknownCount,
} from "./ShareCounts.ts"
import type { CompanySubmissions } from "./Submissions.ts"

/** Formats clauses such as "is after the filing" as "it is after the filing". */
const formatReasons = (reasons: ReadonlyArray<string>) => reasons.map((reason) => `it ${reason}`).join("; ")

/** Explains, for the column `details`, why a value is suspicious or what an operator has decided about it. */
const formatDoubts = ({ decided, fact, isLeftOut, reasons }: AssessedFact) => {
  if (decided !== undefined) {
    return decided.decision.isConfirmed
      ? " Confirmed by an operator."
      : ` Corrected by an operator; the filing states ${decided.read}.`
  }
  if (reasons.length === 0) return ""
  return isLeftOut
    ? ` Left out: the filing states ${fact.val}, but ${formatReasons(reasons)}.`
    : ` Unconfirmed: ${formatReasons(reasons)}.`
}

/** Explains, for the column `details`, why the date of a count is considered wrong. */
const formatDateDoubt = ({ date }: CompanyFact) =>
  date?.reason == null ? "" : ` The filing dates them ${date.stated}, which ${date.reason}.`

/** Describes where a count comes from (cover page or balance sheet), based on the path of its fact. */
const describeOrigin = ({ instance, path }: CompanyFact) =>
  path.startsWith("dei/")
    ? instance === undefined || instance.classes === ""
      ? "Shares outstanding from the cover page."
      : `Shares outstanding of all classes from the cover page: ${instance.classes}.${
        instance.others === undefined ? "" : ` Not added, because they are no common shares: ${instance.others}.`
      }`
    : "Shares outstanding from the balance sheet (us-gaap), because the facts have no count from the cover page."

/**
 * Explains why the company has no market capitalization if its count may cover several share classes: their prices
 * differ, and the count of each class is unknown (D44).
 */
const classesNote = " They may be of several classes. The number of shares of each is not known, and without it " +
  "`market_cap` of the company is null."

/**
 * The number of days before a count in which a cover page with several classes shows that the company may still have
 * them. `find_share_counts` does the same.
 */
const maxDaysOfClasses = 400

/**
 * Returns whether the published count may cover several share classes without being the sum of their known counts. This
 * is so for a count from a balance sheet, for a total that an operator has set in place of the counts per class or that
 * repeats an error of the cover page, which may have forgotten a class, and for the current total of a company whose
 * classes are listed.
 */
const mayHaveOtherClasses = (
  { decided, fact, isLeftOut }: AssessedFact,
  { counts, current }: CountAssessment,
  { tickers }: Issuer,
) => {
  if (isLeftOut) return false
  // Facts of the taxonomy `dei` are from a cover page, and all others from a balance sheet.
  if (!fact.path.startsWith("dei/")) return true
  const classesOf = ({ instance }: CompanyFact) => Array.from(instance?.shares?.values() ?? [])
  const hasClasses = (count: CompanyFact) => count.instance?.hasClasses === true || classesOf(count).length > 1
  const recent = [...counts.map((count) => count.fact), fact].filter(({ filed }) =>
    filed <= fact.filed && countDays(filed, fact.filed) < maxDaysOfClasses
  )
  if (decided !== undefined && decided.read !== String(fact.val)) return recent.some(hasClasses)
  const listClassSymbols = (count: CompanyFact) =>
    new Set(classesOf(count).flatMap(({ symbol }) => symbol === null ? [] : findOwnSymbol(tickers, symbol) ?? []))
  const areListed = hasClassSymbols(tickers) || recent.some((count) => listClassSymbols(count).size > 1)
  return fact === current && classesOf(fact).length < 2 && areListed
}

const describeCount = (count: AssessedFact, assessment: CountAssessment, issuer: Issuer) =>
  `${describeOrigin(count.fact)}${formatDateDoubt(count.fact)}${formatDoubts(count)}${
    mayHaveOtherClasses(count, assessment, issuer) ? classesNote : ""
  }`

const describeFloat = (float: AssessedFact) => {
  const { date, end, val } = float.fact
  const day = date === undefined ? ` on ${end}` : ""
  return float.isLeftOut
    ? `Public float${day}.${formatDoubts(float)}`
    : `Public float${day}: ${val} USD.${formatDoubts(float)}`
}

const describeUnreadable = ({ reason }: UnreadableCount) =>
  `Left out: the shares outstanding on the cover page cannot be read. The count ${reason}.`

/**
 * Explains the counts of a company with depositary receipts, whose price is that of a receipt, and why it has no market
 * capitalization if the number of shares per receipt is unknown (D44).
 */
const formatReceiptNote = (isRatioKnown: boolean) =>
  isRatioKnown
    ? "These are ordinary shares."
    : "These are ordinary shares. The number of them per receipt is not in the facts, and without it (`ads_ratio`), " +
      "`market_cap` of the company is null."

/**
 * Explains why the company has no market capitalization if its current count may include a split already, so that it
 * cannot be restated (D44).
 */
const formatUnclearSplits = ({ fact }: AssessedFact, { countedSplits, current }: CountAssessment) => {
  const unclear = fact === current ? countedSplits.filter(({ isCounted }) => isCounted === null) : []
  return unclear.length === 0
    ? ""
    : ` The count may include the split on ${
      unclear.map(({ day }) => day).join(" and ")
    } already. As long as this is not known, \`market_cap\` of the company is null.`
}

/**
 * Explains why the company has no market capitalization if its current count is the sum of several classes, and one of
 * them has no symbol whose close could be used (D44).
 */
const formatUnlistedClasses = (count: AssessedFact, { current }: CountAssessment, { tickers }: Issuer) => {
  const classes = Array.from(count.fact.instance?.shares?.values() ?? [])
  // Market caps use only the current count. The classes of a count that an operator has corrected are not known.
  if (count.decided?.decision.isConfirmed === false || count.fact !== current || classes.length < 2) return ""
  const stated = classes.map(({ symbol }) => symbol)
  /** A symbol that the cover page states for two classes is that of neither. */
  const isListed = (symbol: string | null) =>
    symbol !== null && findOwnSymbol(tickers, symbol) !== undefined &&
    stated.indexOf(symbol) === stated.lastIndexOf(symbol)
  const unlisted = classes.flatMap(({ name, symbol }) => isListed(symbol) ? [] : [name])
  return unlisted.length === 0
    ? ""
    : ` No symbol of the company is known for ${
      unlisted.join(" and ")
    }. Without a close of each class, \`market_cap\` of ` +
      "the company is null."
}

/**
 * Returns the date of a count to publish, or null if it is unknown. `end` can be a substitute that is only used for
 * sorting; `date.published` is then the date to publish.
 */
const getReportedDate = ({ date, end }: CompanyFact) => date === undefined ? end : date.published

/**
 * Groups the facts by filing. Each group has:
 *
 * - `counts`: the counts from the filing's cover page or, if there are none (`isFromCover` is false), from its balance
 *   sheet
 * - `unreadable`: the counts on the cover page that cannot be read and that matter for the rows
 * - `float`: the filing's public float
 */
const groupByFiling = (facts: CompanyFacts, { balanceSheetCounts, counts, floats }: CountAssessment) => {
  const accessions = new Set([
    ...[...counts, ...balanceSheetCounts, ...floats].map(({ fact }) => fact.accn),
    ...facts.unreadable.map(({ accn }) => accn),
  ])
  return Array.from(accessions).toSorted().map((accession) => {
    const isOfFiling = ({ fact }: AssessedFact) => fact.accn === accession
    const onCover = counts.filter(isOfFiling)
    const unreadable = facts.unreadable.filter(({ accn }) => accn === accession)
    /** Returns the count that an operator has set in place of an unreadable one. */
    const findDecided = ({ end, filed, read }: UnreadableCount) =>
      onCover.find(({ decided, fact }) => decided?.read === read && fact.end === (end ?? filed))
    /** The counts that operators have set in place of unreadable ones. All others were read from the cover page. */
    const decided = new Set(unreadable.map(findDecided))
    return {
      accession,
      counts: onCover.length === 0 ? balanceSheetCounts.filter(isOfFiling) : onCover,
      /**
       * Unreadable counts that no operator has decided about. Empty if the cover page also states a readable count,
       * which makes the unreadable ones unimportant.
       */
      unreadable: onCover.every((count) => decided.has(count))
        ? unreadable.filter((count) => findDecided(count) === undefined)
        : [],
      isFromCover: onCover.length > 0,
      float: floats.findLast(isOfFiling),
    }
  })
}

/**
 * The content of a row, except the public float: a count, the reasons why other counts in the filing cannot be read
 * (`causes`), or both.
 */
interface RowContent {
  readonly count: AssessedFact | undefined
  readonly causes: ReadonlyArray<UnreadableCount>
}

/**
 * Returns the rows of `historical_float_pro`. Each filing has one row per share count:
 *
 * - for each count on the cover page or, if there is none, for the count on the balance sheet;
 * - for each date with an unreadable count on the cover page. If there is a balance sheet count, its row mentions the
 *   unreadable counts instead.
 *
 * The row with a filing's latest count also contains the filing's public float. A filing without counts has a single
 * row with its float.
 */
const makeHistoricalRows = (
  issuer: Issuer,
  facts: CompanyFacts,
  assessment: CountAssessment,
  { isAdr, isRatioKnown }: { readonly isAdr: boolean; readonly isRatioKnown: boolean },
): ReadonlyArray<RowCells> =>
  groupByFiling(facts, assessment).flatMap(({ accession, counts, float, isFromCover, unreadable }) => {
    const latest = counts.at(-1)
    // Use one count per date, because several implausible dates may have been replaced with the same date.
    const countsByDate = Array.from(new Map(counts.map((count) => [getReportedDate(count.fact), count])).values())
    const isFromBalanceSheet = counts.length > 0 && !isFromCover
    const unreadableByDate = isFromBalanceSheet ? [] : Array.from(Map.groupBy(unreadable, ({ end }) => end).values())
    const contents: ReadonlyArray<RowContent> = [
      ...countsByDate.map((count) => ({ count, causes: isFromBalanceSheet && count === latest ? unreadable : [] })),
      ...unreadableByDate.map((causes) => ({ count: undefined, causes })),
    ]
    // A filing that only has a public float gets a row without a count.
    const [first = { count: undefined, causes: [] }, ...others] = contents
    const contentWithFloat = contents.find(({ count }) => count === latest) ?? first
    return [first, ...others].map((content): RowCells => {
      const { causes, count } = content
      const [cause] = causes
      const floatOfRow = content === contentWithFloat ? float : undefined
      // At least one of the three is present, so the empty strings are only a fallback.
      const { filed, form } = count?.fact ?? floatOfRow?.fact ?? cause ?? { filed: "", form: "" }
      return {
        ticker: getTickerOn(issuer, filed),
        filed_at: filed,
        form_type: form,
        document_url: buildFilingIndexUrl(issuer.cik, accession),
        reported_date: count === undefined ? cause?.end ?? null : getReportedDate(count.fact),
        outstanding_shares: count === undefined || count.isLeftOut ? null : String(count.fact.val),
        cik: issuer.cik,
        is_adr: String(isAdr),
        details: [
          ...(count === undefined ? [] : [
            `${describeCount(count, assessment, issuer)}${formatUnclearSplits(count, assessment)}${
              formatUnlistedClasses(count, assessment, issuer)
            }`,
            ...(isAdr ? [formatReceiptNote(isRatioKnown)] : []),
          ]),
          ...causes.map(describeUnreadable),
          ...(floatOfRow === undefined ? [] : [describeFloat(floatOfRow)]),
        ].join(" "),
        last_updated: `${filed} 00:00:00`,
        source: [
          ...(count === undefined ? [] : listFactSources(issuer.cik, count.fact)),
          ...causes.map(({ url }) => url),
          ...(floatOfRow === undefined ? [] : listFactSources(issuer.cik, floatOfRow.fact)),
        ],
      }
    })
  })

/**
 * Returns the doubts about rows of `historical_float_pro` that await an operator's decision: implausible counts and
 * dates, counts that cannot be read, and implausible public floats. A public float has no column of its own, so a doubt
 * about it is about `details`.
 *
 * `read` is the value that the document states, `confirmable` the value to publish if an operator confirms it, and
 * `published` the value that the row has until then.
 */
export const listCountDoubts = (cik: string, facts: CompanyFacts, assessment: CountAssessment): ReadonlyArray<Doubt> =>
  groupByFiling(facts, assessment).flatMap(({ counts, float, unreadable }) => {
    const table = "historical_float_pro"
    const listDoubts = (column: string, { fact, isLeftOut, reasons }: AssessedFact): ReadonlyArray<Doubt> =>
      reasons.length === 0 ? [] : [{
        table,
        url: listFactSources(cik, fact)[0],
        column,
        read: String(fact.val),
        confirmable: String(fact.val),
        published: isLeftOut ? null : String(fact.val),
        reason: reasons.join("; "),
      }]
    return [
      ...counts.flatMap((count): ReadonlyArray<Doubt> => {
        const { date } = count.fact
        return [
          ...listDoubts("outstanding_shares", count),
          ...(date?.reason == null ? [] : [{
            table,
            url: listFactSources(cik, count.fact)[0],
            column: "reported_date",
            read: date.stated,
            confirmable: date.stated,
            published: date.published,
            reason: date.reason,
          }]),
        ]
      }),
      ...unreadable.map(({ read, reason, url }) => ({
        table,
        url,
        column: "outstanding_shares",
        read,
        confirmable: null,
        published: null,
        reason,
      })),
      ...(float === undefined ? [] : listDoubts("details", float)),
    ]
  })

/**
 * Returns the company's current share count with its sources. If the company's facts contain no usable count, returns
 * the stored count, so that a count once found remains (D38). If the facts contain only a doubtful count, the current
 * count is unknown. `assessment` is undefined if the company has no facts.
 */
export const makeCurrentCount = (
  { cik }: Pick<Issuer, "cik">,
  assessment: Pick<CountAssessment, "current"> | undefined,
  stored: CurrentCount = unknownCount,
): CurrentCount => {
  const count = assessment?.current ?? "none"
  if (count === "doubtful") return unknownCount
  return count === "none" ? stored : {
    outstanding: String(count.val),
    reported_date: getReportedDate(count),
    filed_at: count.filed,
    document_url: buildFilingIndexUrl(cik, count.accn),
    source: listFactSources(cik, count),
  }
}

/**
 * Returns the row of `float_outstanding`, or no row if the company has no filings. `isAdr` means that the company's
 * listed security is a depositary receipt. A row without a known count was last updated by the company's newest filing.
 */
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
 * Returns the company's rows of `float_outstanding` and `historical_float_pro`. `count` is the current share count. If
 * the company has depositary receipts, its counts are numbers of ordinary shares, not of receipts. `isRatioKnown` means
 * that the number of shares per receipt is stored.
 */
export const makeFloatRows = (
  issuer: Issuer,
  facts: CompanyFacts,
  submissions: CompanySubmissions,
  assessment = assessCounts({ facts, filings: submissions.filings }),
  count = makeCurrentCount(issuer, assessment),
  isRatioKnown = false,
): {
  readonly float_outstanding: ReadonlyArray<RowCells>
  readonly historical_float_pro: ReadonlyArray<RowCells>
} => {
  const isAdr = findDepositaryReceiptRegistration(issuer, submissions) !== undefined
  return {
    float_outstanding: makeCurrentRows(issuer, count, submissions, isAdr),
    historical_float_pro: makeHistoricalRows(issuer, facts, assessment, { isAdr, isRatioKnown }),
  }
}
