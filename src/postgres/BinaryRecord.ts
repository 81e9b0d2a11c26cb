/**
 * Reads PostgreSQL's binary format for a record, `row(…)`: the number of fields, then the type, size and bytes of each.
 */

/** OID of the type `text`. */
export const textTypeId = 25

/**
 * Whether a value of this size and type is missing: it is null (size -1), or an empty text, which means the same (D16).
 */
export const isMissingValue = (size: number, typeId: number) => size < 0 || (size === 0 && typeId === textTypeId)

/** Returns a range of the view's bytes without copying them. */
export const getBytes = ({ buffer, byteOffset }: DataView, offset: number, size: number) =>
  new Uint8Array(buffer, byteOffset + offset, size)

/** Bytes before the first field (the number of fields), and before the bytes of each field (its type and its size). */
const [recordHeaderBytes, fieldHeaderBytes] = [4, 8]

/**
 * Offset of the first field's bytes. All functions here take the offset of a field's bytes, not of the header before
 * them.
 */
export const firstFieldOffset = recordHeaderBytes + fieldHeaderBytes

/** Returns the OID of a field's type, which is in the header before its bytes. */
export const getFieldType = (view: DataView, offset: number) => view.getInt32(offset - 8)

/** Returns the size of a field in bytes, or -1 for null. */
export const getFieldSize = (view: DataView, offset: number) => view.getInt32(offset - 4)

/** Returns the offset of the next field's bytes. A null field (size -1) has no bytes. */
export const getNextFieldOffset = (offset: number, size: number) => offset + Math.max(0, size) + fieldHeaderBytes

/** Decodes a field to the value that the driver would return. `type` is an OID. */
export type FieldDecoder = (bytes: Uint8Array, type: number) => unknown

/**
 * A row that is still in the connection's read buffer. Encode it immediately, because keeping it keeps the whole buffer
 * in memory; `copy` returns a record that may be kept.
 */
export class BinaryRecord {
  readonly view: DataView<ArrayBufferLike>
  readonly decode: FieldDecoder

  constructor(view: DataView<ArrayBufferLike>, decode: FieldDecoder) {
    this.view = view
    this.decode = decode
  }

  findField(index: number): number {
    let offset = firstFieldOffset
    for (let passed = 0; passed < index; passed += 1) {
      offset = getNextFieldOffset(offset, getFieldSize(this.view, offset))
    }
    return offset
  }

  private isMissing(offset: number) {
    return isMissingValue(getFieldSize(this.view, offset), getFieldType(this.view, offset))
  }

  isNull(index: number): boolean {
    return this.isMissing(this.findField(index))
  }

  /** Whether the field has the same value in both records. */
  hasSameField(other: BinaryRecord, index: number): boolean {
    const [offset, otherOffset] = [this.findField(index), other.findField(index)]
    if (this.isMissing(offset) && other.isMissing(otherOffset)) return true
    const size = getFieldSize(this.view, offset)
    if (getFieldSize(other.view, otherOffset) !== size) return false
    for (let at = 0; at < size; at += 1) {
      if (this.view.getUint8(offset + at) !== other.view.getUint8(otherOffset + at)) return false
    }
    return true
  }

  /** Returns this record if it is all that its buffer contains; otherwise a copy with a buffer of its own. */
  copy(): BinaryRecord {
    const { buffer, byteLength, byteOffset } = this.view
    if (buffer.byteLength === byteLength) return this
    return new BinaryRecord(new DataView(buffer.slice(byteOffset, byteOffset + byteLength)), this.decode)
  }
}

/** Returns the first column of each row, which is the record that `ResultEncoder.selection` selects. */
export const getRecordColumn = (rows: ReadonlyArray<ReadonlyArray<unknown>>): ReadonlyArray<BinaryRecord> =>
  rows.map(([record]) => {
    if (record instanceof BinaryRecord) return record
    throw new TypeError("The statement does not select a row(…)")
  })
