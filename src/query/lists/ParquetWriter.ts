/**
 * Writes a list's rows as a Parquet file, with only one row group in memory at a time
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

/** The limits of a row group. A row group ends after the first fetch that reaches either of them. */
const [maxGroupRows, maxGroupBytes] = [32_768, 8_388_608]

/** The minimum size of a chunk of encoded bytes. The last chunk of a row group or of the file may be smaller. */
const minChunkBytes = 65_536

const noBytes = new Uint8Array(0)

const compressors = { ZSTD: (bytes: Uint8Array) => zstdCompressSync(bytes) }

// ----------------------------------------------------------------------------------------------------------------
// Columns
// ----------------------------------------------------------------------------------------------------------------

/**
 * Returns a column's Parquet type. A column without a field encoder contains numbers or lists, which are read from
 * their JSON.
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

/**
 * Returns the schema elements for a column. List elements are required, because arrays in the database contain no
 * nulls.
 */
const describeColumn = ({ field: { element, isList }, isOptional, name }: Column): ReadonlyArray<SchemaElement> => {
  const repetition_type = isOptional ? "OPTIONAL" : "REQUIRED"
  if (isList === undefined) return [{ ...element, name, repetition_type }]
  return [
    { name, repetition_type, converted_type: "LIST", logical_type: { type: "LIST" }, num_children: 1 },
    { name: "list", repetition_type: "REPEATED", num_children: 1 },
    { ...element, name: "element", repetition_type: "REQUIRED" },
  ]
}

/**
 * Returns a function that returns the offsets of a record's fields and checks the field types. The function reuses the
 * array that it returns.
 */
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

const readNull: ReadValue = () => null

/**
 * Returns a function that reads a column's value from a record. It reads the value directly from PostgreSQL's binary
 * format (`read`) if that is possible. Otherwise it encodes the value as JSON with the column's schemas and parses that
 * (`parse`), which also handles rare values and reports invalid ones. The function throws `InvalidRow` if the value
 * does not match its schema or its Parquet type. For a column that the model does not have, every value is null.
 */
const makeValueReader = (model: RowModel, name: string): ReadValue => {
  const [select, json] = [model.fields[name], model.json.fields[name]]
  if (json === undefined || select === undefined) return readNull
  const { parse, read } = findParquetField(select)
  const encodeAsJson = makeSchemaFieldEncoder(select, json)
  const canBeNull = isNullableSchema(select.ast)
  const minSize = getMinFieldSize(select)
  return (record, offset) => {
    const size = getFieldSize(record.view, offset)
    // The size is -1 for null and, in a nullable text column, 0 for an empty text, which means the same (D16).
    if (canBeNull && size < minSize) return null
    try {
      // A null in a required column has no bytes to read. Encoding it with the schemas fails, which gives the error a
      // reason.
      const value = size < 0 ? undefined : read(record.view, offset, size)
      return value ?? parse(encodeAsJson(record, offset))
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw new InvalidRow({
        message: `The database has values that do not match the schema: ${model.identifier}.${name}: ${reason}`,
      })
    }
  }
}

/**
 * Returns a function that returns the index of the first model that a record matches: the first one for which all
 * values can be read. `readers` contains, for each model, one reader per column.
 */
