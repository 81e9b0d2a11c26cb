/**
 * `npm run release` writes the current OpenAPI document to `clients/contract/v1.json`, which is the baseline for
 * comparing later changes. It also writes `CHANGELOG.md`, and copies the version from `package.json` to all files that
 * repeat it. If there are problems, such as an undocumented change, writes nothing and fails.
 */
import { readFileSync, writeFileSync } from "node:fs"
import packageJson from "../../package.json" with { type: "json" }
import { getDefaultOpenApiDocument } from "../../src/api/catalogue/OpenApiDocument.ts"
import { changelogEntries, changelogReleases } from "../../src/api/changelog/Changelog.ts"
import { renderChangelogFile } from "./ChangelogFile.ts"
import { describeContractProblems, listEntriesSince, reviewContractDifferences } from "./ChangelogCoverage.ts"
import { compareContracts, makeReleasedContract, readReleaseVersion } from "./CompareContracts.ts"
import { toObject } from "./Json.ts"
import { writeStatedVersions } from "./StatedVersions.ts"

const file = new URL("v1.json", import.meta.url)
const before: unknown = JSON.parse(readFileSync(file, "utf8"))
const today = new Date().toISOString().slice(0, 10)
const differences = compareContracts(before, getDefaultOpenApiDocument(), today)
const [newest] = changelogReleases

const problems = [
  ...(newest?.release === packageJson.version ? [] : [
    `package.json has version ${packageJson.version}, but the first release in the changelog is ${newest?.release}.`,
  ]),
  ...(readReleaseVersion(before) === newest?.release
    ? [`${newest.release} is already released. Add a new release to the changelog.`]
    : []),
  ...(newest === undefined || (newest.date !== undefined && newest.date <= today)
    ? []
    : [`${newest.release} needs the date of today or an earlier one.`]),
  ...[
    describeContractProblems(
      reviewContractDifferences(differences, listEntriesSince(readReleaseVersion(before), changelogEntries)),
    ),
  ]
    .filter((
      text,
    ) => text !== ""),
]

if (problems.length > 0) {
  console.error(problems.join("\n\n"))
  process.exitCode = 1
} else {
  writeFileSync(
    file,
    `${JSON.stringify(makeReleasedContract(toObject(getDefaultOpenApiDocument()), packageJson.version), null, 2)}\n`,
  )
  writeStatedVersions(packageJson.version)
  writeFileSync(new URL("../../CHANGELOG.md", import.meta.url), renderChangelogFile(packageJson.version))
  console.log(
    `clients/contract/v1.json is now the contract of ${packageJson.version}: ${differences.length} changes. ` +
      "CHANGELOG.md and the files that repeat the version are updated. Commit all of them and tag the commit.",
  )
}
