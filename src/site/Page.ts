/** Defines a documentation page, and the addresses of pages and assets. */
import { Function } from "effect"
import { documentationPath } from "../contract/rules/Deprecation.ts"
import type { Html } from "./browser/markup.js"
import { getReferencePageName } from "./browser/request-links.js"
import type { Entry } from "./browser/search-matching.js"

/** Navigation sections, in order. */
export const navigationSections = ["Start", "Guides", "Tools", "Reference", "Endpoints"] as const

/** A documentation page. */
export interface SitePage {
  /** Such as `/v1/docs/lineage`. */
  readonly path: `/${string}`
  readonly title: string
  /** Name in the navigation, if it differs from the title. */
  readonly label?: string
  readonly section: typeof navigationSections[number]
  /** Scripts in `browser/` that the page loads in addition to those of every page. */
  readonly scripts: ReadonlyArray<string>
  /** Renders the content. Call `getPageContent` instead, which remembers the result. */
  readonly render: () => PageContent
}

interface PageContent {
  /** A sentence for search results and link previews. */
  readonly description: string
  /** The content of the `main` element, which starts with an `h1`. */
  readonly body: Html
  /** The page's entry in the search index, instead of the entries that would be taken from the body. */
  readonly search?: Entry
}

/** Renders a page when it is first needed (docs/decisions/0060-pages-are-rendered-on-first-request.md). */
export const getPageContent = Function.memoize((page: SitePage) => page.render())

/** Returns the path of a page. `index` is the start page. */
export const getPagePath = (name: string): `/${string}` =>
  name === "index" ? documentationPath : `${documentationPath}/${name}`

/** Returns the path of a script, a style sheet or the search index. */
export const getAssetPath = (name: string) => getPagePath(`assets/${name}`)

/** Path of the API reference's overview. */
export const referenceOverviewPath = getPagePath("reference")

/** Returns the path of an endpoint's reference page: `/v1/docs/reference/usage-daily` for `/v1/usage/daily`. */
export const getReferencePagePath = (path: string) => getPagePath(getReferencePageName(path))
