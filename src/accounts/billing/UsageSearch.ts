/**
 * Finds recorded requests by their ids, which have no index (D29, usage). An id that is a UUID version 7 contains the
 * time of its request, so a few seconds of all accounts are searched. For any other id, the usage of one account is
 * searched.
 */
import { Clock, Data, DateTime, Duration, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { isValidRequestId, parseRequestIdTime } from "../../contract/rules/RequestIds.ts"
import { noSuchAccount } from "../Accounts.ts"
import { apiKeyStatusSql } from "../keys/ApiKeyManagement.ts"
import { packOwnId } from "./UsageColumns.ts"
import { makeTimeSql, PrintedTime } from "../../contract/rules/Dates.ts"

/** An id that a request may have (D12). */
export const RequestId = Schema.String.check(
  Schema.makeFilter(isValidRequestId, {
    message: "must have 1 to 128 letters, digits, dots, underscores and hyphens, as in the header X-Request-Id",
  }),
)

/** What to search for. */
export interface UsageSearch {
  readonly id: string
  /** The name of the account that sent the request; undefined if it is not known. */
  readonly account?: string | undefined
  /** The first day to search in the account, in New York as in `/v1/usage/daily`, YYYY-MM-DD. */
  readonly from?: string | undefined
  /** The last day. */
  readonly to?: string | undefined
  readonly timeLimit?: Duration.Duration
}

/** A request, or a row that counts requests refused with 429. */
export const FoundRequest = Schema.Struct({
  request_id: Schema.String,
  account_id: Schema.Int,
  account: Schema.String,
  key_id: Schema.Int,
  key_name: Schema.NullOr(Schema.String).annotate({ description: "Null: the key does not exist any more." }),
  key_hint: Schema.NullOr(Schema.String),
  key_status: Schema.NullOr(Schema.Literals(["active", "disabled", "expired", "revoked"])),
  requested_at: PrintedTime,
  usage_day: Schema.String.annotate({ description: "The day in New York to which the request counts." }),
  endpoint: Schema.String,
  status_code: Schema.Int,
  records_returned: Schema.Int,
  bytes: Schema.Finite,
  cost_microdollars: Schema.Finite,
  price_per_gb_microdollars: Schema.Finite.annotate({ description: "0 if the request costs nothing." }),
  duration_ms: Schema.Int,
  cached: Schema.Boolean.annotate({ description: "Whether the response was a 304." }),
  deprecated: Schema.Boolean,
  via: Schema.NullOr(Schema.Literal("mcp")),
  request_count: Schema.Finite.annotate({ description: "Above 1 if the row counts requests refused with 429." }),
  is_settled: Schema.Boolean.annotate({
    description: "Whether the database has added the request to the daily sums, the balance and the budget.",
  }),
})

/** The decoded request. */
export type FoundRequest = typeof FoundRequest.Type

/** What a search has found. */
export interface UsageSearchResult {
  /** Newest first; at most `maxFoundRequests`. */
  readonly requests: ReadonlyArray<FoundRequest>
  /** If the time limit ended the search: the day in New York after which everything was searched. */
  readonly searchedBackTo: string | undefined
}

class DaysReversed extends Data.TaggedError("DaysReversed")<{ readonly message: string }> {}

class RequestNotFound extends Data.TaggedError("RequestNotFound")<{ readonly message: string }> {}

/** A search by id or by days needs an account. */
class AccountRequired extends Data.TaggedError("AccountRequired")<{ readonly message: string }> {}

/** The search was stopped before it had found anything. */
class UsageSearchStopped extends Data.TaggedError("UsageSearchStopped")<{ readonly message: string }> {}

/** The maximum number of requests that a search returns. */
export const maxFoundRequests = 20

/** Shorter than PostgreSQL's `statement_timeout`. */
const defaultTimeLimit = Duration.seconds(20)

/** Maximum number of batches, or rows of `usage`, that one statement reads, which takes less than a second. */
const maxChunkRows = 20_000

/** Maximum number of batches and rows that are searched for the request itself. */
const maxPlaces = 100

/** A request that is younger than this may not be recorded yet. */
const recordingMillis = 10_000

/** Where a request is: its account, and the time of the batch, or the row of `usage`, that contains it. */
const Place = Schema.Struct({ account_id: Schema.Int, moment: Schema.String })
type Place = typeof Place.Type

/**
 * Returns the SQL condition for batches that contain the id. Clients' own ids are in `own_ids`. An id that the service
 * created is not stored: its writer is found by the end of the id, and its number and time are compared with each
 * request of the batch. Cheap conditions come first, so that few batches are unpacked.
 */
const makeMatchSql = (sql: SqlClient.SqlClient, id: string) => {
  // Spaces separate the ids, so an id with a space on each side is a complete one.
  const own = sql`own_ids <> '' and position(${` ${packOwnId(id)} `} in ' ' || own_ids || ' ') > 0`
  const time = parseRequestIdTime(id)
  if (time === undefined) return sql`(${own})`
  const at = sql`${DateTime.formatIso(DateTime.makeUnsafe(time))}::text::timestamptz`
  return sql`(${own} or (
    writer = any (array(select writer from usage_writers where id_suffix = ${id.slice(18)}))
    and ${at} between moment - span_ms * interval '1 millisecond' and moment
    and exists (
      select from generate_series(0, requests - 1) as place
      -- The number and the age of the request, by which the view \`usage_batch_requests\` restores its id.
      where packed_number(id_numbers, place) = ${Number.parseInt(id.slice(15, 18), 16)}::int
        and packed_number(ages, place) = extract(epoch from moment - ${at}) * 1000
    )
  ))`
}

const decodePlaces = decodeRows(Place)

/**
 * Finds an id that contains a time, in the usage of one account or of all (null). The index begins with the account, so
 * each account is looked up separately; `offset 0` prevents PostgreSQL from reading the whole month instead.
 */
const findPlacesAround = Effect.fnUntraced(function* (id: string, time: number, account_id: number | null) {
  const sql = yield* SqlClient.SqlClient
  const at = sql`${DateTime.formatIso(DateTime.makeUnsafe(time))}::text::timestamptz`
  // A batch has the time of its newest request, so it may be up to five seconds later than the request searched for.
  const [since, before] = [sql`${at} - interval '5 seconds'`, sql`${at} + interval '10 seconds'`]
  return yield* decodePlaces(sql`
    select distinct accounts.account_id::float8, moment::text from accounts cross join lateral (
      select moment from usage_batches
      where usage_batches.account_id = accounts.account_id and moment >= ${since} and moment < ${before}
        and ${makeMatchSql(sql, id)}
      union all
      select requested_at from usage
      where usage.account_id = accounts.account_id and requested_at >= ${since} and requested_at < ${before}
        and request_id = ${id}
      offset 0
    ) as place
    where ${account_id}::float8 is null or accounts.account_id = ${account_id}::float8
    order by moment desc limit ${maxPlaces}
  `)
})

const Chunk = Schema.Struct({
  /** The times of the batches and rows that contain the id. */
  moments: Schema.Array(Schema.String),
  /** The oldest time in the chunk; null if it is empty. */
  oldest: Schema.NullOr(Schema.String),
  oldest_day: Schema.NullOr(Schema.String),
  is_last: Schema.Boolean,
})

/**
 * Searches the newest batches and rows of an account that are older than `before`, up to `maxChunkRows` of them. `with
 * ties` keeps rows with the same time in one chunk, because the next chunk begins before the oldest time.
 */
const searchChunk = Effect.fnUntraced(
  function* (id: string, account_id: number, { before, since }: { readonly before: string; readonly since: string }) {
    const sql = yield* SqlClient.SqlClient
    const newest = sql.literal(`order by moment desc fetch first ${maxChunkRows} rows with ties`)
    // Not a prepared statement: PostgreSQL's plan for arbitrary values would sort all batches of the account.
    const [chunk] = yield* decodeRows(Chunk)(
      sql`
      with batches as (
        select moment, ${makeMatchSql(sql, id)} as is_match from usage_batches
        where account_id = ${account_id}::float8::bigint and moment >= ${since}::text::timestamptz
          and moment < ${before}::text::timestamptz
        ${newest}
      ), counts as (
        -- The rows that count requests refused with 429.
        select requested_at as moment, request_id = ${id} as is_match from usage
        where account_id = ${account_id}::float8::bigint and requested_at >= ${since}::text::timestamptz
          and requested_at < ${before}::text::timestamptz
        ${newest}
      ), chunk as materialized (
        -- The newest of both: beyond them, one of the two may have been cut off.
        select * from (select * from batches union all select * from counts) as every ${newest}
      )
      select coalesce(array_agg(moment::text order by moment desc) filter (where is_match), '{}') as moments,
        min(moment)::text as oldest, ((min(moment) at time zone 'America/New_York')::date)::text as oldest_day,
        count(*) < ${maxChunkRows} as is_last
      from chunk
    `.unprepared,
    )
    return yield* Effect.orDie(Effect.fromNullishOr(chunk))
  },
)

/** Reads the requests with the id at the given places, newest first. */
const readRequests = Effect.fnUntraced(function* (id: string, places: ReadonlyArray<Place>) {
  if (places.length === 0) return []
  const sql = yield* SqlClient.SqlClient
  const accounts = makeArrayParameter(places.map(({ account_id }) => account_id), OID.float8)
  const moments = makeArrayParameter(places.map(({ moment }) => moment), OID.text)
  // `offset 0` makes both parts of `found` look up each place by itself. PostgreSQL might unpack all batches otherwise.
  return yield* decodeRows(FoundRequest)(sql`
    with places as materialized (
      select distinct account_id::bigint as account_id, moment::timestamptz as moment
      from unnest(${accounts}, ${moments}) as place (account_id, moment)
    ), found as materialized (
      select request.* from places cross join lateral (
        select account_id, key_id, request_id, requested_at, endpoint, status_code, records_returned, bytes,
          cost_microdollars, price_per_gb_microdollars, duration_ms, cached, deprecated, via,
          1::bigint as request_count, writer, sequence
        from usage_batch_requests as request
        where request.account_id = places.account_id and request.moment = places.moment and request_id = ${id}
        offset 0
      ) as request
      union all
      -- The rows that count requests refused with 429, with their columns in the same order.
      select request.* from places cross join lateral (
        select account_id, key_id, request_id, requested_at, endpoint, status_code, records_returned, bytes,
          -- They cost nothing, so their price is 0. They are settled at once, so they have no writer and sequence.
          cost_microdollars, 0, duration_ms, cached, deprecated, via, request_count, null::integer, null::integer
        from usage
        where usage.account_id = places.account_id and requested_at = places.moment and request_id = ${id}
        offset 0
      ) as request
      order by requested_at desc limit ${maxFoundRequests}
    )
    select request_id, found.account_id::float8, accounts.name as account, found.key_id::float8,
      api_keys.name as key_name, key_hint,
      case when api_keys.key_id is null then null when revoked_at is not null then 'revoked'
        else ${sql.literal(apiKeyStatusSql)} end as key_status,
      ${sql.literal(makeTimeSql("requested_at"))},
      ((requested_at at time zone 'America/New_York')::date)::text as usage_day,
      endpoint, status_code::float8, records_returned::float8, bytes::float8, cost_microdollars::float8,
      price_per_gb_microdollars::float8, duration_ms::float8, cached, deprecated, via, request_count::float8,
      not exists (
        select from unsettled_usage as unsettled
        where (unsettled.writer, unsettled.sequence) = (found.writer, found.sequence)
      ) as is_settled
    from found join accounts using (account_id) left join api_keys on api_keys.key_id = found.key_id
    order by found.requested_at desc
  `)
})

/** Returns the midnight in New York that begins a day, some days later, as PostgreSQL reads it. */
const formatMidnight = (day: string, daysLater: number) =>
  DateTime.makeUnsafe(`${day}T12:00:00Z`).pipe(DateTime.add({ days: daysLater }), DateTime.formatIsoDate) +
  " 00:00:00 America/New_York"

/**
 * Searches the usage of an account chunk by chunk, newest first, until it is complete, enough is found, or the time
 * limit ends it.
 */
const searchAccount = Effect.fnUntraced(function* (
  { from, id, to }: UsageSearch,
  account_id: number,
  timeLimit: Duration.Duration,
) {
  const since = from === undefined ? "-infinity" : formatMidnight(from, 0)
  const found: Array<FoundRequest> = []
  let before = to === undefined ? "infinity" : formatMidnight(to, 1)
  let searchedBackTo: string | undefined
  let isComplete = false
  const searchNext = () =>
    Effect.flatMap(searchChunk(id, account_id, { before, since }), ({ is_last, moments, oldest, oldest_day }) => {
      const places = moments.slice(0, maxPlaces).map((moment) => ({ account_id, moment }))
      return Effect.map(readRequests(id, places), (requests) => {
        found.push(...requests)
        before = oldest ?? before
        searchedBackTo = oldest_day ?? searchedBackTo
        isComplete = is_last || found.length >= maxFoundRequests
      })
    })
  yield* Effect.whileLoop({ while: () => !isComplete, body: searchNext, step: () => {} }).pipe(
    Effect.timeoutOption(timeLimit),
  )
  return {
    requests: found.slice(0, maxFoundRequests),
    isStopped: !isComplete,
    searchedBackTo: isComplete ? undefined : searchedBackTo,
  }
})

const Retained = Schema.Struct({ month: Schema.NullOr(Schema.String), is_dropped: Schema.NullOr(Schema.Boolean) })

const whenRecorded = "Requests are recorded within about a second after their response, exports when they end, and " +
  "streams every minute."

const throttledIds = "Of requests that are refused with 429, only the first of each minute and endpoint has its id."

/** Explains why a request whose id contains a time was not found. */
const explainMissingRequest = Effect.fnUntraced(function* (id: string, time: number) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* Clock.currentTimeMillis
  const made = new Date(time).toISOString()
  if (time <= now && now - time < recordingMillis) {
    return `The request ${id} is not recorded yet: it was sent within the last ten seconds. ${whenRecorded} ` +
      "Try again in a few seconds."
  }
  const [retained] = yield* decodeRows(Retained)(sql`
    select replace(min(right(relname, 7)), '_', '-') as month,
      to_date(min(right(relname, 7)), 'YYYY_MM') at time zone 'UTC' > ${made}::text::timestamptz as is_dropped
    from pg_inherits join pg_class on pg_class.oid = inhrelid where inhparent = 'usage_batches'::regclass
  `)
  if (retained?.is_dropped === true) {
    return `The request ${id} was sent at ${made}, if its id is right. The usage of single requests begins with ` +
      `${retained.month}; USAGE_RETENTION sets how long it is kept. The daily sums remain.`
  }
  return `There is no request ${id}. The usage of all accounts was searched around ${made}, the time in the id. ` +
    "Check that the id is right. Requests without a valid key, or to a path that is no endpoint, are not recorded. " +
    `${whenRecorded} ${throttledIds} The ids of erased accounts are removed. If a client has made the id with a ` +
    "wrong clock, add --account NAME."
})

