/** PostgreSQL's binary format of a record, `row(…)`: the number of fields, then each field's type, size and bytes. */

/** OID of `text`. */
export const textTypeId = 25

/** Whether a value of this size and type is missing: null (-1), or an empty text, which means the same (D16). */
export const isMissingValue = (size: number, typeId: number) => size < 0 || (size === 0 && typeId === textTypeId)

/** Returns a part of the view, in the same memory. */
export const getBytes = ({ buffer, byteOffset }: DataView, offset: number, size: number) =>
  new Uint8Array(buffer, byteOffset + offset, size)

/** Size of the number of fields, and of the type and the size before each field's bytes. */
const [recordHeaderBytes, fieldHeaderBytes] = [4, 8]

/** Offset of the first field. The offset of a field is that of its bytes, after its header. */
export const firstFieldOffset = recordHeaderBytes + fieldHeaderBytes

export const getFieldType = (view: DataView, offset: number) => view.getInt32(offset - 8)

/** Returns the size of a field in bytes; -1 for null. */
export const getFieldSize = (view: DataView, offset: number) => view.getInt32(offset - 4)

export const getNextFieldOffset = (offset: number, size: number) => offset + Math.max(0, size) + fieldHeaderBytes

/** Decodes a field as the driver does. `type` is an OID. */
export type FieldDecoder = (bytes: Uint8Array, type: number) => unknown

/**
 * A row in the connection's buffer. Encode it at once: keeping it keeps the whole buffer in memory.
 * `copy` makes a record that may be kept.
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

  /** Returns this record if it is the only content of its buffer; otherwise a copy with a buffer of its own. */
  copy(): BinaryRecord {
    const { buffer, byteLength, byteOffset } = this.view
    if (buffer.byteLength === byteLength) return this
    return new BinaryRecord(new DataView(buffer.slice(byteOffset, byteOffset + byteLength)), this.decode)
  }
}

/** Returns the first column of each row, which `ResultEncoder.selection` selects as a record. */
export const getRecordColumn = (rows: ReadonlyArray<ReadonlyArray<unknown>>): ReadonlyArray<BinaryRecord> =>
  rows.map(([record]) => {
    if (record instanceof BinaryRecord) return record
    throw new TypeError("The statement does not select a row(…)")
  })
