import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { canUseEndpoint, type CurrentAccount } from "../../accounts/keys/Authentication.ts"
import { RequestContext, setResponseHeaders } from "../../http/RequestContext.ts"
import type { PipelineEndpoint } from "../../http/RequestPipeline.ts"
import { formatLineage } from "../../lineage/Lineage.ts"
import { LineageResolver } from "../../lineage/LineageResolver.ts"
import { ListEndpoints } from "../../lists/ListEndpoints.ts"
import { addColumns } from "../../rows/RowEncoder.ts"
import { todayInChicago } from "../../rules/Dates.ts"
import { getEndpointAccess } from "../../rules/EndpointAnnotations.ts"
import { eventEndpoints, type EventType, eventTypes, TimelineApiGroup, TimelineEvent, TimelineQuery } from "./Api.ts"
import { type EventPeriod, makeTimelineSelect } from "./EventSources.ts"

type Account = typeof CurrentAccount.Service

const always = { from: "-infinity", until: "infinity" }

/** Splits the requested types into those whose endpoint the account may use, and the others. */
export const splitTypesByAccess = (
  account: Account,
  requested: typeof TimelineQuery.Type["types"] = eventTypes,
  endpoints = eventEndpoints,
) => {
  const types = eventTypes.filter((type) => requested.includes(type))
  const isAllowed = (type: EventType) => canUseEndpoint(account, getEndpointAccess(endpoints[type]))
  return { types: types.filter(isAllowed), omitted: types.filter((type) => !isAllowed(type)) }
}

type Query = typeof TimelineQuery.Type

export const timelineEndpoints = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeResolvedEndpoint } = yield* ListEndpoints
  const lineages = yield* LineageResolver

  const resolveTypes = ({ types: requested }: Query, account: Account) =>
    Effect.map(RequestContext, ({ response }) => {
      const { omitted, types } = splitTypesByAccess(account, requested)
      if (omitted.length > 0) response.headers["X-Omitted-Types"] = omitted.join(",")
      response.sources = types.map((type) => getEndpointAccess(eventEndpoints[type]))
      return types
    })

  const resolve = Effect.fnUntraced(function* (query: Query, account: Account) {
    const periods: ReadonlyArray<EventPeriod> = [{ ticker: query.ticker, ...always }]
    const types = yield* resolveTypes(query, account)
    return { query: { ...query, types, periods, today: yield* todayInChicago }, isCurrent: () => true }
  })

  const resolveFollowed = Effect.fnUntraced(function* (query: Query, account: Account) {
    const { isCurrent, lineages: [lineage] } = yield* lineages.resolve([query])
    const types = yield* resolveTypes(query, account)
    yield* setResponseHeaders({ "X-Lineage": formatLineage(lineage) })
    const periods: ReadonlyArray<EventPeriod> = lineage.periods.map((period) => ({ ...always, ...period }))
    const { current_ticker: lineage_ticker } = lineage
    return { query: { ...query, types, periods, lineage_ticker, today: yield* todayInChicago }, isCurrent }
  })

  const { list: endpoint } = TimelineApiGroup.endpoints
  const list = { Query: TimelineQuery, shapedBy: ["types"], select: makeTimelineSelect(sql) } as const
  const followed = makeResolvedEndpoint(endpoint, TimelineQuery, resolveFollowed, {
    ...list,
    Row: addColumns(TimelineEvent, ["lineage_ticker"]),
  })
  const plain = makeResolvedEndpoint(endpoint, TimelineQuery, resolve, { ...list, Row: TimelineEvent })
  const decode: PipelineEndpoint["decode"] = (parameters) =>
    (parameters["follow_lineage"] === "true" ? followed : plain).decode(parameters)

  return [{ path: endpoint.path, decode }]
})
