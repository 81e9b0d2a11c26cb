/** Validates the rows of a file against the dataset's schema, and reports errors by line and column (D31, load). */
import { Array as Arr, Data, Option, Result, Schema } from "effect"
import { findNearestName } from "../../contract/rules/NameSuggestions.ts"
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

/** The maximum number of bad rows that an error message lists. Reading stops at the first bad row after these. */
export const maxReportedBadRows = 20

/** An error in a cell or in a whole row of a file. */
export interface LoadCellError {
  /** The line on which the row starts. The first line of a file is 1. */
  readonly line: number
  /** The column's name. Empty if the error concerns the whole row. */
  readonly column: string
  /** The end of a sentence that begins with the column name, such as `must not be empty`. */
  readonly reason: string
}

/** The file has invalid rows, so nothing was loaded. The message lists the first errors, one per line. */
export class InvalidRows extends Data.TaggedError("InvalidRows")<{
  readonly message: string
  readonly table: string
  /** The errors in the first bad rows. */
  readonly errors: ReadonlyArray<LoadCellError>
}> {}

/** A row whose cells are valid, as far as this can be determined without other rows. */
export interface ValidRow extends Omit<ParsedFileRow, "problem"> {}

/** Reasons for errors about empty cells and about missing or unexpected columns. */
const wording = {
  missing: "is missing",
  unexpected: "is not a column of this table",
  wrongType: "must not be empty",
  inFirstRow: "is missing, but the first row has it, and with --keep-omitted all rows need the same columns",
  notInFirstRow: "is not in the first row, and with --keep-omitted all rows need the same columns",
}

/** The reason for rejecting a new row if the file omits a required column. */
export const missingInNewRowReason = "is missing, and no existing row has this key"

const formatReasons = makeValidationReasonFormatter(wording)

/** Returns the reason for a nonempty cell that has the wrong type. `wording.wrongType` fits only empty cells. */
const formatWrongType = (cell: RowCells[string], isList: boolean) => {
  if (!Array.isArray(cell)) return invalidListCellReason
  return isList ? "must not contain empty text" : "must be text, not an array"
}

const isSameProblem = (one: CellProblem, other: CellProblem) =>
  one.column === other.column && one.reason === other.reason

type RowFields = LoadableDataset["row"]["fields"]

/** Returns a function that decodes rows by the schema. If a row lacks a nullable column, the column becomes null. */
const makeRowDecoder = (fields: RowFields) => {
  const decode = Schema.decodeUnknownResult(Schema.Struct(fields), { onExcessProperty: "error", errors: "all" })
  const nullCells = Object.fromEntries(
    Object.entries(fields).filter(([, field]) => Schema.is(field)(null)).map(([name]) => [name, null]),
  )
  return (cells: RowCells) => decode({ ...nullCells, ...cells })
}

/** Returns the columns that every row must fill. These are the columns for which the decoder rejects an empty row. */
const findMissingColumns = (decode: ReturnType<typeof makeRowDecoder>): ReadonlyArray<string> =>
  Result.match(decode({}), {
    onSuccess: () => [],
    onFailure: ({ issue }) => formatReasons(issue).map(({ name }) => name),
  })

/** Returns the names of the columns that every row must fill. */
export const findRequiredColumns = ({ fields }: LoadableDataset["row"]) => findMissingColumns(makeRowDecoder(fields))

/**
 * Texts that people and programs use for an unknown value (D43). They are loaded unchanged, because they may be actual
 * values.
 */
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

/** A text that may stand for an unknown value, and the number of cells in a column that contain it. */
export interface UnknownTexts {
  readonly column: string
  readonly text: string
  count: number
}