const makeModelFinder = (readers: ReadonlyArray<ReadonlyArray<ReadValue>>) => {
  /**
   * With a single model, or if no model matches, returns 0 without checking. Encoding an invalid record will then fail
   * with an error message that refers to that model.
   */
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

/**
 * Returns an array with room for `length` elements: either the given array or a copy that is at least twice as large.
 */
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

/** The records of a row group, in the binary format in which PostgreSQL sent them. */
class GroupBuffer {
  /** The bytes of all records, one after the other. Only the first `length` bytes are used. */
  private bytes = new Uint8Array(65_536)
  /** The offset of each field in `bytes`, row by row. */
  private offsets = new Int32Array(4_096)
  /** The index of each row's model. */
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

  /**
   * Adds a record. `offsets` are the offsets of the record's fields, and `model` is the index of the model that the
   * record matches.
   */
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

  /**
   * Reads a column's values from all rows. The values may share memory with the buffer, which the next row group
   * overwrites.
   */
  readColumn(column: number, readers: ReadonlyArray<ReadonlyArray<ReadValue>>): Array<ParquetValue | null> {
    const { decode, models, offsets } = this
    const record = { view: new DataView(this.bytes.buffer), decode }
    const reads = readers.map((model) => model[column] ?? readNull)
    const columns = readers[0]?.length ?? 0
    const values: Array<ParquetValue | null> = []
    for (let row = 0; row < this.rows; row += 1) {
      const read = reads[models[row] ?? 0] ?? readNull
      values.push(read(record, offsets[row * columns + column] ?? 0))
    }
    return values
  }

  clear() {
    this.rows = 0
    this.length = 0
  }
}

/**
 * hyparquet-writer truncates the minimum and maximum of text columns to this many bytes. It needs one additional byte
 * to do so.
 */
const maxTextBytes = 16

/**
 * The first byte of U+100000 and above in UTF-8. If a text consists of U+10FFFF, no prefix can be increased to serve as
 * an upper bound, so hyparquet-writer needs the whole text.
 */
const lastFirstByte = 0xf4

const copyText = (text: Uint8Array) => text.slice(0, text[0] === lastFirstByte ? text.length : maxTextBytes + 1)

/**
 * Copies the text in the statistics and shortens long text. A copy is needed because the footer uses the text after the
 * buffer has been reused. Only for text does hyparquet-writer record whether a minimum or maximum is exact.
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

/** The result of encoding a column or the footer. `bytes` is empty if the encoded bytes are still buffered. */
interface ParquetChunk {
  readonly bytes: Uint8Array
  /** Whether these bytes complete a row group. If so, the file now contains all rows added so far. */
  readonly endsGroup: boolean
}

/** Adds the next rows to the current row group. Encodes the row group if it is full or if `isLast` is true. */
export type ParquetRowsWriter = (rows: ReadonlyArray<BinaryRecord>, isLast: boolean) => Generator<ParquetChunk>

/**
 * Creates a writer for a Parquet file with rows of the given models. `names` are the columns, in the order of the
 * records. `metadata` becomes the file's key-value metadata. `groupRows` is the maximum number of rows in a row group;
 * tests pass a small number.
 *
 * Rows are collected in `group` until it is full, and then encoded as one row group. hyparquet-writer would encode all
 * columns of a row group at once, without letting other requests run. Each column is therefore written as a row group
 * of its own, and these are merged afterwards (`mergeColumns`).
 */
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

  /** Returns a copy of the bytes written so far, and empties the buffer. */
  const take = () => {
    const bytes = writer.getBytes().slice()
    writer.index = 0
    return bytes
  }

  /**
   * Writes one column of the row group as a separate row group. `mergeColumns` later merges these row groups into one.
   */
  const encodeColumn = (index: number, { field, name }: Column) => {
    const data = group.readColumn(index, readers)
    const encoding = field.isEnumerated === undefined ? {} : { encoding: "RLE_DICTIONARY" as const }
    file.write({ columnData: [{ name, data, offsetIndex: false, ...encoding }], rowGroupSize: group.rows })
    const chunk = file.row_groups.at(-1)?.columns[0]?.meta_data
    if (chunk?.statistics !== undefined) chunk.statistics = copyStatistics(chunk.statistics)
  }

  /** Replaces the row groups recorded by hyparquet-writer, one per column, with a single row group for all columns. */
  const mergeColumns = () => {
    // The last row groups are those of the current group's columns.
    const columnGroups = file.row_groups.splice(-columns.length)
    file.row_groups.push({
      columns: columnGroups.flatMap((columnGroup) => columnGroup.columns),
      num_rows: BigInt(group.rows),
      total_byte_size: columnGroups.reduce((sum, { total_byte_size }) => sum + total_byte_size, 0n),
      total_compressed_size: columnGroups.reduce((sum, { total_compressed_size: size = 0n }) => sum + size, 0n),
    })
    // hyparquet-writer has counted the rows once for each column.
    file.num_rows -= BigInt(group.rows * (columnGroups.length - 1))
    group.clear()
  }

  /**
   * Encodes the row group one column at a time. Other requests can run whenever this yields. The last column is not
   * yielded separately, because the row group is complete only after `mergeColumns`.
   */
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
