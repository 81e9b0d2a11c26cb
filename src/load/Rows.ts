/** D31: a CSV or NDJSON file, `.gz` too, as a stream of rows of cells. Nothing of it is kept but the row at hand. */
import * as NodeStream from "@effect/platform-node/NodeStream"
import { Effect, FileSystem, Schema, Stream } from "effect"
import { createGunzip } from "node:zlib"
import { Progress } from "../terminal/Progress.ts"
import { csv } from "./Csv.ts"
import { ndjson } from "./Ndjson.ts"
import type { Row, WrongHeader } from "./Row.ts"

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

const bytes = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const progress = yield* Progress
  // As it lies on the disk, so that the size of a compressed file is known too; a pipe has none.
  const size = yield* Effect.orElseSucceed(Effect.map(fs.stat(path), (info) => Number(info.size)), () => 0)
  Object.assign(progress, { done: 0, total: size > 0 ? size : undefined })
  const stream = Stream.mapError(fs.stream(path), ({ reason }) =>
    new UnreadableFile({
      message: reason._tag === "NotFound"
        ? `There is no file ${path}.`
        : `${path} cannot be read; is it a file, and not a folder?`,
    })).pipe(Stream.tap((piece) =>
      Effect.sync(() => {
        progress.done += piece.length
      })
    ))
  const plain = path.endsWith(".gz")
    ? NodeStream.pipeThroughDuplex(stream, {
      evaluate: () => createGunzip(),
      onError: () => new UnreadableFile({ message: `${path} is not a whole gzip file.` }),
    })
    : stream
  return utf8(path)(plain)
}, Stream.unwrap)

/** The rows of a file; `lists` are the columns that hold arrays. A CSV file's header is checked before its rows. */
export const read = (
  path: string,
  lists: ReadonlySet<string>,
  wrongHeader: WrongHeader = () => [],
): Stream.Stream<Row, UnreadableFile, FileSystem.FileSystem> => {
  const kind = path.replace(/\.gz$/, "")
  if (kind.endsWith(".csv")) {
    return Stream.mapError(
      csv(bytes(path), lists, wrongHeader),
      (error) => error._tag === "CsvError" ? new UnreadableFile({ message: `${path}: ${error.message}.` }) : error,
    )
  }
  if (kind.endsWith(".ndjson") || kind.endsWith(".jsonl")) return ndjson(bytes(path))
  return Stream.fail(new UnreadableFile({ message: `${path}: a file is .csv, .ndjson or .jsonl, and may end in .gz.` }))
}
