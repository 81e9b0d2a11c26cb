/** Turns the guides in `docs/guides/` into documentation pages. */
import { Effect, FileSystem, Path } from "effect"
import { defaultServerUrl } from "../api/catalogue/OpenApiDocument.ts"
import { BaseUrl } from "../api/BaseUrl.ts"
import { makeGuideBlockRenderers } from "./GuideFencedBlocks.ts"
import { parseGuideTitle, renderGuide } from "./Markdown.ts"
import { getPagePath, type SitePage } from "./SitePage.ts"

const folder = new URL("../../docs/guides/", import.meta.url)

/** The order of guides in the navigation, by file name. Guides not listed here come last, in alphabetical order. */
const order = [
  "index",
  "first-steps",
  "client",
  "python",
  "generators",
  "mcp",
  "lineage",
  "timeline",
  "changes",
  "webhooks",
  "timestamps",
  "errors",
  "filters",
  "paging",
  "formats",
  "provenance",
  "as-of",
  "caching",
  "cost",
  "invoices",
]

/** The navigation sections of guides that do not belong to the section "Guides". */
const sections: Readonly<Record<string, SitePage["section"]>> = {
  index: "Start",
  "first-steps": "Start",
  client: "Start",
  python: "Start",
  generators: "Start",
  mcp: "Start",
  deprecations: "Reference",
  glossary: "Reference",
  operators: "Reference",
}

/** Scripts in `browser/` that only a particular guide loads, by the guide's name. */
const scripts: Readonly<Record<string, ReadonlyArray<string>>> = { timestamps: ["timestamp-converter.js"] }

const rank = (name: string) => order.includes(name) ? order.indexOf(name) : order.length

/** A guide that has not been rendered. */
export interface Guide {
  readonly name: string
  /** The path of the file, relative to the folder `docs`. */
  readonly file: string
  readonly title: string
  /** The Markdown source, in whose examples the default URL has been replaced with this service's URL. */
  readonly source: string
}

/**
 * Reads all guides, in navigation order. In their text, the API's default address is replaced by the address of this
 * service, unless that is empty.
 */
export const readGuides = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const directory = yield* path.fromFileUrl(folder)
  const baseUrl = yield* BaseUrl
  const names = (yield* fs.readDirectory(directory)).filter((file) => file.endsWith(".md"))
    .map((file) => file.slice(0, -".md".length))
    // All names without a rank in `order` have the same rank, so these are sorted by name.
    .toSorted((left, right) => rank(left) - rank(right) || (left < right ? -1 : 1))
  return yield* Effect.forEach(
    names,
    (name) =>
      Effect.map(fs.readFileString(path.join(directory, `${name}.md`)), (text): Guide => {
        const file = `guides/${name}.md`
        const source = baseUrl === "" ? text : text.replaceAll(defaultServerUrl, baseUrl)
        return { name, file, title: parseGuideTitle(file, source), source }
      }),
  )
}).pipe(Effect.orDie)

/** Creates a documentation page for each guide. */
export const makeGuidePages = Effect.gen(function* () {
  const blocks = yield* makeGuideBlockRenderers
  return (yield* readGuides).map(({ file, name, source, title }): SitePage => ({
    path: getPagePath(name),
    title,
    section: sections[name] ?? "Guides",
    scripts: scripts[name] ?? [],
    render: () => renderGuide(file, source, blocks),
    ...(name === "index" ? { label: "Introduction" } : {}),
  }))
})
