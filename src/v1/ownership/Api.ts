/** §2.7. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, Reads, tagged } from "../../rules/EndpointAnnotations.ts"
import { date, jsonOf, oneOf, orNull, ratio, text, ticker, whole } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { consistent } from "../../rules/ParameterCombinations.ts"
import { part, someOf } from "../../rules/Filters.ts"
import { Envelope, Paging, Unit } from "../../rules/Paging.ts"
import { Tickers } from "../../rules/Tickers.ts"
import { NewYorkWallClock } from "../../rows/Timestamps.ts"

const ownerTypes = ["executive", "director", "ten_percent_owner", "five_percent_owner"] as const

const filing = {
  ticker: ticker(),
  reported_date: orNull(date("The day that the holdings are for.")),
  filed_at: date("The day of the filing."),
  form_type: text("SEC form of the filing."),
  accession_number: text("The filing's accession number."),
  document_url: orNull(text("Address of the filing.")),
}

const holding = {
  owner_name: orNull(text("Who holds.")),
  owner_cik: orNull(text("The owner's CIK.")),
  owner_type: orNull(oneOf(ownerTypes, "What the owner is to the company.")),
  title: orNull(text("The owner's office in the company.")),
  common_shares_amount: orNull(whole("Common shares held.")),
  preferred_shares_amount: orNull(whole("Preferred shares held.")),
  options_amount: orNull(whole("Shares under options held.")),
  warrants_amount: orNull(whole("Shares under warrants held.")),
  shares_underlying_convertibles: orNull(whole("Shares under convertible securities held.")),
  percent_of_class: orNull(ratio("Part of the class that is held, a fraction: 0.15 is 15 %.")),
  sole_voting_shares: orNull(whole("Shares voted alone.")),
  shared_voting_shares: orNull(whole("Shares voted with others.")),
  event_date: orNull(date("The day that made the owner report.")),
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
  owners: Schema.Array(jsonOf(Owner)).annotate({ description: "The filing's owners, the largest holder first." }),
}) {}

export const Query = Schema.Struct({
  // The statement looks up the newest filing of each.
  ticker: Tickers.annotate({ filter: { operator: "statement" } }),
  owner_name: part("owner_name"),
  owner_type: someOf(ownerTypes),
  ...Paging,
}).check(consistent)

export class Ownerships extends HttpApiGroup.make("ownership").add(
  HttpApiEndpoint.get("list", "/ownership", {
    query: Query,
    success: Envelope(jsonOf(Ownership)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(Unit, "filing_group").annotate(Reads, ["ownership"]).annotateMerge(described(
    "Ownership",
    "The owners of each ticker by its newest filing that has a table of holders; no result where there is none. " +
      "owner_name and owner_type choose among that filing's owners.",
  )),
).annotateMerge(tagged("Ownership", "Owners of a company, grouped by filing.")) {}
