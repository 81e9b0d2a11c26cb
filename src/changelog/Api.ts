/** §9.6, D2: the changelog, open to everybody and free. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "effect/http-api"
import { described, Revalidated, tagged } from "../rules/EndpointAnnotations.ts"
import { Day } from "../rules/Dates.ts"
import { consistent } from "../rules/ParameterCombinations.ts"
import { flags, someOf } from "../rules/Filters.ts"
import { Count } from "../rules/Paging.ts"
import { Entry, entryTypes } from "./Entry.ts"

/** What is left out narrows nothing; the entries that remain satisfy all that is sent. */
export const ChangelogQuery = Schema.Struct({
  type: someOf(entryTypes),
  ...flags("breaking"),
  since: Schema.optionalKey(
    Schema.String.annotate({ description: "Entries of this day or later.", format: "date" }).pipe(Schema.decodeTo(Day)),
  ),
  path: Schema.optionalKey(
    Schema.String.annotate({ description: "Entries that concern this path, such as /v1/news." }).pipe(
      Schema.decodeTo(Schema.String.check(
        Schema.isPattern(/^\/[a-z0-9/.-]{0,100}$/, { message: "must be a path, such as /v1/news" }),
      )),
    ),
  ),
}).check(consistent)
export type ChangelogQuery = typeof ChangelogQuery.Type

export const feedType = "application/atom+xml; charset=utf-8"

export class Changes extends HttpApiGroup.make("changelog").add(
  HttpApiEndpoint.get("list", "/v1/changelog", {
    query: ChangelogQuery,
    success: Schema.Struct({
      count: Count,
      results: Schema.Array(Entry).annotate({ description: "The entries, newest first." }),
    }),
  }).annotateMerge(described(
    "Changelog",
    "Every change, addition, deprecation and fix, newest first, all on one page; planned ones, too.",
  )).annotate(Revalidated, true),
  HttpApiEndpoint.get("feed", "/v1/changelog.atom", {
    query: ChangelogQuery,
    success: Schema.String.pipe(HttpApiSchema.asText({ contentType: feedType })),
  }).annotateMerge(described("Changelog feed", "The changelog as an Atom feed, for a reader of feeds."))
    .annotate(Revalidated, true),
).annotateMerge(tagged("Changelog", "Every change of the API.")) {}
