/** Resources: nasdaq-compliance; §2.1. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeGroup, ReadsTables } from "../../rules/EndpointAnnotations.ts"
import {
  dateColumn,
  getRowJsonSchema,
  literalColumn,
  nullableColumn,
  textColumn,
  tickerColumn,
} from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import { DateFilters, dateRangeFilters, literalFilter, pastDateRangeFilters } from "../../rules/Filters.ts"
import { ListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { TickerList } from "../../rules/Tickers.ts"
import { NewYorkWallClock } from "../../rows/Timestamps.ts"

const deficiencies = [
  "bid_price",
  "market_value_listed_securities",
  "market_value_public_shares",
  "stockholders_equity",
  "public_holders",
  "late_filing",
  "audit_committee",
  "annual_meeting",
  "other",
] as const

const notices = [
  "deficiency",
  "plan_required",
  "staff_determination",
  "public_reprimand",
  "compliance_regained",
] as const

const risks = ["high", "medium", "low"] as const

const statuses = ["active", "extended", "appealed", "resolved", "delisted"] as const

export class ComplianceNotice extends Model.Class<ComplianceNotice>("ComplianceNotice")({
  id: textColumn("The notice's key."),
  ticker: tickerColumn(),
  company: nullableColumn(textColumn("The company's name.")),
  market: textColumn("The market tier of the listing."),
  date: dateColumn("The day of the notice."),
  added_date: nullableColumn(dateColumn("The day it was added to the exchange's list.")),
  deficiency: textColumn("The deficiency in the exchange's words."),
  deficiency_type: literalColumn(deficiencies, "The listing requirement that is not met."),
  rule: nullableColumn(textColumn("The listing rule.")),
  notice_type: literalColumn(notices, "What the exchange says with it."),
  compliance_deadline: nullableColumn(dateColumn("The day by which compliance must be regained.")),
  hearing_date: nullableColumn(dateColumn("The day of the hearing.")),
  regained_date: nullableColumn(dateColumn("The day on which compliance was regained.")),
  risk: nullableColumn(literalColumn(risks, "The risk of a delisting.")),
  status: literalColumn(statuses, "Where the matter stands."),
  notes: nullableColumn(textColumn("Notes on the matter.")),
  notes_updated: nullableColumn(NewYorkWallClock),
  document_url: nullableColumn(textColumn("The filing that discloses it.")),
  last_updated: NewYorkWallClock,
}) {}

export const NasdaqComplianceQuery = Schema.Struct({
  ticker: Schema.optionalKey(TickerList),
  ...DateFilters,
  deficiency_type: literalFilter(deficiencies),
  notice_type: literalFilter(notices),
  risk: literalFilter(risks),
  status: literalFilter(statuses),
  ...pastDateRangeFilters("added_date"),
  ...dateRangeFilters("compliance_deadline"),
  ...PagingParameters,
}).check(checkParameterCombinations)

export class NasdaqComplianceApiGroup extends HttpApiGroup.make("nasdaqCompliance").add(
  HttpApiEndpoint.get("list", "/nasdaq-compliance", {
    query: NasdaqComplianceQuery,
    success: ListEnvelope(getRowJsonSchema(ComplianceNotice)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(ReadsTables, ["nasdaq_compliance"]).annotateMerge(describeEndpoint(
    "Nasdaq compliance",
    "Notices about listing requirements that a company does not meet, and how each matter stands, newest first.",
  )),
).annotateMerge(describeGroup("Nasdaq compliance", "Notices of listing rules that a company does not meet.")) {}