/** Options for a validator, in addition to the dataset. */
export interface RowValidatorOptions {
  /**
   * Whether the file may omit columns. The CSV header or the first NDJSON row determines the omitted columns, and all
   * other rows must have the same columns. Key columns and `combinedColumns` cannot be omitted: if they are missing in
   * the file, they are null.
   */
  readonly mayOmitColumns?: boolean
  /**
   * Columns of the table that a file cannot fill, such as generated columns. A file may contain them, but they are not
   * loaded.
   */
  readonly ignoredColumns?: ReadonlyArray<string>
  /** Columns whose text is limited in length because it is stored in an index. */
  readonly indexedColumns?: ReadonlyArray<string>
  /** Finds values that are outside the bounds of their columns. By default, there are no bounds. */
  readonly checkBounds?: BoundsCheck
  /** Cell texts that mean null. */
  readonly nullTexts?: ReadonlySet<string>
}

/**
 * The maximum size in bytes of a text in an indexed column. PostgreSQL limits an index entry, including all columns, to
 * 2,704 bytes.
 */
const maxIndexedBytes = 1_000

/**
 * Returns the columns that API responses include only on request, if at all. Exports by the service lack these columns.
 */
const findHiddenColumns = ({ model, row }: LoadableDataset) =>
  Object.keys(row.fields).filter((name) => !Object.hasOwn(model.json.fields, name))

/** Returns the columns that exist only in responses, because the service computes them. They are not in the table. */
const findComputedColumns = ({ computedColumns = [], model, row }: LoadableDataset) =>
  [...Object.keys(model.json.fields), ...computedColumns, "lineage_ticker"].filter((name) =>
    !Object.hasOwn(row.fields, name)
  )

/** Counts texts in a file that may stand for unknown values, by column and text. */
const makeUnknownTextCounter = () => {
  const found = new Map<string, UnknownTexts>()
  return {
    /**
     * Counts the texts in a valid row that may stand for unknown values. They occur only in text columns, because they
     * are invalid in all others.
     */
    add: (cells: RowCells) => {
      for (const [column, cell] of Object.entries(cells)) {
        for (const text of [cell].flat()) {
          if (typeof text !== "string" || !unknownTexts.has(text)) continue
          const key = `${column} ${text}`
          const entry = found.get(key) ?? { column, text, count: 0 }
          entry.count += 1
          found.set(key, entry)
        }
      }
    },
    list: (): ReadonlyArray<UnknownTexts> => [...found.values()],
  }
}

/**
 * Records, as the header or the rows of a file are read, which ignored columns the file has, and which hidden columns
 * it lacks. Ignored are `ignoredColumns` and the columns that exist only in responses. Hidden are the columns that
 * responses contain only on request, if at all: a file exported by the service lacks them.
 */
const makeColumnNotes = (dataset: LoadableDataset, ignoredColumns: ReadonlyArray<string>) => {
  const ignorable = new Set([...ignoredColumns, ...findComputedColumns(dataset)])
  const ignored = new Set<string>()
  const hiddenColumns = findHiddenColumns(dataset)
  const seenHiddenColumns = new Set<string>()
  return {
    /** Takes note of the columns in a header or a row. `has` returns whether a column is present. */
    note: (has: (name: string) => boolean) => {
      for (const name of hiddenColumns) if (has(name)) seenHiddenColumns.add(name)
      for (const name of ignorable) if (has(name)) ignored.add(name)
    },
    isIgnored: (name: string) => ignored.has(name),
    getIgnored: () => [...ignored],
    getUnseenHiddenColumns: () => hiddenColumns.filter((name) => !seenHiddenColumns.has(name)),
  }
}

/**
 * Keeps track of the columns that a file omits, if `mayOmitColumns` is true, and decodes rows without these columns.
 * The header of a CSV file (`determine`) or the first row of an NDJSON file (`compareWithFirstRow`) determines the
 * omitted columns. Before that, and without `mayOmitColumns`, no column counts as omitted, and the decoder expects all
 * of them.
 */
