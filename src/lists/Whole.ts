/** `limit=all`: the whole list as a file, piece by piece: never more of it is in memory than a piece. */
import { Clock, Data, Duration, Effect, Stream } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { createHash } from "node:crypto"
import { Exchange, type Whole } from "../policy/Exchange.ts"
import { contentTypes, digestField, digestOf, fileHeaders } from "../policy/Formats.ts"
import { type Results, writer } from "../policy/Results.ts"
import type { Cursor } from "./Cursors.ts"

/** The list could not be sent to its end, and why; the client sees a body that does not end. */
class CutOff extends Data.TaggedError("CutOff")<{ readonly message: string }> {}

/** However slowly somebody reads; who takes nothing at all is cut off sooner (`Sockets.ts`). */
const longest = Duration.toMillis(Duration.hours(1))

/** About so long is a piece: what it costs to ask for one is little, and so is what it takes of the others' time. */
const pieceLength = 131_072
const [fewest, most] = [1, 5_000]

/** As many rows as make a piece if they are as long as those before; of rows not seen yet not many more. */
const nextCount = (count: number, rows: number, length: number) =>
  Math.max(fewest, Math.min(most, count * 4, Math.floor((pieceLength * rows) / Math.max(1, length))))

/** Where a result has several rows, only reading them tells how many there are. */
const countResults = Effect.fnUntraced(function* (results: Results, cursor: Cursor) {
  const { end, write } = writer(results, "ndjson")
  let rows = 0
  for (let left = cursor.rows; left > 0;) {
    const found = yield* cursor.fetch(1_000)
    rows += write(found).rows
    left -= found.length
    if (found.length === 0) break
  }
  yield* cursor.rewind
  return rows + end().rows
})

/** The pieces of the file one after the other, undefined after the last. */
const pieces = (results: Results, format: "csv" | "ndjson", cursor: Cursor) => {
  const { end, head, write } = writer(results, format)
  let left = cursor.rows
  let count = 100
  let isBegun = false
  return Effect.gen(function* () {
    if (isBegun && left === 0) return undefined
    const found = left === 0 ? [] : yield* cursor.fetch(count)
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

/** An answer that has begun. Whoever is asked for its end is asked once. */
const begin = (expected: number) => {
  const whole: Whole = { expected, most: Infinity, trailers: {}, ended: [] }
  const end = (status: number) => {
    for (const tell of whole.ended.splice(0)) tell(status)
  }
  return { whole, end }
}

export interface Wanted {
  readonly results: Results
  readonly format: "csv" | "ndjson"
}

/** What is said of the file before it begins. */
const headersOf = (format: Wanted["format"], rows: number | undefined, route: string | undefined) => ({
  ...fileHeaders({ format, rows }, route),
  "Cache-Control": "private, no-store",
})

const answer = (body: Stream.Stream<Uint8Array, CutOff>, format: Wanted["format"], headers: Record<string, string>) =>
  HttpServerResponse.stream(body, { contentType: contentTypes[format], headers })

/** HEAD reads nothing. */
export const announced = Effect.fnUntraced(function* ({ format }: Wanted) {
  const { route } = yield* Exchange
  return answer(Stream.empty, format, headersOf(format, undefined, route))
})

/** Ends it for whoever waits for its end, and says in the log why, unless it is the client's own doing. */
export const send = Effect.fnUntraced(function* ({ format, results }: Wanted, cursor: Cursor) {
  const exchange = yield* Exchange
  const began = yield* Clock.currentTimeMillis
  const isGrouped = format === "ndjson" && results.continues !== undefined
  const rows = isGrouped ? yield* Effect.orDie(countResults(results, cursor)) : cursor.rows
  const next = pieces(results, format, cursor)
  const first = yield* Effect.orDie(next)
  const { whole, end } = begin(Math.ceil(((first?.bytes.length ?? 0) * cursor.rows) / Math.max(1, first?.rows ?? 0)))
  exchange.whole = whole
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
  const counted = Effect.fnUntraced(function* (piece: NonNullable<typeof first>) {
    const bytes = (exchange.bytes ?? 0) + piece.bytes.length
    if (bytes > whole.most) return yield* cutOff(402, "the balance does not pay for more of it.")
    if ((yield* Clock.currentTimeMillis) - began > longest) return yield* cutOff(499, "it was read for an hour.")
    exchange.bytes = bytes
    exchange.records += piece.results
    hash.update(piece.bytes)
    return piece.bytes
  })
  const finished = Effect.sync(() => {
    whole.trailers[digestField] = digestOf(hash.digest("base64"))
    end(200)
  })
  const rest = Effect.catch(next, ({ message }) => cutOff(503, message))
  const body = Stream.unfold(
    first,
    (piece) =>
      Effect.flatMap(
        piece === undefined ? rest : Effect.succeed(piece),
        (found) =>
          found === undefined
            ? Effect.as(finished, undefined)
            : Effect.map(counted(found), (bytes) => [bytes, undefined] as const),
      ),
  )

  if (exchange.purpose === "estimate") {
    yield* Effect.orDie(Stream.runDrain(body))
    exchange.total = exchange.records
    return HttpServerResponse.empty({ status: 200 })
  }
  return answer(body, format, headersOf(format, rows, exchange.route))
})

/** Whether it is only asked for, and not wanted itself. */
export const isHead = Effect.map(HttpServerRequest.HttpServerRequest, ({ method }) => method === "HEAD")
