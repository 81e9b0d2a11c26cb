/** `GET /v1/ticker-changes`: §2.2, §4.1 (ticker changes). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { AsOfParameter } from "../rules/AsOfParameter.ts"
import { describeEndpoint, describeEndpointGroup } from "../rules/EndpointAnnotations.ts"
import * as Column from "../rows/Columns.ts"
import { ChangeEvent, lineageErrors } from "../rules/ApiErrors.ts"
import { CikParameter, TickerParameter } from "../rules/Tickers.ts"
import { InstantColumn } from "../rows/Timestamps.ts"
import { NonNegativeInt } from "../rules/NonNegativeInt.ts"

/** The states of a ticker change. Only confirmed changes take effect (§2.2). */
export const tickerChangeStatuses = ["confirmed", "estimated", "backfill", "reverted", "blocked"] as const

const cik = Model.Field({
  select: Schema.String,
  insert: Schema.String.check(Schema.isPattern(/^\d{10}$/, { message: "must be a CIK of ten digits, zero-padded" }))
    .annotate({ title: "CIK of ten digits", description: "CIK of the issuer.", examples: ["9990000001"] }),
  json: Schema.String,
})

const status = Column.literal(tickerChangeStatuses, "Status of the event. Only confirmed events change a ticker.")

/**
 * A row of the `ticker_changes` table. Responses contain only the first five columns, and symbol chains only three of
 * those.
 */
export class TickerChange extends Model.Class<TickerChange>("TickerChange")({
  old_ticker: Column.ticker("The old symbol."),
  new_ticker: Column.ticker("The new symbol.", "ZYXB"),
  effective_date: Column.date("First day of the new symbol."),
  cik: Column.nullable(cik),
  company_name: Column.nullable(Column.text("Name of the issuer.")),
  status: Model.Field({ insert: status.schemas.insert }),
  source: Model.Field({ insert: Column.nullable(Column.text("Source of the information.")).schemas.insert }),
  recorded_at: Model.Field({ insert: Schema.optionalKey(Schema.NullOr(InstantColumn.schemas.insert)) }),
  source_links: Column.sourceForLoading,
}) {}

/** The single object in the response: the chain of changes that the requested symbol belongs to. */
export const TickerChangesResult = Schema.Struct({
  query_ticker: Schema.String.annotate({ description: "The normalized requested symbol." }),
  has_changes: Schema.Boolean.annotate({ description: "Whether at least one eligible event involves the symbol." }),
  current_ticker: Schema.NullOr(Schema.String).annotate({
    description: "The latest symbol according to the recorded changes. The security may no longer be listed. Null if " +
      "has_changes is false.",
  }),
  history: Schema.Array(ChangeEvent).annotate({ description: "The complete chain, oldest first." }),
}).annotate({ identifier: "TickerChangesResult" })

/** The parameters of `/v1/ticker-changes`. */
export const TickerChangesQuery = Schema.Struct({
  ticker: TickerParameter,
  cik: Schema.optionalKey(CikParameter),
  ...AsOfParameter,
})

/** The response of `/v1/ticker-changes`. */
export const TickerChangesResponse = Schema.Struct({
  count: NonNegativeInt.annotate({ description: "The number of events in history, not the length of results." }),
  results: Schema.Tuple([TickerChangesResult]).annotate({ description: "Exactly one object." }),
})

/** The `/v1/ticker-changes` endpoint. */
export class TickerChangesApiGroup extends HttpApiGroup.make("tickerChanges").add(
  HttpApiEndpoint.get("resolve", "/ticker-changes", {
    query: TickerChangesQuery,
    success: TickerChangesResponse,
    error: lineageErrors,
  }).annotateMerge(describeEndpoint(
    "Ticker Changes",
    "The complete chain of symbol changes of a current or former symbol. A symbol without changes gets 200 with " +
      "`has_changes: false`. If the recorded changes are not one unambiguous chain, it gets 409 with the reasons; if " +
      "its details list candidates, `cik` selects one of them.",
    { tables: ["ticker_changes"] },
  )),
).annotateMerge(describeEndpointGroup("Ticker Changes", "The chain of symbol changes that a symbol belongs to.")) {}
