/** What is learnt of a request while it is served, by whom it concerns; `Edge.ts` prints what goes into headers. */
import { Context, Effect } from "effect"
import type { Tier } from "../rules/EndpointAnnotations.ts"

/** A whole list, which is sent while it is read; `records` and `bytes` of its exchange tell how much of it was. */
export interface StreamedExport {
  /** How long all of it will probably be, in bytes, by its beginning. */
  readonly expected: number
  /** How long all of it is, in bytes; reads all of it, as an estimate does. */
  readonly measured: Effect.Effect<number>
  /** So much of it may be sent at most. */
  maxBytes: number
  /** What is said at its end. */
  readonly trailers: Record<string, string>
  /** Who wants to know of its end; 200: all of it was sent. */
  readonly endListeners: Array<(status: number) => void>
}

export interface RequestContext {
  /** `X-Request-Id` of the answer and `request_id` of an error (D12). */
  readonly id: string
  /** The request's path and query, as sent. */
  readonly target: string
  /** When it began, in milliseconds since 1970. */
  readonly began: number
  /** An `estimate` goes the way of the request whose cost it is to tell, and charges nothing (D28). */
  readonly purpose: "answer" | "estimate"
  /** `Link` header: next page (D8), successor and documentation of what is deprecated (§9.4); paths from the root. */
  readonly links: Array<{ readonly path: string; readonly attributes: string }>
  /** Any other header. */
  readonly headers: Record<string, string>
  /** How many results the answer has. */
  records: number
  /** How many there are on all pages; looked up for an estimate only. */
  totalRecords: number | undefined
  /** How long its body is before any compression, where that is known beforehand; what is charged (D27). */
  bytes: number | undefined
  /** It was answered without the database, or not again (304). */
  cached: boolean
  /** Whether what was answered would be answered again; none where that is not known of an answer (D17). */
  isCurrent: (() => boolean) | undefined
  /** The path of the endpoint, as declared; none where there is none, or it is not reached yet. */
  route: string | undefined
  /** Whose request it is, once that is known. */
  account_id: number | undefined
  /** What had to be met to be answered. */
  endpoint: { readonly path: string; readonly required_tier: Tier } | undefined
  /** What is sent is no finished answer. */
  streamedExport: StreamedExport | undefined
  /** Microdollars a gigabyte (D27); 0 until it is known that the answer has a price. */
  price: number
}

export const makeRequestContext = (
  request: Pick<RequestContext, "id" | "target"> & Partial<Pick<RequestContext, "began" | "purpose">>,
): RequestContext => ({
  began: 0,
  purpose: "answer",
  ...request,
  links: [],
  headers: {},
  records: 0,
  totalRecords: undefined,
  bytes: undefined,
  cached: false,
  isCurrent: undefined,
  route: undefined,
  account_id: undefined,
  endpoint: undefined,
  streamedExport: undefined,
  price: 0,
})

/** The exchange being served; outside a request nobody listens. */
export const RequestContext = Context.Reference<RequestContext>("tickerline/policy/Exchange", {
  defaultValue: () => makeRequestContext({ id: "", target: "/" }),
})

export const setResponseHeaders = (headers: Readonly<Record<string, string>>) =>
  Effect.map(RequestContext, (exchange) => {
    Object.assign(exchange.headers, headers)
  })

export const addLinkHeader = (path: string, attributes: string) =>
  Effect.map(RequestContext, (exchange) => {
    exchange.links.push({ path, attributes })
  })

/** How many results the answer has: what usage and estimates tell (D28, D29). */
export const setRecordCount = (records: number) =>
  Effect.map(RequestContext, (exchange) => {
    exchange.records = records
  })
