import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../Api.ts"
import * as Revalidation from "../cache/Revalidation.ts"
import { BaseUrl } from "../Edge.ts"
import type { ChangelogQuery } from "./Api.ts"
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

/** It changes with a release of the service only, and is the same for all. */
const shared = "public, max-age=300"

const respond = (text: string, contentType: string) =>
  Revalidation.respond(new TextEncoder().encode(text), { contentType, cacheControl: shared })

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
      list: ({ query }) => {
        const results = chosen(query)
        return respond(JSON.stringify({ count: results.length, results }), "application/json")
      },
      feed: ({ query }) => {
        const feed = atom(chosen(query), { base, search: searchOf(query), newest: changelog[0]?.date ?? "2026-11-01" })
        return respond(feed, "application/atom+xml; charset=utf-8")
      },
    })
  }),
)
