/** Builds the rows of dilution_data: the warrants and convertibles issued in deals, adjusted for later splits. */
import { formatDate, getSessionNumber, parseDate } from "./Calendar.ts"
import { type FictionalCompany, formatEveningTime, getSymbolOn } from "./Companies.ts"
import type { CompanyDocument, CompanyHistory } from "./CompanyHistory.ts"
import { type CapitalRaise, splitRatioSince } from "./Deals.ts"
import { divideRounded, formatCentsAsDollars, formatTicksAsDollars } from "./Decimals.ts"
import { findDocument } from "./Documents.ts"
import { bankNames, fundNames } from "./Names.ts"
import type { RandomSource } from "./Random.ts"
import { makeSecFileNumber } from "./RegistrationRows.ts"

const emptyWarrantColumns = {
  warrants_amount: null,
  warrants_remaining: null,
  warrants_exercise_price: null,
  prefunded_cost: null,
  exercisable_date: null,
  expiration_date: null,
}

const emptyConvertibleColumns = {
  conversion_price: null,
  conversion_price_type: null,
  offering_amount: null,
  convertible_debt_remaining: null,
  interest_rate_percentage: null,
  convertible_date: null,
  maturity_date: null,
}

/**
 * Returns two functions that adjust numbers from the day of a deal for a later split: `shares` adjusts a number of
 * shares, `ticks` a price per share. After a reverse split of 20 to 1, there are a twentieth of the shares at 20 times
 * the price.
 */
const makeSplitAdjuster = (company: FictionalCompany, { day }: CapitalRaise) => {
  const { from, to } = splitRatioSince(company, day)
  return {
    shares: (count: number) => divideRounded(count * to, from),
    ticks: (count: number) => divideRounded(count * from, to),
  }
}

const protectionClauses = [
  "Full ratchet",
  "Weighted average",
  "Share combination event",
  "Reset to 100% of 5-day low",
] as const

/**
 * Returns the price protection columns of a security. Half of the securities have no price protection. The floor price
 * is a multiple of 0.001 USD.
 */
const priceProtectionColumns = (random: RandomSource, ticks: number) => {
  if (random.chance(0.5)) return { floor_price: null, price_protection: null, price_protection_clause: null }
  const kind = random.pick(protectionClauses)
  return {
    floor_price: random.chance(0.8) ? formatTicksAsDollars(10 * Math.ceil(ticks / 50)) : null,
    price_protection: kind,
    price_protection_clause: random.chance(0.7) ? `"${kind}": never below the floor, where there is one` : null,
  }
}

/**
 * Returns the columns with the terms of a security that all kinds of securities have. `ticks` is its exercise or
 * conversion price. Many terms are missing at random, so that the columns contain nulls.
 */
const termColumns = (random: RandomSource, { company }: CompanyHistory, deal: CapitalRaise, ticks: number) => ({
  ...priceProtectionColumns(random, ticks),
  bank: deal.bank,
  owners: random.chance(0.3)
    ? []
    : random.chance(0.4)
    ? [random.pick(fundNames), "O'Neil_50% Opportunities"]
    : [random.pick(fundNames)],
  reset_date: random.chance(0.3) ? formatDate(deal.day + 200) : null,
  beneficial_ownership_blocker_percentage: random.chance(0.7) ? random.pick(["4.99", "9.99"]) : null,
  registration_file_no: deal.isFromShelf ? makeSecFileNumber(company, "shelf") : null,
})

/**
 * Returns the columns for the warrants that a deal issues. Their number is `percent` of the shares sold in the deal,
 * and their exercise price is up to 30% above the deal's price. All numbers are adjusted for later splits.
 */
const warrantColumnsOf = (random: RandomSource, history: CompanyHistory, deal: CapitalRaise, percent: number) => {
  const { shares, ticks } = makeSplitAdjuster(history.company, deal)
  const amount = shares(divideRounded(deal.shares * percent, 100))
  const remaining = divideRounded(amount * random.integer(1000, 10_000), 10_000)
  const exercise = ticks(divideRounded(deal.priceTicks * random.integer(100, 130), 100))
  return {
    ...emptyConvertibleColumns,
    ...emptyWarrantColumns,
    security_type: "warrant",
    details: `Common warrants at $${formatTicksAsDollars(exercise)}`,
    warrants_amount: amount,
    warrants_remaining: random.chance(0.9) ? remaining : null,
    warrants_exercise_price: formatTicksAsDollars(exercise),
    exercisable_date: random.chance(0.9) ? formatDate(deal.day + (deal.isFromShelf ? 0 : 183)) : null,
    expiration_date: random.chance(0.9) ? formatDate(deal.day + 1826) : null,
    underlying_shares_remaining: remaining,
    ...termColumns(random, history, deal, exercise),
  }
}

/**
 * Returns the columns for the pre-funded warrants that a deal issues. Buyers pay almost the whole price of a share in
 * advance and the rest, one tick, when they exercise the warrant. All of these warrants have been exercised.
 */
