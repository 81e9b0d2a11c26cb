/** Tells PostgreSQL who is changing rows, so that the audit log can record it (docs/operations/audit.md). */
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Who makes the changes. Triggers on audited tables read it as JSON from the setting `tickerline.actor`. */
export interface SessionActor {
  /** Who makes the changes: an operating-system user, or the name of an admin. */
  readonly actor: string
  readonly via: "admin" | "command"
  /** Where the changes come from: the host that the command runs on, or the admin's IP address. */
  readonly origin: string
  /** What makes the changes: the command, such as `keys rotate`, or the request, such as `POST /accounts`. */
  readonly operation: string
}

/**
 * The actor on whose behalf this process makes changes. Every direct connection passes it to PostgreSQL. If undefined,
 * the audit log records the database role instead.
 */
export const ProcessActor = Context.Reference<SessionActor | undefined>("tickerline/postgres/ProcessActor", {
  defaultValue: () => undefined,
})

/** Encodes an actor in ASCII, because PostgreSQL replaces non-ASCII characters in startup parameters. */
const encodeActor = (actor: SessionActor) =>
  JSON.stringify(actor).replaceAll(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)

/** Returns the startup parameters that pass the actor to PostgreSQL when a connection opens. */
export const makeActorParameters = (actor: SessionActor | undefined): Readonly<Record<string, string>> =>
  actor === undefined ? {} : { "tickerline.actor": encodeActor(actor) }

/** Runs changes in a transaction that is recorded under this actor instead of the process's actor. */
export const withActor = <A, E, R>(actor: SessionActor, changes: Effect.Effect<A, E, R>) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) =>
      sql.withTransaction(
        Effect.andThen(sql`select set_config('tickerline.actor', ${encodeActor(actor)}, true)`, changes),
      ),
  )
