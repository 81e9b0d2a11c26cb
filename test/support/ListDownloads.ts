/** Downloads lists as CSV or NDJSON, including trailers, and parses them. */
import { Data, Effect, Stream } from "effect"
import { Csv } from "effect/encoding"
import { createHash } from "node:crypto"
import { type IncomingMessage, request } from "node:http"
import { decompressBody } from "./ServiceInstances.ts"

/** A downloaded response. */
export interface Download {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly trailers: Readonly<Record<string, string>>
  /** The body, decompressed if it was received completely. */
  readonly bytes: Buffer
  readonly text: string
  /** Whether the body was received completely. */
  readonly isComplete: boolean
}

const toHeaderRecord = (headers: IncomingMessage["headers"]) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))

const startRequest = (port: number, path: string, key: string, headers: Readonly<Record<string, string>>) =>
  request({ port, path, host: "127.0.0.1", agent: false, headers: { Authorization: `Bearer ${key}`, ...headers } })

/**
 * Downloads the response to a GET request with the API key `key`. If the connection breaks after the headers, returns
 * the bytes that were received until then, still compressed, with `isComplete` false. Fails if there is no response.
 */
export const download = (port: number, path: string, key: string, headers: Readonly<Record<string, string>> = {}) =>
  Effect.callback<Download, Error>((resume) => {
    const outgoing = startRequest(port, path, key, headers)
    outgoing.on("error", (error) => resume(Effect.fail(error)))
    outgoing.on("response", (response) => {
      const chunks: Array<Buffer> = []
      response.on("data", (chunk: Buffer) => chunks.push(chunk))
      // A broken connection also causes "close", which handles it. Without this listener, Node would throw the error.
      response.on("error", () => {})
      response.on("close", () => {
        const isComplete = response.complete
        const encoding = isComplete ? response.headers["content-encoding"] : undefined
        const bytes = decompressBody(encoding, Buffer.concat(chunks))
        resume(Effect.succeed({
          status: response.statusCode ?? 0,
          headers: toHeaderRecord(response.headers),
          trailers: toHeaderRecord(response.trailers),
          bytes,
          text: bytes.toString("utf8"),
          isComplete,
        }))
      })
    })
    outgoing.end()
    return Effect.sync(() => outgoing.destroy())
  })

/** Starts a download and pauses it after the headers. The download is aborted when the scope closes. */
export const startPausedDownload = (port: number, path: string, key: string) =>
  Effect.acquireRelease(
    Effect.callback<IncomingMessage, Error>((resume) => {
      const outgoing = startRequest(port, path, key, {})
      outgoing.on("error", (error) => resume(Effect.fail(error)))
      outgoing.on("response", (response) => {
        response.on("error", () => {})
        resume(Effect.succeed(response.pause()))
      })
      outgoing.end()
    }),
    (response) => Effect.sync(() => response.destroy()),
  )

/** Reads the rest of a download. Returns whether the complete body was received. */
export const finishDownload = (response: IncomingMessage) =>
  Effect.callback<boolean>((resume) => {
    response.on("close", () => resume(Effect.succeed(response.complete)))
    response.resume()
  })

/** Returns the `Content-Digest` header value for a body. */
export const formatContentDigest = (bytes: Uint8Array) =>
  `sha-256=:${createHash("sha256").update(bytes).digest("base64")}:`

class MissingByteOrderMark extends Data.TaggedError("MissingByteOrderMark")<{ readonly text: string }> {}

/** Parses CSV with a library that the service does not use itself. */
export const parseCsv = Effect.fnUntraced(function* (text: string) {
  if (!text.startsWith("\uFEFF")) return yield* new MissingByteOrderMark({ text: text.slice(0, 20) })
  const records = yield* Stream.runCollect(Stream.pipeThroughChannel(Stream.make(text.slice(1)), Csv.decodeString()))
  return { header: records[0] ?? [], records: records.slice(1) }
})

/** Splits text into lines, without the empty string after the final line break. */
export const splitLines = (text: string): ReadonlyArray<string> =>
  text === "" ? [] : text.replace(/\n$/, "").split("\n")
