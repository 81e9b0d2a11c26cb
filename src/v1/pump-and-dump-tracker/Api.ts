/** §4.4. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, Reads, tagged } from "../../rules/EndpointAnnotations.ts"
import { date, flag, jsonOf, money, oneOf, orNull, ratio, text, ticker, whole } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { consistent } from "../../rules/ParameterCombinations.ts"
import { anyDays, bounds, countryCodes, flags, part, pastDays, someOf } from "../../rules/Filters.ts"
import { Envelope, Paging } from "../../rules/Paging.ts"
import * as Printing from "../../rows/RowEncoder.ts"
import { Tickers } from "../../rules/Tickers.ts"
import { NewYorkWallClock } from "../../rows/Timestamps.ts"

const levels = ["high", "medium", "low"] as const

const country = Model.Field({
  select: Schema.String.annotate({ print: Printing.text }),
  insert: Schema.String.check(
    Schema.isPattern(/^[A-Z]{2}$/, { message: "must be a country's two letters (ISO 3166 alpha-2)" }),
  ),
  json: Schema.String.annotate({ description: "The company's country, ISO 3166 alpha-2." }),
})

export class PumpAndDumpSuspect extends Model.Class<PumpAndDumpSuspect>("PumpAndDumpSuspect")({
  ticker: ticker(),
  company: orNull(text("The company's name.")),
  ipo_date: orNull(date("Day of the initial public offering.")),
  lock_up_expiration: orNull(date("Day on which holders may first sell.")),
  lock_up_shares: orNull(whole("Shares that become free to sell that day.")),
  underwriters: orNull(text("Names of the underwriters.")),
  known_underwriter: flag("An underwriter has brought such companies to market before."),
  number_liquidations: whole("How often the price has collapsed."),
  last_liquidation_date: orNull(date("Day of the latest collapse.")),
  liquidation_history: orNull(oneOf(levels, "What the collapses so far say of the risk.")),
  tradable_float: orNull(whole("Shares that can trade.")),
  outstanding_shares: orNull(whole("Shares outstanding.")),
  market_cap: orNull(money("Market capitalisation, USD.")),
  country: orNull(country),
  exchange: orNull(text("Where it is listed.")),
  sector: orNull(text("The company's sector.")),
  industry: orNull(text("The company's industry.")),
  is_adr: flag("An American depositary receipt."),
  gain_1_day: orNull(ratio("Change of the price over 1 day, %.")),
  gain_7_day: orNull(ratio("Change of the price over 7 days, %.")),
  gain_14_day: orNull(ratio("Change of the price over 14 days, %.")),
  gain_30_day: orNull(ratio("Change of the price over 30 days, %.")),
  num_splits: whole("How often the shares were split."),
  last_split_date: orNull(date("Day of the latest split.")),
  underwriter_risk: orNull(oneOf(levels, "Risk by the underwriters' record.")),
  country_risk: orNull(oneOf(levels, "Risk by the company's country.")),
  float_risk: orNull(oneOf(levels, "Risk by the size of the float.")),
  scam_risk: orNull(oneOf(levels, "Risk that the stock is promoted by fraud.")),
  scam_description: orNull(text("What is known of the promotion.")),
  last_post_date: orNull(date("Day of the latest promotional post.")),
  document_url: orNull(text("Address of the prospectus.")),
  filed_at: orNull(date("Day on which the prospectus was filed.")),
  effective_date: orNull(date("Day on which the SEC declared it effective.")),
  last_updated: NewYorkWallClock,
}) {}

export const Query = Schema.Struct({
  ticker: Schema.optionalKey(Tickers),
  country: countryCodes,
  underwriter_risk: someOf(levels),
  country_risk: someOf(levels),
  float_risk: someOf(levels),
  scam_risk: someOf(levels),
  underwriters: part("underwriters"),
  ...flags("known_underwriter", "is_adr"),
  ...bounds("number_liquidations", "tradable_float", "outstanding_shares", "market_cap"),
  ...bounds("gain_1_day", "gain_7_day", "gain_14_day", "gain_30_day"),
  ...pastDays("filed_at", "effective_date", "ipo_date", "last_liquidation_date"),
  ...anyDays("lock_up_expiration"),
  ...Paging,
}).check(consistent)

export class PumpAndDumpTracker extends HttpApiGroup.make("pumpAndDumpTracker").add(
  HttpApiEndpoint.get("list", "/pump-and-dump-tracker", {
    query: Query,
    success: Envelope(jsonOf(PumpAndDumpSuspect)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(Reads, ["pump_and_dump_tracker"]).annotateMerge(described(
    "Pump-and-dump tracker",
    "Companies whose stock may be promoted to be sold, with the signs that speak for it, newest offering first.",
  )),
).annotateMerge(
  tagged("Pump-and-dump tracker", "Companies suspected of being promoted in order to sell their shares."),
) {}
