/** Resources: news and news-basic, which are the same rows (D30); §2.1. */
import { Schema, Struct } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, Reads, tagged } from "../../rules/EndpointAnnotations.ts"
import { date, jsonOf, orNull, text, ticker, words } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { consistent } from "../../rules/ParameterCombinations.ts"
import { onDate, texts, word } from "../../rules/Filters.ts"
import { custom } from "../../rules/FilterOperators.ts"
import { Envelope, Paging } from "../../rules/Paging.ts"
import { Tickers } from "../../rules/Tickers.ts"
import { EasternWallClock, NewYorkWallClock } from "../../rows/Timestamps.ts"

const fields = {
  id: text("The item's key."),
  ticker: ticker("The symbol that the item is about."),
  tickers: words("All symbols that the item mentions."),
  form_type: text("`news`, or the SEC form of a filing."),
  title: orNull(text("The headline.")),
  summary: orNull(text("A summary.")),
  body: orNull(text("The whole text.")),
  author: orNull(text("Who wrote it.")),
  publisher: orNull(text("Who published it.")),
  tags: words("Tags of the item."),
  accession_number: orNull(text("The SEC's number of the filing.")),
  document_url: orNull(text("The item at its source.")),
  filed_at: date("The day it was filed or published."),
  filed_at_time: orNull(NewYorkWallClock),
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

export const Query = Schema.Struct({
  ticker: Schema.optionalKey(Tickers),
  ...onDate("filed_at"),
  ...texts("form_type"),
  tag: word("tags", "The item has this tag, in any case."),
  query: Schema.optionalKey(
    Schema.String.annotate({
      description: "Words of title and summary, in any form of the word: all of them; `or` between alternatives, " +
        "quotes around a phrase, `-` before what must not occur. Stop words alone (`the`) find nothing.",
      examples: [`"public offering" -warrants`],
    }).pipe(Schema.decodeTo(Search)).annotate({ filter: { operator: "matchesWords", column: "search" } }),
  ),
  hide_news: custom(
    Schema.optionalKey(Schema.Boolean.annotate({ description: "`true` leaves out news: filings remain." })),
  ),
  hide_filings: custom(
    Schema.optionalKey(Schema.Boolean.annotate({ description: "`true` leaves out filings: news remain." })),
  ),
  ...Paging,
}).check(consistent)

export class News extends HttpApiGroup.make("news").add(
  HttpApiEndpoint.get("list", "/news", {
    query: Query,
    success: Envelope(jsonOf(NewsItem)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(Reads, ["news"]).annotateMerge(described(
    "News",
    "News and filings, latest first. `ticker` finds items about a symbol, not those that only mention it in " +
      "`tickers`; `date`, `date_from` and `date_to` are about `filed_at`.",
  )),
  HttpApiEndpoint.get("listBasic", "/news-basic", {
    query: Query,
    success: Envelope(jsonOf(NewsBasicItem)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(Reads, ["news"]).annotateMerge(described(
    "News basic",
    "The items of `/v1/news` without summary, body, author, publisher and filed_at_time, by the same filters.",
  )),
).annotateMerge(tagged("News", "News and SEC filings.")) {}
