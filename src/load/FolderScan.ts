/** Which files of a folder are named after a table, and so say by themselves where they belong. */
import { Effect, FileSystem, Path, type PlatformError, Schema } from "effect"
import { datasets, findDataset } from "./Datasets.ts"

export class UnclearFolder extends Schema.TaggedError<UnclearFolder>()("UnclearFolder", { message: Schema.String }) {}

const named = /^(.+?)\.(?:csv|ndjson|jsonl)(?:\.gz)?$/

const tableOf = (file: string) => findDataset(named.exec(file)?.[1] ?? "")?.table

/** One file a table, in the order of the datasets; `others` are not named after any. */
export const findDatasetFiles = Effect.fnUntraced(function* (folder: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const unreadable = ({ reason: { _tag } }: PlatformError.PlatformError) =>
    new UnclearFolder({
      message: _tag === "NotFound"
        ? `There is no folder ${folder}.`
        : `${folder} cannot be read: ${_tag === "PermissionDenied" ? "permission denied" : _tag}.`,
    })
  const { type } = yield* Effect.mapError(fs.stat(folder), unreadable)
  if (type !== "Directory") {
    return yield* new UnclearFolder({
      message: `${folder} is a file, and --all takes a folder. To load the file, name its dataset: load news ${folder}`,
    })
  }
  const names = yield* Effect.mapError(fs.readDirectory(folder), unreadable)
  const found = datasets.map(({ table }) => ({ table, files: names.filter((name) => tableOf(name) === table) }))
  const twice = found.find(({ files }) => files.length > 1)
  if (twice !== undefined) {
    return yield* new UnclearFolder({
      message: `${twice.table} has two files in ${folder}: ${twice.files.join(", ")}.`,
    })
  }
  const tasks = found.flatMap(({ files, table }) =>
    files.map((file) => ({ dataset: table, file: path.join(folder, file) }))
  )
  if (tasks.length === 0) {
    return yield* new UnclearFolder({
      message: `No file in ${folder} is named after a table, like ${datasets[0]?.table}.csv. \`datasets\` lists them.`,
    })
  }
  return { tasks, others: names.filter((name) => tableOf(name) === undefined).toSorted() }
})
