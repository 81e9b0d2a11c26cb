/** Exports (`limit=all`): streams a complete list as a file, one chunk at a time, so that memory use stays constant. */
import { Cause, Data, Effect, Exit, Scope, Stream } from "effect"
import type { SqlError } from "effect/sql"
import { createHash, hash as computeHash } from "node:crypto"
import type { AdmittedRequest } from "../EndpointHandler.ts"
import { toApiError } from "../../postgres/ReadTimeoutsAndRetries.ts"
import { type ExportFormat, listContentTypes, makeListFileHeaders } from "../../contract/rows/ListFormats.ts"
import { type FileChunk, makeResultCounter, type ResultEncoder } from "../rows/ResultWriter.ts"
import {
  BodyAborted,
  type ExportMeasurement,
  type ExportObserver,
  type ExportResult,
} from "../../contract/rules/EndpointResult.ts"
import { redactApiKeys } from "../../contract/rules/ApiErrors.ts"
import { logDefectAsInternalError } from "../../contract/rules/QueryValidation.ts"
import type { ExportCursor } from "./ExportCursors.ts"
import { makeExportWriter } from "./ExportWriter.ts"

class CursorEndedEarly extends Data.TaggedError("CursorEndedEarly")<{ readonly message: string }> {}

/**
 * The target size of a chunk. It is large enough to keep the overhead per row small, and small enough that encoding a
 * chunk does not delay other requests.
 */
const targetChunkBytes = 131_072
const [firstChunkRows, maxChunkRows] = [10, 5_000]

/**
 * Estimates how many rows the next chunk needs to reach the target size. Returns at most four times the number of rows
 * in the last chunk.
 */
const computeChunkRows = (requested: number, rows: number, bytes: number) =>
  Math.max(1, Math.min(maxChunkRows, requested * 4, Math.floor((targetChunkBytes * rows) / Math.max(1, bytes))))

/**
 * Counts the results of a list whose results are groups of rows. Reads all rows, then moves the cursor back to the
 * start.
 */
const countResults = Effect.fnUntraced(function* (results: ResultEncoder, cursor: ExportCursor) {
  const countNext = makeResultCounter(results)
  let count = 0
  for (let remaining = cursor.rows; remaining > 0;) {
    const rows = yield* cursor.fetch(1_000)
    count += countNext(rows)
    remaining -= rows.length
    if (rows.length === 0) break
  }
  yield* cursor.seek(0)
  return count
})

/** What to export and how. */
export interface ExportOptions {
  readonly results: ResultEncoder
  readonly format: ExportFormat
  /** The version of the tables when the export started, or shortly before. Undefined if it is not available. */
  readonly version: string | undefined
  /** Response headers that depend on the data and the request. The keys are in lower case. */
  readonly headers: Readonly<Record<string, string>>
}

/**
 * Returns the metadata for a Parquet file: the endpoint, the query, the number of rows, and the version of the data.
 */
const describeExport = (
  { version }: ExportOptions,
  cursor: ExportCursor,
  { past, request, route }: AdmittedRequest,
) => {
  // Only the first `?` begins the query string. Any further one is part of a value.
  const [, ...search] = request.target.split("?")
  // `explain` has no effect here, because it applies only to empty lists (D40).
  const query = search.join("?").split("&").filter((parameter) => !parameter.startsWith("explain=")).join("&")
  return {
    "tickerline.endpoint": route,
    "tickerline.query": redactApiKeys(query),
    "tickerline.row_count": String(cursor.rows),
    // Past data does not depend on the current version of the tables.
    ...(version === undefined || past !== undefined
      ? {}
      : { "tickerline.dataset_version": computeHash("sha256", version, "base64url") }),
  }
}

/**
 * The number of rows fetched and their size in the file. For Parquet, `bytes` is the size of the database records
 * instead.
 */
interface FetchedRows {
  readonly rows: number
  readonly bytes: number
}

interface CountedChunk extends FileChunk {
  /** The rows that had been fetched when this chunk was complete. */
  readonly fetched: FetchedRows
}

/**
 * Creates an effect that reads the next non-empty chunk of the exported file each time it runs. It returns undefined
 * after the last one. It fails if the cursor ends before its last row, because the client must not mistake a truncated
 * file for a complete one.
 *
 * `cursor.rows` is the number of rows of the whole list, and `cursor.fetch` returns the next of them. `writeRows`
 * encodes fetched rows. It is told whether they are the last ones, and returns one or more chunks.
 */
