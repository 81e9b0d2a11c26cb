/** Resources: nasdaq-compliance; §2.1. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, Reads, tagged } from "../../rules/EndpointAnnotations.ts"
import { date, jsonOf, oneOf, orNull, text, ticker } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { consistent } from "../../rules/ParameterCombinations.ts"
import { anyDays, OnDate, pastDays, someOf } from "../../rules/Filters.ts"
import { Envelope, Paging } from "../../rules/Paging.ts"
import { Tickers } from "../../rules/Tickers.ts"
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
  id: text("The notice's key."),
  ticker: ticker(),
  company: orNull(text("The company's name.")),
  market: text("The market tier of the listing."),
  date: date("The day of the notice."),
  added_date: orNull(date("The day it was added to the exchange's list.")),
  deficiency: text("The deficiency in the exchange's words."),
  deficiency_type: oneOf(deficiencies, "The listing requirement that is not met."),
  rule: orNull(text("The listing rule.")),
  notice_type: oneOf(notices, "What the exchange says with it."),
  compliance_deadline: orNull(date("The day by which compliance must be regained.")),
  hearing_date: orNull(date("The day of the hearing.")),
  regained_date: orNull(date("The day on which compliance was regained.")),
  risk: orNull(oneOf(risks, "The risk of a delisting.")),
  status: oneOf(statuses, "Where the matter stands."),
  notes: orNull(text("Notes on the matter.")),
  notes_updated: orNull(NewYorkWallClock),
  document_url: orNull(text("The filing that discloses it.")),
  last_updated: NewYorkWallClock,
}) {}

export const Query = Schema.Struct({
  ticker: Schema.optionalKey(Tickers),
  ...OnDate,
  deficiency_type: someOf(deficiencies),
  notice_type: someOf(notices),
  risk: someOf(risks),
  status: someOf(statuses),
  ...pastDays("added_date"),
  ...anyDays("compliance_deadline"),
  ...Paging,
}).check(consistent)

export class NasdaqCompliance extends HttpApiGroup.make("nasdaqCompliance").add(
  HttpApiEndpoint.get("list", "/nasdaq-compliance", {
    query: Query,
    success: Envelope(jsonOf(ComplianceNotice)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(Reads, ["nasdaq_compliance"]).annotateMerge(described(
    "Nasdaq compliance",
    "Notices about listing requirements that a company does not meet, and how each matter stands, newest first.",
  )),
).annotateMerge(tagged("Nasdaq compliance", "Notices of listing rules that a company does not meet.")) {}
