/** Validates the rows of a file against the dataset's schema, and reports errors by line and column (D31, load). */
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

/** Maximum number of bad rows that an error message lists. Reading stops at the first bad row beyond it. */
export const maxReportedBadRows = 20

/** An error in one cell of a file, or in a whole row. */
export interface LoadCellError {
  /** The line on which the row starts. The first line of a file is 1. */
  readonly line: number
  /** The column's name. Empty if the error concerns the whole row. */
  readonly column: string
  /** Completes a sentence that begins with the column, such as `must not be empty`. */
  readonly reason: string
}

/** The file has invalid rows, so nothing was loaded. The message lists the first ones, one error per line. */
export class InvalidRows extends Data.TaggedError("InvalidRows")<{
  readonly message: string
  readonly table: string
  /** The errors of the first bad rows. */
  readonly errors: ReadonlyArray<LoadCellError>
}> {}

/** A row whose cells are valid, as far as this can be decided without the other rows. */
export interface ValidRow extends Omit<ParsedFileRow, "problem"> {}

/** The reasons for errors in which columns a row has, and for empty cells. */
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

/** Returns the reason for a cell of the wrong type that is not empty. `wording.wrongType` only fits empty cells. */
const formatWrongType = (cell: RowCells[string], isList: boolean) => {
  if (!Array.isArray(cell)) return invalidListCellReason
  return isList ? "must not contain empty text" : "must be text, not an array"
}

const isSameProblem = (one: CellProblem, other: CellProblem) =>
  one.column === other.column && one.reason === other.reason

type RowFields = LoadableDataset["row"]["fields"]

/** Returns a function that decodes rows by the schema. A nullable column that a row lacks becomes null. */
const makeRowDecoder = (fields: RowFields) => {
  const decode = Schema.decodeUnknownResult(Schema.Struct(fields), { onExcessProperty: "error", errors: "all" })
  const nullCells = Object.fromEntries(
    Object.entries(fields).filter(([, field]) => Schema.is(field)(null)).map(([name]) => [name, null]),
  )
  return (cells: RowCells) => decode({ ...nullCells, ...cells })
}

/** Returns the columns that every row must fill: the ones for which an empty row is refused. */
const findMissingColumns = (decode: ReturnType<typeof makeRowDecoder>): ReadonlyArray<string> =>
  Result.match(decode({}), {
    onSuccess: () => [],
    onFailure: ({ issue }) => formatReasons(issue).map(({ name }) => name),
  })

/** Returns the names of the columns that every row must fill. */
export const findRequiredColumns = ({ fields }: LoadableDataset["row"]) => findMissingColumns(makeRowDecoder(fields))

/**
 * Texts by which programs and people denote an unknown value (D43). They are loaded unchanged, because they may be
 * meant.
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

/** A text in a column that may denote an unknown value, and how many cells have it. */
export interface UnknownTexts {
  readonly column: string
  readonly text: string
  count: number
}

/** What a validator needs to know besides the dataset. */
export interface RowValidatorOptions {
  /**
   * Whether the file may omit columns. The CSV header or the first NDJSON row determines which, and all other rows must
   * have the same columns. Columns of the key and `combinedColumns` are never omitted: if the file lacks them, they are
   * null.
   */
  readonly mayOmitColumns?: boolean
  /**
   * Columns of the table that a file cannot fill, such as generated ones. A file may have them; they are not loaded.
   */
  readonly ignoredColumns?: ReadonlyArray<string>
  /** Columns whose text is stored in an index, and must therefore be short. */
  readonly indexedColumns?: ReadonlyArray<string>
  /** Finds the values of a row that are outside the bounds of their columns. By default, there are no bounds. */
  readonly checkBounds?: BoundsCheck
  /** Cell texts that mean null. */
  readonly nullTexts?: ReadonlySet<string>
}

/**
 * Maximum size of a text in an indexed column, in bytes. PostgreSQL limits an index entry, with all columns, to 2,704.
 */
const maxIndexedBytes = 1_000

/** Returns the columns that API responses show only on request or never, so that exports of the service lack them. */
const findHiddenColumns = ({ model, row }: LoadableDataset) =>
  Object.keys(row.fields).filter((name) => !Object.hasOwn(model.json.fields, name))

/** Returns the columns that only responses have, because the service computes them. The table does not have them. */
const findComputedColumns = ({ computedColumns = [], model, row }: LoadableDataset) =>
  [...Object.keys(model.json.fields), ...computedColumns, "lineage_ticker"].filter((name) =>
    !Object.hasOwn(row.fields, name)
  )

