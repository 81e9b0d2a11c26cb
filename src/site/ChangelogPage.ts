/** The changelog page: every entry on one page, newest release first (§9.6, changelog). */
import { changelogEntries } from "../api/changelog/Changelog.ts"
import type { ChangelogEntry } from "../contract/ChangelogEntry.ts"
import { escapeMarkup, renderInlineCode, renderProse, renderTextElement } from "./browser/markup.js"
import { getPagePath, type SitePage } from "./Page.ts"

const renderBadges = ({ breaking, type }: ChangelogEntry) =>
  `<span class="badge ${type === "deprecated" || type === "removed" ? "warn" : "good"}">${type}</span>` +
  (breaking ? ` <span class="badge bad">breaking</span>` : "")

const renderField = (label: string, text: string | null) =>
  text === null ? "" : `<p><strong>${label}:</strong> ${renderProse(text)}</p>`

const renderEntry = (entry: ChangelogEntry) =>
  `<section class="entry">${renderTextElement("h3", { id: entry.id }, entry.title)}
<p>${renderBadges(entry)} ${
    entry.released
      ? `<time datetime="${escapeMarkup(entry.date)}">${escapeMarkup(entry.date)}</time>`
      : `<span class="badge">not released yet</span>`
  }</p>
<p>${renderProse(entry.text)}</p>
${renderField("What to do", entry.migration)}${renderField("Takes effect", entry.takes_effect)}${
    renderField("Sunset", entry.sunset)
  }
<p class="paths">${entry.paths.map(renderInlineCode).join(" ")}</p></section>`

const render = () => {
  const releases = Array.from(new Set(changelogEntries.map(({ release }) => release)), (release) => {
    const entries = changelogEntries.filter((entry) => entry.release === release)
    return `<h2 id="${escapeMarkup(`v${release}`)}">Release ${escapeMarkup(release)}${
      entries.every(({ released }) => released) ? "" : " (not released yet)"
    }</h2>\n${entries.map(renderEntry).join("\n")}`
  })
  return {
    description: "Every change, addition, deprecation and fix, newest first.",
    body: `<h1>Changelog</h1>
<p>Every change, addition, deprecation and fix, newest first. It is also available <a href="/v1/changelog">as JSON</a>
and <a href="/v1/changelog.atom">as a feed</a>.</p>
<p>Breaking changes require a new version of the API. The exception is release 1.0.0, with five breaking changes
within <code>/v1/</code>: each is marked and says what to do.
<a href="/v1/docs/deprecations#what-changes-within-a-version">What changes within a version</a></p>
${releases.join("\n")}
`,
  }
}

export const changelogPage: SitePage = {
  path: getPagePath("changelog"),
  title: "Changelog",
  section: "Reference",
  scripts: [],
  render,
}
