/**
 * Generates Nasdaq listing notices and builds the rows of nasdaq_compliance. Bid-price notices are derived from closing
 * prices; all other notices are defined in the scenario.
 */
import {
  type EpochDay,
  findNextTradingDay,
  formatDate,
  formatLocalTime,
  getSessionDay,
  lastMarketDay,
  lastSessionNumber,
  toSecondsOfDay,
} from "./Calendar.ts"
import { formatEveningTime, getSymbolOn } from "./Companies.ts"
import type { CompanyHistory, ListingNotice } from "./CompanyHistory.ts"
import { mapNullable } from "./Decimals.ts"
import { findDocument } from "./Documents.ts"
import type { PriceHistory } from "./PriceSimulation.ts"
import type { CompanyScenario, ListingDeficiency } from "./Scenarios.ts"

/** One US dollar in ticks of 0.0001 USD. */
const dollarInTicks = 10_000

/** The number of days that Nasdaq allows a company to regain compliance. An extension doubles the period. */
const curePeriodDays = 180

/**
 * Finds the first run of `length` consecutive closing prices that match the condition, starting at session `from`.
 * Returns the session of the last close in the run, or null if there is no such run.
 */
const findStreakEnd = (
  closes: ReadonlyArray<number>,
  from: number,
  length: number,
  matches: (close: number) => boolean,
) => {
  let count = 0
  for (let session = from; session <= lastSessionNumber; session++) {
    const close = closes[session] ?? 0
    count = close > 0 && matches(close) ? count + 1 : 0
    if (count === length) return session
  }
  return null
}

/**
 * Creates the case of a company whose closing price was below one dollar for too long. `day` is the day of the first
 * notice, and `regainedDay` the day on which the company regained compliance, or null if it has not. It has one cure
 * period of 180 days for this, which the exchange extends by a second. If it does not regain compliance within both,
 * the exchange decides to delist it (`delistingDay`), as far as that is before the last day of the market. A company
 * that is delisted by its scenario loses its appeal against this decision; for others, the appeal is still undecided.
 */
const makeBidPriceNotice = (day: EpochDay, regainedDay: EpochDay | null, isDelisted: boolean): ListingNotice => {
  const delistingDay = regainedDay === null && lastMarketDay - day > 2 * curePeriodDays + 7
    ? findNextTradingDay(day + 2 * curePeriodDays + 1)
    : null
  const isExtended = (regainedDay ?? lastMarketDay) - day > curePeriodDays
  const openStatus = isExtended ? "extended" : "active"
  const delistingStatus = isDelisted ? "delisted" : "appealed"
  const unresolvedStatus = delistingDay === null ? openStatus : delistingStatus
  return {
    day,
    kind: "bid_price",
    deadline: day + (isExtended ? 2 * curePeriodDays : curePeriodDays),
    regainedDay,
    hearingDay: delistingDay === null ? null : delistingDay + 45,
    status: regainedDay === null ? unresolvedStatus : "resolved",
    delistingDay,
  }
}

/**
 * Generates bid-price notices from the closing prices, starting at session `from`. A notice is sent on the day after 30
 * consecutive closes below one dollar, and is resolved on the day after 10 consecutive closes at or above one dollar.
 * After that, the company may receive another one, so the function calls itself for the remaining sessions.
 */
const bidPriceNotices = (
  closes: ReadonlyArray<number>,
  isDelisted: boolean,
  from = 0,
): ReadonlyArray<ListingNotice> => {
  const deficiencySession = findStreakEnd(closes, from, 30, (close) => close < dollarInTicks)
  if (deficiencySession === null || deficiencySession >= lastSessionNumber) return []
  const regainedSession = findStreakEnd(closes, deficiencySession + 1, 10, (close) => close >= dollarInTicks)
  const regainedDay = regainedSession === null || regainedSession >= lastSessionNumber
    ? null
    : getSessionDay(regainedSession + 1)
  const notice = makeBidPriceNotice(getSessionDay(deficiencySession + 1), regainedDay, isDelisted)
  return regainedSession === null ? [notice] : [notice, ...bidPriceNotices(closes, isDelisted, regainedSession + 1)]
}

/**
 * Creates the case of a deficiency that the scenario defines. The deadline to correct it depends on its kind: 60 days
 * to submit a plan, the usual cure period, or none for other deficiencies.
 */
const makeDeficiencyNotice = (
  { kind, regainedSession, session }: ListingDeficiency,
  isDelisted: boolean,
): ListingNotice => {
  const day = getSessionDay(session)
  return {
    day,
    kind,
    deadline: kind === "other"
      ? null
      : day + (kind === "late_filing" || kind === "stockholders_equity" ? 60 : curePeriodDays),
    regainedDay: regainedSession === undefined ? null : getSessionDay(regainedSession),
    hearingDay: null,
    status: regainedSession !== undefined ? "resolved" : isDelisted ? "delisted" : "active",
    delistingDay: null,
  }
}

