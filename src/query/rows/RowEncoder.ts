/**
 * Encodes database rows as JSON and CSV (D16), directly from PostgreSQL's binary format. Each list compiles its encoder
 * once from the schemas of its rows (docs/decisions/0030-compiled-row-encoders.md).
 */
import { Data, Schema, SchemaAST } from "effect"
import {
  findColumnType,
  getColumnNames,
  isNullableSchema,
  type RowModel,
  type RowModels,
  toRowModelArray,
} from "../../contract/rows/RowModel.ts"
import { replaceJsonWithCsvCell } from "./CsvCells.ts"
import {
  type FieldEncoder,
  fieldOverheadBytes,
  type FieldWriter,
  getFieldEncoder,
  invalidFieldResult,
  maxEscapeBytes,
  postgresTypeIds,
  unsupportedFieldResult,
} from "./FieldEncoders.ts"
import { encodeAsWords, type EncodedWords, rowOutputBuffer } from "./OutputBuffer.ts"
import {
  type BinaryRecord,
  firstFieldOffset,
  getBytes,
  getFieldSize,
  getFieldType,
  getNextFieldOffset,
  isMissingValue,
} from "../../postgres/BinaryRecord.ts"

/** A value in the database does not match its column's schema. */
export class InvalidRow extends Data.TaggedError("InvalidRow")<{ readonly message: string }> {}

/** The column that contains a row's date, and the column's PostgreSQL type. */
export interface RowDateColumn {
  readonly column: string
  readonly type: FieldEncoder["type"]
}

/** Returns the date column that the row models mark with `markAsRowDate`. Throws at startup if they mark several. */
export const findRowDateColumn = (models: RowModels): RowDateColumn | undefined => {
  const dates = toRowModelArray(models).flatMap(({ fields, json }) =>
    Object.keys(json.fields).flatMap((column) => {
      const ast = fields[column]?.ast
      const isRowDate = ast !== undefined && SchemaAST.resolve(ast)?.isRowDate === true
      const type = isRowDate ? findFieldEncoder(ast)?.type : undefined
      return type === undefined ? [] : [{ column, type }]
    })
  )
  const names = new Set(dates.map(({ column }) => column))
  if (names.size > 1) throw new Error(`A row declares several dates: ${Array.from(names).join(", ")}`)
  return dates[0]
}

/** Returns the encoder for a column's type, or undefined if it has none. The type may be nullable. */
export const findFieldEncoder = (ast: SchemaAST.AST): FieldEncoder | undefined => {
  const type = findColumnType(ast)
  return type === undefined ? undefined : getFieldEncoder(type)
}

/** Returns the size below which a field counts as missing. A required text may be empty. */
export const getMinFieldSize = ({ ast }: Schema.Top) =>
  isNullableSchema(ast) && isMissingValue(0, findFieldEncoder(ast)?.type ?? 0) ? 1 : 0

/** Returns the OID of a column's type. Returns 0 for a column without an encoder, which may have any type. */
export const getColumnType = (models: RowModels, name: string) => {
  const select = toRowModelArray(models).find((model) => name in model.json.fields)?.fields[name]
  return select === undefined ? 0 : findFieldEncoder(select.ast)?.type ?? 0
}

/** Names of the PostgreSQL types that have an encoder, by OID. */
const typeNames = new Map<number, string>(
  Object.entries({ ...postgresTypeIds, "text[]": postgresTypeIds.textArray }).map(([name, id]) => [id, name]),
)

/**
 * Returns SQL that selects the columns as a record. PostgreSQL sends the type of each field in a record. A column whose
 * type is a domain is cast to the domain's base type, which costs nothing.
 */
export const selectRecord = (
  models: RowModels,
  columns: ReadonlyArray<string>,
  toExpression = (column: string) => `"${column}"`,
) => {
  const fields = columns.map((column) => {
    const type = typeNames.get(getColumnType(models, column))
    return type === undefined ? toExpression(column) : `${toExpression(column)}::${type}`
  })
  return `row(${fields.join(", ")})`
}

/** Throws if the record does not have this many columns. */
export const checkColumnCount = (view: DataView, expected: number) => {
  const count = view.getInt32(0)
  if (count !== expected) {
    throw new InvalidRow({ message: `The statement selects ${count} columns instead of ${expected}` })
  }
}

/** Throws if the field does not have this type. */
export const checkFieldType = (view: DataView, offset: number, type: number, name: string) => {
  const found = getFieldType(view, offset)
  if (type !== 0 && found !== type) {
    throw new InvalidRow({ message: `The database has the type ${found} instead of ${type} for ${name}` })
  }
}

