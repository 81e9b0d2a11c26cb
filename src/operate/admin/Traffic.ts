/** Reports current customer traffic and slow PostgreSQL statements, for the admin API. */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { formatTimeSql, PrintedTime } from "../../contract/rules/Dates.ts"
import { describeSqlError } from "../../postgres/FailureText.ts"

const EndpointTraffic = Schema.Struct({
  endpoint: Schema.String,
  requests: Schema.Int,
  client_errors: Schema.Int.annotate({ description: "Requests that were answered with 4xx." }),
  server_errors: Schema.Int.annotate({ description: "Requests that were answered with 5xx." }),
  cached: Schema.Int.annotate({ description: "Requests that were answered with 304." }),
  median_ms: Schema.Int,
  p95_ms: Schema.Int.annotate({ description: "Of 20 requests, 19 took at most this time." }),
  max_ms: Schema.Int,
})

const ErrorTraffic = Schema.Struct({
  endpoint: Schema.String,
  status_code: Schema.Int,
  requests: Schema.Int,
  accounts: Schema.Int.annotate({
    description: "Number of known accounts that got this error; 0 if it came before the account was known.",
  }),
  last_at: PrintedTime,
})

const AccountTraffic = Schema.Struct({
  account: Schema.String,
  requests: Schema.Int,
  client_errors: Schema.Int,
  server_errors: Schema.Int,
})

/** Customer traffic during the last 15 minutes. */
export const Traffic = Schema.Struct({
  since: PrintedTime,
  accounts: Schema.Array(AccountTraffic).annotate({ description: "The 50 accounts with the most requests." }),
  endpoints: Schema.Array(EndpointTraffic).annotate({ description: "Endpoint with the most requests first." }),
  errors: Schema.Array(ErrorTraffic).annotate({ description: "By endpoint and status, most frequent first." }),
}).annotate({ identifier: "Traffic" })

const trafficMinutes = 15

/**
 * Common table expression with the requests of the last 15 minutes, including those that failed before their account
 * was known: those have no account, no duration, and one row for each minute, endpoint, and status code. The account is
 * the first column of the index of `usage_requests`, so the requests are looked up separately for each account. Without
 * `offset 0`, PostgreSQL would flatten the subquery and read the whole month instead.
 */
const recentSql = `recent as (
  select recorded.* from accounts cross join lateral (
    select account_id, endpoint, status_code, duration_ms, cached, request_count, requested_at from usage_requests
    where usage_requests.account_id = accounts.account_id
      and moment > now() - interval '${trafficMinutes} minutes'
      and requested_at > now() - interval '${trafficMinutes} minutes'
    offset 0
  ) as recorded
  union all
  select null, endpoint, status_code, null, false, requests, minute from failed_requests
  where minute > now() - interval '${trafficMinutes} minutes'
)`

/**
 * Reads the traffic of the last 15 minutes, as far as the service's processes have recorded it: the requests of each
 * endpoint with their durations, the errors of each endpoint and status code, and the 50 accounts with the most
 * requests. All lists start with the most requests.
 *
 * Each statement reads the common table expression `recent`, which has these requests with their endpoint, status code
 * and duration. A row may stand for several failed requests, so requests are counted as the sum of `request_count`.
 * Rows without an account, which failed before it was known, are not in the list of accounts.
 */
