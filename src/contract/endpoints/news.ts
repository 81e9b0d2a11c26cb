/** `GET /v1/news` and `/v1/news-basic`, which return the same rows with different columns (D30). */
import { Schema, Struct } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeEndpointGroup } from "../rules/EndpointAnnotations.ts"
import * as Column from "../rows/Columns.ts"
import { listErrors } from "../rules/ApiErrors.ts"
import * as Filter from "../rules/FilterParameters.ts"
import { makeListQueryWithSources } from "../rules/ListQueries.ts"
import { makeListEnvelope } from "../rules/Paging.ts"
import { TickerListParameter } from "../rules/Tickers.ts"
import { FixedOffsetTimeColumn, NewYorkTimeColumn } from "../rows/Timestamps.ts"

const fields = {
  id: Column.text("Unique id of the item."),
  ticker: Column.ticker("Symbol of the item."),
  tickers: Column.textArray("All symbols mentioned in the item."),
  form_type: Column.text("`news`, or the SEC form of a filing, such as `10-K`."),
  title: Column.nullable(Column.text("Headline.")),
  summary: Column.nullable(Column.text("Summary.")),
  body: Column.nullable(Column.text("Full text.")),
  author: Column.nullable(Column.text("Author.")),
  publisher: Column.nullable(Column.text("Publisher.")),
  tags: Column.textArray("Tags of the item."),
  accession_number: Column.nullable(Column.text("SEC accession number of the filing.")),
  document_url: Column.nullable(Column.text("URL of the item at its source.")),
  filed_at: Column.markAsRowDate(Column.date("Date on which the item was filed or published.")),
  filed_at_time: Column.nullable(NewYorkTimeColumn),
  created_at: FixedOffsetTimeColumn,
  last_updated: FixedOffsetTimeColumn,
  source: Column.sourceForLoading,
}

/** A row of `/v1/news`. */
export class NewsItem extends Model.Class<NewsItem>("NewsItem")(fields) {}

/** A row of `/v1/news-basic`. */
export class NewsBasicItem extends Model.Class<NewsBasicItem>("NewsBasicItem")(
  Struct.omit(fields, ["summary", "body", "author", "publisher", "filed_at_time"]),
) {}

const Search = Schema.String.check(
  Schema.makeFilter((text: string) => text.trim() !== "" && text.length <= 200 && !text.includes("\0"), {
    message: "must contain words to search for, 1 to 200 characters",
    toJsonSchema: () => [{ maxLength: 200, pattern: "\\S" }, true],
  }),
)

/** The parameters of `/v1/news` and `/v1/news-basic`. */
export const NewsQuery = makeListQueryWithSources({
  ticker: Schema.optionalKey(TickerListParameter),
  ...Filter.makeDateFilters("filed_at"),
  ...Filter.makeTextFilters("form_type"),
  tag: Filter.makeArrayElement("tags", "Items"),
  query: Schema.optionalKey(
    Schema.String.annotate({
      description: "Words in title and summary, in any inflection. All words must occur; put `or` between " +
        "alternatives, quotes around a phrase, and `-` before a word to exclude. Stop words (`the`) find nothing.",
      examples: [`"public offering" -warrants`],
    }).pipe(Schema.decodeTo(Search)).annotate({ filter: { operator: "matchesWords", column: "search" } }),
  ),
  hide_news: Schema.optionalKey(
    Schema.Boolean.annotate({
      description: "`true` excludes news, so only filings remain.",
      // The condition is an SQL literal rather than a parameter. This lets PostgreSQL recognize that it matches the
      // condition of the partial index on filings. If both flags are set, the condition is `false`, and PostgreSQL
      // reads no rows.
      filter: {
        operator: "literal",
        condition: ({ hide_filings, hide_news }) =>
          hide_news !== true ? undefined : hide_filings === true ? "false" : "form_type <> 'news'",
      },
    }),
  ),
  hide_filings: Schema.optionalKey(
    Schema.Boolean.annotate({
      description: "`true` excludes filings, so only news remains.",
      filter: {
        operator: "literal",
        condition: ({ hide_filings }) => hide_filings === true ? "form_type = 'news'" : undefined,
      },
    }),
  ),
})

/** The endpoints that return news and filings. */
export class NewsApiGroup extends HttpApiGroup.make("news").add(
  HttpApiEndpoint.get("list", "/news", {
    query: NewsQuery,
    success: makeListEnvelope(Column.getRowJsonSchemaWithSourceAndLineage(NewsItem)),
    error: listErrors,
  }).annotateMerge(describeEndpoint(
    "News",
    "News and SEC filings such as 10-K, latest first. `ticker` finds items about a symbol, not those that only " +
      "mention it in `tickers`. `date`, `date_from` and `date_to` filter by `filed_at`.",
    { tables: ["news"], hasCompanyRows: true, thirdPartyText: ["title", "summary", "body", "author", "publisher"] },
  )),
  HttpApiEndpoint.get("listBasic", "/news-basic", {
    query: NewsQuery,
    success: makeListEnvelope(Column.getRowJsonSchemaWithSourceAndLineage(NewsBasicItem)),
    error: listErrors,
  }).annotateMerge(describeEndpoint(
    "News basic",
    "The items of `/v1/news` without summary, body, author, publisher and filed_at_time, with the same filters.",
    { tables: ["news"], hasCompanyRows: true, thirdPartyText: ["title"] },
  )),
).annotateMerge(describeEndpointGroup("News", "News and SEC filings.")) {}
