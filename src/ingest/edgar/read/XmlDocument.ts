/** Strict XML parser for SEC documents, with size limits (docs/decisions/0101-xml-parser.md). */
import { Data, Result } from "effect"
import { SaxesParser, type SaxesTagNS } from "saxes"

/** An element of an XML or SGML document. */
export interface XmlElement {
  /** Name without the namespace prefix. */
  readonly name: string
  /** Namespace URI; empty if the element has no namespace. */
  readonly namespace: string
  /** Attributes by name, including any namespace prefix. */
  readonly attributes: Readonly<Record<string, { readonly value: string }>>
  readonly children: ReadonlyArray<XmlElement>
  /** Text and CDATA directly inside the element, unmodified. */
  readonly text: string
}

/**
 * Size limits, far above what any form needs. The largest recorded form has 23,000 characters, 500 elements, and a
 * depth of 6.
 */
export const xmlLimits = { characters: 5_000_000, depth: 50, nodes: 200_000 }

/** Thrown to stop parsing a document. The message is a reason and does not quote the document. */
export class XmlRejected extends Data.TaggedError("XmlRejected")<{ readonly message: string }> {}

/** The handlers that `scanXml` calls while it parses a document. */
export interface XmlHandlers {
  /** Called for each start tag. The depth of the root element is 1. */
  readonly onOpen: (tag: SaxesTagNS, depth: number) => void
  readonly onClose: (depth: number) => void
  /** Called for text and CDATA. */
  readonly onText: (text: string) => void
}

/**
 * Parses a document and calls the handlers for each tag and text, without building a tree. Fails with a reason that
 * does not quote the document, or with the message of an `XmlRejected` thrown by a handler. Documents with a DTD are
 * rejected, so only XML's five predefined entities and numeric character references can occur.
 */
export const scanXml = (
  text: string,
  maxCharacters: number,
  { onClose, onOpen, onText }: XmlHandlers,
): Result.Result<void, string> => {
  if (text.length > maxCharacters) return Result.fail(`has more than ${maxCharacters} characters`)
  const parser = new SaxesParser({ xmlns: true })
  let depth = 0
  // Keep the number of handlers below seven. With a seventh, V8 would store the parser's properties in a hash table,
  // which is five times slower.
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

/**
 * Parses a document and returns its root element with all of its content. Fails with a reason if the document is
 * malformed or too large.
 */
export const parseXml = (text: string): Result.Result<XmlElement, string> => {
  /** The elements whose end tag has not been read yet, outermost first. */
  const open: Array<OpenElement> = []
  let root: XmlElement | undefined
  /** Number of elements and attributes. */
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

/** Returns the only child element with this name, or undefined if there is none or more than one. */
export const findOnlyChildElement = (parent: XmlElement | undefined, name: string): XmlElement | undefined => {
  const children = parent === undefined ? [] : findChildElements(parent, name)
  return children.length === 1 ? children[0] : undefined
}

/**
 * Returns an element's text with whitespace collapsed. Returns null if the text is empty or the element has child
 * elements.
 */
export const readElementText = (element: XmlElement | undefined): string | null => {
  if (element === undefined || element.children.length > 0) return null
  const text = element.text.replace(/\s+/g, " ").trim()
  return text === "" ? null : text
}
