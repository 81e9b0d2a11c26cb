/** Builds the rows of news: a company's filings and press releases. */
import { formatDate, formatLocalTime, toSecondsOfDay } from "./Calendar.ts"
import { getSymbolOn, makeCompany, namedCompanies } from "./Companies.ts"
import type { CompanyDocument, CompanyHistory } from "./CompanyHistory.ts"
import { isNews, makeSource } from "./Documents.ts"
import { personNames, publisherNames } from "./Names.ts"

/**
 * Returns the symbols that a document lists. A registration lists none. A partnership lists the company's symbol and
 * the partner's. Any other document lists the company's symbol. The partner is the next company within the same copy of
 * the small market.
 */
const tickersOf = ({ company }: CompanyHistory, { day, tags = [] }: CompanyDocument) => {
  const own = getSymbolOn(company, day)
  if (!tags.includes("partnership")) return tags.includes("registration") ? [] : [own]
  const { number, seed } = company
  return [
    own,
    getSymbolOn(
      makeCompany(seed, number - (number % namedCompanies.length) + ((number + 1) % namedCompanies.length)),
      day,
    ),
  ]
}

const bodyOf = ({ company }: CompanyHistory, { summary, title }: CompanyDocument) =>
  `${title}.\n\n${summary ?? ""} This text, and ${company.name} itself, are made up.`

/** Builds one row for each document. */
export const buildNewsRows = (history: CompanyHistory) => {
  const random = history.company.randomFor("news")
  return history.documents.map((document) => {
    const { accession, day, form, id, summary, tags, time, title, url } = document
    const isPressRelease = isNews(document)
    const createdAt = formatLocalTime(day, (time ?? toSecondsOfDay(17)) + random.integer(1, 59))
    return {
      id,
      ticker: getSymbolOn(history.company, day),
      tickers: tickersOf(history, document),
      form_type: form,
      title,
      summary: summary ?? null,
      body: isPressRelease && random.chance(0.9) ? bodyOf(history, document) : null,
      author: isPressRelease && random.chance(0.8) ? random.pick(personNames) : null,
      publisher: isPressRelease ? random.pick(publisherNames) : null,
      tags: tags ?? [],
      accession_number: accession,
      document_url: random.chance(0.98) ? url : null,
      filed_at: formatDate(day),
      filed_at_time: time === null ? null : formatLocalTime(day, time),
      created_at: createdAt,
      last_updated: random.chance(0.9) ? createdAt : formatLocalTime(day, toSecondsOfDay(20, 30)),
      source: makeSource([isPressRelease ? null : url], "title"),
    }
  })
}
