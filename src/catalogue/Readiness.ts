/** Whether data can be served, and which part keeps them from it: what a balancer asks. */
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Metering } from "../account/Metering.ts"
import { RateLimit } from "../account/RateLimit.ts"
import { Versions } from "../cache/Versions.ts"
import { Database } from "../db/Database.ts"
import { NotReady } from "./Api.ts"

/** Whether the service was told to end: balancers learn it here, before connections are refused. */
export const Ending = Context.Reference<{ begun: boolean }>("tickerline/catalogue/Ending", {
  defaultValue: () => ({ begun: false }),
})

/** Longer than that no balancer waits. */
const patience = "3 seconds"

export const readiness = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { read } = yield* Database
  const metering = yield* Metering
  const limits = yield* RateLimit
  const versions = yield* Versions
  const ending = yield* Ending

  const asked = read(sql`select 1`).pipe(
    Effect.as("ok" as const),
    Effect.catch(() => Effect.succeed("away" as const)),
    Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.succeed("away" as const) }),
  )

  return Effect.gen(function* () {
    const database = yield* asked
    const parts = {
      service: ending.begun ? "ending" : "ok",
      database,
      usage: metering.hasRoom() ? "ok" : "full",
      limits: limits.isAlone() ? "alone" : "ok",
      cache: versions.isKnown() ? "ok" : "idle",
    } as const
    if (parts.service === "ok" && parts.database === "ok" && parts.usage === "ok") {
      return { status: "ok", parts } as const
    }
    const failing = [
      ...(parts.service === "ending" ? ["the service was told to end"] : []),
      ...(parts.database === "ok" ? [] : ["the database does not answer"]),
      ...(parts.usage === "ok" ? [] : ["too many requests wait to be recorded"]),
    ]
    return yield* new NotReady({ error: { message: `Not ready: ${failing.join(", and ")}.`, details: { parts } } })
  })
})
