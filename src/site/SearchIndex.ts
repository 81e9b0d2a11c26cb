/** The search index, read by `browser/search.js`: one entry per page and per heading, made when the service starts. */
import { type Page, referenceOverviewPath } from "./Page.ts"

export interface SearchEntry {
  readonly path: string
  /** The page's title. */
  readonly page: string
  /** The heading, empty for the page itself. */
  readonly heading: string
  readonly text: string
}

const entities: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: `"`, "#39": "'" }

const plain = (html: string) =>
  html.replace(/<(pre|svg|script|form|nav)[\s>][\s\S]*?<\/\1>/g, " ")
    .replace(/<wbr>|<\/?(?:a|code|b|strong|em|span)(?:\s[^>]*)?>/g, "").replace(/<[^>]+>/g, " ")
    .replace(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => entities[name] ?? "")
    .replace(/\s+/g, " ").trim()

/** A longer section is found by its beginning. */
const mostText = 1500

const entry = (path: string, page: string, heading: string, html: string): SearchEntry => ({
  path,
  page,
  heading,
  text: plain(html).slice(0, mostText),
})

const entriesOf = ({ body, description, path, search, section, title }: Page): ReadonlyArray<SearchEntry> => {
  if (search !== undefined) return [{ path, page: search.title, heading: "", text: search.text }]
  // Its tables name the endpoints, each of which is an entry of its own.
  if (path === referenceOverviewPath) return [{ path, page: title, heading: "", text: description }]
  const [start = "", ...parts] = body.split(/(?=<h[23] id=")/)
  return [
    entry(path, title, "", start.replace(/<h1[\s\S]*?<\/h1>/, "")),
    ...parts.map((part) => {
      const [whole = "", id = "", heading = ""] = /^<h[23] id="([^"]+)">([\s\S]*?)<\/h[23]>/.exec(part) ?? []
      return entry(`${path}#${id}`, title, plain(heading), part.slice(whole.length))
    }),
  ].filter(({ heading, text }) => section !== "Tools" || heading === "" || text !== "")
}

export const buildSearchIndex = (pages: ReadonlyArray<Page>): ReadonlyArray<SearchEntry> => pages.flatMap(entriesOf)
