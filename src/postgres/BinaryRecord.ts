/**
 * Reads PostgreSQL's binary format for a record, `row(…)`: the number of fields, followed by the type, size and bytes
 * of each field.
 */

/** The OID of the type `text`. */
export const textTypeId = 25

/**
 * Returns whether a value of this size and type is missing. It is missing if it is null (size -1) or an empty text,
 * which means the same as null (D16).
 */
export const isMissingValue = (size: number, typeId: number) => size < 0 || (size === 0 && typeId === textTypeId)

/** Returns a range of the view's bytes without copying them. */
export const getBytes = ({ buffer, byteOffset }: DataView, offset: number, size: number) =>
  new Uint8Array(buffer, byteOffset + offset, size)

/**
 * The number of header bytes before the first field (the field count), and before each field's bytes (its type and
 * size).
 */
const [recordHeaderBytes, fieldHeaderBytes] = [4, 8]

/**
 * The offset of the first field's bytes. Every offset in this file points to a field's bytes, not to the header before
 * them.
 */
export const firstFieldOffset = recordHeaderBytes + fieldHeaderBytes

/** Returns the OID of a field's type, read from the header before the field's bytes. */
export const getFieldType = (view: DataView, offset: number) => view.getInt32(offset - 8)

/** Returns the size of a field in bytes, or -1 for null. */
export const getFieldSize = (view: DataView, offset: number) => view.getInt32(offset - 4)

/** Returns the offset of the next field's bytes. A null field (size -1) has no bytes. */
export const getNextFieldOffset = (offset: number, size: number) => offset + Math.max(0, size) + fieldHeaderBytes

/** Decodes a field to the JavaScript value that the driver would return. `type` is an OID. */
export type FieldDecoder = (bytes: Uint8Array, type: number) => unknown

/**
 * A row that is still in the connection's read buffer. Encode it immediately: holding a reference to it keeps the whole
 * buffer in memory. To store a record, `copy` it first.
 */
export class BinaryRecord {
  readonly view: DataView<ArrayBufferLike>
  readonly decode: FieldDecoder

  constructor(view: DataView<ArrayBufferLike>, decode: FieldDecoder) {
    this.view = view
    this.decode = decode
  }

  /** Returns the offset of a field, which depends on the sizes of all fields before it. */
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

  /** Returns whether a field is missing (`isMissingValue`). */
  isNull(index: number): boolean {
    return this.isMissing(this.findField(index))
  }

  /** Returns whether the field has the same value in both records. */
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

  /** Returns a copy with its own buffer, or this record if its buffer contains nothing else. */
  copy(): BinaryRecord {
    const { buffer, byteLength, byteOffset } = this.view
    if (buffer.byteLength === byteLength) return this
    return new BinaryRecord(new DataView(buffer.slice(byteOffset, byteOffset + byteLength)), this.decode)
  }
}

/** Returns the first column of each row: the record selected by `ResultEncoder.selection`. */
export const getRecordColumn = (rows: ReadonlyArray<ReadonlyArray<unknown>>): ReadonlyArray<BinaryRecord> =>
  rows.map(([record]) => {
    if (record instanceof BinaryRecord) return record
    throw new TypeError("The statement does not select a row(…)")
  })
