/** GET /v1/nasdaq-compliance. */
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
  dateColumn,
  getRowJsonSchemaWithLineage,
  literalColumn,
  markAsRowDate,
  nullableColumn,
  textColumn,
  tickerColumn,
} from "../../rows/Columns.ts"
import { AmbiguousTickerLineage, AsOfTooEarly, DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { AsOfParameter } from "../../rules/AsOfParameter.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import {
  defaultDateFilters,
  makeDateRangeFilters,
  makeEnumFilter,
  makePastDateRangeFilters,
} from "../../rules/Filters.ts"
import { LineageParameters } from "../../rules/LineageParameters.ts"
import { makeListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { riskLevels } from "../pump-and-dump-tracker/Api.ts"
import { TickerListParameter } from "../../rules/Tickers.ts"
import { NewYorkTimeColumn } from "../../rows/Timestamps.ts"

export const deficiencyTypes = [
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

export const noticeTypes = [
  "deficiency",
  "plan_required",
  "staff_determination",
  "public_reprimand",
  "compliance_regained",
] as const

export const complianceStatuses = ["active", "extended", "appealed", "resolved", "delisted"] as const

export class ComplianceNotice extends Model.Class<ComplianceNotice>("ComplianceNotice")({
  id: textColumn("Unique id of the notice."),
  ticker: tickerColumn(),
  company: nullableColumn(textColumn("Company name.")),
  market: textColumn("Market tier of the listing."),
  date: markAsRowDate(dateColumn("Date of the notice.")),
  added_date: nullableColumn(dateColumn("Date on which the company was added to the exchange's list.")),
  deficiency: textColumn("The deficiency as described by the exchange."),
  deficiency_type: literalColumn(deficiencyTypes, "Listing requirement that is not met."),
  rule: nullableColumn(textColumn("Listing rule.")),
  notice_type: literalColumn(noticeTypes, "Type of the notice."),
  compliance_deadline: nullableColumn(dateColumn("Date by which compliance must be regained.")),
  hearing_date: nullableColumn(dateColumn("Date of the hearing.")),
  regained_date: nullableColumn(dateColumn("Date on which compliance was regained.")),
  risk: nullableColumn(literalColumn(riskLevels, "Risk of a delisting.")),
  status: literalColumn(complianceStatuses, "Status of the case."),
  notes: nullableColumn(textColumn("Notes on the case.")),
  notes_updated: nullableColumn(NewYorkTimeColumn),
  document_url: nullableColumn(textColumn("URL of the filing that discloses the notice.")),
  last_updated: NewYorkTimeColumn,
}) {}

export const NasdaqComplianceQuery = Schema.Struct({
  ticker: Schema.optionalKey(TickerListParameter),
  ...defaultDateFilters,
  deficiency_type: makeEnumFilter(deficiencyTypes),
  notice_type: makeEnumFilter(noticeTypes),
  risk: makeEnumFilter(riskLevels),
  status: makeEnumFilter(complianceStatuses),
  ...makePastDateRangeFilters("added_date"),
  ...makeDateRangeFilters("compliance_deadline"),
  ...LineageParameters,
  ...AsOfParameter,
  ...PagingParameters,
}).check(checkParameterCombinations)

export class NasdaqComplianceApiGroup extends HttpApiGroup.make("nasdaqCompliance").add(
  HttpApiEndpoint.get("list", "/nasdaq-compliance", {
    query: NasdaqComplianceQuery,
    success: makeListEnvelope(getRowJsonSchemaWithLineage(ComplianceNotice)),
    error: [AmbiguousTickerLineage, AsOfTooEarly, DataRefreshing, DatabasePoolTimeout],
  }).annotate(TablesReadByEndpoint, ["nasdaq_compliance"]).annotate(ThirdPartyTextColumns, ["deficiency", "notes"])
    .annotateMerge(
      describeEndpoint(
        "Nasdaq compliance",
        "Notices about listing requirements that a company does not meet, with the status of each case, newest first.",
      ),
    ),
).annotateMerge(
  describeEndpointGroup("Nasdaq compliance", "Notices about listing rules that a company does not meet."),
) {}
