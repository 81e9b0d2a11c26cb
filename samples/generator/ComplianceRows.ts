/** Rows of nasdaq_compliance: the letter, what the exchange decided, and the letter that all is well. */
import { clock, dateOf, type Day, hour, today } from "./Calendar.ts"
import { evening, symbolOn } from "./Company.ts"
import { maybe } from "./Decimals.ts"
import { find, type History } from "./Market.ts"
import type { Notice } from "./Notices.ts"

const rules = {
  bid_price: ["Minimum bid price below $1.00 for 30 consecutive business days", "5550(a)(2)", "high"],
  market_value_listed_securities: ["Market value of listed securities below $35 million", "5550(b)(2)", "medium"],
  market_value_public_shares: ["Market value of publicly held shares too low", "5450(b)(1)(C)", "medium"],
  stockholders_equity: ["Stockholders' equity below $2.5 million", "5550(b)(1)", "medium"],
  public_holders: ["Fewer than 300 public holders", "5550(a)(3)", "low"],
  late_filing: ["Periodic report not filed in time", "5250(c)(1)", "high"],
  audit_committee: ["Audit committee with one member instead of three", "5605(c)(2)(A)", "low"],
  annual_meeting: ["No annual meeting within a year", "5620(a)", "low"],
  other: ["Listing fee not paid", null, null],
} as const satisfies { readonly [Kind in Notice["kind"]]: readonly [string, string | null, string | null] }

type Step = "deficiency" | "plan_required" | "staff_determination" | "public_reprimand" | "compliance_regained"

const first = ({ kind }: Notice): Step =>
  kind === "late_filing" || kind === "stockholders_equity" ? "plan_required" : "deficiency"

/** The steps of a case that have been taken, and their days. */
const stepsOf = (notice: Notice): ReadonlyArray<readonly [Step, Day, key: string]> => {
  const { day, determined, kind, regained } = notice
  return [
    [first(notice), day, ""],
    ...(determined === null ? [] : [["staff_determination", determined, ":determined"] as const]),
    ...(kind === "audit_committee" ? [["public_reprimand", day + 21, ":reprimand"] as const] : []),
    ...(regained === null ? [] : [["compliance_regained", regained, ":regained"] as const]),
  ]
}

/** What somebody noted of a letter, and when. */
const noteOf = (name: string, deficiency: string, day: Day) => ({
  added_date: dateOf(Math.min(today, day + 1)),
  notes: `${name}: "${deficiency}"; 100% made up`,
  notes_updated: clock(day, hour(16, 45)),
})

const rowOf = ({ company }: History, notice: Notice, step: Step, day: Day) => {
  const [deficiency, rule, risk] = rules[notice.kind]
  const isOver = step === "compliance_regained"
  const noted = company.dice(`note ${notice.kind} ${step} ${day}`).chance(0.7)
  return {
    ticker: symbolOn(company, day),
    company: notice.kind === "other" ? null : company.name,
    market: company.plot.shares > 50_000 ? "Nasdaq Global Market" : "Nasdaq Capital Market",
    date: dateOf(day),
    deficiency,
    deficiency_type: notice.kind,
    rule,
    notice_type: step,
    compliance_deadline: isOver ? null : maybe(notice.deadline, dateOf),
    hearing_date: step === "staff_determination" ? maybe(notice.hearing, dateOf) : null,
    regained_date: maybe(notice.regained, dateOf),
    risk: isOver ? null : risk,
    status: notice.status,
    ...(noted ? noteOf(company.name, deficiency, day) : { added_date: null, notes: null, notes_updated: null }),
    last_updated: evening(day),
  }
}

export const nasdaqCompliance = (history: History) =>
  history.notices.flatMap((notice, place) =>
    stepsOf(notice).map(([step, day, key]) => ({
      id: `${history.company.cik}-c${place + 1}${key.replace(":", "-")}`,
      ...rowOf(history, notice, step, day),
      document_url: find(history, `notice:${place}${key}`)?.url ?? null,
    }))
  )
