/**
 * `GET /v1/dilution-data` and `/v1/dilution-data-advanced`, which read the same table: §2.5 (fields), §4.5 (endpoints).
 */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeEndpointGroup } from "../rules/EndpointAnnotations.ts"
import * as Column from "../rows/Columns.ts"
import { listErrors } from "../rules/ApiErrors.ts"
import * as Filter from "../rules/FilterParameters.ts"
import { makeListQuery } from "../rules/ListQueries.ts"
import { makeListEnvelope } from "../rules/Paging.ts"
import { TickerListParameter } from "../rules/Tickers.ts"
import { NewYorkTimeColumn } from "../rows/Timestamps.ts"

/** The `security_type` values of warrants. */
export const warrantTypes = ["warrant", "prefunded_warrant"] as const

/** Whether a conversion price is fixed or varies with the market price. */
export const conversionPriceTypes = ["fixed", "variable"] as const

/** The `security_type` values of convertibles. */
export const convertibleTypes = ["convertible_note", "convertible_preferred"] as const

/** All `security_type` values. */
export const securityTypes = [...warrantTypes, ...convertibleTypes] as const

const typeDescription = "Type of the security."

const keyFields = { id: Column.text("Unique id of the row."), ticker: Column.ticker() }

const sharedFields = {
  details: Column.text("Description of the security in the filing."),
  floor_price: Column.nullable(
    Column.threeDecimalPrice("Lowest exercise or conversion price under price protection, USD."),
  ),
  registered: Column.nullable(Column.boolean("Whether the underlying shares are registered for sale.")),
  filed_at: Column.markAsRowDate(Column.date("Date of the filing.")),
  form_type: Column.nullable(Column.text("SEC form of the filing.")),
  accession_number: Column.nullable(Column.text("SEC accession number of the filing.")),
  document_url: Column.nullable(Column.text("URL of the filing.")),
  last_updated: NewYorkTimeColumn,
}

const warrantFields = {
  warrants_amount: Column.nullable(Column.integer("Warrants issued.")),
  warrants_remaining: Column.nullable(Column.integer("Warrants not yet exercised.")),
  warrants_exercise_price: Column.nullable(Column.price("Exercise price, USD per share.")),
  prefunded_cost: Column.nullable(Column.price("Prepaid price, USD per share.")),
  exercisable_date: Column.nullable(Column.date("First day of exercise.")),
  expiration_date: Column.nullable(Column.date("Last day of exercise.")),
}

const convertibleFields = {
  conversion_price: Column.nullable(Column.price("Conversion price, USD per share.")),
  conversion_price_type: Column.nullable(
    Column.literal(conversionPriceTypes, "Whether the conversion price is fixed or follows the market."),
  ),
  offering_amount: Column.nullable(Column.money("Amount offered, USD.")),
  convertible_debt_remaining: Column.nullable(Column.money("Amount not yet converted, USD.")),
  interest_rate_percentage: Column.nullable(Column.ratio("Annual interest rate, %.")),
  convertible_date: Column.nullable(Column.date("First day of conversion.")),
  maturity_date: Column.nullable(Column.date("Maturity date.")),
}

const issuanceFields = {
  underlying_shares_remaining: Column.nullable(Column.integer("Shares that can still be issued.")),
}

const advancedFields = {
  bank: Column.nullable(Column.text("Placement agent or bank.")),
  owners: Column.textArray("Names of the holders."),
  price_protection: Column.nullable(Column.text("Type of price protection.")),
  price_protection_clause: Column.nullable(Column.text("Text of the price protection clause.")),
  reset_date: Column.nullable(Column.date("Date on which the price is reset.")),
  beneficial_ownership_blocker_percentage: Column.nullable(
    Column.ratio("Maximum share of the company that a holder may own, %."),
  ),
  registration_file_no: Column.nullable(Column.text("SEC file number of the registration.")),
}

const warrantColumns = {
  ...keyFields,
  security_type: Column.literal(warrantTypes, typeDescription),
  ...sharedFields,
  ...warrantFields,
  ...issuanceFields,
}
const convertibleColumns = {
  ...keyFields,
  security_type: Column.literal(convertibleTypes, typeDescription),
  ...sharedFields,
  ...convertibleFields,
  ...issuanceFields,
}

/** A warrant in `/v1/dilution-data`. */
export class Warrant extends Model.Class<Warrant>("Warrant")(warrantColumns) {}

