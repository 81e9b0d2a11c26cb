/**
 * Validates the rows that are built from SEC documents, and keeps the rows of a batch in memory until they are loaded
 * (decision 0105).
 */
import { Effect, FileSystem, Path, Result } from "effect"
import { loadableDatasets, requireDataset, type RowCells } from "../../../contract/Datasets.ts"
import { retryLostConnection } from "../../../postgres/DatabaseReconnection.ts"
import { loadValidatedRows, makeTableValidator } from "../../load/DatasetLoad.ts"
import { acquireTableLoadLocks } from "../../load/LoadingTable.ts"
import type { InvalidRows, LoadCellError, RowValidator } from "../../load/RowValidation.ts"
import { DocumentRejected } from "../fetch/DocumentRejected.ts"
import type { SetAside } from "./IngestWork.ts"

/** New rows, by the name of the table that they belong to. */
export type RowsByTable = ReadonlyMap<string, ReadonlyArray<RowCells>>

/** The tables with rows per document. A document that is read again replaces all its former rows (D38). */
const tablesByDocument = new Set(["historical_float_pro", "ownership"])

/**
 * The valid rows of a table, and the validator that has checked them. All rows must have the same columns as the first
 * row that the validator has checked.
 */
interface CollectedRows {
  readonly validator: RowValidator
  rows: Array<RowCells>
  /** The URLs of the documents that the rows come from, if the table is one of `tablesByDocument`. */
  readonly documents: Set<RowCells[string]>
}

/**
 * Builds the retry queue entry for an invalid row. Its URL points to the element of the document that the row was built
 * from instead of the whole document, because other rows from the document are loaded.
 */
const setRowAside = (table: string, { source, source_links }: RowCells, column: string, reason: string): SetAside => {
  const [url] = [source, source_links].find(Array.isArray) ?? []
  const rejection = new DocumentRejected({ url: String(url ?? ""), reason: `${table}.${column} ${reason}` })
  return { rejection, dataset: table, kind: "rejected" }
}

/**
 * Validates new rows of a table. Returns the valid rows as given, for files (`written`), and converted, for loading
 * (`loaded`), and a retry queue entry for each invalid row.
 */
const validateRows = (table: string, validator: RowValidator, newRows: ReadonlyArray<RowCells>) => {
  const [written, loaded, invalid]: [Array<RowCells>, Array<RowCells>, Array<SetAside>] = [[], [], []]
  for (const cells of newRows) {
    // The rows do not come from a file, so there is no line number for error messages.
    const result = validator.validateRow({ line: 0, cells })
    if (Result.isSuccess(result)) {
      written.push(cells)
      loaded.push(result.success.cells)
    } else {
      const [problem] = result.failure
      invalid.push(setRowAside(table, cells, problem?.column ?? "", problem?.reason ?? "is invalid"))
    }
  }
  return { written, loaded, invalid }
}

/**
 * Separates the rows that violate a rule of their table from the valid ones, based on the errors of a failed load. The
 * line numbers in the errors are row numbers that start at 1. The invalid rows are returned as retry queue entries.
 */
const separateInvalid = (
  table: string,
  rows: ReadonlyArray<RowCells>,
  errors: ReadonlyArray<LoadCellError>,
) => {
  // Reversing the order makes the first error of each row win, because the map keeps the last entry for a key.
  const errorsByLine = new Map(errors.toReversed().map((error) => [error.line, error]))
  return {
    valid: rows.filter((_, index) => !errorsByLine.has(index + 1)),
    invalid: rows.flatMap((cells, index) => {
      const error = errorsByLine.get(index + 1)
      // The text after the colon quotes values, which may be personal data.
      const reason = error?.reason.split(":")[0] ?? ""
      return error === undefined ? [] : [setRowAside(table, cells, error.column, reason)]
    }),
  }
}

/**
 * Removes collected rows of the documents in `read`, because a later visit in the same batch has read these documents
 * again. Their new rows have not been added yet.
 */
