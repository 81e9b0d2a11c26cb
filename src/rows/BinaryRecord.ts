/** PostgreSQL's binary format of a record, `row(…)`: the number of fields, then each field's type, size and bytes. */

/** OID of `text`. */
export const textTypeId = 25

/** Whether a value of this size and type is missing: null (-1), or an empty text, which means the same (D16). */
export const isMissingValue = (size: number, typeId: number) => size < 0 || (size === 0 && typeId === textTypeId)

export const readInt16 = (bytes: Uint8Array, offset: number) =>
  (((bytes[offset] ?? 0) << 8) | (bytes[offset + 1] ?? 0)) << 16 >> 16

export const readInt32 = (bytes: Uint8Array, offset: number) =>
  ((bytes[offset] ?? 0) << 24) | ((bytes[offset + 1] ?? 0) << 16) | ((bytes[offset + 2] ?? 0) << 8) |
  (bytes[offset + 3] ?? 0)

/** Decodes a field as the driver does. `type` is an OID. */
export type FieldDecoder = (bytes: Uint8Array, type: number) => unknown

/** Size of the header before the first field, and of the header before each field's bytes. */
export const [recordHeaderBytes, fieldHeaderBytes] = [4, 8]

/**
 * A row in the connection's buffer. Encode it at once: keeping it keeps the whole buffer in memory.
 * `copy` makes a record that may be kept.
 */
export class BinaryRecord {
  readonly bytes: Uint8Array
  readonly offset: number
  readonly size: number
  readonly decode: FieldDecoder

  constructor(bytes: Uint8Array, offset: number, size: number, decode: FieldDecoder) {
    this.bytes = bytes
    this.offset = offset
    this.size = size
    this.decode = decode
  }

  /** Returns the position of a field's size, which precedes its bytes. */
  private findSize(index: number) {
    let at = this.offset + recordHeaderBytes + 4
    for (let passed = 0; passed < index; passed += 1) {
      at += fieldHeaderBytes + Math.max(0, readInt32(this.bytes, at))
    }
    return at
  }

  /** Whether the field with its size at this position has no value. */
  private isMissing(at: number) {
    return isMissingValue(readInt32(this.bytes, at), readInt32(this.bytes, at - 4))
  }

  isNull(index: number): boolean {
    return this.isMissing(this.findSize(index))
  }

  /** Whether the field has the same value in both records. */
  hasSameField(other: BinaryRecord, index: number): boolean {
    const [start, otherStart] = [this.findSize(index), other.findSize(index)]
    if (this.isMissing(start) && other.isMissing(otherStart)) return true
    const length = 4 + Math.max(0, readInt32(this.bytes, start))
    for (let at = 0; at < length; at += 1) {
      if (this.bytes[start + at] !== other.bytes[otherStart + at]) return false
    }
    return true
  }

  /** Returns this record if it is the only content of its buffer; otherwise a copy with a buffer of its own. */
  copy(): BinaryRecord {
    if (this.bytes.length === this.size) return this
    return new BinaryRecord(this.bytes.slice(this.offset, this.offset + this.size), 0, this.size, this.decode)
  }
}

/** Returns the first column of each row, which `ResultEncoder.selection` selects as a record. */
export const getRecordColumn = (rows: ReadonlyArray<ReadonlyArray<unknown>>): ReadonlyArray<BinaryRecord> =>
  rows.map(([record]) => {
    if (record instanceof BinaryRecord) return record
    throw new TypeError("The statement does not select a row(…)")
  })
