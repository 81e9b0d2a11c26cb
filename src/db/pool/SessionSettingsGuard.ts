/**
 * §8: a pooler's connections outlive whoever uses them. One that was opened before its role had the limits, or that
 * another program of the same role has changed, would let a statement wait for ever; so they are looked at all the
 * time, and set right.
 */
import { Duration, Effect, Layer, Metric, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { initializeCounters } from "../../observability/CallbackMetrics.ts"
import { decodeRows } from "../DecodeRows.ts"
import { sessionTimeouts } from "./Session.ts"

const every = Duration.seconds(5)

const mended = Metric.counter("tickerline_pooler_limits_mended_total", {
  description: "Settings of a pooler's connections that were found wrong, and set right.",
  incremental: true,
})

const wanted = Object.entries(sessionTimeouts)

const decode = decodeRows(Schema.Struct({ name: Schema.String, setting: Schema.String }))

/** In one transaction, so that what is mended is what was looked at. */
export const repairSessionSettings = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql.withTransaction(Effect.gen(function* () {
    const rows = yield* decode(sql`
      select name, current_setting(name) as setting from unnest(${wanted.map(([name]) => name)}::text[]) as name
    `)
    const wrong = rows.filter(({ name, setting }) => !wanted.some(([one, value]) => one === name && value === setting))
    const all = wanted.filter(([name]) => wrong.some((row) => row.name === name))
    yield* Effect.forEach(all, ([name, value]) => sql.unsafe(`set ${name} = '${value}'`), { discard: true })
    return wrong
  }))
  if (found.length === 0) return
  yield* Metric.update(mended, found.length)
  const said = found.map(({ name, setting }) => `${name} = ${setting}`).join(", ")
  yield* Effect.logWarning(
    `A connection of the pooler had ${said}, and was set right. Another program that shares the role changed it, or ` +
      "the connection is older than the role's settings: say RECONNECT in the pooler's console.",
  )
})

/** A database that is away has other ways to be noticed. */
export const sessionSettingsGuardLayer = Layer.effectDiscard(Effect.gen(function* () {
  yield* initializeCounters(mended)
  yield* Effect.forkScoped(
    Effect.withTracerEnabled(Effect.forever(Effect.delay(Effect.ignore(repairSessionSettings), every)), false),
  )
}))
