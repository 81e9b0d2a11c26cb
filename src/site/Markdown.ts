/** A guide's Markdown as HTML. What it is made of is fixed: no HTML of its own, and links that lead somewhere. */
import { Marked, type Tokens } from "marked"
import { highlightCode } from "./Colours.ts"
import { escapeHtml, stripTags } from "./Html.ts"
import { pagePath } from "./Page.ts"
import { renderHtmlTable } from "./Table.ts"

/** Makes HTML of a fenced block; its text is what stands in the fence. */
export type RenderBlock = (text: string) => string

/** By the first word after the fence; the rest is the block's argument, where it has one. */
export type GuideBlocks = Readonly<Record<string, (argument: string) => RenderBlock>>

export interface RenderedGuide {
  readonly title: string
  /** The first paragraph, as text. */
  readonly description: string
  readonly body: string
}

/** `#retry-or-not`, as code hosts make it of `## Retry, or not`. */
export const headingSlug = (heading: string) =>
  heading.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, "").trim().replace(/\s/g, "-")

const plain = (text: string) => text.replace(/[`*]/g, "").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")

/** `lineage.md#candidates` beside this file is a page of the site. */
export const linkAddress = (href: string) => {
  const [, name, anchor = ""] = /^([\w-]+)\.md(#.*)?$/.exec(href) ?? []
  return name === undefined ? href : `${pagePath(name)}${anchor}`
}

const titles: Readonly<Record<string, string>> = {
  sh: "Shell",
  ts: "TypeScript",
  python: "Python",
  json: "JSON",
  http: "HTTP",
  text: "Output",
}

/** A block of code, which scrolls by itself if it is wider than the page. */
export const renderCodeBlock = (language: string, text: string) =>
  `<div class="code" data-language="${escapeHtml(language)}"><p class="language">${
    escapeHtml(titles[language] ?? language)
  }</p><pre tabindex="0"><code>${highlightCode(language, text)}</code></pre></div>`

export const renderGuide = (file: string, source: string, blocks: GuideBlocks): RenderedGuide => {
  const found = { title: "", description: "" }
  const slugs = new Set<string>()
  const marked = new Marked({
    gfm: true,
    renderer: {
      html: ({ text }: Tokens.HTML | Tokens.Tag) => {
        throw new Error(`docs/${file}: HTML is not for guides: ${text.trim()}`)
      },
      heading({ depth, tokens }: Tokens.Heading) {
        const inner = this.parser.parseInline(tokens)
        const slug = headingSlug(stripTags(inner))
        if (depth === 1) {
          found.title = plain(tokens.map(({ raw }) => raw).join(""))
          return `<h1>${inner}</h1>\n`
        }
        if (slugs.has(slug)) throw new Error(`docs/${file}: two headings have the address #${slug}`)
        slugs.add(slug)
        return `<h${depth} id="${slug}">${inner}</h${depth}>\n`
      },
      paragraph({ tokens }: Tokens.Paragraph) {
        const inner = this.parser.parseInline(tokens)
        found.description ||= plain(tokens.map(({ raw }) => raw).join("")).replace(/\s+/g, " ")
        return `<p>${inner}</p>\n`
      },
      link({ href, tokens }: Tokens.Link) {
        const elsewhere = /^https?:/.test(href) ? ` rel="noreferrer"` : ""
        return `<a href="${escapeHtml(linkAddress(href))}"${elsewhere}>${this.parser.parseInline(tokens)}</a>`
      },
      code({ lang = "", text }: Tokens.Code) {
        const [kind = "", ...rest] = lang.split(" ")
        const block = blocks[kind]
        return block === undefined ? renderCodeBlock(kind, text) : block(rest.join(" "))(text)
      },
      table({ header, rows }: Tokens.Table) {
        const cells = (row: ReadonlyArray<Tokens.TableCell>) => row.map(({ tokens }) => this.parser.parseInline(tokens))
        return renderHtmlTable(cells(header), rows.map(cells))
      },
    },
  })
  const body = marked.parse(source, { async: false })
  if (found.title === "") throw new Error(`docs/${file}: its first line must be its title, # Title`)
  return { ...found, body }
}