/** Counts the texts in a file that may denote unknown values, by column and text. */
const makeUnknownTextCounter = () => {
  const found = new Map<string, UnknownTexts>()
  return {
    /** Adds a valid row. Only text columns can have such texts, because in all others they are invalid. */
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

/** Notes which columns of a file are ignored, and which of the hidden columns it has. */
const makeColumnNotes = (dataset: LoadableDataset, ignoredColumns: ReadonlyArray<string>) => {
  const ignorable = new Set([...ignoredColumns, ...findComputedColumns(dataset)])
  const ignored = new Set<string>()
  const hiddenColumns = findHiddenColumns(dataset)
  const seenHiddenColumns = new Set<string>()
  return {
    /** Notes the columns of a header or a row. `has` returns whether it has a column. */
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
 * Keeps track of the columns that a file omits, which `mayOmitColumns` allows, and decodes rows without them. The first
 * header or row determines these columns.
 */
const makeOmittedColumns = ({ combinedColumns = [], key, row }: LoadableDataset, mayOmitColumns: boolean) => {
  const neverOmitted = new Set([...key, ...combinedColumns])
  let decode = makeRowDecoder(row.fields)
  let requiredColumns = findMissingColumns(decode)
  let omitted: ReadonlyArray<string> = []
  /** The columns of the first row of an NDJSON file, if every row must have them. */
  let firstRowColumns: ReadonlySet<string> | undefined
  let isUndetermined = mayOmitColumns

  /** Sets the omitted columns of a file that has the columns `names`. Does nothing after the first call. */
  const determine = (names: ReadonlyArray<string>) => {
    if (!isUndetermined) return
    isUndetermined = false
    omitted = Object.keys(row.fields).filter((name) => !names.includes(name) && !neverOmitted.has(name))
    decode = makeRowDecoder(
      Object.fromEntries(Object.entries(row.fields).filter(([name]) => !omitted.includes(name))),
    )
    requiredColumns = findMissingColumns(decode)
  }

  /** Returns a problem for each column that only this row or only the first row has. The first row has none. */
  const compareWithFirstRow = (cells: RowCells): ReadonlyArray<CellProblem> => {
    if (isUndetermined) {
      firstRowColumns = new Set(Object.keys(cells))
      determine(Object.keys(cells))
    }
    if (firstRowColumns === undefined) return []
    // A row may lack the columns that become null if they are missing.
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

/** Trims text at both ends. Text that is then empty, or means null, becomes null (D39, D43). */
const trimCell = (cell: RowCells[string], nullTexts: ReadonlySet<string>): RowCells[string] => {
  if (cell === null || cell === undefined) return cell
  if (typeof cell !== "string") return cell.map((item) => item.trim())
  const text = cell.trim()
  return nullTexts.has(text) ? null : text
}

/** Returns the column of the dataset that the misspelled `name` most likely means, if the file lacks that column. */
const findIntendedColumn = ({ row }: LoadableDataset, name: string, fileColumns: ReadonlyArray<string>) =>
  findNearestName(name, Object.keys(row.fields).filter((column) => !fileColumns.includes(column)))

/**
 * Returns the reason why an unknown column is refused, such as `is not a column of this table; did you mean ticker?`
 */
const formatUnknownColumn = (dataset: LoadableDataset, name: string, fileColumns: ReadonlyArray<string>) =>
  Option.match(findIntendedColumn(dataset, name, fileColumns), {
    onNone: () => wording.unexpected,
    onSome: (column) => `${wording.unexpected}; did you mean ${column}?`,
  })

/** Returns the problems of a header without ignored columns. */
const findHeaderProblems = (
  dataset: LoadableDataset,
  names: ReadonlyArray<string>,
  requiredColumns: ReadonlyArray<string>,
): ReadonlyArray<CellProblem> => {
  const unknown = names.filter((name) => !Object.hasOwn(dataset.row.fields, name))
  // A misspelled column is reported once, as unknown, and not again as missing.
  const misspelled = new Set(unknown.flatMap((name) => Option.toArray(findIntendedColumn(dataset, name, names))))
  const missing = requiredColumns.filter((name) => !names.includes(name) && !misspelled.has(name))
  return [
    ...unknown.map((column) => ({ column, reason: formatUnknownColumn(dataset, column, names) })),
    ...missing.map((column) => ({ column, reason: wording.missing })),
  ]
}

/** Converts a reason of the schema to a problem whose reason quotes the cell. */
const toCellProblem =
  (dataset: LoadableDataset, cells: RowCells) => ({ name, reason }: FieldErrorReason): CellProblem => {
    if (reason === wording.unexpected) {
      return { column: name, reason: formatUnknownColumn(dataset, name, Object.keys(cells)) }
    }
    const cell = Object.hasOwn(cells, name) ? cells[name] : null
    const field = dataset.row.fields[name]
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

const refuseRow = (line: number, problems: ReadonlyArray<CellProblem>) =>
  Result.fail(problems.map((problem): LoadCellError => ({ line, ...problem })))

/**
 * Creates the validator for one file. It keeps track of what the file contains, so the header, if there is one, and
 * then all rows must be passed in order.
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

  /** Trims the cells, and removes the cells of ignored columns. */
  const normalizeCells = (cells: RowCells): RowCells => {
    notes.note((name) => Object.hasOwn(cells, name))
    const loaded = Object.entries(cells).filter(([name]) => !notes.isIgnored(name))
    return Object.fromEntries(loaded.map(([name, cell]) => [name, trimCell(cell, nullTexts)]))
  }

  /**
   * Returns the problems of the values in a decoded row: problems of single cells or, without any, of combinations.
   */
  const findValueProblems = (cells: RowCells): ReadonlyArray<CellProblem> => {
    const inCells = [...findLongTexts(cells, indexedColumns), ...checkBounds(cells)]
    const combination = inCells.length > 0 ? undefined : dataset.validateRow?.(cells) ?? findPriceOutsideRange(cells)
    const problems = combination === undefined ? inCells : [combination]
    return problems.map(({ column, reason }) => ({
      column,
      reason: `${reason}${formatRefusedValue(cells[column])}`,
    }))
  }

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
      // Each element of a list may have the same problem.
      return refuseRow(line, Arr.dedupeWith(problems, isSameProblem))
    }
    const problems = findValueProblems(decoded.success)
    if (problems.length > 0) return refuseRow(line, problems)
    unknownTextCounter.add(decoded.success)
    return Result.succeed({ line, cells: decoded.success })
  }

  return {
    /** Validates a CSV header. */
    checkHeader,
    /** Validates a row, and returns it with trimmed cells and without ignored columns. */
    validateRow,
    /** Available after the header or the first row: the columns that the file omits. Empty without `mayOmitColumns`. */
    getOmitted: omittedColumns.getOmitted,
    /** Available after the last row: the columns of the file that were ignored. */
    getIgnored: notes.getIgnored,
    /** Available after the last row: texts that may denote unknown values. */
    getUnknownTexts: unknownTextCounter.list,
    /** Available after the last row: the columns that responses show only on request or never, and that no row has. */
    getUnseenHiddenColumns: notes.getUnseenHiddenColumns,
  }
}

/** Validates the rows of one file. */
export type RowValidator = ReturnType<typeof makeRowValidator>

/** Whether an earlier error of the list reports the same unknown column, as in each row of an NDJSON file. */
const isRepeatedColumn = ({ column, reason }: LoadCellError, index: number, errors: ReadonlyArray<LoadCellError>) =>
  reason.startsWith(wording.unexpected) &&
  errors.findIndex((error) => error.column === column && error.reason === reason) < index

const moreBadRows = `  … only the first ${maxReportedBadRows} bad rows are shown`

/** Formats an error as a line, such as `  line 3: ticker is missing`. */
const formatError = ({ column, line, reason }: LoadCellError) =>
  `  line ${line}: ${column === "" ? "the row" : column} ${reason}`

/** Formats the first errors of a file, one per line, and says if there are more. */
export const formatLoadCellErrors = (errors: ReadonlyArray<LoadCellError>) =>
  [
    ...errors.slice(0, maxReportedBadRows).map(formatError),
    ...(errors.length > maxReportedBadRows ? [moreBadRows] : []),
  ].join("\n")

/**
 * Creates the error for a refused file, whose message lists the errors of the first bad rows. Each element of `badRows`
 * has the errors of one row. If the file lacks a column that is not in the `key`, the message suggests
 * `--keep-omitted`.
 */
export const makeInvalidRowsError = (
  path: string,
  table: string,
  badRows: ReadonlyArray<ReadonlyArray<LoadCellError>>,
  key: ReadonlyArray<string> = [],
) => {
  const errors = badRows.toSorted(([a], [b]) => (a?.line ?? 0) - (b?.line ?? 0)).slice(0, maxReportedBadRows).flat()
  const lines = errors.filter((error, index) => !isRepeatedColumn(error, index, errors)).map(formatError)
  const more = badRows.length > maxReportedBadRows ? `\n${moreBadRows}` : ""
  // An export of the service lacks the columns that its endpoint does not show.
  const advice = errors.some(({ column, reason }) => reason === wording.missing && !key.includes(column))
    ? "\nIf existing rows should keep their values in the missing columns, add --append --keep-omitted."
    : ""
  return new InvalidRows({
    table,
    errors,
    message: `${path} was refused and ${table} is unchanged:\n${lines.join("\n")}${more}${advice}`,
  })
}
