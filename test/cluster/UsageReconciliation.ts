/** Compares the recorded usage and charges with the responses that clients received (D27, D29). */
import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import type { ObservedRequest } from "./Clients.ts"
import { holdFault } from "../support/Pauses.ts"

/** A killed process. Usage from its last second may be missing. */
export interface KilledProcess {
  readonly by: string
  readonly at: number
}

/**
 * The number of milliseconds before a crash for which usage may be lost: one second (D29, usage), plus 100 ms for the
 * write.
 */
export const maxUsageLoss = 1_100

interface Row {
  readonly request_id: string
  readonly status: number
  readonly bytes: string
  readonly cost: string
  readonly times: number
}

/** Finds accounts whose requests, daily sums, credits and balance disagree. */
const findInconsistentSums = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{ readonly name: string; readonly wrong: string }>`
    with
      rows as (
        select account_id, sum(request_count) as requests, sum(cost_microdollars) as cost from usage_requests
        group by account_id
      ),
      days as (
        select account_id, sum(requests) as requests, sum(cost_microdollars) as cost from usage_totals group by account_id
      ),
      paid as (select account_id, sum(amount_microdollars) as amount from credits group by account_id)
    select name, format('usage %s/%s, days %s/%s, paid %s, balance %s',
      rows.requests, rows.cost, days.requests, days.cost, amount, current_balance(accounts)) as wrong
    from accounts left join rows using (account_id) left join days using (account_id) left join paid using (account_id)
    where (rows.requests, rows.cost) is distinct from (days.requests, days.cost)
      or current_balance(accounts) <> amount - coalesce(rows.cost, 0)
  `
})

/** Returns descriptions of all errors, the number of usage rows, and the number of missing rows. */
export const reconcileUsage = Effect.fnUntraced(function* (
  name: string,
  observed: ReadonlyArray<ObservedRequest>,
  killed: ReadonlyArray<KilledProcess>,
  /** The time (`performance.now()`) from which usage may be missing, because the database may have lost commits. */
  lossFrom = Infinity,
) {
  const sql = yield* SqlClient.SqlClient
  // Excludes requests refused with 429, because several of them share one row that has the first request's id.
  const due = observed.filter(({ isKeyed, status }) => isKeyed && status !== 429)
  const read = sql<Row>`
    select request_id, min(status_code)::int as status, min(bytes)::text as bytes,
      sum(cost_microdollars)::text as cost, count(*)::int as times
    from usage_requests where request_id like ${`${name}-%`} group by request_id
  `
  const mayBeMissing = ({ servedBy: by, endedAt: ended }: ObservedRequest) =>
    ended >= lossFrom || killed.some((process) => process.by === by && ended >= process.at - maxUsageLoss)
  const isComplete = (rows: ReadonlyArray<Row>) => {
    const ids = new Set(rows.map(({ request_id }) => request_id))
    return due.every((one) => ids.has(one.id) || mayBeMissing(one))
  }
  const rows = yield* Effect.repeat(read, {
    until: isComplete,
    schedule: Schedule.max([Schedule.spaced("250 millis"), Schedule.during("20 seconds")]),
  }).pipe(Effect.andThen(Effect.andThen(holdFault("500 millis"), read)))
  const found = new Map(rows.map((row) => [row.request_id, row]))
  const byId = new Map(observed.map((one) => [one.id, one]))

  const missing = due.filter(({ id }) => !found.has(id))
  const differs = due.filter(({ bytes, cost, id, status }) => {
    const row = found.get(id)
    return row !== undefined && (row.status !== status || Number(row.bytes) !== bytes || Number(row.cost) !== cost)
  })
  const wrong = [
    ...rows.filter(({ times }) => times > 1).map(({ request_id, times }) => `${request_id} is recorded ${times} times`),
    ...missing.filter((one) => !mayBeMissing(one)).map(({ servedBy: by, id, status }) =>
      `${id} (${status}, ${by}) is not recorded`
    ),
    ...differs.map(({ bytes, cost, id, status }) =>
      `${id} was ${status}, ${bytes} bytes, ${cost}, and is recorded as ${JSON.stringify(found.get(id))}`
    ),
    // A request without a response may be recorded, but a request with an unknown key must not be.
    ...rows.filter(({ request_id }) => {
      const one = byId.get(request_id)
      return one === undefined || (one.status !== 0 && !one.isKeyed && one.status !== 502 && one.status !== 504)
    }).map(({ request_id }) => `${request_id} is recorded, but no client received that response`),
    ...(yield* findInconsistentSums).map(({ name, wrong }) => `the sums of ${name} disagree: ${wrong}`),
  ]
  return { wrong, rows: rows.length, missing: missing.length }
})
