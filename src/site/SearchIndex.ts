/**
 * Creates the search index that `browser/search-dialog.js` uses. It has an entry for each page and for each heading.
 */
import type { Entry } from "./browser/search-matching.js"
import { changelogPage } from "./ChangelogPage.ts"
import { getPageContent, referenceOverviewPath, type SitePage } from "./SitePage.ts"

const entities: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: `"`, "#39": "'" }

/**
 * Extracts the text from HTML, skipping code blocks, figures, forms and navigation. Inline elements such as links are
 * removed without a trace, because they may occur within a word. All other tags are replaced with a space, because they
 * separate words.
 */
const searchableText = (html: string) =>
  html.replace(/<(pre|svg|script|form|nav)[\s>][\s\S]*?<\/\1>/g, " ")
    .replace(/<wbr>|<\/?(?:a|code|b|strong|em|span)(?:\s[^>]*)?>/g, "").replace(/<[^>]+>/g, " ")
    .replace(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => entities[name] ?? "")
    .replace(/\s+/g, " ").trim()

/** The maximum length of the text of an entry, in characters, which limits the size of the search index. */
const maxTextLength = 1500

/**
 * Returns the entries for a page in the search index: one for the text before the first heading of level two or three,
 * and one for each of these headings with the text below it. Reference pages bring their own single entry. This renders
 * the page if it has not been rendered yet.
 */
export const makeSearchIndexEntries = (page: SitePage): ReadonlyArray<Entry> => {
  const { path, section, title } = page
  const { body, description, search } = getPageContent(page)
  if (search !== undefined) return [search]
  // The overview gets a single entry, because the endpoints in its tables have their own entries.
  if (path === referenceOverviewPath) {
    return [{ path, page: title, heading: "", text: description, fields: "", isChange: false }]
  }
  const entry = (path: string, heading: string, html: string): Entry => ({
    path,
    page: title,
    heading,
    text: searchableText(html).slice(0, maxTextLength),
    fields: "",
    isChange: path.startsWith(`${changelogPage.path}#`),
  })
  // The lookahead splits before each heading without removing it.
  const [introduction = "", ...sections] = body.toString().split(/(?=<h[23] id=")/)
  return [
    entry(path, "", introduction.replace(/<h1[\s\S]*?<\/h1>/, "")),
    ...sections.map((html) => {
      const [element = "", id = "", heading = ""] = /^<h[23] id="([^"]+)">([\s\S]*?)<\/h[23]>/.exec(html) ?? []
      return entry(`${path}#${id}`, searchableText(heading), html.slice(element.length))
    }),
    // On tool pages, sections that are empty until a script fills them contain nothing to search for, so they are left
    // out.
  ].filter(({ heading, text }) => section !== "Tools" || heading === "" || text !== "")
}