const makeChunkReader = (options: ExportOptions, cursor: ExportCursor, request: AdmittedRequest) => {
  const { format, results } = options
  // The reader's state. `fetched` is the number and size of the rows fetched so far, and `previous` is the same before
  // the last fetch. `chunkRows` is the number of rows to fetch next. It depends on the size of the rows fetched since
  // `previous`. `chunks` iterates over the encoded chunks of the most recently fetched rows.
  const writeRows = makeExportWriter(results, format, describeExport(options, cursor, request))
  let fetched: FetchedRows = { rows: 0, bytes: 0 }
  let previous = fetched
  let chunkRows = firstChunkRows
  let chunks: Iterator<FileChunk> | undefined

  /**
   * Adds to the size of the fetched rows. This is their encoded size or, for Parquet, the size of the database records:
   * a Parquet file is encoded in row groups, so the encoded size of single rows is not known.
   */
  const addBytes = (bytes: number) => {
    fetched = { ...fetched, bytes: fetched.bytes + bytes }
  }

  const fetchRows = Effect.suspend(() => {
    const { bytes, rows: fetchedRows } = fetched
    if (fetchedRows > 0) chunkRows = computeChunkRows(chunkRows, fetchedRows - previous.rows, bytes - previous.bytes)
    previous = fetched
    const remaining = cursor.rows - fetchedRows
    // Parquet's row groups depend on how the rows are split into fetches. An export must have the same row groups as
    // the estimate of its size, so Parquet does not read ahead.
    const readsAhead = format !== "parquet"
    return Effect.flatMap(remaining === 0 ? Exit.succeed([]) : cursor.fetch(chunkRows, readsAhead), (rows) => {
      if (rows.length === 0 && remaining > 0) {
        return Exit.fail(new CursorEndedEarly({ message: "The cursor ended before its last row." }))
      }
      fetched = { bytes, rows: fetchedRows + rows.length }
      if (format === "parquet") addBytes(rows.reduce((sum, { view }) => sum + view.byteLength, 0))
      return Exit.succeed(writeRows(rows, rows.length === remaining)[Symbol.iterator]())
    })
  })

  const readNext: Effect.Effect<CountedChunk | undefined, CursorEndedEarly | SqlError.SqlError> = Effect.suspend(() => {
    const next = chunks?.next()
    if (next === undefined || next.done === true) {
      // `next` is undefined before the first fetch. An empty list needs one fetch too, for the header of the file.
      if (next !== undefined && fetched.rows === cursor.rows) return Exit.succeed(undefined)
      return Effect.flatMap(fetchRows, (read) => {
        chunks = read
        return readChunk
      })
    }
    const { bytes, results } = next.value
    if (format !== "parquet") addBytes(bytes.length)
    return bytes.length > 0 ? Exit.succeed({ bytes, results, fetched }) : readChunk
  })
  // Encoding one column of a row group takes milliseconds, so this yields to other requests before each column.
  const readChunk = format === "parquet" ? Effect.andThen(Effect.yieldNow, readNext) : readNext
  return readChunk
}

/** Encodes the complete export without sending it, to determine the exact size and number of results (D27, D28). */
const measure = Effect.fnUntraced(function* (options: ExportOptions, cursor: ExportCursor, request: AdmittedRequest) {
  yield* cursor.seek(0)
  const readChunk = makeChunkReader(options, cursor, request)
  const total = { bytes: 0, results: 0 }
  for (let chunk = yield* readChunk; chunk !== undefined; chunk = yield* readChunk) {
    total.bytes += chunk.bytes.length
    total.results += chunk.results
  }
  return total
})

/** Converts database errors to API errors. An error response is possible only before the export begins. */
const failWithApiError = <A, R>(read: Effect.Effect<A, SqlError.SqlError | CursorEndedEarly, R>) =>
  Effect.catch(read, (error) => error._tag === "CursorEndedEarly" ? Effect.die(error) : toApiError(error))

/** Splits a chunk that exceeds the target size, so that the socket can apply backpressure between the pieces. */
const splitChunk = ({ bytes, results }: FileChunk): ReadonlyArray<FileChunk> =>
  Array.from({ length: Math.ceil(bytes.length / targetChunkBytes) }, (_, index) => {
    const end = (index + 1) * targetChunkBytes
    return { bytes: bytes.subarray(index * targetChunkBytes, end), results: end < bytes.length ? 0 : results }
  })

const makeHeaders = ({ format, headers }: ExportOptions, rows: number, route: string) => ({
  ...headers,
  ...makeListFileHeaders({ format, rows }, route),
  "cache-control": "private, no-store",
})

/** Creates the response for an export after reading the first chunk. For an estimate, only measures the export. */
export const makeExport = Effect.fnUntraced(function* (
  options: ExportOptions,
  cursor: ExportCursor,
  request: AdmittedRequest,
) {
  const { format, results } = options
  if (request.request.purpose === "estimate") {
    const { bytes, results } = yield* failWithApiError(measure(options, cursor, request))
    const measurement: ExportMeasurement = { _tag: "ExportMeasurement", bytes, records: results }
    return measurement
  }
  // In NDJSON, several consecutive rows can form one result, on one line. In the other formats, each row is a result.
  const isGrouped = format === "ndjson" && results.isSameResult !== undefined
  const rowCount = isGrouped ? yield* failWithApiError(countResults(results, cursor)) : cursor.rows
  const readChunk = makeChunkReader(options, cursor, request)
  const firstChunk = yield* failWithApiError(readChunk)
  const fetched = firstChunk?.fetched ?? { rows: 0, bytes: 0 }

  const result: ExportResult = {
    _tag: "Export",
    contentType: listContentTypes[format],
    headers: makeHeaders(options, rowCount, request.route),
    // Extrapolated from the rows in the first chunk.
    expectedBytes: Math.max(
      firstChunk?.bytes.length ?? 0,
      Math.ceil((fetched.bytes * cursor.rows) / Math.max(1, fetched.rows)),
    ),
    // Measuring moves the cursor, so this moves it back to the row after the first chunk.
    measureBytes: Effect.orDie(Effect.andThen(
      measure(options, cursor, request),
      ({ bytes }) => Effect.as(cursor.seek(fetched.rows), bytes),
    )),
    makeBody: (observer) => makeBody(observer, { firstChunk, readChunk, request, cursor }),
  }
  return result
})

