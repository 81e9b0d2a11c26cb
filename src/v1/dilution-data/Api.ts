/** GET /v1/dilution-data and /v1/dilution-data-advanced: §2.5 (fields), §4.5 (endpoints). Both read one table. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import {
  describeEndpoint,
  describeEndpointGroup,
  TablesReadByEndpoint,
  ThirdPartyTextColumns,
} from "../../rules/EndpointAnnotations.ts"
import {
  booleanColumn,
  dateColumn,
  getRowJsonSchemaWithLineage,
  integerColumn,
  literalColumn,
  markAsRowDate,
  moneyColumn,
  nullableColumn,
  priceColumn,
  ratioColumn,
  textArrayColumn,
  textColumn,
  threeDecimalPriceColumn,
  tickerColumn,
} from "../../rows/Columns.ts"
import { AmbiguousTickerLineage, AsOfTooEarly, DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { AsOfParameter } from "../../rules/AsOfParameter.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import {
  makeArrayElementSubstringFilter,
  makeBooleanFilters,
  makeDateRangeFilters,
  makeEnumFilter,
  makeNumberRangeFilters,
  makePastDateRangeFilters,
  makeSubstringFilter,
} from "../../rules/Filters.ts"
import { LineageParameters } from "../../rules/LineageParameters.ts"
import { makeListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { TickerListParameter } from "../../rules/Tickers.ts"
import { NewYorkTimeColumn } from "../../rows/Timestamps.ts"

export const warrantTypes = ["warrant", "prefunded_warrant"] as const
export const conversionPriceTypes = ["fixed", "variable"] as const
export const convertibleTypes = ["convertible_note", "convertible_preferred"] as const
export const securityTypes = [...warrantTypes, ...convertibleTypes] as const

const typeDescription = "Type of the security."

const keyFields = { id: textColumn("Unique id of the row."), ticker: tickerColumn() }

const sharedFields = {
  details: textColumn("Description of the security in the filing."),
  floor_price: nullableColumn(
    threeDecimalPriceColumn("Lowest exercise or conversion price under price protection, USD."),
  ),
  registered: nullableColumn(booleanColumn("Whether the underlying shares are registered for sale.")),
  filed_at: markAsRowDate(dateColumn("Date of the filing.")),
  form_type: nullableColumn(textColumn("SEC form of the filing.")),
  accession_number: nullableColumn(textColumn("SEC accession number of the filing.")),
  document_url: nullableColumn(textColumn("URL of the filing.")),
  last_updated: NewYorkTimeColumn,
}

const warrantFields = {
  warrants_amount: nullableColumn(integerColumn("Warrants issued.")),
  warrants_remaining: nullableColumn(integerColumn("Warrants not yet exercised.")),
  warrants_exercise_price: nullableColumn(priceColumn("Exercise price, USD per share.")),
  prefunded_cost: nullableColumn(priceColumn("Prepaid price, USD per share.")),
  exercisable_date: nullableColumn(dateColumn("First day of exercise.")),
  expiration_date: nullableColumn(dateColumn("Last day of exercise.")),
}

const convertibleFields = {
  conversion_price: nullableColumn(priceColumn("Conversion price, USD per share.")),
  conversion_price_type: nullableColumn(
    literalColumn(conversionPriceTypes, "Whether the conversion price is fixed or follows the market."),
  ),
  offering_amount: nullableColumn(moneyColumn("Amount offered, USD.")),
  convertible_debt_remaining: nullableColumn(moneyColumn("Amount not yet converted, USD.")),
  interest_rate_percentage: nullableColumn(ratioColumn("Annual interest rate, %.")),
  convertible_date: nullableColumn(dateColumn("First day of conversion.")),
  maturity_date: nullableColumn(dateColumn("Maturity date.")),
}

const issuanceFields = {
  underlying_shares_remaining: nullableColumn(integerColumn("Shares that can still be issued.")),
}

const advancedFields = {
  bank: nullableColumn(textColumn("Placement agent or bank.")),
  owners: textArrayColumn("Names of the holders."),
  price_protection: nullableColumn(textColumn("Type of price protection.")),
  price_protection_clause: nullableColumn(textColumn("Text of the price protection clause.")),
  reset_date: nullableColumn(dateColumn("Date on which the price is reset.")),
  beneficial_ownership_blocker_percentage: nullableColumn(
    ratioColumn("Maximum share of the company that a holder may own, %."),
  ),
  registration_file_no: nullableColumn(textColumn("SEC file number of the registration.")),
}

const warrantColumns = {
  ...keyFields,
  security_type: literalColumn(warrantTypes, typeDescription),
  ...sharedFields,
  ...warrantFields,
  ...issuanceFields,
}
const convertibleColumns = {
  ...keyFields,
  security_type: literalColumn(convertibleTypes, typeDescription),
  ...sharedFields,
  ...convertibleFields,
  ...issuanceFields,
}

export class Warrant extends Model.Class<Warrant>("Warrant")(warrantColumns) {}
export class Convertible extends Model.Class<Convertible>("Convertible")(convertibleColumns) {}
export class WarrantWithAdvancedFields
  extends Model.Class<WarrantWithAdvancedFields>("AdvancedWarrant")({ ...warrantColumns, ...advancedFields }) {}
export class ConvertibleWithAdvancedFields extends Model.Class<ConvertibleWithAdvancedFields>("AdvancedConvertible")({
  ...convertibleColumns,
  ...advancedFields,
}) {}

/** A row of `dilution_data`, which has the columns of both warrants and convertibles. */
export class DilutiveSecurity extends Model.Class<DilutiveSecurity>("DilutiveSecurity")({
  ...keyFields,
  security_type: literalColumn(securityTypes, typeDescription),
  ...sharedFields,
  ...warrantFields,
  ...convertibleFields,
  ...issuanceFields,
  ...advancedFields,
}) {}

