/** Tests that there are no dead links in the repository's documents and on the served pages. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { existsSync, globSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path/posix"
import { catalogueEndpoints } from "../../src/api/catalogue/Endpoints.ts"
import { makeHeadingAnchor } from "../../src/site/Markdown.ts"
import { repositoryRoot } from "../support/CodeBlocks.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"
import * as Service from "../support/Service.ts"

const documents = globSync("**/*.md", {
  cwd: repositoryRoot,
  exclude: (name) => ["node_modules", ".tickerline", "results"].includes(name) || name.startsWith("."),
}).toSorted()

const prose = (file: string) => readFileSync(repositoryRoot + file, "utf8").replace(/^```[\s\S]*?^```$/gm, "")

const anchorsOf = (file: string) =>
  new Set(
    Array.from(prose(file).matchAll(/^#+ (.+)$/gm), ([, heading = ""]) =>
      makeHeadingAnchor(heading.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1"))),
  )

const linksOf = (file: string) =>
  Array.from(prose(file).replace(/`[^`\n]*`/g, "").matchAll(/\]\(([^)\s]+)\)/g), ([, link = ""]) => link)

const isServed = (path: string) =>
  path.startsWith("/v1/docs") || catalogueEndpoints.some(({ row }) => row.path === path)

/** Links from documents to pages that the service serves. */
const served = documents.flatMap((file) => linksOf(file).filter((link) => link.startsWith("/")))

describe("The links in the documents", () => {
  it.each(documents)("lead to existing targets in %s (CONTRIBUTING.md)", (file) => {
    const dead = linksOf(file).filter((link) => {
      if (/^https?:/.test(link)) return false
      if (link.startsWith("/")) return !isServed(link.split("#")[0] ?? link)
      const [path = "", anchor] = link.split("#")
      const target = path === "" ? file : join(dirname(file), path)
      if (!existsSync(repositoryRoot + target)) return true
      return anchor !== undefined && target.endsWith(".md") && !anchorsOf(target).has(anchor)
    })
    assert.deepStrictEqual(dead, [])
  })
})

interface Page {
  readonly path: string
  readonly text: string
}

const attributes = (text: string, name: string) =>
  Array.from(
    text.matchAll(new RegExp(`<[a-z][^>]*\\s${name}="([^"]*)"`, "g")),
    ([, value = ""]) => value.replaceAll("&amp;", "&"),
  )

/** Returns forbidden references to other origins. Only links that send no referrer are allowed. */
const findForbiddenReferences = ({ text }: Page) => {
  const own = text.replaceAll(/<a href="https:[^"]*" rel="noreferrer">/g, "<a>")
  return [...attributes(own, "href"), ...attributes(own, "src")].filter((link) =>
    !/^(\/(?!\/)|#|data:image\/svg)/.test(link)
  )
}

layer(Service.layer, { excludeTestServices: true })("The site", (it) => {
  const open = (path: string) => Service.requestJson(path, { key: null })

  it.effect("has no dead links on pages that can be reached from the start page or a guide (§9.4, README.md)", () =>
    Effect.gen(function* () {
      const pages = new Map<string, Page>()
      const wanted = new Map<string, string>([
        ["/v1/docs", "the Link header"],
        ...served.map((link) => [link, "a guide"] as const),
      ])
      for (const [link, from] of wanted) {
        const path = link.split("#")[0] ?? link
        if (pages.has(path)) continue
        const { headers, status, text } = yield* open(path)
        // An API endpoint responds with 401 if there is no key, and with 422 if required parameters are missing.
        assert.include([200, 401, 422], status, `${link}, linked from ${from}`)
        const isPage = path.startsWith("/v1/docs") && headers["content-type"]?.startsWith("text/html") === true
        pages.set(path, { path, text: isPage ? text : "" })
        if (!isPage) continue
        assert.deepStrictEqual(findForbiddenReferences({ path, text }), [], path)
        for (const next of [...attributes(text, "href"), ...attributes(text, "src")]) {
          if (next.startsWith("/")) wanted.set(next, path)
          if (next.startsWith("#")) wanted.set(`${path}${next}`, path)
        }
      }
      assertFoundMoreThan(12, "pages", pages)
      const dead = Array.from(wanted.keys()).filter((link) => {
        const [path = "", anchor] = link.split("#")
        // The fragment in a link to the explorer is a symbol, not an anchor.
        if (path === "/v1/docs/explorer" && /^[A-Z0-9]+$/.test(anchor ?? "")) return false
        const page = pages.get(path)
        return anchor !== undefined && page?.text !== "" && !page?.text.includes(`id="${anchor}"`)
      })
      assert.deepStrictEqual(dead, [])
    }))
})
