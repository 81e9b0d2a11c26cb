/** Tests CHANGELOG.md, the API changelog for readers of the repository (§9.6, notification). */
import { assert, describe, expect, it } from "@effect/vitest"
import { renderChangelogFile } from "../../../clients/contract/ChangelogFile.ts"
import packageJson from "../../../package.json" with { type: "json" }
import { changelogEntries, changelogReleases } from "../../../src/api/changelog/Changelog.ts"

const headingsOf = (text: string) => text.split("\n").filter((line) => line.startsWith("## "))

const countEntries = (text: string) => text.split("\n").filter((line) => line.startsWith("- ")).length

describe("CHANGELOG.md", () => {
  // To update the file, run `npm run test:all -- changelog -u`.
  it("has every entry of the changelog (§9.6)", () =>
    expect(renderChangelogFile(packageJson.version)).toMatchFileSnapshot("../../../CHANGELOG.md"))

  it("has a section for each release up to this version, and one for what is not released (§9.6)", () => {
    const sections = changelogReleases.map(({ date, release }) =>
      `## [${release}]${date === undefined ? "" : ` - ${date}`}`
    )
    for (const [index, { release }] of changelogReleases.entries()) {
      const text = renderChangelogFile(release)
      assert.deepStrictEqual(headingsOf(text), [
        ...(index === 0 ? [] : ["## [Unreleased]"]),
        ...sections.slice(index),
      ])
      assert.strictEqual(countEntries(text), changelogEntries.length)
    }
  })
})