/** A convertible in `/v1/dilution-data`. */
export class Convertible extends Model.Class<Convertible>("Convertible")(convertibleColumns) {}

/** A warrant in `/v1/dilution-data-advanced`. */
export class WarrantWithAdvancedFields
  extends Model.Class<WarrantWithAdvancedFields>("AdvancedWarrant")({ ...warrantColumns, ...advancedFields }) {}

/** A convertible in `/v1/dilution-data-advanced`. */
export class ConvertibleWithAdvancedFields extends Model.Class<ConvertibleWithAdvancedFields>("AdvancedConvertible")({
  ...convertibleColumns,
  ...advancedFields,
}) {}

/** A row of the `dilution_data` table, which has columns for both warrants and convertibles. */
export class DilutiveSecurity extends Model.Class<DilutiveSecurity>("DilutiveSecurity")({
  ...keyFields,
  security_type: Column.literal(securityTypes, typeDescription),
  ...sharedFields,
  ...warrantFields,
  ...convertibleFields,
  ...issuanceFields,
  ...advancedFields,
}) {}

/** The `security_type` column and all columns whose use depends on the security type. */
export const securityTypeColumns = ["security_type", ...Object.keys({ ...warrantFields, ...convertibleFields })]

/**
 * Finds a column that has a value although it does not apply to the row's security type, such as `conversion_price` in
 * the row of a warrant. Returns the column and the reason for the error message, or undefined if there is none.
 */
export const findSecurityTypeMismatch = (row: { readonly [column: string]: unknown }) => {
  const otherFields = warrantTypes.some((type) => type === row["security_type"]) ? convertibleFields : warrantFields
  const column = Object.keys(otherFields).find((name) => row[name] !== null && row[name] !== undefined)
  return column === undefined ? undefined : { column, reason: `must be empty in a ${String(row["security_type"])}` }
}

const filters = {
  security_type: Filter.makeEnumFilter(securityTypes),
  ...Filter.makeBooleanFilters("registered"),
  ...Filter.makeNumberRanges("floor_price", "underlying_shares_remaining"),
  ...Filter.makePastDateRanges("filed_at"),
  ...Filter.makeDateRanges("expiration_date", "maturity_date"),
}

/** The parameters of `/v1/dilution-data`. */
export const DilutionDataQuery = makeListQuery({
  ticker: TickerListParameter,
  ...filters,
})

/** The parameters of `/v1/dilution-data-advanced`. */
export const DilutionDataAdvancedQuery = makeListQuery({
  ticker: Schema.optionalKey(TickerListParameter),
  ...filters,
  owner: Filter.makeArrayElementSubstring("owners", "the name of an owner"),
  bank: Filter.makeSubstringFilter("bank"),
  price_protection: Filter.makeSubstringFilter("price_protection"),
})

/** The endpoints that return warrants and convertibles. */
export class DilutionDataApiGroup extends HttpApiGroup.make("dilutionData").add(
  HttpApiEndpoint.get("list", "/dilution-data", {
    query: DilutionDataQuery,
    success: makeListEnvelope(
      Schema.Union([Column.getRowJsonSchemaWithLineage(Warrant), Column.getRowJsonSchemaWithLineage(Convertible)]),
    ),
    error: listErrors,
  }).annotateMerge(
    describeEndpoint(
      "Dilution data",
      "Warrants and convertibles that can become shares, newest filing first. A warrant has no fields of a " +
        "convertible, and vice versa.",
      { tables: ["dilution_data"], thirdPartyText: ["details"] },
    ),
  ),
  HttpApiEndpoint.get("listAdvanced", "/dilution-data-advanced", {
    query: DilutionDataAdvancedQuery,
    success: makeListEnvelope(
      Schema.Union([
        Column.getRowJsonSchemaWithLineage(WarrantWithAdvancedFields),
        Column.getRowJsonSchemaWithLineage(ConvertibleWithAdvancedFields),
      ]),
    ),
    error: listErrors,
  }).annotateMerge(describeEndpoint(
    "Dilution data, advanced",
    "Dilution data with owners, banks and price protection, also across all tickers.",
    { tables: ["dilution_data"], thirdPartyText: ["details", "price_protection_clause"] },
  )),
).annotateMerge(describeEndpointGroup("Dilution data", "Warrants and convertibles that can become shares.")) {}
