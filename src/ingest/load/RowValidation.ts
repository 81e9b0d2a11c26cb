/** Validates parsed rows against the dataset's schema, and reports errors by line and column (D31, load). */
import { Array as Arr, Data, Option, Result, Schema } from "effect"
import { findNearestName } from "../../contract/rules/Suggestions.ts"
import { type FieldErrorReason, makeValidationReasonFormatter } from "../../contract/rules/ValidationMessages.ts"
import type { LoadableDataset, RowCells } from "../../contract/Datasets.ts"
import {
  type CellProblem,
  type CsvHeaderCheck,
  formatRefusedValue,
  invalidListCellReason,
  nullTexts as alwaysNull,
  type ParsedFileRow,
} from "./FileReader.ts"
import type { BoundsCheck } from "./ColumnBounds.ts"
import { findPriceOutsideRange } from "./PriceRanges.ts"

/** Number of bad rows that an error message lists. Reading stops once more bad rows are found. */
export const maxReportedBadRows = 20

/** One error in one cell of a file. */
export interface LoadCellError {
  readonly line: number
  /** Empty if the error concerns the whole row. */
  readonly column: string
  readonly reason: string
}

export class InvalidRows extends Data.TaggedError("InvalidRows")<{
  readonly message: string
  readonly table: string
  /** The errors of the first bad rows. */
  readonly errors: ReadonlyArray<LoadCellError>
}> {}

/** A row that matches the dataset's schema. */
export interface ValidRow extends Omit<ParsedFileRow, "problem"> {}

const wording = {
  missing: "is missing",
  unexpected: "is not a column of this table",
  wrongType: "must not be empty",
  inFirstRow: "is missing, but the first row has it, and with --keep-omitted all rows need the same columns",
  notInFirstRow: "is not in the first row, and with --keep-omitted all rows need the same columns",
}

/** The reason why a new row is refused if the file omits a required column. */
export const missingInNewRowReason = "is missing, and no existing row has this key"

const formatReasons = makeValidationReasonFormatter(wording)

/** Describes a cell of the wrong type that is not empty, because `wording.wrongType` is true only of empty cells. */
const formatWrongType = (cell: RowCells[string], isList: boolean) => {
  if (!Array.isArray(cell)) return invalidListCellReason
  return isList ? "must not contain empty text" : "must be text, not an array"
}

const isSameProblem = (one: CellProblem, other: CellProblem) =>
  one.column === other.column && one.reason === other.reason

type RowFields = LoadableDataset["row"]["fields"]

/** Returns a function that decodes rows. A nullable column that a row lacks is null. */
const makeRowDecoder = (fields: RowFields) => {
  const decode = Schema.decodeUnknownResult(Schema.Struct(fields), { onExcessProperty: "error", errors: "all" })
  const nullCells = Object.fromEntries(
    Object.entries(fields).filter(([, field]) => Schema.is(field)(null)).map(([name]) => [name, null]),
  )
  return (cells: RowCells) => decode({ ...nullCells, ...cells })
}

const findMissingColumns = (decode: ReturnType<typeof makeRowDecoder>): ReadonlyArray<string> =>
  Result.match(decode({}), {
    onSuccess: () => [],
    onFailure: ({ issue }) => formatReasons(issue).map(({ name }) => name),
  })

/** Names of the columns that every row must fill. */
export const findRequiredColumns = ({ fields }: LoadableDataset["row"]) => findMissingColumns(makeRowDecoder(fields))

/** Texts by which programs and people denote an unknown value (D43). They may also be meant, so that they are kept. */
const unknownTexts: ReadonlySet<string> = new Set([
  "NULL",
  "Null",
  "null",
  "NaN",
  "nan",
  "None",
  "none",
  "N/A",
  "n/a",
  "#N/A",
  "NaT",
])

/** Cells of a column with a text that may denote an unknown value. */
export interface UnknownTexts {
  readonly column: string
  readonly text: string
  count: number
}

export interface RowValidatorOptions {
  /**
   * Whether the file may omit columns. The CSV header or the first NDJSON row determines which, and all other rows must
   * have the same columns. Missing columns of the key and `combinedColumns` do not count as omitted, but are null.
   */
  readonly mayOmitColumns?: boolean
  /** Further columns that a file may have, such as generated ones. Their cells are not loaded. */
  readonly ignoredColumns?: ReadonlyArray<string>
  /** Columns in indexes of the table, which PostgreSQL limits to short text. */
  readonly indexedColumns?: ReadonlyArray<string>
  readonly checkBounds?: BoundsCheck
  /** Texts of cells that mean null. */
  readonly nullTexts?: ReadonlySet<string>
}

/** Maximum bytes of text in an indexed column. PostgreSQL limits all columns of an entry together to 2,704. */
const maxIndexedBytes = 1_000

