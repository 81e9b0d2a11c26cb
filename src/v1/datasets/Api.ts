/** How fresh the data are; §2.1, §9.3. */
import { Record, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, tagged } from "../../policy/Access.ts"
import { jsonOf, orNull, text, words } from "../../policy/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../policy/Errors.ts"
import { consistent } from "../../policy/Filters.ts"
import { Envelope, Paging } from "../../policy/Paging.ts"
import { UtcInstant } from "../../policy/Timestamps.ts"

/** The endpoints that answer from each dataset, by their name below `/v1`. */
const readers = {
  afterhours_stats: ["afterhours-stats"],
  daily_prices: ["historical-float-pro"],
  dilution_data: ["dilution-data", "dilution-data-advanced"],
  float_outstanding: ["float-outstanding"],
  gap_stats: ["gap-stats", "gap-stats-advanced"],
  historical_float_pro: ["historical-float-pro"],
  historical_tickers: ["historical-tickers"],
  intraday_runners: ["intraday-runners"],
  nasdaq_compliance: ["nasdaq-compliance"],
  news: ["news", "news-basic"],
  ownership: ["ownership"],
  premarket_stats: ["premarket-stats"],
  pump_and_dump_tracker: ["pump-and-dump-tracker"],
  registrations: ["registrations"],
  research_reports: ["research-reports", "research-reports-tldr"],
  screener: ["screener"],
  split_status: ["split-status"],
  ticker_changes: ["ticker-changes", "historical-tickers"],
}

/** Each dataset with the paths that read it. */
export const datasets = Record.toEntries(readers).map(([dataset, names]) => ({
  dataset,
  endpoints: names.map((name) => `/v1/${name}`),
}))

export class DatasetRow extends Model.Class<DatasetRow>("Dataset")({
  dataset: text("Its name."),
  endpoints: words("The paths that answer from it."),
  changed_at: orNull(UtcInstant),
}) {}

export const Query = Schema.Struct(Paging).check(consistent)

export class Datasets extends HttpApiGroup.make("datasets").add(
  HttpApiEndpoint.get("list", "/datasets", {
    query: Query,
    success: Envelope(jsonOf(DatasetRow)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(described(
    "Datasets",
    "Every dataset, by name, with the endpoints that answer from it and when its rows changed last; `changed_at` is " +
      "null where they never did. What an endpoint answers is at most a second older than that.",
  )),
).annotateMerge(tagged("Datasets", "The datasets, and when each last changed.")) {}
