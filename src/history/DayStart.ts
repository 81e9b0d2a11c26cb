/**
 * Begins each day of the change feed (docs/decisions/0121-feed-shows-endpoint-rows.md). A row that endpoints show from
 * that day on, such as a ticker change, is then listed as added, although no transaction writes it.
 */
import { Duration, Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import type { Job } from "../jobs/Job.ts"
import { todayInChicago } from "../rules/Dates.ts"

/** Begins the current day, unless it has begun. One transaction lists the rows of all days since the last one. */
export const startFeedDay = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`select history.start_day(${yield* todayInChicago}::text::date)`
})

export const dayStartJob = {
  name: "feed-day",
  every: Duration.seconds(5),
  prepare: Effect.fnUntraced(function* () {
    const sql = yield* SqlClient.SqlClient
    return Option.some(Effect.provideService(startFeedDay, SqlClient.SqlClient, sql))
  }),
} satisfies Job<never, SqlClient.SqlClient>
