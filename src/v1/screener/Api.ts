/** §2.5. */
import { Effect, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, Reads, tagged } from "../../rules/EndpointAnnotations.ts"
import { date, flag, jsonOf, money, orNull, price, ratio, text, ticker, whole } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { consistent } from "../../rules/ParameterCombinations.ts"
import { bounds, flags, pastDays, texts } from "../../rules/Filters.ts"
import { Envelope, Paging } from "../../rules/Paging.ts"
import { Tickers } from "../../rules/Tickers.ts"
import { NewYorkWallClock } from "../../rows/Timestamps.ts"

const gain = (days: string) => orNull(ratio(`Change of the price over ${days}, %.`))

export class ScreenerRow extends Model.Class<ScreenerRow>("ScreenerRow")({
  ticker: ticker(),
  company: orNull(text("Name of the company.")),
  cik: orNull(text("The issuer's CIK.")),
  exchange: orNull(text("Where the ticker is listed.")),
  sector: orNull(text("Sector of the company.")),
  industry: orNull(text("Industry of the company.")),
  country: orNull(text("Country of the company.")),
  state: orNull(text("State of the company.")),
  city: orNull(text("City of the company.")),
  website: orNull(text("Address of the company's website.")),
  ipo_date: orNull(date("Day of the initial public offering.")),
  is_adr: flag("Depositary receipts are what is listed."),
  price: orNull(price("Last price, USD.")),
  market_cap: orNull(money("Market capitalisation, USD.")),
  high_365: orNull(price("Highest price of 365 days, USD.")),
  low_365: orNull(price("Lowest price of 365 days, USD.")),
  outstanding: orNull(whole("Shares outstanding.")),
  float: orNull(whole("Shares not held by insiders and affiliates.")),
  tradable_float: orNull(whole("Shares of the float that may be traded.")),
  insider_percent: orNull(ratio("Held by insiders, a fraction: 0.15 is 15 %.")),
  affiliate_percent: orNull(ratio("Held by affiliates, a fraction: 0.15 is 15 %.")),
  institutions_percent: orNull(ratio("Held by institutions, a fraction: 0.15 is 15 %.")),
  ownership_source_url: orNull(text("The filing that the ownership figures come from.")),
  average_volume: orNull(whole("Shares traded on an average day.")),
  median_volume_60: orNull(whole("Shares traded on the median day of 60.")),
  today_volume: orNull(whole("Shares traded today.")),
  volume_change_percentage: orNull(ratio("Today's volume over the average, %.")),
  short_interest: orNull(whole("Shares sold short.")),
  short_float: orNull(ratio("Part of the float that is sold short, a fraction: 0.15 is 15 %.")),
  days_to_cover: orNull(ratio("Short interest over the average volume, days.")),
  shares_available: orNull(whole("Shares that can be borrowed.")),
  fee_rate: orNull(ratio("Yearly fee for borrowing shares, %.")),
  gain_1_day: gain("1 day"),
  gain_2_day: gain("2 days"),
  gain_3_day: gain("3 days"),
  gain_7_day: gain("7 days"),
  gain_14_day: gain("14 days"),
  gain_30_day: gain("30 days"),
  gain_60_day: gain("60 days"),
  gain_90_day: gain("90 days"),
  gain_180_day: gain("180 days"),
  gain_365_day: gain("365 days"),
  num_gaps: whole("How often the price has gapped up."),
  num_runners: whole("How often the ticker has run within a day."),
  avg_gap: orNull(ratio("Average gap, %.")),
  ratio_debt_to_equity: orNull(ratio("Debt over equity.")),
  pending_s1: flag("A registration of form S-1 is pending."),
  last_updated: NewYorkWallClock,
}) {}

/** The numbers that can be filtered by. */
const filtered = [
  "price",
  "market_cap",
  "outstanding",
  "float",
  "tradable_float",
  "average_volume",
  "median_volume_60",
  "today_volume",
  "volume_change_percentage",
  "short_interest",
  "short_float",
  "days_to_cover",
  "shares_available",
  "fee_rate",
  "gain_1_day",
  "gain_2_day",
  "gain_3_day",
  "gain_7_day",
  "gain_14_day",
  "gain_30_day",
  "gain_60_day",
  "gain_90_day",
  "gain_180_day",
  "gain_365_day",
  "num_gaps",
  "num_runners",
  "avg_gap",
  "ratio_debt_to_equity",
] as const

/** §2.5: read-only, so no filter takes them; sorting is none. */
const readOnly = ["high_365", "low_365", "insider_percent", "affiliate_percent", "institutions_percent"] as const

const sorts = (["ticker", ...filtered, ...readOnly] as const).flatMap((field) => [field, `-${field}` as const])
export type Sort = typeof sorts[number]

export const Query = Schema.Struct({
  ticker: Schema.optionalKey(Tickers),
  ...texts("exchange", "sector", "industry", "country", "state"),
  ...flags("is_adr", "pending_s1"),
  ...pastDays("ipo_date"),
  ...bounds(...filtered),
  sort: Schema.Literals(sorts).annotate({
    default: "ticker",
    filter: { operator: "statement" },
    description: "A numeric field or ticker, with - in front for descending order. Rows without the value come last.",
    message: "must be ticker or a numeric field of the rows, with - in front for descending order",
  }).pipe(Schema.withDecodingDefaultTypeKey(Effect.succeed("ticker" as const))),
  ...Paging,
}).check(consistent)

export class Screener extends HttpApiGroup.make("screener").add(
  HttpApiEndpoint.get("list", "/screener", {
    query: Query,
    success: Envelope(jsonOf(ScreenerRow)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(Reads, ["screener"]).annotateMerge(described(
    "Screener",
    "Every ticker with its company, price, float, volume, short interest and gains, to be filtered and sorted by them.",
  )),
).annotateMerge(tagged("Screener", "Every ticker with its key figures, to filter and sort by.")) {}
