/** D31: a row's cells once they are known to be right, or what is wrong with them, by line and column. */
import { Option, Result, Schema } from "effect"
import { findNearestName } from "../rules/Suggestions.ts"
import { type FieldReason, makeReasonFormatter } from "../rules/ValidationMessages.ts"
import type { Dataset } from "./Datasets.ts"
import { type CheckHeader, notAListReason, type ParsedRow, type RowCells } from "./ParsedRow.ts"

/** Reading ends after this many bad rows. */
export const maxBadRows = 20

export interface RowError {
  readonly line: number
  readonly column: string
  readonly reason: string
}

export class BadRows extends Schema.TaggedError<BadRows>()("BadRows", { message: Schema.String }) {}

/** A row that may be inserted, and where it stands in the file. */
export interface CheckedRow {
  readonly line: number
  readonly cells: RowCells
}

const words = {
  missing: "is missing",
  unexpected: "is not a column of this table",
  wrongType: "must not be empty",
}

const reasons = makeReasonFormatter(words)

/** A cell of the other sort decodes as badly as an empty one, but that is not what is wrong with it. */
const ofTheOtherSort = (cell: RowCells[string]) => Array.isArray(cell) ? "must be text, not an array" : notAListReason

/** What a row holds in the columns that may be empty, before anything is said of them. */
const nullsOf = ({ fields }: Dataset["row"]) =>
  Object.fromEntries(Object.entries(fields).filter(([, field]) => Schema.is(field)(null)).map(([name]) => [name, null]))

/** The columns that every row must fill. */
export const findRequiredColumns = (row: Dataset["row"]): ReadonlyArray<string> =>
  Result.match(Schema.decodeUnknownResult(row, { errors: "all" })(nullsOf(row)), {
    onSuccess: () => [],
    onFailure: ({ issue }) => reasons(issue).map(({ name }) => name),
  })

/** How the rows of a dataset are checked, and before them the names of its columns. */
export const makeRowChecker = ({ row, validateRow: wrong }: Dataset) => {
  const decode = Schema.decodeUnknownResult(row, { onExcessProperty: "error", errors: "all" })
  const nulls = nullsOf(row)
  const required = findRequiredColumns(row)

  const columns = Object.keys(row.fields)

  /** The column that was probably meant: one that the file does not name as well. */
  const meant = (name: string, names: ReadonlyArray<string>) =>
    findNearestName(name, columns.filter((column) => !names.includes(column)))

  const unknown = (name: string, names: ReadonlyArray<string>) =>
    Option.match(meant(name, names), {
      onNone: () => words.unexpected,
      onSome: (column) => `${words.unexpected}; did you mean ${column}?`,
    })

  const wrongHeader: CheckHeader = (names) => {
    const strange = names.filter((name) => !Object.hasOwn(row.fields, name))
    // A misspelt column is one mistake, not an unknown column and a missing one.
    const misspelt = new Set(strange.flatMap((name) => Option.toArray(meant(name, names))))
    const missing = required.filter((name) => !names.includes(name) && !misspelt.has(name))
    return [
      ...strange.map((column) => ({ column, reason: unknown(column, names) })),
      ...missing.map((column) => ({ column, reason: words.missing })),
    ]
  }

  const mistakes = (cells: RowCells) => ({ name, reason }: FieldReason) => {
    if (reason === words.unexpected) return { column: name, reason: unknown(name, Object.keys(cells)) }
    const cell = Object.hasOwn(cells, name) ? cells[name] : null
    const sort = reason === words.wrongType && cell !== null ? ofTheOtherSort(cell) : reason
    return { column: name, reason: sort }
  }

  const checkRow = ({ cells, line, problem }: ParsedRow): Result.Result<CheckedRow, ReadonlyArray<RowError>> => {
    if (problem !== undefined) return Result.fail([{ line, ...problem }])
    return decode({ ...nulls, ...cells }).pipe(
      Result.mapError(({ issue }) => reasons(issue).map(mistakes(cells)).map((mistake) => ({ line, ...mistake }))),
      Result.flatMap((checked) => {
        const mistake = wrong?.(checked)
        return mistake === undefined ? Result.succeed({ line, cells: checked }) : Result.fail([{ line, ...mistake }])
      }),
    )
  }
  return { checkRow, wrongHeader }
}

/** An unknown column is a mistake of the file: it is named once, however many rows have it. */
const repeatsColumn = ({ column, reason }: RowError, at: number, all: ReadonlyArray<RowError>) =>
  reason.startsWith(words.unexpected) && all.findIndex((one) => one.column === column && one.reason === reason) < at

/** The first bad rows of the file, at most twenty, each with all that is wrong with it. */
export const makeBadRowsError = (path: string, table: string, bad: ReadonlyArray<ReadonlyArray<RowError>>) => {
  const found = bad.slice(0, maxBadRows).flat()
  const shown = found.filter((one, at) => !repeatsColumn(one, at, found)).map(({ column, line, reason }) =>
    `  line ${line}: ${column === "" ? "the row" : column} ${reason}`
  )
  const rest = bad.length >= maxBadRows ? `\n  … only the first ${maxBadRows} are shown` : ""
  return new BadRows({ message: `${path} was refused and ${table} is unchanged:\n${shown.join("\n")}${rest}` })
}