const makeOmittedColumns = ({ combinedColumns = [], key, row }: LoadableDataset, mayOmitColumns: boolean) => {
  // If the file lacks one of these columns, it is null in all rows, instead of keeping the values of existing rows.
  const neverOmitted = new Set([...key, ...combinedColumns])
  let decode = makeRowDecoder(row.fields)
  let requiredColumns = findMissingColumns(decode)
  let omitted: ReadonlyArray<string> = []
  /** The columns of the first row of an NDJSON file, if all rows must have the same columns. */
  let firstRowColumns: ReadonlySet<string> | undefined
  /** Whether the omitted columns must still be determined. */
  let isUndetermined = mayOmitColumns

  /** Determines the omitted columns from `names`, the columns of the file. Does nothing after the first call. */
  const determine = (names: ReadonlyArray<string>) => {
    if (!isUndetermined) return
    isUndetermined = false
    omitted = Object.keys(row.fields).filter((name) => !names.includes(name) && !neverOmitted.has(name))
    decode = makeRowDecoder(
      Object.fromEntries(Object.entries(row.fields).filter(([name]) => !omitted.includes(name))),
    )
    requiredColumns = findMissingColumns(decode)
  }

  /**
   * Returns a problem for each column that exists only in this row or only in the first row. Returns none for a CSV
   * file, because its header has determined the columns of all rows.
   */
  const compareWithFirstRow = (cells: RowCells): ReadonlyArray<CellProblem> => {
    if (isUndetermined) {
      firstRowColumns = new Set(Object.keys(cells))
      determine(Object.keys(cells))
    }
    if (firstRowColumns === undefined) return []
    // Rows may differ in `combinedColumns`, which are null if they are missing.
    const different = Array.from(firstRowColumns.symmetricDifference(new Set(Object.keys(cells))))
      .filter((column) => !combinedColumns.includes(column))
    return different.map(
      (column) => ({ column, reason: Object.hasOwn(cells, column) ? wording.notInFirstRow : wording.inFirstRow }),
    )
  }

  return {
    determine,
    compareWithFirstRow,
    decode: (cells: RowCells) => decode(cells),
    getRequiredColumns: () => requiredColumns,
    getOmitted: () => omitted,
  }
}

/** Trims whitespace. Text that is then empty, or that means null, becomes null (D39, D43). */
const trimCell = (cell: RowCells[string], nullTexts: ReadonlySet<string>): RowCells[string] => {
  if (cell === null || cell === undefined) return cell
  if (typeof cell !== "string") return cell.map((item) => item.trim())
  const text = cell.trim()
  return nullTexts.has(text) ? null : text
}

/** Returns the column that a misspelled `name` most likely stands for, among the columns that the file lacks. */
const findIntendedColumn = ({ row }: LoadableDataset, name: string, fileColumns: ReadonlyArray<string>) =>
  findNearestName(name, Object.keys(row.fields).filter((column) => !fileColumns.includes(column)))

/** Returns the reason for rejecting an unknown column, such as `is not a column of this table; did you mean ticker?` */
const formatUnknownColumn = (dataset: LoadableDataset, name: string, fileColumns: ReadonlyArray<string>) =>
  Option.match(findIntendedColumn(dataset, name, fileColumns), {
    onNone: () => wording.unexpected,
    onSome: (column) => `${wording.unexpected}; did you mean ${column}?`,
  })

/**
 * Returns the problems in a CSV header: columns that the table does not have, and required columns that are missing.
 * `names` must not contain ignored columns.
 */
const findHeaderProblems = (
  dataset: LoadableDataset,
  names: ReadonlyArray<string>,
  requiredColumns: ReadonlyArray<string>,
): ReadonlyArray<CellProblem> => {
  const unknown = names.filter((name) => !Object.hasOwn(dataset.row.fields, name))
  // A misspelled column is reported only as unknown, and not also as missing.
  const misspelled = new Set(unknown.flatMap((name) => Option.toArray(findIntendedColumn(dataset, name, names))))
  const missing = requiredColumns.filter((name) => !names.includes(name) && !misspelled.has(name))
  return [
    ...unknown.map((column) => ({ column, reason: formatUnknownColumn(dataset, column, names) })),
    ...missing.map((column) => ({ column, reason: wording.missing })),
  ]
}

/**
 * Returns a function that converts a schema error in one column to a problem that quotes the row's cell. The schema's
 * message for a value of the wrong type is worded for an empty cell, so any other cell gets another message.
 */
