/**
 * Encodes database rows as JSON and CSV text (D16). An encoder is compiled once per list from the row's schemas and
 * creates no intermediate objects: docs/decisions/0030-compiled-row-encoders.md.
 */
import { Data, Schema, SchemaAST } from "effect"
import { encodeCsvCell } from "./CsvCells.ts"

/** Returns the JSON text of a value from the database driver; undefined if the value has the wrong type. */
export type ValueEncoder = (value: unknown) => string | undefined

declare module "effect/Schema" {
  namespace Annotations {
    interface Annotations {
      readonly encodeValue?: ValueEncoder | undefined
    }
  }
}

type Fields = { readonly [column: string]: Schema.Codec<unknown, unknown> }

/** A `Model.Class` with columns from `Columns.ts` and `Timestamps.ts`. */
export interface RowModel {
  readonly identifier: string
  /** Schemas of the driver's values. */
  readonly fields: Fields
  /** Schemas of the JSON. */
  readonly json: { readonly fields: Fields }
}

/** A row as the driver returns it: its values, in the order of the selected columns. */
export type RowValues = ReadonlyArray<unknown>

/** A value in the database does not match its schema. */
class InvalidRow extends Data.TaggedError("InvalidRow")<{ readonly message: string }> {}

/** Encodes text that contains nothing to escape in JSON, such as a date. */
export const encodeUnescapedText: ValueEncoder = (value) => typeof value === "string" ? `"${value}"` : undefined

export const encodeText: ValueEncoder = (value) => typeof value === "string" ? JSON.stringify(value) : undefined

/** Returns an encoder that also accepts null. */
export const encodeNullable = (encode: ValueEncoder): ValueEncoder => (value) => value === null ? "null" : encode(value)

/** Creates an encoder that runs the two schemas of a column: slower, but works for any schema. */
export const makeSchemaValueEncoder = (
  select: Schema.Codec<unknown, unknown>,
  json: Schema.Codec<unknown, unknown>,
): ValueEncoder => {
  const decode = Schema.decodeUnknownSync(select)
  const encode = Schema.encodeUnknownSync(json)
  return (value) => JSON.stringify(encode(decode(value)))
}

/** The model of the rows in a list. If there are several models, each row matches one of them. */
export type RowModels = RowModel | ReadonlyArray<RowModel>

const toArray = (models: RowModels): ReadonlyArray<RowModel> => "json" in models ? [models] : models

/** Returns the names of all columns, in the order of the JSON. */
export const getColumnNames = (models: RowModels): ReadonlyArray<string> =>
  Array.from(new Set(toArray(models).flatMap((model) => Object.keys(model.json.fields))))

const compileColumns = (model: RowModel, columns: ReadonlyArray<string>) =>
  Object.entries(model.json.fields).map(([name, json], position) => {
    const select = model.fields[name]
    const index = columns.indexOf(name)
    if (select === undefined || index < 0) throw new InvalidRow({ message: `${model.identifier} lacks ${name}` })
    const prefix = `${position === 0 ? "{" : ","}${JSON.stringify(name)}:`
    const encode = SchemaAST.resolve(select.ast)?.encodeValue ?? makeSchemaValueEncoder(select, json)
    return { name, index, prefix, encode }
  })

/** The encoded row, or the name of the first column with a value of the wrong type. */
type Attempt = { readonly line: string } | { readonly invalidColumn: string }

const compileJsonEncoder = (model: RowModel, columns: ReadonlyArray<string>) => {
  const compiled = compileColumns(model, columns)
  return (values: RowValues): Attempt => {
    let line = ""
    for (const { encode, index, name, prefix } of compiled) {
      const json = encode(values[index])
      if (json === undefined) return { invalidColumn: `${model.identifier}.${name}` }
      line += prefix + json
    }
    return { line: `${line}}` }
  }
}

/** A CSV record has a cell for every column of the list. Cells of columns that the model lacks are empty. */
const compileCsvEncoder = (model: RowModel, columns: ReadonlyArray<string>) => {
  const compiled = compileColumns(model, columns)
  const cells = columns.map((name, index) => ({
    name,
    prefix: index === 0 ? "" : ",",
    index,
    encode: compiled.find((column) => column.name === name)?.encode ?? (() => "null"),
  }))
  return (values: RowValues): Attempt => {
    let line = ""
    for (const { encode, index, name, prefix } of cells) {
      const json = encode(values[index])
      if (json === undefined) return { invalidColumn: `${model.identifier}.${name}` }
      line += prefix + encodeCsvCell(json)
    }
    return { line }
  }
}

/** Returns a function that encodes a row with the first model that the row matches. */
const encodeWithFirstMatch =
  (encoders: ReadonlyArray<(values: RowValues) => Attempt>) => (values: RowValues): string => {
    const invalidColumns: Array<string> = []
    for (const encode of encoders) {
      const attempt = encode(values)
      if ("line" in attempt) return attempt.line
      invalidColumns.push(attempt.invalidColumn)
    }
    throw new InvalidRow({
      message: `The database has values that do not match the schema: ${invalidColumns.join(", ")}`,
    })
  }

/** Returns a function that encodes a row as JSON text. The values have the order of `columns`. */
export const makeJsonRowEncoder = (models: RowModels, columns = getColumnNames(models)) =>
  encodeWithFirstMatch(toArray(models).map((model) => compileJsonEncoder(model, columns)))

/** Returns a function that encodes a row as a CSV record without line ending. */
export const makeCsvRowEncoder = (models: RowModels, columns = getColumnNames(models)) =>
  encodeWithFirstMatch(toArray(models).map((model) => compileCsvEncoder(model, columns)))
