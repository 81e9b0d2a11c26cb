/** Handles `GET /v1/usage` and `GET /v1/usage/daily`. */
import { Effect, flow, Option } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import type { ListClauses, ListQueryShape } from "../../query/lists/ListDefinition.ts"
import { ListEndpointFactory, type WithAccountId } from "../../query/lists/ListEndpoints.ts"
import { type ListStatementParameter, makeMidnightSql } from "../../query/lists/FilterConditions.ts"
import {
  DailyUsageQuery,
  DailyUsageRow,
  parseDailyUsageCursor,
  parseUsageCursor,
  UsageQuery,
  UsageRow,
} from "../../contract/endpoints/usage.ts"

/**
 * The query of `/v1/usage` while its statement is compiled. Each parameter is an SQL parameter, and undefined if it was
 * not sent.
 */
type UsageShape = ListQueryShape<WithAccountId<typeof UsageQuery.Type>>

/**
 * Handlers for an account's recorded requests and their daily totals. Requests are stored in two ways: packed, many to
 * a row of `usage_batches` (docs/decisions/0160-usage-in-batches.md), and as rows of `usage`, each of which counts
 * requests refused with 429. The list of requests merges both.
 */
export const usageHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeAccountEndpoint } = yield* ListEndpointFactory

  /**
   * The order of the list. A packed request is identified by the batch (`writer`, `sequence` and `part`) and by its
   * `place` in the batch. These columns are null in a row that counts refused requests, which has a `usage_id` instead.
   */
  const newestFirst = sql.literal(
    "requested_at desc, writer desc nulls last, sequence desc, part desc, place desc, usage_id desc",
  )
  /** Passes a number to PostgreSQL as text, because the range of a page may exceed an `integer`. */
  const bigint = (number: ListStatementParameter<number>) => sql`${number.map(String)}::text::bigint`

  /**
   * A row's position in the list order, encoded as text, such as `1767225600000.3.17.0.4`. `parseUsageCursor` parses
   * it. `concat_ws` leaves out null, so it contains either the columns of a request in a batch, or the `usage_id` of a
   * row that counts requests refused with 429.
   */
  const positionText =
    sql`concat_ws('.', (extract(epoch from requested_at) * 1000)::bigint, writer, sequence, part, place,
    usage_id)`

  /**
   * Builds SQL that compares rows with the position `after`. Returns undefined if the list is read from the start.
   */
  const makePositionSql = (after: UsageShape["after"]) => {
    if (after === undefined) return undefined
    const parsed = after.map(flow(parseUsageCursor, Option.getOrThrow))
    const requestedAt = sql`${parsed.map(({ requested_at }) => requested_at)}::text::timestamptz`
    const packedPosition = [
      requestedAt,
      ...(["writer", "sequence", "part", "place"] as const).map((name) =>
        sql`${parsed.map((position) => position[name])}::text::bigint`
      ),
    ]
    const usageId = sql`${parsed.map(({ usage_id }) => usage_id)}::text::uuid`
    return {
      /** The time of the request at the position. */
      requestedAt,
      /**
       * The end of the time window that contains the position. Newer batches contain no requests that come after the
       * position in the list.
       */
      windowEnd: sql`usage_window(${requestedAt}) + interval '5 seconds'`,
      /**
       * The condition that a packed request is at the position or before it in the list. It uses `>=`, because the list
       * is in descending order.
       */
      isPackedUpTo: sql`(requested_at, writer, sequence, part, place) >= (${sql.csv(packedPosition)})`,
      /**
       * The condition that a row counting refused requests is after the position. Such rows have no writer, and come
       * after the packed requests of the same millisecond: `-1` is less than any writer number. The comparison of
       * `requested_at` alone is redundant, but can use the index.
       */
      isUnpackedAfter: sql`requested_at <= ${requestedAt} and (requested_at, -1, 0, 0, 0, usage_id)
        < (${sql.csv([...packedPosition, usageId])})`,
    }
  }

  /**
   * Builds the conditions for the parameters of the request: `since` (inclusive) and `before` (exclusive) limit the
   * time of a batch or row, and `filters` are conditions on the columns of a request. With `after`, batches after the
   * end of that position's window are left out: they contain only requests before the position.
   */
  const makeRequestConditions = (
    { endpoint, requested_at_from, requested_at_to, status_code }: UsageShape,
    after: ReturnType<typeof makePositionSql>,
  ) => {
    const since = requested_at_from === undefined
      ? sql`timestamptz '-infinity'`
      : makeMidnightSql(sql, requested_at_from)
    const beforeDay = requested_at_to === undefined
      ? sql`timestamptz 'infinity'`
      : sql`${makeMidnightSql(sql, requested_at_to)} + interval '24 hours'`
    const before = after === undefined ? beforeDay : sql`least(${beforeDay}, ${after.windowEnd})`
    const filters = [
      ...(endpoint === undefined ? [] : [sql`endpoint = any(${endpoint}::text[])`]),
      ...(status_code === undefined ? [] : [sql`status_code = any(${status_code}::text[]::smallint[])`]),
    ]
    return { since, before, filters }
  }

  /**
   * Builds the CTE `skipped`, whose only row contains the number of requests up to the position `after` (`requests`),
   * in those batches that may contain requests on both sides of it. These are the batches from the position's time
   * until the end of its window. In a row of `find_usage_batches`, `moment` is the time of the batch's newest request,
   * and `span_ms` the time between its oldest and its newest request. The function's last argument is the number of
   * requests for which to find batches, here the greatest `bigint`: all batches are wanted.
   */
  const countSkipped = (
    after: NonNullable<ReturnType<typeof makePositionSql>>,
    account_id: UsageShape["account_id"],
    kinds: Statement.Fragment,
    { before, filters, since }: ReturnType<typeof makeRequestConditions>,
  ) =>
    sql`
        skipped as materialized (
          -- All requests of a batch that is newer than the position come before it. Any other batch is unpacked, and
          -- its requests up to the position are counted.
          select coalesce(sum(
            case when moment - span_ms * interval '1 millisecond' > ${after.requestedAt} then requests else (
              select count(*) from usage_batch_requests as request
              where account_id = ${account_id} and request.moment = batch.moment
                and (request.writer, request.sequence, request.part) = (batch.writer, batch.sequence, batch.part)
                and ${sql.and([after.isPackedUpTo, ...filters])}
            ) end
          ), 0)::bigint as requests
          from find_usage_batches(
            ${account_id}, ${kinds}, greatest(${since}, ${after.requestedAt}), ${before}, 9223372036854775807
          ) as batch
        ),`

  /**
   * Builds the CTE `positioned`, which adds to each row of `sources` the range of list positions that its requests may
   * have. `sources` contains the batches and the rows that count refused requests. `min_position` is the number of
   * requests that certainly precede the batch, and `max_position` the number of requests that may precede the batch's
   * end. For example, requests of the first batch may have the positions from 0 to the number of requests in all
   * batches that overlap it. Because batches overlap, a batch may be interleaved with all batches within the longest
   * span.
   */
  const positionedSources = sql`
        longest as (
          select (coalesce(max(span_ms), 0) + 1) * interval '1 millisecond' as span from sources
        ), positioned as (
          select sources.*, coalesce(sum(requests) over (
              order by moment desc range between unbounded preceding and (select span from longest) preceding
            ), 0) as min_position,
            sum(requests) over (
              order by moment desc range between unbounded preceding and (select span from longest) following
            ) as max_position
          from sources
        )`

  /**
   * Selects the individual requests of the batches in `shown`, and the rows in `shown` that count refused requests. The
   * result also contains requests before and after the page, because a batch is unpacked completely. A union matches
   * columns by position, so the columns after `union all` must be in the order of `usage_batch_requests`, followed by
   * `request_count` and `usage_id`.
   */
  const listShownRequests = (account_id: UsageShape["account_id"], filters: ReadonlyArray<Statement.Fragment>) =>
    sql`
          select request.*, 1::bigint as request_count, null::uuid as usage_id
          from shown cross join lateral (
            select * from usage_batch_requests as request
            where account_id = ${account_id} and request.moment = shown.moment
              and (request.writer, request.sequence, request.part) = (shown.writer, shown.sequence, shown.part)
            -- Without this, PostgreSQL could flatten the subquery, and unpack batches that are not in shown.
            offset 0
          ) as request
          where ${sql.and([sql`true`, ...filters])}
          union all
          select account_id, moment, null, null, null, null, requested_at, key_id, request_id, endpoint, status_code,
            records_returned, bytes, cost_microdollars, duration_ms, cached, deprecated, via,
            null, null, request_count, usage.usage_id
          from shown join usage on account_id = ${account_id} and requested_at = moment
            and usage.usage_id = shown.usage_id`

  /**
   * Builds the statement that selects a page, with one row per request. Batches in the same window overlap, so the
   * page's first and last requests may be in any batch whose range of possible positions includes theirs
   * (docs/decisions/0160-usage-in-batches.md). With `after`, the batches start with the window that contains that
   * position, and the requests up to the position are skipped. The CTEs:
   *
   * - `skipped`: the number of requests in `batches` up to the position `after`; only with `after`.
   * - `batches`: the account's newest batches, until they contain enough requests for the end of the page.
   * - `counts`: the account's newest rows that count requests refused with 429.
   * - `sources`: the rows of both.
   * - `positioned`: `sources` with the range of list positions that their requests may have.
   * - `shown`: those of them that may contain requests of the page.
   * - `unpacked`: the requests in `shown`, one per row.
   *
   * `start` and `end` are the positions of the page's first request and of the first one after the page, counted from
   * the newest request in `batches` and `counts`, which has the position 0.
   */
  const select = (query: UsageShape, { columns, end: pageEnd, limit, offset }: ListClauses) => {
    const { account_id, after } = query
    const position = makePositionSql(after)
    const conditions = makeRequestConditions(query, position)
    const { before, filters, since } = conditions
    // The ids of the request kinds that match the filters. Null: no filter, so all kinds match.
    const kinds = filters.length === 0
      ? sql`null::integer[]`
      : sql`array(select kind_id from usage_request_kinds where ${sql.and(filters)})`
    const skipped = position === undefined ? sql.literal("") : countSkipped(position, account_id, kinds, conditions)
    const start = position === undefined ? bigint(offset) : sql`(select requests from skipped)`
    const end = position === undefined ? bigint(pageEnd) : sql`(${start} + ${bigint(pageEnd)})`
    return sql`
        with ${skipped} batches as materialized (
          select * from find_usage_batches(${account_id}, ${kinds}, ${since}, ${before}, ${end})
        ), counts as materialized (
          -- Counts of requests refused with 429.
          select requested_at, usage_id from usage
          where ${
      sql.and([
        sql`account_id = ${account_id} and requested_at >= ${since} and requested_at < ${before}`,
        ...(position === undefined ? [] : [position.isUnpackedAfter]),
        ...filters,
      ])
    }
          order by requested_at desc, usage_id desc limit ${end}
        ), sources as (
          select moment, span_ms, requests, writer, sequence, part, null::uuid as usage_id from batches
          union all
          select requested_at, 0, 1, null, null, null, usage_id from counts
        ), ${positionedSources}, shown as materialized (
          select * from positioned where min_position < ${end} and max_position > ${start}
        ), unpacked as (${listShownRequests(account_id, filters)}
        )
        select ${columns}
        from (
          select * from unpacked
          order by ${newestFirst}
          limit ${limit} offset ${start} - (
            -- The requests in batches before the page, which are not in unpacked.
            select coalesce(sum(requests), 0)::bigint from positioned where max_position <= ${start}
          )
        ) as usage cross join lateral (
          select (select key_hint from api_keys where api_keys.key_id = usage.key_id) as key_hint
        ) as key
        order by ${newestFirst}
      `
  }

  const list = makeAccountEndpoint(UsageQuery, { Row: UsageRow, position: positionText, select })

  const listDaily = makeAccountEndpoint(DailyUsageQuery, {
    Query: DailyUsageQuery,
    Row: DailyUsageRow,
    position: sql`to_char(usage_date, 'YYYY-MM-DD') || endpoint`,
    // With `after`, selects the rows after that position: earlier days, and later endpoints of the same day.
    select: ({ account_id, after }, { columns, conditions, orderAndLimit }) => {
      const afterPosition = after?.map(flow(parseDailyUsageCursor, Option.getOrThrow))
      const day = afterPosition?.map(({ usage_date }) => usage_date)
      const isAfter = afterPosition === undefined ? [] : [sql`usage_date <= ${day}::text::date
        and (usage_date < ${day}::text::date or endpoint > ${afterPosition.map(({ endpoint }) => endpoint)}::text)`]
      return sql`
          select ${columns}
          from usage_totals
          where ${sql.and([sql`account_id = ${account_id}`, ...conditions, ...isAfter])}
          ${orderAndLimit(sql`usage_date desc, endpoint`)}
        `
    },
  })

  return { list, listDaily }
})
