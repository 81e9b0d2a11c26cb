/** `GET /v1/historical-tickers`, deprecated in favor of `/v1/ticker-changes`: §2.3, §4.2, D23 (historical tickers). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { AsOfParameter } from "../rules/AsOfParameter.ts"
import { describeEndpoint, describeEndpointGroup } from "../rules/EndpointAnnotations.ts"
import * as Column from "../rows/Columns.ts"
import { AsOfTooEarly, DatabasePoolTimeout, DataRefreshing, NotFound } from "../rules/ApiErrors.ts"
import { makeDeprecationAnnotations } from "../rules/Deprecation.ts"
import { LongTickerParameter } from "../rules/Tickers.ts"
import { NonNegativeInt } from "../rules/NonNegativeInt.ts"

/** A row of the `historical_tickers` table: a former symbol for which `ticker_changes` has no record of the change. */
export class HistoricalTickerRow extends Model.Class<HistoricalTickerRow>("HistoricalTickerRow")({
  ticker: Column.ticker("The requested symbol."),
  former_ticker: Column.ticker("A former symbol.", "ZYXB"),
  date: Column.nullable(Column.date("Date on which the symbol was given up.")),
}) {}

/** A former symbol in the response. */
export const FormerTicker = Schema.Struct({
  ticker: Schema.String.annotate({ description: "A former symbol." }),
  date: Schema.NullOr(Schema.String).annotate({
    description: "Date on which the symbol was given up, YYYY-MM-DD; null if unknown.",
  }),
}).annotate({ identifier: "HistoricalTicker" })

/** The response of `/v1/historical-tickers`. */
export const HistoricalTickersResponse = Schema.Struct({
  count: NonNegativeInt.annotate({ description: "The length of `historical_tickers`." }),
  historical_tickers: Schema.Array(FormerTicker).annotate({
    description: "Ordered by date, undated entries last, then by symbol.",
  }),
})

/** The parameters of `/v1/historical-tickers`. */
export const HistoricalTickersQuery = Schema.Struct({ ticker: LongTickerParameter, ...AsOfParameter })

/** The `/v1/historical-tickers` endpoint. */
export class HistoricalTickersApiGroup extends HttpApiGroup.make("historicalTickers").add(
  HttpApiEndpoint.get("list", "/historical-tickers", {
    query: HistoricalTickersQuery,
    success: HistoricalTickersResponse,
    error: [AsOfTooEarly, NotFound, DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(describeEndpoint(
    "Historical Tickers",
    "The former symbols of a ticker, with the date on which each was given up.",
    { tables: ["ticker_changes", "historical_tickers"] },
  )).annotateMerge(makeDeprecationAnnotations({
    announced: "2026-11-01",
    successor: "/v1/ticker-changes",
    note: "It returns each change with both symbols, and 409 if the changes are not one unambiguous chain.",
  })),
).annotateMerge(
  describeEndpointGroup("Historical Tickers", "The former symbols of a ticker. Deprecated: use ticker changes."),
) {}