const toCellProblem =
  (dataset: LoadableDataset, cells: RowCells) => ({ name, reason }: FieldErrorReason): CellProblem => {
    if (reason === wording.unexpected) {
      return { column: name, reason: formatUnknownColumn(dataset, name, Object.keys(cells)) }
    }
    const cell = Object.hasOwn(cells, name) ? cells[name] : null
    const field = dataset.row.fields[name]
    // Only a list column accepts an empty list.
    const isList = field !== undefined && Schema.is(field)([])
    const rule = reason === wording.wrongType && cell !== null ? formatWrongType(cell, isList) : reason
    return { column: name, reason: `${rule}${formatRefusedValue(cell)}` }
  }

const isTooLong = (text: string | null) => text !== null && Buffer.byteLength(text) > maxIndexedBytes

/** Returns a problem for each text that is too long for an index. */
const findLongTexts = (cells: RowCells, indexedColumns: ReadonlyArray<string>): ReadonlyArray<CellProblem> =>
  indexedColumns.filter((name) => [cells[name] ?? null].flat().some(isTooLong)).map((column) => ({
    column,
    reason: `must have at most ${maxIndexedBytes} bytes, because the column is indexed`,
  }))

/** Returns the result of `validateRow` for an invalid row. */
const refuseRow = (line: number, problems: ReadonlyArray<CellProblem>) =>
  Result.fail(problems.map((problem): LoadCellError => ({ line, ...problem })))

/**
 * Creates the validator for one file. It checks the header of a CSV file (`checkHeader`), and converts each row to a
 * valid row or to a list of errors (`validateRow`). It also keeps track of the file's contents for the other functions
 * that it returns, so the header (if there is one) and then all rows must be passed in order.
 */
export const makeRowValidator = (
  dataset: LoadableDataset,
  options: RowValidatorOptions = {},
) => {
  const { checkBounds = () => [], ignoredColumns = [], indexedColumns = [], mayOmitColumns = false } = options
  const { nullTexts = alwaysNull } = options
  const notes = makeColumnNotes(dataset, ignoredColumns)
  const omittedColumns = makeOmittedColumns(dataset, mayOmitColumns)
  const unknownTextCounter = makeUnknownTextCounter()

  const checkHeader: CsvHeaderCheck = (allNames) => {
    notes.note((name) => allNames.includes(name))
    const names = allNames.filter((name) => !notes.isIgnored(name))
    omittedColumns.determine(names)
    return findHeaderProblems(dataset, names, omittedColumns.getRequiredColumns())
  }

  /** Trims the cells, and removes cells in ignored columns. */
  const normalizeCells = (cells: RowCells): RowCells => {
    notes.note((name) => Object.hasOwn(cells, name))
    const loaded = Object.entries(cells).filter(([name]) => !notes.isIgnored(name))
    return Object.fromEntries(loaded.map(([name, cell]) => [name, trimCell(cell, nullTexts)]))
  }

  /**
   * Returns the problems with the values of a decoded row. They quote the values as they are `written` in the file.
   * Combinations of values are checked only if each value by itself is valid.
   */
  const findValueProblems = (cells: RowCells, written: RowCells): ReadonlyArray<CellProblem> => {
    const inCells = [...findLongTexts(cells, indexedColumns), ...checkBounds(cells)]
    const inCombination = inCells.length > 0 ? undefined : dataset.validateRow?.(cells) ?? findPriceOutsideRange(cells)
    const problems = inCombination === undefined ? inCells : [inCombination]
    return problems.map(({ column, reason }) => ({
      column,
      reason: `${reason}${formatRefusedValue(written[column])}`,
    }))
  }

  /**
   * Validates a row, and returns the errors of the first of these steps that finds any: whether the row was parsed,
   * whether it has the same columns as the first row, whether each cell has its column's type, and whether the values
   * are plausible.
   */
  const validateRow = (
    { cells: fileCells, line, problem }: ParsedFileRow,
  ): Result.Result<ValidRow, ReadonlyArray<LoadCellError>> => {
    if (problem !== undefined) return refuseRow(line, [problem])
    const cells = normalizeCells(fileCells)
    const different = omittedColumns.compareWithFirstRow(cells)
    if (different.length > 0) return refuseRow(line, different)
    const decoded = omittedColumns.decode(cells)
    if (Result.isFailure(decoded)) {
      const problems = formatReasons(decoded.failure.issue).map(toCellProblem(dataset, cells))
      // Several elements of a list may have the same problem.
      return refuseRow(line, Arr.dedupeWith(problems, isSameProblem))
    }
    const problems = findValueProblems(decoded.success, cells)
    if (problems.length > 0) return refuseRow(line, problems)
    unknownTextCounter.add(decoded.success)
    return Result.succeed({ line, cells: decoded.success })
  }

  return {
    /** Validates a CSV header. */
    checkHeader,
    /** Validates a row. Returns it with trimmed cells and without ignored columns. */
    validateRow,
    /**
     * Returns the columns that the file omits. Available after the header or the first row. Empty without
     * `mayOmitColumns`.
     */
    getOmitted: omittedColumns.getOmitted,
    /** Returns the columns of the file that were ignored. Available after the last row. */
    getIgnored: notes.getIgnored,
    /** Returns the texts that may stand for unknown values. Available after the last row. */
    getUnknownTexts: unknownTextCounter.list,
    /**
     * Returns the columns that responses include only on request, if at all, and that no row has. Available after the
     * last row.
     */
    getUnseenHiddenColumns: notes.getUnseenHiddenColumns,
  }
}

