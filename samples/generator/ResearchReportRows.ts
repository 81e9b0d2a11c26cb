/** Builds the rows of research_reports. */
import { formatDate, formatNewYorkTimeAsUtc, getSessionDay, toSecondsOfDay } from "./Calendar.ts"
import { getSymbolOn } from "./Companies.ts"
import type { CompanyHistory } from "./CompanyHistory.ts"
import { formatCentsAsDollars, formatPercentChange, formatTicksAsDollars, mapNullable } from "./Decimals.ts"
import { findFloatReportOn } from "./Floats.ts"
import { type GapDayTrading, sumGapDayVolume } from "./GapDays.ts"
import { newsTopics } from "./NewsTopics.ts"
import { computeMarketCap } from "./PriceStatistics.ts"

/** Returns whether the day's high was at least 35% above the previous close. */
const hasReport = ({ regular: { high, reference } }: GapDayTrading) => high * 100 >= reference * 135

const describeReason = ({ gap: { topic } }: GapDayTrading) =>
  topic === null ? "no news was found" : `it ${newsTopics[topic].title.replace("it ", "")}`

/** Returns the text of the report on a gap day, in Markdown. */
const makeReportText = (name: string, symbol: string, date: string, gapDay: GapDayTrading) => {
  const { close, high, open, reference } = gapDay.regular
  return `# ${symbol} on ${date}

**${name}** opened at $${formatTicksAsDollars(open)} after a close of $${formatTicksAsDollars(reference)}; ${
    describeReason(gapDay)
  }.

| High | Close | Shares traded |
|---|---|---|
| $${formatTicksAsDollars(high)} | $${formatTicksAsDollars(close)} | ${
    sumGapDayVolume(gapDay).toLocaleString("en-US")
  } |

_Everything in this report is made up._`
}

/**
 * Builds the rows of research_reports: one for each day with a price gap and a gain of at least 35%. On days without
 * news, some values are missing.
 */
export const buildResearchReportsRows = (history: CompanyHistory) => {
  const { company, floats, prices } = history
  return prices.gapDays.filter(hasReport).map((gapDay, index) => {
    const day = getSessionDay(gapDay.session)
    const { close, high, reference } = gapDay.regular
    const symbol = getSymbolOn(company, day)
    const floatReport = findFloatReportOn(floats, day)
    const hasNews = gapDay.gap.topic !== null
    const gain = formatPercentChange(high, reference)
    return {
      report_id: `${company.cik}-${index + 1}`,
      ticker: symbol,
      gain_percentage: gain,
      report_text: makeReportText(company.name, symbol, formatDate(day), gapDay),
      tldr_text: `${symbol} +${gain}%: ${describeReason(gapDay)}. Made up.`,
      volume: hasNews ? sumGapDayVolume(gapDay) : null,
      price: hasNews ? formatTicksAsDollars(close) : null,
      market_cap: hasNews
        ? mapNullable(computeMarketCap(close, prices.sharesOutstanding[gapDay.session]), formatCentsAsDollars)
        : null,
      tradable_float: floatReport?.tradable ?? null,
      outstanding: floatReport?.outstanding ?? null,
      country: hasNews ? company.country : null,
      industry: company.industry,
      post_url: hasNews ? `https://example.com/reports/${company.cik}-${index + 1}` : null,
      created_at: formatNewYorkTimeAsUtc(day, toSecondsOfDay(9, 41) + index),
      last_updated: formatNewYorkTimeAsUtc(day, toSecondsOfDay(21, 5)),
    }
  })
}
