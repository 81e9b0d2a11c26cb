/**
 * Writes the rows of a list as a Parquet file, with only one row group in memory at a time
 * (docs/decisions/0108-parquet-exports.md).
 */
import type { SchemaElement, Statistics } from "hyparquet"
import { ByteWriter, ParquetWriter } from "hyparquet-writer"
import { Schema, SchemaAST } from "effect"
import { zstdCompressSync } from "node:zlib"
import {
  integerParquetField,
  type ParquetField,
  type ParquetValue,
  textListParquetField,
} from "../rows/ParquetFields.ts"
import {
  checkColumnCount,
  checkFieldType,
  findFieldEncoder,
  getColumnType,
  getMinFieldSize,
  InvalidRow,
  makeSchemaFieldEncoder,
  type RecordData,
} from "../rows/RowEncoder.ts"
import { isNullableSchema, type RowModel, type RowModels, toRowModelArray } from "../../contract/rows/RowModel.ts"
import {
  type BinaryRecord,
  firstFieldOffset,
  getBytes,
  getFieldSize,
  getNextFieldOffset,
} from "../../postgres/BinaryRecord.ts"

/** Limits of a row group, which ends after the first fetch that reaches one of them. */
const [maxGroupRows, maxGroupBytes] = [32_768, 8_388_608]

/** Encoded bytes are passed on in chunks of at least this size, except at the end of a row group or of the file. */
const minChunkBytes = 65_536

const noBytes = new Uint8Array(0)

const compressors = { ZSTD: (bytes: Uint8Array) => zstdCompressSync(bytes) }

// ----------------------------------------------------------------------------------------------------------------
// Columns
// ----------------------------------------------------------------------------------------------------------------

/**
 * Returns the Parquet type of a column. A column without an encoder contains numbers or lists, which are read from its
 * JSON.
 */
const findParquetField = ({ ast }: Schema.Top): ParquetField => {
  const encoder = findFieldEncoder(ast)
  if (encoder !== undefined) return encoder.parquet
  const types = SchemaAST.isUnion(ast) ? ast.types : [ast]
  const field = types.some(SchemaAST.isNumber) ? integerParquetField : textListParquetField
  return { ...field, read: () => undefined }
}

interface Column {
  readonly name: string
  readonly field: ParquetField
  /** Whether the value may be null or missing. */
  readonly isOptional: boolean
}

const findColumns = (models: RowModels, names: ReadonlyArray<string>): ReadonlyArray<Column> =>
  names.map((name) => {
    const schemas = toRowModelArray(models).map((model) => name in model.json.fields ? model.fields[name] : undefined)
    const [first] = schemas.flatMap((schema) => schema ?? [])
    if (first === undefined) throw new InvalidRow({ message: `No model has the column ${name}` })
    const isOptional = schemas.some((schema) => schema === undefined || isNullableSchema(schema.ast))
    return { name, field: findParquetField(first), isOptional }
  })

/** Describes a column. The elements of a list are required, because arrays in the database contain no nulls. */
const describeColumn = ({ field: { element, isList }, isOptional, name }: Column): ReadonlyArray<SchemaElement> => {
  const repetition_type = isOptional ? "OPTIONAL" : "REQUIRED"
  if (isList === undefined) return [{ ...element, name, repetition_type }]
  return [
    { name, repetition_type, converted_type: "LIST", logical_type: { type: "LIST" }, num_children: 1 },
    { name: "list", repetition_type: "REPEATED", num_children: 1 },
    { ...element, name: "element", repetition_type: "REQUIRED" },
  ]
}

/** Returns a function that finds the fields of a record and checks their types. It reuses the array that it returns. */
const makeFieldFinder = (models: RowModels, names: ReadonlyArray<string>) => {
  const types = names.map((name) => getColumnType(models, name))
  const offsets = new Int32Array(names.length)
  return ({ view }: BinaryRecord) => {
    checkColumnCount(view, names.length)
    let offset = firstFieldOffset
    for (const [index, name] of names.entries()) {
      checkFieldType(view, offset, types[index] ?? 0, name)
      offsets[index] = offset
      offset = getNextFieldOffset(offset, getFieldSize(view, offset))
    }
    return offsets
  }
}

/** Reads the field at the offset. Throws if the value does not match its schema or its Parquet type. */
type ReadValue = (record: RecordData, offset: number) => ParquetValue | null

const readNothing: ReadValue = () => null

