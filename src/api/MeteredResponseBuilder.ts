/**
 * Builds the response for a result. Records each response once, in usage (D29) and in the metrics, just before it is
 * sent.
 */
import { Effect, Stream } from "effect"
import { makeCreditCheck } from "../accounts/RequestAdmission.ts"
import type { BilledExport } from "../accounts/billing/ExportBilling.ts"
import { computeDataCost } from "../accounts/billing/Pricing.ts"
import type {
  EndpointResult,
  EventStreamResult,
  ExportResult,
  FinishedResponse,
} from "../contract/rules/EndpointResult.ts"
import { formatDigestHeader } from "../contract/rows/ListFormats.ts"
import { encodeError, type ErrorResult } from "./ErrorResponses.ts"
import { costHeader, makeResponseBuilder } from "./ResponseBuilder.ts"
import { makeUsageRecorder, type RecordOptions } from "./UsageRecorder.ts"
import type { RequestInProgress } from "./RequestInProgress.ts"
import { type CachedResponse, finishCachedResponse } from "./ResponseCache.ts"
import { makeEmptyResponse } from "./UnroutedResponses.ts"

/** The result of a request's steps, and the information needed to charge and record it. */
export interface BilledResult {
  readonly result: EndpointResult | ErrorResult | CachedResponse
  /** The billing state of the export. Set only if the result is an export. */
  readonly billed?: BilledExport
  readonly recording?: RecordOptions
}

/** Builds the functions that finish and record responses. Called once, at startup. */
export const makeMeteredResponseBuilder = Effect.gen(function* () {
  const findCreditError = yield* makeCreditCheck
  const { finishPage, finishPlain } = yield* makeResponseBuilder
  const { record, recordMetrics } = yield* makeUsageRecorder

  /** Builds the response for a result. It is recorded later, by `recordFinished` or at the end of the body. */
  const finish = (progress: RequestInProgress, { result, billed }: BilledResult): FinishedResponse => {
    switch (result._tag) {
      case "Page":
        return finishPage(progress, result)
      case "Cached":
        return finishCachedResponse(progress, result)
      case "Error":
        return finishError(progress, result)
      case "Plain":
        return finishPlain(progress, result)
      case "ExportMeasurement": {
        const { bytes, records } = result
        const response = finishPlain(progress, makeEmptyResponse(200, {}))
        return { ...response, bytes, records, total: { records, isPartial: false } }
      }
      case "Export":
        if (progress.request.method === "HEAD") return finishExportHead(progress, result)
        if (billed === undefined) throw new Error("An export began without an account to bill")
        return beginExport(progress, result, billed)
      case "EventStream":
        return finishEventStream(progress, result)
    }
  }

  /**
   * Records a response that is about to be sent. If other requests have spent the account's balance since the request
   * was admitted, records nothing and returns the error to send instead. Exports are recorded when their body ends, and
   * event streams once a minute while they are sent. `isPriced` says whether the endpoint has a price.
   */
  const recordFinished = (
    progress: RequestInProgress,
    { result, recording }: BilledResult,
    response: FinishedResponse,
    isPriced: boolean,
  ) => {
    const { account, request } = progress
    switch (result._tag) {
      case "EventStream":
        // The number of bytes is not known when the stream begins.
        return recordMetrics(progress, { ...response, bytes: undefined })
      case "Export":
        return request.method === "HEAD" ? record(progress, response) : undefined
      case "Page": {
        const isCharged = isPriced && response.status === 200 && request.purpose === "response" &&
          request.method !== "HEAD"
        const unpaid = isCharged && account !== undefined ? findCreditError(account) : undefined
        if (unpaid !== undefined) return unpaid
        // A page that can be paid for is recorded like all other results, below.
      }
    }
    return record(progress, response, recording)
  }

  const finishError = (progress: RequestInProgress, { error, headers }: ErrorResult) => {
    const { body, status } = encodeError(error, progress.request.id)
    return finishPlain(progress, { status, headers, body, contentType: "application/json" })
  }

  /**
   * Builds the response whose body is an export. The export's size and cost are known only when the body ends. The
   * export is then recorded, and its digest and cost are sent as trailers.
   */
  const beginExport = (
    progress: RequestInProgress,
    { contentType, headers, makeBody }: ExportResult,
    { checkChunk, reservation_id }: BilledExport,
  ) => {
    // Filled when the body ends, before the trailers are sent.
    const trailers: Record<string, string> = {}
    const body = makeBody({
      checkChunk,
      // `status` is only recorded, because the response has begun with 200. An export that ends with a 5xx is free.
      onEnd: (status, { bytes, records }, digest) => {
        const cost = status < 500 ? computeDataCost(bytes, progress.price) : 0
        if (digest !== undefined) trailers["unencoded-digest"] = formatDigestHeader(digest)
        trailers[costHeader] = String(cost)
        record(progress, { status, bytes, records, cost, isCached: false }, { reservation_id })
      },
    })
    const stream = { trailers: canHaveTrailers(progress) ? trailers : undefined, isEndless: false }
    return finishPlain(progress, { status: 200, headers, body, contentType }, stream)
  }

  /**
   * Builds the response to a HEAD request for an export. It has the same headers as the export. It is free, because no
   * body is sent.
   */
  const finishExportHead = (progress: RequestInProgress, { contentType, headers }: ExportResult) => {
    const stream = { trailers: canHaveTrailers(progress) ? {} : undefined, isEndless: false }
    // With an empty stream, compression adds the same headers as for the export. The stream itself is never sent.
    return finishPlain(progress, { status: 200, headers, body: Stream.empty, contentType }, stream)
  }

  const finishEventStream = (progress: RequestInProgress, { body, contentType, headers }: EventStreamResult) =>
    finishPlain(progress, { status: 200, headers, body, contentType }, { trailers: undefined, isEndless: true })

  return { finish, recordFinished }
})

/** Returns whether the response can have trailers. Trailers require a chunked body, which HTTP/1.0 does not support. */
const canHaveTrailers = ({ request }: RequestInProgress) => request.httpVersion !== "1.0"
