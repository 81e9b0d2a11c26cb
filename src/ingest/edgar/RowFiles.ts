/** Writes rows as NDJSON files, one per table, in the format that `load` reads. */
import { Effect, FileSystem, Path, Result } from "effect"
import { findDataset } from "../../load/Datasets.ts"
import type { RowCells } from "../../load/FileReader.ts"
import { makeRowValidator } from "../../load/RowValidation.ts"
import { DocumentRejected } from "./DocumentRejected.ts"

/** Rows by the name of their table. */
export type RowsByTable = ReadonlyMap<string, ReadonlyArray<RowCells>>

/** Returns the URL, without the fragment, of the document that a row comes from. */
const getSource = ({ source, source_links }: RowCells) => {
  const [link] = [source, source_links].find(Array.isArray) ?? []
  return String(link ?? "").split("#")[0] ?? ""
}

/** Returns a function that validates rows as `load` does: the first row determines which columns the file has. */
const makeValidate = (table: string) => {
  const dataset = findDataset(table)
  return dataset === undefined ? undefined : makeRowValidator(dataset, { mayOmitColumns: true }).validateRow
}

export const makeIngestRowFileWriter = Effect.fnUntraced(function* (folder: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const validators = new Map<string, ReturnType<typeof makeValidate>>()
  /** Number of rows in each file. */
  const counts = new Map<string, number>()

  const getFile = (table: string) => path.join(folder, `${table}.ndjson`)

  /** Splits rows into valid ones and rejections, so that one invalid row does not make the whole load fail. */
  const validate = (table: string, rows: ReadonlyArray<RowCells>) => {
    if (!validators.has(table)) validators.set(table, makeValidate(table))
    const validateRow = validators.get(table)
    const rejections: Array<DocumentRejected> = []
    const valid = rows.filter((cells) => {
      const result = validateRow?.({ line: 0, cells })
      if (result === undefined || Result.isSuccess(result)) return true
      const [problem] = result.failure
      rejections.push(
        new DocumentRejected({ url: getSource(cells), reason: `${table}.${problem?.column} ${problem?.reason}` }),
      )
      return false
    })
    return { valid, rejections }
  }

  /** Appends the valid rows to the files. Returns the rejections of the invalid rows. */
  const append = Effect.fnUntraced(function* (rowsByTable: RowsByTable) {
    const rejected: Array<DocumentRejected> = []
    for (const [table, rows] of rowsByTable) {
      const { rejections, valid } = validate(table, rows)
      rejected.push(...rejections)
      if (valid.length === 0) continue
      const text = valid.map((row) => `${JSON.stringify(row)}\n`).join("")
      yield* fs.writeFileString(getFile(table), text, { flag: "a" })
      counts.set(table, (counts.get(table) ?? 0) + valid.length)
    }
    return rejected
  })

  /** Removes the files. */
  const clear = Effect.suspend(() => {
    const tables = [...counts.keys()]
    counts.clear()
    validators.clear()
    return Effect.forEach(tables, (table) => fs.remove(getFile(table)), { discard: true })
  })

  return { append, clear, counts, getFile }
})
