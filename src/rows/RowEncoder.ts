/**
 * Encodes database rows as JSON and CSV (D16), directly from PostgreSQL's bytes. An encoder is compiled once per list
 * from the row's schemas: docs/decisions/0030-compiled-row-encoders.md.
 */
import { Data, Schema, SchemaAST } from "effect"
import { type OptInColumn, optInColumns } from "./Columns.ts"
import { replaceJsonWithCsvCell } from "./CsvCells.ts"
import { type FieldEncoder, invalidFieldResult, reservedFieldBytes, unsupportedFieldResult } from "./FieldEncoders.ts"
import { encodeAsWords, rowOutputBuffer } from "./OutputBuffer.ts"
import { type BinaryRecord, fieldHeaderBytes, isMissingValue, readInt32, recordHeaderBytes } from "./BinaryRecord.ts"

type Fields = { readonly [column: string]: Schema.Codec<unknown, unknown> }

/** A `Model.Class` with columns from `Columns.ts` and `Timestamps.ts`. */
export interface RowModel {
  readonly identifier: string
  /** Schemas of the driver's values. */
  readonly fields: Fields
  /** Schemas of the JSON. */
  readonly json: { readonly fields: Fields }
}

/** A value in the database does not match its schema. */
export class InvalidRow extends Data.TaggedError("InvalidRow")<{ readonly message: string }> {}

/** The model of the rows in a list. If there are several models, each row matches one of them. */
export type RowModels = RowModel | ReadonlyArray<RowModel>

export const toRowModelArray = (models: RowModels): ReadonlyArray<RowModel> => "json" in models ? [models] : models

/** Returns the names of all columns, in the order of the JSON. `optInColumns` come last. */
export const getColumnNames = (models: RowModels): ReadonlyArray<string> => {
  const names = new Set(toRowModelArray(models).flatMap((model) => Object.keys(model.json.fields)))
  const added = Object.keys(optInColumns).filter((name) => names.delete(name))
  return [...names, ...added]
}

/** The column with the row's own date, and its PostgreSQL type. */
export interface RowDateColumn {
  readonly column: string
  readonly type: FieldEncoder["type"]
}

/** Returns the date column that the rows declare with `markAsRowDate`. Throws at startup if they declare several. */
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

/** Adds columns to the models, after all other columns. */
export const addOptInColumns = (models: RowModels, names: ReadonlyArray<OptInColumn>): ReadonlyArray<RowModel> => {
  const selects = Object.fromEntries(names.map((name) => [name, optInColumns[name].schemas.select]))
  const jsons = Object.fromEntries(names.map((name) => [name, optInColumns[name].schemas.json]))
  return toRowModelArray(models).map(({ fields, identifier, json }) => ({
    identifier,
    fields: { ...fields, ...selects },
    json: { fields: { ...json.fields, ...jsons } },
  }))
}

export const isNullableSchema = (ast: SchemaAST.AST) => SchemaAST.isUnion(ast) && ast.types.some(SchemaAST.isNull)

/** Returns the encoder of a column's type, which may be nullable. */
export const findFieldEncoder = (ast: SchemaAST.AST): FieldEncoder | undefined =>
  SchemaAST.resolve(ast)?.fieldEncoder ??
    (SchemaAST.isUnion(ast) && isNullableSchema(ast)
      ? ast.types.map((type) => SchemaAST.resolve(type)?.fieldEncoder).find((encoder) => encoder !== undefined)
      : undefined)

/** Returns a function that tells from a field's size whether it has no value. Text that is required may be empty. */
export const makeMissingFieldCheck = ({ ast }: Schema.Top) => {
  const typeId = isNullableSchema(ast) ? findFieldEncoder(ast)?.type ?? 0 : 0
  return (size: number) => isMissingValue(size, typeId)
}

// ----------------------------------------------------------------------------------------------------------------
// Fields
// ----------------------------------------------------------------------------------------------------------------

/** The fields of the record that is being encoded. */
export interface RecordFieldPositions {
  bytes: Uint8Array
  decode: BinaryRecord["decode"]
  readonly offsets: Int32Array
  /** Sizes in bytes; -1 for null. */
  readonly sizes: Int32Array
}

