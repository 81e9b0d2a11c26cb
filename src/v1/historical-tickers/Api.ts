/** §2.3, §4.2, D23. Deprecated: `/v1/ticker-changes` supersedes it. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeGroup, ReadsTables } from "../../rules/EndpointAnnotations.ts"
import { dateColumn, nullableColumn, tickerColumn } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing, NotFound } from "../../rules/Errors.ts"
import { deprecationAnnotations } from "../../rules/Lifecycle.ts"
import { LongTicker } from "../../rules/Tickers.ts"

/** A row of the table: a former name known without an event. */
export class HistoricalTickerRow extends Model.Class<HistoricalTickerRow>("HistoricalTickerRow")({
  ticker: tickerColumn("The symbol asked for."),
  former_ticker: tickerColumn("A symbol it had before.", "ZYXB"),
  date: nullableColumn(dateColumn("The day it was given up.")),
}) {}

export const FormerTicker = Schema.Struct({
  ticker: Schema.String.annotate({ description: "A former symbol." }),
  date: Schema.NullOr(Schema.String).annotate({
    description: "The day it was given up, YYYY-MM-DD; null when unknown.",
  }),
}).annotate({ identifier: "HistoricalTicker" })

export const HistoricalTickersResponse = Schema.Struct({
  count: Schema.Int.annotate({ description: "The length of `historical_tickers`." }),
  historical_tickers: Schema.Array(FormerTicker).annotate({
    description: "By date, then those without a date; then by symbol.",
  }),
})

export class HistoricalTickersApiGroup extends HttpApiGroup.make("historicalTickers").add(
  HttpApiEndpoint.get("list", "/historical-tickers", {
    query: Schema.Struct({ ticker: LongTicker }),
    success: HistoricalTickersResponse,
    error: [NotFound, DataRefreshing, DatabasePoolTimeout],
  })
    .annotate(ReadsTables, ["ticker_changes", "historical_tickers"])
    .annotateMerge(
      describeEndpoint("Historical Tickers", "The former symbols of a ticker and the day each was given up."),
    )
    .annotateMerge(deprecationAnnotations({
      announced: "2026-11-01",
      successor: "/v1/ticker-changes",
      note: "Its history shows each change with both symbols, and a record that is not one chain is refused with 409.",
    })),
).annotateMerge(
  describeGroup("Historical Tickers", "The former symbols of a ticker. Deprecated: use ticker changes."),
) {}
