/** Resources: news and news-basic, which are the same rows (D30); §2.1. */
import { Schema, Struct } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeGroup, ReadsTables } from "../../rules/EndpointAnnotations.ts"
import {
  dateColumn,
  getRowJsonSchema,
  nullableColumn,
  textArrayColumn,
  textColumn,
  tickerColumn,
} from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import { arrayElementFilter, caseInsensitiveTextFilters, dateFilters } from "../../rules/Filters.ts"
import { customFilter } from "../../rules/FilterOperators.ts"
import { ListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { TickerList } from "../../rules/Tickers.ts"
import { EasternWallClock, NewYorkWallClock } from "../../rows/Timestamps.ts"

const fields = {
  id: textColumn("The item's key."),
  ticker: tickerColumn("The symbol that the item is about."),
  tickers: textArrayColumn("All symbols that the item mentions."),
  form_type: textColumn("`news`, or the SEC form of a filing."),
  title: nullableColumn(textColumn("The headline.")),
  summary: nullableColumn(textColumn("A summary.")),
  body: nullableColumn(textColumn("The whole text.")),
  author: nullableColumn(textColumn("Who wrote it.")),
  publisher: nullableColumn(textColumn("Who published it.")),
  tags: textArrayColumn("Tags of the item."),
  accession_number: nullableColumn(textColumn("The SEC's number of the filing.")),
  document_url: nullableColumn(textColumn("The item at its source.")),
  filed_at: dateColumn("The day it was filed or published."),
  filed_at_time: nullableColumn(NewYorkWallClock),
  created_at: EasternWallClock,
  last_updated: EasternWallClock,
}

export class NewsItem extends Model.Class<NewsItem>("NewsItem")(fields) {}

export class NewsBasicItem extends Model.Class<NewsBasicItem>("NewsBasicItem")(
  Struct.omit(fields, ["summary", "body", "author", "publisher", "filed_at_time"]),
) {}

const Search = Schema.String.check(
  Schema.makeFilter((text: string) => text.trim() !== "" && text.length <= 200 && !text.includes("\0"), {
    message: "must be words to search for, 1 to 200 characters",
  }),
)

export const NewsQuery = Schema.Struct({
  ticker: Schema.optionalKey(TickerList),
  ...dateFilters("filed_at"),
  ...caseInsensitiveTextFilters("form_type"),
  tag: arrayElementFilter("tags", "The item has this tag, in any case."),
  query: Schema.optionalKey(
    Schema.String.annotate({
      description: "Words of title and summary, in any form of the word: all of them; `or` between alternatives, " +
        "quotes around a phrase, `-` before what must not occur. Stop words alone (`the`) find nothing.",
      examples: [`"public offering" -warrants`],
    }).pipe(Schema.decodeTo(Search)).annotate({ filter: { operator: "matchesWords", column: "search" } }),
  ),
  hide_news: customFilter(
    Schema.optionalKey(Schema.Boolean.annotate({ description: "`true` leaves out news: filings remain." })),
  ),
  hide_filings: customFilter(
    Schema.optionalKey(Schema.Boolean.annotate({ description: "`true` leaves out filings: news remain." })),
  ),
  ...PagingParameters,
}).check(checkParameterCombinations)

export class NewsApiGroup extends HttpApiGroup.make("news").add(
  HttpApiEndpoint.get("list", "/news", {
    query: NewsQuery,
    success: ListEnvelope(getRowJsonSchema(NewsItem)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(ReadsTables, ["news"]).annotateMerge(describeEndpoint(
    "News",
    "News and filings, latest first. `ticker` finds items about a symbol, not those that only mention it in " +
      "`tickers`; `date`, `date_from` and `date_to` are about `filed_at`.",
  )),
  HttpApiEndpoint.get("listBasic", "/news-basic", {
    query: NewsQuery,
    success: ListEnvelope(getRowJsonSchema(NewsBasicItem)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(ReadsTables, ["news"]).annotateMerge(describeEndpoint(
    "News basic",
    "The items of `/v1/news` without summary, body, author, publisher and filed_at_time, by the same filters.",
  )),
).annotateMerge(describeGroup("News", "News and SEC filings.")) {}
