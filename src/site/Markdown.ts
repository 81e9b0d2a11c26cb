/** Renders Markdown guides as HTML. Guides must not contain raw HTML. */
import highlight from "highlight.js/lib/core"
import bash from "highlight.js/lib/languages/bash"
import json from "highlight.js/lib/languages/json"
import python from "highlight.js/lib/languages/python"
import typescript from "highlight.js/lib/languages/typescript"
import { Marked, type RendererThis, type Token, type Tokens } from "marked"
import { Html, markup, renderCodeBlock, renderTable, stripTags } from "./browser/markup.js"
import { getPagePath } from "./SitePage.ts"

highlight.registerLanguage("sh", bash)
highlight.registerLanguage("json", json)
highlight.registerLanguage("python", python)
highlight.registerLanguage("ts", typescript)

const languageNames: Readonly<Record<string, string>> = {
  sh: "Shell",
  ts: "TypeScript",
  python: "Python",
  json: "JSON",
  http: "HTTP",
  text: "Output",
}

/** Renders a code block, with syntax highlighting if the language is supported. */
export const renderHighlightedCode = (language: string, text: string) =>
  renderCodeBlock(
    languageNames[language] ?? language,
    highlight.getLanguage(language) === undefined ? text : new Html(highlight.highlight(text, { language }).value),
  )

/**
 * Renders a fenced code block with a special name. `text` is its content, and `argument` is the text after the name on
 * its first line.
 */
type RenderBlock = (text: string, argument: string) => Html

/** Renderers for special fenced blocks, by block name. All other fenced blocks are rendered as code. */
export type GuideBlockRenderers = Readonly<Record<string, RenderBlock>>

interface RenderedGuide {
  readonly title: string
  /** The guide's first paragraph as plain text. */
  readonly description: string
  readonly body: Html
}

/** Returns the anchor of a heading, using GitHub's rules: `## Retry, or not` becomes `#retry-or-not`. */
export const makeHeadingAnchor = (heading: string) =>
  heading.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, "").trim().replace(/\s/g, "-")

/**
 * Converts a link to another guide, such as `lineage.md#candidates`, to a link to the guide's page. Other links are
 * unchanged.
 */
const linkAddress = (href: string) => {
  const [, name, anchor = ""] = /^([\w-]+)\.md(#.*)?$/.exec(href) ?? []
  return name === undefined ? href : `${getPagePath(name)}${anchor}`
}

/** Renders the inline Markdown within an element, such as links, code and emphasis within a paragraph. */
const renderInline = ({ parser }: RendererThis, tokens: Array<Token>) => new Html(parser.parseInline(tokens))

const plainText = (markdown: string) => markdown.replace(/[`*]/g, "").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")

/** Returns the title of a guide. Throws if the first line is not a title in the form `# Title`. */
export const parseGuideTitle = (file: string, source: string) => {
  const [, title] = /^# (.+)\n/.exec(source) ?? []
  if (title === undefined) throw new Error(`docs/${file}: the first line must be the title, "# Title"`)
  return plainText(title)
}

/**
 * Renders the Markdown source of a guide as HTML. Headings get an anchor, links to other guides are converted to links
 * to their pages, and the fenced code blocks named in `blocks` are rendered by these functions. Throws if the guide
 * contains raw HTML, or two headings with the same anchor. `file` is only used in error messages.
 */
export const renderGuide = (file: string, source: string, blocks: GuideBlockRenderers): RenderedGuide => {
  const title = parseGuideTitle(file, source)
  let description = ""
  const anchors = new Set<string>()
  const marked = new Marked({
    gfm: true,
    renderer: {
      html: ({ text }: Tokens.HTML | Tokens.Tag) => {
        throw new Error(`docs/${file}: guides must not contain HTML: ${text.trim()}`)
      },
      heading({ depth, tokens }: Tokens.Heading) {
        const inner = renderInline(this, tokens)
        if (depth === 1) return markup`<h1>${inner}</h1>\n`.toString()
        const anchor = makeHeadingAnchor(stripTags(inner).toString())
        if (anchors.has(anchor)) throw new Error(`docs/${file}: two headings have the anchor #${anchor}`)
        anchors.add(anchor)
        return markup`<h${depth} id="${anchor}">${inner}</h${depth}>\n`.toString()
      },
      paragraph({ tokens }: Tokens.Paragraph) {
        // Paragraphs are rendered in order, so only the first one finds the description still empty.
        description ||= plainText(tokens.map(({ raw }) => raw).join("")).replace(/\s+/g, " ")
        return markup`<p>${renderInline(this, tokens)}</p>\n`.toString()
      },
      link({ href, tokens }: Tokens.Link) {
        // Other websites do not learn from which page of the documentation a visitor comes.
        const rel = /^https?:/.test(href) && markup` rel="noreferrer"`
        return markup`<a href="${linkAddress(href)}"${rel}>${renderInline(this, tokens)}</a>`.toString()
      },
      code({ lang = "", text }: Tokens.Code) {
        // `lang` is the rest of the line that opens the block, such as `json` or `chain META picture`.
        const [name = "", ...words] = lang.split(" ")
        const renderBlock = blocks[name]
        const block = renderBlock === undefined ? renderHighlightedCode(name, text) : renderBlock(text, words.join(" "))
        return block.toString()
      },
      table({ header, rows }: Tokens.Table) {
        const cells = (row: ReadonlyArray<Tokens.TableCell>) => row.map(({ tokens }) => renderInline(this, tokens))
        return renderTable(cells(header), rows.map(cells)).toString()
      },
    },
  })
  const body = new Html(marked.parse(source, { async: false }))
  return { title, description, body }
}
