/**
 * A small market of fictional companies whose stories fit together: the same seed gives the same market, to the byte.
 * Nothing here is real but the trading days, and they are fixed: the market ends on 2026-11-13.
 */
import { announcementsOf } from "./Announcements.ts"
import { type Day, dayAt, sessionOn, today } from "./Calendar.ts"
import { cast } from "./Cast.ts"
import { type Company, companyOf } from "./Company.ts"
import { type Deal, dealsOf, type Shelf, shelfOf } from "./Deals.ts"
import { worth } from "./Decimals.ts"
import { type Document, documentsOf } from "./Documents.ts"
import { filingsOf } from "./Filings.ts"
import { type Float, floatsOf } from "./Floats.ts"
import { type Notice, noticesOf } from "./Notices.ts"
import { type Prices, pricesOf } from "./Prices.ts"

export interface Options {
  /** 1 is the small market of fifty companies, 20 is one of a thousand. */
  readonly scale: number
  readonly seed: number
}

/** All that happened to one company. */
export interface History {
  readonly company: Company
  readonly prices: Prices
  readonly deals: ReadonlyArray<Deal>
  readonly shelf: Shelf | null
  readonly notices: ReadonlyArray<Notice>
  readonly documents: ReadonlyArray<Document>
  readonly floats: ReadonlyArray<Float>
}

export const historyOf = (company: Company): History => {
  const prices = pricesOf(company.dice("prices"), company.plot)
  const deals = dealsOf(company, prices)
  const shelf = shelfOf(company, deals)
  const notices = noticesOf(prices, company.plot)
  const drafts = [...filingsOf(company, deals, shelf), ...announcementsOf(company, prices, deals, notices)]
  const documents = documentsOf(company, drafts)
  return { company, prices, deals, shelf, notices, documents, floats: floatsOf(company, prices, documents) }
}

/** One company after another, so that no more than one is in memory. */
export function* market({ scale, seed }: Options): Generator<History> {
  for (let number = 0; number < cast.length * scale; number++) yield historyOf(companyOf(seed, number))
}

export const find = ({ documents }: History, key: string) => documents.find((document) => document.key === key)

/** The last close in ticks on or before a day; null where there is none. */
export const closeOn = ({ company: { plot }, prices }: History, day: Day = today) => {
  const session = sessionOn(day)
  return plot.first === null || session < plot.first || day < 0 ? null : prices.closes[session] ?? null
}

/** Cents, from a price in ticks and a number of shares. */
export const capOf = (price: number | null, shares: number | null | undefined) =>
  price === null || shares === null || shares === undefined ? null : worth(price, shares)

/** Every trading day of a company with its unadjusted close in ticks. */
export const closesOf = ({ company: { plot }, prices }: History) =>
  plot.first === null
    ? []
    : prices.closes.slice(plot.first).map((close, after) => ({ day: dayAt(after + (plot.first ?? 0)), close }))
