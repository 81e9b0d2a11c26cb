/** Builds the rows of split_status, and finds the days on which splits took effect. */
import { formatDate, getSessionDay, lastMarketDay } from "./Calendar.ts"
import { type FictionalCompany, formatEveningTime, getSymbolOn } from "./Companies.ts"
import type { CompanyHistory } from "./CompanyHistory.ts"
import { findDocument } from "./Documents.ts"
import type { StockSplit } from "./Scenarios.ts"

/** The steps of a split, each with the key of the document that announces it. */
const steps = [
  { key: "split:vote", action_type: "pending_vote" },
  { key: "split:approved", action_type: "vote_approved" },
  { key: "split:withdrawn", action_type: "withdrawn" },
  { key: "split:announced", action_type: "split_announced" },
  { key: "split:effective", action_type: "split_effective" },
] as const

/**
 * Returns the columns with the terms of a split, as known at the given step. Shareholders approve a range of ratios for
 * a reverse split, from half to 2.5 times the final ratio, until the board decides on one. A forward split has a fixed
 * ratio from the beginning.
 */
const termColumns = (
  { effective, from, to, vote, voteFiled }: StockSplit,
  action: typeof steps[number]["action_type"],
) => {
  const isDecided = action === "split_announced" || action === "split_effective"
  const hasRange = !isDecided && from > to
  return {
    split_from: hasRange ? null : from,
    split_to: hasRange ? null : to,
    split_ratio_min: hasRange ? from / 2 : null,
    split_ratio_max: hasRange ? from * 2.5 : null,
    vote_date: isDecided ? null : formatDate(getSessionDay(vote)),
    approved_date: action === "vote_approved" || action === "withdrawn" ? formatDate(getSessionDay(vote)) : null,
    authority_expires_date: hasRange ? formatDate(getSessionDay(voteFiled) + 400) : null,
    effective_date: isDecided && effective !== undefined ? formatDate(getSessionDay(effective)) : null,
  }
}

/**
 * Builds the rows of split_status: one for each step of the company's split, from the vote to the split or its
 * withdrawal, that has happened. Each step is announced by a document, which is found by its key.
 */
export const buildSplitStatusRows = (history: CompanyHistory) => {
  const { company } = history
  const { split } = company.scenario
  if (split === undefined) return []
  return steps.flatMap(({ action_type, key }) => {
    const document = findDocument(history, key)
    if (document === undefined) return []
    const { day, form, id, title, url } = document
    return [{
      id,
      ticker: getSymbolOn(company, day),
      action_type,
      ...termColumns(split, action_type),
      executed: action_type === "split_effective",
      details: action_type === "withdrawn" ? null : title,
      filed_at: formatDate(day),
      form_type: form,
      document_url: action_type === "vote_approved" ? null : url,
      last_updated: formatEveningTime(day),
    }]
  })
}

/** Returns the days of all splits that have already taken effect. */
export const effectiveSplitDays = ({ scenario: { split } }: FictionalCompany) =>
  split?.effective !== undefined && getSessionDay(split.effective) <= lastMarketDay
    ? [getSessionDay(split.effective)]
    : []
