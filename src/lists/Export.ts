/** `limit=all`: the whole list as a file, piece by piece: never more of it is in memory than a piece. */
import { Clock, Data, Duration, Effect, Stream } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { createHash } from "node:crypto"
import { RequestContext, type StreamedExport } from "../http/RequestContext.ts"
import { contentTypes, digestHeaderName, formatDigest, makeFileHeaders } from "../rows/Formats.ts"
import { makeFileWriter, type ResultEncoder } from "../rows/ResultWriter.ts"
import type { ExportCursor } from "./ExportCursors.ts"

/** The list could not be sent to its end, and why; the client sees a body that does not end. */
class CutOff extends Data.TaggedError("CutOff")<{ readonly message: string }> {}

/** However slowly somebody reads; who takes nothing at all is cut off sooner (`Sockets.ts`). */
const longest = Duration.toMillis(Duration.hours(1))

/** About so long is a piece: what it costs to ask for one is little, and so is what it takes of the others' time. */
const pieceLength = 131_072
const [fewest, most] = [10, 5_000]

/** As many rows as make a piece if they are as long as those before; of rows not seen yet not many more. */
const nextCount = (count: number, rows: number, length: number) =>
  Math.max(1, Math.min(most, count * 4, Math.floor((pieceLength * rows) / Math.max(1, length))))

/** Where a result has several rows, only reading them tells how many there are. */
const countResults = Effect.fnUntraced(function* (results: ResultEncoder, cursor: ExportCursor) {
  const { end, write } = makeFileWriter(results, "ndjson")
  let rows = 0
  for (let left = cursor.rows; left > 0;) {
    const found = yield* cursor.take(1_000)
    rows += write(found).rows
    left -= found.length
    if (found.length === 0) break
  }
  yield* cursor.seek(0)
  return rows + end().rows
})

interface Piece {
  readonly bytes: Uint8Array
  /** How many results end in it. */
  readonly results: number
}

/** The pieces of the file one after the other, undefined after the last. */
const pieces = (results: ResultEncoder, format: "csv" | "ndjson", cursor: ExportCursor) => {
  const { end, header: head, write } = makeFileWriter(results, format)
  let left = cursor.rows
  let count = fewest
  let isBegun = false
  return Effect.gen(function* () {
    if (isBegun && left === 0) return undefined
    const found = left === 0 ? [] : yield* cursor.take(count)
    if (found.length === 0 && left > 0) return yield* new CutOff({ message: "The cursor ended before its last row." })
    left -= found.length
    const written = write(found)
    const last = left === 0 ? end() : { text: "", results: 0, rows: 0 }
    const bytes = Buffer.from((isBegun ? "" : head) + written.text + last.text)
    isBegun = true
    count = nextCount(count, found.length, bytes.length)
    return { bytes, results: written.results + last.results, rows: found.length }
  })
}

/** The exact length of the file and how many results it has, found by printing all of it: for prices (D27, D28). */
const measure = Effect.fnUntraced(function* (results: ResultEncoder, format: "csv" | "ndjson", cursor: ExportCursor) {
  yield* cursor.seek(0)
  const next = pieces(results, format, cursor)
  const measured = { bytes: 0, results: 0 }
  for (let piece = yield* next; piece !== undefined; piece = yield* next) {
    measured.bytes += piece.bytes.length
    measured.results += piece.results
  }
  return measured
}, Effect.orDie)

/** A row may be long: so much is handed on at once that the socket tells how fast it is taken. */
const slicesOf = ({ bytes, results }: Piece): ReadonlyArray<Piece> =>
  Array.from({ length: Math.ceil(bytes.length / pieceLength) }, (_, at) => {
    const end = (at + 1) * pieceLength
    return { bytes: bytes.subarray(at * pieceLength, end), results: end < bytes.length ? 0 : results }
  })

/** An answer that has begun. Whoever is asked for its end is asked once. */
const begin = (about: Pick<StreamedExport, "expected" | "measured">) => {
  const whole: StreamedExport = { ...about, maxBytes: Infinity, trailers: {}, endListeners: [] }
  const end = (status: number) => {
    for (const tell of whole.endListeners.splice(0)) tell(status)
  }
  return { whole, end }
}

