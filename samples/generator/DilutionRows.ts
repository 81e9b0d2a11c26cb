/** Rows of dilution_data: warrants and convertibles of the deals, counted in shares of today. */
import { dateOf, dayOf, sessionOn } from "./Calendar.ts"
import { type Company, evening, symbolOn } from "./Company.ts"
import { type Deal, splitSince } from "./Deals.ts"
import { money, price, quotient } from "./Decimals.ts"
import type { Document } from "./Documents.ts"
import { find, type History } from "./Market.ts"
import { banks, funds } from "./Names.ts"
import type { Dice } from "./Random.ts"
import { fileNumber } from "./RegistrationRows.ts"

const warrantColumns = {
  warrants_amount: null,
  warrants_remaining: null,
  warrants_exercise_price: null,
  prefunded_cost: null,
  exercisable_date: null,
  expiration_date: null,
}

const convertibleColumns = {
  conversion_price: null,
  conversion_price_type: null,
  offering_amount: null,
  convertible_debt_remaining: null,
  interest_rate_percentage: null,
  convertible_date: null,
  maturity_date: null,
}

/** Shares and ticks of a deal, after the splits since. */
const counted = (company: Company, { day }: Deal) => {
  const { from, to } = splitSince(company, day)
  return {
    shares: (count: number) => quotient(count * to, from),
    ticks: (count: number) => quotient(count * from, to),
  }
}

const clauses = ["Full ratchet", "Weighted average", "Share combination event", "Reset to 100% of 5-day low"] as const

/** The least price under the protection, in whole tenths of a cent. */
const protection = (of: Dice, ticks: number) => {
  if (of.chance(0.5)) return { floor_price: null, price_protection: null, price_protection_clause: null }
  const kind = of.pick(clauses)
  return {
    floor_price: of.chance(0.8) ? price(10 * Math.ceil(ticks / 50)) : null,
    price_protection: kind,
    price_protection_clause: of.chance(0.7) ? `"${kind}": never below the floor, where there is one` : null,
  }
}

const advanced = (of: Dice, { company }: History, deal: Deal, ticks: number) => ({
  ...protection(of, ticks),
  bank: deal.bank,
  owners: of.chance(0.3) ? [] : of.chance(0.4) ? [of.pick(funds), "O'Neil_50% Opportunities"] : [of.pick(funds)],
  reset_date: of.chance(0.3) ? dateOf(deal.day + 200) : null,
  beneficial_ownership_blocker_percentage: of.chance(0.7) ? of.pick(["4.99", "9.99"]) : null,
  registration_file_no: deal.shelf ? fileNumber(company, "shelf") : null,
})

const warrant = (of: Dice, history: History, deal: Deal, part: number) => {
  const { shares, ticks } = counted(history.company, deal)
  const amount = shares(quotient(deal.shares * part, 100))
  const remaining = quotient(amount * of.whole(1000, 10_000), 10_000)
  const exercise = ticks(quotient(deal.price * of.whole(100, 130), 100))
  return {
    ...convertibleColumns,
    ...warrantColumns,
    security_type: "warrant",
    details: `Common warrants at $${price(exercise)}`,
    warrants_amount: amount,
    warrants_remaining: of.chance(0.9) ? remaining : null,
    warrants_exercise_price: price(exercise),
    exercisable_date: of.chance(0.9) ? dateOf(deal.day + (deal.shelf ? 0 : 183)) : null,
    expiration_date: of.chance(0.9) ? dateOf(deal.day + 1826) : null,
    underlying_shares_remaining: remaining,
    ...advanced(of, history, deal, exercise),
  }
}

const prefunded = (of: Dice, history: History, deal: Deal) => {
  const { shares, ticks } = counted(history.company, deal)
  const amount = shares(quotient(deal.shares, 4))
  return {
    ...warrant(of, history, deal, 25),
    security_type: "prefunded_warrant",
    details: `Pre-funded warrants at $${price(ticks(1))}`,
    warrants_amount: amount,
    warrants_remaining: 0,
    warrants_exercise_price: price(ticks(1)),
    prefunded_cost: price(ticks(Math.max(1, deal.price - 1))),
    expiration_date: null,
    underlying_shares_remaining: 0,
  }
}

const convertible = (of: Dice, history: History, deal: Deal) => {
  const { ticks } = counted(history.company, deal)
  const conversion = ticks(deal.price)
  const isNote = deal.kind === "note"
  const debt = quotient(deal.gross * of.whole(0, 10_000), 10_000)
  return {
    ...convertibleColumns,
    ...warrantColumns,
    security_type: isNote ? "convertible_note" : "convertible_preferred",
    details: isNote
      ? "Senior convertible notes, 10% original issue discount"
      : "Series A-1 convertible preferred shares",
    conversion_price: of.chance(0.95) ? price(conversion) : null,
    conversion_price_type: of.chance(0.9) ? (isNote ? "variable" : "fixed") : null,
    offering_amount: money(deal.gross),
    convertible_debt_remaining: isNote ? money(debt) : null,
    interest_rate_percentage: isNote ? of.pick(["0", "7.5", "8.25", "12"]) : null,
    convertible_date: of.chance(0.9) ? dateOf(deal.day + 30) : null,
    maturity_date: isNote ? dateOf(deal.day + 730) : null,
    underlying_shares_remaining: of.chance(0.9) ? quotient(debt * 100, conversion) : null,
    ...advanced(of, history, deal, conversion),
  }
}

const securities = (of: Dice, history: History, deal: Deal) => ({
  offering: [warrant(of, history, deal, 50)],
  direct: [warrant(of, history, deal, 100), prefunded(of, history, deal)],
  note: [convertible(of, history, deal), warrant(of, history, deal, 35)],
  preferred: [convertible(of, history, deal)],
  atm: [],
  line: [],
}[deal.kind])

/** Where a security is known from; an old one is known from a report only. */
const source = (deal: Deal, document: Document | undefined) => ({
  registered: document === undefined ? null : deal.shelf,
  filed_at: dateOf(deal.day),
  form_type: document?.form ?? null,
  accession_number: document?.accession ?? null,
  document_url: document?.url ?? null,
  last_updated: evening(deal.day),
})

/** Warrants from before the market began, of those who raise money now. */
const old = ({ company: { plot }, prices }: History): ReadonlyArray<Deal> =>
  plot.raises.length < 3 ? [] : [{
    place: 99,
    kind: "offering",
    day: dayOf("2023-06-08"),
    shares: quotient(prices.outstanding[sessionOn(0)] ?? 0, 10),
    price: 60_000,
    gross: 0,
    bank: banks[3],
    shelf: false,
  }]

export const dilutionData = (history: History) => {
  const of = history.company.dice("dilution")
  return [...old(history), ...history.deals].flatMap((deal) => {
    const document = find(history, `raise:${deal.place}`)
    return securities(of, history, deal).map((security, place) => ({
      id: `${document?.id ?? `${history.company.cik}-23-old`}-${place + 1}`,
      ticker: symbolOn(history.company, deal.day),
      ...security,
      ...source(deal, document),
    }))
  })
}