/** Explains why an id cannot be searched without an account. */
const explainUnsearchableId = (id: string) =>
  `The id ${id} does not contain the time of its request: a client has sent it, or it is shortened. Ids that the ` +
  "service makes have 36 characters, such as 01980b5e-7c1a-7003-9f3b-2a6d8c4e5f70. Give the complete id, or add " +
  "--account NAME to search the usage of one account, and --from DAY and --to DAY to search less."

/** Searches one account, or all (null), around the time in the id. */
const searchAround = (id: string, time: number, account_id: number | null, timeLimit: Duration.Duration) =>
  Effect.flatMap(findPlacesAround(id, time, account_id), (places) => readRequests(id, places)).pipe(
    Effect.timeoutOrElse({
      duration: timeLimit,
      orElse: () =>
        Effect.fail(
          new UsageSearchStopped({
            message:
              `The search for ${id} was stopped after ${Duration.format(timeLimit)}. The database is busy: try ` +
              "again later.",
          }),
        ),
    }),
  )

const formatDays = ({ from, to }: UsageSearch) =>
  (from === undefined ? "" : ` from ${from}`) + (to === undefined ? "" : ` to ${to}`)

const SearchedAccount = Schema.Struct({ account_id: Schema.Int, is_erased: Schema.Boolean })

