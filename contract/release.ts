/** `npm run release`: what the service promises today becomes the contract that later changes are compared with. */
import { readFileSync, writeFileSync } from "node:fs"
import packageJson from "../package.json" with { type: "json" }
import { openApiDocument } from "../src/catalogue/OpenApiDocument.ts"
import { changelog, releases } from "../src/changelog/Changelog.ts"
import { describeProblems, entriesSince, reviewDifferences } from "./ChangelogCoverage.ts"
import { compareContracts, makeReleasedContract, readReleaseVersion } from "./CompareContracts.ts"
import { toObject } from "./Json.ts"

const file = new URL("v1.json", import.meta.url)
const before: unknown = JSON.parse(readFileSync(file, "utf8"))
const today = new Date().toISOString().slice(0, 10)
const found = compareContracts(before, openApiDocument, today)
const [newest] = releases

const wrong = [
  ...(newest?.release === packageJson.version
    ? []
    : [`package.json is ${packageJson.version}; the first release of the changelog is ${newest?.release}.`]),
  ...(readReleaseVersion(before) === newest?.release
    ? [`${newest.release} is released already: write a new release.`]
    : []),
  ...(newest !== undefined && newest.date > today
    ? [`${newest.release} is dated ${newest.date}, which is to come.`]
    : []),
  ...[describeProblems(reviewDifferences(found, entriesSince(readReleaseVersion(before), changelog)))].filter((text) =>
    text !== ""
  ),
]

if (wrong.length > 0) {
  console.error(wrong.join("\n\n"))
  process.exitCode = 1
} else {
  writeFileSync(
    file,
    `${JSON.stringify(makeReleasedContract(toObject(openApiDocument), packageJson.version), null, 2)}\n`,
  )
  console.log(`contract/v1.json is that of ${packageJson.version}: ${found.length} changes. Commit it, and tag.`)
}
