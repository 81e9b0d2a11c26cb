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

/** What a response contributes to the record of its request. */
type Outcome = Pick<FinishedResponse, "status" | "records" | "bytes" | "cost" | "isCached">

/** What has to be recorded but does not follow from the response. */
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

  const record = (progress: RequestInProgress, outcome: Outcome, options?: RecordOptions) => {
    const { account, needsKey, request, route } = progress
    const isFailed = account === undefined && outcome.status >= 500
    if (isFailed && needsKey && route !== undefined && request.purpose !== "estimate") {
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
    let heldCost = 0
    const computeCost = (from: StreamedAmount, to: StreamedAmount) =>
      computeDataCost(to.bytes, price) - computeDataCost(from.bytes, price)
    const hold = (cost: number) => {
      if (account === undefined || !isRecorded) return
      heldCost += cost
      spend(account.account_id, cost)
    }
    return {
      countSent: (from, to) => hold(computeCost(from, to)),
      recordUsage: ({ from, startedAt, to }) => {
        // Cancel what `countSent` has subtracted from the balance, because recording the usage subtracts it again.
        hold(-heldCost)
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