/** Finds the account to search. Erased accounts have nothing left to find. */
const findSearchedAccount = Effect.fnUntraced(function* (name: string) {
  const sql = yield* SqlClient.SqlClient
  const [account] = yield* decodeRows(SearchedAccount)(sql`
    select account_id::float8, erased_at is not null as is_erased
    from accounts left join account_erasures using (account_id) where name = ${name}
  `)
  if (account === undefined) return yield* noSuchAccount(name)
  if (account.is_erased) {
    return yield* new RequestNotFound({
      message: `The account ${name} is erased: its requests have neither keys nor ids any more.`,
    })
  }
  return account
})

/** Finds the requests with an id in the usage of one account, however long ago they were sent. */
const findInAccount = Effect.fnUntraced(
  function* (search: UsageSearch, account_id: number, timeLimit: Duration.Duration) {
    const { account: name, id } = search
    const { isStopped, requests, searchedBackTo } = yield* searchAccount(search, account_id, timeLimit)
    if (requests.length > 0) return { requests, searchedBackTo } satisfies UsageSearchResult
    if (isStopped) {
      return yield* new UsageSearchStopped({
        message: `The search for ${id} was stopped after ${Duration.format(timeLimit)}. ` +
          (searchedBackTo === undefined
            ? "Search less with --from DAY and --to DAY."
            : `No day after ${searchedBackTo} has it. Continue with --to ${searchedBackTo}, ` +
              "or search less with --from."),
      })
    }
    return yield* new RequestNotFound({
      message: `The account ${name} has no request ${id}${formatDays(search)}. ${whenRecorded} ${throttledIds}`,
    })
  },
)

