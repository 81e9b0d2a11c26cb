/** Finds the files in a folder that `load --all` loads, which are those named after a dataset's table. */
import { Data, Effect, FileSystem, Path, type PlatformError } from "effect"
import { describeReadError } from "./FileErrors.ts"
import { findDataset, loadableDatasets } from "../../contract/Datasets.ts"

/** A folder cannot be loaded. The message explains why. */
export class InvalidLoadFolder extends Data.TaggedError("InvalidLoadFolder")<{ readonly message: string }> {}

/** Matches the name of a file that `load` can read. The group is the dataset's name. */
const filePattern = /^(.+?)\.(?:csv|ndjson|jsonl)(?:\.gz|\.zst)?$/i

/** Returns the table that a file is named after, or undefined if there is none. */
const findTable = (file: string) => findDataset(filePattern.exec(file)?.[1] ?? "")?.table

/**
 * Finds the files in a folder that belong to tables. Returns them as `tasks`, in the order of `loadableDatasets`,
 * together with the names of all other files. Fails if several files belong to the same table, or if no file belongs to
 * a table.
 */
export const findDatasetFiles = Effect.fnUntraced(function* (folder: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const toFolderError = (error: PlatformError.PlatformError) =>
    new InvalidLoadFolder({ message: describeReadError(folder, error, "folder") })
  const { type } = yield* Effect.mapError(fs.stat(folder), toFolderError)
  if (type !== "Directory") {
    return yield* new InvalidLoadFolder({
      message: `${folder} is a file, but --all takes a folder. To load the file, name its dataset: load news ${folder}`,
    })
  }
  const names = yield* Effect.mapError(fs.readDirectory(folder), toFolderError)
  const found = loadableDatasets.map(({ table }) => ({
    table,
    files: names.filter((name) => findTable(name) === table),
  }))
  const ambiguous = found.find(({ files }) => files.length > 1)
  if (ambiguous !== undefined) {
    return yield* new InvalidLoadFolder({
      message: `${folder} contains several files for ${ambiguous.table}: ${
        ambiguous.files.join(", ")
      }. Keep one of them.`,
    })
  }
  const tasks = found.flatMap(({ files, table }) =>
    files.map((file) => ({ dataset: table, file: path.join(folder, file) }))
  )
  if (tasks.length === 0) {
    return yield* new InvalidLoadFolder({
      message: `No file in ${folder} is named after a table, such as ${loadableDatasets[0]?.table}.csv. ` +
        "To list the tables, run: tickerline datasets",
    })
  }
  return { tasks, others: names.filter((name) => findTable(name) === undefined).toSorted() }
})