interface BodyOptions {
  readonly firstChunk: CountedChunk | undefined
  readonly readChunk: ReturnType<typeof makeChunkReader>
  readonly request: AdmittedRequest
  readonly cursor: ExportCursor
}

/**
 * Counts what has been sent of an export's body, and calls `onEnd` once when the body has ended: with the status, with
 * the bytes and results sent, and, if the body is complete, with its SHA-256 digest. A body can end in several ways at
 * nearly the same time, for example when the client disconnects during an abort. Only the first one counts.
 */
const makeSentCounter = (onEnd: ExportObserver["onEnd"]) => {
  const hash = createHash("sha256")
  let sent = { bytes: 0, records: 0 }
  let hasEnded = false
  const end = (status: number, digest?: string) => {
    if (hasEnded) return
    hasEnded = true
    onEnd(status, sent, digest)
  }
  return {
    end,
    /** Records that the body was sent completely, and passes on its digest for the trailer. */
    complete: () => end(200, hash.digest("base64")),
    /** Returns how many bytes will have been sent after this chunk. */
    getBytesAfter: ({ bytes }: FileChunk) => sent.bytes + bytes.length,
    add: ({ bytes, results }: FileChunk) => {
      sent = { bytes: sent.bytes + bytes.length, records: sent.records + results }
      hash.update(bytes)
    },
  }
}

/**
 * Streams the body. Chunks are split into pieces of at most `targetChunkBytes`. Before each piece is sent, the observer
 * may refuse it because the balance is used up or the API key has been revoked. `onEnd` is called once, with an HTTP
 * status for how the body ended: 200 if it was sent completely, 408 if the client was too slow, 499 if the client
 * disconnected, 500 or 503 for failures, or the status of the observer's refusal.
 */
const makeBody = (
  { checkChunk, onEnd }: ExportObserver,
  { cursor, firstChunk, readChunk, request }: BodyOptions,
): Stream.Stream<Uint8Array, BodyAborted> => {
  const sent = makeSentCounter(onEnd)
  const recordAbort = (status: number, message: string) =>
    Effect.suspend(() => {
      sent.end(status)
      return Effect.annotateLogs(
        Effect.logWarning(`An export was aborted: ${message}`),
        "request_id",
        request.request.id,
      )
    })
  const abort = (status: number, message: string) =>
    Effect.andThen(recordAbort(status, message), Effect.fail(new BodyAborted({ message })))
  // A client that is too slow has not taken the last chunk, so the body cannot end by itself. The connection is closed
  // instead.
  const client = cursor.watchClient(
    request.scope(),
    (reason) => Effect.andThen(recordAbort(408, reason), Effect.sync(() => request.request.client.disconnect())),
  )
  const readNextChunk = Effect.catch(
    Effect.andThen(Effect.sync(client.requestChunk), readChunk),
    ({ message }) => abort(503, message),
  ).pipe(
    Effect.catchDefect((defect) =>
      Effect.andThen(logDefectAsInternalError(defect, request.request.id), abort(500, "an unexpected failure."))
    ),
  )
  // The first chunk was read before the response began. `undefined` means that the next chunk must be read.
  const chunks = Stream.unfold(
    firstChunk,
    (first) =>
      Effect.flatMap(
        first === undefined ? readNextChunk : Effect.succeed(first),
        (chunk) =>
          chunk === undefined
            ? Effect.as(Effect.sync(sent.complete), undefined)
            : Effect.succeed([splitChunk(chunk), undefined] as const),
      ),
  )
  const sendPiece = (piece: FileChunk) => {
    client.requestChunk()
    return Effect.flatMap(checkChunk(sent.getBytesAfter(piece)), (refusal) => {
      if (refusal !== undefined) return abort(refusal.status, refusal.reason)
      sent.add(piece)
      client.giveChunk(piece.bytes.length)
      return Exit.succeed(piece.bytes)
    })
  }
  // Records a body that stops before its end: as 499 if the client closed the connection, or as 500 if the body could
  // not be compressed.
  const endWith = (exit: Exit.Exit<unknown, unknown>) =>
    sent.end(Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? 499 : 500)
  Effect.runSync(Scope.addFinalizerExit(request.scope(), (exit) => Effect.sync(() => endWith(exit))))
  return Stream.mapEffect(Stream.flatMap(chunks, Stream.fromIterable), sendPiece)
}
