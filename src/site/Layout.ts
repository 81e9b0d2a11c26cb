/** The one frame of all pages: works without scripts, on a phone, in light and dark, and on paper. */
import { favicon } from "../catalogue/Docs.ts"
import { escape } from "./Html.ts"
import { asset, at, type Page, sections } from "./Page.ts"

/** A line of the navigation. */
export type Entry = Pick<Page, "path" | "section" | "title" | "label">

const logo = `<svg class="logo" viewBox="0 0 16 16" aria-hidden="true"><path d="M3 15V9M8 15V2M13 15V6"/></svg>`

const link = (path: string, title: string, current: string) =>
  `<a href="${escape(path)}"${path === current ? ` aria-current="page"` : ""}>${escape(title)}</a>`

const list = (entries: ReadonlyArray<Entry>, current: string) =>
  sections.map((section) => ({ section, among: entries.filter((entry) => entry.section === section) }))
    .filter(({ among }) => among.length > 0)
    .map(({ among, section }) =>
      `<p class="section">${section}</p><ul>${
        among.map(({ label, path, title }) => `<li>${link(path, label ?? title, current)}</li>`).join("")
      }</ul>`
    ).join("")

/** The headings of a page that have an address. */
const contents = (body: string) => {
  const found = Array.from(body.matchAll(/<h2 id="([^"]+)">([\s\S]*?)<\/h2>/g))
  if (found.length < 2) return ""
  const lines = found.map(([, id = "", title = ""]) => `<li><a href="#${id}">${title.replace(/<[^>]+>/g, "")}</a></li>`)
  return `<nav class="contents" aria-label="On this page"><p class="section">On this page</p><ul>${
    lines.join("")
  }</ul></nav>`
}

/** A page as it is sent. */
export const frame = ({ body, description, path, scripts, title }: Page, entries: ReadonlyArray<Entry>) => {
  const home = at("index")
  const navigation = list(entries, path)
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>${path === home ? "Tickerline" : `${escape(title)} · Tickerline`}</title>
<meta name="description" content="${escape(description)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="${escape(favicon)}">
<link rel="stylesheet" href="${asset("style.css")}">
<link rel="stylesheet" href="${asset("pictures.css")}">
${["copy.js", ...scripts].map((name) => `<script type="module" src="${asset(name)}"></script>`).join("\n")}
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header>
<a class="brand" href="${home}">${logo} Tickerline</a>
<details class="menu"><summary>Menu</summary><nav aria-label="Documentation, menu">${navigation}</nav></details>
</header>
<div class="columns">
<nav class="aside" aria-label="Documentation">${navigation}</nav>
<main id="main" tabindex="-1">
${body}
</main>
${contents(body)}
</div>
<footer><p>Tickerline, version <code>v1</code> of the API. <a href="/v1/openapi.json">OpenAPI document</a>,
<a href="/endpoints">list of endpoints</a>, <a href="/health/ready">health</a>.</p></footer>
</body>
</html>
`
}
