/** Changelog entries, both as the API returns them and as `entries.json` stores them (§9.6, notification). */
import { Schema } from "effect"
import { CalendarDate } from "./rules/Dates.ts"
import { documentationPath } from "./rules/Deprecation.ts"

/**
 * The path of the documentation page that lists all changelog entries. On that page, each entry has its id as its
 * anchor.
 */
export const changelogPagePath = `${documentationPath}/changelog`

/** The change types of changelog entries. */
export const changelogEntryTypes = ["added", "changed", "deprecated", "removed", "fixed"] as const

const text = (description: string) => Schema.String.annotate({ description })
const day = (description: string) => Schema.String.annotate({ description, format: "date" })

/** A changelog entry, as `/v1/changelog` returns it. */
export const ChangelogEntry = Schema.Struct({
  id: text("Stable id, never reused."),
  type: Schema.Literals(changelogEntryTypes).annotate({ description: "Type of change." }),
  breaking: Schema.Boolean.annotate({ description: "Whether clients may have to change." }),
  date: day(
    "Date of the announcement, YYYY-MM-DD. An entry that is not released yet has the date of the newest release.",
  ),
  release: text("Release that contains the change."),
  released: Schema.Boolean.annotate({
    description: "Whether the release has been made. If not, the change is planned and may still change.",
  }),
  title: text("One-line title."),
  text: text("Description of the change, in plain text."),
  migration: Schema.NullOr(text("What clients have to do. Null: nothing.")),
  takes_effect: Schema.NullOr(
    day("Date on which a planned change takes effect. Null: it takes effect with the release."),
  ),
  sunset: Schema.NullOr(day("Last day on which a deprecated endpoint is guaranteed to answer. Null: no date is set.")),
  successor: Schema.NullOr(text("The path of its replacement.")),
  paths: Schema.Array(Schema.String).annotate({
    description: "The affected endpoints. A trailing `*` matches every path with that prefix.",
  }),
  names: Schema.Array(Schema.String).annotate({
    description: "The affected parameters, fields, headers, media types and codes.",
  }),
}).annotate({ identifier: "ChangelogEntry" })

/** The decoded type of the `ChangelogEntry` schema. */
export type ChangelogEntry = typeof ChangelogEntry.Type

/** Titles must fit on one line, because emails use them as subjects. */
const SingleLine = Schema.String.check(
  Schema.isPattern(/^\S[^\r\n\0]{0,98}\S$/, { message: "must be one line of at most 100 characters" }),
)

const PathPattern = Schema.String.check(
  Schema.isPattern(/^\/[a-z0-9/.-]*\*?$/, { message: "must be a path, optionally with a trailing *" }),
)

/**
 * An entry in `entries.json`. When it is converted to a `ChangelogEntry`, it gets the date of its release, and omitted
 * fields are set to null, false or empty.
 */
export const ChangelogSourceEntry = Schema.Struct({
  id: Schema.String.check(
    Schema.isPattern(/^[a-z0-9]+(-[a-z0-9]+)*$/, { message: "must be words of a-z and 0-9, joined by -" }),
  ),
  // "deprecated" is missing on purpose: endpoints declare their own deprecation (D24, lifecycle).
  type: Schema.Literals(["added", "changed", "removed", "fixed"]),
  breaking: Schema.optionalKey(Schema.Literal(true)),
  title: SingleLine,
  text: Schema.NonEmptyString,
  migration: Schema.optionalKey(Schema.NonEmptyString),
  takes_effect: Schema.optionalKey(CalendarDate),
  paths: Schema.NonEmptyArray(PathPattern),
  names: Schema.optionalKey(Schema.NonEmptyArray(Schema.NonEmptyString)),
  /** Whether customers receive an email even though their clients do not have to change. */
  significant: Schema.optionalKey(Schema.Literal(true)),
}).check(
  Schema.makeFilter(({ breaking, migration }) =>
    breaking === true && migration === undefined
      ? { path: ["migration"], issue: "is required: a breaking change must say what clients have to do" }
      : undefined
  ),
)

/** The decoded type of the `ChangelogSourceEntry` schema. */
export type ChangelogSourceEntry = typeof ChangelogSourceEntry.Type

/** A release in `entries.json`. */
export const ChangelogRelease = Schema.Struct({
  /** The version in `package.json` at the time of the release. */
  release: Schema.String.check(Schema.isPattern(/^\d+\.\d+\.\d+$/, { message: "must be a version, such as 1.2.3" })),
  /** The release date. Absent until the version is released. */
  date: Schema.optionalKey(CalendarDate),
  entries: Schema.NonEmptyArray(ChangelogSourceEntry),
})

/** The decoded type of the `ChangelogRelease` schema. */
export type ChangelogRelease = typeof ChangelogRelease.Type

/** Returns whether an entry affects the path. An entry path that ends in `*` matches every path with that prefix. */
export const doesEntryAffectPath = ({ paths }: Pick<ChangelogEntry, "paths">, path: string) =>
  paths.some((pattern) => pattern.endsWith("*") ? path.startsWith(pattern.slice(0, -1)) : pattern === path)
