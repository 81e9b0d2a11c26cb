/** Makes the response of an answer, and records it once, in usage (D29) and in the metrics, just before it is sent. */
import { Effect, Stream } from "effect"
import { makeCreditCheck } from "../accounts/Admission.ts"
import type { BilledExport } from "../accounts/billing/ExportBilling.ts"
import { computeDataCost } from "../accounts/billing/Pricing.ts"
import type { Answer, EventStreamAnswer, ExportAnswer, FinishedResponse } from "../contract/rules/Answer.ts"
import { formatDigestHeader } from "../contract/rows/ListFormats.ts"
import { encodeError, type ErrorAnswer } from "./ErrorResponses.ts"
import { costHeader, makeFinish } from "./Finish.ts"
import { makeRecorder, type RecordOptions } from "./Record.ts"
import type { RequestInProgress } from "./RequestInProgress.ts"
import { type CachedResponse, finishCached } from "./ResponseCache.ts"
import { makeEmptyAnswer } from "./UnroutedResponses.ts"

/** What answers a request, and what its record needs. */
export interface BilledAnswer {
  readonly answer: Answer | ErrorAnswer | CachedResponse
  /** Set for an export. */
  readonly billed?: BilledExport
  readonly recording?: RecordOptions
}

export const makeFinishAndRecord = Effect.gen(function* () {
  const findCreditError = yield* makeCreditCheck
  const { finishPage, finishPlain } = yield* makeFinish
  const { record, recordMetrics } = yield* makeRecorder

  const finish = (progress: RequestInProgress, { answer, billed }: BilledAnswer): FinishedResponse => {
    switch (answer._tag) {
      case "Page":
        return finishPage(progress, answer)
      case "Cached":
        return finishCached(progress, answer)
      case "Error":
        return finishError(progress, answer)
      case "Plain":
        return finishPlain(progress, answer)
      case "Measurement": {
        const { bytes, records } = answer
        const response = finishPlain(progress, makeEmptyAnswer(200, {}))
        return { ...response, bytes, records, total: { records, isPartial: false } }
      }
      case "Export":
        if (progress.request.method === "HEAD") return finishExportHead(progress, answer)
        if (billed === undefined) throw new Error("An export began without an account to bill")
        return beginExport(progress, answer, billed)
      case "EventStream":
        return finishEventStream(progress, answer)
    }
  }

  /**
   * Records a response that is about to be sent. Instead, returns the error to send if other requests have meanwhile
   * spent what would pay for it. An export is recorded when its body ends, and the usage of a stream in installments.
   */
  const recordFinished = (
    progress: RequestInProgress,
    { answer, recording }: BilledAnswer,
    response: FinishedResponse,
    isPriced: boolean,
  ) => {
    const { account, request } = progress
    switch (answer._tag) {
      case "EventStream":
        return recordMetrics(progress, { ...response, bytes: undefined })
      case "Export":
        return request.method === "HEAD" ? record(progress, response) : undefined
      case "Page": {
        const isCharged = isPriced && response.status === 200 && request.purpose === "answer" &&
          request.method !== "HEAD"
        const unpaid = isCharged && account !== undefined ? findCreditError(account) : undefined
        if (unpaid !== undefined) return unpaid
      }
    }
    return record(progress, response, recording)
  }

  const finishError = (progress: RequestInProgress, { error, headers }: ErrorAnswer) => {
    const { body, status } = encodeError(error, progress.request.id)
    return finishPlain(progress, { status, headers, body, contentType: "application/json" })
  }

  const beginExport = (
    progress: RequestInProgress,
    { contentType, headers, makeBody }: ExportAnswer,
    { checkChunk, reservation_id }: BilledExport,
  ) => {
    const trailers: Record<string, string> = {}
    const body = makeBody({
      checkChunk,
      onEnd: (status, { bytes, records }, digest) => {
        const cost = status < 500 ? computeDataCost(bytes, progress.price) : 0
        if (digest !== undefined) trailers["unencoded-digest"] = formatDigestHeader(digest)
        trailers[costHeader] = String(cost)
        record(progress, { status, bytes, records, cost, isCached: false }, { reservation_id })
      },
    })
    const trailing = { trailers: canHaveTrailers(progress) ? trailers : undefined, isEndless: false }
    return finishPlain(progress, { status: 200, headers, body, contentType }, trailing)
  }

  /** HEAD of an export has the headers of the export. It sends nothing, and is free. */
  const finishExportHead = (progress: RequestInProgress, { contentType, headers }: ExportAnswer) => {
    const trailing = { trailers: canHaveTrailers(progress) ? {} : undefined, isEndless: false }
    // A body, so that the response has the headers of a compressed one.
    return finishPlain(progress, { status: 200, headers, body: Stream.empty, contentType }, trailing)
  }

  const finishEventStream = (progress: RequestInProgress, { body, contentType, headers }: EventStreamAnswer) =>
    finishPlain(progress, { status: 200, headers, body, contentType }, { trailers: undefined, isEndless: true })

  return { finish, recordFinished }
})

/** Trailers need a body in chunked encoding, which HTTP/1.0 lacks. */
const canHaveTrailers = ({ request }: RequestInProgress) => request.httpVersion !== "1.0"
