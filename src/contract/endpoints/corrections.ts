/** `GET /v1/corrections`: how often rows in each dataset were corrected, after what delay, and in which fields. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { describeEndpoint, describeEndpointGroup, FreeEndpointHasEtag } from "../rules/EndpointAnnotations.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../rules/ApiErrors.ts"
import * as Filter from "../rules/FilterParameters.ts"
import { ResultCount } from "../rules/Paging.ts"
import { InstantColumn } from "../rows/Timestamps.ts"
import { changeFeedDatasets } from "./changes.ts"
import { NonNegativeInt } from "../rules/NonNegativeInt.ts"

const describeDelay = (description: string) =>
  NonNegativeInt.annotate({ description: `Rows that were corrected ${description} after they had been recorded.` })

const CorrectionDelays = Schema.Struct({
  within_hour: describeDelay("at most an hour"),
  within_day: describeDelay("more than an hour, but at most 24 hours"),
  within_week: describeDelay("more than 24 hours, but at most 7 days"),
  within_30_days: describeDelay("more than 7 days, but at most 30 days"),
  later: describeDelay("more than 30 days"),
  unknown: NonNegativeInt.annotate({
    description: "Corrected rows that are older than the history, so that the time of their recording is not known.",
  }),
}).annotate({ identifier: "CorrectionDelays", description: "How late the corrections were. The sum is `corrected`." })

/** A range of correction delays, such as `within_hour`. */
export type CorrectionDelayClass = keyof typeof CorrectionDelays.Type

/** The upper limit of each delay range, in seconds. */
const delayLimits: ReadonlyArray<readonly [CorrectionDelayClass, number]> = [
  ["within_hour", 3_600],
  ["within_day", 86_400],
  ["within_week", 7 * 86_400],
  ["within_30_days", 30 * 86_400],
  ["later", Infinity],
]

/**
 * All ranges of correction delays, from shortest to longest, followed by `unknown` for corrections whose delay is not
 * known.
 */
export const correctionDelayClasses: ReadonlyArray<CorrectionDelayClass> = [
  ...delayLimits.map(([delay]) => delay),
  "unknown",
]

/**
 * Returns the delay range for a correction made `seconds` after the row was recorded. `seconds` is null if the time of
 * recording is unknown.
 */
export const classifyCorrectionDelay = (seconds: number | null): CorrectionDelayClass =>
  seconds === null ? "unknown" : delayLimits.find(([, limit]) => seconds <= limit)?.[0] ?? "later"

const ChangeCounts = Schema.Struct({
  added: NonNegativeInt.annotate({ description: "Rows that were added." }),
  corrected: NonNegativeInt.annotate({
    description: "Corrections of rows. A row that was corrected twice counts twice.",
  }),
  removed: NonNegativeInt.annotate({ description: "Rows that were removed." }),
  delays: CorrectionDelays,
}).annotate({ identifier: "ChangeCounts", description: "The changes of a period." })

const DatasetCorrections = Schema.Struct({
  dataset: Schema.Literals(changeFeedDatasets).annotate({ description: "The name of the dataset." }),
  last_30_days: ChangeCounts,
  total: ChangeCounts,
  fields: Schema.Array(
    Schema.Struct({
      field: Schema.String.annotate({ description: "The name of the column." }),
      corrections: NonNegativeInt.annotate({ description: "Number of corrections that changed it." }),
    }).annotate({ identifier: "CorrectedField" }),
  ).annotate({ description: "The fields that corrections after `since` changed, the most corrected first." }),
}).annotate({ identifier: "DatasetCorrections" })

const Instant = Schema.toEncoded(InstantColumn.schemas.json)

/** The response of `/v1/corrections`. */
export const CorrectionsResponse = Schema.Struct({
  count: ResultCount,
  results: Schema.Array(DatasetCorrections).annotate({ description: "One object per dataset." }),
  since: Instant,
  counted_until: Schema.NullOr(Instant),
})

/** The `/v1/corrections` endpoint. */
export class CorrectionsApiGroup extends HttpApiGroup.make("corrections").add(
  HttpApiEndpoint.get("list", "/v1/corrections", {
    query: Filter.NoParameters,
    success: CorrectionsResponse,
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(describeEndpoint(
    "Corrections",
    "How many rows of each dataset were added, corrected and removed, how late they were corrected, and which fields " +
      "the corrections changed. `total` counts the changes of `/v1/changes` after `since`, and `last_30_days` those " +
      "of today and the 29 days before, at the offset -05:00. Changes are counted about a minute after they took " +
      "effect. `counted_until` is the time of the newest counted change; null: none is counted yet.",
  )).annotate(FreeEndpointHasEtag, true),
).annotateMerge(describeEndpointGroup("Corrections", "How often the rows of each dataset were corrected.")) {}
