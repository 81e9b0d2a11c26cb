/** Checks that the changelog documents every change to the contract: §9.6 (notification). */
import { changelogReleases, isReleasedIn } from "../../src/api/changelog/Changelog.ts"
import { type ChangelogEntry, doesEntryAffectPath } from "../../src/contract/ChangelogEntry.ts"
import type { ContractDifference } from "./Difference.ts"

/**
 * Returns the changelog entries of all releases after `release`. Throws if the changelog does not contain `release`.
 */
export const listEntriesSince = (release: string, entries: ReadonlyArray<ChangelogEntry>) => {
  if (!changelogReleases.some((one) => one.release === release)) {
    throw new Error(`The contract is that of release ${release}, which is not in the changelog`)
  }
  const isReleased = isReleasedIn(release)
  return entries.filter((entry) => !isReleased(entry))
}

const documents = (entry: ChangelogEntry, { addedValue, kind, name, path }: ContractDifference) => {
  if (name === null) return entry.paths.includes(path) && entry.type === kind
  const isNamed = entry.names.includes(name) || (name === "deprecated" && entry.type === "deprecated")
  return (doesEntryAffectPath(entry, path) && isNamed) ||
    // If a new path is added to an enum of paths, the changelog entry for the new endpoint already documents it.
    (addedValue !== undefined && entry.paths.includes(addedValue))
}

/**
 * Returns whether the entry announces a bug fix that may explain the difference (§9.3): the entry must list both the
 * path and the changed name.
 */
const isAnnouncedFix = (entry: ChangelogEntry, { name, path }: ContractDifference) =>
  entry.type === "fixed" && entry.paths.includes(path) && name !== null && entry.names.includes(name)

export interface ContractReview {
  /** Differences that v1 forbids (§9.2). */
  readonly breaking: ReadonlyArray<ContractDifference>
  /** Differences that are allowed, but that the changelog does not document (§9.3, §9.6). */
  readonly undocumented: ReadonlyArray<ContractDifference>
}

export const reviewContractDifferences = (
  differences: ReadonlyArray<ContractDifference>,
  entries: ReadonlyArray<ChangelogEntry>,
): ContractReview => ({
  breaking: differences.filter((one) => one.breaking && !entries.some((entry) => isAnnouncedFix(entry, one))),
  undocumented: differences.filter((one) => !one.breaking && !entries.some((entry) => documents(entry, one))),
})

const toList = (differences: ReadonlyArray<ContractDifference>) =>
  differences.map(({ description }) => `  - ${description}`).join("\n")

const toEntryFields = ({ name, path }: ContractDifference) =>
  `"paths": ["${path}"]${name === null ? "" : `, "names": ["${name}"]`}`

/** Explains the problems and how to solve them. Returns an empty string if there are no problems. */
export const describeContractProblems = ({ breaking, undocumented }: ContractReview) =>
  [
    ...(breaking.length === 0 ? [] : [
      `These changes break the released contract (clients/contract/v1.json), which is forbidden in v1 (§9.2):\n${
        toList(breaking)
      }\n` +
      "Keep the old behaviour and add the new one alongside it, or deprecate the endpoint. If the contract was wrong, " +
      `add an entry of type "fixed" that names the path and the field.`,
    ]),
    ...(undocumented.length === 0 ? [] : [
      `These changes are missing from the changelog (§9.6):\n${toList(undocumented)}\n` +
      `Add them to the release after the one in package.json, in src/api/changelog/entries.json, with:\n${
        Array.from(new Set(undocumented.map(toEntryFields)), (line) => `  ${line}`).join("\n")
      }`,
    ]),
  ].join("\n\n")
