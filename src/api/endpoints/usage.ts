/** Handles `GET /v1/usage` and `GET /v1/usage/daily`. */
import { Effect, flow, Option } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import type { ListClauses, ListQueryShape } from "../../query/lists/ListDefinition.ts"
import { ListEndpointFactory, type WithAccountId } from "../../query/lists/ListEndpoints.ts"
import { type ListStatementParameter, makeMidnightSql } from "../../query/lists/Conditions.ts"
import {
  DailyUsageQuery,
  DailyUsageRow,
  parseDailyUsageCursor,
  parseUsageCursor,
  UsageQuery,
  UsageRow,
} from "../../contract/endpoints/usage.ts"

type UsageShape = ListQueryShape<WithAccountId<typeof UsageQuery.Type>>

/** Handlers for an account's recorded requests and their daily totals. */
export const usageHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeAccountEndpoint } = yield* ListEndpointFactory

  const newestFirst = sql.literal(
    "requested_at desc, writer desc nulls last, sequence desc, part desc, place desc, usage_id desc",
  )
  const bigint = (number: ListStatementParameter<number>) => sql`${number.map(String)}::text::bigint`

  /**
   * A row's position in the list order, encoded as text, such as `1767225600000.3.17.0.4`. `parseUsageCursor` parses
   * it. `concat_ws` leaves out null, so it contains either the columns of a request in a batch, or the `usage_id` of a
   * row that counts requests refused with 429.
   */
  const position = sql`concat_ws('.', (extract(epoch from requested_at) * 1000)::bigint, writer, sequence, part, place,
    usage_id)`

  /**
   * Builds SQL that compares rows with the position `after`. Returns undefined if the list is read from the start.
   * Otherwise returns `moment`, the position's request time; `windowEnd`; `isPackedUpTo`, the condition that a request
   * in a batch is at the position or before it in the list; and `isUnpackedAfter`, the condition that a row counting
   * requests refused with 429 is after the position.
   */
  const makePositionSql = (after: UsageShape["after"]) => {
    if (after === undefined) return undefined
    const parsed = after.map(flow(parseUsageCursor, Option.getOrThrow))
    const moment = sql`${parsed.map(({ requested_at }) => requested_at)}::text::timestamptz`
    const packedPosition = [
      moment,
      ...(["writer", "sequence", "part", "place"] as const).map((name) =>
        sql`${parsed.map((position) => position[name])}::text::bigint`
      ),
    ]
    const usageId = sql`${parsed.map(({ usage_id }) => usage_id)}::text::uuid`
    return {
      moment,
      /**
       * The end of the time window that contains the position. Newer batches contain no requests that come after the
       * position in the list.
       */
      windowEnd: sql`usage_window(${moment}) + interval '5 seconds'`,
      // `>=`, because the list is in descending order.
      isPackedUpTo: sql`(requested_at, writer, sequence, part, place) >= (${sql.csv(packedPosition)})`,
      // Rows that count requests have no writer, and come after the requests of the same millisecond: `-1` is less than
      // any writer number. The first condition is redundant, but can use the index.
      isUnpackedAfter: sql`requested_at <= ${moment} and (requested_at, -1, 0, 0, 0, usage_id)
        < (${sql.csv([...packedPosition, usageId])})`,
    }
  }

  /**
   * Builds the request's conditions: `since` and `before` limit the time of a batch or row, and `filters` are
   * conditions on its columns. With a position to begin at, batches after the end of that position's window are left
   * out.
   */
  const makeRequestConditions = (
    { endpoint, requested_at_from, requested_at_to, status_code }: UsageShape,
    begin: ReturnType<typeof makePositionSql>,
  ) => {
    const since = requested_at_from === undefined
      ? sql`timestamptz '-infinity'`
      : makeMidnightSql(sql, requested_at_from)
    const beforeDay = requested_at_to === undefined
      ? sql`timestamptz 'infinity'`
      : sql`${makeMidnightSql(sql, requested_at_to)} + interval '24 hours'`
    const before = begin === undefined ? beforeDay : sql`least(${beforeDay}, ${begin.windowEnd})`
    const filters = [
      ...(endpoint === undefined ? [] : [sql`endpoint = any(${endpoint}::text[])`]),
      ...(status_code === undefined ? [] : [sql`status_code = any(${status_code}::text[]::smallint[])`]),
    ]
    return { since, before, filters }
  }

  /**
   * Builds the CTE `skipped`, which counts the requests up to the position `begin` in those batches that may contain
   * requests on both sides of it. These are the batches from the position's time until the end of its window.
   * The last argument of `find_usage_batches` is the greatest `bigint`: all batches are wanted.
   */
  const countSkipped = (
    begin: NonNullable<ReturnType<typeof makePositionSql>>,
    account_id: UsageShape["account_id"],
    kinds: Statement.Fragment,
    { before, filters, since }: ReturnType<typeof makeRequestConditions>,
  ) =>
    sql`
        skipped as materialized (
          -- A batch is unpacked only if its time range contains the time of the position.
          select coalesce(sum(
            case when moment - span_ms * interval '1 millisecond' > ${begin.moment} then requests else (
              select count(*) from usage_batch_requests as request
              where account_id = ${account_id} and request.moment = batch.moment
                and (request.writer, request.sequence, request.part) = (batch.writer, batch.sequence, batch.part)
                and ${sql.and([begin.isPackedUpTo, ...filters])}
            ) end
          ), 0)::bigint as requests
          from find_usage_batches(
            ${account_id}, ${kinds}, greatest(${since}, ${begin.moment}), ${before}, 9223372036854775807
          ) as batch
        ),`

  /**
   * Adds to each batch the range of list positions that its requests may have. `sources` contains the batches and the
   * rows that count requests refused with 429. `least_place` is the number of requests that certainly precede the
   * batch. `greatest_place` is the number of requests that may precede the batch's end. Because batches overlap, a
   * batch may be interleaved with all batches within the longest span.
   */
  const placedBatches = sql`
        longest as (
          select (coalesce(max(span_ms), 0) + 1) * interval '1 millisecond' as span from sources
        ), placed as (
          select sources.*, coalesce(sum(requests) over (
              order by moment desc range between unbounded preceding and (select span from longest) preceding
            ), 0) as least_place,
            sum(requests) over (
              order by moment desc range between unbounded preceding and (select span from longest) following
            ) as greatest_place
          from sources
        )`

  /**
   * Selects the individual requests of the batches in `shown`, and the rows in `shown` that count requests refused with
   * 429. The result also contains requests before and after the page, because a batch is unpacked completely. A union
   * matches columns by position, so the columns after `union all` must be in the order of `usage_batch_requests`.
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
   * - `placed`: `sources` with the range of list positions that their requests may have.
   * - `shown`: those of them that may contain requests of the page.
   * - `listed`: the requests in `shown`.
   *
   * `start` and `end` are positions counted from the newest request in `batches` and `counts`.
   */
  const select = (query: UsageShape, { columns, end: pageEnd, limit, offset }: ListClauses) => {
    const { account_id, after } = query
    const begin = makePositionSql(after)
    const conditions = makeRequestConditions(query, begin)
    const { before, filters, since } = conditions
    // The ids of the request kinds that match the filters. Null: no filter, so all kinds match.
    const kinds = filters.length === 0
      ? sql`null::integer[]`
      : sql`array(select kind_id from usage_request_kinds where ${sql.and(filters)})`
    const skipped = begin === undefined ? sql.literal("") : countSkipped(begin, account_id, kinds, conditions)
    const start = begin === undefined ? bigint(offset) : sql`(select requests from skipped)`
    const end = begin === undefined ? bigint(pageEnd) : sql`(${start} + ${bigint(pageEnd)})`
    return sql`
        with ${skipped} batches as materialized (
          select * from find_usage_batches(${account_id}, ${kinds}, ${since}, ${before}, ${end})
        ), counts as materialized (
          -- Counts of requests refused with 429.
          select requested_at, usage_id from usage
          where ${
      sql.and([
        sql`account_id = ${account_id} and requested_at >= ${since} and requested_at < ${before}`,
        ...(begin === undefined ? [] : [begin.isUnpackedAfter]),
        ...filters,
      ])
    }
          order by requested_at desc, usage_id desc limit ${end}
        ), sources as (
          select moment, span_ms, requests, writer, sequence, part, null::uuid as usage_id from batches
          union all
          select requested_at, 0, 1, null, null, null, usage_id from counts
        ), ${placedBatches}, shown as materialized (
          select * from placed where least_place < ${end} and greatest_place > ${start}
        ), listed as (${listShownRequests(account_id, filters)}
        )
        select ${columns}
        from (
          select * from listed
          order by ${newestFirst}
          limit ${limit} offset ${start} - (
            -- The requests in batches before the page, which are not in listed.
            select coalesce(sum(requests), 0)::bigint from placed where greatest_place <= ${start}
          )
        ) as usage cross join lateral (
          select (select key_hint from api_keys where api_keys.key_id = usage.key_id) as key_hint
        ) as key
        order by ${newestFirst}
      `
  }

  const list = makeAccountEndpoint(UsageQuery, { Row: UsageRow, position, select })

  const listDaily = makeAccountEndpoint(DailyUsageQuery, {
    Query: DailyUsageQuery,
    Row: DailyUsageRow,
    position: sql`to_char(usage_date, 'YYYY-MM-DD') || endpoint`,
    // With `after`, selects the rows after that position: earlier days, and later endpoints of the same day.
    select: ({ account_id, after }, { columns, conditions, orderAndLimit }) => {
      const begin = after?.map(flow(parseDailyUsageCursor, Option.getOrThrow))
      const day = begin?.map(({ usage_date }) => usage_date)
      const isAfter = begin === undefined ? [] : [sql`usage_date <= ${day}::text::date
        and (usage_date < ${day}::text::date or endpoint > ${begin.map(({ endpoint }) => endpoint)}::text)`]
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
