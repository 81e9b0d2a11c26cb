/** Rows of research_reports: one report per gap day with a gain of at least 35 %. */
import { dayOfSession, formatDate, formatUtcInstant, timeOfDay } from "./Calendar.ts"
import { symbolOn } from "./Companies.ts"
import { formatCents, formatPercentChange, formatPrice, mapNullable } from "./Decimals.ts"
import { latestFloatReportOn } from "./Floats.ts"
import { type GapDay, totalVolume } from "./GapDays.ts"
import type { CompanyHistory } from "./Market.ts"
import { newsTopics } from "./NewsTopics.ts"
import { marketCapOf } from "./PriceStatistics.ts"

const hasReport = ({ regular: { high, reference } }: GapDay) => high * 100 >= reference * 135

const describeReason = ({ gap: { topic } }: GapDay) =>
  topic === null ? "no news was found" : `it ${newsTopics[topic].title.replace("it ", "")}`

const makeReportText = (name: string, symbol: string, date: string, gapDay: GapDay) => {
  const { close, high, open, reference } = gapDay.regular
  return `# ${symbol} on ${date}

**${name}** opened at $${formatPrice(open)} after a close of $${formatPrice(reference)}; ${describeReason(gapDay)}.

| High | Close | Shares traded |
|---|---|---|
| $${formatPrice(high)} | $${formatPrice(close)} | ${totalVolume(gapDay).toLocaleString("en-US")} |

_Everything in this report is made up._`
}

export const buildResearchReportsRows = (history: CompanyHistory) => {
  const { company, floats, prices } = history
  return prices.gapDays.filter(hasReport).map((gapDay, index) => {
    const day = dayOfSession(gapDay.session)
    const { close, high, reference } = gapDay.regular
    const symbol = symbolOn(company, day)
    const floatReport = latestFloatReportOn(floats, day)
    const hasNews = gapDay.gap.topic !== null
    const gain = formatPercentChange(high, reference)
    return {
      report_id: `${company.cik}-${index + 1}`,
      ticker: symbol,
      gain_percentage: gain,
      report_text: makeReportText(company.name, symbol, formatDate(day), gapDay),
      tldr_text: `${symbol} +${gain}%: ${describeReason(gapDay)}. Made up.`,
      volume: hasNews ? totalVolume(gapDay) : null,
      price: hasNews ? formatPrice(close) : null,
      market_cap: hasNews
        ? mapNullable(marketCapOf(close, prices.sharesOutstanding[gapDay.session]), formatCents)
        : null,
      tradable_float: floatReport?.tradable ?? null,
      outstanding: floatReport?.outstanding ?? null,
      country: hasNews ? company.country : null,
      industry: company.industry,
      post_url: hasNews ? `https://example.com/reports/${company.cik}-${index + 1}` : null,
      created_at: formatUtcInstant(day, timeOfDay(9, 41) + index),
      last_updated: formatUtcInstant(day, timeOfDay(21, 5)),
    }
  })
}
