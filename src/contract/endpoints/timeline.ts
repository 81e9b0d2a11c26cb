/** `GET /v1/timeline`: all events of one company, collected from the tables of other endpoints. */
import { Schema, Struct } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { AsOfParameter } from "../rules/AsOfParameter.ts"
import { type AnnotatedEndpoint, describeEndpoint, describeEndpointGroup, tiers } from "../rules/EndpointAnnotations.ts"
import * as Column from "../rows/Columns.ts"
import { listErrors } from "../rules/ApiErrors.ts"
import type { FilterDeclaration } from "../rules/FilterDeclarations.ts"
import * as Filter from "../rules/FilterParameters.ts"
import { LineageParameters } from "../rules/LineageParameters.ts"
import { makeListEnvelope, PagingParameters } from "../rules/Paging.ts"
import { checkParameterCombinations } from "../rules/ParameterCombinations.ts"
import { CikParameter, LongTickerParameter } from "../rules/Tickers.ts"
import { DilutionDataApiGroup } from "./dilution-data.ts"
import { GapStatsApiGroup } from "./gap-stats.ts"
import { HistoricalFloatProApiGroup } from "./historical-float-pro.ts"
import { IntradayRunnersApiGroup } from "./intraday-runners.ts"
import { NasdaqComplianceApiGroup } from "./nasdaq-compliance.ts"
import { NewsApiGroup } from "./news.ts"
import { OwnershipApiGroup } from "./ownership.ts"
import { RegistrationsApiGroup } from "./registrations.ts"
import { SplitStatusApiGroup } from "./split-status.ts"
import { TickerChangesApiGroup } from "./ticker-changes.ts"

/**
 * For each event type, the endpoint that returns the complete row. An account that lacks access to the endpoint
 * receives no events of that type.
 */
export const fullRowEndpointsByEventType = {
  filing: NewsApiGroup.endpoints.list,
  news: NewsApiGroup.endpoints.list,
  registration: RegistrationsApiGroup.endpoints.list,
  dilution: DilutionDataApiGroup.endpoints.list,
  split: SplitStatusApiGroup.endpoints.list,
  compliance_notice: NasdaqComplianceApiGroup.endpoints.list,
  gap: GapStatsApiGroup.endpoints.list,
  runner: IntradayRunnersApiGroup.endpoints.list,
  float_change: HistoricalFloatProApiGroup.endpoints.list,
  ownership_filing: OwnershipApiGroup.endpoints.list,
  ticker_change: TickerChangesApiGroup.endpoints.resolve,
} satisfies Readonly<Record<string, AnnotatedEndpoint>>

/** The types of timeline events. */
export const timelineEventTypes = Struct.keys(fullRowEndpointsByEventType)

/** An element of `timelineEventTypes`. */
export type TimelineEventType = typeof timelineEventTypes[number]

/** A row of `/v1/timeline`. */
export class TimelineEvent extends Model.Class<TimelineEvent>("TimelineEvent")({
  at: Column.text("When it happened, as the full row prints it: a date, or a time with the offset -05:00."),
  ticker: Column.ticker("Symbol of the row."),
  type: Column.literal(timelineEventTypes, "Type of the event."),
  title: Column.text("What happened, at most 200 characters."),
  endpoint: Column.text("Path of the endpoint that returns the full row."),
  key: Column.text("Query string that finds the full row at `endpoint`, possibly among other rows of the same day."),
  tier: Column.literal(tiers, "Tier that `endpoint` requires."),
}) {}

// The `statement` operator adds no SQL condition of its own: `at` comes from a different column in each table, so the
// handler builds the conditions.
const filter: FilterDeclaration = { operator: "statement", narrows: true }
const { date_from, date_to } = Filter.makeDateFilters("at")

/** The parameters of `/v1/timeline`. */
export const TimelineQuery = Schema.Struct({
  ticker: LongTickerParameter,
  date_from: date_from.annotate({ filter }),
  date_to: date_to.annotate({ filter }),
  types: Filter.makeEnumFilter(timelineEventTypes).annotate({ filter }),
  follow_lineage: LineageParameters.follow_lineage,
  cik: Schema.optionalKey(CikParameter),
  ...AsOfParameter,
  ...PagingParameters,
}).check(checkParameterCombinations)

/** The `/v1/timeline` endpoint. */
export class TimelineApiGroup extends HttpApiGroup.make("timeline").add(
  HttpApiEndpoint.get("list", "/timeline", {
    query: TimelineQuery,
    success: makeListEnvelope(Column.getRowJsonSchemaWithLineage(TimelineEvent)),
    error: listErrors,
  }).annotateMerge(describeEndpoint(
    "Timeline",
    "Everything that happened to one company, newest first: one short row per event, with the request that returns " +
      "the full row. On one day, events with a time precede those with only a date. Types whose endpoint the account " +
      "or the key may not use are omitted, and named in `X-Omitted-Types`.",
    {
      tables: [
        "news",
        "registrations",
        "dilution_data",
        "split_status",
        "nasdaq_compliance",
        "gap_stats",
        "intraday_runners",
        "historical_float_pro",
        "ownership",
        "ticker_changes",
      ],
      hasCompanyRows: true,
      thirdPartyText: ["title"],
    },
  )),
).annotateMerge(describeEndpointGroup("Timeline", "Everything that happened to one company.")) {}
