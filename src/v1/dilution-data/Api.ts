/** §2.5, §4.5: warrants and convertibles in one table and one list, told apart by `security_type`. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, Reads, tagged } from "../../rules/EndpointAnnotations.ts"
import {
  date,
  flag,
  jsonOf,
  money,
  oneOf,
  orNull,
  price,
  priceToThousandth,
  ratio,
  text,
  ticker,
  whole,
  words,
} from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { consistent } from "../../rules/ParameterCombinations.ts"
import { anyDays, bounds, flags, part, partOfElement, pastDays, someOf } from "../../rules/Filters.ts"
import { Envelope, Paging } from "../../rules/Paging.ts"
import { Tickers } from "../../rules/Tickers.ts"
import { NewYorkWallClock } from "../../rows/Timestamps.ts"

const warrants = ["warrant", "prefunded_warrant"] as const
const convertibles = ["convertible_note", "convertible_preferred"] as const
const securities = [...warrants, ...convertibles] as const

const kind = "What kind of security it is."

const head = { id: text("The row's own key."), ticker: ticker() }

const common = {
  details: text("What the filing says of the security."),
  floor_price: orNull(priceToThousandth("Least exercise or conversion price under price protection, USD.")),
  registered: orNull(flag("The underlying shares are registered for sale.")),
  filed_at: date("Day of the filing."),
  form_type: orNull(text("SEC form of the filing.")),
  accession_number: orNull(text("The SEC's number of the filing.")),
  document_url: orNull(text("Address of the filing.")),
  last_updated: NewYorkWallClock,
}

const ofWarrant = {
  warrants_amount: orNull(whole("Warrants issued.")),
  warrants_remaining: orNull(whole("Warrants not yet exercised.")),
  warrants_exercise_price: orNull(price("Exercise price, USD a share.")),
  prefunded_cost: orNull(price("Price paid in advance, USD a share.")),
  exercisable_date: orNull(date("First day of exercise.")),
  expiration_date: orNull(date("Last day of exercise.")),
}

const ofConvertible = {
  conversion_price: orNull(price("Conversion price, USD a share.")),
  conversion_price_type: orNull(oneOf(["fixed", "variable"], "Whether the conversion price moves with the market.")),
  offering_amount: orNull(money("Amount offered, USD.")),
  convertible_debt_remaining: orNull(money("Amount not yet converted, USD.")),
  interest_rate_percentage: orNull(ratio("Interest a year, %.")),
  convertible_date: orNull(date("First day of conversion.")),
  maturity_date: orNull(date("Day on which it falls due.")),
}

const both = { underlying_shares_remaining: orNull(whole("Shares that may still be issued.")) }

const advanced = {
  bank: orNull(text("The bank that placed it.")),
  owners: words("Names of the holders."),
  price_protection: orNull(text("Kind of price protection.")),
  price_protection_clause: orNull(text("The clause itself.")),
  reset_date: orNull(date("Day on which the price is set anew.")),
  beneficial_ownership_blocker_percentage: orNull(ratio("Greatest part of the company that a holder may own, %.")),
  registration_file_no: orNull(text("The SEC's file number of the registration.")),
}

const warrant = { ...head, security_type: oneOf(warrants, kind), ...common, ...ofWarrant, ...both }
const convertible = { ...head, security_type: oneOf(convertibles, kind), ...common, ...ofConvertible, ...both }

export class Warrant extends Model.Class<Warrant>("Warrant")(warrant) {}
export class Convertible extends Model.Class<Convertible>("Convertible")(convertible) {}
export class AdvancedWarrant extends Model.Class<AdvancedWarrant>("AdvancedWarrant")({ ...warrant, ...advanced }) {}
export class AdvancedConvertible extends Model.Class<AdvancedConvertible>("AdvancedConvertible")({
  ...convertible,
  ...advanced,
}) {}

/** A row of the table, which has the columns of both. */
export class DilutiveSecurity extends Model.Class<DilutiveSecurity>("DilutiveSecurity")({
  ...head,
  security_type: oneOf(securities, kind),
  ...common,
  ...ofWarrant,
  ...ofConvertible,
  ...both,
  ...advanced,
}) {}

/** A warrant has no columns of a convertible, and the reverse. */
export const strayColumn = (row: { readonly [column: string]: unknown }) => {
  const foreign = warrants.some((word) => word === row["security_type"]) ? ofConvertible : ofWarrant
  const column = Object.keys(foreign).find((name) => row[name] !== null && row[name] !== undefined)
  return column === undefined ? undefined : { column, reason: `must be empty in a ${String(row["security_type"])}` }
}

const filters = {
  security_type: someOf(securities),
  ...flags("registered"),
  ...bounds("floor_price", "underlying_shares_remaining"),
  ...pastDays("filed_at"),
  ...anyDays("expiration_date", "maturity_date"),
}

export const Query = Schema.Struct({ ticker: Tickers, ...filters, ...Paging }).check(consistent)

export const AdvancedQuery = Schema.Struct({
  ticker: Schema.optionalKey(Tickers),
  ...filters,
  owner: partOfElement("owners", "the name of an owner"),
  bank: part("bank"),
  price_protection: part("price_protection"),
  ...Paging,
}).check(consistent)

export class DilutionData extends HttpApiGroup.make("dilutionData").add(
  HttpApiEndpoint.get("list", "/dilution-data", {
    query: Query,
    success: Envelope(Schema.Union([jsonOf(Warrant), jsonOf(Convertible)])),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(Reads, ["dilution_data"]).annotateMerge(described(
    "Dilution data",
    "Warrants and convertibles that can become shares, newest filing first. A warrant has no fields of a " +
      "convertible, and the reverse.",
  )),
  HttpApiEndpoint.get("listAdvanced", "/dilution-data-advanced", {
    query: AdvancedQuery,
    success: Envelope(Schema.Union([jsonOf(AdvancedWarrant), jsonOf(AdvancedConvertible)])),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(Reads, ["dilution_data"]).annotateMerge(described(
    "Dilution data, advanced",
    "Dilution data with owners, banks and price protection, also across all tickers.",
  )),
).annotateMerge(tagged("Dilution data", "Warrants and convertibles that can become shares.")) {}