/** Returns the function that reads a column's value, directly or, if that is not possible, from its JSON. */
const makeValueReader = (model: RowModel, name: string): ReadValue => {
  const [select, json] = [model.fields[name], model.json.fields[name]]
  if (json === undefined || select === undefined) return readNothing
  const { parse, read } = findParquetField(select)
  const encode = makeSchemaFieldEncoder(select, json)
  const canBeNull = isNullableSchema(select.ast)
  const minSize = getMinFieldSize(select)
  return (record, offset) => {
    const size = getFieldSize(record.view, offset)
    if (canBeNull && size < minSize) return null
    try {
      return (size < 0 ? undefined : read(record.view, offset, size)) ?? parse(encode(record, offset))
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw new InvalidRow({
        message: `The database has values that do not match the schema: ${model.identifier}.${name}: ${reason}`,
      })
    }
  }
}

/** Returns a function that finds the index of the first model that matches a record. */
const makeModelFinder = (readers: ReadonlyArray<ReadonlyArray<ReadValue>>) => {
  /** Returns 0 if no model matches; encoding the record then fails. */
  return (record: BinaryRecord, offsets: Int32Array) => {
    const matches = (model: ReadonlyArray<ReadValue>) => {
      try {
        for (const [column, read] of model.entries()) read(record, offsets[column] ?? 0)
        return true
      } catch {
        return false
      }
    }
    return readers.length === 1 ? 0 : Math.max(0, readers.findIndex(matches))
  }
}

// ----------------------------------------------------------------------------------------------------------------
// Row groups
// ----------------------------------------------------------------------------------------------------------------

/** Returns an array with room for `length` elements: the given one, or a copy of at least twice its size. */
const grow = <Elements extends Uint8Array | Int32Array>(
  elements: Elements,
  length: number,
  make: (length: number) => Elements,
) => {
  if (length <= elements.length) return elements
  const larger = make(Math.max(length, elements.length * 2))
  larger.set(elements)
  return larger
}

/** The records of a row group, in the form in which PostgreSQL sent them. */
class GroupBuffer {
  private bytes = new Uint8Array(65_536)
  private offsets = new Int32Array(4_096)
  private models = new Uint8Array(256)
  private length = 0
  private decode: BinaryRecord["decode"] = () => undefined
  private readonly maxRows: number
  rows = 0

  constructor(maxRows: number) {
    this.maxRows = maxRows
  }

  get isFull() {
    return this.rows >= this.maxRows || this.length >= maxGroupBytes
  }

  /** Adds a record whose fields are at these offsets. */
  add({ decode, view }: BinaryRecord, offsets: Int32Array, model: number) {
    const columns = offsets.length
    const size = view.byteLength
    this.bytes = grow(this.bytes, this.length + size, (length) => new Uint8Array(length))
    this.offsets = grow(this.offsets, (this.rows + 1) * columns, (length) => new Int32Array(length))
    this.models = grow(this.models, this.rows + 1, (length) => new Uint8Array(length))
    this.bytes.set(getBytes(view, 0, size), this.length)
    offsets.forEach((at, column) => {
      this.offsets[this.rows * columns + column] = at + this.length
    })
    this.models[this.rows] = model
    this.decode = decode
    this.length += size
    this.rows += 1
  }

  /** Reads one column of all rows. The values may share the buffer's memory, which the next row group overwrites. */
  readColumn(column: number, readers: ReadonlyArray<ReadonlyArray<ReadValue>>): Array<ParquetValue | null> {
    const { decode, models, offsets } = this
    const record = { view: new DataView(this.bytes.buffer), decode }
    const reads = readers.map((model) => model[column] ?? readNothing)
    const columns = readers[0]?.length ?? 0
    const values: Array<ParquetValue | null> = []
    for (let row = 0; row < this.rows; row += 1) {
      const read = reads[models[row] ?? 0] ?? readNothing
      values.push(read(record, offsets[row * columns + column] ?? 0))
    }
    return values
  }

  clear() {
    this.rows = 0
    this.length = 0
  }
}

/** hyparquet-writer truncates the minimum and maximum of text to this size, and needs one more byte to do so. */
const maxTextBytes = 16

/**
 * The first byte of U+100000 and above. A text of U+10FFFF has no greater prefix to serve as its maximum, so
 * hyparquet-writer needs all of it.
 */
const lastFirstByte = 0xf4

const copyText = (text: Uint8Array) => text.slice(0, text[0] === lastFirstByte ? text.length : maxTextBytes + 1)

