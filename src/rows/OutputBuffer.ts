/** The buffer that rows are encoded into. Encoding is synchronous, so that one buffer is enough. */

const initialBytes = 262_144
/** A larger buffer is released after use. */
const maxKeptBytes = 4_194_304
/** Room for writes of four bytes of which fewer count. */
const spareBytes = 8

const textEncoder = new TextEncoder()

class OutputBuffer {
  /** Replaced when it grows: read it again after each `reserve`. */
  bytes = new Uint8Array(0)
  view = new DataView(this.bytes.buffer)

  private replace(bytes: Uint8Array<ArrayBuffer>) {
    this.bytes = bytes
    this.view = new DataView(bytes.buffer)
  }

  /** Makes room for `size` bytes at the position. */
  reserve(position: number, size: number) {
    const needed = position + size + spareBytes
    if (needed <= this.bytes.length) return
    const larger = new Uint8Array(Math.max(initialBytes, needed * 2))
    larger.set(this.bytes)
    this.replace(larger)
  }

  /** Writes a short ASCII text. Returns its end. */
  writeAscii(text: string, position: number): number {
    this.reserve(position, text.length)
    for (let index = 0; index < text.length; index += 1) this.bytes[position + index] = text.charCodeAt(index)
    return position + text.length
  }

  /** Writes text as UTF-8. Returns its end. */
  writeText(text: string, position: number): number {
    this.reserve(position, text.length * 3)
    return position + textEncoder.encodeInto(text, this.bytes.subarray(position)).written
  }

  /** Returns a copy of the bytes before the end, so that a response does not keep the buffer. */
  take(end: number): Uint8Array {
    const copy = this.bytes.slice(0, end)
    if (this.bytes.length > maxKeptBytes) this.replace(new Uint8Array(0))
    return copy
  }
}

export const output = new OutputBuffer()
