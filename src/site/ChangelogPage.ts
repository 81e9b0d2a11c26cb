/** §9.6: the changelog as a page: every entry, newest release first. */
import { changelog } from "../changelog/Changelog.ts"
import type { ChangelogEntry } from "../changelog/ChangelogEntry.ts"
import { inlineCode, renderProse } from "./blocks/Tables.ts"
import { escapeHtml } from "./Html.ts"
import { type Page, pagePath } from "./Page.ts"

const badge = ({ breaking, type }: ChangelogEntry) =>
  `<span class="badge ${type === "deprecated" || type === "removed" ? "warn" : "good"}">${type}</span>` +
  (breaking ? ` <span class="badge bad">breaking</span>` : "")

const line = (label: string, text: string | null) =>
  text === null ? "" : `<p><strong>${label}:</strong> ${renderProse(text)}</p>`

const item = (entry: ChangelogEntry) =>
  `<section class="entry"><h3 id="${escapeHtml(entry.id)}">${escapeHtml(entry.title)}</h3>
<p>${badge(entry)} <time datetime="${escapeHtml(entry.date)}">${escapeHtml(entry.date)}</time></p>
<p>${renderProse(entry.text)}</p>
${line("What to do", entry.migration)}${line("Holds from", entry.takes_effect)}${line("Sunset", entry.sunset)}
<p class="paths">${entry.paths.map(inlineCode).join(" ")}</p></section>`

const releases = Array.from(new Set(changelog.map(({ release }) => release)), (release) => ({
  release,
  among: changelog.filter((entry) => entry.release === release),
}))

export const changelogPage: Page = {
  path: pagePath("changelog"),
  title: "Changelog",
  description: "Every change, addition, deprecation and fix, newest first.",
  section: "Reference",
  scripts: [],
  body: `<h1>Changelog</h1>
<p>Every change, addition, deprecation and fix, newest first: also <a href="/v1/changelog">as JSON</a> and
<a href="/v1/changelog.atom">as a feed</a>.</p>
<p>Breaking changes come only in a new version of the API. The exception is release 0.1.0, which made five within
<code>/v1/</code>: they are marked, and each says what to do.
<a href="/v1/docs/deprecations#what-changes-within-a-version">What changes within a version</a></p>
${
    releases.map(({ among, release }) =>
      `<h2 id="${escapeHtml(`v${release}`)}">Release ${escapeHtml(release)}</h2>\n${among.map(item).join("\n")}`
    ).join("\n")
  }
`,
}