const prefundedWarrantColumns = (random: RandomSource, history: CompanyHistory, deal: CapitalRaise) => {
  const { shares, ticks } = makeSplitAdjuster(history.company, deal)
  const amount = shares(divideRounded(deal.shares, 4))
  return {
    ...warrantColumnsOf(random, history, deal, 25),
    security_type: "prefunded_warrant",
    details: `Pre-funded warrants at $${formatTicksAsDollars(ticks(1))}`,
    warrants_amount: amount,
    warrants_remaining: 0,
    warrants_exercise_price: formatTicksAsDollars(ticks(1)),
    prefunded_cost: formatTicksAsDollars(ticks(Math.max(1, deal.priceTicks - 1))),
    expiration_date: null,
    underlying_shares_remaining: 0,
  }
}

/**
 * Returns the columns for the convertible notes or the convertible preferred shares that a deal issues. They can be
 * converted into shares at the deal's price, adjusted for later splits. Prices are in ticks of a hundredth of a cent,
 * and amounts in cents. `debt` is the part of the amount that has not been converted yet.
 */
const convertibleColumnsOf = (random: RandomSource, history: CompanyHistory, deal: CapitalRaise) => {
  const { ticks } = makeSplitAdjuster(history.company, deal)
  const conversion = ticks(deal.priceTicks)
  const isNote = deal.kind === "note"
  const debt = divideRounded(deal.grossCents * random.integer(0, 10_000), 10_000)
  return {
    ...emptyConvertibleColumns,
    ...emptyWarrantColumns,
    security_type: isNote ? "convertible_note" : "convertible_preferred",
    details: isNote
      ? "Senior convertible notes, 10% original issue discount"
      : "Series A-1 convertible preferred shares",
    conversion_price: random.chance(0.95) ? formatTicksAsDollars(conversion) : null,
    conversion_price_type: random.chance(0.9) ? (isNote ? "variable" : "fixed") : null,
    offering_amount: formatCentsAsDollars(deal.grossCents),
    convertible_debt_remaining: isNote ? formatCentsAsDollars(debt) : null,
    interest_rate_percentage: isNote ? random.pick(["0", "7.5", "8.25", "12"]) : null,
    convertible_date: random.chance(0.9) ? formatDate(deal.day + 30) : null,
    maturity_date: isNote ? formatDate(deal.day + 730) : null,
    underlying_shares_remaining: random.chance(0.9) ? divideRounded(debt * 100, conversion) : null,
    ...termColumns(random, history, deal, conversion),
  }
}

/**
 * Returns the columns for each security, other than common shares, that a deal issues. The kind of the deal determines
 * the securities.
 */
const securityColumns = (random: RandomSource, history: CompanyHistory, deal: CapitalRaise) => ({
  offering: [warrantColumnsOf(random, history, deal, 50)],
  direct: [warrantColumnsOf(random, history, deal, 100), prefundedWarrantColumns(random, history, deal)],
  note: [convertibleColumnsOf(random, history, deal), warrantColumnsOf(random, history, deal, 35)],
  preferred: [convertibleColumnsOf(random, history, deal)],
  atm: [],
  line: [],
}[deal.kind])

/** Returns the columns about the filing that describes a security. Securities from 2023 have no such filing. */
const sourceColumns = (deal: CapitalRaise, document: CompanyDocument | undefined) => ({
  registered: document === undefined ? null : deal.isFromShelf,
  filed_at: formatDate(deal.day),
  form_type: document?.form ?? null,
  accession_number: document?.accession ?? null,
  document_url: document?.url ?? null,
  last_updated: formatEveningTime(deal.day),
})

/**
 * Returns a deal from 2023, before the period that the sample data covers, if the company has at least three capital
 * raises. Its securities have no filing, so that the columns about the filing contain nulls. Returns no deals
 * otherwise.
 */
const legacyDeals = ({ company: { scenario }, prices }: CompanyHistory): ReadonlyArray<CapitalRaise> =>
  scenario.raises.length < 3 ? [] : [{
    index: 99, // No other deal has this index, so no document is found for it.
    kind: "offering",
    day: parseDate("2023-06-08"),
    shares: divideRounded(prices.sharesOutstanding[getSessionNumber(0)] ?? 0, 10),
    priceTicks: 60_000,
    grossCents: 0,
    bank: bankNames[3],
    isFromShelf: false,
  }]

/** Builds the rows of dilution_data: one for each kind of warrant or convertible that the company issued in a deal. */
export const buildDilutionDataRows = (history: CompanyHistory) => {
  const random = history.company.randomFor("dilution")
  return [...legacyDeals(history), ...history.deals].flatMap((deal) => {
    const document = findDocument(history, `raise:${deal.index}`)
    return securityColumns(random, history, deal).map((security, index) => ({
      id: `${document?.id ?? `${history.company.cik}-23-old`}-${index + 1}`,
      ticker: getSymbolOn(history.company, deal.day),
      ...security,
      ...sourceColumns(deal, document),
    }))
  })
}
