/** The guides: each file of `docs/`, read and rendered once, when the service starts. */
import { Effect, FileSystem, Path } from "effect"
import { BaseUrl } from "../http/Middleware.ts"
import { makeGuideBlocks } from "./Blocks.ts"
import { renderGuide } from "./Markdown.ts"
import { type Page, pagePath } from "./Page.ts"

const folder = new URL("../../docs/", import.meta.url)

/** In the order of the navigation; what is not named here comes behind, by name. */
const order = [
  "index",
  "first-steps",
  "client",
  "python",
  "lineage",
  "timestamps",
  "errors",
  "paging",
  "formats",
  "caching",
  "cost",
]

/** Those that are no guide to one subject. */
const sectionOf: Readonly<Record<string, Page["section"]>> = {
  index: "Start",
  "first-steps": "Start",
  client: "Start",
  python: "Start",
  deprecations: "Reference",
  glossary: "Reference",
  operators: "Reference",
}

/** Scripts of single guides. */
const scripts: Readonly<Record<string, ReadonlyArray<string>>> = {
  timestamps: ["converter.js"],
}

/** Where examples ask; a reader is shown the address of the service that is read. */
export const exampleServiceUrl = "http://127.0.0.1:8080"

const rank = (name: string) => order.includes(name) ? order.indexOf(name) : order.length

export const renderGuides = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const place = yield* path.fromFileUrl(folder)
  const made = yield* makeGuideBlocks
  const base = yield* BaseUrl
  const names = (yield* fs.readDirectory(place)).filter((file) => file.endsWith(".md"))
    .map((file) => file.slice(0, -".md".length)).toSorted((left, right) =>
      rank(left) - rank(right) || (left < right ? -1 : 1)
    )
  return yield* Effect.forEach(
    names,
    (name) =>
      Effect.map(fs.readFileString(path.join(place, `${name}.md`)), (source): Page => ({
        ...renderGuide(`${name}.md`, base === "" ? source : source.replaceAll(exampleServiceUrl, base), made),
        path: pagePath(name),
        section: sectionOf[name] ?? "Guides",
        scripts: scripts[name] ?? [],
        ...(name === "index" ? { label: "Introduction" } : {}),
      })),
  )
}).pipe(Effect.orDie)
