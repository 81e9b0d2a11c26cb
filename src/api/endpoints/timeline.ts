/** Handles `GET /v1/timeline`. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { AdmittedRequest } from "../../query/EndpointHandler.ts"
import { canAccountUseEndpoint, type CurrentAccount } from "../../contract/Authentication.ts"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import { getDateInChicago } from "../../contract/rules/Dates.ts"
import { type AnnotatedEndpoint, getEndpointAccess } from "../../contract/rules/EndpointAnnotations.ts"
import {
  fullRowEndpointsByEventType,
  TimelineApiGroup,
  TimelineEvent,
  type TimelineEventType,
  timelineEventTypes,
  TimelineQuery,
} from "../../contract/endpoints/timeline.ts"
import { makeTimelineStatementBuilder } from "./TimelineSources.ts"

type Account = typeof CurrentAccount.Service

/**
 * Divides the requested event types into `types`, which the account may see, and `omitted`, which are left out of the
 * response. An account may see a type if it may use the endpoint with the full rows, given by `endpoints`.
 */
export const splitEventTypesByAccess = (
  account: Account,
  requested: typeof TimelineQuery.Type["types"] = timelineEventTypes,
  endpoints: Readonly<Record<TimelineEventType, AnnotatedEndpoint>> = fullRowEndpointsByEventType,
) => {
  const types = timelineEventTypes.filter((type) => requested.includes(type))
  const isAllowed = (type: TimelineEventType) => canAccountUseEndpoint(account, getEndpointAccess(endpoints[type]))
  return { types: types.filter(isAllowed), omitted: types.filter((type) => !isAllowed(type)) }
}

type Query = typeof TimelineQuery.Type

/** Handler for the timeline, which merges events from many tables into a single list. */
export const timelineHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeResolvedEndpoint } = yield* ListEndpointFactory

  /**
   * Adds to the query what depends on the account and the time. `types` are the requested types that the account may
   * see, and `allowed_types` all types that it may see, which apply if no types are requested. `sources` are the
   * endpoints with the full rows: only accounts that may use all of them may get the cached response.
   */
  const resolve = (query: Query, { account, now }: AdmittedRequest) => {
    const { omitted, types } = splitEventTypesByAccess(account, query.types)
    const headers: Record<string, string> = omitted.length === 0 ? {} : { "x-omitted-types": omitted.join(",") }
    return {
      query: {
        ...query,
        types: query.types === undefined ? undefined : types,
        allowed_types: splitEventTypesByAccess(account).types,
        today: getDateInChicago(now),
      },
      headers,
      sources: types.map((type) => getEndpointAccess(fullRowEndpointsByEventType[type])),
    }
  }

  const selectEvents = makeTimelineStatementBuilder(sql)
  const list = makeResolvedEndpoint(TimelineApiGroup.endpoints.list, TimelineQuery, resolve, {
    Query: TimelineQuery,
    Row: TimelineEvent,
    comparesPeriods: true,
    shapedBy: ["types", "allowed_types"],
    select: (query, clauses) => selectEvents({ ...query, types: query.types ?? query.allowed_types }, clauses),
  })
  return { list }
})
