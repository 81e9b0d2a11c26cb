/** Whether data can be served, and which part keeps them from it: what a balancer asks. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Metering } from "../account/Metering.ts"
import { RateLimit } from "../account/RateLimit.ts"
import { Versions } from "../cache/Versions.ts"
import { Database } from "../db/Database.ts"
import { NotReady } from "./Api.ts"

/** Longer than that no balancer waits. */
const patience = "3 seconds"

export const readiness = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { read } = yield* Database
  const metering = yield* Metering
  const limits = yield* RateLimit
  const versions = yield* Versions

  const asked = read(sql`select 1`).pipe(
    Effect.as("ok" as const),
    Effect.catch(() => Effect.succeed("away" as const)),
    Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.succeed("away" as const) }),
  )

  return Effect.gen(function* () {
    const parts = {
      database: yield* asked,
      usage: metering.hasRoom() ? "ok" : "full",
      limits: limits.isAlone() ? "alone" : "ok",
      cache: versions.isKnown() ? "ok" : "idle",
    } as const
    if (parts.database === "ok" && parts.usage === "ok") return { status: "ok", parts } as const
    const failing = [
      ...(parts.database === "ok" ? [] : ["the database does not answer"]),
      ...(parts.usage === "ok" ? [] : ["too many requests wait to be recorded"]),
    ]
    return yield* new NotReady({ error: { message: `Not ready: ${failing.join(", and ")}.`, details: { parts } } })
  })
})