/**
 * Copies the text in statistics, because the footer needs it after the buffer is reused, and shortens long text. (Only
 * for text does hyparquet-writer state whether a minimum or maximum is exact.)
 */
const copyStatistics = (statistics: Statistics): Statistics => {
  const { max_value, min_value } = statistics
  if (!(min_value instanceof Uint8Array) || !(max_value instanceof Uint8Array)) return statistics
  return {
    ...statistics,
    min_value: copyText(min_value),
    max_value: copyText(max_value),
    ...(min_value.length <= maxTextBytes ? { is_min_value_exact: true } : {}),
    ...(max_value.length <= maxTextBytes ? { is_max_value_exact: true } : {}),
  }
}

/** The result of encoding a column or the footer. `bytes` is empty while the encoded bytes are still buffered. */
interface ParquetChunk {
  readonly bytes: Uint8Array
  /** Whether these bytes complete a row group. The file then contains all rows that were added so far. */
  readonly endsGroup: boolean
}

/** Adds the next rows to the row group, and encodes the group if it is full or the last one. */
export type ParquetRowsWriter = (rows: ReadonlyArray<BinaryRecord>, isLast: boolean) => Generator<ParquetChunk>

/** Creates a writer for one file. `metadata` becomes the file's key-value metadata. Tests pass a small `groupRows`. */
export const makeParquetWriter = (
  models: RowModels,
  names: ReadonlyArray<string>,
  metadata: Readonly<Record<string, string>>,
  groupRows = maxGroupRows,
): ParquetRowsWriter => {
  const columns = findColumns(models, names)
  const schema: Array<SchemaElement> = [
    { name: "root", num_children: columns.length },
    ...columns.flatMap(describeColumn),
  ]
  const findFields = makeFieldFinder(models, names)
  const readers = toRowModelArray(models).map((model) => names.map((name) => makeValueReader(model, name)))
  const findModel = makeModelFinder(readers)
  const group = new GroupBuffer(groupRows)
  const writer = new ByteWriter()
  const file = new ParquetWriter({
    writer,
    schema,
    codec: "ZSTD",
    compressors,
    kvMetadata: Object.entries(metadata).map(([key, value]) => ({ key, value })),
    createdBy: "tickerline",
  })

  /** Returns the bytes written so far, and empties the buffer. */
  const take = () => {
    const bytes = writer.getBytes().slice()
    writer.index = 0
    return bytes
  }

  /** Writes a column of the row group as if it were a row group of its own. `mergeColumns` merges these into one. */
  const encodeColumn = (index: number, { field, name }: Column) => {
    const data = group.readColumn(index, readers)
    const encoding = field.isEnumerated === undefined ? {} : { encoding: "RLE_DICTIONARY" as const }
    file.write({ columnData: [{ name, data, offsetIndex: false, ...encoding }], rowGroupSize: group.rows })
    const chunk = file.row_groups.at(-1)?.columns[0]?.meta_data
    if (chunk?.statistics !== undefined) chunk.statistics = copyStatistics(chunk.statistics)
  }

  /** Replaces the row groups that hyparquet-writer recorded, one per column, with a single one of all columns. */
  const mergeColumns = () => {
    const parts = file.row_groups.splice(-columns.length)
    file.row_groups.push({
      columns: parts.flatMap((part) => part.columns),
      num_rows: BigInt(group.rows),
      total_byte_size: parts.reduce((sum, part) => sum + part.total_byte_size, 0n),
      total_compressed_size: parts.reduce((sum, part) => sum + (part.total_compressed_size ?? 0n), 0n),
    })
    file.num_rows -= BigInt(group.rows * (parts.length - 1))
    group.clear()
  }

  /** Encodes the row group column by column. Other requests run between two columns. */
  const encodeGroup = function* () {
    for (const [index, column] of columns.entries()) {
      encodeColumn(index, column)
      if (index === columns.length - 1) break
      yield { bytes: writer.index < minChunkBytes ? noBytes : take(), endsGroup: false }
    }
    mergeColumns()
    yield { bytes: take(), endsGroup: true }
  }

  return function* (rows, isLast) {
    for (const row of rows) {
      const offsets = findFields(row)
      group.add(row, offsets, findModel(row, offsets))
    }
    if (group.isFull || (isLast && group.rows > 0)) yield* encodeGroup()
    if (!isLast) return
    file.finish()
    yield { bytes: take(), endsGroup: false }
  }
}
