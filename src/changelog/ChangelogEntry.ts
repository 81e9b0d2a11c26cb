/** §9.6: what one entry of the changelog tells: pure, so that contract, pages and mails can all read it. */
import { Schema } from "effect"
import { CalendarDate } from "../rules/Dates.ts"
import { documentationPath } from "../rules/Lifecycle.ts"

/** The page of all entries; each has its id as an anchor there. */
export const changelogPagePath = `${documentationPath}/changelog`

export const changelogEntryTypes = ["added", "changed", "deprecated", "removed", "fixed"] as const

const text = (description: string) => Schema.String.annotate({ description })
const day = (description: string) => Schema.String.annotate({ description, format: "date" })

export const ChangelogEntry = Schema.Struct({
  id: text("Stable, and never used again."),
  type: Schema.Literals(changelogEntryTypes).annotate({ description: "What kind of change it is." }),
  breaking: Schema.Boolean.annotate({ description: "A client may have to change." }),
  date: day("The day it was announced, YYYY-MM-DD."),
  release: text("The release of the service that brought it."),
  title: text("What it is about, in a line."),
  text: text("What is new or different; plain text."),
  migration: Schema.NullOr(text("What a client has to do; null: nothing.")),
  takes_effect: Schema.NullOr(day("The day from which a planned change holds; null: it holds since the release.")),
  sunset: Schema.NullOr(day("The last day on which what is deprecated must answer; null while none is committed.")),
  successor: Schema.NullOr(text("The path of what replaces it.")),
  paths: Schema.Array(Schema.String).annotate({
    description: "The endpoints it concerns; `*` at the end stands for any path that begins so.",
  }),
  names: Schema.Array(Schema.String).annotate({
    description: "The parameters, fields, headers, media types and codes it concerns.",
  }),
}).annotate({ identifier: "ChangelogEntry" })
export type ChangelogEntry = typeof ChangelogEntry.Type

/** Titles become subjects of mails, which are one line. */
const Line = Schema.String.check(
  Schema.isPattern(/^\S[^\r\n\0]{0,98}\S$/, { message: "must be one line of at most 100 characters" }),
)

const PathPattern = Schema.String.check(
  Schema.isPattern(/^\/[a-z0-9/.-]*\*?$/, { message: "must be a path, which may end in *" }),
)

/** An entry as it is written in `entries.json`; its release tells its date, and what is left out is null or nothing. */
export const ChangelogSourceEntry = Schema.Struct({
  id: Schema.String.check(
    Schema.isPattern(/^[a-z0-9]+(-[a-z0-9]+)*$/, { message: "must be words of a-z and 0-9, joined by -" }),
  ),
  // What is deprecated is declared at its endpoint, and nowhere else (D24).
  type: Schema.Literals(["added", "changed", "removed", "fixed"]),
  breaking: Schema.optionalKey(Schema.Literal(true)),
  title: Line,
  text: Schema.NonEmptyString,
  migration: Schema.optionalKey(Schema.NonEmptyString),
  takes_effect: Schema.optionalKey(CalendarDate),
  paths: Schema.NonEmptyArray(PathPattern),
  names: Schema.optionalKey(Schema.NonEmptyArray(Schema.NonEmptyString)),
  /** Customers are written to because of it, although nothing of theirs has to change (§9.6). */
  significant: Schema.optionalKey(Schema.Literal(true)),
}).check(
  Schema.makeFilter(({ breaking, migration }) =>
    breaking === true && migration === undefined
      ? { path: ["migration"], issue: "is needed: a breaking change says what a client has to do" }
      : undefined
  ),
)
export type ChangelogSourceEntry = typeof ChangelogSourceEntry.Type

/** One release, as it is written in `entries.json`. */
export const ChangelogRelease = Schema.Struct({
  /** The version of `package.json` that is released. */
  release: Schema.String.check(Schema.isPattern(/^\d+\.\d+\.\d+$/, { message: "must be a version, such as 1.2.3" })),
  date: CalendarDate,
  entries: Schema.NonEmptyArray(ChangelogSourceEntry),
})
export type ChangelogRelease = typeof ChangelogRelease.Type

/** Whether an entry, or one of its paths that ends in `*`, is about the path. */
export const concernsPath = ({ paths }: Pick<ChangelogEntry, "paths">, path: string) =>
  paths.some((pattern) => pattern.endsWith("*") ? path.startsWith(pattern.slice(0, -1)) : pattern === path)
