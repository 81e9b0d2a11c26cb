/** A guide's Markdown as HTML. What it is made of is fixed: no HTML of its own, and links that lead somewhere. */
import { Marked, type Tokens } from "marked"
import { coloured } from "./Colours.ts"
import { escape, withoutTags } from "./Html.ts"
import { at } from "./Page.ts"
import { table } from "./Table.ts"

/** Makes HTML of a fenced block; its text is what stands in the fence. */
export type Block = (text: string) => string

/** By the first word after the fence; the rest is the block's argument, where it has one. */
export type Blocks = Readonly<Record<string, (argument: string) => Block>>

export interface Guide {
  readonly title: string
  /** The first paragraph, as text. */
  readonly description: string
  readonly body: string
}

/** `#retry-or-not`, as code hosts make it of `## Retry, or not`. */
export const slugOf = (heading: string) =>
  heading.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, "").trim().replace(/\s/g, "-")

const plain = (text: string) => text.replace(/[`*]/g, "").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")

/** `lineage.md#candidates` beside this file is a page of the site. */
export const addressOf = (href: string) => {
  const [, name, anchor = ""] = /^([\w-]+)\.md(#.*)?$/.exec(href) ?? []
  return name === undefined ? href : `${at(name)}${anchor}`
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
export const fence = (language: string, text: string) =>
  `<div class="code" data-language="${escape(language)}"><p class="language">${
    escape(titles[language] ?? language)
  }</p><pre tabindex="0"><code>${coloured(language, text)}</code></pre></div>`

export const render = (file: string, source: string, blocks: Blocks): Guide => {
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
        const slug = slugOf(withoutTags(inner))
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
        return `<a href="${escape(addressOf(href))}"${elsewhere}>${this.parser.parseInline(tokens)}</a>`
      },
      code({ lang = "", text }: Tokens.Code) {
        const [kind = "", ...rest] = lang.split(" ")
        const block = blocks[kind]
        return block === undefined ? fence(kind, text) : block(rest.join(" "))(text)
      },
      table({ header, rows }: Tokens.Table) {
        const cells = (row: ReadonlyArray<Tokens.TableCell>) => row.map(({ tokens }) => this.parser.parseInline(tokens))
        return table(cells(header), rows.map(cells))
      },
    },
  })
  const body = marked.parse(source, { async: false })
  if (found.title === "") throw new Error(`docs/${file}: its first line must be its title, # Title`)
  return { ...found, body }
}
