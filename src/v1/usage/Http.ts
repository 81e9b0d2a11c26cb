import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Account } from "../../accounts/keys/Authentication.ts"
import { Api } from "../../Api.ts"
import { makePageFragment } from "../../lists/DeepPages.ts"
import { makeListQueryFactory, type PageClauses } from "../../lists/ListQuery.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { compileConditions, makeColumnConditions } from "../../lists/Conditions.ts"
import { DailyUsageQuery, DailyUsageRow, UsageQuery, UsageRow } from "./Api.ts"

/** An account sees only its own. */
interface Own {
  readonly account_id: number
}

type Days = Pick<typeof UsageQuery.Type, "requested_at_from" | "requested_at_to">

export const usageHandlers = HttpApiBuilder.group(
  Api,
  "usage",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* makeListQueryFactory
    const { makeAccountHandler: own } = yield* ListHandlers
    const { fromDayOfInstant, oneOf, toDayOfInstant } = makeColumnConditions(sql)
    const wantedDays = compileConditions(sql, DailyUsageQuery, {})
    const rows = makePageFragment(sql)

    const days = (column: string, { requested_at_from, requested_at_to }: Days) => [
      ...(requested_at_from === undefined ? [] : fromDayOfInstant(column, requested_at_from)),
      ...(requested_at_to === undefined ? [] : toDayOfInstant(column, requested_at_to)),
    ]

    const key = sql`
      cross join lateral (
        select (select key_hint from api_keys where api_keys.key_id = usage.key_id) as key_hint
      ) as key
    `
    const whole = (number: number) => sql`${String(number)}::text::bigint`
    const latestFirst = sql`requested_at desc, usage_id desc`

    const every = ({ account_id, ...query }: Days & Own, slice: PageClauses) =>
      sql`
        select ${slice.columns}
        from (
          select * from ${
        rows({
          table: "usage",
          key: ["account_id", "requested_at", "usage_id"],
          where: sql.and([
            sql`account_id = ${account_id}`,
            ...days("requested_at", query),
          ]),
          order: latestFirst,
          slice,
        })
      }
        ) as usage ${key}
        ${slice.orderBy(latestFirst)}
      `

    /**
     * Rows have no index for this: when there were any is looked up, and how many, and only the moments of the page
     * are read. As many moments of each kind as the page ends after have rows enough.
     */
    const some = (
      { account_id, endpoint, status_code, ...query }: typeof UsageQuery.Type & Own,
      slice: PageClauses,
    ) => {
      const [start, end] = [whole(slice.offset), whole(slice.offset + slice.limit)]
      const own = [
        sql`account_id = ${account_id}`,
        ...(endpoint === undefined ? [] : oneOf("endpoint", endpoint)),
        ...(status_code === undefined ? [] : [sql`status_code = any(${status_code}::text[]::smallint[])`]),
      ]
      return sql`
        with counted as (
          select moment, sum(noted.requests) as requests
          from (select account_id, endpoint, status_code from usage_kinds where ${sql.and(own)}) as kind
          cross join lateral (
            select moment, requests from usage_moments
            where ${
        sql.and([
          sql`account_id = kind.account_id and endpoint = kind.endpoint and status_code = kind.status_code`,
          ...days("moment", query),
        ])
      }
            order by moment desc limit ${end}
          ) as noted
          group by moment
        ), placed as (
          select moment, sum(requests) over (order by moment desc) - requests as before, requests from counted
        ), shown as materialized (
          select moment, before from placed
          where before + requests > ${start} and before < ${end}
        )
        select ${slice.columns}
        from shown cross join lateral (
          select * from usage
          where ${
        sql.and([...own, sql`requested_at >= moment and requested_at < moment + interval '100 milliseconds'`])
      }
          -- Keeps PostgreSQL from reading all rows to look for the moment of each.
          offset 0
        ) as usage ${key}
        order by ${latestFirst}
        limit ${whole(slice.limit)} offset ${start} - (select coalesce(min(before), ${start}) from shown)
      `
    }

    const page = own(list({
      Row: UsageRow,
      execute: (query: typeof UsageQuery.Type & Own, slice) =>
        query.endpoint === undefined && query.status_code === undefined ? every(query, slice) : some(query, slice),
    }))

    const pageDaily = own(list({
      Row: DailyUsageRow,
      execute: ({ account_id, ...query }: typeof DailyUsageQuery.Type & Own, slice) =>
        sql`
          select ${slice.columns}
          from usage_daily
          where ${sql.and([sql`account_id = ${account_id}`, ...wantedDays(query)])}
          ${slice.orderAndLimit(sql`usage_date desc, endpoint`)}
        `,
    }))

    return handlers
      .handle(
        "list",
        Effect.fnUntraced(function* ({ query }) {
          const { account_id } = yield* Account
          return yield* page({ ...query, account_id })
        }),
      )
      .handle(
        "listDaily",
        Effect.fnUntraced(function* ({ query }) {
          const { account_id } = yield* Account
          return yield* pageDaily({ ...query, account_id })
        }),
      )
  }),
)
