/**
 * The readiness check for load balancers. It reports whether the service can serve data, and if not, what prevents it.
 */
import { Context, Effect } from "effect"
import { UsageMetering } from "../../accounts/billing/UsageMetering.ts"
import { AccountRateLimiter } from "../../accounts/limits/AccountRateLimiter.ts"
import { DatasetVersions } from "../../postgres/versions/DatasetVersions.ts"
import { HealthProbe } from "../../postgres/health/HealthProbe.ts"
import { NotReadyError } from "../../contract/rules/NotReadyError.ts"

/**
 * Whether a shutdown of this process has begun. The readiness check then fails, so that load balancers stop sending
 * requests to the process.
 */
export const ShutdownState = Context.Reference<{ begun: boolean }>("tickerline/api/ShutdownState", {
  defaultValue: () => ({ begun: false }),
})

/**
 * Builds the readiness check. It uses the last known state of the database and of each subsystem instead of sending a
 * query, so that a busy service remains ready.
 */
export const makeReadinessCheck = Effect.gen(function* () {
  const healthProbe = yield* HealthProbe
  const metering = yield* UsageMetering
  const rateLimit = yield* AccountRateLimiter
  const versions = yield* DatasetVersions
  const shutdown = yield* ShutdownState

  const checkUsage = () => {
    if (!metering.hasCapacity()) return "full"
    return metering.isLate() ? "late" : "ok"
  }

  return Effect.gen(function* () {
    const parts = {
      service: shutdown.begun ? "ending" : "ok",
      database: healthProbe.isUp() ? "ok" : "away",
      usage: checkUsage(),
      limits: rateLimit.isCountingLocally() ? "alone" : "ok",
      cache: versions.isPolling() ? "ok" : "idle",
      clock: healthProbe.isClockRight() ? "ok" : "wrong",
    } as const
    // The other parts may be impaired, but the service can still serve data.
    const reasons = [
      ...(parts.service === "ending" ? ["the service is shutting down"] : []),
      ...(parts.database === "ok" ? [] : ["the database does not answer"]),
      ...(parts.usage === "full" ? ["too many requests are waiting to be recorded"] : []),
      ...(parts.clock === "ok" ? [] : ["the clocks of the service and the database differ"]),
    ]
    if (reasons.length === 0) return { status: "ok", parts } as const
    return yield* new NotReadyError({ error: { message: `Not ready: ${reasons.join(", and ")}.`, details: { parts } } })
  })
})
