/** Writes rows as NDJSON files, one per table, in the format that `load` reads. */
import { Effect, FileSystem, Path, Result, Schema } from "effect"
import { findDataset } from "../../../contract/Datasets.ts"
import type { RowCells } from "../../../contract/Datasets.ts"
import { type InvalidRows, makeRowValidator } from "../../load/RowValidation.ts"
import { DocumentRejected } from "../fetch/DocumentRejected.ts"
import type { SetAside } from "./IngestWork.ts"

/** Rows by the name of their table. */
export type RowsByTable = ReadonlyMap<string, ReadonlyArray<RowCells>>

/** Sets aside a row. The URL is that of the element from which it is made, because other rows of the document load. */
const setRowAside = (table: string, { source, source_links }: RowCells, column: string, reason: string): SetAside => {
  const [url] = [source, source_links].find(Array.isArray) ?? []
  const rejection = new DocumentRejected({ url: String(url ?? ""), reason: `${table}.${column} ${reason}` })
  return { rejection, dataset: table, kind: "rejected" }
}

const decodeRow = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Record(
    Schema.String,
    Schema.NullOr(Schema.Union([Schema.String, Schema.Array(Schema.String)])),
  )),
)

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

  /** Splits rows into valid and invalid ones, so that one invalid row does not make the whole load fail. */
  const validate = (table: string, rows: ReadonlyArray<RowCells>) => {
    if (!validators.has(table)) validators.set(table, makeValidate(table))
    const validateRow = validators.get(table)
    const setAside: Array<SetAside> = []
    const valid = rows.filter((cells) => {
      const result = validateRow?.({ line: 0, cells })
      if (result === undefined || Result.isSuccess(result)) return true
      const [problem] = result.failure
      setAside.push(setRowAside(table, cells, problem?.column ?? "", problem?.reason ?? "is invalid"))
      return false
    })
    return { valid, setAside }
  }

  /** Appends the valid rows to the files. Returns the invalid rows. */
  const append = Effect.fnUntraced(function* (rowsByTable: RowsByTable) {
    const invalid: Array<SetAside> = []
    for (const [table, rows] of rowsByTable) {
      const { setAside, valid } = validate(table, rows)
      invalid.push(...setAside)
      if (valid.length === 0) continue
      const text = valid.map((row) => `${JSON.stringify(row)}\n`).join("")
      yield* fs.writeFileString(getFile(table), text, { flag: "a" })
      counts.set(table, (counts.get(table) ?? 0) + valid.length)
    }
    return invalid
  })

  /** Removes the rows from a file that violate a rule of the table. Returns them. */
  const removeInvalid = Effect.fnUntraced(function* ({ errors, table }: InvalidRows) {
    const lines = (yield* fs.readFileString(getFile(table))).trimEnd().split("\n")
    const reasons = new Map(errors.toReversed().map((error) => [error.line, error]))
    const kept = lines.filter((_, index) => !reasons.has(index + 1))
    counts.set(table, kept.length)
    if (kept.length === 0) counts.delete(table)
    yield* fs.writeFileString(getFile(table), kept.map((line) => `${line}\n`).join(""))
    return lines.flatMap((line, index) => {
      const error = reasons.get(index + 1)
      // The rest of the reason quotes values.
      const reason = error?.reason.split(":")[0] ?? ""
      return error === undefined ? [] : [setRowAside(table, decodeRow(line), error.column, reason)]
    })
  })

  /** Removes the files. */
  const clear = Effect.suspend(() => {
    const tables = [...counts.keys()]
    counts.clear()
    validators.clear()
    return Effect.forEach(tables, (table) => fs.remove(getFile(table)), { discard: true })
  })

  return { append, clear, counts, getFile, removeInvalid }
})
