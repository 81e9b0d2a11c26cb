/** Rows of ownership: one for each holder of each filing, and placeholders for filings without a table. */
import { dateOf, type Day, sessionOn } from "./Calendar.ts"
import { evening, symbolOn } from "./Company.ts"
import { fraction, quotient } from "./Decimals.ts"
import type { Document } from "./Documents.ts"
import { type Holder, holdersOf } from "./Holders.ts"
import type { History } from "./Market.ts"

const held = ({ key }: Document, { type }: Holder) =>
  key === "ipo" || key.startsWith("owners:all") || (key.startsWith("owners:funds") && type === "five_percent_owner")

/** The filings that hold a table, with those who are in it; oldest first. */
export const tableOf = ({ company, documents }: History) => {
  const holders = holdersOf(company)
  return documents
    .map((document) => ({ document, holders: holders.filter((holder) => held(document, holder)) }))
    .filter((table) => table.holders.length > 0)
}

const nobody = {
  owner_name: null,
  owner_cik: null,
  owner_type: null,
  title: null,
  common_shares_amount: null,
  preferred_shares_amount: null,
  options_amount: null,
  warrants_amount: null,
  shares_underlying_convertibles: null,
  percent_of_class: null,
  sole_voting_shares: null,
  shared_voting_shares: null,
  event_date: null,
}

const ownerOf = ({ company, prices }: History, holder: Holder, day: Day) => {
  const { cik, name, part, title, type } = holder
  const of = company.dice(`${name} ${day}`)
  const known = type !== null
  const shares = quotient((prices.outstanding[sessionOn(day)] ?? 0) * part, 10_000)
  const shared = type === "five_percent_owner" ? quotient(shares, 4) : 0
  return {
    owner_name: known ? name : null,
    owner_cik: cik,
    owner_type: type,
    title,
    common_shares_amount: known ? shares : null,
    preferred_shares_amount: of.chance(0.2) ? of.whole(0, 5000) : null,
    options_amount: type === "executive" ? of.whole(0, 400_000) : null,
    warrants_amount: of.chance(0.15) ? of.whole(1, 90_000) : null,
    shares_underlying_convertibles: of.chance(0.1) ? of.whole(1, 50_000) : null,
    percent_of_class: known ? fraction(part) : null,
    sole_voting_shares: known ? shares - shared : null,
    shared_voting_shares: known ? shared : null,
    // A row must hold something to be no placeholder.
    event_date: type === "executive" || type === null ? dateOf(day - 30) : null,
  }
}

export const ownership = (history: History) => {
  const { company, documents } = history
  const tables = new Map(tableOf(history).map(({ document, holders }) => [document, holders]))
  return documents.filter((document) => tables.has(document) || document.key.startsWith("owners")).flatMap(
    (document) => {
      const { accession, day, form, key, url } = document
      const owners = (tables.get(document) ?? []).map((holder) => ownerOf(history, holder, day))
      // Some filings mix both; placeholders do not show beside a table.
      const rows = owners.length === 0 || key === "owners:all:1" ? [...owners, nobody] : owners
      return rows.map((owner) => ({
        ticker: symbolOn(company, day),
        reported_date: key === "owners:funds:0" ? null : dateOf(day - 20),
        filed_at: dateOf(day),
        form_type: form,
        accession_number: accession,
        document_url: key.startsWith("owners:none") ? null : url,
        ...owner,
        last_updated: evening(day),
      }))
    },
  )
}
