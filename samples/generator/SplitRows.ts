/** Rows of split_status, step by step, and what pump_and_dump_tracker counts of them. */
import { dateOf, dayAt, today } from "./Calendar.ts"
import { type Company, evening, symbolOn } from "./Company.ts"
import { find, type History } from "./Market.ts"
import type { Split } from "./Plot.ts"

const steps = [
  { key: "split:vote", action_type: "pending_vote" },
  { key: "split:approved", action_type: "vote_approved" },
  { key: "split:withdrawn", action_type: "withdrawn" },
  { key: "split:announced", action_type: "split_announced" },
  { key: "split:effective", action_type: "split_effective" },
] as const

/** Before the board decides there is only a range; only what was decided has a ratio and a day. */
const terms = ({ effective, from, to, vote, voteFiled }: Split, action: typeof steps[number]["action_type"]) => {
  const decided = action === "split_announced" || action === "split_effective"
  const range = !decided && from > to
  return {
    split_from: decided || !range ? from : null,
    split_to: decided || !range ? to : null,
    split_ratio_min: range ? from / 2 : null,
    split_ratio_max: range ? from * 2.5 : null,
    vote_date: decided ? null : dateOf(dayAt(vote)),
    approved_date: action === "vote_approved" || action === "withdrawn" ? dateOf(dayAt(vote)) : null,
    authority_expires_date: range ? dateOf(dayAt(voteFiled) + 400) : null,
    effective_date: decided && effective !== undefined ? dateOf(dayAt(effective)) : null,
  }
}

export const splitStatus = (history: History) => {
  const { company } = history
  const { split } = company.plot
  if (split === undefined) return []
  return steps.flatMap(({ action_type, key }) => {
    const document = find(history, key)
    if (document === undefined) return []
    const { day, form, id, title, url } = document
    return [{
      id,
      ticker: symbolOn(company, day),
      action_type,
      ...terms(split, action_type),
      executed: action_type === "split_effective",
      details: action_type === "withdrawn" ? null : title,
      filed_at: dateOf(day),
      form_type: form,
      document_url: action_type === "vote_approved" ? null : url,
      last_updated: evening(day),
    }]
  })
}

/** The splits that have taken effect. */
export const splitsDone = ({ plot: { split } }: Company) =>
  split?.effective !== undefined && dayAt(split.effective) <= today ? [dayAt(split.effective)] : []
