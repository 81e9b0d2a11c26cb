/** Handles `GET /v1/changelog` and `GET /v1/changelog.atom`. */
import { Effect, Exit } from "effect"
import { makePublicHandler } from "../../query/EndpointHandler.ts"
import { BaseUrl } from "../BaseUrl.ts"
import { makeStaticPage, staticCacheHeaders } from "../StaticPages.ts"
import { atomContentType, ChangelogQuery } from "../../contract/endpoints/changelog.ts"
import { renderAtomFeed } from "./AtomFeed.ts"
import { changelogEntries } from "./Changelog.ts"
import { type ChangelogEntry, doesEntryAffectPath } from "../../contract/ChangelogEntry.ts"

/** Returns the entries that meet all conditions of the query. */
const filterEntries = ({ breaking, path, since, type }: ChangelogQuery): ReadonlyArray<ChangelogEntry> =>
  changelogEntries.filter((entry) =>
    (type === undefined || type.includes(entry.type)) &&
    (breaking === undefined || entry.breaking === breaking) &&
    (since === undefined || entry.date >= since) &&
    (path === undefined || doesEntryAffectPath(entry, path))
  )

/** Creates a static page from text. In usage, the page counts as `records` results. */
const makeTextPage = (text: string, contentType: string, records = 0) =>
  makeStaticPage(new TextEncoder().encode(text), contentType, staticCacheHeaders, records)

/** Handlers for the changelog as JSON and as an Atom feed. */
export const changelogHandlers = Effect.map(BaseUrl, (baseUrl) => ({
  list: makePublicHandler(ChangelogQuery, (query) => {
    const results = filterEntries(query)
    const text = JSON.stringify({ count: results.length, results })
    return Exit.succeed(makeTextPage(text, "application/json", results.length))
  }),
  feed: makePublicHandler(ChangelogQuery, (query) => {
    const feed = renderAtomFeed(filterEntries(query), {
      baseUrl,
      search: new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)])).toString(),
    })
    return Exit.succeed(makeTextPage(feed, atomContentType))
  }),
}))
