/** Whether data can be served, and which part keeps them from it: what a balancer asks. */
import { Context, Effect } from "effect"
import { Metering } from "../accounts/billing/Metering.ts"
import { RateLimit } from "../accounts/limits/RateLimit.ts"
import { DatasetVersions } from "../lists/DatasetVersions.ts"
import { HealthProbe } from "../db/health/HealthProbe.ts"
import { NotReadyError } from "./Api.ts"

/** Whether the service was told to end: balancers learn it here, before connections are refused. */
export const ShutdownState = Context.Reference<{ begun: boolean }>("tickerline/catalogue/Ending", {
  defaultValue: () => ({ begun: false }),
})

/** Asks nobody: each part says what it found last, so that a busy service stays ready and callers cost nothing. */
export const makeReadinessCheck = Effect.gen(function* () {
  const heartbeat = yield* HealthProbe
  const metering = yield* Metering
  const limits = yield* RateLimit
  const versions = yield* DatasetVersions
  const ending = yield* ShutdownState

  return Effect.gen(function* () {
    const parts = {
      service: ending.begun ? "ending" : "ok",
      database: heartbeat.isUp() ? "ok" : "away",
      usage: metering.hasCapacity() ? "ok" : "full",
      limits: limits.isCountingLocally() ? "alone" : "ok",
      cache: versions.isPolling() ? "ok" : "idle",
    } as const
    if (parts.service === "ok" && parts.database === "ok" && parts.usage === "ok") {
      return { status: "ok", parts } as const
    }
    const failing = [
      ...(parts.service === "ending" ? ["the service was told to end"] : []),
      ...(parts.database === "ok" ? [] : ["the database does not answer"]),
      ...(parts.usage === "ok" ? [] : ["too many requests wait to be recorded"]),
    ]
    return yield* new NotReadyError({ error: { message: `Not ready: ${failing.join(", and ")}.`, details: { parts } } })
  })
})
