/** Describes the file format of a dataset, for the command `datasets`: its columns and an example row. */
import { SchemaAST } from "effect"
import { quoteCsvCell } from "../../query/rows/CsvCells.ts"
import type { LoadableDataset } from "../../contract/Datasets.ts"
import { findRequiredColumns } from "./RowValidation.ts"

interface ColumnDescription {
  readonly name: string
  /** The type in words, such as `whole number`. */
  readonly type: string
  readonly requirement: "required" | "may be empty"
  readonly description: string
  /** A valid cell of a CSV file. */
  readonly example: string
}

/** Returns the type of the values in a nullable or optional column. */
const unwrap = (ast: SchemaAST.AST): SchemaAST.AST =>
  SchemaAST.isUnion(ast) && SchemaAST.resolveTitle(ast) === undefined && ast.types[0] !== undefined ? ast.types[0] : ast

/** Returns an example of a cell: the schema's own example or, for a list of words, the first word. */
const findExample = (ast: SchemaAST.AST) => {
  const [first] = SchemaAST.resolveAt<ReadonlyArray<unknown>>("examples")(ast) ?? []
  if (first !== undefined) return Array.isArray(first) ? JSON.stringify(first) : String(first)
  return SchemaAST.resolveTitle(ast)?.split(" | ")[0] ?? ""
}

/** Describes the columns that a file for the dataset may have, in the order of the table. */
export const describeColumns = ({ row }: LoadableDataset): ReadonlyArray<ColumnDescription> => {
  const required = findRequiredColumns(row)
  return Object.entries(row.fields).map(([name, field]) => {
    const ast = unwrap(field.ast)
    return {
      name,
      type: SchemaAST.resolveTitle(ast) ?? "text",
      requirement: required.includes(name) ? "required" : "may be empty",
      description: SchemaAST.resolveDescription(ast) ?? "",
      example: findExample(ast),
    }
  })
}

/**
 * Returns the cells of a valid example row. The example values of some columns exclude each other, such as the columns
 * for warrants and for convertibles. While the row is invalid, this empties the cell that the validation names.
 */
const makeExampleRow = (dataset: LoadableDataset, columns: ReadonlyArray<ColumnDescription>) => {
  const cells = Object.fromEntries(columns.map(({ example, name }) => [name, example]))
  const findInvalidColumn = () => {
    const row = Object.fromEntries(Object.entries(cells).map(([name, cell]) => [name, cell === "" ? null : cell]))
    const column = dataset.validateRow?.(row)?.column ?? ""
    return cells[column] === "" ? undefined : column
  }
  for (let column = findInvalidColumn(); column !== undefined && column !== ""; column = findInvalidColumn()) {
    cells[column] = ""
  }
  return Object.values(cells)
}

/** Formats rows of cells as indented lines with aligned columns. */
const alignColumns = (rows: ReadonlyArray<ReadonlyArray<string>>) => {
  const widths = (rows[0] ?? []).map((_, index) => Math.max(...rows.map((cells) => (cells[index] ?? "").length)))
  return rows.map((cells) => `  ${cells.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join("  ").trimEnd()}`)
}

/** Returns text that lists the columns of a dataset's table, followed by an example CSV file with one row. */
export const describeDatasetFormat = (dataset: LoadableDataset): string => {
  const columns = describeColumns(dataset)
  return [
    `${dataset.table} (one row for each ${dataset.key.join(", ")})`,
    ...alignColumns(columns.map(({ description, name, requirement, type }) => [name, type, requirement, description])),
    "",
    `  ${dataset.table}.csv:`,
    `  ${columns.map(({ name }) => name).join(",")}`,
    `  ${makeExampleRow(dataset, columns).map(quoteCsvCell).join(",")}`,
    "",
  ].join("\n")
}
