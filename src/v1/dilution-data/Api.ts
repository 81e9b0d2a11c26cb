/** §2.5, §4.5: warrants and convertibles in one table and one list, told apart by `security_type`. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeGroup, ReadsTables } from "../../rules/EndpointAnnotations.ts"
import {
  booleanColumn,
  dateColumn,
  getRowJsonSchema,
  integerColumn,
  literalColumn,
  moneyColumn,
  nullableColumn,
  priceColumn,
  priceInThousandthsColumn,
  ratioColumn,
  textArrayColumn,
  textColumn,
  tickerColumn,
} from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import {
  booleanFilters,
  dateRangeFilters,
  elementSubstringFilter,
  literalFilter,
  numberRangeFilters,
  pastDateRangeFilters,
  substringFilter,
} from "../../rules/Filters.ts"
import { ListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { TickerList } from "../../rules/Tickers.ts"
import { NewYorkWallClock } from "../../rows/Timestamps.ts"

const warrants = ["warrant", "prefunded_warrant"] as const
const convertibles = ["convertible_note", "convertible_preferred"] as const
const securities = [...warrants, ...convertibles] as const

const kind = "What kind of security it is."

const head = { id: textColumn("The row's own key."), ticker: tickerColumn() }

const common = {
  details: textColumn("What the filing says of the security."),
  floor_price: nullableColumn(
    priceInThousandthsColumn("Least exercise or conversion price under price protection, USD."),
  ),
  registered: nullableColumn(booleanColumn("The underlying shares are registered for sale.")),
  filed_at: dateColumn("Day of the filing."),
  form_type: nullableColumn(textColumn("SEC form of the filing.")),
  accession_number: nullableColumn(textColumn("The SEC's number of the filing.")),
  document_url: nullableColumn(textColumn("Address of the filing.")),
  last_updated: NewYorkWallClock,
}

const ofWarrant = {
  warrants_amount: nullableColumn(integerColumn("Warrants issued.")),
  warrants_remaining: nullableColumn(integerColumn("Warrants not yet exercised.")),
  warrants_exercise_price: nullableColumn(priceColumn("Exercise price, USD a share.")),
  prefunded_cost: nullableColumn(priceColumn("Price paid in advance, USD a share.")),
  exercisable_date: nullableColumn(dateColumn("First day of exercise.")),
  expiration_date: nullableColumn(dateColumn("Last day of exercise.")),
}

const ofConvertible = {
  conversion_price: nullableColumn(priceColumn("Conversion price, USD a share.")),
  conversion_price_type: nullableColumn(
    literalColumn(["fixed", "variable"], "Whether the conversion price moves with the market."),
  ),
  offering_amount: nullableColumn(moneyColumn("Amount offered, USD.")),
  convertible_debt_remaining: nullableColumn(moneyColumn("Amount not yet converted, USD.")),
  interest_rate_percentage: nullableColumn(ratioColumn("Interest a year, %.")),
  convertible_date: nullableColumn(dateColumn("First day of conversion.")),
  maturity_date: nullableColumn(dateColumn("Day on which it falls due.")),
}

const both = { underlying_shares_remaining: nullableColumn(integerColumn("Shares that may still be issued.")) }

const advanced = {
  bank: nullableColumn(textColumn("The bank that placed it.")),
  owners: textArrayColumn("Names of the holders."),
  price_protection: nullableColumn(textColumn("Kind of price protection.")),
  price_protection_clause: nullableColumn(textColumn("The clause itself.")),
  reset_date: nullableColumn(dateColumn("Day on which the price is set anew.")),
  beneficial_ownership_blocker_percentage: nullableColumn(
    ratioColumn("Greatest part of the company that a holder may own, %."),
  ),
  registration_file_no: nullableColumn(textColumn("The SEC's file number of the registration.")),
}

const warrant = { ...head, security_type: literalColumn(warrants, kind), ...common, ...ofWarrant, ...both }
const convertible = { ...head, security_type: literalColumn(convertibles, kind), ...common, ...ofConvertible, ...both }

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
  security_type: literalColumn(securities, kind),
  ...common,
  ...ofWarrant,
  ...ofConvertible,
  ...both,
  ...advanced,
}) {}

/** A warrant has no columns of a convertible, and the reverse. */
export const findMismatchedColumn = (row: { readonly [column: string]: unknown }) => {
  const foreign = warrants.some((word) => word === row["security_type"]) ? ofConvertible : ofWarrant
  const column = Object.keys(foreign).find((name) => row[name] !== null && row[name] !== undefined)
  return column === undefined ? undefined : { column, reason: `must be empty in a ${String(row["security_type"])}` }
}

const filters = {
  security_type: literalFilter(securities),
  ...booleanFilters("registered"),
  ...numberRangeFilters("floor_price", "underlying_shares_remaining"),
  ...pastDateRangeFilters("filed_at"),
  ...dateRangeFilters("expiration_date", "maturity_date"),
}

export const DilutionDataQuery = Schema.Struct({ ticker: TickerList, ...filters, ...PagingParameters }).check(
  checkParameterCombinations,
)

export const DilutionDataAdvancedQuery = Schema.Struct({
  ticker: Schema.optionalKey(TickerList),
  ...filters,
  owner: elementSubstringFilter("owners", "the name of an owner"),
  bank: substringFilter("bank"),
  price_protection: substringFilter("price_protection"),
  ...PagingParameters,
}).check(checkParameterCombinations)

export class DilutionDataApiGroup extends HttpApiGroup.make("dilutionData").add(
  HttpApiEndpoint.get("list", "/dilution-data", {
    query: DilutionDataQuery,
    success: ListEnvelope(Schema.Union([getRowJsonSchema(Warrant), getRowJsonSchema(Convertible)])),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(ReadsTables, ["dilution_data"]).annotateMerge(describeEndpoint(
    "Dilution data",
    "Warrants and convertibles that can become shares, newest filing first. A warrant has no fields of a " +
      "convertible, and the reverse.",
  )),
  HttpApiEndpoint.get("listAdvanced", "/dilution-data-advanced", {
    query: DilutionDataAdvancedQuery,
    success: ListEnvelope(Schema.Union([getRowJsonSchema(AdvancedWarrant), getRowJsonSchema(AdvancedConvertible)])),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(ReadsTables, ["dilution_data"]).annotateMerge(describeEndpoint(
    "Dilution data, advanced",
    "Dilution data with owners, banks and price protection, also across all tickers.",
  )),
).annotateMerge(describeGroup("Dilution data", "Warrants and convertibles that can become shares.")) {}
