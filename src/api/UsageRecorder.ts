/**
 * Records every request once, in usage (D29) and in the metrics, whether it succeeded or failed. Requests are not
 * recorded anywhere else.
 */
import { Clock, Effect } from "effect"
import { PrepaidBalances } from "../accounts/billing/PrepaidBalances.ts"
import { computeDataCost } from "../accounts/billing/Pricing.ts"
import { UsageMetering } from "../accounts/billing/UsageMetering.ts"
import { getMonotonicMillis } from "../postgres/metrics/MonotonicTime.ts"
import { RequestMetrics } from "../postgres/metrics/RequestMetrics.ts"
import type { FinishedResponse, StreamedAmount, StreamUsageRecorder } from "../contract/rules/EndpointResult.ts"
import type { RequestInProgress } from "./RequestInProgress.ts"

/** The properties of a response that are recorded. */
type Outcome = Pick<FinishedResponse, "status" | "records" | "bytes" | "cost" | "isCached">

/** Properties of a usage record that do not follow from the response. */
export interface RecordOptions {
  /** The status recorded in usage, if it differs from the response status. */
  readonly recordedStatus?: number | undefined
  /** The reservation that covers the cost of an export. */
  readonly reservation_id?: string | null
}

/**
 * Builds three functions: `record` records a completed request, `recordMetrics` records it only in the metrics, and
 * `makeStreamUsageRecorder` creates the recorder for an endless stream.
 */
export const makeUsageRecorder = Effect.gen(function* () {
  const metering = yield* UsageMetering
  const { spend } = yield* PrepaidBalances
  const metrics = yield* RequestMetrics
  const clock = yield* Clock.Clock

  /** Records a request in usage, or part of one that receives an endless stream. */
  const recordUsage = (
    { account, headers, isRecorded, price, request, route = "" }: RequestInProgress,
    { bytes, cost, records, status }: Outcome,
    { recordedStatus = status, reservation_id = null }: RecordOptions = {},
    requested_at = request.startedAt,
  ) => {
    if (!isRecorded || account === undefined || request.claimUsage?.(cost) === false) return
    metering.record({
      requested_at,
      account_id: account.account_id,
      key_id: account.key_id,
      request_id: request.id,
      endpoint: route,
      status_code: recordedStatus,
      records_returned: status === 200 ? records : 0,
      // The response to a HEAD request has no body.
      bytes: request.method === "HEAD" ? 0 : bytes,
      cost_microdollars: cost,
      price_per_gb_microdollars: cost === 0 ? 0 : price,
      // The difference is negative if the clock was set back during the request.
      duration_ms: Math.max(0, clock.currentTimeMillisUnsafe() - requested_at),
      // Only a 304 is recorded as cached. The cache is shared between accounts, so recording every hit would reveal
      // what other accounts have requested.
      cached: recordedStatus === 304,
      deprecated: "deprecation" in headers,
      via: request.via,
      reservation_id,
    })
  }

  /** Records a request in the metrics. `bytes` is undefined if the size of the body is not known yet. */
  const recordMetrics = (
    { account, request, route }: RequestInProgress,
    { bytes, isCached, status }: Pick<Outcome, "isCached" | "status"> & { readonly bytes: number | undefined },
  ) => {
    if (request.purpose === "estimate") return
    metrics.record({
      request_id: request.id,
      method: request.method,
      target: request.target,
      endpoint: route,
      account_id: account?.account_id,
      status,
      bytes,
      cached: isCached,
      milliseconds: getMonotonicMillis(clock) - request.arrivedAt,
    })
  }

  /**
   * Records a completed request in usage and in the metrics. A request that failed before its account was known cannot
   * be recorded in usage. It is counted as a failure of its endpoint instead.
   */
  const record = (progress: RequestInProgress, outcome: Outcome, options?: RecordOptions) => {
    const { account, needsKey, request, route } = progress
    const hasFailedWithoutAccount = account === undefined && outcome.status >= 500
    if (hasFailedWithoutAccount && needsKey && route !== undefined && request.purpose !== "estimate") {
      metering.countFailure(route, outcome.status, request.startedAt)
    }
    recordUsage(progress, outcome, options)
    recordMetrics(progress, outcome)
  }

  /**
   * Creates the recorder for an endless stream, which is recorded as usage once a minute. The cost of each record is
   * the difference between the costs of all bytes sent by its end and by its start. The records' costs, although
   * rounded, therefore add up exactly to the cost of all bytes sent.
   */
  const makeStreamUsageRecorder = (progress: RequestInProgress): StreamUsageRecorder => {
    const { account, isRecorded, price } = progress
    // The cost of bytes that have been sent and subtracted from the balance, but not yet recorded as usage.
    let unrecordedCost = 0
    const computeCost = (from: StreamedAmount, to: StreamedAmount) =>
      computeDataCost(to.bytes, price) - computeDataCost(from.bytes, price)
    const subtractFromBalance = (cost: number) => {
      if (account === undefined || !isRecorded) return
      unrecordedCost += cost
      spend(account.account_id, cost)
    }
    return {
      countSent: (from, to) => subtractFromBalance(computeCost(from, to)),
      recordUsage: ({ from, startedAt, to }) => {
        // Return the cost that `countSent` has subtracted, because recording the usage subtracts it again.
        subtractFromBalance(-unrecordedCost)
        const [bytes, records] = [to.bytes - from.bytes, to.records - from.records]
        recordUsage(
          progress,
          { status: 200, bytes, records, cost: computeCost(from, to), isCached: false },
          {},
          startedAt,
        )
      },
    }
  }
  return { record, recordMetrics, makeStreamUsageRecorder }
})
