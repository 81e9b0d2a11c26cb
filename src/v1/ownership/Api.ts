/** §2.7. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeGroup, ReadsTables } from "../../rules/EndpointAnnotations.ts"
import {
  dateColumn,
  getRowJsonSchema,
  integerColumn,
  literalColumn,
  nullableColumn,
  ratioColumn,
  textColumn,
  tickerColumn,
} from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import { literalFilter, substringFilter } from "../../rules/Filters.ts"
import { ListEnvelope, PagingParameters, ResultUnit } from "../../rules/Paging.ts"
import { TickerList } from "../../rules/Tickers.ts"
import { NewYorkWallClock } from "../../rows/Timestamps.ts"

const ownerTypes = ["executive", "director", "ten_percent_owner", "five_percent_owner"] as const

const filing = {
  ticker: tickerColumn(),
  reported_date: nullableColumn(dateColumn("The day that the holdings are for.")),
  filed_at: dateColumn("The day of the filing."),
  form_type: textColumn("SEC form of the filing."),
  accession_number: textColumn("The filing's accession number."),
  document_url: nullableColumn(textColumn("Address of the filing.")),
}

const holding = {
  owner_name: nullableColumn(textColumn("Who holds.")),
  owner_cik: nullableColumn(textColumn("The owner's CIK.")),
  owner_type: nullableColumn(literalColumn(ownerTypes, "What the owner is to the company.")),
  title: nullableColumn(textColumn("The owner's office in the company.")),
  common_shares_amount: nullableColumn(integerColumn("Common shares held.")),
  preferred_shares_amount: nullableColumn(integerColumn("Preferred shares held.")),
  options_amount: nullableColumn(integerColumn("Shares under options held.")),
  warrants_amount: nullableColumn(integerColumn("Shares under warrants held.")),
  shares_underlying_convertibles: nullableColumn(integerColumn("Shares under convertible securities held.")),
  percent_of_class: nullableColumn(ratioColumn("Part of the class that is held, a fraction: 0.15 is 15 %.")),
  sole_voting_shares: nullableColumn(integerColumn("Shares voted alone.")),
  shared_voting_shares: nullableColumn(integerColumn("Shares voted with others.")),
  event_date: nullableColumn(dateColumn("The day that made the owner report.")),
}

/** A row is a placeholder when all of these are null (§2.7). */
export const holdingColumns = Object.keys(holding)

/** One owner of one filing, or a placeholder for its owners. */
export class OwnershipRow extends Model.Class<OwnershipRow>("OwnershipRow")({
  ...filing,
  ...holding,
  last_updated: NewYorkWallClock,
}) {}

export class Owner extends Model.Class<Owner>("Owner")({ ...holding, last_updated: NewYorkWallClock }) {}

/** A filing, without its owners. */
export class OwnershipFiling extends Model.Class<OwnershipFiling>("OwnershipFiling")(filing) {}

class Ownership extends Model.Class<Ownership>("Ownership")({
  ...filing,
  owner_count: Schema.Int.annotate({ description: "How many owners follow." }),
  owners: Schema.Array(getRowJsonSchema(Owner)).annotate({
    description: "The filing's owners, the largest holder first.",
  }),
}) {}

export const OwnershipQuery = Schema.Struct({
  // The statement looks up the newest filing of each.
  ticker: TickerList.annotate({ filter: { operator: "statement" } }),
  owner_name: substringFilter("owner_name"),
  owner_type: literalFilter(ownerTypes),
  ...PagingParameters,
}).check(checkParameterCombinations)

export class OwnershipApiGroup extends HttpApiGroup.make("ownership").add(
  HttpApiEndpoint.get("list", "/ownership", {
    query: OwnershipQuery,
    success: ListEnvelope(getRowJsonSchema(Ownership)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(ResultUnit, "filing_group").annotate(ReadsTables, ["ownership"]).annotateMerge(describeEndpoint(
    "Ownership",
    "The owners of each ticker by its newest filing that has a table of holders; no result where there is none. " +
      "owner_name and owner_type choose among that filing's owners.",
  )),
).annotateMerge(describeGroup("Ownership", "Owners of a company, grouped by filing.")) {}