/** `type` is 0 for a column without an encoder, which may have any type. */
interface ColumnType {
  readonly name: string
  readonly type: number
}

const noBytes = new Uint8Array(0)

/** Returns a function that finds the fields of a record and checks their types. */
const makeTypedFieldFinder = (columns: ReadonlyArray<ColumnType>) => {
  const fields: RecordFieldPositions = {
    bytes: noBytes,
    decode: () => undefined,
    offsets: new Int32Array(columns.length),
    sizes: new Int32Array(columns.length),
  }
  const find = ({ bytes, decode, offset }: BinaryRecord) => {
    const count = readInt32(bytes, offset)
    if (count !== columns.length) {
      throw new InvalidRow({ message: `The statement selects ${count} columns instead of ${columns.length}` })
    }
    let at = offset + recordHeaderBytes
    let index = 0
    for (const { name, type } of columns) {
      const found = readInt32(bytes, at)
      if (type !== 0 && found !== type) {
        throw new InvalidRow({ message: `The database has the type ${found} instead of ${type} for ${name}` })
      }
      const size = readInt32(bytes, at + 4)
      at += fieldHeaderBytes
      fields.offsets[index] = at
      fields.sizes[index] = size
      if (size > 0) at += size
      index += 1
    }
    fields.bytes = bytes
    fields.decode = decode
  }
  /** Drops the reference to the connection's buffer, so that its memory can be freed. */
  const release = () => {
    fields.bytes = noBytes
  }
  return { fields, find, release }
}

/** Like `makeTypedFieldFinder`, for the columns of the models. */
export const makeRecordFieldFinder = (models: RowModels, columns: ReadonlyArray<string>) =>
  makeTypedFieldFinder(columns.map((name) => {
    const select = toRowModelArray(models).find((model) => name in model.json.fields)?.fields[name]
    return { name, type: select === undefined ? 0 : findFieldEncoder(select.ast)?.type ?? 0 }
  }))

/** Returns a function that encodes a column as JSON with its schemas. It throws if the value does not match them. */
export const makeSchemaFieldEncoder = (
  index: number,
  fields: RecordFieldPositions,
  select: Schema.Codec<unknown, unknown>,
  json: Schema.Codec<unknown, unknown>,
) => {
  const decode = Schema.decodeUnknownSync(select)
  const encode = Schema.encodeUnknownSync(json)
  const read = () => {
    const [offset = 0, size = -1] = [fields.offsets[index], fields.sizes[index]]
    if (size < 0) return null
    return fields.decode(
      fields.bytes.subarray(offset, offset + size),
      readInt32(fields.bytes, offset - fieldHeaderBytes),
    )
  }
  return () => JSON.stringify(encode(decode(read())))
}

/** Writes a column as JSON at the position. Returns the position after it, or `invalidFieldResult`. */
type WriteColumn = (position: number) => number

const makeSchemaWriter = (encodeWithSchemas: () => string): WriteColumn => (position) => {
  try {
    return rowOutputBuffer.writeText(encodeWithSchemas(), position)
  } catch {
    return invalidFieldResult
  }
}

const jsonNull = encodeAsWords("null")

const writeNull: WriteColumn = (position) => rowOutputBuffer.writeWords(jsonNull, position)

const writeInvalid: WriteColumn = () => invalidFieldResult

const makeColumnWriter = (
  index: number,
  fields: RecordFieldPositions,
  select: Schema.Codec<unknown, unknown>,
  json: Schema.Codec<unknown, unknown>,
): WriteColumn => {
  const encoder = findFieldEncoder(select.ast)
  const writeWithSchemas = makeSchemaWriter(makeSchemaFieldEncoder(index, fields, select, json))
  if (encoder === undefined) return writeWithSchemas
  const { write } = encoder
  const writeMissing = isNullableSchema(select.ast) ? writeNull : writeInvalid
  const isMissing = makeMissingFieldCheck(select)
  return (position) => {
    const size = fields.sizes[index] ?? -1
    if (isMissing(size)) return writeMissing(position)
    const end = write(fields.bytes, fields.offsets[index] ?? 0, size, position)
    return end === unsupportedFieldResult ? writeWithSchemas(position) : end
  }
}

