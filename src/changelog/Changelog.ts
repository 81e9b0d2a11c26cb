/**
 * §9.6, D24: the whole changelog: what `entries.json` tells, newest release first, and what the endpoints themselves
 * declare as deprecated. The entries of a release that is not made yet stand there under the version it will have.
 */
import { Option, Schema } from "effect"
import { endpoints } from "../catalogue/Endpoints.ts"
import type { Deprecation } from "../rules/Lifecycle.ts"
import source from "./entries.json" with { type: "json" }
import { type ChangelogEntry, ChangelogRelease, type ChangelogSourceEntry } from "./ChangelogEntry.ts"

const decodeReleases = Schema.decodeUnknownSync(Schema.Array(ChangelogRelease), {
  onExcessProperty: "error",
  errors: "all",
})

/** Thrown while modules load, so that neither tests nor service start over a wrong entry. */
export const releases = decodeReleases(source)

const written = ({ date, release }: ChangelogRelease) => (entry: ChangelogSourceEntry): ChangelogEntry => ({
  id: entry.id,
  type: entry.type,
  breaking: entry.breaking ?? false,
  date,
  release,
  title: entry.title,
  text: entry.text,
  migration: entry.migration ?? null,
  takes_effect: entry.takes_effect ?? null,
  sunset: null,
  successor: null,
  paths: entry.paths,
  names: entry.names ?? [],
})

/** The release in which something was announced: the first of that day or later. */
const releaseOf = (day: string) => releases.findLast(({ date }) => date >= day)?.release ?? releases[0]?.release ?? ""

const deprecation = (path: string, { announced, note, successor, sunset }: Deprecation): ChangelogEntry => ({
  id: `${path.slice(1).replaceAll(/[^a-z0-9]+/g, "-")}-deprecated`,
  type: "deprecated",
  breaking: false,
  date: announced,
  release: releaseOf(announced),
  title: `${path} is deprecated; ${successor} takes its place`,
  text: `${note} ${path} works as before, ` +
    (sunset === undefined
      ? "and no day of its end is set; it will not come before twelve months from this announcement."
      : `until ${sunset}. After that day it answers 410.`),
  migration: `Ask ${successor} instead.`,
  takes_effect: null,
  sunset: sunset ?? null,
  successor,
  paths: [path],
  names: [],
})

const deprecations = endpoints.flatMap(({ deprecation: life, row }) =>
  Option.match(life, { onNone: () => [], onSome: (one) => [deprecation(row.path, one)] })
)

const unique = (entries: ReadonlyArray<ChangelogEntry>) => {
  const ids = entries.map(({ id }) => id)
  const again = ids.find((id, at) => ids.indexOf(id) !== at)
  if (again !== undefined) throw new Error(`Changelog: two entries have the id ${again}`)
  return entries
}

const order = { deprecated: 0, removed: 1, changed: 2, added: 3, fixed: 4 } as const

/** Every entry, newest first; those of one day by how much they ask of a client. Wrong ones stop the start. */
export const changelog: ReadonlyArray<ChangelogEntry> = unique([
  ...releases.flatMap((release) => release.entries.map(written(release))),
  ...deprecations,
]).toSorted((left, right) =>
  right.date.localeCompare(left.date) || Number(right.breaking) - Number(left.breaking) ||
  order[left.type] - order[right.type]
)

const significant = new Set(
  releases.flatMap(({ entries }) => entries.filter((entry) => entry.significant === true).map(({ id }) => id)),
)

/** A change that concerns what a client does now, or will have to do: customers are told, whether they wish or not. */
export const isMandatoryNotice = ({ breaking, type }: ChangelogEntry) =>
  breaking || type === "deprecated" || type === "removed"

/** §9.6: deprecations, breaking changes with their dates, and significant new features are written to customers. */
export const isAnnouncedByEmail = (entry: ChangelogEntry) => isMandatoryNotice(entry) || significant.has(entry.id)
