/** What a file for a table looks like, for people who bring their own data. */
import { SchemaAST } from "effect"
import { findRequiredColumns } from "./RowValidation.ts"
import type { Dataset } from "./Datasets.ts"

interface Column {
  readonly name: string
  readonly kind: string
  readonly needed: string
  readonly about: string
  readonly example: string
}

/** What a nullable or optional column says is said by the kind inside it. */
const inside = (ast: SchemaAST.AST): SchemaAST.AST =>
  SchemaAST.isUnion(ast) && SchemaAST.resolveTitle(ast) === undefined && ast.types[0] !== undefined ? ast.types[0] : ast

const example = (ast: SchemaAST.AST) => {
  const [first] = SchemaAST.resolveAt<ReadonlyArray<unknown>>("examples")(ast) ?? []
  if (first !== undefined) return Array.isArray(first) ? JSON.stringify(first) : String(first)
  return SchemaAST.resolveTitle(ast)?.split(" | ")[0] ?? ""
}

const columns = ({ row }: Dataset): ReadonlyArray<Column> => {
  const required = findRequiredColumns(row)
  return Object.entries(row.fields).map(([name, field]) => {
    const kind = inside(field.ast)
    return {
      name,
      kind: SchemaAST.resolveTitle(kind) ?? "text",
      needed: required.includes(name) ? "required" : "may be empty",
      about: SchemaAST.resolveDescription(kind) ?? "",
      example: example(kind),
    }
  })
}

/** The kind of each column, by name: what may stand in it. */
export const describeColumnTypes = (dataset: Dataset): Readonly<Record<string, string>> =>
  Object.fromEntries(columns(dataset).map(({ kind, name }) => [name, kind]))

/** One cell a column; those that do not go together with the others are left empty. */
const exampleRow = (dataset: Dataset, all: ReadonlyArray<Column>) => {
  const cells = Object.fromEntries(all.map(({ example, name }) => [name, example]))
  const present = () =>
    Object.fromEntries(Object.entries(cells).map(([name, cell]) => [name, cell === "" ? null : cell]))
  const odd = () => {
    const column = dataset.validateRow?.(present())?.column ?? ""
    return cells[column] === "" ? undefined : column
  }
  for (let column = odd(); column !== undefined && column !== ""; column = odd()) cells[column] = ""
  return Object.values(cells)
}

const csvCell = (text: string) => /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text

const aligned = (rows: ReadonlyArray<ReadonlyArray<string>>) => {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((cells) => (cells[at] ?? "").length)))
  return rows.map((cells) => `  ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join("  ").trimEnd()}`)
}

/** A table's columns with their kinds, and a file of one row. */
export const describeDataset = (dataset: Dataset): string => {
  const all = columns(dataset)
  return [
    `${dataset.table} (one row for each ${dataset.key.join(", ")})`,
    ...aligned(all.map(({ about, kind, name, needed }) => [name, kind, needed, about])),
    "",
    `  ${dataset.table}.csv:`,
    `  ${all.map(({ name }) => name).join(",")}`,
    `  ${exampleRow(dataset, all).map(csvCell).join(",")}`,
    "",
  ].join("\n")
}
