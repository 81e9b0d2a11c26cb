import { Effect } from "effect"
import { HttpServerRequest } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../Api.ts"
import * as Revalidation from "../http/ConditionalRequests.ts"
import { BaseUrl } from "../http/Middleware.ts"
import { countRecords } from "../http/RequestContext.ts"
import { type ChangelogQuery, feedType } from "./Api.ts"
import { atom } from "./Atom.ts"
import { changelog } from "./Changelog.ts"
import { concerns, type Entry } from "./Entry.ts"

const chosen = ({ breaking, path, since, type }: ChangelogQuery): ReadonlyArray<Entry> =>
  changelog.filter((entry) =>
    (type === undefined || type.includes(entry.type)) &&
    (breaking === undefined || entry.breaking === breaking) &&
    (since === undefined || entry.date >= since) &&
    (path === undefined || concerns(entry, path))
  )

const respond = Effect.fnUntraced(function* (text: string, contentType: string) {
  const request = yield* HttpServerRequest.HttpServerRequest
  return Revalidation.conditional(new TextEncoder().encode(text), contentType, Revalidation.ofRelease)(request)
})

const searchOf = (query: ChangelogQuery) => {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) search.append(name, String(value))
  return search.toString()
}

export const layer = HttpApiBuilder.group(
  Api,
  "changelog",
  Effect.fnUntraced(function* (handlers) {
    const base = yield* BaseUrl
    return handlers.handleAll({
      list: Effect.fnUntraced(function* ({ query }) {
        const results = chosen(query)
        yield* countRecords(results.length)
        return yield* respond(JSON.stringify({ count: results.length, results }), "application/json")
      }),
      feed: ({ query }) => {
        const feed = atom(chosen(query), { base, search: searchOf(query), newest: changelog[0]?.date ?? "2026-11-01" })
        return respond(feed, feedType)
      },
    })
  }),
)
