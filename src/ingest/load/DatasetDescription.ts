/** Describes a dataset's file format for the command `datasets`: the columns and an example row. */
import { SchemaAST } from "effect"
import { quoteCsvCell } from "../../query/rows/CsvCells.ts"
import type { LoadableDataset } from "../../contract/Datasets.ts"
import { findRequiredColumns } from "./RowValidation.ts"

/** The description of a column that a file for the dataset may have. */
interface ColumnDescription {
  readonly name: string
  /** The type in plain words, such as `whole number`. */
  readonly type: string
  readonly requirement: "required" | "may be empty"
  readonly description: string
  /** A valid value in a CSV file. */
  readonly example: string
}

/** Returns the type of the values of a nullable or optional column. */
const unwrap = (ast: SchemaAST.AST): SchemaAST.AST =>
  SchemaAST.isUnion(ast) && SchemaAST.resolveTitle(ast) === undefined && ast.types[0] !== undefined ? ast.types[0] : ast

/** Returns an example value: the schema's example or, for a column with a fixed set of words, the first word. */
const findExample = (ast: SchemaAST.AST) => {
  const [first] = SchemaAST.resolveAt<ReadonlyArray<unknown>>("examples")(ast) ?? []
  if (first !== undefined) return Array.isArray(first) ? JSON.stringify(first) : String(first)
  return SchemaAST.resolveTitle(ast)?.split(" | ")[0] ?? ""
}

/** Describes the columns that a file for the dataset may have, in table order. */
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
 * Returns the cells of a valid example row. Some example values exclude each other, such as those for warrants and for
 * convertibles. As long as the row is invalid, the cell that validation reports is emptied.
 */
const makeExampleRow = (dataset: LoadableDataset, columns: ReadonlyArray<ColumnDescription>) => {
  const cells = Object.fromEntries(columns.map(({ example, name }) => [name, example]))
  const findInvalidColumn = () => {
    const row = Object.fromEntries(Object.entries(cells).map(([name, cell]) => [name, cell === "" ? null : cell]))
    const column = dataset.validateRow?.(row)?.column ?? ""
    // Emptying an empty cell would not make the row valid, so the loop below would not end.
    return cells[column] === "" ? undefined : column
  }
  for (let column = findInvalidColumn(); column !== undefined && column !== ""; column = findInvalidColumn()) {
    cells[column] = ""
  }
  return Object.values(cells)
}

/** Formats rows as indented lines with aligned columns. */
const alignColumns = (rows: ReadonlyArray<ReadonlyArray<string>>) => {
  const widths = (rows[0] ?? []).map((_, index) => Math.max(...rows.map((cells) => (cells[index] ?? "").length)))
  return rows.map((cells) => `  ${cells.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join("  ").trimEnd()}`)
}

/** Lists the columns of a dataset's table as text, followed by an example CSV file with one row. */
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
