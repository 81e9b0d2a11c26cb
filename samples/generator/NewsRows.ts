/** Builds the rows of news: a company's filings and press releases. */
import { formatDate, formatLocalTime, toSecondsOfDay } from "./Calendar.ts"
import { getSymbolOn, makeCompany, namedCompanies } from "./Companies.ts"
import type { CompanyDocument, CompanyHistory } from "./CompanyHistory.ts"
import { isNews, makeSource } from "./Documents.ts"
import { personNames, publisherNames } from "./Names.ts"

/**
 * Returns the symbols that a document mentions, for the column `tickers`: none for a registration, that of the company
 * and of its partner for a partnership, and that of the company for any other document. The partner is the next company
 * within the same 51 companies; the partner of the last one is the first one.
 */
const tickersOf = ({ company }: CompanyHistory, { day, tags = [] }: CompanyDocument) => {
  const symbol = getSymbolOn(company, day)
  if (!tags.includes("partnership")) return tags.includes("registration") ? [] : [symbol]
  const { number, seed } = company
  const firstNumber = number - (number % namedCompanies.length)
  const partner = makeCompany(seed, firstNumber + ((number + 1) % namedCompanies.length))
  return [symbol, getSymbolOn(partner, day)]
}

const bodyOf = ({ company }: CompanyHistory, { summary, title }: CompanyDocument) =>
  `${title}.\n\n${summary ?? ""} This text, and ${company.name} itself, are made up.`

/**
 * Builds one row of the table `news` for each document of the company, which is either an SEC filing or a press
 * release. At random, values such as the body, the author or the URL are missing. `created_at` is up to a minute after
 * the document; if the time of a filing is unknown, it counts as 17:00.
 */
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
