/**
 * The changelog (§9.6, notification; D24, lifecycle). It contains the entries in `entries.json`, newest release first,
 * and one entry for each deprecation declared by an endpoint. Add new entries to the release that will include the
 * change.
 */
import { Option, Schema } from "effect"
import packageJson from "../../../package.json" with { type: "json" }
import { catalogueEndpoints } from "../catalogue/Endpoints.ts"
import type { Deprecation } from "../../contract/rules/Deprecation.ts"
import source from "./entries.json" with { type: "json" }
import { type ChangelogEntry, ChangelogRelease, type ChangelogSourceEntry } from "../../contract/ChangelogEntry.ts"

const decodeReleases = Schema.decodeUnknownSync(Schema.Array(ChangelogRelease), {
  onExcessProperty: "error",
  errors: "all",
})

/**
 * The releases in `entries.json`. If an entry is invalid, importing this module throws, so neither the tests nor the
 * service can start.
 */
export const changelogReleases = decodeReleases(source)

/** Builds a predicate that returns whether an entry was released in the given version or an earlier one. */
export const isReleasedIn = (version: string) => ({ release }: Pick<ChangelogEntry, "release">) =>
  release.localeCompare(version, "en", { numeric: true }) <= 0

const isReleased = isReleasedIn(packageJson.version)

/** The date of the newest published release. Releases in preparation do not count. */
export const newestReleaseDate = changelogReleases.find(isReleased)?.date ?? "2026-11-28"

/**
 * Returns those properties of a changelog entry that depend on its release. A release in preparation has the date of
 * the newest published release.
 */
const describeRelease = (release: string, date = newestReleaseDate) => {
  const released = isReleased({ release })
  return { date: released ? date : newestReleaseDate, release, released }
}

/** Returns the public form of an entry in `entries.json`. */
const fromSource = ({ date, release }: ChangelogRelease, entry: ChangelogSourceEntry): ChangelogEntry => ({
  id: entry.id,
  type: entry.type,
  breaking: entry.breaking ?? false,
  ...describeRelease(release, date),
  title: entry.title,
  text: entry.text,
  migration: entry.migration ?? null,
  takes_effect: entry.takes_effect ?? null,
  sunset: null,
  successor: null,
  paths: entry.paths,
  names: entry.names ?? [],
})

/** Returns the version of the first release on or after the given day, or the newest version if there is none. */
const findRelease = (day: string) =>
  changelogReleases.findLast(({ date }) => date === undefined || date >= day)?.release ??
    changelogReleases[0]?.release ?? ""

/** Returns the entry for a deprecated endpoint. */
const fromDeprecation = (path: string, { announced, note, successor, sunset }: Deprecation): ChangelogEntry => ({
  id: `${path.slice(1).replaceAll(/[^a-z0-9]+/g, "-")}-deprecated`,
  type: "deprecated",
  breaking: false,
  ...describeRelease(findRelease(announced), announced),
  title: `${path} is deprecated; use ${successor} instead`,
  text: `${note} ${path} still works as before` +
    (sunset === undefined
      ? ". No end date is set; it will be at least twelve months after this announcement."
      : ` until ${sunset}. After that day it answers with 410.`),
  migration: `Use ${successor} instead.`,
  takes_effect: null,
  sunset: sunset ?? null,
  successor,
  paths: [path],
  names: [],
})

const deprecationEntries = catalogueEndpoints.flatMap(({ deprecation, row }) =>
  Option.toArray(Option.map(deprecation, (declared) => fromDeprecation(row.path, declared)))
)

/** Returns the entries unchanged. Throws if two of them have the same id. */
const requireUniqueIds = (entries: ReadonlyArray<ChangelogEntry>) => {
  const ids = entries.map(({ id }) => id)
  const duplicate = ids.find((id, index) => ids.indexOf(id) !== index)
  if (duplicate !== undefined) throw new Error(`Changelog: two entries have the id ${duplicate}`)
  return entries
}

/** Sort order of entries with the same date. Changes that require clients to act come first. */
const typeOrder = { deprecated: 0, removed: 1, changed: 2, added: 3, fixed: 4 } as const

/** All entries. Unreleased entries come first, followed by the others, newest first. */
export const changelogEntries: ReadonlyArray<ChangelogEntry> = requireUniqueIds([
  ...changelogReleases.flatMap((release) => release.entries.map((entry) => fromSource(release, entry))),
  ...deprecationEntries,
]).toSorted((left, right) =>
  Number(left.released) - Number(right.released) || right.date.localeCompare(left.date) ||
  Number(right.breaking) - Number(left.breaking) ||
  typeOrder[left.type] - typeOrder[right.type]
)

/** The ids of the entries that are marked as significant in `entries.json`. */
const significantIds = new Set(
  changelogReleases.flatMap(({ entries }) => entries.filter((entry) => entry.significant === true).map(({ id }) => id)),
)

/**
 * Returns whether the entry may require clients to change. Such entries are emailed even to customers who have
 * unsubscribed from news.
 */
export const isEmailMandatory = ({ breaking, type }: ChangelogEntry) =>
  breaking || type === "deprecated" || type === "removed"

/**
 * Returns whether the entry is announced by email (§9.6), as are deprecations, removals, breaking changes, and entries
 * marked as significant.
 */
export const isEntryAnnouncedByEmail = (entry: ChangelogEntry) =>
  isEmailMandatory(entry) || significantIds.has(entry.id)