/** Columns that responses of the API never contain, or only on request. A file of the service therefore omits them. */
const findHiddenColumns = ({ model, row }: LoadableDataset) =>
  Object.keys(row.fields).filter((name) => !Object.hasOwn(model.json.fields, name))

/** Columns that responses contain although the table has no such column, because the service computes them. */
const findComputedColumns = ({ computedColumns = [], model, row }: LoadableDataset) =>
  [...Object.keys(model.json.fields), ...computedColumns, "lineage_ticker"].filter((name) =>
    !Object.hasOwn(row.fields, name)
  )

/**
 * Returns the validators of a file: one for a CSV header, and one for each row. After the header or the first row,
 * `getOmitted` returns the columns that the file omits (none without `mayOmitColumns`). After the last row,
 * `getIgnored` returns the columns that were ignored, and `getUnseenHiddenColumns` the hidden ones that no row has.
 */
export const makeRowValidator = (
  dataset: LoadableDataset,
  options: RowValidatorOptions = {},
) => {
  const { checkBounds = () => [], ignoredColumns = [], indexedColumns = [], mayOmitColumns = false } = options
  const { nullTexts = alwaysNull } = options
  const { combinedColumns = [], key, row, validateRow: validateCombination } = dataset
  const columns = Object.keys(row.fields)
  const alwaysValidated = new Set([...key, ...combinedColumns])
  let decode = makeRowDecoder(row.fields)
  let requiredColumns = findMissingColumns(decode)
  let omitted: ReadonlyArray<string> = []
  /** The columns of the first row of an NDJSON file, if every row must have them. */
  let rowColumns: ReadonlySet<string> | undefined
  let isUnread = mayOmitColumns
  const ignorable = new Set([...ignoredColumns, ...findComputedColumns(dataset)])
  const ignored = new Set<string>()
  const hiddenColumns = findHiddenColumns(dataset)
  const seenHiddenColumns = new Set<string>()

  const noteColumns = (has: (name: string) => boolean) => {
    for (const name of hiddenColumns) if (has(name)) seenHiddenColumns.add(name)
    for (const name of ignorable) if (has(name)) ignored.add(name)
  }

  const unknown = new Map<string, UnknownTexts>()

  /** Counts the texts of a valid row that may denote unknown values. Other columns than those with text refuse them. */
  const countUnknownTexts = (cells: RowCells) => {
    for (const [column, cell] of Object.entries(cells)) {
      for (const text of [cell].flat()) {
        if (typeof text !== "string" || !unknownTexts.has(text)) continue
        const key = `${column} ${text}`
        const found = unknown.get(key) ?? { column, text, count: 0 }
        found.count += 1
        unknown.set(key, found)
      }
    }
  }

  /** Removes white space at both ends of text. Text that is then empty, or denotes null, is null (D39, D43). */
  const trimCell = (cell: RowCells[string]): RowCells[string] => {
    if (cell === null || cell === undefined) return cell
    if (typeof cell !== "string") return cell.map((item) => item.trim())
    const text = cell.trim()
    return nullTexts.has(text) ? null : text
  }

  /** Trims the cells, and removes those of ignored columns. */
  const normalizeCells = (cells: RowCells): RowCells => {
    noteColumns((name) => Object.hasOwn(cells, name))
    return Object.fromEntries(
      Object.entries(cells).filter(([name]) => !ignored.has(name)).map(([name, cell]) => [name, trimCell(cell)]),
    )
  }

  /** Skips validation of the columns that the file omits. `names` are the columns that it has. */
  const omitColumnsExcept = (names: ReadonlyArray<string>) => {
    isUnread = false
    omitted = columns.filter((name) => !names.includes(name) && !alwaysValidated.has(name))
    decode = makeRowDecoder(
      Object.fromEntries(Object.entries(row.fields).filter(([name]) => !omitted.includes(name))),
    )
    requiredColumns = findMissingColumns(decode)
  }

  /** Returns a problem for each column that only this row or only the first row has. The first row sets the columns. */
  const findDifferentColumns = (cells: RowCells): ReadonlyArray<CellProblem> => {
    if (isUnread) {
      rowColumns = new Set(Object.keys(cells))
      omitColumnsExcept(Object.keys(cells))
    }
    // A column that becomes null if it is missing may be missing in some rows.
    const different = Array.from(rowColumns?.symmetricDifference(new Set(Object.keys(cells))) ?? [])
      .filter((column) => !combinedColumns.includes(column))
    return different.map(
      (column) => ({ column, reason: Object.hasOwn(cells, column) ? wording.notInFirstRow : wording.inFirstRow }),
    )
  }

  /** Finds the column with the most similar name among the columns that the file does not contain. */
  const findIntendedColumn = (name: string, names: ReadonlyArray<string>) =>
    findNearestName(name, columns.filter((column) => !names.includes(column)))

  const formatUnknownColumn = (name: string, names: ReadonlyArray<string>) =>
    Option.match(findIntendedColumn(name, names), {
      onNone: () => wording.unexpected,
      onSome: (column) => `${wording.unexpected}; did you mean ${column}?`,
    })

  const checkHeader: CsvHeaderCheck = (allNames) => {
    noteColumns((name) => allNames.includes(name))
    const names = allNames.filter((name) => !ignored.has(name))
    if (isUnread) omitColumnsExcept(names)
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
    const field = row.fields[name]
    const isList = field !== undefined && Schema.is(field)([])
    const rule = reason === wording.wrongType && cell !== null ? formatWrongType(cell, isList) : reason
    return { column: name, reason: `${rule}${formatRefusedValue(cell)}` }
  }

  const isTooLong = (text: string | null) => text !== null && Buffer.byteLength(text) > maxIndexedBytes

  /** Returns a problem for each text that is too long for an index. */
  const findLongTexts = (cells: RowCells): ReadonlyArray<CellProblem> =>
    indexedColumns.filter((name) => [cells[name] ?? null].flat().some(isTooLong)).map((column) => ({
      column,
      reason: `must have at most ${maxIndexedBytes} bytes, because the column is indexed${
        formatRefusedValue(cells[column])
      }`,
    }))

  const validateRow = (
    { cells: allCells, line, problem }: ParsedFileRow,
  ): Result.Result<ValidRow, ReadonlyArray<LoadCellError>> => {
    if (problem !== undefined) return Result.fail([{ line, ...problem }])
    const cells = normalizeCells(allCells)
    const different = findDifferentColumns(cells)
    if (different.length > 0) return Result.fail(different.map((problem) => ({ line, ...problem })))
    return decode(cells).pipe(
      Result.mapError(({ issue }) =>
        // Each element of a list may have the same problem.
        Arr.dedupeWith(formatReasons(issue).map(toCellProblem(cells)), isSameProblem)
          .map((problem) => ({ line, ...problem }))
      ),
      Result.flatMap((valid) => {
        const outside = checkBounds(valid).map(({ column, reason }) => ({
          column,
          reason: `${reason}${formatRefusedValue(valid[column])}`,
        }))
        const problems = [...findLongTexts(valid), ...outside]
        if (problems.length > 0) return Result.fail(problems.map((problem) => ({ line, ...problem })))
        const invalid = validateCombination?.(valid) ?? findPriceOutsideRange(valid)
        if (invalid === undefined) {
          countUnknownTexts(valid)
          return Result.succeed({ line, cells: valid })
        }
        const { column, reason } = invalid
        return Result.fail([{ line, column, reason: `${reason}${formatRefusedValue(valid[column])}` }])
      }),
    )
  }
  return {
    checkHeader,
    validateRow,
    getOmitted: () => omitted,
    getIgnored: () => [...ignored],
    getUnknownTexts: (): ReadonlyArray<UnknownTexts> => [...unknown.values()],
    getUnseenHiddenColumns: () => hiddenColumns.filter((name) => !seenHiddenColumns.has(name)),
  }
}

