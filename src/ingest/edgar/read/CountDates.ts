/**
 * Decides whether the date that a filing states for a share count or a public float can be right, and replaces it if
 * not (docs/decisions/0103-unknown-values-of-filings.md).
 */
import { countDays } from "../../../contract/rules/Dates.ts"
import { type CompanyFact, listFactSources } from "./CompanyFacts.ts"
import type { DoubtKey, OperatorDecision } from "./Doubt.ts"

/**
 * Maximum number of days that the date of a cover page count may precede the end of the period that the report covers.
 * The tolerance is for periods whose end varies, such as a fiscal year of 52 weeks.
 */
const maxDaysBeforePeriod = 7

/**
 * Maximum number of days between the date of a cover page count and the filing date, if the period that the report
 * covers is unknown. The date is normally a few weeks before the filing date, so an earlier date is considered wrong.
 */
const maxCoverAge = 300

/** Ten years, in days. An XBRL fact that is dated longer before its filing than this has a wrong date. */
export const maxFactAge = 3_650

/** Returns whether the filing amends an earlier one, as Form 10-K/A does. */
export const isAmendment = ({ form }: Pick<CompanyFact, "form">) => form.endsWith("/A")

/**
 * Returns why the date of a fact cannot be right, as a clause such as "is after the filing", or undefined if it is
 * plausible. Cover page counts (`isCover`) are checked more strictly, because they are as of a day shortly before the
 * filing. `period` is the last day of the period that the report covers, if known.
 */
export const findCountDateDoubt = ({ end, filed, form }: CompanyFact, isCover: boolean, period: string | undefined) => {
  if (end > filed) return "is after the filing"
  if (countDays(end, filed) > maxFactAge) return "is years before the filing"
  if (!isCover) return undefined
  if (period === undefined) {
    return !isAmendment({ form }) && countDays(end, filed) > maxCoverAge ? "is long before the filing" : undefined
  }
  return countDays(end, period) > maxDaysBeforePeriod
    ? `is before ${period}, the end of the report's own period`
    : undefined
}

/**
 * Returns the fact with a usable date (`end`). A plausible date does not change. An implausible date is replaced:
 *
 * - with the date that an operator has set, if any;
 * - for an amendment, with `period`, the last day of the period that the report covers, so that its count is sorted
 *   next to the count in the amended report;
 * - otherwise with the filing date, so that the order of the filings determines which count is the newest.
 *
 * The last two are only substitutes for sorting. The field `date` then contains the date that the filing states and the
 * date to publish in its place: `period`, or null if an operator has declared the date unknown. `findDecision` returns
 * the operator's decision about a value of this company.
 */
export const settleFactDate = (
  fact: CompanyFact,
  isCover: boolean,
  period: string | undefined,
  findDecision: (key: Omit<DoubtKey, "table">) => OperatorDecision | undefined,
  cik: string,
): CompanyFact => {
  const reason = findCountDateDoubt(fact, isCover, period)
  if (reason === undefined) return fact
  const decision = findDecision({ url: listFactSources(cik, fact)[0], column: "reported_date", read: fact.end })
  if (decision !== undefined && decision.value !== null) return { ...fact, end: decision.value }
  const dateForSorting = isAmendment(fact) && period !== undefined ? period : fact.filed
  const isDeclaredUnknown = decision !== undefined
  return {
    ...fact,
    end: dateForSorting,
    date: isDeclaredUnknown
      // No reason, because the date is no longer an open doubt.
      ? { stated: fact.end, published: null, reason: null }
      : { stated: fact.end, published: period ?? null, reason },
  }
}
