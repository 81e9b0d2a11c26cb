/** Validates the rows of visits, and holds those of a batch in memory until they are loaded (decision 0105). */
import { Effect, FileSystem, Path, Result } from "effect"
import { loadableDatasets, requireDataset, type RowCells } from "../../../contract/Datasets.ts"
import { retryLostConnection } from "../../../postgres/DatabaseReconnection.ts"
import { loadValidatedRows, makeTableValidator } from "../../load/Load.ts"
import { acquireTableLoadLocks } from "../../load/LoadingTable.ts"
import type { InvalidRows, RowValidator } from "../../load/RowValidation.ts"
import { DocumentRejected } from "../fetch/DocumentRejected.ts"
import type { SetAside } from "./IngestWork.ts"

/** Rows by the name of their table. */
export type RowsByTable = ReadonlyMap<string, ReadonlyArray<RowCells>>

/** The valid rows of a table. The first row that was validated determines which columns all of them have. */
interface CollectedRows {
  readonly validator: RowValidator
  rows: Array<RowCells>
}

/** Sets aside a row. The URL is that of the element from which it is made, because other rows of the document load. */
const setRowAside = (table: string, { source, source_links }: RowCells, column: string, reason: string): SetAside => {
  const [url] = [source, source_links].find(Array.isArray) ?? []
  const rejection = new DocumentRejected({ url: String(url ?? ""), reason: `${table}.${column} ${reason}` })
  return { rejection, dataset: table, kind: "rejected" }
}

/** With a folder, valid rows are written there as NDJSON files instead, one per table, in the format of `load`. */
export const makeRowCollector = Effect.fnUntraced(function* (folder?: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const collected = new Map<string, CollectedRows>()

  const open = Effect.fnUntraced(function* (table: string) {
    const known = collected.get(table)
    if (known !== undefined) return known
    const dataset = yield* requireDataset(table)
    const opened: CollectedRows = {
      validator: yield* retryLostConnection(makeTableValidator(dataset, { mayOmitColumns: true })),
      rows: [],
    }
    collected.set(table, opened)
    return opened
  })

  const addToTable = Effect.fnUntraced(function* (table: string, given: ReadonlyArray<RowCells>) {
    const { rows, validator } = yield* open(table)
    const [valid, written, invalid]: [Array<RowCells>, Array<string>, Array<SetAside>] = [[], [], []]
    for (const cells of given) {
      const result = validator.validateRow({ line: 0, cells })
      if (Result.isFailure(result)) {
        const [problem] = result.failure
        invalid.push(setRowAside(table, cells, problem?.column ?? "", problem?.reason ?? "is invalid"))
      } else if (folder === undefined) valid.push(result.success.cells)
      else written.push(`${JSON.stringify(cells)}\n`)
    }
    // A copy, because text that was cut out of a document may keep the whole document in memory.
    for (const cells of structuredClone(valid)) rows.push(cells)
    if (folder !== undefined && written.length > 0) {
      yield* fs.writeFileString(path.join(folder, `${table}.ndjson`), written.join(""), { flag: "a" })
    }
    return invalid
  })

  return {
    /** Adds the valid rows. Returns the others, so that one invalid row does not make the whole load fail. */
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
    /** Merges the rows in memory into their tables. Returns the result of each table. */
    load: Effect.suspend(() => {
      const loads = loadableDatasets.flatMap((dataset) => {
        const found = collected.get(dataset.table)
        return found === undefined || found.rows.length === 0 ? [] : [{ dataset, ...found }]
      })
      return Effect.andThen(
        acquireTableLoadLocks(loads.map(({ dataset }) => dataset.table)),
        Effect.forEach(loads, loadValidatedRows),
      )
    }),
    /** Removes the rows that violate a rule of the table. Returns them. */
    removeInvalid: ({ errors, table }: InvalidRows): ReadonlyArray<SetAside> => {
      const found = collected.get(table)
      if (found === undefined) return []
      const { rows } = found
      const reasons = new Map(errors.toReversed().map((error) => [error.line, error]))
      found.rows = rows.filter((_, index) => !reasons.has(index + 1))
      return rows.flatMap((cells, index) => {
        const error = reasons.get(index + 1)
        // The rest of the reason quotes values.
        const reason = error?.reason.split(":")[0] ?? ""
        return error === undefined ? [] : [setRowAside(table, cells, error.column, reason)]
      })
    },
    /** Forgets the rows, and the columns that each table had. */
    clear: () => collected.clear(),
  }
})
