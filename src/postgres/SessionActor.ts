/** Tells PostgreSQL who changes rows, for the audit log (docs/operations/audit.md). */
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Who makes changes. The trigger of an audited table reads it as JSON in the setting `tickerline.actor`. */
export interface SessionActor {
  /** A user of the operating system, or the name of an admin. */
  readonly actor: string
  readonly via: "admin" | "command"
  /** The host of a command, or the address of an admin. */
  readonly origin: string
  /** The command, such as `keys rotate`, or the request, such as `POST /accounts`. */
  readonly operation: string
}

/** The actor of this process, which every direct connection states. If undefined, changes are made by the role. */
export const ProcessActor = Context.Reference<SessionActor | undefined>("tickerline/postgres/ProcessActor", {
  defaultValue: () => undefined,
})

/** Encodes an actor in ASCII, because PostgreSQL replaces other characters of a parameter sent at the start. */
const encodeActor = (actor: SessionActor) =>
  JSON.stringify(actor).replaceAll(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)

/** Returns the parameters with which a connection states its actor. */
export const makeActorParameters = (actor: SessionActor | undefined): Readonly<Record<string, string>> =>
  actor === undefined ? {} : { "tickerline.actor": encodeActor(actor) }

/** Runs changes in a transaction in which the actor makes them, instead of the process. */
export const withActor = <A, E, R>(actor: SessionActor, changes: Effect.Effect<A, E, R>) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) =>
      sql.withTransaction(
        Effect.andThen(sql`select set_config('tickerline.actor', ${encodeActor(actor)}, true)`, changes),
      ),
  )