export interface ExportOptions {
  readonly results: ResultEncoder
  readonly format: "csv" | "ndjson"
}

/** What is said of the file before it begins. */
const headersOf = (format: ExportOptions["format"], rows: number | undefined, route: string | undefined) => ({
  ...makeFileHeaders({ format, rows }, route),
  "Cache-Control": "private, no-store",
})

const answer = (
  body: Stream.Stream<Uint8Array, CutOff>,
  format: ExportOptions["format"],
  headers: Record<string, string>,
) => HttpServerResponse.stream(body, { contentType: contentTypes[format], headers })

/** HEAD reads nothing. */
export const respondToHead = Effect.fnUntraced(function* ({ format }: ExportOptions) {
  const { route } = yield* RequestContext
  return answer(Stream.empty, format, headersOf(format, undefined, route))
})

/** Ends it for whoever waits for its end, and says in the log why, unless it is the client's own doing. */
export const sendExport = Effect.fnUntraced(function* ({ format, results }: ExportOptions, cursor: ExportCursor) {
  const exchange = yield* RequestContext
  if (exchange.purpose === "estimate") {
    const measured = yield* measure(results, format, cursor)
    exchange.bytes = measured.bytes
    exchange.records = measured.results
    exchange.totalRecords = measured.results
    return HttpServerResponse.empty({ status: 200 })
  }
  const began = yield* Clock.currentTimeMillis
  const isGrouped = format === "ndjson" && results.isSameResult !== undefined
  const rows = isGrouped ? yield* Effect.orDie(countResults(results, cursor)) : cursor.rows
  const next = pieces(results, format, cursor)
  const first = yield* Effect.orDie(next)
  const taken = first?.rows ?? 0
  const { whole, end } = begin({
    expected: Math.ceil(((first?.bytes.length ?? 0) * cursor.rows) / Math.max(1, taken)),
    measured: Effect.andThen(
      measure(results, format, cursor),
      ({ bytes }) => Effect.as(Effect.orDie(cursor.seek(taken)), bytes),
    ),
  })
  exchange.streamedExport = whole
  exchange.bytes = 0
  yield* Effect.addFinalizer(() => Effect.sync(() => end(499)))

  const hash = createHash("sha256")
  const cutOff = (status: number, message: string) =>
    Effect.suspend(() => {
      end(status)
      return Effect.andThen(
        Effect.annotateLogs(Effect.logWarning(`A whole list was cut off: ${message}`), "request_id", exchange.id),
        Effect.fail(new CutOff({ message })),
      )
    })
  const counted = Effect.fnUntraced(function* (piece: Piece) {
    const bytes = (exchange.bytes ?? 0) + piece.bytes.length
    if (bytes > whole.maxBytes) return yield* cutOff(402, "the balance does not pay for more of it.")
    if ((yield* Clock.currentTimeMillis) - began > longest) return yield* cutOff(499, "it was read for an hour.")
    exchange.bytes = bytes
    exchange.records += piece.results
    hash.update(piece.bytes)
    return piece.bytes
  })
  const finished = Effect.sync(() => {
    whole.trailers[digestHeaderName] = formatDigest(hash.digest("base64"))
    end(200)
  })
  const rest = Effect.catch(next, ({ message }) => cutOff(503, message))
  const all = Stream.unfold(
    first,
    (piece) =>
      Effect.flatMap(
        piece === undefined ? rest : Effect.succeed(piece),
        (found) =>
          found === undefined ? Effect.as(finished, undefined) : Effect.succeed([slicesOf(found), undefined] as const),
      ),
  )
  const body = Stream.mapEffect(Stream.flatMap(all, Stream.fromIterable), counted)

  return answer(body, format, headersOf(format, rows, exchange.route))
})

/** Whether it is only asked for, and not wanted itself. */
export const isHeadRequest = Effect.map(HttpServerRequest.HttpServerRequest, ({ method }) => method === "HEAD")
