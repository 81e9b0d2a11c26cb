/** D31: a CSV or NDJSON file, `.gz` too, as a stream of rows of cells. Nothing of it is kept but the row at hand. */
import * as NodeStream from "@effect/platform-node/NodeStream"
import { Effect, FileSystem, Path, type PlatformError, Schema, Stream } from "effect"
import { createGunzip } from "node:zlib"
import { Progress } from "../observability/Progress.ts"
import { detectSeparator, readCsv } from "./CsvReader.ts"
import { readNdjson } from "./NdjsonReader.ts"
import type { CheckHeader, ParsedRow } from "./ParsedRow.ts"

export class UnreadableFile
  extends Schema.TaggedError<UnreadableFile>()("UnreadableFile", { message: Schema.String }) {}

/** Anything else would be loaded with characters replaced. */
const utf8 = (path: string) => <R>(source: Stream.Stream<Uint8Array, UnreadableFile, R>) =>
  Stream.suspend(() => {
    const decoder = new TextDecoder("utf-8", { fatal: true })
    const check = (piece?: Uint8Array) =>
      Effect.try({
        try: () => decoder.decode(piece, { stream: piece !== undefined }),
        catch: () => new UnreadableFile({ message: `${path} is not UTF-8.` }),
      })
    return Stream.concat(Stream.tap(source, check), Stream.drain(Stream.fromEffect(Effect.suspend(() => check()))))
  })

const reasons: Readonly<Record<string, string>> = { PermissionDenied: "permission denied" }

const unreadable = (path: string, absolute = path) => ({ reason: { _tag } }: PlatformError.PlatformError) =>
  new UnreadableFile({
    message: _tag === "NotFound"
      ? `There is no file ${path}${absolute === path ? "" : ` (${absolute})`}.`
      : `${path} cannot be read: ${reasons[_tag] ?? _tag}.`,
  })

/** The size on the disk, so that it is known for a compressed file, too; a pipe has none. */
const sizeOf = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const absolute = (yield* Path.Path).resolve(path)
  const info = yield* Effect.mapError(fs.stat(path), unreadable(path, absolute))
  if (info.type !== "Directory") return Number(info.size)
  return yield* new UnreadableFile({
    message: `${path} is a folder, and load takes a file. To load every file of the folder: load --all ${path}`,
  })
})

/** A CSV file with other separators would look like one with a single column. */
const withCommas = (path: string) => <R>(source: Stream.Stream<Uint8Array, UnreadableFile, R>) =>
  Stream.onFirst(source, (piece) => {
    const [first = ""] = new TextDecoder().decode(piece).replace(/^\uFEFF/, "").trimStart().split("\n", 1)
    const separator = detectSeparator(first)
    return separator === undefined ? Effect.void : Effect.fail(
      new UnreadableFile({
        message: `${path} is separated by ${separator}; load takes CSV with commas and decimal points. ` +
          "Export the file again with commas, or as NDJSON.",
      }),
    )
  })

const bytes = Effect.fnUntraced(function* (path: string, size: number) {
  const fs = yield* FileSystem.FileSystem
  const progress = yield* Progress
  Object.assign(progress, { done: 0, total: size > 0 ? size : undefined })
  const stream = Stream.mapError(fs.stream(path), unreadable(path)).pipe(
    Stream.tap((piece) =>
      Effect.sync(() => {
        progress.done += piece.length
      })
    ),
  )
  const plain = path.endsWith(".gz")
    ? NodeStream.pipeThroughDuplex(stream, {
      evaluate: () => createGunzip(),
      onError: () => new UnreadableFile({ message: `${path} is not a whole gzip file.` }),
    })
    : stream
  return utf8(path)(plain)
}, Stream.unwrap)

/** The rows of a file; `lists` are the columns that hold arrays. A CSV file's header is checked before its rows. */
export const readRows = (
  path: string,
  lists: ReadonlySet<string>,
  wrongHeader: CheckHeader = () => [],
): Stream.Stream<ParsedRow, UnreadableFile, FileSystem.FileSystem | Path.Path> => {
  const rows = (size: number) => {
    const kind = path.replace(/\.gz$/, "")
    if (kind.endsWith(".csv")) {
      return Stream.mapError(
        readCsv(withCommas(path)(bytes(path, size)), lists, wrongHeader),
        (error) => error._tag === "CsvError" ? new UnreadableFile({ message: `${path}: ${error.message}.` }) : error,
      )
    }
    if (kind.endsWith(".ndjson") || kind.endsWith(".jsonl")) return readNdjson(bytes(path, size))
    return Stream.fail(
      new UnreadableFile({
        message: `${path}: load takes files that end in .csv, .ndjson or .jsonl, or in one of these and .gz.`,
      }),
    )
  }
  return Stream.unwrap(Effect.map(sizeOf(path), rows))
}
