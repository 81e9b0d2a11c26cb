/** Strict parsing of the SEC's XML documents, with limits (docs/decisions/0101-xml-parser.md). */
import { Result } from "effect"
import { SaxesParser } from "saxes"

export interface XmlElement {
  /** The element's name, without the namespace prefix. */
  readonly name: string
  /** Empty if the element has no namespace. */
  readonly namespace: string
  /** By the names in the document, with their prefixes. */
  readonly attributes: Readonly<Record<string, { readonly value: string }>>
  readonly children: ReadonlyArray<XmlElement>
  /** Text and CDATA directly inside the element, as written. */
  readonly text: string
}

/** Far more than any form needs: the largest recording has 23,000 characters, 500 elements and a depth of 6. */
export const xmlLimits = { characters: 5_000_000, depth: 50, nodes: 200_000 }

class XmlRejected extends Error {}

interface OpenElement extends XmlElement {
  readonly children: Array<XmlElement>
  text: string
}

/**
 * Parses a document and returns its root element. Fails with a reason that contains no text of the document.
 * A DTD is refused, so a document can use only XML's five entities and numeric character references.
 */
export const parseXml = (text: string): Result.Result<XmlElement, string> => {
  if (text.length > xmlLimits.characters) return Result.fail(`has more than ${xmlLimits.characters} characters`)
  const parser = new SaxesParser({ xmlns: true })
  const open: Array<OpenElement> = []
  let root: XmlElement | undefined
  let nodes = 0
  const addText = (text: string) => {
    const element = open.at(-1)
    if (element !== undefined) element.text += text
  }
  // With a seventh handler, V8 would keep the parser's properties in a hash table, which is five times as slow.
  parser.on("error", () => {
    throw new XmlRejected(`is not well-formed XML (line ${parser.line})`)
  })
  parser.on("doctype", () => {
    throw new XmlRejected("has a document type definition, which could define entities")
  })
  parser.on("opentag", ({ attributes, local, uri }) => {
    nodes += 1 + Object.keys(attributes).length
    if (nodes > xmlLimits.nodes) throw new XmlRejected(`has more than ${xmlLimits.nodes} elements and attributes`)
    const element: OpenElement = { name: local, namespace: uri, attributes, children: [], text: "" }
    open.at(-1)?.children.push(element)
    root ??= element
    open.push(element)
    if (open.length > xmlLimits.depth) throw new XmlRejected(`has more than ${xmlLimits.depth} levels of elements`)
  })
  parser.on("closetag", () => {
    open.pop()
  })
  parser.on("text", addText)
  parser.on("cdata", addText)
  try {
    parser.write(text).close()
  } catch (error) {
    if (error instanceof XmlRejected) return Result.fail(error.message)
    throw error
  }
  return root === undefined ? Result.fail("is not well-formed XML") : Result.succeed(root)
}

/** Returns the child elements with this name, in the namespace of their parent. */
export const findChildElements = (parent: XmlElement, name: string) =>
  parent.children.filter((child) => child.name === name && child.namespace === parent.namespace)

/** Returns the only child element with this name. Undefined if there is none, or more than one. */
export const findOnlyChildElement = (parent: XmlElement | undefined, name: string): XmlElement | undefined => {
  const children = parent === undefined ? [] : findChildElements(parent, name)
  return children.length === 1 ? children[0] : undefined
}

/** Returns an element's text with single spaces instead of line breaks. Null if it is empty or contains elements. */
export const readElementText = (element: XmlElement | undefined): string | null => {
  if (element === undefined || element.children.length > 0) return null
  const text = element.text.replace(/\s+/g, " ").trim()
  return text === "" ? null : text
}
