/**
 * Starts each day of the change feed (docs/decisions/0121-feed-shows-endpoint-rows.md). Endpoints start to show some
 * rows on a certain day: a ticker change, for example, on its date. On that day, the feed lists the row as added,
 * although no transaction writes the row then. Rows loaded from EDGAR also move to the symbols that companies use from
 * that day on (docs/decisions/0126-symbols-of-ingested-rows.md).
 */
import { Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Job } from "../../postgres/jobs/Job.ts"
import { todayInChicago } from "../../contract/rules/Dates.ts"

/**
 * Starts the current day unless it has already been started. One transaction lists the rows for all days since the last
 * one that was started.
 */
export const startFeedDay = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const today = yield* todayInChicago
  yield* sql`select history.start_day(${today}::text::date)`
  yield* sql`select edgar_place_due_companies(${today}::text::date)`
})

/** Starts the current day of the feed, shortly after midnight. */
export const feedDayStartJob = {
  name: "feed-day",
  every: Duration.seconds(5),
  prepare: () => Effect.succeedSome(startFeedDay),
} satisfies Job<never, SqlClient.SqlClient>
