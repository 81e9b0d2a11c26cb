/** The buffer that rows are encoded into. Encoding is synchronous, so a single buffer is sufficient. */

const initialBytes = 262_144
/** A buffer that has grown beyond this size is released after use. */
const maxKeptBytes = 4_194_304
/** Extra space after the text. The last write of eight bytes may extend beyond the end of the text. */
const spareBytes = 8

const textEncoder = new TextEncoder()

/** Text as groups of eight bytes. Writing a group is faster than writing its bytes individually. */
export interface EncodedWords {
  readonly words: BigInt64Array
  /** The size of the text in bytes. The last group may extend beyond the end of the text. */
  readonly size: number
}

/** Encodes text as groups of eight bytes. */
export const encodeAsWords = (text: string): EncodedWords => {
  const bytes = textEncoder.encode(text)
  const padded = new DataView(new ArrayBuffer(Math.ceil(bytes.length / 8) * 8))
  bytes.forEach((byte, index) => padded.setUint8(index, byte))
  return {
    words: BigInt64Array.from({ length: padded.byteLength / 8 }, (_, index) => padded.getBigInt64(index * 8)),
    size: bytes.length,
  }
}

/** A growing buffer of bytes. All write methods take the position at which to write, and return the position after. */
class OutputBuffer {
  /**
   * The buffer's memory. It is replaced when the buffer grows, so read this property again after each call of
   * `reserve`.
   */
  bytes = new Uint8Array(0)
  view = new DataView(this.bytes.buffer)

  private replace(bytes: Uint8Array<ArrayBuffer>) {
    this.bytes = bytes
    this.view = new DataView(bytes.buffer)
  }

  /** Ensures that there is room for `size` bytes at the position. */
  reserve(position: number, size: number) {
    const needed = position + size + spareBytes
    if (needed <= this.bytes.length) return
    const larger = new Uint8Array(Math.max(initialBytes, needed * 2))
    larger.set(this.bytes)
    this.replace(larger)
  }

  /** Writes text and returns the position after it. The caller must have reserved room for the text. */
  writeWords({ size, words }: EncodedWords, position: number): number {
    const { view } = this
    for (let index = 0, at = position; index < words.length; index += 1, at += 8) {
      view.setBigInt64(at, words[index] ?? 0n)
    }
    return position + size
  }

  /** Writes text as UTF-8 and returns the position after it. Reserves room as needed. */
  writeText(text: string, position: number): number {
    this.reserve(position, text.length * 3)
    const { bytes } = this
    for (let index = 0; index < text.length; index += 1) {
      const code = text.charCodeAt(index)
      if (code >= 128) {
        const rest = textEncoder.encodeInto(text.slice(index), bytes.subarray(position + index))
        return position + index + rest.written
      }
      bytes[position + index] = code
    }
    return position + text.length
  }

  /**
   * Returns a copy of the bytes before `end`. Because of the copy, a response does not keep the whole buffer in memory.
   */
  take(end: number): Uint8Array {
    const copy = this.bytes.slice(0, end)
    if (this.bytes.length > maxKeptBytes) this.replace(new Uint8Array(0))
    return copy
  }
}

/** The only buffer that rows are encoded into. */
export const rowOutputBuffer = new OutputBuffer()
