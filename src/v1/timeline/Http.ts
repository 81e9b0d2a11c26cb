import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { canUseEndpoint, type CurrentAccount } from "../../accounts/keys/Authentication.ts"
import { RequestContext } from "../../http/RequestContext.ts"
import { ListEndpoints } from "../../lists/ListEndpoints.ts"
import { todayInChicago } from "../../rules/Dates.ts"
import { eventTypes, getEventAccess, TimelineApiGroup, TimelineEvent, TimelineQuery } from "./Api.ts"
import { makeTimelineSelect } from "./EventSources.ts"

type Account = typeof CurrentAccount.Service

/** Selects the requested types that the account may see. Names the others in a header. */
const selectTypes = (requested: typeof TimelineQuery.Type["types"] = eventTypes, account: Account) =>
  Effect.map(RequestContext, ({ response }) => {
    const access = eventTypes.filter((type) => requested.includes(type)).map((type) => {
      const endpoint = getEventAccess(type)
      return { type, endpoint, isAllowed: canUseEndpoint(account, endpoint) }
    })
    const omitted = access.filter(({ isAllowed }) => !isAllowed).map(({ type }) => type)
    if (omitted.length > 0) response.headers["X-Omitted-Types"] = omitted.join(",")
    response.sources = access.map(({ endpoint }) => endpoint)
    return access.filter(({ isAllowed }) => isAllowed).map(({ type }) => type)
  })

export const timelineEndpoints = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeResolvedEndpoint } = yield* ListEndpoints

  const resolve = Effect.fnUntraced(function* (query: typeof TimelineQuery.Type, account: Account) {
    const types = yield* selectTypes(query.types, account)
    const periods = [{ ticker: query.ticker, since: "-infinity", until: "infinity" }]
    return { ...query, types, periods, today: yield* todayInChicago }
  })

  return [
    makeResolvedEndpoint(TimelineApiGroup.endpoints.list, TimelineQuery, resolve, {
      Query: TimelineQuery,
      Row: TimelineEvent,
      shapedBy: ["types"],
      select: makeTimelineSelect(sql),
    }),
  ]
})
