/** The frame of all pages. It works without scripts, on a phone, in light and dark, and on paper. */
import { escapeHtml, stripTags } from "./Html.ts"
import { assetPath, navigationSections, type Page, pagePath, referenceOverviewPath } from "./Page.ts"

/** A line of the navigation. */
export type NavigationEntry = Pick<Page, "path" | "section" | "title" | "label">

/** Three bars, inside the page so that no request is needed. */
const favicon = "data:image/svg+xml," + encodeURIComponent(
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path stroke="#07c" stroke-width="3" ` +
    `d="M3 15V9M8 15V2M13 15V6"/></svg>`,
)

const logo = `<svg class="logo" viewBox="0 0 16 16" aria-hidden="true"><path d="M3 15V9M8 15V2M13 15V6"/></svg>`

const link = (path: string, title: string, current: string) =>
  `<a href="${escapeHtml(path)}"${path === current ? ` aria-current="page"` : ""}>${escapeHtml(title)}</a>`

/** The endpoints are many, so their list is open on their own pages only. */
const group = (section: string, links: string, isOpen: boolean) =>
  section === "Endpoints"
    ? `<details class="endpoints"${
      isOpen ? " open" : ""
    }><summary class="section">${section}</summary>${links}</details>`
    : `<p class="section">${section}</p>${links}`

const list = (entries: ReadonlyArray<NavigationEntry>, current: string) =>
  navigationSections.map((section) => ({ section, among: entries.filter((entry) => entry.section === section) }))
    .filter(({ among }) => among.length > 0)
    .map(({ among, section }) =>
      group(
        section,
        `<ul>${among.map(({ label, path, title }) => `<li>${link(path, label ?? title, current)}</li>`).join("")}</ul>`,
        current.startsWith(referenceOverviewPath),
      )
    ).join("")

const main = [
  [pagePath("first-steps"), "First steps"],
  [referenceOverviewPath, "API reference"],
  [pagePath("explorer"), "Explorer"],
  [pagePath("account"), "Your account"],
  [pagePath("changelog"), "Changelog"],
] as const

/** Scripts show it; without them the system's setting counts. */
const themeSwitch = `<label class="theme" hidden><span>Theme</span><select><option value="system">System</option>` +
  `<option value="light">Light</option><option value="dark">Dark</option></select></label>`

/** The headings of a page that have an address. */
const headings = (body: string) => Array.from(body.matchAll(/<h2 id="([^"]+)">([\s\S]*?)<\/h2>/g))

const contents = (body: string) => {
  const found = headings(body)
  if (found.length < 2) return ""
  const lines = found.map(([, id = "", title = ""]) => `<li><a href="#${id}">${stripTags(title)}</a></li>`)
  return `<nav class="contents" aria-label="On this page"><p class="section">On this page</p><ul>${
    lines.join("")
  }</ul></nav>`
}

/** Makes each heading that has an address a link to itself. */
const linked = (body: string) =>
  body.replace(
    /<(h[23]) id="([^"]+)">([\s\S]*?)<\/\1>/g,
    (whole, tag: string, id: string, title: string) =>
      title.includes("<a ") ? whole : `<${tag} id="${id}"><a class="anchor" href="#${id}">${title}</a></${tag}>`,
  )

/** The pages before and after this one in the navigation. */
const neighbours = (path: string, entries: ReadonlyArray<NavigationEntry>) => {
  const order = navigationSections.flatMap((section) => entries.filter((entry) => entry.section === section))
  const place = order.findIndex((entry) => entry.path === path)
  if (place < 0) return ""
  const step = (entry: NavigationEntry | undefined, rel: string, name: string) =>
    entry === undefined
      ? ""
      : `<a rel="${rel}" href="${escapeHtml(entry.path)}"><span>${name}</span> ${
        escapeHtml(entry.label ?? entry.title)
      }</a>`
  return `<nav class="steps" aria-label="Previous and next page">${step(order[place - 1], "prev", "Previous")}${
    step(order[place + 1], "next", "Next")
  }</nav>`
}

/** A page as it is sent. */
export const renderLayout = (
  { body, description, path, scripts, title }: Page,
  entries: ReadonlyArray<NavigationEntry>,
) => {
  const home = pagePath("index")
  const navigation = list(entries, path)
  const aside = contents(body)
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>${path === home ? "Tickerline" : `${escapeHtml(title)} · Tickerline`}</title>
<meta name="description" content="${escapeHtml(description)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="${escapeHtml(favicon)}">
<script src="${assetPath("theme.js")}"></script>
<link rel="stylesheet" href="${assetPath("style.css")}">
<link rel="stylesheet" href="${assetPath("pictures.css")}">
${
    ["page.js", "search.js", ...scripts].map((name) => `<script type="module" src="${assetPath(name)}"></script>`).join(
      "\n",
    )
  }
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header>
<a class="brand" href="${home}">${logo} Tickerline</a>
<nav class="top" aria-label="Main">${main.map(([to, name]) => link(to, name, path)).join("")}</nav>
<button type="button" class="search-open" aria-keyshortcuts="/" hidden>Search <kbd aria-hidden="true">/</kbd></button>
${themeSwitch}
<details class="menu"><summary>Menu</summary>${themeSwitch}
<nav aria-label="Documentation, menu">${navigation}</nav></details>
</header>
<div class="columns${aside === "" ? "" : " with-contents"}">
<nav class="aside" aria-label="Documentation">${navigation}</nav>
<main id="main" tabindex="-1">
${linked(body)}
${neighbours(path, entries)}
</main>
${aside}
</div>
<footer><p>Tickerline, version <code>v1</code> of the API. <a href="/v1/openapi.json">OpenAPI document</a>,
<a href="/endpoints">list of endpoints</a>, <a href="/health/ready">health</a>.</p></footer>
</body>
</html>
`
}
