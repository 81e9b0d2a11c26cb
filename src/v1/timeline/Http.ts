/** Handles `GET /v1/timeline`. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { canAccountUseEndpoint, type CurrentAccount } from "../../accounts/keys/Authentication.ts"
import { RequestContext } from "../../http/RequestContext.ts"
import { ListEndpointFactory } from "../../lists/ListEndpoints.ts"
import { todayInChicago } from "../../rules/Dates.ts"
import { getEndpointAccess } from "../../rules/EndpointAnnotations.ts"
import {
  fullRowEndpointsByEventType,
  TimelineApiGroup,
  TimelineEvent,
  type TimelineEventType,
  timelineEventTypes,
  TimelineQuery,
} from "./Api.ts"
import { makeTimelineStatementBuilder } from "./EventSources.ts"

type Account = typeof CurrentAccount.Service

/** Splits the requested types into those whose endpoint the account may use, and those that are omitted. */
export const splitEventTypesByAccess = (
  account: Account,
  requested: typeof TimelineQuery.Type["types"] = timelineEventTypes,
  endpoints = fullRowEndpointsByEventType,
) => {
  const types = timelineEventTypes.filter((type) => requested.includes(type))
  const isAllowed = (type: TimelineEventType) => canAccountUseEndpoint(account, getEndpointAccess(endpoints[type]))
  return { types: types.filter(isAllowed), omitted: types.filter((type) => !isAllowed(type)) }
}

type Query = typeof TimelineQuery.Type

export const timelineEndpoints = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeResolvedEndpoint } = yield* ListEndpointFactory

  const resolve = Effect.fnUntraced(function* (query: Query, account: Account) {
    const { response } = yield* RequestContext
    const { omitted, types } = splitEventTypesByAccess(account, query.types)
    if (omitted.length > 0) response.headers["X-Omitted-Types"] = omitted.join(",")
    response.sources = types.map((type) => getEndpointAccess(fullRowEndpointsByEventType[type]))
    return { ...query, types, today: yield* todayInChicago }
  })

  return [makeResolvedEndpoint(TimelineApiGroup.endpoints.list, TimelineQuery, resolve, {
    Query: TimelineQuery,
    Row: TimelineEvent,
    comparesPeriods: true,
    shapedBy: ["types"],
    select: makeTimelineStatementBuilder(sql),
  })]
})
