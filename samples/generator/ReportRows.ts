/** Rows of research_reports: a page about each company that ran. */
import { dateOf, dayAt, hour, instant } from "./Calendar.ts"
import { symbolOn } from "./Company.ts"
import { above, maybe, money, price } from "./Decimals.ts"
import { knownOn } from "./Floats.ts"
import { capOf, type History } from "./Market.ts"
import { type Session, volumeOf } from "./Sessions.ts"
import { topics } from "./Topics.ts"

const ran = ({ regular: { high, reference } }: Session) => high * 100 >= reference * 135

const reason = ({ gap: { topic } }: Session) =>
  topic === null ? "no news was found" : `it ${topics[topic].title.replace("it ", "")}`

const textOf = (name: string, symbol: string, date: string, session: Session) => {
  const { close, high, open, reference } = session.regular
  return `# ${symbol} on ${date}

**${name}** opened at $${price(open)} after a close of $${price(reference)}; ${reason(session)}.

| High | Close | Shares traded |
|---|---|---|
| $${price(high)} | $${price(close)} | ${volumeOf(session).toLocaleString("en-US")} |

_Everything in this report is made up._`
}

export const researchReports = (history: History) => {
  const { company, floats, prices } = history
  return prices.sessions.filter(ran).map((session, place) => {
    const day = dayAt(session.session)
    const { close, high, reference } = session.regular
    const symbol = symbolOn(company, day)
    const known = knownOn(floats, day)
    const full = session.gap.topic !== null
    const gain = above(high, reference)
    return {
      report_id: `${company.cik}-${place + 1}`,
      ticker: symbol,
      gain_percentage: gain,
      report_text: textOf(company.name, symbol, dateOf(day), session),
      tldr_text: `${symbol} +${gain}%: ${reason(session)}. Made up.`,
      volume: full ? volumeOf(session) : null,
      price: full ? price(close) : null,
      market_cap: full ? maybe(capOf(close, prices.outstanding[session.session]), money) : null,
      tradable_float: known?.tradable ?? null,
      outstanding: known?.outstanding ?? null,
      country: full ? company.country : null,
      industry: company.industry,
      post_url: full ? `https://example.com/reports/${company.cik}-${place + 1}` : null,
      created_at: instant(day, hour(9, 41) + place),
      last_updated: instant(day, hour(21, 5)),
    }
  })
}
