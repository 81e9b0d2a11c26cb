/** `GET /v1/ownership`: §2.7 (ownership). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeEndpointGroup } from "../rules/EndpointAnnotations.ts"
import * as Column from "../rows/Columns.ts"
import { listErrors } from "../rules/ApiErrors.ts"
import * as Filter from "../rules/FilterParameters.ts"
import { makeListQueryWithSources } from "../rules/ListQueries.ts"
import { makeListEnvelope, ResultUnit } from "../rules/Paging.ts"
import { TickerListParameter } from "../rules/Tickers.ts"
import { NewYorkTimeColumn } from "../rows/Timestamps.ts"
import { NonNegativeInt } from "../rules/NonNegativeInt.ts"

/** The possible relationships between an owner and the company. */
export const ownerTypes = ["executive", "director", "ten_percent_owner", "five_percent_owner"] as const

const filing = {
  ticker: Column.ticker(),
  reported_date: Column.nullable(Column.date("Date of the holdings.")),
  filed_at: Column.markAsRowDate(Column.date("Date of the filing.")),
  form_type: Column.text("SEC form of the filing."),
  accession_number: Column.text("SEC accession number of the filing."),
  document_url: Column.nullable(Column.text("URL of the filing.")),
}

const holding = {
  owner_name: Column.nullable(Column.text("Name of the owner.")),
  owner_cik: Column.nullable(Column.text("CIK of the owner.")),
  owner_type: Column.nullable(Column.literal(ownerTypes, "Relationship of the owner to the company.")),
  title: Column.nullable(Column.text("Position of the owner in the company.")),
  common_shares_amount: Column.nullable(Column.integer("Common shares held.")),
  preferred_shares_amount: Column.nullable(Column.integer("Preferred shares held.")),
  options_amount: Column.nullable(Column.integer("Shares underlying options held.")),
  warrants_amount: Column.nullable(Column.integer("Shares underlying warrants held.")),
  shares_underlying_convertibles: Column.nullable(Column.integer("Shares underlying convertible securities held.")),
  percent_of_class: Column.nullable(Column.ratio("Fraction of the class that is held: 0.15 means 15%.")),
  sole_voting_shares: Column.nullable(Column.integer("Shares with sole voting power.")),
  shared_voting_shares: Column.nullable(Column.integer("Shares with shared voting power.")),
  event_date: Column.nullable(Column.date("Date of the event that triggered the report.")),
}

/**
 * The columns that describe an owner. A row in which all of them are null is a placeholder: the filing names no owner
 * (§2.7).
 */
export const ownershipHoldingColumns = Object.keys(holding)

const holdingTextColumns = new Set(["owner_name", "owner_cik", "title"])

/**
 * The SQL condition that excludes placeholder rows, which describe no owner (§2.7). The first part must match the
 * partial index's condition exactly, or PostgreSQL cannot use the index. The second part treats empty strings as null
 * (D16).
 */
export const ownershipHolderSqlCondition = `num_nonnulls(${ownershipHoldingColumns.join(", ")}) > 0
  and num_nonnulls(${
  ownershipHoldingColumns.map((name) => holdingTextColumns.has(name) ? `nullif(${name}, '')` : name).join(", ")
}) > 0`

/** A row of the `ownership` table: one owner in one filing, or a placeholder. */
export class OwnershipRow extends Model.Class<OwnershipRow>("OwnershipRow")({
  ...filing,
  ...holding,
  last_updated: NewYorkTimeColumn,
  source: Column.sourceForLoading,
}) {}

/** One of the owners in a result. */
export class Owner extends Model.Class<Owner>("Owner")({ ...holding, last_updated: NewYorkTimeColumn }) {}

/** The filing data in a result, without the owners. */
export class OwnershipFilingHeader extends Model.Class<OwnershipFilingHeader>("OwnershipFiling")(filing) {}

class Ownership extends Model.Class<Ownership>("Ownership")({
  ...filing,
  owner_count: NonNegativeInt.annotate({ description: "Number of owners." }),
  owners: Schema.Array(Column.getRowJsonSchemaWithSource(Owner)).annotate({
    description: "Owners in the filing, largest holder first.",
  }),
}) {}

/** The parameters of `/v1/ownership`. */
export const OwnershipQuery = makeListQueryWithSources({
  // The `statement` operator adds no SQL condition of its own: the handler's SQL first selects the newest filing for
  // each ticker.
  ticker: TickerListParameter.annotate({ filter: { operator: "statement" } }),
  accession_number: Schema.optionalKey(
    Schema.String.annotate({
      description: "The filing with this SEC accession number, instead of the newest one.",
      examples: ["9990001000-25-000007"],
    }).pipe(Schema.decodeTo(Filter.NonEmptyText)).annotate({ filter: { operator: "statement", narrows: true } }),
  ),
  per_holder: Schema.optionalKey(Schema.Boolean.annotate({
    description: "true: each holder as the holder's own newest filing reports it, in one result per filing, instead " +
      "of only the newest filing of each ticker, which often is that of one person.",
    filter: { operator: "statement" },
  })),
  owner_name: Filter.makeSubstringFilter("owner_name"),
  owner_type: Filter.makeEnumFilter(ownerTypes),
})

/** The `/v1/ownership` endpoint. */
export class OwnershipApiGroup extends HttpApiGroup.make("ownership").add(
  HttpApiEndpoint.get("list", "/ownership", {
    query: OwnershipQuery,
    success: makeListEnvelope(Column.getRowJsonSchemaWithLineage(Ownership)),
    error: listErrors,
  }).annotate(ResultUnit, "filing_group").annotateMerge(describeEndpoint(
    "Ownership",
    "The owners of each ticker, insiders and large holders, from its newest filing with a table of holders, or " +
      "from the filing that accession_number names. A ticker without such a filing has no result. owner_name and " +
      "owner_type select owners within that filing. per_holder=true answers who holds a ticker: it returns every " +
      "filing that is the newest of a holder, with these holders.",
    { tables: ["ownership"], hasCompanyRows: true },
  )),
).annotateMerge(describeEndpointGroup("Ownership", "Owners of a company, grouped by filing.")) {}
