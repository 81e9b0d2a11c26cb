/** Rows of float_outstanding and historical_float_pro: the newest of the one is the other. */
import { dateOf, today } from "./Calendar.ts"
import { type Company, evening, symbolOn } from "./Company.ts"
import { fraction, maybe, money, ratio } from "./Decimals.ts"
import { newestOf } from "./Floats.ts"
import { sharesOf } from "./Holders.ts"
import { capOf, closeOn, type History } from "./Market.ts"
import { tableOf } from "./OwnershipRows.ts"

export const fractionsOf = (company: Company) => {
  const { affiliates, insiders, institutions } = sharesOf(company)
  return {
    insider_percent: maybe(insiders, fraction),
    affiliate_percent: maybe(affiliates, fraction),
    institutions_percent: maybe(institutions, fraction),
  }
}

/** ADS in ten-thousandths, so that half a share is exact. */
export const receiptOf = ({ plot: { adsRatio } }: Company) => ({
  is_adr: adsRatio !== null,
  ads_ratio: maybe(adsRatio, (shares) => ratio(shares * 2, 2)),
})

/** How the company describes itself, as several tables repeat it. */
export const factsOf = (company: Company) => {
  const { country, industry, plot: { delisted, exchange, first }, sector } = company
  return {
    company: first === null && exchange === null ? null : company.name,
    country: exchange === null ? null : country,
    sector,
    industry,
    exchange: delisted === undefined ? exchange : "OTC",
  }
}

/** The filing that told of the holders last. */
export const ownershipSource = (history: History) => tableOf(history).at(-1)?.document.url ?? null

export const historicalFloatPro = (history: History) => {
  const { company, floats } = history
  return floats.map(({ affiliates, document, float, insiders, outstanding, reported, restricted }, place) => ({
    ticker: symbolOn(company, document.day),
    filed_at: dateOf(document.day),
    form_type: place === 2 && company.number % 9 === 0 ? null : document.form,
    document_url: place === 3 && company.number % 9 === 0 ? null : document.url,
    reported_date: maybe(reported, dateOf),
    outstanding_shares: outstanding,
    float,
    restricted_shares: restricted,
    affiliate_shares: affiliates,
    insider_shares: insiders,
    ...fractionsOf(company),
    cik: company.plot.exchange === null ? null : company.cik,
    ...receiptOf(company),
    details: document.title,
    last_updated: evening(document.day),
  }))
}

export const floatOutstanding = (history: History) => {
  const { company, floats } = history
  const newest = newestOf(floats)
  return [{
    ticker: symbolOn(company, today),
    ...factsOf(company),
    float: newest?.float ?? null,
    outstanding: newest?.outstanding ?? null,
    tradable_float: newest?.tradable ?? null,
    market_cap: maybe(capOf(closeOn(history), newest?.outstanding), money),
    ...fractionsOf(company),
    ...receiptOf(company),
    reported_date: maybe(newest?.reported ?? null, dateOf),
    filed_at: maybe(newest?.document.day ?? null, dateOf),
    ownership_source_url: ownershipSource(history),
    document_url: newest?.document.url ?? null,
    last_updated: evening(today),
  }]
}
