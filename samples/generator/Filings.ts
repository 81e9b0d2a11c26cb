/** What a company files because it must: reports, registrations, ownership tables, and its prospectus. */
import { type Day, dayAt, dayOf, hour, today, tradingDay } from "./Calendar.ts"
import type { Company } from "./Company.ts"
import type { Deal, Shelf } from "./Deals.ts"
import type { Draft } from "./Documents.ts"

/** The names of the forms: a foreign issuer files others. */
export const formsOf = ({ country }: Company) =>
  country === "US"
    ? { annual: "10-K", interim: "10-Q", current: "8-K", shelf: "S-3", full: "S-1" }
    : { annual: "20-F", interim: "6-K", current: "6-K", shelf: "F-3", full: "F-1" }

const interim = ["2024-11-21", "2025-05-15", "2025-08-14", "2025-11-13", "2026-05-14", "2026-08-13", "2026-11-12"]
const annual = ["2025-03-28", "2026-03-27"]

/** The day of the first trade; companies that were there before have none. */
export const ipoDay = ({ plot }: Company): Day | null =>
  plot.first === null || plot.first === 0 ? null : dayAt(plot.first)

const periodic = (company: Company): ReadonlyArray<Draft> => {
  const of = company.dice("periodic")
  const forms = formsOf(company)
  const since = (ipoDay(company) ?? 0) + 20
  const reports = [...annual.map((date) => [date, forms.annual]), ...interim.map((date) => [date, forms.interim])]
  return reports.flatMap(([date = "", form = ""], place): ReadonlyArray<Draft> => {
    const day = tradingDay(dayOf(date) - of.whole(0, 9))
    const time = of.chance(0.85) ? hour(of.whole(6, 16), of.whole(0, 59)) + of.whole(0, 59) : null
    if (day < since || company.plot.holders === "none" || (company.plot.first === null && place > 1)) return []
    const title = of.chance(0.9) ? `${form} of ${company.name}` : null
    return [{ key: `periodic:${place}`, day, time, form, title, tags: [] }]
  })
}

const tables = {
  full: [["SC 13G", "2025-02-12", "funds"], ["DEF 14A", "2025-04-25", "all"], ["DEF 14A", "2026-04-24", "all"], [
    "4",
    "2026-09-15",
    "none",
  ]],
  institutions: [["DEF 14A", "2025-04-11", "all"], ["DEF 14A", "2026-04-10", "all"], [
    "SC 13G/A",
    "2026-02-13",
    "funds",
  ]],
  placeholders: [["3", "2025-06-20", "none"], ["SC 13D", "2026-03-06", "none"]],
  none: [],
} as const

/** `owners:all:…`, `owners:funds:…` and, without a table of holders, `owners:none:…`. */
const ownership = (company: Company): ReadonlyArray<Draft> => {
  const of = company.dice("ownership filings")
  return tables[company.plot.holders].flatMap(([form, date, holds], place): ReadonlyArray<Draft> => {
    const day = tradingDay(dayOf(date) + of.whole(-5, 5))
    if (day <= (ipoDay(company) ?? 0)) return []
    const title = `${form}: holders of ${company.name}`
    return [{ key: `owners:${holds}:${place}`, day, time: hour(16, of.whole(5, 59)), form, title, tags: ["ownership"] }]
  })
}

const ipo = (company: Company): ReadonlyArray<Draft> => {
  const day = ipoDay(company)
  if (day === null) return []
  const form = formsOf(company).full
  const title = `${company.name} goes public`
  return [
    { key: "ipo:filed", day: tradingDay(day - 48), time: hour(15, 2), form, title, tags: ["ipo"] },
    { key: "ipo", day, time: hour(6, 1), form: "424B4", title, tags: ["ipo"] },
    { key: "ipo:news", day, time: hour(8), form: "news", title, summary: "The first trade is today.", tags: ["ipo"] },
  ]
}

/** The day on which the shares of a private deal were registered for resale; after today: not yet. */
export const resaleDay = ({ day }: Deal) => tradingDay(day + 24)

const registrations = (company: Company, deals: ReadonlyArray<Deal>, shelf: Shelf | null): ReadonlyArray<Draft> => {
  const forms = formsOf(company)
  const tags = ["registration"]
  const resales = deals.filter((deal) =>
    (deal.kind === "note" || deal.kind === "preferred") && resaleDay(deal) <= today
  )
  return [
    ...(shelf === null ? [] : [{
      key: "shelf",
      day: shelf.filed,
      time: hour(17, 12),
      form: forms.shelf,
      title: "Shelf registration",
      tags,
    }]),
    ...resales.map((deal) => ({
      key: `resale:${deal.place}`,
      day: resaleDay(deal),
      time: null,
      form: forms.full,
      title: "Resale by holders",
      tags,
    })),
    ...(company.dice("pending").chance(0.2) && company.plot.first !== null
      ? [{ key: "pending", day: today - 24, time: hour(9, 5), form: forms.full, title: "Proposed offering", tags }]
      : []),
  ]
}

export const filingsOf = (company: Company, deals: ReadonlyArray<Deal>, shelf: Shelf | null): ReadonlyArray<Draft> => [
  ...periodic(company),
  ...ownership(company),
  ...ipo(company),
  ...registrations(company, deals, shelf),
]