export const readTraffic = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const recent = sql.literal(recentSql)
  const [start] = yield* decodeRows(Schema.Struct({ since: PrintedTime }))(sql`
    select ${sql.literal(formatTimeSql(`(now() - interval '${trafficMinutes} minutes')`))} as since
  `)
  const endpoints = yield* decodeRows(EndpointTraffic)(sql`
    with ${recent}
    select endpoint, sum(request_count)::float8 as requests,
      coalesce(sum(request_count) filter (where status_code between 400 and 499), 0)::float8 as client_errors,
      coalesce(sum(request_count) filter (where status_code >= 500), 0)::float8 as server_errors,
      (count(*) filter (where cached))::float8 as cached,
      coalesce(percentile_disc(0.5) within group (order by duration_ms), 0) as median_ms,
      coalesce(percentile_disc(0.95) within group (order by duration_ms), 0) as p95_ms,
      coalesce(max(duration_ms), 0) as max_ms
    from recent group by endpoint order by requests desc, endpoint
  `)
  const errors = yield* decodeRows(ErrorTraffic)(sql`
    with ${recent}
    select endpoint, status_code::int, sum(request_count)::float8 as requests,
      count(distinct account_id)::float8 as accounts, ${sql.literal(formatTimeSql("max(requested_at)"))} as last_at
    from recent where status_code >= 400 group by endpoint, status_code order by requests desc, endpoint, status_code
  `)
  const accounts = yield* decodeRows(AccountTraffic)(sql`
    with ${recent}
    select name as account, sum(request_count)::float8 as requests,
      coalesce(sum(request_count) filter (where status_code between 400 and 499), 0)::float8 as client_errors,
      coalesce(sum(request_count) filter (where status_code >= 500), 0)::float8 as server_errors
    from recent join accounts using (account_id) group by name order by requests desc, name limit 50
  `)
  return { since: start?.since ?? "", accounts, endpoints, errors }
})

/** A statement and its execution times. */
export const SlowStatement = Schema.Struct({
  statement: Schema.String.annotate({
    description: "The text, with `$1` and so on instead of values, and without comments.",
  }),
  calls: Schema.Int,
  mean_ms: Schema.Finite,
  max_ms: Schema.Finite,
  total_ms: Schema.Finite,
})

/** The fields of the slow-statement list, other than the statements themselves. */
export const slowStatementFields = {
  unavailable: Schema.NullOr(Schema.String).annotate({
    description: "Why there are no statements; null if there are.",
  }),
}

const makeUnavailable = (unavailable: string) => ({ unavailable, count: 0, results: [] })

/** SQL expression that removes the comments from a statement, because comments may contain values. */
const uncommentedSql = String.raw`regexp_replace(query, '/\*([^*]|\*+[^*/])*\*+/|--[^\n]*', ' ', 'g')`

/**
 * SQL condition for a statement in which PostgreSQL has replaced all constants, so that no quotes are left. PostgreSQL
 * does not replace constants in utility statements such as `create role … password '…'`, or if the extension evicted
 * the statement while it was running.
 */
const hasNoConstantsSql = String.raw`uncommented ~* '^[\s(]*(select|insert|update|delete|merge|with|values|table)\M'
  and uncommented !~ '''|\$[[:alpha:]_]*\$'`

/**
 * Reads the 20 statements with the longest mean time in this database, if `pg_stat_statements` is installed. Omits
 * statements whose text may contain values.
 */
export const readSlowStatements = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [extension] = yield* decodeRows(Schema.Struct({ schema: Schema.String }))(sql`
    select nspname as schema from pg_extension join pg_namespace on pg_namespace.oid = extnamespace
    where extname = 'pg_stat_statements'
  `)
  if (extension === undefined) return makeUnavailable("The extension pg_stat_statements is not installed.")
  return yield* decodeRows(SlowStatement)(sql`
    select btrim(left(uncommented, 2000)) as statement, calls::float8, mean_exec_time as mean_ms,
      max_exec_time as max_ms, total_exec_time as total_ms
    from ${sql(extension.schema)}.pg_stat_statements,
      lateral (select ${sql.literal(uncommentedSql)} as uncommented) as text
    where dbid = (select oid from pg_database where datname = current_database())
      and query not like '%pg_stat_statements%' and ${sql.literal(hasNoConstantsSql)}
    order by mean_exec_time desc limit 20
  `).pipe(
    Effect.map((results) => ({ unavailable: null, count: results.length, results })),
    // The extension raises an error if the server has not loaded its shared library.
    Effect.catchTag(
      "SqlError",
      (error) => Effect.succeed(makeUnavailable(`pg_stat_statements cannot be read: ${describeSqlError(error)}.`)),
    ),
  )
})
