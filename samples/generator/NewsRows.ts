/** Rows of news: what companies filed and said. */
import { clock, dateOf, hour } from "./Calendar.ts"
import { companyOf, symbolOn } from "./Company.ts"
import { cast } from "./Cast.ts"
import { type Document, isNews } from "./Documents.ts"
import type { History } from "./Market.ts"
import { people, publishers } from "./Names.ts"

/** A partnership is news of the partner too: the next company of the market. */
const tickersOf = ({ company }: History, { day, tags = [] }: Document) => {
  const own = symbolOn(company, day)
  if (!tags.includes("partnership")) return tags.includes("registration") ? [] : [own]
  const { number, seed } = company
  return [own, symbolOn(companyOf(seed, number - (number % cast.length) + ((number + 1) % cast.length)), day)]
}

const bodyOf = ({ company }: History, { summary, title }: Document) =>
  `${title}.\n\n${summary ?? ""} This text, and ${company.name} itself, are made up.`

export const news = (history: History) => {
  const of = history.company.dice("news")
  return history.documents.map((document) => {
    const { accession, day, form, id, summary, tags, time, title, url } = document
    const said = isNews(document)
    const seen = clock(day, (time ?? hour(17)) + of.whole(1, 59))
    return {
      id,
      ticker: symbolOn(history.company, day),
      tickers: tickersOf(history, document),
      form_type: form,
      title,
      summary: summary ?? null,
      body: said && of.chance(0.9) ? bodyOf(history, document) : null,
      author: said && of.chance(0.8) ? of.pick(people) : null,
      publisher: said ? of.pick(publishers) : null,
      tags: tags ?? [],
      accession_number: accession,
      document_url: of.chance(0.98) ? url : null,
      filed_at: dateOf(day),
      filed_at_time: time === null ? null : clock(day, time),
      created_at: seen,
      last_updated: of.chance(0.9) ? seen : clock(day, hour(20, 30)),
    }
  })
}
