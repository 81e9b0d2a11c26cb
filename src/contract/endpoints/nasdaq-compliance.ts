/** `GET /v1/nasdaq-compliance`. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeEndpointGroup } from "../rules/EndpointAnnotations.ts"
import * as Column from "../rows/Columns.ts"
import { listErrors } from "../rules/ApiErrors.ts"
import * as Filter from "../rules/FilterParameters.ts"
import { makeListQuery } from "../rules/ListQueries.ts"
import { makeListEnvelope } from "../rules/Paging.ts"
import { riskLevels } from "./pump-and-dump-tracker.ts"
import { TickerListParameter } from "../rules/Tickers.ts"
import { NewYorkTimeColumn } from "../rows/Timestamps.ts"

/** The listing requirements that a company may fail to meet. */
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

/** The types of notices that the exchange sends. */
export const noticeTypes = [
  "deficiency",
  "plan_required",
  "staff_determination",
  "public_reprimand",
  "compliance_regained",
] as const

/** The states of a compliance case. */
export const complianceStatuses = ["active", "extended", "appealed", "resolved", "delisted"] as const

/** A row of `/v1/nasdaq-compliance`. */
export class ComplianceNotice extends Model.Class<ComplianceNotice>("ComplianceNotice")({
  id: Column.text("Unique id of the notice."),
  ticker: Column.ticker(),
  company: Column.nullable(Column.text("Company name.")),
  market: Column.text("Market tier of the listing."),
  date: Column.markAsRowDate(Column.date("Date of the notice.")),
  added_date: Column.nullable(Column.date("Date on which the company was added to the exchange's list.")),
  deficiency: Column.text("The deficiency as described by the exchange."),
  deficiency_type: Column.literal(deficiencyTypes, "Listing requirement that is not met."),
  rule: Column.nullable(Column.text("Listing rule.")),
  notice_type: Column.literal(noticeTypes, "Type of the notice."),
  compliance_deadline: Column.nullable(Column.date("Date by which compliance must be regained.")),
  hearing_date: Column.nullable(Column.date("Date of the hearing.")),
  regained_date: Column.nullable(Column.date("Date on which compliance was regained.")),
  risk: Column.nullable(Column.literal(riskLevels, "Risk of a delisting.")),
  status: Column.literal(complianceStatuses, "Status of the case."),
  notes: Column.nullable(Column.text("Notes on the case.")),
  notes_updated: Column.nullable(NewYorkTimeColumn),
  document_url: Column.nullable(Column.text("URL of the filing that discloses the notice.")),
  last_updated: NewYorkTimeColumn,
}) {}

/** The parameters of `/v1/nasdaq-compliance`. */
export const NasdaqComplianceQuery = makeListQuery({
  ticker: Schema.optionalKey(TickerListParameter),
  ...Filter.defaultDates,
  deficiency_type: Filter.makeEnumFilter(deficiencyTypes),
  notice_type: Filter.makeEnumFilter(noticeTypes),
  risk: Filter.makeEnumFilter(riskLevels),
  status: Filter.makeEnumFilter(complianceStatuses),
  ...Filter.makePastDateRanges("added_date"),
  ...Filter.makeDateRanges("compliance_deadline"),
})

/** The `/v1/nasdaq-compliance` endpoint. */
export class NasdaqComplianceApiGroup extends HttpApiGroup.make("nasdaqCompliance").add(
  HttpApiEndpoint.get("list", "/nasdaq-compliance", {
    query: NasdaqComplianceQuery,
    success: makeListEnvelope(Column.getRowJsonSchemaWithLineage(ComplianceNotice)),
    error: listErrors,
  }).annotateMerge(
    describeEndpoint(
      "Nasdaq compliance",
      "Notices about listing requirements that a company does not meet, with the status of each case, newest first.",
      { tables: ["nasdaq_compliance"], thirdPartyText: ["deficiency", "notes"] },
    ),
  ),
).annotateMerge(
  describeEndpointGroup("Nasdaq compliance", "Notices about listing rules that a company does not meet."),
) {}
