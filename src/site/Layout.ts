/** The layout of all pages. It works without JavaScript, on phones, in light and dark mode, and in print. */
import { Html, joinMarkup, markup, renderElement, stripTags } from "./browser/markup.js"
import {
  getAssetPath,
  getPageContent,
  getPagePath,
  navigationSections,
  referenceOverviewPath,
  type SitePage,
} from "./SitePage.ts"

const bars = "M3 15V9M8 15V2M13 15V6"
const icon = renderElement("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: "0 0 16 16" }, [
  renderElement("path", { stroke: "#07c", "stroke-width": "3", d: bars }),
])

/** The favicon as a data URL, which avoids a request. */
export const favicon = `data:image/svg+xml,${encodeURIComponent(icon.toString())}`

/** The logo in the page header. */
export const logo = markup`<svg class="logo" viewBox="0 0 16 16" aria-hidden="true"><path d="${bars}"/></svg>`

const link = (path: string, title: string, currentPath: string) =>
  markup`<a href="${path}"${path === currentPath && markup` aria-current="page"`}>${title}</a>`

/** Renders a section of the navigation. The long list of endpoints is collapsed, except on reference pages. */
const renderSection = (section: string, links: Html, currentPath: string) => {
  if (section !== "Endpoints") return markup`<p class="section">${section}</p>${links}`
  const open = currentPath.startsWith(referenceOverviewPath) && " open"
  return markup`<details class="endpoints"${open}><summary class="section">${section}</summary>${links}</details>`
}

/** Renders the navigation of the documentation: links to all pages, grouped by section. */
const renderNavigation = (pages: ReadonlyArray<SitePage>, currentPath: string) =>
  navigationSections.map((section) => {
    const items = pages.filter((page) => page.section === section)
      .map(({ label, path, title }) => markup`<li>${link(path, label ?? title, currentPath)}</li>`)
    return items.length > 0 && renderSection(section, markup`<ul>${items}</ul>`, currentPath)
  })

const mainLinks = [
  [getPagePath("first-steps"), "First steps"],
  [referenceOverviewPath, "API reference"],
  [getPagePath("explorer"), "Explorer"],
  [getPagePath("account"), "Your account"],
  [getPagePath("changelog"), "Changelog"],
] as const

/** The theme selector. It is hidden until a script shows it; without JavaScript, the system theme is used. */
export const themeSwitch = markup`<label class="theme" hidden><span>Theme</span><select>${
  ["System", "Light", "Dark"].map((theme) => markup`<option value="${theme.toLowerCase()}">${theme}</option>`)
}</select></label>`

/**
 * Renders the table of contents of a page: links to its second-level headings. Returns undefined if there are fewer
 * than two. `body` is HTML, so the ids and titles found in it are already escaped and must not be escaped again.
 */
const renderTableOfContents = (body: Html) => {
  const headings = Array.from(body.toString().matchAll(/<h2 id="([^"]+)">([\s\S]*?)<\/h2>/g))
  if (headings.length < 2) return undefined
  const items = headings.map(([, id = "", title = ""]) =>
    markup`<li><a href="#${new Html(id)}">${stripTags(new Html(title))}</a></li>`
  )
  const list = markup`<p class="section">On this page</p><ul>${items}</ul>`
  return markup`<nav class="contents" aria-label="On this page">${list}</nav>`
}

/**
 * Turns the text of each second- and third-level heading that has an id into a link to the heading itself, so that
 * visitors can copy its address. Headings that already contain a link are unchanged, because links must not be nested.
 * As in `renderTableOfContents`, ids and titles are already escaped.
 */
const linkHeadings = (body: Html) => {
  const link = (heading: string, level: string, id: string, title: string) =>
    /<a /.test(title)
      ? heading
      : markup`<h${level} id="${new Html(id)}"><a class="anchor" href="#${new Html(id)}">${new Html(
        title,
      )}</a></h${level}>`.toString()
  return new Html(body.toString().replace(/<h([23]) id="([^"]+)">([\s\S]*?)<\/h\1>/g, link))
}

/**
 * Renders links to the pages before and after the current page, in the order of the navigation. Returns undefined for a
 * page that is not in the navigation, such as the page for unknown paths.
 */
const renderPreviousAndNext = (currentPath: string, pages: ReadonlyArray<SitePage>) => {
  const ordered = navigationSections.flatMap((section) => pages.filter((page) => page.section === section))
  const index = ordered.findIndex(({ path }) => path === currentPath)
  if (index < 0) return undefined
  const neighbour = (page: SitePage | undefined, rel: string, name: string) =>
    page !== undefined &&
    markup`<a rel="${rel}" href="${page.path}"><span>${name}</span> ${page.label ?? page.title}</a>`
  return markup`<nav class="steps" aria-label="Previous and next page">${
    neighbour(ordered[index - 1], "prev", "Previous")
  }${neighbour(ordered[index + 1], "next", "Next")}</nav>`
}

/**
 * Renders a page as a complete HTML document. `pages` are the pages to list in the navigation. Two scripts are not
 * modules, so the browser runs them before it shows anything: `key-link.js` removes an API key from the address, and
 * `theme.js` applies the chosen theme. The navigation occurs twice: beside the content, and in the menu for phones.
 */
export const renderHtmlPage = (page: SitePage, pages: ReadonlyArray<SitePage>) => {
  const { path, scripts, title } = page
  const { body, description } = getPageContent(page)
  const home = getPagePath("index")
  const navigation = renderNavigation(pages, path)
  const tableOfContents = renderTableOfContents(body)
  const modules = ["every-page.js", "search-dialog.js", ...scripts]
  return markup`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<script src="${getAssetPath("key-link.js")}"></script>
<title>${path === home ? "Tickerline" : `${title} · Tickerline`}</title>
<meta name="description" content="${description}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="${favicon}">
<script src="${getAssetPath("theme.js")}"></script>
<link rel="stylesheet" href="${getAssetPath("style.css")}">
${joinMarkup(modules.map((name) => markup`<script type="module" src="${getAssetPath(name)}"></script>`), "\n")}
</head>
<body>
<a class="skip" href="#page-content">Skip to the content</a>
<header>
<a class="brand" href="${home}">${logo} Tickerline</a>
<nav class="top" aria-label="Main">${mainLinks.map(([target, name]) => link(target, name, path))}</nav>
<button type="button" class="search-open" aria-keyshortcuts="/" hidden>Search <kbd aria-hidden="true">/</kbd></button>
${themeSwitch}
<details class="menu"><summary>Menu</summary>${themeSwitch}
<nav aria-label="Documentation, menu">${navigation}</nav></details>
</header>
<div class="columns${tableOfContents === undefined ? "" : " with-contents"}">
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
`.toString()
}
