/** One page of the documentation, whoever writes it. */
import { documentationPath } from "../rules/Lifecycle.ts"

/** The groups of the navigation, in order. */
export const navigationSections = ["Start", "Guides", "Tools", "Reference", "Endpoints"] as const

export interface Page {
  /** Its address: `/v1/docs/lineage`. */
  readonly path: `/${string}`
  readonly title: string
  /** Its name in the navigation, if that is not its title. */
  readonly label?: string
  /** A sentence, for search results and link previews. */
  readonly description: string
  readonly section: typeof navigationSections[number]
  /** HTML: the content of `main`, from `h1` on. Text that is not the page's own is escaped. */
  readonly body: string
  /** Files in `browser/` that the page loads, as modules. */
  readonly scripts: ReadonlyArray<string>
  /** The page's only entry in the search index, if its own text says too much. */
  readonly search?: { readonly title: string; readonly text: string }
}

/** The address of the page of that name; the first page has none. */
export const pagePath = (name: string): `/${string}` =>
  name === "" || name === "index" ? documentationPath : `${documentationPath}/${name}`

export const assetPath = (name: string) => pagePath(`assets/${name}`)

export const referenceOverviewPath = pagePath("reference")

/** The reference page of an endpoint: `/v1/docs/reference/usage-daily` for `/v1/usage/daily`. */
export const referencePagePath = (path: string) =>
  pagePath(`reference/${path.replace(/^\/(v1\/)?/, "").replaceAll(/[/.]/g, "-")}`)
