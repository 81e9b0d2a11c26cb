/** GET /v1/ownership: §2.7 (ownership). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import {
  AnswersEverySymbol,
  describeEndpoint,
  describeEndpointGroup,
  TablesReadByEndpoint,
} from "../../rules/EndpointAnnotations.ts"
import {
  dateColumn,
  getRowJsonSchemaWithLineage,
  getRowJsonSchemaWithSource,
  integerColumn,
  literalColumn,
  markAsRowDate,
  nullableColumn,
  ratioColumn,
  sourceColumnForLoading,
  textColumn,
  tickerColumn,
} from "../../rows/Columns.ts"
import { AmbiguousTickerLineage, AsOfTooEarly, DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { AsOfParameter } from "../../rules/AsOfParameter.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import { makeEnumFilter, makeSubstringFilter, NonEmptyText } from "../../rules/Filters.ts"
import { LineageParameters } from "../../rules/LineageParameters.ts"
import { makeListEnvelope, PagingParameters, ResultUnit } from "../../rules/Paging.ts"
import { ProvenanceParameter } from "../../rules/ProvenanceParameter.ts"
import { TickerListParameter } from "../../rules/Tickers.ts"
import { NewYorkTimeColumn } from "../../rows/Timestamps.ts"
import { NonNegativeInt } from "../../rules/NonNegativeInt.ts"

export const ownerTypes = ["executive", "director", "ten_percent_owner", "five_percent_owner"] as const

const filing = {
  ticker: tickerColumn(),
  reported_date: nullableColumn(dateColumn("Date of the holdings.")),
  filed_at: markAsRowDate(dateColumn("Date of the filing.")),
  form_type: textColumn("SEC form of the filing."),
  accession_number: textColumn("SEC accession number of the filing."),
  document_url: nullableColumn(textColumn("URL of the filing.")),
}

const holding = {
  owner_name: nullableColumn(textColumn("Name of the owner.")),
  owner_cik: nullableColumn(textColumn("CIK of the owner.")),
  owner_type: nullableColumn(literalColumn(ownerTypes, "Relationship of the owner to the company.")),
  title: nullableColumn(textColumn("Position of the owner in the company.")),
  common_shares_amount: nullableColumn(integerColumn("Common shares held.")),
  preferred_shares_amount: nullableColumn(integerColumn("Preferred shares held.")),
  options_amount: nullableColumn(integerColumn("Shares underlying options held.")),
  warrants_amount: nullableColumn(integerColumn("Shares underlying warrants held.")),
  shares_underlying_convertibles: nullableColumn(integerColumn("Shares underlying convertible securities held.")),
  percent_of_class: nullableColumn(ratioColumn("Fraction of the class that is held: 0.15 means 15%.")),
  sole_voting_shares: nullableColumn(integerColumn("Shares with sole voting power.")),
  shared_voting_shares: nullableColumn(integerColumn("Shares with shared voting power.")),
  event_date: nullableColumn(dateColumn("Date of the event that triggered the report.")),
}

/** A row is a placeholder if all of these columns are null (§2.7). */
export const ownershipHoldingColumns = Object.keys(holding)

const holdingTextColumns = new Set(["owner_name", "owner_cik", "title"])

/**
 * SQL condition that excludes placeholders (§2.7). The first part is written exactly as in the index, so that
 * PostgreSQL can use it. The second one treats an empty text as null (D16).
 */
export const ownershipHolderSqlCondition = `num_nonnulls(${ownershipHoldingColumns.join(", ")}) > 0
  and num_nonnulls(${
  ownershipHoldingColumns.map((name) => holdingTextColumns.has(name) ? `nullif(${name}, '')` : name).join(", ")
}) > 0`

/** A row of `ownership`: one owner in one filing, or a placeholder. */
export class OwnershipRow extends Model.Class<OwnershipRow>("OwnershipRow")({
  ...filing,
  ...holding,
  last_updated: NewYorkTimeColumn,
  source: sourceColumnForLoading,
}) {}

export class Owner extends Model.Class<Owner>("Owner")({ ...holding, last_updated: NewYorkTimeColumn }) {}

/** A filing without its owners. */
export class OwnershipFilingHeader extends Model.Class<OwnershipFilingHeader>("OwnershipFiling")(filing) {}

class Ownership extends Model.Class<Ownership>("Ownership")({
  ...filing,
  owner_count: NonNegativeInt.annotate({ description: "Number of owners." }),
  owners: Schema.Array(getRowJsonSchemaWithSource(Owner)).annotate({
    description: "Owners in the filing, largest holder first.",
  }),
}) {}

export const OwnershipQuery = Schema.Struct({
  // No generated condition, because the handler's statement selects the newest filing of each ticker.
  ticker: TickerListParameter.annotate({ filter: { operator: "statement" } }),
  accession_number: Schema.optionalKey(
    Schema.String.annotate({
      description: "The filing with this SEC accession number, instead of the newest one.",
      examples: ["9990001000-25-000007"],
    }).pipe(Schema.decodeTo(NonEmptyText)).annotate({ filter: { operator: "statement" } }),
  ),
  per_holder: Schema.optionalKey(Schema.Boolean.annotate({
    description: "true: each holder as the holder's own newest filing reports it, in one result per filing, instead " +
      "of only the newest filing of each ticker, which often is that of one person.",
    filter: { operator: "statement" },
  })),
  owner_name: makeSubstringFilter("owner_name"),
  owner_type: makeEnumFilter(ownerTypes),
  ...LineageParameters,
  ...AsOfParameter,
  ...ProvenanceParameter,
  ...PagingParameters,
}).check(checkParameterCombinations)

export class OwnershipApiGroup extends HttpApiGroup.make("ownership").add(
  HttpApiEndpoint.get("list", "/ownership", {
    query: OwnershipQuery,
    success: makeListEnvelope(getRowJsonSchemaWithLineage(Ownership)),
    error: [AmbiguousTickerLineage, AsOfTooEarly, DataRefreshing, DatabasePoolTimeout],
  }).annotate(ResultUnit, "filing_group").annotate(TablesReadByEndpoint, ["ownership"]).annotate(
    AnswersEverySymbol,
    true,
  ).annotateMerge(describeEndpoint(
    "Ownership",
    "The owners of each ticker, insiders and large holders, from its newest filing with a table of holders, or " +
      "from the filing that accession_number names. A ticker without such a filing has no result. owner_name and " +
      "owner_type select owners within that filing. per_holder=true answers who holds a ticker: it returns every " +
      "filing that is the newest of a holder, with these holders.",
  )),
).annotateMerge(describeEndpointGroup("Ownership", "Owners of a company, grouped by filing.")) {}
