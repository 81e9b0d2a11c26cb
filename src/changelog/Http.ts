/** Handles `GET /v1/changelog` and `GET /v1/changelog.atom`. */
import { Effect } from "effect"
import { HttpServerRequest } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { PublicApi } from "../Api.ts"
import * as ConditionalRequests from "../http/ConditionalRequests.ts"
import { BaseUrl } from "../http/BaseUrl.ts"
import { setRecordCount } from "../http/RequestContext.ts"
import { atomContentType, type ChangelogQuery } from "./Api.ts"
import { renderAtomFeed } from "./AtomFeed.ts"
import { changelogEntries } from "./Changelog.ts"
import { type ChangelogEntry, doesEntryAffectPath } from "./ChangelogEntry.ts"

const filterEntries = ({ breaking, path, since, type }: ChangelogQuery): ReadonlyArray<ChangelogEntry> =>
  changelogEntries.filter((entry) =>
    (type === undefined || type.includes(entry.type)) &&
    (breaking === undefined || entry.breaking === breaking) &&
    (since === undefined || entry.date >= since) &&
    (path === undefined || doesEntryAffectPath(entry, path))
  )

const respond = Effect.fnUntraced(function* (text: string, contentType: string) {
  const request = yield* HttpServerRequest.HttpServerRequest
  return ConditionalRequests.makeStaticBodyResponder(
    new TextEncoder().encode(text),
    contentType,
    ConditionalRequests.staticCacheHeaders,
  )(request)
})

const toQueryString = (query: ChangelogQuery) => {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) search.append(name, String(value))
  return search.toString()
}

export const changelogHandlers = HttpApiBuilder.group(
  PublicApi,
  "changelog",
  Effect.fnUntraced(function* (handlers) {
    const baseUrl = yield* BaseUrl
    return handlers.handleAll({
      list: Effect.fnUntraced(function* ({ query }) {
        const results = filterEntries(query)
        yield* setRecordCount(results.length)
        return yield* respond(JSON.stringify({ count: results.length, results }), "application/json")
      }),
      feed: ({ query }) => {
        const feed = renderAtomFeed(filterEntries(query), {
          baseUrl,
          search: toQueryString(query),
          newestDate: changelogEntries[0]?.date ?? "2026-11-01",
        })
        return respond(feed, atomContentType)
      },
    })
  }),
)
