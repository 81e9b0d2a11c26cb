/** The layout of every page. It works without scripts, on phones, in light and dark themes, and in print. */
import { escapeMarkup, stripTags } from "./browser/markup.js"
import {
  getAssetPath,
  getPageContent,
  getPagePath,
  navigationSections,
  referenceOverviewPath,
  type SitePage,
} from "./Page.ts"

/** Inlined, so that the icon needs no request. */
export const favicon = "data:image/svg+xml," +
  encodeURIComponent(
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path stroke="#07c" stroke-width="3" ` +
      `d="M3 15V9M8 15V2M13 15V6"/></svg>`,
  )

export const logo = `<svg class="logo" viewBox="0 0 16 16" aria-hidden="true"><path d="M3 15V9M8 15V2M13 15V6"/></svg>`

const link = (path: string, title: string, currentPath: string) =>
  `<a href="${escapeMarkup(path)}"${path === currentPath ? ` aria-current="page"` : ""}>${escapeMarkup(title)}</a>`

/** The long list of endpoints is expanded only on the reference pages. */
const renderSection = (section: string, links: string, currentPath: string) => {
  if (section !== "Endpoints") return `<p class="section">${section}</p>${links}`
  const open = currentPath.startsWith(referenceOverviewPath) ? " open" : ""
  return `<details class="endpoints"${open}><summary class="section">${section}</summary>${links}</details>`
}

const renderNavigation = (pages: ReadonlyArray<SitePage>, currentPath: string) =>
  navigationSections.map((section) => {
    const items = pages.filter((page) => page.section === section)
      .map(({ label, path, title }) => `<li>${link(path, label ?? title, currentPath)}</li>`)
    return items.length === 0 ? "" : renderSection(section, `<ul>${items.join("")}</ul>`, currentPath)
  }).join("")

const mainLinks = [
  [getPagePath("first-steps"), "First steps"],
  [referenceOverviewPath, "API reference"],
  [getPagePath("explorer"), "Explorer"],
  [getPagePath("account"), "Your account"],
  [getPagePath("changelog"), "Changelog"],
] as const

/** Hidden until a script shows it. Without scripts, the system's theme applies. */
export const themeSwitch =
  `<label class="theme" hidden><span>Theme</span><select><option value="system">System</option>` +
  `<option value="light">Light</option><option value="dark">Dark</option></select></label>`

const renderTableOfContents = (body: string) => {
  const headings = Array.from(body.matchAll(/<h2 id="([^"]+)">([\s\S]*?)<\/h2>/g))
  if (headings.length < 2) return ""
  const items = headings.map(([, id = "", title = ""]) => `<li><a href="#${id}">${stripTags(title)}</a></li>`)
  return `<nav class="contents" aria-label="On this page"><p class="section">On this page</p><ul>${
    items.join("")
  }</ul></nav>`
}

/** Makes each heading with an anchor a link to itself, unless the heading contains a link. */
const linkHeadings = (body: string) =>
  body.replace(
    /<(h[23]) id="([^"]+)">([\s\S]*?)<\/\1>/g,
    (heading, tag: string, id: string, title: string) =>
      title.includes("<a ") ? heading : `<${tag} id="${id}"><a class="anchor" href="#${id}">${title}</a></${tag}>`,
  )

const renderPreviousAndNext = (currentPath: string, pages: ReadonlyArray<SitePage>) => {
  const ordered = navigationSections.flatMap((section) => pages.filter((page) => page.section === section))
  const index = ordered.findIndex(({ path }) => path === currentPath)
  if (index < 0) return ""
  const neighbour = (page: SitePage | undefined, rel: string, name: string) =>
    page === undefined
      ? ""
      : `<a rel="${rel}" href="${escapeMarkup(page.path)}"><span>${name}</span> ${
        escapeMarkup(page.label ?? page.title)
      }</a>`
  return `<nav class="steps" aria-label="Previous and next page">${neighbour(ordered[index - 1], "prev", "Previous")}${
    neighbour(ordered[index + 1], "next", "Next")
  }</nav>`
}

/** Renders a complete HTML document. `pages` are the entries of the navigation. */
export const renderHtmlPage = (page: SitePage, pages: ReadonlyArray<SitePage>) => {
  const { path, scripts, title } = page
  const { body, description } = getPageContent(page)
  const home = getPagePath("index")
  const navigation = renderNavigation(pages, path)
  const tableOfContents = renderTableOfContents(body)
  const modules = ["every-page.js", "search-dialog.js", ...scripts]
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<script src="${getAssetPath("key-link.js")}"></script>
<title>${path === home ? "Tickerline" : `${escapeMarkup(title)} · Tickerline`}</title>
<meta name="description" content="${escapeMarkup(description)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="${escapeMarkup(favicon)}">
<script src="${getAssetPath("theme.js")}"></script>
<link rel="stylesheet" href="${getAssetPath("style.css")}">
${modules.map((name) => `<script type="module" src="${getAssetPath(name)}"></script>`).join("\n")}
</head>
<body>
<a class="skip" href="#page-content">Skip to the content</a>
<header>
<a class="brand" href="${home}">${logo} Tickerline</a>
<nav class="top" aria-label="Main">${mainLinks.map(([target, name]) => link(target, name, path)).join("")}</nav>
<button type="button" class="search-open" aria-keyshortcuts="/" hidden>Search <kbd aria-hidden="true">/</kbd></button>
${themeSwitch}
<details class="menu"><summary>Menu</summary>${themeSwitch}
<nav aria-label="Documentation, menu">${navigation}</nav></details>
</header>
<div class="columns${tableOfContents === "" ? "" : " with-contents"}">
<nav class="aside" aria-label="Documentation">${navigation}</nav>
<main id="page-content" tabindex="-1">
${linkHeadings(body)}
${renderPreviousAndNext(path, pages)}
</main>
${tableOfContents}
</div>
<footer><p>Tickerline API <code>v1</code>. <a href="/v1/openapi.json">OpenAPI document</a>,
<a href="/endpoints">list of endpoints</a>, <a href="/health/ready">health</a>.</p></footer>
</body>
</html>
`
}
