/** Validates parsed rows against the dataset's schema, and reports errors by line and column (D31, load). */
import { Option, Result, Schema } from "effect"
import { findNearestName } from "../rules/Suggestions.ts"
import { type FieldErrorReason, makeValidationReasonFormatter } from "../rules/ValidationMessages.ts"
import type { LoadableDataset } from "./Datasets.ts"
import { type CheckHeader, invalidListReason, type ParsedRow, type RowCells } from "./FileReader.ts"

/** Number of bad rows that an error message lists. Reading stops once more bad rows are found. */
export const maxReportedRows = 20

/** One error in one cell of a file. */
export interface CellError {
  readonly line: number
  /** Empty if the error concerns the whole row. */
  readonly column: string
  readonly reason: string
}

export class InvalidRows extends Schema.TaggedError<InvalidRows>()("InvalidRows", { message: Schema.String }) {}

/** A row that matches the dataset's schema. */
export interface ValidRow {
  readonly line: number
  readonly cells: RowCells
}

const wording = {
  missing: "is missing",
  unexpected: "is not a column of this table",
  wrongType: "must not be empty",
}

const formatReasons = makeValidationReasonFormatter(wording)

/** The schema reports an array in a text column as if it were an empty cell. This describes the actual error. */
const formatWrongType = (cell: RowCells[string]) =>
  Array.isArray(cell) ? "must be text, not an array" : invalidListReason

/** A row with null in every nullable column. */
const makeNullCells = ({ fields }: LoadableDataset["row"]) =>
  Object.fromEntries(Object.entries(fields).filter(([, field]) => Schema.is(field)(null)).map(([name]) => [name, null]))

/** Names of the columns that every row must fill. */
export const findRequiredColumns = (row: LoadableDataset["row"]): ReadonlyArray<string> =>
  Result.match(Schema.decodeUnknownResult(row, { errors: "all" })(makeNullCells(row)), {
    onSuccess: () => [],
    onFailure: ({ issue }) => formatReasons(issue).map(({ name }) => name),
  })

/** Returns the validators of a dataset: one for the header of a CSV file, one for each row. */
export const makeRowValidator = ({ row, validateRow: validateCombination }: LoadableDataset) => {
  const decode = Schema.decodeUnknownResult(row, { onExcessProperty: "error", errors: "all" })
  const nullCells = makeNullCells(row)
  const requiredColumns = findRequiredColumns(row)
  const columns = Object.keys(row.fields)

  /** Finds the column with the most similar name among the columns that the file does not contain. */
  const findIntendedColumn = (name: string, names: ReadonlyArray<string>) =>
    findNearestName(name, columns.filter((column) => !names.includes(column)))

  const formatUnknownColumn = (name: string, names: ReadonlyArray<string>) =>
    Option.match(findIntendedColumn(name, names), {
      onNone: () => wording.unexpected,
      onSome: (column) => `${wording.unexpected}; did you mean ${column}?`,
    })

  const checkHeader: CheckHeader = (names) => {
    const unknown = names.filter((name) => !Object.hasOwn(row.fields, name))
    // A misspelled column is reported once, as unknown, and not again as missing.
    const misspelt = new Set(unknown.flatMap((name) => Option.toArray(findIntendedColumn(name, names))))
    const missing = requiredColumns.filter((name) => !names.includes(name) && !misspelt.has(name))
    return [
      ...unknown.map((column) => ({ column, reason: formatUnknownColumn(column, names) })),
      ...missing.map((column) => ({ column, reason: wording.missing })),
    ]
  }

  const toCellProblem = (cells: RowCells) => ({ name, reason }: FieldErrorReason) => {
    if (reason === wording.unexpected) return { column: name, reason: formatUnknownColumn(name, Object.keys(cells)) }
    const cell = Object.hasOwn(cells, name) ? cells[name] : null
    return { column: name, reason: reason === wording.wrongType && cell !== null ? formatWrongType(cell) : reason }
  }

  const validateRow = ({ cells, line, problem }: ParsedRow): Result.Result<ValidRow, ReadonlyArray<CellError>> => {
    if (problem !== undefined) return Result.fail([{ line, ...problem }])
    return decode({ ...nullCells, ...cells }).pipe(
      Result.mapError(({ issue }) => formatReasons(issue).map((reason) => ({ line, ...toCellProblem(cells)(reason) }))),
      Result.flatMap((valid) => {
        const invalid = validateCombination?.(valid)
        return invalid === undefined ? Result.succeed({ line, cells: valid }) : Result.fail([{ line, ...invalid }])
      }),
    )
  }
  return { checkHeader, validateRow }
}

/** Whether an earlier row already reported the same unknown column. */
const isRepeatedColumn = ({ column, reason }: CellError, index: number, errors: ReadonlyArray<CellError>) =>
  reason.startsWith(wording.unexpected) &&
  errors.findIndex((error) => error.column === column && error.reason === reason) < index

/** Lists the errors of the first bad rows. */
export const makeInvalidRowsError = (path: string, table: string, badRows: ReadonlyArray<ReadonlyArray<CellError>>) => {
  const errors = badRows.slice(0, maxReportedRows).flat()
  const lines = errors.filter((error, index) => !isRepeatedColumn(error, index, errors)).map((
    { column, line, reason },
  ) => `  line ${line}: ${column === "" ? "the row" : column} ${reason}`)
  const more = badRows.length > maxReportedRows ? `\n  … only the first ${maxReportedRows} bad rows are shown` : ""
  return new InvalidRows({ message: `${path} was refused and ${table} is unchanged:\n${lines.join("\n")}${more}` })
}
