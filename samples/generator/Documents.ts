/** Everything that a company files and says, in order; other tables refer to it by key. */
import { dateOf, type Day } from "./Calendar.ts"
import { address, type Company } from "./Company.ts"

export interface Draft {
  /** What other tables find it by: `raise:2`, `split:effective`. */
  readonly key: string
  readonly day: Day
  /** Seconds from midnight; null: nobody noted the time. */
  readonly time: number | null
  /** An SEC form, or `news`. */
  readonly form: string
  readonly title: string | null
  readonly summary?: string
  readonly tags?: ReadonlyArray<string>
}

export interface Document extends Draft {
  readonly id: string
  /** Null: news, which have none. */
  readonly accession: string | null
  readonly url: string
}

export const isNews = ({ form }: Draft) => form === "news"

const when = ({ day, time }: Draft) => day * 86_400 + (time ?? 86_399)

/** In order of time, numbered as the SEC numbers filings: filer, year, count. */
export const documentsOf = (company: Company, drafts: ReadonlyArray<Draft>): ReadonlyArray<Document> => {
  const counts = { filings: 0, news: 0 }
  return drafts.toSorted((one, other) => when(one) - when(other)).map((draft) => {
    const count = isNews(draft) ? ++counts.news : ++counts.filings
    const year = dateOf(draft.day).slice(2, 4)
    const id = `${company.cik}-${year}-${isNews(draft) ? "n" : ""}${String(count).padStart(isNews(draft) ? 5 : 6, "0")}`
    return {
      ...draft,
      id,
      accession: isNews(draft) ? null : id,
      url: isNews(draft) ? `https://example.com/news/${id}` : address(company, `${id}.htm`),
    }
  })
}
