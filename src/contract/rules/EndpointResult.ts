/**
 * What an endpoint returns, such as a page or an export. `api/ResponseBuilder.ts` turns it into a response by adding
 * headers and the cost.
 */
import { Data, type Effect, Schema, type Stream } from "effect"
import { listContentTypes } from "../rows/ListFormats.ts"
import type { EndpointAccess } from "./EndpointAnnotations.ts"
import { encodeUnpagedResponse, type NextPage } from "./Paging.ts"

type Headers = Readonly<Record<string, string>>

/** The `Cache-Control` value for pages that clients may store but must revalidate before each use. */
export const privateNoCacheDirectives = "private, no-cache"

/**
 * The version of some data, such as a dataset, that a stored response depends on. It is plain data rather than a
 * closure, because a closure would keep everything it captures in memory, including the request.
 */
export interface VersionDependency {
  /** Returns the current version of that data, or undefined if it is unknown. All requests share the same function. */
  readonly getVersion: () => string | undefined
  readonly version: string | undefined
}

/**
 * Returns whether every version is known and is still the one that the response was built from. Only then may the
 * stored response be sent again.
 */
export const areDependenciesUnchanged = (dependencies: ReadonlyArray<VersionDependency>) =>
  dependencies.every(({ getVersion, version }) => version !== undefined && getVersion() === version)

/** A response with a complete body. If the client already has a body with the same `ETag`, a 304 is sent instead. */
export interface Page {
  readonly _tag: "Page"
  readonly body: Uint8Array
  readonly contentType: string
  /** The `Cache-Control` value; undefined if the response must not be stored. */
  readonly cacheControl: string | undefined
  /** The strong `ETag`, computed from the uncompressed body. */
  readonly etag: string | undefined
  /** Headers that describe the data. A 304 also includes them. */
  readonly headers: Headers
  /** Headers that describe the body. A 304 omits them. */
  readonly bodyHeaders: Headers
  /** The number of results, for estimates (D28) and usage (D29). */
  readonly records: number
  /** Undefined on the last page, or if the response is not paginated. */
  readonly nextPage: NextPage | undefined
  /** Whether the response was produced without a database query. Visible to operators only. */
  readonly isCached: boolean
  /** The versions that the page depends on. Undefined if the response must not be stored (D17, caching). */
  readonly dependencies: ReadonlyArray<VersionDependency> | undefined
  /**
   * Other endpoints whose rows appear on the page. The stored response may be sent only to accounts with access to all
   * of them.
   */
  readonly sources: ReadonlyArray<EndpointAccess>
  /** The number of results on all pages together. Only set for estimates. */
  readonly total: Total | undefined
}

/** The number of results of a list that was counted for an estimate, and whether the count is complete. */
export interface Total {
  readonly records: number
  /** Whether counting was stopped because it took too long, in which case `records` is too low. */
  readonly isPartial: boolean
}

/** An export (`limit=all`), which is streamed from the database. */
export interface ExportResult {
  readonly _tag: "Export"
  readonly contentType: string
  readonly headers: Headers
  /** The estimated size in bytes, extrapolated from the first chunk of the body. */
  readonly expectedBytes: number
  /** Encodes the export without sending it and returns the exact size in bytes. */
  readonly measureBytes: Effect.Effect<number>
  /** Builds the response body. The observer can abort it before any chunk and is notified when it ends. */
  readonly makeBody: (observer: ExportObserver) => Stream.Stream<Uint8Array, BodyAborted>
}

/**
 * Reports that the body ended early. The failure has already been logged and recorded. The connection is closed so that
 * the client notices that the body is incomplete.
 */
export class BodyAborted extends Data.TaggedError("BodyAborted")<{ readonly message: string }> {}

/** Tells the export stream to stop: the account may not receive the rest of the export. */
export interface ExportRefusal {
  /** The HTTP status that the account's usage shows for the aborted export. */
  readonly status: number
  readonly reason: string
}

/** Observes an export as it is sent, so that it can be charged and, if necessary, aborted. */
export interface ExportObserver {
  /** Called before each chunk is sent, with the body size up to and including the chunk. */
  readonly checkChunk: (bytes: number) => Effect.Effect<ExportRefusal | undefined>
  /** Called exactly once, no matter how the stream ends. Status 200 means that the whole body was sent. */
  readonly onEnd: (status: number, sent: StreamedAmount, digest: string | undefined) => void
}

/** How much of a stream has been sent so far. */
export interface StreamedAmount {
  readonly bytes: number
  readonly records: number
}

/** Records the usage of an endless stream at intervals while it is open, so that a crash loses only the last one. */
export interface StreamUsageRecorder {
  /**
   * Deducts what was sent between `from` and `to` from the prepaid balance that this process keeps in memory.
   * `recordUsage` writes the same amount to the database later.
   */
  readonly countSent: (from: StreamedAmount, to: StreamedAmount) => void
  /**
   * Writes a usage record for what was sent between `from` and `to`. `startedAt` is the time at which `from` was
   * reached, in milliseconds since 1970.
   */
  readonly recordUsage: (
    installment: { readonly startedAt: number; readonly from: StreamedAmount; readonly to: StreamedAmount },
  ) => void
}

/** An endless stream of events, which records its own usage. */
export interface EventStreamResult {
  readonly _tag: "EventStream"
  readonly contentType: string
  readonly headers: Headers
  readonly body: Stream.Stream<Uint8Array>
}

/** The size of an export, measured for an estimate. */
export interface ExportMeasurement {
  readonly _tag: "ExportMeasurement"
  readonly bytes: number
  readonly records: number
}

/** A response that is sent unchanged, such as a redirect, a 404 documentation page, or an MCP response. */
export interface PlainResponse {
  readonly _tag: "Plain"
  readonly status: number
  readonly headers: Headers
  readonly contentType: string | undefined
  readonly body: Uint8Array | Stream.Stream<Uint8Array, unknown> | undefined
}

/** Any of the results that an endpoint can return. */
export type EndpointResult = Page | ExportResult | EventStreamResult | ExportMeasurement | PlainResponse

/** A complete response, ready to be sent. */
export interface FinishedResponse {
  readonly status: number
  /** Headers, keyed by lower-case name. */
  readonly headers: Headers
  readonly body: Uint8Array | Stream.Stream<Uint8Array, unknown> | undefined
  /** HTTP trailers. They are complete once the entire body has been sent. */
  readonly trailers: Headers | undefined
  /** Whether the body has no time limit while the client continues to read it. */
  readonly isEndless: boolean
  readonly records: number
  /** The size of the uncompressed body, which determines the cost (D27). */
  readonly bytes: number
  /** The cost in microdollars. */
  readonly cost: number
  /** The price per gigabyte, in microdollars. */
  readonly price: number
  /** The number of results on all pages. Only set for estimates. */
  readonly total: Total | undefined
  /** Whether the response was produced without a database query. Visible to operators only. */
  readonly isCached: boolean
}

/** Either a response or, if the response is not available yet, an effect that returns it. */
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

/** Creates a page. By default, the page has no extra headers and must not be stored. */
export const makePage = (page: Pick<Page, "body" | "contentType" | "records"> & Partial<Page>): Page => ({
  ...plainPage,
  ...page,
})

/** Returns a function that encodes a single object, such as an account, as a page. */
export const makeObjectEncoder = <Value>(schema: Schema.Codec<Value, unknown>) => {
  const encode = Schema.encodeSync(Schema.toCodecJson(schema))
  return (value: Value, records = 1) =>
    makePage({ ...encodeUnpagedResponse(encode(value), records), contentType: listContentTypes.json })
}
