/**
 * Builds the rows of registrations. Shelf rows describe the last day of the market, and sale rows the day of the sale.
 * There are also rows for equity lines, resales, IPOs and pending offerings.
 */
import { type EpochDay, formatDate, lastMarketDay } from "./Calendar.ts"
import { type FictionalCompany, formatEveningTime, getSymbolOn } from "./Companies.ts"
import type { CompanyDocument, CompanyHistory } from "./CompanyHistory.ts"
import { type CapitalRaise, sumShelfSales } from "./Deals.ts"
import {
  computeValueInCents,
  divideRounded,
  formatCentsAsDollars,
  formatTicksAsDollars,
  mapNullable,
} from "./Decimals.ts"
import { findDocument, getIpoDay, makeSource } from "./Documents.ts"
import { findFloatReportOn } from "./Floats.ts"
import { findHighestClose60Days } from "./PriceStatistics.ts"

/** The kinds of registration statements that a company may have. */
const statements = ["shelf", "line", "resale", "ipo", "pending"] as const

/** Returns the SEC file number of a registration statement, such as `333-900000`. */
export const makeSecFileNumber = ({ number }: FictionalCompany, statement: typeof statements[number]) =>
  `333-${900_000 + number * 10 + statements.indexOf(statement)}`

/** The columns that only some kinds of registration fill, with the values that they have for the other kinds. */
const emptyColumns = {
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

type RegistrationType = "shelf" | "equity_line" | "offering" | "resale"

/**
 * Returns a complete row for a filing of the given type, with the columns that all rows have in common filled in. All
 * other columns are empty, and the caller overrides those that it knows. `file` is the SEC file number.
 */
const headerColumns = (
  { company }: CompanyHistory,
  { day, form, id, title }: CompanyDocument,
  type: RegistrationType,
  file: string,
) => ({
  id: `${id}-r`,
  ticker: getSymbolOn(company, day),
  headline: title ?? `${form} of ${company.name}`,
  type,
  form_type: form,
  file_no: file,
  filed_at: formatDate(day),
  ...emptyColumns,
})

const sourceColumns = (day: EpochDay, { url }: CompanyDocument, hasUrl = true) => ({
  document_url: hasUrl ? url : null,
  last_updated: formatEveningTime(day),
  source: makeSource([hasUrl ? url : null], "fees"),
})

/** USD 75 million in cents. The baby-shelf rule applies to companies with a smaller public float. */
const babyShelfThreshold = 7_500_000_000

/**
 * Returns the columns about the SEC's baby-shelf rule on the given day. Under this rule, a small company's shelf sales
 * within twelve months may not exceed one third of the value of its public float, computed with the highest close of
 * the last 60 days. A float worth 75 million dollars or more is not subject to the rule. `remaining` is the unsold
 * amount of the shelf, in cents. Without a price or a float, all columns but the price are null.
 */
const babyShelfColumns = (history: CompanyHistory, day: EpochDay, remaining: number) => {
  const high = findHighestClose60Days(history, day)
  const float = findFloatReportOn(history.floats, day)?.float ?? null
  if (high === null || float === null) {
    return {
      high_60_day: mapNullable(high, formatTicksAsDollars),
      baby_shelf_raisable_amount: null,
      calculated_raisable_amount: null,
      over_baby_shelf: null,
      price_to_exceed_baby_shelf: null,
    }
  }
  const floatValue = computeValueInCents(high, float)
  const isExempt = floatValue >= babyShelfThreshold
  const raisable = Math.max(0, divideRounded(floatValue, 3) - sumShelfSales(history.deals, day, day - 365))
  // The price in ticks at which the float would be worth the threshold; a cent has 100 ticks.
  const exemptingPrice = Math.ceil((babyShelfThreshold * 100) / float)
  return {
    high_60_day: formatTicksAsDollars(high),
    baby_shelf_raisable_amount: isExempt ? null : formatCentsAsDollars(raisable),
    calculated_raisable_amount: formatCentsAsDollars(isExempt ? remaining : Math.min(remaining, raisable)),
    over_baby_shelf: isExempt,
    price_to_exceed_baby_shelf: isExempt ? null : formatTicksAsDollars(exemptingPrice),
  }
}

/** Returns the columns with the shelf sales up to a given day: in total, and within twelve months. */
const salesColumns = ({ deals }: CompanyHistory, day: EpochDay) => ({
  amount_sold_to_date: formatCentsAsDollars(sumShelfSales(deals, day)),
  amount_sold_12_months: formatCentsAsDollars(sumShelfSales(deals, day, day - 365)),
})

/**
 * Builds the row for the company's shelf registration, under which it may sell shares up to an amount. The row
 * describes the shelf on the last day of the market. Returns a list with this row, or an empty list if there is no
 * shelf.
 */
const makeShelfRows = (history: CompanyHistory, document: CompanyDocument) => {
  const { company, deals, shelf } = history
  if (shelf === null) return []
  const total = sumShelfSales(deals, lastMarketDay)
  return [{
    ...headerColumns(history, document, "shelf", makeSecFileNumber(company, "shelf")),
    effective_date: formatDate(shelf.effectiveDay),
    effective_status: true,
    expiration_date: formatDate(shelf.expiryDay),
    offering_amount: formatCentsAsDollars(shelf.amountCents),
    total_raised: formatCentsAsDollars(total),
    ...salesColumns(history, lastMarketDay),
    ...babyShelfColumns(history, lastMarketDay, shelf.amountCents - total),
    details: total === 0 ? null : `${deals.filter((deal) => deal.isFromShelf).length} sales so far`,
    ...sourceColumns(lastMarketDay, document),
  }]
}

/**
 * Builds the row for a sale of shares (`deal`) under the shelf registration, which describes the shelf on the day of
 * the sale. `document` is the filing of the sale. In an at-the-market sale (`atm`), the number of shares is not known
 * in advance.
 */
const makeSaleRow = (history: CompanyHistory, document: CompanyDocument, deal: CapitalRaise) => {
  const remaining = (history.shelf?.amountCents ?? 0) - sumShelfSales(history.deals, deal.day)
  const atm = deal.kind === "atm"
  return {
    ...headerColumns(history, document, "offering", makeSecFileNumber(history.company, "shelf")),
    effective_date: formatDate(history.shelf?.effectiveDay ?? deal.day),
    effective_status: true,
    expiration_date: mapNullable(history.shelf?.expiryDay ?? null, formatDate),
    // The sample data assumes that half of each at-the-market program has been sold.
    offering_amount: formatCentsAsDollars(atm ? deal.grossCents * 2 : deal.grossCents),
    shares_registered: atm ? null : deal.shares,
    is_atm: atm,
    bank: deal.bank,
    amount_remaining_atm: atm ? formatCentsAsDollars(deal.grossCents) : null,
    total_raised: formatCentsAsDollars(deal.grossCents),
    ...salesColumns(history, deal.day),
    ...babyShelfColumns(history, deal.day, remaining),
    details: `${deal.shares} shares at $${formatTicksAsDollars(deal.priceTicks)}`,
    ...sourceColumns(deal.day, document),
  }
}

/**
 * Builds the rows that result from deals: shelf sales, equity lines, and resales of privately placed shares. A deal's
 * documents have the keys `raise:…` and `resale:…`; deals without the document have no row. The sample data assumes
 * that a third of each equity line has been used.
 */
const makeDealRows = (history: CompanyHistory) =>
  history.deals.flatMap((deal) => {
    const { company } = history
    const document = findDocument(history, `raise:${deal.index}`)
    const resale = findDocument(history, `resale:${deal.index}`)
    const sale = document !== undefined && deal.isFromShelf ? [makeSaleRow(history, document, deal)] : []
    const line = document !== undefined && deal.kind === "line"
      ? [{
        ...headerColumns(history, document, "equity_line", makeSecFileNumber(company, "line")),
        effective_date: formatDate(deal.day + 20),
        effective_status: true,
        offering_amount: formatCentsAsDollars(deal.grossCents * 3),
        shares_registered: deal.shares * 3,
        total_raised: formatCentsAsDollars(deal.grossCents),
        ...sourceColumns(deal.day, document),
      }]
      : []
    const resaleRows = resale === undefined ? [] : [{
      ...headerColumns(history, resale, "resale", makeSecFileNumber(company, "resale")),
      effective_date: formatDate(resale.day + 9),
      effective_status: true,
      shares_registered: deal.shares,
      ...sourceColumns(resale.day, resale, false),
    }]
    return [...sale, ...line, ...resaleRows]
  })

/**
 * Builds the rows for the IPO and for an offering that is still pending, if the company has them. In the IPO, a fifth
 * of the company's shares are sold at the first closing price.
 */
const makeIpoAndPendingRows = (history: CompanyHistory) => {
  const { company, prices } = history
  const filed = findDocument(history, "ipo:filed")
  const pending = findDocument(history, "pending")
  const day = getIpoDay(company)
  const shares = divideRounded(prices.sharesOutstanding[company.scenario.firstSession ?? 0] ?? 0, 5)
  const ipoRows = filed === undefined || day === null ? [] : [{
    ...headerColumns(history, filed, "offering", makeSecFileNumber(company, "ipo")),
    effective_date: formatDate(day - 1),
    effective_status: true,
    shares_registered: shares,
    total_raised: formatCentsAsDollars(
      computeValueInCents(prices.closes[company.scenario.firstSession ?? 0] ?? 0, shares),
    ),
    ...sourceColumns(day, filed),
  }]
  return pending === undefined ? ipoRows : [...ipoRows, {
    ...headerColumns(history, pending, "offering", makeSecFileNumber(company, "pending")),
    ...sourceColumns(pending.day, pending),
  }]
}

/** Builds the rows for the company's registration statements and for the sales made under them. */
export const buildRegistrationsRows = (history: CompanyHistory) => {
  const shelf = findDocument(history, "shelf")
  return [
    ...(shelf === undefined ? [] : makeShelfRows(history, shelf)),
    ...makeDealRows(history),
    ...makeIpoAndPendingRows(history),
  ]
}
