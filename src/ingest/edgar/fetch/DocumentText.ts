/** Decodes the bytes of a document: XML in the encoding that it declares (XML 1.0, 4.3.3), JSON and HTML as UTF-8. */
import { Result } from "effect"
import { Buffer } from "node:buffer"

const startsWith = (bytes: Uint8Array, ...start: ReadonlyArray<number>) =>
  start.every((byte, index) => bytes[index] === byte)

/** Returns the encoding that a byte order mark or, in UTF-16 without one, the characters `<?` at the start show. */
const detectUnicode = (bytes: Uint8Array) => {
  if (startsWith(bytes, 0xef, 0xbb, 0xbf)) return "utf-8"
  if (startsWith(bytes, 0xff, 0xfe) || startsWith(bytes, 0x3c, 0, 0x3f, 0)) return "utf-16le"
  return startsWith(bytes, 0xfe, 0xff) || startsWith(bytes, 0, 0x3c, 0, 0x3f) ? "utf-16be" : undefined
}

/**
 * Returns the encoding in the XML declaration, which has only ASCII characters. A declaration without an encoding means
 * UTF-8. Undefined if there is no declaration.
 */
const findDeclaredEncoding = (bytes: Uint8Array) => {
  const [declaration] = /^\s*<\?xml\s[^>]*/.exec(Buffer.from(bytes.subarray(0, 256)).toString("latin1")) ?? []
  if (declaration === undefined) return undefined
  return /\sencoding\s*=\s*["']([A-Za-z][\w.-]*)["']/.exec(declaration)?.[1] ?? "utf-8"
}

const makeDecoder = (encoding: string) => {
  try {
    return Result.succeed(new TextDecoder(encoding, { fatal: true }))
  } catch {
    return Result.fail("declares an unknown character encoding")
  }
}

/**
 * Decodes a document. Fails with a reason if its XML declaration or byte order mark names an encoding that is unknown,
 * or in which the bytes are not valid. Other documents are read as UTF-8, and invalid bytes in them become U+FFFD.
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