/** The column `security_type`, and the columns that depend on it. */
export const securityTypeColumns = ["security_type", ...Object.keys({ ...warrantFields, ...convertibleFields })]

/** Finds a column that has a value but does not belong to the row type, such as a convertible's column in a warrant. */
export const findSecurityTypeMismatch = (row: { readonly [column: string]: unknown }) => {
  const otherFields = warrantTypes.some((type) => type === row["security_type"]) ? convertibleFields : warrantFields
  const column = Object.keys(otherFields).find((name) => row[name] !== null && row[name] !== undefined)
  return column === undefined ? undefined : { column, reason: `must be empty in a ${String(row["security_type"])}` }
}

const filters = {
  security_type: makeEnumFilter(securityTypes),
  ...makeBooleanFilters("registered"),
  ...makeNumberRangeFilters("floor_price", "underlying_shares_remaining"),
  ...makePastDateRangeFilters("filed_at"),
  ...makeDateRangeFilters("expiration_date", "maturity_date"),
}

export const DilutionDataQuery = Schema.Struct({
  ticker: TickerListParameter,
  ...filters,
  ...LineageParameters,
  ...AsOfParameter,
  ...PagingParameters,
}).check(
  checkParameterCombinations,
)

export const DilutionDataAdvancedQuery = Schema.Struct({
  ticker: Schema.optionalKey(TickerListParameter),
  ...filters,
  owner: makeArrayElementSubstringFilter("owners", "the name of an owner"),
  bank: makeSubstringFilter("bank"),
  price_protection: makeSubstringFilter("price_protection"),
  ...LineageParameters,
  ...AsOfParameter,
  ...PagingParameters,
}).check(checkParameterCombinations)

export class DilutionDataApiGroup extends HttpApiGroup.make("dilutionData").add(
  HttpApiEndpoint.get("list", "/dilution-data", {
    query: DilutionDataQuery,
    success: makeListEnvelope(
      Schema.Union([getRowJsonSchemaWithLineage(Warrant), getRowJsonSchemaWithLineage(Convertible)]),
    ),
    error: [AmbiguousTickerLineage, AsOfTooEarly, DataRefreshing, DatabasePoolTimeout],
  }).annotate(TablesReadByEndpoint, ["dilution_data"]).annotate(ThirdPartyTextColumns, ["details"]).annotateMerge(
    describeEndpoint(
      "Dilution data",
      "Warrants and convertibles that can become shares, newest filing first. A warrant has no fields of a " +
        "convertible, and vice versa.",
    ),
  ),
  HttpApiEndpoint.get("listAdvanced", "/dilution-data-advanced", {
    query: DilutionDataAdvancedQuery,
    success: makeListEnvelope(
      Schema.Union([
        getRowJsonSchemaWithLineage(WarrantWithAdvancedFields),
        getRowJsonSchemaWithLineage(ConvertibleWithAdvancedFields),
      ]),
    ),
    error: [AmbiguousTickerLineage, AsOfTooEarly, DataRefreshing, DatabasePoolTimeout],
  }).annotate(TablesReadByEndpoint, ["dilution_data"]).annotate(ThirdPartyTextColumns, [
    "details",
    "price_protection_clause",
  ])
    .annotateMerge(describeEndpoint(
      "Dilution data, advanced",
      "Dilution data with owners, banks and price protection, also across all tickers.",
    )),
).annotateMerge(describeEndpointGroup("Dilution data", "Warrants and convertibles that can become shares.")) {}
