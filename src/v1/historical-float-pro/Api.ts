/** §2.5, §2.6. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, Reads, tagged } from "../../rules/EndpointAnnotations.ts"
import { date, flag, jsonOf, money, orNull, price, ratio, text, ticker, whole } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { consistent } from "../../rules/ParameterCombinations.ts"
import { bounds, flags, pastDays } from "../../rules/Filters.ts"
import { Envelope, Paging } from "../../rules/Paging.ts"
import { Tickers } from "../../rules/Tickers.ts"
import { NewYorkWallClock } from "../../rows/Timestamps.ts"

/** §2.6: the table `daily_prices`, which no endpoint shows. */
export class DailyPrice extends Model.Class<DailyPrice>("DailyPrice")({
  ticker: ticker(),
  date: date("A trading day."),
  close: price("Closing price of that day, USD, not adjusted for later splits."),
}) {}

const tradableFloat = orNull(whole("float less restricted_shares; null when either is.")).schemas
const marketCap = orNull(money(
  "Unadjusted close on reported_date times outstanding_shares, USD. On a day without trading the last close before " +
    "it is used; null on a trading day without a close of the symbol, and when a factor is missing.",
)).schemas

export class HistoricalFloat extends Model.Class<HistoricalFloat>("HistoricalFloat")({
  ticker: ticker(),
  filed_at: date("The day of the filing."),
  form_type: orNull(text("SEC form of the filing.")),
  document_url: orNull(text("Address of the filing.")),
  reported_date: orNull(date("The day that the counts are for.")),
  outstanding_shares: orNull(whole("Shares outstanding.")),
  float: orNull(whole("Shares not held by insiders and affiliates.")),
  restricted_shares: orNull(whole("Restricted shares as reported at the time, ADR-adjusted where that applies.")),
  // Both are computed by the query: no columns, so a file that brings them is refused.
  tradable_float: Model.Field({ select: tradableFloat.select, json: tradableFloat.json }),
  affiliate_shares: orNull(whole("Shares held by affiliates.")),
  insider_shares: orNull(whole("Shares held by insiders.")),
  affiliate_percent: orNull(ratio("Held by affiliates, a fraction: 0.15 is 15 %.")),
  institutions_percent: orNull(ratio("Held by institutions, a fraction: 0.15 is 15 %.")),
  insider_percent: orNull(ratio("Held by insiders, a fraction: 0.15 is 15 %.")),
  market_cap: Model.Field({ select: marketCap.select, json: marketCap.json }),
  cik: orNull(text("The issuer's CIK.")),
  is_adr: flag("Depositary receipts are what is listed."),
  ads_ratio: orNull(ratio("Ordinary shares that one depositary share stands for.")),
  details: orNull(text("How the counts were read.")),
  last_updated: NewYorkWallClock,
}) {}

export const Query = Schema.Struct({
  ticker: Schema.optionalKey(Tickers),
  latest: Schema.optionalKey(Schema.Boolean.annotate({
    description: "true: one row per ticker, the newest, in the order of this endpoint, of those that match the other " +
      "filters.",
    filter: { operator: "statement" },
  })),
  ...flags("is_adr"),
  ...bounds("float", "outstanding_shares", "tradable_float", "market_cap"),
  ...pastDays("filed_at", "reported_date"),
  ...Paging,
}).check(consistent)

export class HistoricalFloatPro extends HttpApiGroup.make("historicalFloatPro").add(
  HttpApiEndpoint.get("list", "/historical-float-pro", {
    query: Query,
    success: Envelope(jsonOf(HistoricalFloat)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(Reads, ["historical_float_pro", "daily_prices"]).annotateMerge(described(
    "Historical float",
    "Float, shares outstanding and ownership as each filing reported them, newest report first, with the market " +
      "capitalisation of that day.",
  )),
).annotateMerge(tagged("Historical float", "Float and shares outstanding as they were reported over time.")) {}
