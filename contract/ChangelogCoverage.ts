/** §9.6: a changelog lists all changes: which of its entries, if any, tells of a difference. */
import { releases } from "../src/changelog/Changelog.ts"
import { type ChangelogEntry, concernsPath } from "../src/changelog/ChangelogEntry.ts"
import type { ContractDifference } from "./Difference.ts"

/** The entries of releases later than the one, which must be known. */
export const entriesSince = (release: string, entries: ReadonlyArray<ChangelogEntry>) => {
  const known = releases.findIndex((one) => one.release === release)
  if (known === -1) throw new Error(`The contract is that of ${release}, a release that the changelog does not know`)
  const later = new Set(releases.slice(0, known).map((one) => one.release))
  return entries.filter((entry) => later.has(entry.release))
}

const tells = ({ kind, name, path, addedValue: word }: ContractDifference) => (entry: ChangelogEntry) =>
  name === null ? entry.paths.includes(path) && entry.type === kind : (concernsPath(entry, path) &&
    (entry.names.includes(name) || (name === "deprecated" && entry.type === "deprecated"))) ||
    // Where paths are listed a new one is told of by its own entry.
    (word !== undefined && entry.paths.includes(word))

/** A new field under a new name is one thing; a promise is broken by a bug fix alone, which must say so (§9.3). */
const mends = ({ name, path }: ContractDifference) => (entry: ChangelogEntry) =>
  entry.type === "fixed" && entry.paths.includes(path) && name !== null && entry.names.includes(name)

export interface ContractReview {
  /** What v1 must never do (§9.2). */
  readonly breaking: ReadonlyArray<ContractDifference>
  /** What may be, and stands in no entry (§9.3, §9.6). */
  readonly undocumented: ReadonlyArray<ContractDifference>
}

export const reviewDifferences = (
  found: ReadonlyArray<ContractDifference>,
  entries: ReadonlyArray<ChangelogEntry>,
): ContractReview => ({
  breaking: found.filter((one) => one.breaking && !entries.some(mends(one))),
  undocumented: found.filter((one) => !one.breaking && !entries.some(tells(one))),
})

const lines = (found: ReadonlyArray<ContractDifference>) =>
  found.map(({ description: says }) => `  - ${says}`).join("\n")

const named = ({ name, path }: ContractDifference) =>
  `"paths": ["${path}"]${name === null ? "" : `, "names": ["${name}"]`}`

/** What is wrong and what to do about it; empty where nothing is. */
export const describeProblems = ({ breaking: broken, undocumented: untold }: ContractReview) =>
  [
    ...(broken.length === 0 ? [] : [
      `These changes break the released contract (contract/v1.json), which v1 must never do (§9.2):\n${
        lines(broken)
      }\n` +
      "Keep what was there and add what is new beside it; retire an endpoint by annotating it as deprecated. Only where " +
      "the contract was wrong about what is answered, write an entry of the type fixed that names path and field.",
    ]),
    ...(untold.length === 0 ? [] : [
      `These changes stand in no entry of the changelog (§9.6):\n${lines(untold)}\n` +
      `Add them to the first release in src/changelog/entries.json, with:\n${
        Array.from(new Set(untold.map(named)), (line) => `  ${line}`).join("\n")
      }`,
    ]),
  ].join("\n\n")
