/** The state of one request, shared by the steps that process it. `OutermostMiddleware.ts` makes headers from it. */
import { Context, Effect } from "effect"
import type { EndpointAccess } from "../rules/EndpointAnnotations.ts"

/** The reserved part of a prepaid balance, which pays for an export. */
export interface ExportBudget {
  readonly reservation_id: string
  /** Whether the budget covers a body of this size. Reserves more of the balance if necessary, which may fail. */
  readonly covers: (bytes: number) => Effect.Effect<boolean, { readonly error: { readonly message: string } }>
}

/** An export (`limit=all`), streamed from the database. `ResponseBuilder` counts the bytes and records sent so far. */
export interface StreamedExport {
  /** Estimated size, extrapolated from the first chunk. */
  readonly expectedBytes: number
  /** Encodes the export without sending it, and returns its exact size in bytes. */
  readonly measureBytes: Effect.Effect<number>
  /** The stream is aborted if its budget does not cover it. Undefined if the account is postpaid. */
  budget: ExportBudget | undefined
  /** If set, the stream is aborted before its next chunk. Usage records the status. */
  refusal: { readonly status: number; readonly reason: string } | undefined
  readonly trailers: Record<string, string>
  /** Called once at the end of the stream; status 200 means that everything was sent. */
  readonly endListeners: Array<(status: number) => void>
}

/** The amount of a stream that has been sent since its beginning. */
export interface StreamedAmount {
  readonly bytes: number
  readonly records: number
}

/** Records the usage of an endless stream, in installments, so that a crash loses little usage. */
export interface StreamUsageRecorder {
  /** Subtracts what was just sent from the prepaid balance that this process knows. It is recorded later. */
  countSent: (from: StreamedAmount, to: StreamedAmount) => void
  /** Records the amount that was sent between `from` and `to`. `startedAt` is the time of `from` (Unix ms). */
  recordUsage: (
    installment: { readonly startedAt: number; readonly from: StreamedAmount; readonly to: StreamedAmount },
  ) => void
}

/** An entry of `Link`. The path starts with `/`. */
export interface ResponseLink {
  readonly path: string
  readonly attributes: string
}

/** Formats the header `Link`. `base` is the base URL. */
export const formatLinks = (base: string, links: ReadonlyArray<ResponseLink>) =>
  links.map(({ attributes, path }) => `<${base}${path}>; ${attributes}`).join(", ")

/** What the pipeline steps record about a request and its response: the only mutable part of `RequestContext`. */
export interface ResponseBuilder {
  /** Entries of `Link`: next page (D8), successor and documentation (§9.4, lifecycle). */
  readonly links: Array<ResponseLink>
  /** Response headers other than `Link`. */
  readonly headers: Record<string, string>
  /** Number of results in the response. */
  records: number
  /** Number of results on all pages; only an estimate counts them. */
  totalRecords: number | undefined
  /** Whether `totalRecords` is too small, because counting all records would take too long. */
  isTotalPartial: boolean
  /** Size of the uncompressed body, which determines the cost (D27, billing). */
  bytes: number | undefined
  /** Whether the response needed no database query, or is a 304. Operators see it, but clients do not. */
  cached: boolean
  /** Checks whether the data in the response is still current; undefined if it cannot be cached (D17, caching). */
  isCurrent: (() => boolean) | undefined
  /** The declared path of the endpoint, once the request has been routed. */
  route: string | undefined
  account_id: number | undefined
  /** The declared path and required tier of a priced endpoint, once the account has been authorized. */
  endpoint: EndpointAccess | undefined
  /** Further endpoints whose rows are in the response. Only an account that may use them all may get the response. */
  sources: ReadonlyArray<EndpointAccess>
  /** Undefined if the response is not an export. */
  streamedExport: StreamedExport | undefined
  /** Undefined if the response is not an endless stream. */
  endlessStream: StreamUsageRecorder | undefined
  /** Price of the response in microdollars per gigabyte (D27, billing). */
  price: number
  /** Microdollars already subtracted from the prepaid balance that this process knows, until the cost is recorded. */
  heldCost: number
  /** The status that usage records. Undefined: the status of the response. */
  recordedStatus: number | undefined
  /** Whether usage already lists the request: as the one that a tool of `/mcp` sent. */
  isRecorded: boolean
}

/** The immutable facts of a request, and the builder of its response. */
export interface RequestContext {
  /** The `X-Request-Id` header, and `request_id` in errors (D12, request ids). */
  readonly id: string
  /** The path and query as the client sent them, byte for byte. */
  readonly target: string
  /** Time at which the request arrived, ms since 1970. */
  readonly startedAt: number
  /** With `estimate`, the request is run to predict its cost, but is neither counted nor charged (D28, estimates). */
  readonly purpose: "answer" | "estimate"
  /** `mcp` if a tool of `/mcp` sent the request, which has counted it already; null if it arrived over HTTP. */
  readonly via: "mcp" | null
  readonly response: ResponseBuilder
}

const makeResponseBuilder = (): ResponseBuilder => ({
  links: [],
  headers: {},
  records: 0,
  totalRecords: undefined,
  isTotalPartial: false,
  bytes: undefined,
  cached: false,
  isCurrent: undefined,
  route: undefined,
  account_id: undefined,
  endpoint: undefined,
  sources: [],
  streamedExport: undefined,
  endlessStream: undefined,
  price: 0,
  heldCost: 0,
  recordedStatus: undefined,
  isRecorded: false,
})

export const makeRequestContext = (
  request: Pick<RequestContext, "id" | "target"> & Partial<Pick<RequestContext, "startedAt" | "purpose" | "via">>,
): RequestContext => ({ startedAt: 0, purpose: "answer", via: null, ...request, response: makeResponseBuilder() })

/** The context of the current request. Outside a request, it is an unused placeholder. */
export const RequestContext = Context.Reference<RequestContext>("tickerline/http/RequestContext", {
  defaultValue: () => makeRequestContext({ id: "", target: "/" }),
})

export const setResponseHeaders = (headers: Readonly<Record<string, string>>) =>
  Effect.map(RequestContext, (context) => {
    Object.assign(context.response.headers, headers)
  })

/** Adds a link to the `Link` header. */
export const addLinkHeader = (link: ResponseLink) =>
  Effect.map(RequestContext, (context) => {
    context.response.links.push(link)
  })

/** Sets the number of results, which usage and estimates report (D28, D29). */
export const setRecordCount = (records: number) =>
  Effect.map(RequestContext, (context) => {
    context.response.records = records
  })
