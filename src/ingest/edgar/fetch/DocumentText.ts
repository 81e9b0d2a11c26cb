/** Decodes a document's bytes: XML in its declared encoding (XML 1.0, 4.3.3), JSON and HTML as UTF-8. */
import { Result } from "effect"
import { Buffer } from "node:buffer"

/** Returns whether the bytes begin with these values. */
const startsWith = (bytes: Uint8Array, ...start: ReadonlyArray<number>) =>
  start.every((byte, index) => bytes[index] === byte)

/**
 * Detects a Unicode encoding from the byte order mark of a document or, for UTF-16 without one, from the leading
 * characters `<?`. Returns undefined if there is neither.
 */
const detectUnicode = (bytes: Uint8Array) => {
  if (startsWith(bytes, 0xef, 0xbb, 0xbf)) return "utf-8"
  if (startsWith(bytes, 0xff, 0xfe) || startsWith(bytes, 0x3c, 0, 0x3f, 0)) return "utf-16le"
  return startsWith(bytes, 0xfe, 0xff) || startsWith(bytes, 0, 0x3c, 0, 0x3f) ? "utf-16be" : undefined
}

/**
 * Returns the encoding given in a document's XML declaration, which contains only ASCII characters. Returns UTF-8 if
 * the declaration does not specify an encoding, and undefined if there is no declaration.
 */
const findDeclaredEncoding = (bytes: Uint8Array) => {
  const [declaration] = /^\s*<\?xml\s[^>]*/.exec(Buffer.from(bytes.subarray(0, 256)).toString("latin1")) ?? []
  if (declaration === undefined) return undefined
  return /\sencoding\s*=\s*["']([A-Za-z][\w.-]*)["']/.exec(declaration)?.[1] ?? "utf-8"
}

/** Creates a decoder that fails on invalid bytes. Fails if the encoding is unknown. */
const makeDecoder = (encoding: string) => {
  try {
    return Result.succeed(new TextDecoder(encoding, { fatal: true }))
  } catch {
    return Result.fail("declares an unknown character encoding")
  }
}

/**
 * Decodes a document. If an XML declaration or a byte order mark specifies the encoding, the encoding must be known and
 * the bytes must be valid; otherwise, the result is a failure with the reason as a clause. Any other document is
 * decoded as UTF-8, with U+FFFD in place of invalid bytes.
 */
export const decodeDocumentText = (bytes: Uint8Array): Result.Result<string, string> => {
  const encoding = detectUnicode(bytes) ?? findDeclaredEncoding(bytes)
  if (encoding === undefined) return Result.succeed(Buffer.from(bytes).toString("utf8"))
  return Result.flatMap(makeDecoder(encoding), (decoder) =>
    Result.try({
      try: () => decoder.decode(bytes),
      catch: () => `is not valid ${decoder.encoding.toUpperCase()}, its declared character encoding`,
    }))
}
