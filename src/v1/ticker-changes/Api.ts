/** §2.2, §4.1. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeGroup, ReadsTables } from "../../rules/EndpointAnnotations.ts"
import { dateColumn, literalColumn, nullableColumn, textColumn, tickerColumn } from "../../rows/Columns.ts"
import { AmbiguousTickerLineage, ChangeEvent, DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { Ticker } from "../../rules/Tickers.ts"
import { UtcInstant } from "../../rows/Timestamps.ts"

export const tickerChangeStatuses = ["confirmed", "estimated", "backfill", "reverted", "blocked"] as const

const cik = Model.Field({
  select: Schema.String,
  insert: Schema.String.check(Schema.isPattern(/^\d{10}$/, { message: "must be a CIK of ten digits, zero-padded" }))
    .annotate({ title: "CIK of ten digits", description: "The issuer's CIK.", examples: ["9990000001"] }),
  json: Schema.String,
})

/** A row of the table; the endpoint shows three of its columns. */
export class TickerChange extends Model.Class<TickerChange>("TickerChange")({
  old_ticker: tickerColumn("The symbol given up."),
  new_ticker: tickerColumn("The symbol taken.", "ZYXB"),
  effective_date: dateColumn("The first day of the new symbol."),
  cik: nullableColumn(cik),
  company_name: nullableColumn(textColumn("The issuer's name.")),
  status: literalColumn(tickerChangeStatuses, "Only confirmed events move a ticker."),
  source: nullableColumn(textColumn("Where the fact comes from.")),
  recorded_at: Model.Field({ insert: Schema.optionalKey(Schema.NullOr(UtcInstant.schemas.insert)) }),
}) {}

export const TickerChangesResult = Schema.Struct({
  query_ticker: Schema.String.annotate({ description: "The normalized symbol that was searched." }),
  has_changes: Schema.Boolean.annotate({ description: "True when at least one eligible event involves the symbol." }),
  current_ticker: Schema.NullOr(Schema.String).annotate({
    description: "The latest symbol that the change record establishes; it does not say that the security is listed. " +
      "Null when has_changes is false.",
  }),
  history: Schema.Array(ChangeEvent).annotate({ description: "The complete chain, oldest first." }),
}).annotate({ identifier: "TickerChangesResult" })

export const TickerChangesQuery = Schema.Struct({ ticker: Ticker })

export const TickerChangesResponse = Schema.Struct({
  count: Schema.Int.annotate({ description: "The number of events in history, not the length of results." }),
  results: Schema.Tuple([TickerChangesResult]).annotate({ description: "Exactly one object." }),
})

export class TickerChangesApiGroup extends HttpApiGroup.make("tickerChanges").add(
  HttpApiEndpoint.get("resolve", "/ticker-changes", {
    query: TickerChangesQuery,
    success: TickerChangesResponse,
    error: [AmbiguousTickerLineage, DataRefreshing, DatabasePoolTimeout],
  }).annotate(ReadsTables, ["ticker_changes"]).annotateMerge(describeEndpoint(
    "Ticker Changes",
    "The complete chain of symbol changes that a symbol, current or former, belongs to. A symbol without changes is " +
      "answered with 200; a record that is not one unambiguous chain is refused with 409 and says why.",
  )),
).annotateMerge(describeGroup("Ticker Changes", "The chain of symbol changes that a symbol belongs to.")) {}
