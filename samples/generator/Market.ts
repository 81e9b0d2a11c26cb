/**
 * Generates a market of fictional companies whose tables are consistent with one another. The same seed always
 * generates the same market. Only the trading days are real. The market always ends on 2026-11-13.
 */
import { type FictionalCompany, makeCompany, namedCompanies } from "./Companies.ts"
import type { CompanyHistory } from "./CompanyHistory.ts"
import { makeShelfRegistration, simulateCapitalRaises } from "./Deals.ts"
import { makeAnnouncements, makeMandatoryFilings, numberDocuments } from "./Documents.ts"
import { makeFloatReports } from "./Floats.ts"
import { makeListingNotices } from "./ListingNotices.ts"
import { simulatePrices } from "./PriceSimulation.ts"

/** Options that determine which market is generated. */
export interface MarketOptions {
  /** The size of the market: the number of companies is 51 times the scale. */
  readonly scale: number
  /** The random seed. With a different seed, the companies have the same symbols but different histories. */
  readonly seed: number
}

/**
 * Simulates the history of a company step by step. Each step depends on the ones before: capital raises on prices, the
 * shelf registration on capital raises, listing notices on prices, documents on all of these, and share counts on the
 * documents that disclose them.
 */
const simulateCompany = (company: FictionalCompany): CompanyHistory => {
  const prices = simulatePrices(company.randomFor("prices"), company.scenario)
  const deals = simulateCapitalRaises(company, prices)
  const shelf = makeShelfRegistration(company, deals)
  const notices = makeListingNotices(prices, company.scenario)
  const drafts = [...makeMandatoryFilings(company, deals, shelf), ...makeAnnouncements(company, prices, deals, notices)]
  const documents = numberDocuments(company, drafts)
  return { company, prices, deals, shelf, notices, documents, floats: makeFloatReports(company, prices, documents) }
}

/** Yields the simulated history of one company at a time, so that memory use does not depend on the scale. */
export function* generateMarket({ scale, seed }: MarketOptions): Generator<CompanyHistory> {
  for (let number = 0; number < namedCompanies.length * scale; number++) {
    yield simulateCompany(makeCompany(seed, number))
  }
}
