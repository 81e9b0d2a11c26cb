/** What a page of the documentation is, whoever writes it. */
import { documentation } from "../policy/Lifecycle.ts"

/** Where it stands in the navigation; `none` for what is found from other pages only. */
export const sections = ["Start", "Guides", "Tools", "Reference"] as const

export interface Page {
  /** Its address: `/v1/docs/lineage`. */
  readonly path: `/${string}`
  readonly title: string
  /** What the navigation calls it, where that is not its title. */
  readonly label?: string
  /** A sentence, for search results and link previews. */
  readonly description: string
  readonly section: typeof sections[number]
  /** HTML: what stands in `main`, from `h1` on. What is not the page's own text is escaped. */
  readonly body: string
  /** Files of `browser/` that the page loads, as modules. */
  readonly scripts: ReadonlyArray<string>
}

/** The address of the page of that name; the first page has none. */
export const at = (name: string): `/${string}` =>
  name === "" || name === "index" ? documentation : `${documentation}/${name}`

export const asset = (name: string) => at(`assets/${name}`)
