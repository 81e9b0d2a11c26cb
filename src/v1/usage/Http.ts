/** Handles `GET /v1/usage` and `GET /v1/usage/daily`. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ListClauses, ListQueryShape } from "../../lists/ListQuery.ts"
import { ListEndpointFactory, type WithAccountId } from "../../lists/ListEndpoints.ts"
import { type ListStatementParameter, makeFilterConditionBuilders } from "../../lists/Conditions.ts"
import { DailyUsageQuery, DailyUsageRow, UsageQuery, UsageRow } from "./Api.ts"

type UsageShape = ListQueryShape<WithAccountId<typeof UsageQuery.Type>>
type Days = Pick<UsageShape, "requested_at_from" | "requested_at_to">

export const usageHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeAccountEndpoint } = yield* ListEndpointFactory
  const { fromDayOfInstant, toDayOfInstant } = makeFilterConditionBuilders(sql)

  const days = (column: string, { requested_at_from, requested_at_to }: Days) => [
    ...(requested_at_from === undefined ? [] : fromDayOfInstant(column, requested_at_from)),
    ...(requested_at_to === undefined ? [] : toDayOfInstant(column, requested_at_to)),
  ]

  const key = sql`
      cross join lateral (
        select (select key_hint from api_keys where api_keys.key_id = usage.key_id) as key_hint
      ) as key
    `
  // Release 0.2 also recorded `cached` for a hit in the cache that all accounts share.
  const usageColumns = sql.literal(`usage_id, requested_at, account_id, key_id, request_id, endpoint, status_code,
    records_returned, bytes, cost_microdollars, duration_ms, cached and status_code = 304 as cached, deprecated, via,
    request_count`)
  const bigint = (number: ListStatementParameter<number>) => sql`${number.map(String)}::text::bigint`
  const latestFirst = sql`requested_at desc, usage_id desc`

  const selectAll = ({ account_id, ...query }: UsageShape, { columns, fromPage, orderBy }: ListClauses) => {
    const page = fromPage({
      table: "usage",
      key: ["account_id", "requested_at", "usage_id"],
      where: sql.and([sql`account_id = ${account_id}`, ...days("requested_at", query)]),
      order: latestFirst,
    })
    return sql`
        select ${columns}
        from (select ${usageColumns} from ${page}) as usage ${key}
        ${orderBy(latestFirst)}
      `
  }

  /**
   * Selects a page filtered by endpoint or status. No index on `usage` supports these filters, but `usage_moments` has
   * the number of rows per 100 ms, so only the page's intervals are read (docs/decisions/0053-usage-filters.md).
   */
  const selectFiltered = (
    { account_id, endpoint, status_code, ...query }: UsageShape,
    { columns, end, limit, offset }: ListClauses,
  ) => {
    const start = bigint(offset)
    const conditions = [
      sql`account_id = ${account_id}`,
      ...(endpoint === undefined ? [] : [sql`endpoint = any(${endpoint}::text[])`]),
      ...(status_code === undefined ? [] : [sql`status_code = any(${status_code}::text[]::smallint[])`]),
    ]
    return sql`
        with counted as (
          select moment, sum(noted.requests) as requests
          from (select account_id, endpoint, status_code from usage_kinds where ${sql.and(conditions)}) as kind
          cross join lateral (
            select moment, requests from usage_moments
            where ${
      sql.and([
        sql`account_id = kind.account_id and endpoint = kind.endpoint and status_code = kind.status_code`,
        ...days("moment", query),
      ])
    }
            order by moment desc limit ${bigint(end)}
          ) as noted
          group by moment
        ), placed as (
          select moment, sum(requests) over (order by moment desc) - requests as before, requests from counted
        ), shown as materialized (
          select moment, before from placed
          where before + requests > ${start} and before < ${end}
        )
        select ${columns}
        from shown cross join lateral (
          select ${usageColumns} from usage
          where ${
      sql.and([...conditions, sql`requested_at >= moment and requested_at < moment + interval '100 milliseconds'`])
    }
          -- The offset keeps PostgreSQL from scanning all rows instead of the intervals.
          offset 0
        ) as usage ${key}
        order by ${latestFirst}
        limit ${limit} offset ${start} - (select coalesce(min(before), ${start}) from shown)
      `
  }

  const list = makeAccountEndpoint(UsageQuery, {
    Row: UsageRow,
    select: (query, clauses) =>
      query.endpoint === undefined && query.status_code === undefined
        ? selectAll(query, clauses)
        : selectFiltered(query, clauses),
  })

  const listDaily = makeAccountEndpoint(DailyUsageQuery, {
    Query: DailyUsageQuery,
    Row: DailyUsageRow,
    select: ({ account_id }, { columns, conditions, orderAndLimit }) =>
      sql`
          select ${columns}
          from usage_daily
          where ${sql.and([sql`account_id = ${account_id}`, ...conditions])}
          ${orderAndLimit(sql`usage_date desc, endpoint`)}
        `,
  })

  return { list, listDaily }
})
