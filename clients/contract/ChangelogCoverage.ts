/** Checks that the changelog has an entry for every change to the contract: §9.6 (notification). */
import { changelogReleases, isReleasedIn } from "../../src/api/changelog/Changelog.ts"
import { type ChangelogEntry, doesEntryAffectPath } from "../../src/contract/ChangelogEntry.ts"
import type { ContractDifference } from "./Difference.ts"

/** Returns the entries of the releases after `release`. Throws if the changelog does not contain that release. */
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
    // A new path in an enum of paths needs no entry of its own: the entry of the new endpoint documents it.
    (addedValue !== undefined && entry.paths.includes(addedValue))
}

/**
 * Whether the entry announces a bug fix that may cause the difference (§9.3): it names the path and the changed part.
 */
const isAnnouncedFix = (entry: ChangelogEntry, { name, path }: ContractDifference) =>
  entry.type === "fixed" && entry.paths.includes(path) && name !== null && entry.names.includes(name)

export interface ContractReview {
  /** Forbidden in v1 (§9.2). */
  readonly breaking: ReadonlyArray<ContractDifference>
  /** Allowed, but missing from the changelog (§9.3, §9.6). */
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

/** Returns an explanation of the problems and of how to solve them, or an empty string if there are none. */
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
