/** `GET /v1/changes` and `/v1/changes/stream`: what each database transaction changed in the datasets, oldest first. */
import { flow, Option, Schema, Struct } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "effect/http-api"
import { TooManyStreams } from "../AccountErrors.ts"
import { normalizeTimestamp } from "../rules/AsOfParameter.ts"
import {
  type AnnotatedEndpoint,
  describeEndpoint,
  describeEndpointGroup,
  IsEndlessStream,
} from "../rules/EndpointAnnotations.ts"
import { makeCursorParameter, makeCursorReader } from "../rules/Cursors.ts"
import { CursorExpired, DatabasePoolTimeout, DataRefreshing } from "../rules/ApiErrors.ts"
import * as Filter from "../rules/FilterParameters.ts"
import { makeLimitParameterForCursors, ResultCount } from "../rules/Paging.ts"
import { checkParameterCombinations } from "../rules/ParameterCombinations.ts"
import { eventStreamContentType } from "../rules/EventStreamFormat.ts"
import { TickerListParameter } from "../rules/Tickers.ts"
import { InstantColumn } from "../rows/Timestamps.ts"
import { AfterhoursStatsApiGroup } from "./afterhours-stats.ts"
import { DilutionDataApiGroup } from "./dilution-data.ts"
import { FloatOutstandingApiGroup } from "./float-outstanding.ts"
import { GapStatsApiGroup } from "./gap-stats.ts"
import { HistoricalFloatProApiGroup } from "./historical-float-pro.ts"
import { HistoricalTickersApiGroup } from "./historical-tickers.ts"
import { IntradayRunnersApiGroup } from "./intraday-runners.ts"
import { NasdaqComplianceApiGroup } from "./nasdaq-compliance.ts"
import { NewsApiGroup } from "./news.ts"
import { OwnershipApiGroup } from "./ownership.ts"
import { PremarketStatsApiGroup } from "./premarket-stats.ts"
import { PumpAndDumpTrackerApiGroup } from "./pump-and-dump-tracker.ts"
import { RegistrationsApiGroup } from "./registrations.ts"
import { ResearchReportsApiGroup } from "./research-reports.ts"
import { ScreenerApiGroup } from "./screener.ts"
import { SplitStatusApiGroup } from "./split-status.ts"
import { TickerChangesApiGroup } from "./ticker-changes.ts"

/** What can happen to a row of a dataset. */
export const changeKinds = ["added", "corrected", "removed"] as const

/** An element of `changeKinds`. */
export type ChangeKind = typeof changeKinds[number]

/**
 * For each dataset, the endpoints that together return every column that the change feed contains for it. An account
 * that lacks access to any of these endpoints receives no changes to that dataset.
 */
export const requiredEndpointsByDataset = {
  ticker_changes: [TickerChangesApiGroup.endpoints.resolve],
  historical_tickers: [HistoricalTickersApiGroup.endpoints.list],
  intraday_runners: [IntradayRunnersApiGroup.endpoints.list],
  dilution_data: [DilutionDataApiGroup.endpoints.listAdvanced],
  registrations: [RegistrationsApiGroup.endpoints.list],
  pump_and_dump_tracker: [PumpAndDumpTrackerApiGroup.endpoints.list],
  split_status: [SplitStatusApiGroup.endpoints.list],
  nasdaq_compliance: [NasdaqComplianceApiGroup.endpoints.list],
  news: [NewsApiGroup.endpoints.list],
  gap_stats: [GapStatsApiGroup.endpoints.listAdvanced],
  premarket_stats: [PremarketStatsApiGroup.endpoints.list],
  afterhours_stats: [AfterhoursStatsApiGroup.endpoints.list],
  research_reports: [ResearchReportsApiGroup.endpoints.list, ResearchReportsApiGroup.endpoints.listTldr],
  float_outstanding: [FloatOutstandingApiGroup.endpoints.list],
  historical_float_pro: [HistoricalFloatProApiGroup.endpoints.list],
  ownership: [OwnershipApiGroup.endpoints.list],
  screener: [ScreenerApiGroup.endpoints.list],
} satisfies Readonly<Record<string, ReadonlyArray<AnnotatedEndpoint>>>

/**
 * The datasets in the change feed: every loadable dataset except `daily_prices`, which no endpoint returns (§2.6, D36).
 * `test/query/history/changes.test.ts` verifies this.
 */
export const changeFeedDatasets = Struct.keys(requiredEndpointsByDataset)

/** The name of a dataset in the change feed. */
export type ChangeFeedDataset = typeof changeFeedDatasets[number]

/** The point in the change feed after which a request starts to read: a cursor, a timestamp, or the present. */
export type ChangeFeedStart =
  | {
    readonly _tag: "Cursor"
    readonly transaction: string
    /** The position of a change within the transaction. Undefined: start after the transaction's last change. */
    readonly position: string | undefined
    readonly mark: string
  }
  | { readonly _tag: "Timestamp"; readonly timestamp: string }
  | { readonly _tag: "Now" }

/** Formats a cursor. `readChangeFeedStart` parses it. */
export const formatChangeFeedCursor = (
  { mark, position = "", transaction }: Omit<ChangeFeedStart & { _tag: "Cursor" }, "_tag">,
) => `${transaction}.${position}.${mark.replaceAll("-", "")}`

/**
 * Parses a cursor of the change feed, which consists of a transaction id, the position of a change within the
 * transaction (empty: after its last change), and the transaction's random mark, a UUID without hyphens. The mark is
 * needed because transaction ids are reused after the database is restored to an earlier state: if the mark does not
 * match, the cursor has expired.
 */
