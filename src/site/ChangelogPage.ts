/** The changelog page, which lists all entries, newest release first (§9.6, changelog). */
import { changelogEntries } from "../api/changelog/Changelog.ts"
import type { ChangelogEntry } from "../contract/ChangelogEntry.ts"
import { joinMarkup, markup, renderInlineCode, renderProse } from "./browser/markup.js"
import { getPagePath, type SitePage } from "./SitePage.ts"

const renderBadges = ({ breaking, type }: ChangelogEntry) =>
  markup`<span class="badge ${type === "deprecated" || type === "removed" ? "warn" : "good"}">${type}</span>${
    breaking && markup` <span class="badge bad">breaking</span>`
  }`

const renderField = (label: string, text: string | null) =>
  text !== null && markup`<p><strong>${label}:</strong> ${renderProse(text)}</p>`

/** Renders a changelog entry. */
const renderEntry = (entry: ChangelogEntry) =>
  markup`<section class="entry"><h3 id="${entry.id}">${entry.title}</h3>
<p>${renderBadges(entry)} ${
    entry.released
      ? markup`<time datetime="${entry.date}">${entry.date}</time>`
      : markup`<span class="badge">not released yet</span>`
  }</p>
<p>${renderProse(entry.text)}</p>
${renderField("What to do", entry.migration)}${renderField("Takes effect", entry.takes_effect)}${
    renderField("Sunset", entry.sunset)
  }
<p class="paths">${joinMarkup(entry.paths.map(renderInlineCode), " ")}</p></section>`

/** Renders the changelog page: a section for each release, with its entries. */
const render = () => {
  const releases = Array.from(new Set(changelogEntries.map(({ release }) => release)), (release) => {
    const entries = changelogEntries.filter((entry) => entry.release === release)
    return markup`<h2 id="v${release}">Release ${release}${
      entries.every(({ released }) => released) ? "" : " (not released yet)"
    }</h2>\n${joinMarkup(entries.map(renderEntry), "\n")}`
  })
  return {
    description: "Every change, addition, deprecation and fix, newest first.",
    body: markup`<h1>Changelog</h1>
<p>Every change, addition, deprecation and fix, newest first. It is also available <a href="/v1/changelog">as JSON</a>
and <a href="/v1/changelog.atom">as a feed</a>.</p>
<p>Breaking changes require a new version of the API. The exception is release 1.0.0, with five breaking changes
within <code>/v1/</code>: each is marked and says what to do.
<a href="/v1/docs/deprecations#what-changes-within-a-version">What changes within a version</a></p>
${joinMarkup(releases, "\n")}
`,
  }
}

/** The changelog page. */
export const changelogPage: SitePage = {
  path: getPagePath("changelog"),
  title: "Changelog",
  section: "Reference",
  scripts: [],
  render,
}
