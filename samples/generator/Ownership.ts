/** Generates a company's shareholders and builds the rows of ownership. */
import { type EpochDay, formatDate, getSessionNumber } from "./Calendar.ts"
import { type FictionalCompany, formatEveningTime, getSymbolOn } from "./Companies.ts"
import type { CompanyDocument, CompanyHistory } from "./CompanyHistory.ts"
import { divideRounded, formatTenThousandths } from "./Decimals.ts"
import { makeSource } from "./Documents.ts"
import { fundNames, personNames } from "./Names.ts"
import type { RandomSource } from "./Random.ts"

/** A shareholder of a company. `type` is null if the filing does not state the shareholder's role. */
export interface Shareholder {
  readonly name: string
  readonly cik: string | null
  readonly type: "executive" | "director" | "ten_percent_owner" | "five_percent_owner" | null
  readonly title: string | null
  /** The shareholder's stake, in ten-thousandths of the shares outstanding. */
  readonly stake: number
}

const ownerCik = (name: string) =>
  String(9_990_900_000 + [...personNames, ...fundNames].findIndex((known) => known === name))

const makeIndividual = (index: number, type: Shareholder["type"], title: string | null, stake: number): Shareholder => {
  const name = personNames[index % personNames.length] ?? personNames[0]
  return { name, cik: type === null ? null : ownerCik(name), type, title, stake }
}

const makeFund = (index: number, type: Shareholder["type"], stake: number): Shareholder => {
  const name = fundNames[index % fundNames.length] ?? fundNames[0]
  return { name, cik: ownerCik(name), type, title: null, stake }
}

/**
 * Generates the holders of a small company: officers with large stakes, a fund with more than 5% and usually another
 * one with more than 10%. `index` selects the names.
 */
const makeSmallCapHolders = (random: RandomSource, index: number): ReadonlyArray<Shareholder> => [
  makeIndividual(index, "executive", "Chief Executive Officer", random.integer(200, 1200)),
  makeIndividual(index + 1, "executive", "Chief Financial Officer", random.integer(20, 250)),
  makeIndividual(index + 2, "director", "Chair of the Board", random.integer(0, 90)),
  makeIndividual(index + 3, "director", "Director", 0),
  makeIndividual(index + 4, null, null, 0),
  ...(random.chance(0.6) ? [makeFund(index, "ten_percent_owner", random.integer(1000, 2200))] : []),
  makeFund(index + 1, "five_percent_owner", random.integer(500, 990)),
]

/**
 * Generates the holders of a large company: officers with tiny stakes, and three funds with more than 5%. None holds
 * more than 10%, so that the stake of affiliates is reported as 0. `index` selects the names.
 */
const makeLargeCapHolders = (random: RandomSource, index: number): ReadonlyArray<Shareholder> => [
  makeIndividual(index, "executive", "Chief Executive Officer", random.integer(3, 30)),
  makeIndividual(index + 1, "director", "Director", random.integer(1, 5)),
  makeFund(index, "five_percent_owner", random.integer(600, 980)),
  makeFund(index + 1, "five_percent_owner", random.integer(600, 980)),
  makeFund(index + 2, "five_percent_owner", random.integer(500, 700)),
]

/** Generates the company's shareholders. Returns none if the company's filings do not list holders. */
const makeHolders = (company: FictionalCompany): ReadonlyArray<Shareholder> => {
  const random = company.randomFor("holders")
  const index = company.number % 60
  const { ownershipData } = company.scenario
  if (ownershipData === "full") return makeSmallCapHolders(random, index)
  return ownershipData === "institutions" ? makeLargeCapHolders(random, index) : []
}

/** The total stake of each group, in ten-thousandths of the shares outstanding; null if unknown. */
interface OwnershipTotals {
  readonly insiders: number | null
  readonly affiliates: number | null
  readonly institutions: number | null
}

/**
 * Adds up the stakes of the company's shareholders by group, in ten-thousandths of its shares. If its filings list no
 * holders, the totals are null, except that the institutions' total is 0 for a listed company. Owners of ten percent
 * count as affiliates and as institutions. Institutions that are not listed get a random stake,
 * which is added to theirs.
 */