const removeFormer = (found: CollectedRows, read: ReadonlySet<RowCells[string]>) => {
  if (!found.documents.isDisjointFrom(read)) {
    found.rows = found.rows.filter(({ document_url }) => !read.has(document_url))
  }
  for (const url of read) found.documents.add(url)
}

/**
 * Creates a collector for the rows built from SEC documents. It keeps the valid rows in memory until they are loaded.
 * If a folder is given, it appends them to NDJSON files instead, one per table, which the command `load` can read.
 */
export const makeRowCollector = Effect.fnUntraced(function* (folder?: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const collected = new Map<string, CollectedRows>()

  /** Returns the collected rows of a table. The first call for a table creates the validator and an empty list. */
  const getOrCreate = Effect.fnUntraced(function* (table: string) {
    const existing = collected.get(table)
    if (existing !== undefined) return existing
    const dataset = yield* requireDataset(table)
    const created: CollectedRows = {
      validator: yield* retryLostConnection(makeTableValidator(dataset, { mayOmitColumns: true })),
      rows: [],
      documents: new Set(),
    }
    collected.set(table, created)
    return created
  })

  /** Adds the valid rows of a table, to memory or to its file, and returns the invalid ones. */
  const addToTable = Effect.fnUntraced(function* (table: string, newRows: ReadonlyArray<RowCells>) {
    const found = yield* getOrCreate(table)
    const { invalid, loaded, written } = validateRows(table, found.validator, newRows)
    if (folder === undefined) {
      if (tablesByDocument.has(table)) removeFormer(found, new Set(loaded.map(({ document_url }) => document_url)))
      // Copy the rows, because V8 may keep a whole document in memory for a substring of it.
      for (const cells of structuredClone(loaded)) found.rows.push(cells)
    } else if (written.length > 0) {
      const lines = written.map((cells) => `${JSON.stringify(cells)}\n`)
      yield* fs.writeFileString(path.join(folder, `${table}.ndjson`), lines.join(""), { flag: "a" })
    }
    return invalid
  })

  return {
    /**
     * Adds the valid rows and returns the invalid ones, so that a single invalid row does not make the whole load fail.
     */
    add: (rowsByTable: RowsByTable) =>
      Effect.map(
        Effect.forEach(
          Array.from(rowsByTable).filter(([, { length }]) => length > 0),
          ([table, rows]) => addToTable(table, rows),
        ),
        (invalid) => invalid.flat(),
      ),
    /** Counts the rows in memory. */
    count: () => Array.from(collected.values()).reduce((sum, { rows }) => sum + rows.length, 0),
    /** Replaces the rows in memory with changed rows. */
    change: (change: (table: string, rows: ReadonlyArray<RowCells>) => ReadonlyArray<RowCells>) => {
      for (const [table, found] of collected) found.rows = Array.from(change(table, found.rows))
    },
    /** Merges the rows in memory into their tables. Returns one result per table that has rows. */
    load: Effect.suspend(() => {
      const loads = loadableDatasets.flatMap((dataset) => {
        const found = collected.get(dataset.table)
        const replacesDocuments = tablesByDocument.has(dataset.table)
        return found === undefined || found.rows.length === 0 ? [] : [{ dataset, ...found, replacesDocuments }]
      })
      return Effect.andThen(
        acquireTableLoadLocks(loads.map(({ dataset }) => dataset.table)),
        Effect.forEach(loads, loadValidatedRows),
      )
    }),
    /** Removes and returns the rows that caused a load to fail. */
    removeInvalid: ({ errors, table }: InvalidRows): ReadonlyArray<SetAside> => {
      const found = collected.get(table)
      if (found === undefined) return []
      const { invalid, valid } = separateInvalid(table, found.rows, errors)
      found.rows = valid
      return invalid
    },
    /** Removes all rows, and the validators, which record the columns of each table's rows. */
    clear: () => collected.clear(),
  }
})