// ----------------------------------------------------------------------------------------------------------------
// Columns
// ----------------------------------------------------------------------------------------------------------------

/** The bytes of one or more records, and the driver's decoder for fields. */
export type RecordData = Pick<BinaryRecord, "view" | "decode">

/** Encodes the field at the offset as JSON, using its column's schemas. Throws if the value does not match them. */
export type SchemaFieldEncoder = (record: RecordData, offset: number) => string

/** Creates an encoder that uses the column's schemas. It is slower than a `FieldWriter`. */
export const makeSchemaFieldEncoder = (
  select: Schema.Codec<unknown, unknown>,
  json: Schema.Codec<unknown, unknown>,
): SchemaFieldEncoder => {
  const decodeValue = Schema.decodeUnknownSync(select)
  const encode = Schema.encodeUnknownSync(json)
  return ({ decode, view }, offset) => {
    const size = getFieldSize(view, offset)
    const value = size < 0 ? null : decode(getBytes(view, offset, size), getFieldType(view, offset))
    return JSON.stringify(encode(decodeValue(value)))
  }
}

/** A column that has been compiled for encoding. */
interface CompiledColumn {
  readonly name: string
  /** The index of the column in the record. */
  readonly index: number
  /** The OID of the PostgreSQL type that the field must have, or 0 if it may have any type. */
  readonly type: number
  /** The text before the value, such as `,"ticker":`. */
  readonly prefix: EncodedWords
  readonly isNullable: boolean
  /**
   * A field with fewer bytes than this counts as missing: it is written as null, or is invalid if the column is not
   * nullable. The size of a null field is -1.
   */
  readonly minSize: number
  readonly write: FieldWriter
  readonly encodeWithSchemas: SchemaFieldEncoder
}

/** A size larger than that of any field. As `minSize`, it makes every value count as missing. */
const maxSize = 0x7fff_ffff

/**
 * Compiles a column. `index` is the column's index in the record, and `prefix` the text before its value. For each
 * column, `model.fields` has the schema that decodes PostgreSQL's value, and `model.json.fields` the one that encodes
 * the JSON. If the model does not have the column, its value is always null.
 */
const compileColumn = (model: RowModel, name: string, index: number, prefix: string): CompiledColumn => {
  const { [name]: select = Schema.Null } = model.fields
  const { [name]: json } = model.json.fields
  const encoder = findFieldEncoder(select.ast)
  return {
    name,
    index,
    type: json === undefined ? 0 : encoder?.type ?? 0,
    prefix: encodeAsWords(prefix),
    isNullable: json === undefined || isNullableSchema(select.ast),
    // No field has `maxSize` bytes, so a column that the model does not have counts as missing in every row. With -1,
    // no field counts as missing: without an encoder, the schema encodes every value, including null.
    minSize: json === undefined ? maxSize : encoder === undefined ? -1 : getMinFieldSize(select),
    write: encoder?.write ?? (() => unsupportedFieldResult),
    encodeWithSchemas: makeSchemaFieldEncoder(select, json ?? Schema.Null),
  }
}

// ----------------------------------------------------------------------------------------------------------------
// Rows
// ----------------------------------------------------------------------------------------------------------------

/** Writes a record at a position in the output. Returns the position after the record. */
export type RowWriter = (record: BinaryRecord, position: number) => number

type RowFormat = "json" | "csv"

/**
 * Compiles the columns of a model. A CSV record has a cell for each column of the list, even if the model does not have
 * the column. That cell is empty.
 */
const compileColumns = (model: RowModel, columns: ReadonlyArray<string>, format: RowFormat) => {
  const names = Object.keys(model.json.fields)
  const missingName = names.find((name) => !(name in model.fields && columns.includes(name)))
  if (missingName !== undefined) throw new InvalidRow({ message: `${model.identifier} lacks ${missingName}` })
  return format === "csv"
    ? columns.map((name, index) => compileColumn(model, name, index, index === 0 ? "" : ","))
    : names.map((name, at) =>
      compileColumn(model, name, columns.indexOf(name), `${at === 0 ? "{" : ","}${JSON.stringify(name)}:`)
    )
}

const jsonNull = encodeAsWords("null")

/**
 * Encodes the field at `offset` of a record with its column's schemas, and writes the result at `position`. Returns the
 * position after it, or `invalidFieldResult` if the value does not match the schemas. First reserves room for the field
 * and for the rest of the row, which takes at most `rowBytes`.
 */
