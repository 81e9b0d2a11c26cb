/** §2.5. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, Reads, tagged } from "../../rules/EndpointAnnotations.ts"
import { date, flag, jsonOf, money, orNull, ratio, text, ticker, whole } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { consistent } from "../../rules/ParameterCombinations.ts"
import { bounds, flags, texts } from "../../rules/Filters.ts"
import { Envelope, Paging } from "../../rules/Paging.ts"
import { Tickers } from "../../rules/Tickers.ts"
import { NewYorkWallClock } from "../../rows/Timestamps.ts"

export class FloatOutstanding extends Model.Class<FloatOutstanding>("FloatOutstanding")({
  ticker: ticker(),
  company: orNull(text("Name of the company.")),
  float: orNull(whole("Shares not held by insiders and affiliates.")),
  outstanding: orNull(whole("Shares outstanding.")),
  tradable_float: orNull(whole("Shares of the float that may be traded.")),
  market_cap: orNull(money("Market capitalisation, USD.")),
  insider_percent: orNull(ratio("Held by insiders, a fraction: 0.15 is 15 %. null: not known.")),
  affiliate_percent: orNull(ratio("Held by affiliates, a fraction: 0.15 is 15 %. null: not known.")),
  institutions_percent: orNull(ratio("Held by institutions, a fraction: 0.15 is 15 %. null: not known.")),
  is_adr: flag("Depositary receipts are what is listed."),
  ads_ratio: orNull(ratio("Ordinary shares that one depositary share stands for.")),
  country: orNull(text("Country of the company.")),
  sector: orNull(text("Sector of the company.")),
  industry: orNull(text("Industry of the company.")),
  exchange: orNull(text("Where the ticker is listed.")),
  reported_date: orNull(date("The day that the figures are for.")),
  filed_at: orNull(date("The day of the filing that they come from.")),
  ownership_source_url: orNull(text("The filing that the ownership figures come from.")),
  document_url: orNull(text("The filing that the share counts come from.")),
  last_updated: NewYorkWallClock,
}) {}

export const Query = Schema.Struct({
  ticker: Schema.optionalKey(Tickers),
  ...texts("country", "sector", "industry", "exchange"),
  ...flags("is_adr"),
  ...bounds("float", "outstanding", "tradable_float", "market_cap"),
  ...Paging,
}).check(consistent)

export class FloatOutstandings extends HttpApiGroup.make("floatOutstanding").add(
  HttpApiEndpoint.get("list", "/float-outstanding", {
    query: Query,
    success: Envelope(jsonOf(FloatOutstanding)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(Reads, ["float_outstanding"]).annotateMerge(described(
    "Float and shares outstanding",
    "The newest float, shares outstanding and ownership figures of each ticker. A message says when ownership " +
      "figures of the page are missing; a reported 0 is not missing.",
  )),
).annotateMerge(
  tagged("Float and shares outstanding", "The latest float, shares outstanding and ownership percentages."),
) {}