export type RowValidator = ReturnType<typeof makeRowValidator>

/** Whether an earlier row already reported the same unknown column. */
const isRepeatedColumn = ({ column, reason }: LoadCellError, index: number, errors: ReadonlyArray<LoadCellError>) =>
  reason.startsWith(wording.unexpected) &&
  errors.findIndex((error) => error.column === column && error.reason === reason) < index

const moreBadRows = `  … only the first ${maxReportedBadRows} bad rows are shown`

const formatError = ({ column, line, reason }: LoadCellError) =>
  `  line ${line}: ${column === "" ? "the row" : column} ${reason}`

/** Lists the first errors of a file, one per line. */
export const formatLoadCellErrors = (errors: ReadonlyArray<LoadCellError>) =>
  [
    ...errors.slice(0, maxReportedBadRows).map(formatError),
    ...(errors.length > maxReportedBadRows ? [moreBadRows] : []),
  ].join("\n")

/** Makes the error of a refused file, which lists the problems of the first bad rows. `key` are the key's columns. */
export const makeInvalidRowsError = (
  path: string,
  table: string,
  badRows: ReadonlyArray<ReadonlyArray<LoadCellError>>,
  key: ReadonlyArray<string> = [],
) => {
  const errors = badRows.toSorted(([a], [b]) => (a?.line ?? 0) - (b?.line ?? 0)).slice(0, maxReportedBadRows).flat()
  const lines = errors.filter((error, index) => !isRepeatedColumn(error, index, errors)).map(formatError)
  const more = badRows.length > maxReportedBadRows ? `\n${moreBadRows}` : ""
  // A file of the service lacks the columns that its endpoint does not show.
  const advice = errors.some(({ column, reason }) => reason === wording.missing && !key.includes(column))
    ? "\nIf existing rows should keep their values in the missing columns, add --append --keep-omitted."
    : ""
  return new InvalidRows({
    table,
    errors,
    message: `${path} was refused and ${table} is unchanged:\n${lines.join("\n")}${more}${advice}`,
  })
}
