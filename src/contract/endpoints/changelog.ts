/**
 * `GET /v1/changelog` and `/v1/changelog.atom` (§9.6, notification). Both are free and require no key (D2,
 * credentials).
 */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "effect/http-api"
import { describeEndpoint, describeEndpointGroup, FreeEndpointHasEtag } from "../rules/EndpointAnnotations.ts"
import { CalendarDate } from "../rules/Dates.ts"
import { checkParameterCombinations } from "../rules/ParameterCombinations.ts"
import * as Filter from "../rules/FilterParameters.ts"
import { ResultCount } from "../rules/Paging.ts"
import { ChangelogEntry, changelogEntryTypes } from "../ChangelogEntry.ts"

/** The changelog filters. An entry is returned only if it matches all of them. */
export const ChangelogQuery = Schema.Struct({
  type: Filter.makeEnumFilter(changelogEntryTypes),
  ...Filter.makeBooleanFilters("breaking"),
  since: Schema.optionalKey(
    Schema.String.annotate({ description: "Entries from this day on.", format: "date" }).pipe(
      Schema.decodeTo(CalendarDate),
    ),
  ),
  path: Schema.optionalKey(
    Schema.String.annotate({ description: "Entries about this path, such as /v1/news." }).pipe(
      Schema.decodeTo(Schema.String.check(
        Schema.isPattern(/^\/[a-z0-9/.-]{0,100}$/u, { message: "must be a path, such as /v1/news" }),
      )),
    ),
  ),
}).check(checkParameterCombinations)

/** The decoded type of the `ChangelogQuery` schema. */
export type ChangelogQuery = typeof ChangelogQuery.Type

/** The media type of the Atom feed. */
export const atomContentType = "application/atom+xml; charset=utf-8"

/** The endpoints that return the changelog. */
export class ChangelogApiGroup extends HttpApiGroup.make("changelog").add(
  HttpApiEndpoint.get("list", "/v1/changelog", {
    query: ChangelogQuery,
    success: Schema.Struct({
      count: ResultCount,
      results: Schema.Array(ChangelogEntry).annotate({ description: "The entries, newest first." }),
    }),
  }).annotateMerge(describeEndpoint(
    "Changelog",
    "Every addition, change, deprecation, removal and fix, including planned ones, newest first, on one page.",
  )).annotate(FreeEndpointHasEtag, true),
  HttpApiEndpoint.get("feed", "/v1/changelog.atom", {
    query: ChangelogQuery,
    success: Schema.String.pipe(HttpApiSchema.asText({ contentType: atomContentType })),
  }).annotateMerge(describeEndpoint("Changelog feed", "The changelog as an Atom feed, for feed readers."))
    .annotate(FreeEndpointHasEtag, true),
).annotateMerge(describeEndpointGroup("Changelog", "Every change to the API.")) {}
