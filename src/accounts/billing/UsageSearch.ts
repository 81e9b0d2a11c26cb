/**
 * Finds recorded requests by id (D29, usage). Request ids are not indexed. An id that is a version 7 UUID contains the
 * time of its request, so only a few seconds of all accounts' usage are searched. Any other id can only be searched for
 * within one account.
 */
import { Clock, Data, DateTime, Duration, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { isValidRequestId, parseRequestIdTime } from "../../contract/rules/RequestIds.ts"
import { noSuchAccount } from "../Accounts.ts"
import { apiKeyStatusSql } from "../keys/ApiKeyManagement.ts"
import { packClientId } from "./UsageColumns.ts"
import { makeTimeSql, PrintedTime } from "../../contract/rules/Dates.ts"

/** A valid request id (D12). */
export const RequestId = Schema.String.check(
  Schema.makeFilter(isValidRequestId, {
    message: "must have 1 to 128 letters, digits, dots, underscores and hyphens, as in the header X-Request-Id",
  }),
)

/** The search parameters. */
export interface UsageSearch {
  readonly id: string
  /** Name of the account that sent the request. Undefined if it is not known. */
  readonly account?: string | undefined
  /**
   * First day to search within the account (`YYYY-MM-DD`). Days begin at midnight in New York, as in `/v1/usage/daily`.
   */
  readonly from?: string | undefined
  /** Last day to search. */
  readonly to?: string | undefined
  readonly timeLimit?: Duration.Duration
}

/**
 * A recorded request with the requested id, or a row that counts requests refused with 429 of which the first has that
 * id.
 */
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

/** The result of a search. */
export interface UsageSearchResult {
  /** At most `maxFoundRequests` requests, newest first. */
  readonly requests: ReadonlyArray<FoundRequest>
  /**
   * Set if the time limit ended the search early: all days after this day (`YYYY-MM-DD`, New York) were searched
   * completely.
   */
  readonly searchedBackTo: string | undefined
}

class DaysReversed extends Data.TaggedError("DaysReversed")<{ readonly message: string }> {}

class RequestNotFound extends Data.TaggedError("RequestNotFound")<{ readonly message: string }> {}

/** The search needs an account, because the id contains no time or because days were given. */
class AccountRequired extends Data.TaggedError("AccountRequired")<{ readonly message: string }> {}

/** The time limit ended the search before anything was found. */
class UsageSearchStopped extends Data.TaggedError("UsageSearchStopped")<{ readonly message: string }> {}

/** Maximum number of requests that a search returns. */
export const maxFoundRequests = 20

/** Default time limit for a search. It is shorter than PostgreSQL's `statement_timeout`. */
const defaultTimeLimit = Duration.seconds(20)

/**
 * One statement searches at most this many rows of `usage_batches` and `usage`. Searching that many takes less than a
 * second.
 */
const maxChunkRows = 20_000

/**
 * Maximum number of matching batches and rows from which requests are read. It is greater than `maxFoundRequests`,
 * because each of them contains at least one request with the id.
 */
const maxMatches = 100

/** Age in milliseconds below which a request may not have been recorded yet. */
const recordingMillis = 10_000

/**
 * Where requests with the id are stored: in the account's rows of `usage_batches`, or its row of `usage`, whose time is
 * `moment`. Several rows may have the same time.
 */
const Match = Schema.Struct({ account_id: Schema.Int, moment: Schema.String })
type Match = typeof Match.Type

/**
 * Returns the SQL condition for rows of `usage_batches` that contain a request with this id. A row is a batch of one
 * account's requests, packed into arrays. `moment` is the time of its newest request, `span_ms` how much older its
 * oldest request is, and `ages` and `id_numbers` have one value per request.
 *
 * Ids chosen by clients are in `own_ids`. Ids generated by the service are not stored. To match such an id, its last
 * part identifies the process that wrote the batch (`writer`), and its number and time are compared with each request
 * in the batch. Inexpensive conditions come first, so that few batches have to be unpacked.
 */
const makeMatchSql = (sql: SqlClient.SqlClient, id: string) => {
  // The ids are separated by spaces. Searching for the id with a space on both sides matches complete ids only.
  const hasClientId = sql`own_ids <> '' and position(${` ${packClientId(id)} `} in ' ' || own_ids || ' ') > 0`
  const time = parseRequestIdTime(id)
  if (time === undefined) return sql`(${hasClientId})`
  // An id generated by the service consists of the time, its number (characters 15 to 17), and the process's suffix.
  const at = sql`${DateTime.formatIso(DateTime.makeUnsafe(time))}::text::timestamptz`
  return sql`(${hasClientId} or (
    writer = any (array(select writer from usage_writers where id_suffix = ${id.slice(18)}))
    and ${at} between moment - span_ms * interval '1 millisecond' and moment
    and exists (
      select from generate_series(0, requests - 1) as request_index
      -- The request's number and age, from which the view \`usage_batch_requests\` reconstructs its id.
      where packed_number(id_numbers, request_index) = ${Number.parseInt(id.slice(15, 18), 16)}::int
        and packed_number(ages, request_index) = extract(epoch from moment - ${at}) * 1000
    )
  ))`
}

const decodeMatches = decodeRows(Match)

/**
 * Finds where the requests with an id are stored, if the id contains a time (`time`, Unix time in milliseconds).
 * Searches only around that time, in one account's usage or in all accounts (`account_id` null). Returns the account
 * and the time of each matching row (`Match`), newest first, at most `maxMatches`.
 *
 * There are two tables: a row of `usage_batches` contains several requests, and a row of `usage` counts requests
 * refused with 429 and has the id of the first one. The account is the first column of the index on both tables, so
 * each account is looked up separately. Without `offset 0`, PostgreSQL would merge this lookup into the outer query and
 * read all usage of the month.
 */
const findMatchesAround = Effect.fnUntraced(function* (id: string, time: number, account_id: number | null) {
  const sql = yield* SqlClient.SqlClient
  const at = sql`${DateTime.formatIso(DateTime.makeUnsafe(time))}::text::timestamptz`
  // A batch has the time of its newest request, which may be up to five seconds later than the request being searched
  // for. Five more seconds on both sides are a margin.
  const [since, before] = [sql`${at} - interval '5 seconds'`, sql`${at} + interval '10 seconds'`]
  return yield* decodeMatches(sql`
    select distinct accounts.account_id::float8, moment::text from accounts cross join lateral (
      select moment from usage_batches
      where usage_batches.account_id = accounts.account_id and moment >= ${since} and moment < ${before}
        and ${makeMatchSql(sql, id)}
      union all
      select requested_at from usage
      where usage.account_id = accounts.account_id and requested_at >= ${since} and requested_at < ${before}
        and request_id = ${id}
      offset 0
    ) as match
    where ${account_id}::float8 is null or accounts.account_id = ${account_id}::float8
    order by moment desc limit ${maxMatches}
  `)
})

const Chunk = Schema.Struct({
  /** Times of the batches and rows in the chunk that contain the id, newest first. */
  moments: Schema.Array(Schema.String),
  /** The oldest time in the chunk, or null if the chunk is empty. */
  oldest: Schema.NullOr(Schema.String),
  /** The day of `oldest` in New York. */
  oldest_day: Schema.NullOr(Schema.String),
  /** Whether the account has no usage in the searched range that is older than the chunk. */
  is_last: Schema.Boolean,
})

/**
 * Searches a chunk of an account's usage for an id: the newest `maxChunkRows` rows of `usage_batches` and `usage` from
 * `since` until before `before`. `with ties` adds rows with the same time as the chunk's oldest row, because the next
 * chunk ends before that time and would otherwise miss them.
 *
 * Returns the times of the rows that contain the id (`moments`), the time of the chunk's oldest row (`oldest`, and its
 * day in New York, `oldest_day`), and whether there are no older rows (`is_last`).
 */
const searchChunk = Effect.fnUntraced(
  function* (id: string, account_id: number, { before, since }: { readonly before: string; readonly since: string }) {
    const sql = yield* SqlClient.SqlClient
    const newest = sql.literal(`order by moment desc fetch first ${maxChunkRows} rows with ties`)
    // Not a prepared statement, because PostgreSQL's generic plan would sort all of the account's batches.
    const [chunk] = yield* decodeRows(Chunk)(
      sql`
      with batches as (
        select moment, ${makeMatchSql(sql, id)} as is_match from usage_batches
        where account_id = ${account_id}::float8::bigint and moment >= ${since}::text::timestamptz
          and moment < ${before}::text::timestamptz
        ${newest}
      ), refused as (
        -- The rows that count requests refused with 429.
        select requested_at as moment, request_id = ${id} as is_match from usage
        where account_id = ${account_id}::float8::bigint and requested_at >= ${since}::text::timestamptz
          and requested_at < ${before}::text::timestamptz
        ${newest}
      ), chunk as materialized (
        -- Only the newest rows of both tables combined, because beyond them, one table's rows may have been cut off.
        select * from (select * from batches union all select * from refused) as both_tables ${newest}
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

/**
 * Reads the requests with the given id from the batches and rows in which a search has found it. Returns the newest
 * requests first, at most `maxFoundRequests`. The statement's `matches` are the distinct accounts and times to read
 * from, and `found` are the requests with the id.
 */
const readRequests = Effect.fnUntraced(function* (id: string, matches: ReadonlyArray<Match>) {
  if (matches.length === 0) return []
  const sql = yield* SqlClient.SqlClient
  const accounts = makeArrayParameter(matches.map(({ account_id }) => account_id), OID.float8)
  const moments = makeArrayParameter(matches.map(({ moment }) => moment), OID.text)
  // `offset 0` makes both parts of `found` look up each batch or row individually. Without it, PostgreSQL might unpack
  // all batches.
  return yield* decodeRows(FoundRequest)(sql`
    with matches as materialized (
      select distinct account_id::bigint as account_id, moment::timestamptz as moment
      from unnest(${accounts}, ${moments}) as match (account_id, moment)
    ), found as materialized (
      select request.* from matches cross join lateral (
        select account_id, key_id, request_id, requested_at, endpoint, status_code, records_returned, bytes,
          cost_microdollars, price_per_gb_microdollars, duration_ms, cached, deprecated, via,
          1::bigint as request_count, writer, sequence
        from usage_batch_requests as request
        where request.account_id = matches.account_id and request.moment = matches.moment and request_id = ${id}
        offset 0
      ) as request
      union all
      -- The rows that count requests refused with 429, with the columns in the same order.
      select request.* from matches cross join lateral (
        select account_id, key_id, request_id, requested_at, endpoint, status_code, records_returned, bytes,
          -- These requests are free, so the price is 0. They are settled immediately, so they have no writer or
          -- sequence.
          cost_microdollars, 0, duration_ms, cached, deprecated, via, request_count, null::integer, null::integer
        from usage
        where usage.account_id = matches.account_id and requested_at = matches.moment and request_id = ${id}
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

/**
 * Returns midnight in New York at the start of a day, `daysLater` days after the given one, in a format that PostgreSQL
 * accepts.
 */
const formatMidnight = (day: string, daysLater: number) =>
  DateTime.makeUnsafe(`${day}T12:00:00Z`).pipe(DateTime.add({ days: daysLater }), DateTime.formatIsoDate) +
  " 00:00:00 America/New_York"

/**
 * Searches an account's usage in chunks, newest first. Ends when everything from `from` to `to` has been searched,
 * `maxFoundRequests` requests have been found, or the time limit is reached.
 *
 * Returns the requests found. `isStopped` is whether the time limit ended the search. In that case, all days after
 * `searchedBackTo` have been searched completely; it is undefined if not even one chunk has been.
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
      // Ignoring further matches loses nothing: `maxMatches` batches and rows contain more than `maxFoundRequests`
      // requests with the id, so the search ends after this chunk.
      const matches = moments.slice(0, maxMatches).map((moment) => ({ account_id, moment }))
      return Effect.map(readRequests(id, matches), (requests) => {
        found.push(...requests)
        // The next chunk contains only older usage. Without any rows, this chunk is the last one.
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

/**
 * Returns a message that explains why no account has a request with an id, given the time that the id contains: the
 * request is too recent, or too old, or there is no such request.
 */
const explainMissingRequest = Effect.fnUntraced(function* (id: string, time: number) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* Clock.currentTimeMillis
  const sentAt = new Date(time).toISOString()
  if (time <= now && now - time < recordingMillis) {
    return `The request ${id} is not recorded yet: it was sent within the last ten seconds. ${whenRecorded} ` +
      "Try again in a few seconds."
  }
  // The oldest partition of `usage_batches`, whose name ends with its month. Without partitions, both columns are null.
  const [retained] = yield* decodeRows(Retained)(sql`
    select replace(min(right(relname, 7)), '_', '-') as month,
      to_date(min(right(relname, 7)), 'YYYY_MM') at time zone 'UTC' > ${sentAt}::text::timestamptz as is_dropped
    from pg_inherits join pg_class on pg_class.oid = inhrelid where inhparent = 'usage_batches'::regclass
  `)
  if (retained?.is_dropped === true) {
    return `The request ${id} was sent at ${sentAt}, if its id is right. The usage of single requests begins with ` +
      `${retained.month}; USAGE_RETENTION sets how long it is kept. The daily sums remain.`
  }
  return `There is no request ${id}. The usage of all accounts was searched around ${sentAt}, the time in the id. ` +
    "Check that the id is right. Requests without a valid key, or to a path that is no endpoint, are not recorded. " +
    `${whenRecorded} ${throttledIds} The ids of erased accounts are removed. If a client has made the id with a ` +
    "wrong clock, add --account NAME."
})

/** Explains why an id cannot be searched for without an account. */
const explainUnsearchableId = (id: string) =>
  `The id ${id} does not contain the time of its request: a client has sent it, or it is shortened. Ids that the ` +
  "service makes have 36 characters, such as 01980b5e-7c1a-7003-9f3b-2a6d8c4e5f70. Give the complete id, or add " +
  "--account NAME to search the usage of one account, and --from DAY and --to DAY to search less."

/**
 * Returns the requests with the id, by searching one account, or all accounts (null), around the time contained in the
 * id. Fails if this takes longer than `timeLimit`.
 */
const searchAround = (id: string, time: number, account_id: number | null, timeLimit: Duration.Duration) =>
  Effect.flatMap(findMatchesAround(id, time, account_id), (matches) => readRequests(id, matches)).pipe(
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

/** Returns the account to search. Fails for an erased account, because its requests no longer have ids. */
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

/**
 * Searches one account's usage for an id, newest usage first. Without `from` and `to`, it searches back to the oldest
 * usage. After `timeLimit`, the search stops (`isStopped`). Fails if it has found nothing.
 */
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

/** Always fails. Without an account, an id can only be searched for around the time that it contains. */
const failWithoutAccount = Effect.fnUntraced(function* (id: string, time: number | undefined, hasDays: boolean) {
  if (time === undefined) return yield* new AccountRequired({ message: explainUnsearchableId(id) })
  if (hasDays) return yield* new AccountRequired({ message: "To search days, add --account NAME." })
  return yield* new RequestNotFound({ message: yield* explainMissingRequest(id, time) })
})

/**
 * Finds the requests with an id. If the id contains a time and no days are given, first searches around that time,
 * which is quick. If that finds nothing, searches all of the given account's usage, because a client with a wrong clock
 * may have chosen the id. Fails if nothing is found, with a message that explains why.
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
    // The operator may have named the wrong account, so also look for the id in all others.
    const [requestOfOther] = account === undefined ? [] : yield* searchAround(id, time, null, timeLimit)
    if (requestOfOther !== undefined) {
      return yield* new RequestNotFound({
        message: `The request ${id} is not of the account ${name}, but of ${requestOfOther.account}.`,
      })
    }
  }
  return account === undefined
    ? yield* failWithoutAccount(id, time, hasDays)
    : yield* findInAccount(search, account.account_id, timeLimit)
})
