/** Strict parsing of the SEC's XML documents, with limits (docs/decisions/0101-xml-parser.md). */
import { Data, Result } from "effect"
import { SaxesParser, type SaxesTagNS } from "saxes"

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

/** Ends the parsing of a document. The message is a reason that contains no text of the document. */
export class XmlRejected extends Data.TaggedError("XmlRejected")<{ readonly message: string }> {}

export interface XmlHandlers {
  /** The depth of the root element is 1. */
  readonly onOpen: (tag: SaxesTagNS, depth: number) => void
  readonly onClose: (depth: number) => void
  /** Gets text and CDATA. */
  readonly onText: (text: string) => void
}

/**
 * Parses a document. Fails with a reason that quotes no text of the document, or with the reason of an `XmlRejected`
 * that a handler throws. A DTD is refused, so a document can use only XML's five entities and numeric character
 * references.
 */
export const scanXml = (
  text: string,
  maxCharacters: number,
  { onClose, onOpen, onText }: XmlHandlers,
): Result.Result<void, string> => {
  if (text.length > maxCharacters) return Result.fail(`has more than ${maxCharacters} characters`)
  const parser = new SaxesParser({ xmlns: true })
  let depth = 0
  // With a seventh handler, V8 would keep the parser's properties in a hash table, which is five times as slow.
  parser.on("error", () => {
    throw new XmlRejected({ message: `is not well-formed XML (line ${parser.line})` })
  })
  parser.on("doctype", () => {
    throw new XmlRejected({ message: "has a document type definition, which could define entities" })
  })
  parser.on("opentag", (tag) => {
    depth += 1
    if (depth > xmlLimits.depth) {
      throw new XmlRejected({ message: `has more than ${xmlLimits.depth} levels of elements` })
    }
    onOpen(tag, depth)
  })
  parser.on("closetag", () => {
    onClose(depth)
    depth -= 1
  })
  parser.on("text", onText)
  parser.on("cdata", onText)
  try {
    parser.write(text).close()
    return Result.void
  } catch (error) {
    if (error instanceof XmlRejected) return Result.fail(error.message)
    throw error
  }
}

interface OpenElement extends XmlElement {
  readonly children: Array<XmlElement>
  text: string
}

/** Parses a document and returns its root element. */
export const parseXml = (text: string): Result.Result<XmlElement, string> => {
  const open: Array<OpenElement> = []
  let root: XmlElement | undefined
  let nodes = 0
  const scanned = scanXml(text, xmlLimits.characters, {
    onOpen: ({ attributes, local, uri }) => {
      nodes += 1 + Object.keys(attributes).length
      if (nodes > xmlLimits.nodes) {
        throw new XmlRejected({ message: `has more than ${xmlLimits.nodes} elements and attributes` })
      }
      const element: OpenElement = { name: local, namespace: uri, attributes, children: [], text: "" }
      open.at(-1)?.children.push(element)
      root ??= element
      open.push(element)
    },
    onClose: () => void open.pop(),
    onText: (part) => {
      const element = open.at(-1)
      if (element !== undefined) element.text += part
    },
  })
  return Result.flatMap(scanned, () => Result.fromNullishOr(root, () => "is not well-formed XML"))
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