/** A validator for the rows of one file. */
export type RowValidator = ReturnType<typeof makeRowValidator>

/**
 * Returns whether an earlier error in the list reports the same unknown column, as happens for each row of an NDJSON
 * file.
 */
const isRepeatedColumn = ({ column, reason }: LoadCellError, index: number, errors: ReadonlyArray<LoadCellError>) =>
  reason.startsWith(wording.unexpected) &&
  errors.findIndex((error) => error.column === column && error.reason === reason) < index

const moreBadRows = `  … only the first ${maxReportedBadRows} bad rows are shown`

/** Formats an error as one line, such as `  line 3: ticker is missing`. */
const formatError = ({ column, line, reason }: LoadCellError) =>
  `  line ${line}: ${column === "" ? "the row" : column} ${reason}`

/** Formats the first errors in a file, one per line, and adds a line if there are more. */
export const formatLoadCellErrors = (errors: ReadonlyArray<LoadCellError>) =>
  [
    ...errors.slice(0, maxReportedBadRows).map(formatError),
    ...(errors.length > maxReportedBadRows ? [moreBadRows] : []),
  ].join("\n")

/**
 * Creates the error for a rejected file. The message lists the errors in the first bad rows. Each element of `badRows`
 * contains the errors of one row. If the file lacks a column that is not in `key`, the message suggests
 * `--keep-omitted`.
 */
export const makeInvalidRowsError = (
  path: string,
  table: string,
  badRows: ReadonlyArray<ReadonlyArray<LoadCellError>>,
  key: ReadonlyArray<string> = [],
) => {
  const errors = badRows.toSorted(([a], [b]) => (a?.line ?? 0) - (b?.line ?? 0)).slice(0, maxReportedBadRows).flat()
  // A column that the dataset does not have is listed once, although each row of an NDJSON file has it.
  const lines = errors.filter((error, index) => !isRepeatedColumn(error, index, errors)).map(formatError)
  const more = badRows.length > maxReportedBadRows ? `\n${moreBadRows}` : ""
  // An export by the service lacks the columns that its endpoint does not return.
  const advice = errors.some(({ column, reason }) => reason === wording.missing && !key.includes(column))
    ? "\nIf existing rows should keep their values in the missing columns, add --append --keep-omitted."
    : ""
  return new InvalidRows({
    table,
    errors,
    message: `${path} was refused and ${table} is unchanged:\n${lines.join("\n")}${more}${advice}`,
  })
}
