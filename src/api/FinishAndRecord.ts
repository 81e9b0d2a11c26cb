/** Makes the response of an answer, and records it once, in usage (D29) and in the metrics. */
import { Effect, Stream } from "effect"
import { makeCreditCheck } from "../accounts/Admission.ts"
import type { BilledExport } from "../accounts/billing/ExportBilling.ts"
import { computeDataCost } from "../accounts/billing/Pricing.ts"
import type { Answer, EventStreamAnswer, ExportAnswer, FinishedResponse, Page } from "../contract/rules/Answer.ts"
import { formatDigestHeader } from "../contract/rows/ListFormats.ts"
import { encodeError, type ErrorAnswer, toErrorAnswer } from "./ErrorResponses.ts"
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

  /** An export is recorded when its body ends, a stream in installments, anything else here. */
  const finishAndRecord = (
    progress: RequestInProgress,
    { answer, billed, recording }: BilledAnswer,
    isPriced: boolean,
  ): FinishedResponse => {
    if (answer._tag === "Export" && progress.request.method !== "HEAD") {
      if (billed === undefined) throw new Error("An export began without an account to bill")
      return beginExport(progress, answer, billed)
    }
    if (answer._tag === "EventStream") return beginEventStream(progress, answer)
    const response = finish(progress, answer, isPriced)
    record(progress, response, recording)
    return response
  }

  const finish = (
    progress: RequestInProgress,
    answer: Exclude<BilledAnswer["answer"], EventStreamAnswer>,
    isPriced: boolean,
  ): FinishedResponse => {
    switch (answer._tag) {
      case "Page":
        return finishPaidPage(progress, answer, isPriced)
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
        return finishExportHead(progress, answer)
    }
  }

  /** Finishes a page, or the error if other requests have meanwhile spent what would pay for it. */
  const finishPaidPage = (progress: RequestInProgress, page: Page, isPriced: boolean) => {
    const { account, request } = progress
    const response = finishPage(progress, page)
    const isCharged = isPriced && response.status === 200 && request.purpose === "answer" && request.method !== "HEAD"
    const unpaid = isCharged && account !== undefined ? findCreditError(account) : undefined
    return unpaid === undefined ? response : finishError(progress, toErrorAnswer(unpaid))
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

  const beginEventStream = (progress: RequestInProgress, { body, contentType, headers }: EventStreamAnswer) => {
    const endless = { trailers: undefined, isEndless: true }
    const response = finishPlain(progress, { status: 200, headers, body, contentType }, endless)
    recordMetrics(progress, response)
    return response
  }

  return finishAndRecord
})

/** Trailers need a body in chunked encoding, which HTTP/1.0 lacks. */
const canHaveTrailers = ({ request }: RequestInProgress) => request.httpVersion !== "1.0"