/** Fails, because an id without an account can only be searched around the time that it contains. */
const failWithoutAccount = Effect.fnUntraced(function* (id: string, time: number | undefined, hasDays: boolean) {
  if (time === undefined) return yield* new AccountRequired({ message: explainUnsearchableId(id) })
  if (hasDays) return yield* new AccountRequired({ message: "To search days, add --account NAME." })
  return yield* new RequestNotFound({ message: yield* explainMissingRequest(id, time) })
})

/**
 * Finds the requests with an id. If the id contains a time and no days are given, it searches around that time first,
 * which is fast. If that finds nothing, it searches the usage of the given account.
 */
export const findRequests = Effect.fnUntraced(function* (search: UsageSearch) {
  const { account: name, from, id, timeLimit = defaultTimeLimit, to } = search
  if (from !== undefined && to !== undefined && from > to) {
    return yield* new DaysReversed({ message: `The first day, ${from}, is after the last day, ${to}. Exchange them.` })
  }
  const account = name === undefined ? undefined : yield* findSearchedAccount(name)
  const time = parseRequestIdTime(id)
  const hasDays = from !== undefined || to !== undefined
  if (time !== undefined && !hasDays) {
    const requests = yield* searchAround(id, time, account?.account_id ?? null, timeLimit)
    if (requests.length > 0) return { requests, searchedBackTo: undefined } satisfies UsageSearchResult
    const [other] = account === undefined ? [] : yield* searchAround(id, time, null, timeLimit)
    if (other !== undefined) {
      return yield* new RequestNotFound({
        message: `The request ${id} is not of the account ${name}, but of ${other.account}.`,
      })
    }
  }
  return account === undefined
    ? yield* failWithoutAccount(id, time, hasDays)
    : yield* findInAccount(search, account.account_id, timeLimit)
})
