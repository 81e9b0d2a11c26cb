/** Rows of registrations: the shelf as it stands today, and each sale as it stood on its day. */
import { babyShelf } from "./BabyShelf.ts"
import { dateOf, type Day, today } from "./Calendar.ts"
import { type Company, evening, symbolOn } from "./Company.ts"
import { type Deal, soldUntil } from "./Deals.ts"
import { maybe, money, price, quotient, worth } from "./Decimals.ts"
import type { Document } from "./Documents.ts"
import { ipoDay } from "./Filings.ts"
import { find, type History } from "./Market.ts"

const statements = ["shelf", "line", "resale", "ipo", "pending"] as const

/** `333-900000`: one for each statement of a company. */
export const fileNumber = ({ number }: Company, statement: typeof statements[number]) =>
  `333-${900_000 + number * 10 + statements.indexOf(statement)}`

const plain = {
  effective_date: null,
  effective_status: false,
  expiration_date: null,
  offering_amount: null,
  shares_registered: null,
  is_atm: false,
  bank: null,
  amount_remaining_atm: null,
  total_raised: null,
  amount_sold_to_date: null,
  amount_sold_12_months: null,
  high_60_day: null,
  baby_shelf_raisable_amount: null,
  calculated_raisable_amount: null,
  over_baby_shelf: null,
  price_to_exceed_baby_shelf: null,
  details: null,
}

type Type = "shelf" | "equity_line" | "offering" | "resale"

const head = ({ company }: History, { day, form, id, title }: Document, type: Type, file: string) => ({
  id: `${id}-r`,
  ticker: symbolOn(company, day),
  headline: title ?? `${form} of ${company.name}`,
  type,
  form_type: form,
  file_no: file,
  filed_at: dateOf(day),
  ...plain,
})

const tail = (day: Day, { url }: Document, has = true) => ({
  document_url: has ? url : null,
  last_updated: evening(day),
})

/** What was sold from the shelf by a day, in cents. */
const sold = ({ deals }: History, day: Day) => ({
  amount_sold_to_date: money(soldUntil(deals, day)),
  amount_sold_12_months: money(soldUntil(deals, day, day - 365)),
})

const shelfRow = (history: History, document: Document) => {
  const { company, deals, shelf } = history
  if (shelf === null) return []
  const total = soldUntil(deals, today)
  return [{
    ...head(history, document, "shelf", fileNumber(company, "shelf")),
    effective_date: dateOf(shelf.effective),
    effective_status: true,
    expiration_date: dateOf(shelf.expires),
    offering_amount: money(shelf.amount),
    total_raised: money(total),
    ...sold(history, today),
    ...babyShelf(history, today, shelf.amount - total),
    details: total === 0 ? null : `${deals.filter((deal) => deal.shelf).length} sales so far`,
    ...tail(today, document),
  }]
}

const saleRow = (history: History, document: Document, deal: Deal) => {
  const left = (history.shelf?.amount ?? 0) - soldUntil(history.deals, deal.day)
  const atm = deal.kind === "atm"
  return {
    ...head(history, document, "offering", fileNumber(history.company, "shelf")),
    effective_date: dateOf(history.shelf?.effective ?? deal.day),
    effective_status: true,
    expiration_date: maybe(history.shelf?.expires ?? null, dateOf),
    // An open program may sell as much again as it has sold.
    offering_amount: money(atm ? deal.gross * 2 : deal.gross),
    shares_registered: atm ? null : deal.shares,
    is_atm: atm,
    bank: deal.bank,
    amount_remaining_atm: atm ? money(deal.gross) : null,
    total_raised: money(deal.gross),
    ...sold(history, deal.day),
    ...babyShelf(history, deal.day, left),
    details: `${deal.shares} shares at $${price(deal.price)}`,
    ...tail(deal.day, document),
  }
}

const dealRows = (history: History) =>
  history.deals.flatMap((deal) => {
    const { company } = history
    const document = find(history, `raise:${deal.place}`)
    const resale = find(history, `resale:${deal.place}`)
    const sale = document !== undefined && deal.shelf ? [saleRow(history, document, deal)] : []
    const line = document !== undefined && deal.kind === "line"
      ? [{
        ...head(history, document, "equity_line", fileNumber(company, "line")),
        effective_date: dateOf(deal.day + 20),
        effective_status: true,
        offering_amount: money(deal.gross * 3),
        shares_registered: deal.shares * 3,
        total_raised: money(deal.gross),
        ...tail(deal.day, document),
      }]
      : []
    const again = resale === undefined ? [] : [{
      ...head(history, resale, "resale", fileNumber(company, "resale")),
      effective_date: dateOf(resale.day + 9),
      effective_status: true,
      shares_registered: deal.shares,
      ...tail(resale.day, resale, false),
    }]
    return [...sale, ...line, ...again]
  })

/** The public offering itself, and one that is only proposed. */
const otherRows = (history: History) => {
  const { company, prices } = history
  const filed = find(history, "ipo:filed")
  const pending = find(history, "pending")
  const day = ipoDay(company)
  const shares = quotient(prices.outstanding[company.plot.first ?? 0] ?? 0, 5)
  const gone = filed === undefined || day === null ? [] : [{
    ...head(history, filed, "offering", fileNumber(company, "ipo")),
    effective_date: dateOf(day - 1),
    effective_status: true,
    shares_registered: shares,
    total_raised: money(worth(prices.closes[company.plot.first ?? 0] ?? 0, shares)),
    ...tail(day, filed),
  }]
  return pending === undefined ? gone : [...gone, {
    ...head(history, pending, "offering", fileNumber(company, "pending")),
    ...tail(pending.day, pending),
  }]
}

export const registrations = (history: History) => {
  const shelf = find(history, "shelf")
  return [...(shelf === undefined ? [] : shelfRow(history, shelf)), ...dealRows(history), ...otherRows(history)]
}
