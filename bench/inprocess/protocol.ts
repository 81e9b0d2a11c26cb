/**
 * Reads and creates messages of the PostgreSQL protocol. A message consists of a type (one letter), a length, and a
 * body.
 */

const codeOf = (letter: string) => letter.charCodeAt(0)

/** The message types. The client and the server use some letters for different message types. */
export const messageTypes = {
  parse: codeOf("P"),
  bind: codeOf("B"),
  describe: codeOf("D"),
  execute: codeOf("E"),
  sync: codeOf("S"),
  close: codeOf("C"),
  terminate: codeOf("X"),
  parameterDescription: codeOf("t"),
  rowDescription: codeOf("T"),
  noData: codeOf("n"),
  dataRow: codeOf("D"),
  commandComplete: codeOf("C"),
  emptyQuery: codeOf("I"),
  error: codeOf("E"),
  readyForQuery: codeOf("Z"),
} as const

/** Calls `handle` for each complete message. Returns the total number of bytes in these messages. */
export const forEachMessage = (
  bytes: Buffer,
  handle: (type: number, body: Buffer, message: Buffer) => void,
) => {
  let at = 0
  while (at + 5 <= bytes.length) {
    const end = at + 1 + bytes.readInt32BE(at + 1)
    if (end > bytes.length) break
    handle(
      bytes[at] ?? 0,
      bytes.subarray(at + 5, end),
      bytes.subarray(at, end),
    )
    at = end
  }
  return at
}

/** Creates a protocol message. */
export const makeMessage = (
  type: string,
  body: Uint8Array = new Uint8Array(),
) => {
  const message = Buffer.alloc(5 + body.length)
  message.write(type, 0, "latin1")
  message.writeInt32BE(4 + body.length, 1)
  message.set(body, 5)
  return message
}

/** Reads a NUL-terminated string. `end` is the offset after the terminator. */
export const readText = (bytes: Buffer, start: number) => {
  const zero = bytes.indexOf(0, start)
  return { text: bytes.toString("utf8", start, zero), end: zero + 1 }
}

/** Returns the value of a parameter from the body of a `Bind` message. */
export const readParameter = (body: Buffer, index: number) => {
  let at = readText(body, readText(body, 0).end).end
  at += 2 + 2 * body.readInt16BE(at) + 2
  for (let passed = 0; passed < index; passed += 1) {
    at += 4 + Math.max(0, body.readInt32BE(at))
  }
  return body.subarray(at + 4, at + 4 + Math.max(0, body.readInt32BE(at)))
}
