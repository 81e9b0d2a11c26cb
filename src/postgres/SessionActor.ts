/** Tells PostgreSQL who is changing rows, for the audit log (docs/operations/audit.md). */
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Who makes changes. The trigger of an audited table reads it as JSON in the setting `tickerline.actor`. */
export interface SessionActor {
  /** An operating-system user, or the name of an admin. */
  readonly actor: string
  readonly via: "admin" | "command"
  /** The host on which the command runs, or the admin's IP address. */
  readonly origin: string
  /** The command, such as `keys rotate`, or the request, such as `POST /accounts`. */
  readonly operation: string
}

/**
 * Who this process acts for; every direct connection announces it. If undefined, the audit log names the database role.
 */
export const ProcessActor = Context.Reference<SessionActor | undefined>("tickerline/postgres/ProcessActor", {
  defaultValue: () => undefined,
})

/** Encodes an actor in ASCII, because PostgreSQL replaces other characters in startup parameters. */
const encodeActor = (actor: SessionActor) =>
  JSON.stringify(actor).replaceAll(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)

/** Returns the startup parameters with which a connection announces its actor. */
export const makeActorParameters = (actor: SessionActor | undefined): Readonly<Record<string, string>> =>
  actor === undefined ? {} : { "tickerline.actor": encodeActor(actor) }

/** Runs changes in a transaction that is recorded under this actor instead of the process's own. */
export const withActor = <A, E, R>(actor: SessionActor, changes: Effect.Effect<A, E, R>) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) =>
      sql.withTransaction(
        Effect.andThen(sql`select set_config('tickerline.actor', ${encodeActor(actor)}, true)`, changes),
      ),
  )
