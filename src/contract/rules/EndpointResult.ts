/** What an endpoint returns: a page, an export or another result. `api/Finish.ts` adds the headers and the cost. */
import { Data, type Effect, Schema, type Stream } from "effect"
import { listContentTypes } from "../rows/ListFormats.ts"
import type { EndpointAccess } from "./EndpointAnnotations.ts"
import { encodeUnpagedResponse, type NextPage } from "./Paging.ts"

type Headers = Readonly<Record<string, string>>

/** The `Cache-Control` of a page that clients may store, but must revalidate before each use. */
export const noCache = "private, no-cache"

/**
 * A version that a stored response depends on. This is data rather than a closure, because a closure would keep
 * everything that it captures in memory, such as the request.
 */
export interface VersionDependency {
  /** Returns the current version, or undefined while it is unknown. One function serves all requests. */
  readonly getVersion: () => string | undefined
  readonly version: string | undefined
}

/** Whether all versions are known and have not changed since the response was stored. */
export const areUnchanged = (dependencies: ReadonlyArray<VersionDependency>) =>
  dependencies.every(({ getVersion, version }) => version !== undefined && getVersion() === version)

/** A complete body. If the client already has a body with the same `ETag`, it becomes a 304. */
export interface Page {
  readonly _tag: "Page"
  readonly body: Uint8Array
  readonly contentType: string
  /** `Cache-Control`; undefined if nothing may store the response. */
  readonly cacheControl: string | undefined
  /** The strong `ETag` of the uncompressed body. */
  readonly etag: string | undefined
  /** Headers that describe the data. A 304 has them too. */
  readonly headers: Headers
  /** Headers that describe the body. A 304 does not have them. */
  readonly bodyHeaders: Headers
  /** Number of results, for estimates (D28) and usage (D29). */
  readonly records: number
  /** Undefined on the last page, and if the response has no pages. */
  readonly nextPage: NextPage | undefined
  /** Whether no database query was needed. Operators see it, but clients do not. */
  readonly isCached: boolean
  /** The versions on which the page depends; undefined if the response must not be stored (D17, caching). */
  readonly dependencies: ReadonlyArray<VersionDependency> | undefined
  /**
   * Other endpoints whose rows are on the page. Only an account that may use all of them may get the stored response.
   */
  readonly sources: ReadonlyArray<EndpointAccess>
  /** For an estimate: the number of results on all pages. */
  readonly total: Total | undefined
}

/** The number of results on all pages of a list. */
export interface Total {
  readonly records: number
  /** Whether there are more, because counting them all would take too long. */
  readonly isPartial: boolean
}

/** An export (`limit=all`), streamed from the database. */
export interface ExportResult {
  readonly _tag: "Export"
  readonly contentType: string
  readonly headers: Headers
  /** Estimated size in bytes, extrapolated from the first chunk. */
  readonly expectedBytes: number
  /** Encodes the export without sending it, and returns its exact size in bytes. */
  readonly measureBytes: Effect.Effect<number>
  /** Builds the body. The observer may stop it before any chunk, and is told how it ended. */
  readonly makeBody: (observer: ExportObserver) => Stream.Stream<Uint8Array, BodyAborted>
}

/**
 * The body ended early. This has already been logged and recorded; the connection closes, so that the client notices
 * that the body is incomplete.
 */
export class BodyAborted extends Data.TaggedError("BodyAborted")<{ readonly message: string }> {}

/** A reason to end an export before its last byte. */
export interface ExportRefusal {
  /** The status that usage records. */
  readonly status: number
  readonly reason: string
}

/** Watches an export while it is sent, so that it can be charged and, if necessary, stopped. */
export interface ExportObserver {
  /** Called before each chunk, with the size of the body including that chunk. */
  readonly checkChunk: (bytes: number) => Effect.Effect<ExportRefusal | undefined>
  /** Called once, however the stream ends; status 200 means that everything was sent. */
  readonly onEnd: (status: number, sent: StreamedAmount, digest: string | undefined) => void
}

/** How much of a stream has been sent since its beginning. */
export interface StreamedAmount {
  readonly bytes: number
  readonly records: number
}

/** Records the usage of an endless stream in installments, so that a crash loses little of it. */
export interface StreamUsageRecorder {
  /** Subtracts what was just sent from the prepaid balance that this process knows. It is recorded later. */
  readonly countSent: (from: StreamedAmount, to: StreamedAmount) => void
  /** Records the amount that was sent between `from` and `to`. `startedAt` is the time of `from` (Unix ms). */
  readonly recordUsage: (
    installment: { readonly startedAt: number; readonly from: StreamedAmount; readonly to: StreamedAmount },
  ) => void
}

/** An endless stream of events. The stream itself records its usage. */
export interface EventStreamResult {
  readonly _tag: "EventStream"
  readonly contentType: string
  readonly headers: Headers
  readonly body: Stream.Stream<Uint8Array>
}

/** The size of an export, for an estimate. */
export interface Measurement {
  readonly _tag: "Measurement"
  readonly bytes: number
  readonly records: number
}

/**
 * A response that is sent unchanged, such as a redirect, a documentation page that does not exist, or an MCP response.
 */
export interface PlainResponse {
  readonly _tag: "Plain"
  readonly status: number
  readonly headers: Headers
  readonly contentType: string | undefined
  readonly body: Uint8Array | Stream.Stream<Uint8Array, unknown> | undefined
}

/** What an endpoint returns. */
export type EndpointResult = Page | ExportResult | EventStreamResult | Measurement | PlainResponse

/** A response, ready to be sent. */
export interface FinishedResponse {
  readonly status: number
  /** By lower-case name. */
  readonly headers: Headers
  readonly body: Uint8Array | Stream.Stream<Uint8Array, unknown> | undefined
  /** The trailers. They are complete once the body has ended. */
  readonly trailers: Headers | undefined
  /** Whether the body may take any time, as long as the client reads it. */
  readonly isEndless: boolean
  readonly records: number
  /** Size of the uncompressed body, which determines the cost (D27). */
  readonly bytes: number
  /** Microdollars. */
  readonly cost: number
  /** Microdollars per gigabyte. */
  readonly price: number
  /** For an estimate: the number of results on all pages. */
  readonly total: Total | undefined
  /** Whether no database query was needed. Operators see it, but clients do not. */
  readonly isCached: boolean
}

/** A response, or the effect that returns it if the response is not available immediately. */
export type EventualResponse = FinishedResponse | Effect.Effect<FinishedResponse>

const plainPage = {
  _tag: "Page",
  cacheControl: undefined,
  etag: undefined,
  headers: {},
  bodyHeaders: {},
  nextPage: undefined,
  isCached: false,
  dependencies: undefined,
  sources: [],
  total: undefined,
} as const

/** Creates a page. Unless `page` says otherwise, it has no further headers and nothing may store it. */
export const makePage = (page: Pick<Page, "body" | "contentType" | "records"> & Partial<Page>): Page => ({
  ...plainPage,
  ...page,
})

/** Returns a function that encodes a single object, such as the account, as a page. */
export const makeObjectEncoder = <Value>(schema: Schema.Codec<Value, unknown>) => {
  const encode = Schema.encodeSync(Schema.toCodecJson(schema))
  return (value: Value, records = 1) =>
    makePage({ ...encodeUnpagedResponse(encode(value), records), contentType: listContentTypes.json })
}
