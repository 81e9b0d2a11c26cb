/** Renders `CHANGELOG.md` from the changelog that the API publishes: §9.6 (notification). */
import { changelogEntries, changelogReleases, isReleasedIn } from "../../src/api/changelog/Changelog.ts"
import { type ChangelogEntry, changelogEntryTypes } from "../../src/contract/ChangelogEntry.ts"

/**
 * Escapes characters that Markdown would interpret. Underscores within a word are left alone, and so are backticks,
 * because entries use them to mark code.
 */
const escapeMarkdown = (text: string) => text.replaceAll(/[\\*<[\]]|(?<!\w)_|_(?!\w)/g, "\\$&")

const renderEntry = ({ breaking, migration, takes_effect, text, title }: ChangelogEntry) =>
  [
    `- **${breaking ? "Breaking: " : ""}${escapeMarkdown(title)}.** ${escapeMarkdown(text)}`,
    ...(migration === null ? [] : [`**What to do:** ${escapeMarkdown(migration)}`]),
    ...(takes_effect === null ? [] : [`**Takes effect:** ${takes_effect}.`]),
  ].join(" ")

const renderSection = (heading: string, entries: ReadonlyArray<ChangelogEntry>) =>
  entries.length === 0 ? [] : [
    `## ${heading}`,
    ...changelogEntryTypes.flatMap((type) => {
      const lines = entries.filter((entry) => entry.type === type).map(renderEntry)
      return lines.length === 0 ? [] : [`### ${type.charAt(0).toUpperCase()}${type.slice(1)}`, lines.join("\n")]
    }),
  ]

/**
 * Renders all entries in the format of Keep a Changelog 1.1.0. Entries of releases after `version` are combined in the
 * section `Unreleased`.
 */
export const renderChangelogFile = (version: string) => {
  const isReleased = isReleasedIn(version)
  return [
    "# Changelog",
    "Every change of the API that clients notice, in the form of\n" +
    "[Keep a Changelog](https://keepachangelog.com/en/1.1.0/). This file is generated from `src/api/changelog/entries.json`\n" +
    "and from the deprecations that endpoints declare. The service publishes the same entries at `/v1/changelog`.\n" +
    "[Deprecations](docs/guides/deprecations.md#what-changes-within-a-version) explains what can change within a version.",
    ...renderSection("[Unreleased]", changelogEntries.filter((entry) => !isReleased(entry))),
    ...changelogReleases.filter(isReleased).flatMap(({ date, release }) =>
      renderSection(
        [`[${release}]`, ...(date === undefined ? [] : [date])].join(" - "),
        changelogEntries.filter((entry) => entry.release === release),
      )
    ),
  ].join("\n\n") + "\n"
}
