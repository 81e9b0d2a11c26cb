/** §4.4. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, Reads, tagged } from "../../rules/EndpointAnnotations.ts"
import { date, flag, jsonOf, money, oneOf, orNull, price, text, ticker, whole } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { consistent } from "../../rules/ParameterCombinations.ts"
import { anyDays, bounds, flags, identifiers, part, pastDays, someOf, texts } from "../../rules/Filters.ts"
import { Envelope, Paging } from "../../rules/Paging.ts"
import { Tickers } from "../../rules/Tickers.ts"
import { NewYorkWallClock } from "../../rows/Timestamps.ts"

const types = ["shelf", "equity_line", "offering", "resale"] as const

export class Registration extends Model.Class<Registration>("Registration")({
  id: text("The row's own key."),
  ticker: ticker(),
  headline: text("The registration in a line."),
  type: oneOf(types, "What kind of registration it is."),
  form_type: text("SEC form of the filing."),
  file_no: text("The SEC's file number."),
  filed_at: date("Day of the filing."),
  effective_date: orNull(date("Day on which the SEC declared it effective.")),
  effective_status: flag("It is effective."),
  expiration_date: orNull(date("Day on which it expires.")),
  offering_amount: orNull(money("Amount registered, USD.")),
  shares_registered: orNull(whole("Shares registered.")),
  is_atm: flag("Shares are sold at the market."),
  bank: orNull(text("The bank or agent that sells.")),
  amount_remaining_atm: orNull(money("Amount left to sell at the market, USD.")),
  total_raised: orNull(money("Amount raised under it, USD.")),
  amount_sold_to_date: orNull(money("Amount sold under it so far, USD.")),
  amount_sold_12_months: orNull(money("Amount sold in the last twelve months, USD.")),
  high_60_day: orNull(price("Highest close of the last 60 days, USD.")),
  baby_shelf_raisable_amount: orNull(money("Amount the baby-shelf rule lets it raise, USD.")),
  calculated_raisable_amount: orNull(money("Amount it can raise now, USD.")),
  over_baby_shelf: orNull(flag("True: the public float is $75 million or more and the baby-shelf rule sets no limit.")),
  price_to_exceed_baby_shelf: orNull(price("Share price from which the baby-shelf rule sets no limit, USD.")),
  details: orNull(text("What the filing says.")),
  document_url: orNull(text("Address of the filing.")),
  last_updated: NewYorkWallClock,
}) {}

export const Query = Schema.Struct({
  ticker: Schema.optionalKey(Tickers),
  type: someOf(types),
  ...texts("form_type"),
  ...identifiers("file_no"),
  bank: part("bank"),
  ...flags("effective_status", "is_atm", "over_baby_shelf"),
  ...bounds("offering_amount", "total_raised", "amount_sold_to_date", "calculated_raisable_amount"),
  ...pastDays("filed_at", "effective_date"),
  ...anyDays("expiration_date"),
  ...Paging,
}).check(consistent)

export class Registrations extends HttpApiGroup.make("registrations").add(
  HttpApiEndpoint.get("list", "/registrations", {
    query: Query,
    success: Envelope(jsonOf(Registration)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(Reads, ["registrations"]).annotateMerge(described(
    "Registrations",
    "Registration statements under which companies can sell shares, and what they have raised, newest filing first.",
  )),
).annotateMerge(tagged("Registrations", "Registrations of shares for sale.")) {}