export const sumStakesByGroup = (company: FictionalCompany): OwnershipTotals => {
  const holders = makeHolders(company)
  const sum = (...types: ReadonlyArray<Shareholder["type"]>) =>
    holders.filter(({ type }) => types.includes(type)).reduce((total, { stake }) => total + stake, 0)
  if (holders.length === 0) {
    return { insiders: null, affiliates: null, institutions: company.scenario.exchange === null ? null : 0 }
  }
  const otherInstitutions = company.randomFor("institutions").integer(
    0,
    company.scenario.ownershipData === "institutions" ? 4000 : 900,
  )
  return {
    insiders: sum("executive", "director"),
    affiliates: sum("ten_percent_owner"),
    institutions: sum("ten_percent_owner", "five_percent_owner") + otherInstitutions,
  }
}

/**
 * Returns whether a filing lists the given shareholder. Its key determines whom it lists: all shareholders, or only
 * funds with more than 5%.
 */
const isListedIn = ({ key }: CompanyDocument, { type }: Shareholder) =>
  key === "ipo" || key.startsWith("owners:all") || (key.startsWith("owners:funds") && type === "five_percent_owner")

/** Returns the company's filings that list shareholders, oldest first, each with the shareholders that it lists. */
export const listFilingsWithHolders = ({ company, documents }: CompanyHistory) => {
  const holders = makeHolders(company)
  return documents
    .map((document) => ({ document, holders: holders.filter((holder) => isListedIn(document, holder)) }))
    .filter((filing) => filing.holders.length > 0)
}

/**
 * The columns of a placeholder row, which represents a filing that lists no holders (§2.7, ownership). All are null.
 */
const placeholderColumns = {
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

/**
 * Returns the columns that describe a holder in a filing of the given day. `stake` is the holder's share of the company
 * in units of 1/10,000. A holder without a type, which the filing does not identify, has almost no values.
 */
const ownerColumns = ({ company, prices }: CompanyHistory, holder: Shareholder, day: EpochDay) => {
  const { cik, name, stake, title, type } = holder
  const random = company.randomFor(`${name} ${day}`)
  const hasType = type !== null
  const shares = divideRounded((prices.sharesOutstanding[getSessionNumber(day)] ?? 0) * stake, 10_000)
  const shared = type === "five_percent_owner" ? divideRounded(shares, 4) : 0
  return {
    owner_name: hasType ? name : null,
    owner_cik: cik,
    owner_type: type,
    title,
    common_shares_amount: hasType ? shares : null,
    preferred_shares_amount: random.chance(0.2) ? random.integer(0, 5000) : null,
    options_amount: type === "executive" ? random.integer(0, 400_000) : null,
    warrants_amount: random.chance(0.15) ? random.integer(1, 90_000) : null,
    shares_underlying_convertibles: random.chance(0.1) ? random.integer(1, 50_000) : null,
    percent_of_class: hasType ? formatTenThousandths(stake) : null,
    sole_voting_shares: hasType ? shares - shared : null,
    shared_voting_shares: hasType ? shared : null,
    // A holder without a type gets an event date. Otherwise, all columns might be null, and the row would be a
    // placeholder.
    event_date: type === "executive" || type === null ? formatDate(day - 30) : null,
  }
}

/**
 * Builds one row for each holder in each filing that lists holders. An ownership filing that lists none gets a
 * placeholder row (§2.7, ownership). Some filings lack a URL or a reported date.
 */
export const buildOwnershipRows = (history: CompanyHistory) => {
  const { company, documents } = history
  const holdersByFiling = new Map(listFilingsWithHolders(history).map(({ document, holders }) => [document, holders]))
  return documents.filter((document) => holdersByFiling.has(document) || document.key.startsWith("owners")).flatMap(
    (document) => {
      const { accession, day, form, key, url } = document
      const owners = (holdersByFiling.get(document) ?? []).map((holder) => ownerColumns(history, holder, day))
      // One filing has both real holders and a placeholder, to test that the API hides the placeholder.
      const rows = owners.length === 0 || key === "owners:all:1" ? [...owners, placeholderColumns] : owners
      return rows.map((owner, index) => ({
        ticker: getSymbolOn(company, day),
        reported_date: key === "owners:funds:0" ? null : formatDate(day - 20),
        filed_at: formatDate(day),
        form_type: form,
        accession_number: accession,
        document_url: key.startsWith("owners:none") ? null : url,
        ...owner,
        last_updated: formatEveningTime(day),
        source: makeSource([owner === placeholderColumns ? null : url], `reportingOwner[${index + 1}]`),
      }))
    },
  )
}
