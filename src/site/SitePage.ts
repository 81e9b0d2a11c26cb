/** Defines documentation pages, and the paths of pages and assets. */
import { Function } from "effect"
import { documentationPath } from "../contract/rules/Deprecation.ts"
import type { Html } from "./browser/markup.js"
import { getReferencePageName } from "./browser/request-links.js"
import type { Entry } from "./browser/search-matching.js"

/** The sections of the navigation, in order. */
export const navigationSections = ["Start", "Guides", "Tools", "Reference", "Endpoints"] as const

/** A documentation page. */
export interface SitePage {
  /** The URL path, such as `/v1/docs/lineage`. */
  readonly path: `/${string}`
  readonly title: string
  /** The name to show in the navigation, if it differs from the title. */
  readonly label?: string
  readonly section: typeof navigationSections[number]
  /** Names of scripts in `browser/` that this page loads in addition to those that every page loads. */
  readonly scripts: ReadonlyArray<string>
  /** Renders the page content. Callers should use `getPageContent`, which caches the result. */
  readonly render: () => PageContent
}

interface PageContent {
  /** One sentence, shown in search results and link previews. */
  readonly description: string
  /** The content of the `main` element. It starts with an `h1`. */
  readonly body: Html
  /** The page's search index entry. If present, it replaces the entries that would be created from the body. */
  readonly search?: Entry
}

/**
 * Returns a page's content, which is rendered on first use and then cached
 * (docs/decisions/0060-pages-are-rendered-on-first-request.md).
 */
export const getPageContent = Function.memoize((page: SitePage) => page.render())

/** Returns the path of a page. The name `index` stands for the home page. */
export const getPagePath = (name: string): `/${string}` =>
  name === "index" ? documentationPath : `${documentationPath}/${name}`

/** Returns the path of an asset: a script, a style sheet or the search index. */
export const getAssetPath = (name: string) => getPagePath(`assets/${name}`)

/** The path of the API reference overview. */
export const referenceOverviewPath = getPagePath("reference")

/** Returns the path of an endpoint's reference page, such as `/v1/docs/reference/usage-daily` for `/v1/usage/daily`. */
export const getReferencePagePath = (path: string) => getPagePath(getReferencePageName(path))