const writeWithSchemas = (
  encodeWithSchemas: SchemaFieldEncoder,
  record: BinaryRecord,
  offset: number,
  position: number,
  rowBytes: number,
) => {
  try {
    const json = encodeWithSchemas(record, offset)
    rowOutputBuffer.reserve(position, json.length * maxEscapeBytes + rowBytes)
    return rowOutputBuffer.writeText(json, position)
  } catch {
    return invalidFieldResult
  }
}

const closeBrace = 125

/**
 * Creates a writer for rows of one model. It takes a record in PostgreSQL's binary format, writes it to the output
 * buffer from `position` on, and returns the position after it. For each column, it writes the prefix, then the value:
 * with the column's fast encoder (`write`) or, if that cannot encode the value, with the column's schemas. If the field
 * with the index i is invalid, the writer returns -1 - i instead of a position, so that the result is negative even for
 * the first field.
 */
const compileModelWriter = (compiled: ReadonlyArray<CompiledColumn>, format: RowFormat): RowWriter => {
  const [isCsv, isJson] = [format === "csv", format === "json"]
  const fixedBytes = compiled.reduce((sum, { prefix }) => sum + prefix.size + fieldOverheadBytes, 0)
  return (record, position) => {
    const { view } = record
    // CSV may double every quote in the JSON.
    const maxBytes = (fixedBytes + view.byteLength * maxEscapeBytes) * (isCsv ? 2 : 1)
    rowOutputBuffer.reserve(position, maxBytes)
    // `offset` is the offset of the field with the index `nextIndex`.
    let offset = firstFieldOffset
    let nextIndex = 0
    for (const { encodeWithSchemas, index, isNullable, minSize, name, prefix, type, write } of compiled) {
      // Fields are usually written in order, so that each offset follows from the previous one. If a field was skipped,
      // the offset is looked up.
      if (index !== nextIndex) offset = record.findField(index)
      checkFieldType(view, offset, type, name)
      const size = getFieldSize(view, offset)
      const start = rowOutputBuffer.writeWords(prefix, position)
      // The position after the value, or one of two negative results: `invalidFieldResult`, or `unsupportedFieldResult`
      // if the fast encoder cannot encode the value. A missing value in a column that is not nullable is invalid.
      let end = invalidFieldResult
      if (size >= minSize) end = write(view, offset, size, start)
      else if (isNullable) end = rowOutputBuffer.writeWords(jsonNull, start)
      if (end === unsupportedFieldResult) end = writeWithSchemas(encodeWithSchemas, record, offset, start, maxBytes)
      if (end < 0) return -1 - index
      position = isCsv ? replaceJsonWithCsvCell(start, end) : end
      offset = getNextFieldOffset(offset, size)
      nextIndex = index + 1
    }
    if (isJson) rowOutputBuffer.bytes[position++] = closeBrace
    return position
  }
}

/**
 * Compiles the writer for rows that may match any of several models. `columns` are the columns of the records, in their
 * order. The writer throws `InvalidRow` if a row matches none of the models. The error lists, for each model, the first
 * column whose value does not match.
 */
const makeRowWriter = (models: RowModels, columns: ReadonlyArray<string>, format: RowFormat): RowWriter => {
  const writers = toRowModelArray(models).map((model) => ({
    model: model.identifier,
    write: compileModelWriter(compileColumns(model, columns, format), format),
  }))
  /** Writes the row with the first model that it matches. */
  return (record, position) => {
    checkColumnCount(record.view, columns.length)
    const invalidColumns: Array<string> = []
    for (const { model, write } of writers) {
      const end = write(record, position)
      if (end >= 0) return end
      // Reverses the encoding of the field's index, -1 - i.
      invalidColumns.push(`${model}.${columns[-1 - end]}`)
    }
    throw new InvalidRow({
      message: `The database has values that do not match the schema: ${invalidColumns.join(", ")}`,
    })
  }
}

/** Returns a function that writes a row as JSON. The fields of the record must be in the order of `columns`. */
export const makeJsonRowWriter = (models: RowModels, columns = getColumnNames(models)): RowWriter =>
  makeRowWriter(models, columns, "json")

/** Returns a function that writes a row as a CSV record, without a line ending. */
export const makeCsvRowWriter = (models: RowModels, columns = getColumnNames(models)): RowWriter =>
  makeRowWriter(models, columns, "csv")
