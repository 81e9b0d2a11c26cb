/** The error response of `GET /health/ready` (§7.2, errors). */
import { Schema } from "effect"
import { describeError, makeErrorFieldsWithDetails } from "./ApiErrors.ts"

/** The states of the subsystems that affect readiness or that operators should know about. */
export const ReadinessParts = Schema.Struct({
  service: Schema.Literals(["ok", "ending"]).annotate({
    identifier: "ServiceState",
    description: "ending: the service is shutting down and still answers for `SHUTDOWN_DELAY`.",
  }),
  database: Schema.Literals(["ok", "away"]).annotate({
    identifier: "DatabaseState",
    description: "away: the database does not answer in time.",
  }),
  usage: Schema.Literals(["ok", "late", "full"]).annotate({
    identifier: "UsageState",
    description: "late: for ten seconds, no waiting request could be recorded. Requests are still answered, and " +
      "recorded later. full: too many requests are waiting, so requests for data are refused.",
  }),
  limits: Schema.Literals(["ok", "alone"]).annotate({
    identifier: "LimitsState",
    description: "alone: the shared request counts are unavailable, so the instance counts requests by itself. It " +
      "still answers.",
  }),
  cache: Schema.Literals(["ok", "idle"]).annotate({
    identifier: "CacheState",
    description:
      "idle: changes to the data cannot be followed at the moment, so every response is read from the database.",
  }),
  clock: Schema.Literals(["ok", "wrong"]).annotate({
    identifier: "ClockState",
    description: "wrong: the clocks of the instance and the database differ by more than a minute, so responses that " +
      "depend on the current date may be wrong.",
  }),
}).annotate({ identifier: "Parts", description: "The parts of the service." })

/**
 * 503 with `Retry-After: 5`: the service is not ready. The error code is the same as for data requests while the
 * database is down.
 */
export class NotReadyError extends Schema.Error<NotReadyError>("NotReady")(
  makeErrorFieldsWithDetails("database_pool_timeout", Schema.Struct({ parts: ReadinessParts })),
  describeError(503, "A part that is required to serve data is not ready; `details` names it."),
) {
  readonly _tag = "NotReady"
}