// ----------------------------------------------------------------------------------------------------------------
// Rows
// ----------------------------------------------------------------------------------------------------------------

const compileColumns = (model: RowModel, columns: ReadonlyArray<string>, fields: RecordFieldPositions) =>
  Object.entries(model.json.fields).map(([name, json]) => {
    const select = model.fields[name]
    const index = columns.indexOf(name)
    if (select === undefined || index < 0) throw new InvalidRow({ message: `${model.identifier} lacks ${name}` })
    return { name, write: makeColumnWriter(index, fields, select, json) }
  })

/** Writes rows of one model. */
interface ModelWriter {
  /** Writes a row at the position. Returns the position after it, or -1 - i if `columns[i]` is invalid. */
  readonly write: (position: number) => number
  readonly columns: ReadonlyArray<string>
}

const [comma, closeBrace] = [44, 125]

const compileJsonWriter = (
  model: RowModel,
  columns: ReadonlyArray<string>,
  fields: RecordFieldPositions,
): ModelWriter => {
  const compiled = compileColumns(model, columns, fields).map(({ name, write }, index) => ({
    prefix: encodeAsWords(`${index === 0 ? "{" : ","}${JSON.stringify(name)}:`),
    write,
  }))
  return {
    columns: Object.keys(model.json.fields).map((name) => `${model.identifier}.${name}`),
    write: (position) => {
      let index = 0
      for (const { prefix, write } of compiled) {
        rowOutputBuffer.reserve(position, prefix.size + reservedFieldBytes)
        const end = write(rowOutputBuffer.writeWords(prefix, position))
        if (end < 0) return -1 - index
        position = end
        index += 1
      }
      rowOutputBuffer.bytes[position] = closeBrace
      return position + 1
    },
  }
}

/** A CSV record has a cell for every column of the list. Cells of columns that the model lacks are empty. */
const compileCsvWriter = (
  model: RowModel,
  columns: ReadonlyArray<string>,
  fields: RecordFieldPositions,
): ModelWriter => {
  const compiled = compileColumns(model, columns, fields)
  const cells = columns.map((name) => compiled.find((column) => column.name === name)?.write)
  return {
    columns: columns.map((name) => `${model.identifier}.${name}`),
    write: (position) => {
      let index = 0
      for (const write of cells) {
        rowOutputBuffer.reserve(position, 1 + reservedFieldBytes)
        if (index > 0) rowOutputBuffer.bytes[position++] = comma
        if (write !== undefined) {
          const end = write(position)
          if (end < 0) return -1 - index
          position = replaceJsonWithCsvCell(position, end)
        }
        index += 1
      }
      return position
    },
  }
}

/** Writes a record at the position in the output. Returns the position after it. */
export type RowWriter = (record: BinaryRecord, position: number) => number

type CompileModel = (model: RowModel, columns: ReadonlyArray<string>, fields: RecordFieldPositions) => ModelWriter

const makeRowWriter = (models: RowModels, columns: ReadonlyArray<string>, compile: CompileModel): RowWriter => {
  const { fields, find, release } = makeRecordFieldFinder(models, columns)
  const writers = toRowModelArray(models).map((model) => compile(model, columns, fields))
  /** Writes the row using the first model that it matches. */
  return (record, position) => {
    find(record)
    const invalidColumns: Array<string> = []
    try {
      for (const writer of writers) {
        const end = writer.write(position)
        if (end >= 0) return end
        invalidColumns.push(writer.columns[-1 - end] ?? "")
      }
    } finally {
      release()
    }
    throw new InvalidRow({
      message: `The database has values that do not match the schema: ${invalidColumns.join(", ")}`,
    })
  }
}

/** Returns a function that writes a row as JSON. The record's fields are in the order of `columns`. */
export const makeJsonRowWriter = (models: RowModels, columns = getColumnNames(models)): RowWriter =>
  makeRowWriter(models, columns, compileJsonWriter)

/** Returns a function that writes a row as a CSV record without a line ending. */
export const makeCsvRowWriter = (models: RowModels, columns = getColumnNames(models)): RowWriter =>
  makeRowWriter(models, columns, compileCsvWriter)