const readCursor = makeCursorReader(
  /^(?<transaction>\d{1,18})\.(?<position>\d{1,15})?\.(?<mark>[0-9a-f]{32})$/,
  ({ mark = "", position, transaction = "" }): ChangeFeedStart => ({ _tag: "Cursor", transaction, position, mark }),
)

/** Parses the parameter `after`, or the `id` of a server-sent event, which is a cursor. */
export const readChangeFeedStart = (text: string): Option.Option<ChangeFeedStart> => {
  if (text === "now") return Option.some({ _tag: "Now" })
  const timestamp = normalizeTimestamp(text)
  return timestamp === undefined ? readCursor(text) : Option.some({ _tag: "Timestamp", timestamp })
}

/**
 * Parses text that has already been validated or that the service itself has created. Throws if the text is invalid.
 */
export const parseChangeFeedStart = flow(readChangeFeedStart, Option.getOrThrow)

const changeFilters = {
  dataset: Filter.makeEnumFilter(changeFeedDatasets).annotate({ filter: { operator: "statement" } }),
  ticker: Schema.optionalKey(TickerListParameter.annotate({ filter: { operator: "statement" } })),
  kind: Filter.makeEnumFilter(changeKinds).annotate({ filter: { operator: "statement" } }),
  after: makeCursorParameter(
    readChangeFeedStart,
    "must be a cursor from a response, a time with its zone such as 2026-06-01T08:30:00-05:00, or now",
    {
      description:
        "Where to continue: the `cursor` of a response, a time such as `2026-06-01T08:30:00-05:00`, or `now`. " +
        "Without it, the response has the earliest known changes.",
      examples: ["now"],
    },
  ),
}

/** The parameters of `/v1/changes`. */
export const ChangesQuery = Schema.Struct({
  ...changeFilters,
  limit: makeLimitParameterForCursors(1000, 100, "Changes per response, at most 1000."),
}).check(checkParameterCombinations)

/** The parameters of `/v1/changes/stream`. */
export const ChangeStreamQuery = Schema.Struct(changeFilters).check(checkParameterCombinations)

const Values = Schema.Record(Schema.String, Schema.Json)

/** A change to a single row. */
export const Change = Schema.Struct({
  cursor: Schema.String.annotate({ description: "Send it as `after` to continue after this change." }),
  recorded_at: Schema.toEncoded(InstantColumn.schemas.json),
  dataset: Schema.Literals(changeFeedDatasets).annotate({ description: "The dataset that the row belongs to." }),
  kind: Schema.Literals(changeKinds).annotate({
    description: "Whether endpoints begin to show the row, show other values than before, or no longer show it.",
  }),
  key: Values.annotate({ description: "The columns that identify the row in its dataset." }),
  row: Schema.NullOr(Values).annotate({
    description:
      "The row after the change, with the fields that endpoints of the dataset show. Null if removed, or if " +
      "the service has lost the row; then `kind` is not `removed`.",
  }),
  before: Schema.NullOr(Values).annotate({
    description: "The row before the change. Null if added, or if the service has lost the row.",
  }),
  changed: Schema.Array(Schema.String).annotate({
    description: "The names of the columns that differ between `before` and `row`; empty unless corrected.",
  }),
}).annotate({ identifier: "Change" })

/** The response of `/v1/changes`. */
export const ChangesResponse = Schema.Struct({
  count: ResultCount,
  results: Schema.Array(Change).annotate({ description: "The changes, oldest first." }),
  cursor: Schema.String.annotate({
    description: "Send it as `after` to continue. A response without changes has one, too.",
  }),
  has_more: Schema.Boolean.annotate({
    description: "Further changes may be known already, even if there are fewer than `limit` here: continue at once.",
  }),
})

/** The change feed endpoints. */
export class ChangesApiGroup extends HttpApiGroup.make("changes").add(
  HttpApiEndpoint.get("list", "/changes", {
    query: ChangesQuery,
    success: ChangesResponse,
    error: [CursorExpired, DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(describeEndpoint(
    "Changes",
    "Every change to the rows that endpoints show, oldest first: which rows were added, corrected and removed, in " +
      "the order in which the changes took effect. Continue with `after`, even after a response without changes. " +
      "`ticker` finds changes of either symbol of a ticker change, and of the symbol that a row had before a " +
      "correction. Datasets whose endpoints the account or the key may not use are omitted.",
    { thirdPartyText: ["row", "before"] },
  )),
  HttpApiEndpoint.get("stream", "/changes/stream", {
    query: ChangeStreamQuery,
    success: Schema.String.pipe(HttpApiSchema.asText({ contentType: eventStreamContentType })),
    error: [CursorExpired, DataRefreshing, DatabasePoolTimeout, TooManyStreams],
  }).annotate(IsEndlessStream, true).annotateMerge(describeEndpoint(
    "Change stream",
    "The same changes as Server-Sent Events, as soon as they take effect. `id` is the cursor: send the last one as " +
      "`Last-Event-ID` or `after` to continue. The data of a `change` event is a change. An `end` event says why the " +
      "server ended the stream, and a `gap` event before it says that changes are missing; a connection that closes " +
      "without an `end` event was broken. A comment is sent after 15 seconds without events.",
    { thirdPartyText: ["row", "before"] },
  )),
).annotateMerge(describeEndpointGroup("Changes", "What changed in the datasets, and when.")) {}
