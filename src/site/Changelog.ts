/** §9.6: the changelog as a page: every entry, newest release first. */
import { changelog } from "../changelog/Changelog.ts"
import type { Entry } from "../changelog/Entry.ts"
import { code, prose } from "./blocks/Tables.ts"
import { escape } from "./Html.ts"
import { at, type Page } from "./Page.ts"

const badge = ({ breaking, type }: Entry) =>
  `<span class="badge ${type === "deprecated" || type === "removed" ? "warn" : "good"}">${type}</span>` +
  (breaking ? ` <span class="badge bad">breaking</span>` : "")

const line = (label: string, text: string | null) =>
  text === null ? "" : `<p><strong>${label}:</strong> ${prose(text)}</p>`

const item = (entry: Entry) =>
  `<section class="entry"><h3 id="${escape(entry.id)}">${escape(entry.title)}</h3>
<p>${badge(entry)} <time datetime="${escape(entry.date)}">${escape(entry.date)}</time></p>
<p>${prose(entry.text)}</p>
${line("What to do", entry.migration)}${line("Holds from", entry.takes_effect)}${line("Sunset", entry.sunset)}
<p class="paths">${entry.paths.map(code).join(" ")}</p></section>`

const releases = Array.from(new Set(changelog.map(({ release }) => release)), (release) => ({
  release,
  among: changelog.filter((entry) => entry.release === release),
}))

export const page: Page = {
  path: at("changelog"),
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
      `<h2 id="${escape(`v${release}`)}">Release ${escape(release)}</h2>\n${among.map(item).join("\n")}`
    ).join("\n")
  }
`,
}