/** Generates a company's cases of non-compliance with Nasdaq's rules, oldest first. Other companies have none. */
export const makeListingNotices = (prices: PriceHistory, scenario: CompanyScenario): ReadonlyArray<ListingNotice> =>
  scenario.exchange !== "NASDAQ" ? [] : [
    ...bidPriceNotices(prices.closes, scenario.delisted !== undefined),
    ...scenario.deficiencies.map((deficiency) => makeDeficiencyNotice(deficiency, scenario.delisted !== undefined)),
  ].toSorted((one, other) => one.day - other.day)

/** For each kind of deficiency: its description, the Nasdaq rule, and the delisting risk. */
const deficiencyRules = {
  bid_price: ["Minimum bid price below $1.00 for 30 consecutive business days", "5550(a)(2)", "high"],
  market_value_listed_securities: ["Market value of listed securities below $35 million", "5550(b)(2)", "medium"],
  market_value_public_shares: ["Market value of publicly held shares too low", "5450(b)(1)(C)", "medium"],
  stockholders_equity: ["Stockholders' equity below $2.5 million", "5550(b)(1)", "medium"],
  public_holders: ["Fewer than 300 public holders", "5550(a)(3)", "low"],
  late_filing: ["Periodic report not filed in time", "5250(c)(1)", "high"],
  audit_committee: ["Audit committee with one member instead of three", "5605(c)(2)(A)", "low"],
  annual_meeting: ["No annual meeting within a year", "5620(a)", "low"],
  other: ["Listing fee not paid", null, null],
} as const satisfies { readonly [Kind in ListingNotice["kind"]]: readonly [string, string | null, string | null] }

type NoticeType = "deficiency" | "plan_required" | "staff_determination" | "public_reprimand" | "compliance_regained"

const firstNoticeType = ({ kind }: ListingNotice): NoticeType =>
  kind === "late_filing" || kind === "stockholders_equity" ? "plan_required" : "deficiency"

/**
 * Returns the notices that the exchange sends in a case: the first one and, where applicable, those about the decision
 * to delist the company, a reprimand, and regained compliance. Each has a type, a day, and the suffix of the key of the
 * document that announces it (see `noticeAnnouncements` in `Documents.ts`).
 */
const noticeSteps = (notice: ListingNotice): ReadonlyArray<readonly [NoticeType, EpochDay, key: string]> => {
  const { day, delistingDay, kind, regainedDay } = notice
  return [
    [firstNoticeType(notice), day, ""],
    ...(delistingDay === null ? [] : [["staff_determination", delistingDay, ":determined"] as const]),
    ...(kind === "audit_committee" ? [["public_reprimand", day + 21, ":reprimand"] as const] : []),
    ...(regainedDay === null ? [] : [["compliance_regained", regainedDay, ":regained"] as const]),
  ]
}

/** Returns the columns with an analyst's notes about a notice. */
const noteColumns = (name: string, deficiency: string, day: EpochDay) => ({
  added_date: formatDate(Math.min(lastMarketDay, day + 1)),
  notes: `${name}: "${deficiency}"; 100% made up`,
  notes_updated: formatLocalTime(day, toSecondsOfDay(16, 45)),
})

/**
 * Returns the columns of one letter that the exchange sends in a case (`notice`). `step` is the type of the letter,
 * such as the first notice or the confirmation that compliance has been regained, and `day` the day on which it is
 * sent.
 */
const noticeColumns = ({ company }: CompanyHistory, notice: ListingNotice, step: NoticeType, day: EpochDay) => {
  const [deficiency, rule, risk] = deficiencyRules[notice.kind]
  const isOver = step === "compliance_regained"
  const hasNotes = company.randomFor(`note ${notice.kind} ${step} ${day}`).chance(0.7)
  return {
    ticker: getSymbolOn(company, day),
    company: notice.kind === "other" ? null : company.name,
    market: company.scenario.shares > 50_000 ? "Nasdaq Global Market" : "Nasdaq Capital Market",
    date: formatDate(day),
    deficiency,
    deficiency_type: notice.kind,
    rule,
    notice_type: step,
    compliance_deadline: isOver ? null : mapNullable(notice.deadline, formatDate),
    hearing_date: step === "staff_determination" ? mapNullable(notice.hearingDay, formatDate) : null,
    regained_date: mapNullable(notice.regainedDay, formatDate),
    risk: isOver ? null : risk,
    status: notice.status,
    ...(hasNotes ? noteColumns(company.name, deficiency, day) : { added_date: null, notes: null, notes_updated: null }),
    last_updated: formatEveningTime(day),
  }
}

/** Builds the rows of nasdaq_compliance: one for each notice that the exchange has sent to the company. */
export const buildNasdaqComplianceRows = (history: CompanyHistory) =>
  history.notices.flatMap((notice, index) =>
    noticeSteps(notice).map(([step, day, key]) => ({
      id: `${history.company.cik}-c${index + 1}${key.replace(":", "-")}`,
      ...noticeColumns(history, notice, step, day),
      document_url: findDocument(history, `notice:${index}${key}`)?.url ?? null,
    }))
  )
