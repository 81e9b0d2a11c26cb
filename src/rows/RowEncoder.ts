/**
 * D16: how rows become JSON text. A row is declared once, by its Schemas; what stands here is compiled from them, once
 * for each list, and leads from the driver's values to text without the objects in between. A kind of column may know
 * its own short way (the annotation `print`); for any other its two Schemas are run.
 */
import { Data, Schema, SchemaAST } from "effect"
import { encodeCsvCell } from "./CsvCells.ts"

/** The JSON text of a value as the driver hands it over; undefined where the value is not of its kind. */
export type ValueEncoder = (value: unknown) => string | undefined

declare module "effect/Schema" {
  namespace Annotations {
    interface Annotations {
      readonly print?: ValueEncoder | undefined
    }
  }
}

type Fields = { readonly [column: string]: Schema.Codec<unknown, unknown> }

/** A row that can be shown: a `Model.Class` with columns of `Columns.ts` and `Timestamps.ts`. */
export interface RowModel {
  readonly identifier: string
  /** How the driver hands it over. */
  readonly fields: Fields
  /** How it prints. */
  readonly json: { readonly fields: Fields }
}

/** What the driver hands over of a row, in the order of the columns asked for. */
export type RowValues = ReadonlyArray<unknown>

/** The database holds what its own constraints forbid. */
class Unprintable extends Data.TaggedError("Unprintable")<{ readonly message: string }> {}

/** Text that JSON needs no escapes for, such as a date. */
export const encodeUnescapedText: ValueEncoder = (value) => typeof value === "string" ? `"${value}"` : undefined

export const encodeText: ValueEncoder = (value) => typeof value === "string" ? JSON.stringify(value) : undefined

export const encodeNullable = (print: ValueEncoder): ValueEncoder => (value) => value === null ? "null" : print(value)

/** By the Schemas themselves, whatever they are. */
export const makeSchemaValueEncoder = (
  select: Schema.Codec<unknown, unknown>,
  json: Schema.Codec<unknown, unknown>,
): ValueEncoder => {
  const decode = Schema.decodeUnknownSync(select)
  const encode = Schema.encodeUnknownSync(json)
  return (value) => JSON.stringify(encode(decode(value)))
}

/** A list's rows; where they are of several kinds, a word of each row tells which. */
export type RowModels = RowModel | ReadonlyArray<RowModel>

const kindsOf = (rows: RowModels): ReadonlyArray<RowModel> => "json" in rows ? [rows] : rows

/** The names of what the rows show, in the order in which they print them. */
export const getColumnNames = (rows: RowModels): ReadonlyArray<string> =>
  Array.from(new Set(kindsOf(rows).flatMap((row) => Object.keys(row.json.fields))))

/** Where `columns` are in the values, and how they print. */
const cells = (row: RowModel, columns: ReadonlyArray<string>) =>
  Object.entries(row.json.fields).map(([name, json], at) => {
    const select = row.fields[name]
    const index = columns.indexOf(name)
    if (select === undefined || index < 0) throw new Unprintable({ message: `${row.identifier} lacks ${name}` })
    const head = `${at === 0 ? "{" : ","}${JSON.stringify(name)}:`
    return { name, index, head, print: SchemaAST.resolve(select.ast)?.print ?? makeSchemaValueEncoder(select, json) }
  })

/** The row, or the name of the first column that does not hold what is declared. */
type Attempt = { readonly line: string } | { readonly wrong: string }

const printerOf = (row: RowModel, columns: ReadonlyArray<string>) => {
  const compiled = cells(row, columns)
  return (values: RowValues): Attempt => {
    let line = ""
    for (const { head, index, name, print } of compiled) {
      const cell = print(values[index])
      if (cell === undefined) return { wrong: `${row.identifier}.${name}` }
      line += head + cell
    }
    return { line: `${line}}` }
  }
}

/** The same, a cell for each of the columns; empty is also what another kind of row has. */
const recorderOf = (row: RowModel, columns: ReadonlyArray<string>) => {
  const compiled = cells(row, columns)
  const byColumn = columns.map((column, at) => ({
    name: column,
    head: at === 0 ? "" : ",",
    index: at,
    print: compiled.find(({ name }) => name === column)?.print ?? (() => "null"),
  }))
  return (values: RowValues): Attempt => {
    let line = ""
    for (const { head, index, name, print } of byColumn) {
      const json = print(values[index])
      if (json === undefined) return { wrong: `${row.identifier}.${name}` }
      line += head + encodeCsvCell(json)
    }
    return { line }
  }
}

const firstOf = (kinds: ReadonlyArray<(values: RowValues) => Attempt>) => (values: RowValues): string => {
  const wrong: Array<string> = []
  for (const kind of kinds) {
    const printed = kind(values)
    if ("line" in printed) return printed.line
    wrong.push(printed.wrong)
  }
  throw new Unprintable({ message: `The database holds what its row does not allow: ${wrong.join(", ")}` })
}

/** A function from a row's values, which have the order of `columns`, to its JSON text. */
export const makeJsonRowEncoder = (rows: RowModels, columns = getColumnNames(rows)) =>
  firstOf(kindsOf(rows).map((row) => printerOf(row, columns)))

/** A function from a row's values to its record of CSV, without the end of the line. */
export const makeCsvRowEncoder = (rows: RowModels, columns = getColumnNames(rows)) =>
  firstOf(kindsOf(rows).map((row) => recorderOf(row, columns)))
