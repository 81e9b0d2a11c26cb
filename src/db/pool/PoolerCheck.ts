/**
 * What stands between the service and PostgreSQL. A pooler in transaction mode gives each transaction to any of its
 * connections, so what belongs to a session (named statements, settings) is silently lost there, or meets that of
 * others. Before anything is asked through one, this makes sure that nothing is lost, or says what to do.
 */
import { PgConnection } from "@effect/sql-pg"
import { Data, Duration, Effect, Predicate, type Redacted, Schema } from "effect"
import type { SqlError } from "effect/sql"
import {
  alterRoleStatements,
  makeSessionConfig,
  PoolerPrepares,
  quoteIdentifier,
  roleHasTimeoutsSql as isGiven,
  sessionTimeouts,
  sessionTimeZone,
} from "./Session.ts"

/** A database URL leads elsewhere than it has to; in words that tell the cure. */
export class DatabaseUrlError extends Data.TaggedError("WrongWay")<{ readonly message: string }> {}

const wanted = { ...sessionTimeouts, ...sessionTimeZone }

const Seen = Schema.Struct({
  pid: Schema.Int,
  role: Schema.String,
  database: Schema.String,
  /** The same for two ways to one database. */
  identity: Schema.String,
  /** Settings that are not what they have to be: `lock_timeout is 0, not 2s`. */
  different: Schema.Array(Schema.String),
  /** Whether the role is to have the limits in sessions that begin from now on. */
  given: Schema.Boolean,
})

const pairs = Object.entries(wanted).map(([name, value]) => `('${name}', '${value}')`).join(", ")

const seeing = `
  select pg_backend_pid() as pid, current_user::text as role, current_database()::text as database,
    (select system_identifier from pg_control_system()) || ' ' || oid as identity,
    array(
      select format('%s is %s, not %s', name, current_setting(name), value)
      from (values ${pairs}) as wanted (name, value)
      where current_setting(name) <> value
    ) as different,
    ${isGiven("current_user")} as given
  from pg_database where datname = current_database()`

const look = (connection: PgConnection.PgConnection) =>
  connection.query(seeing, [], false).pipe(
    Effect.flatMap(({ rows }) => Schema.decodeUnknownEffect(Seen)(rows[0])),
    Effect.catchTag("SchemaError", Effect.die),
  )

const why = ({ reason }: SqlError.SqlError) =>
  Predicate.hasProperty(reason.cause, "message") ? String(reason.cause.message) : reason.message

const cure = "Name PostgreSQL itself, or a pooler in session mode, in DATABASE_DIRECT_URL too."

const notConnected = (name: string, pooled: boolean) => (error: SqlError.SqlError) => {
  const said = why(error)
  if (/unsupported startup parameter/.test(said)) {
    return new DatabaseUrlError({
      message: pooled || /options/.test(said)
        ? `${name} leads through a pooler that refuses an ${said}. Leave it out of the URL, or name it in the ` +
          "pooler's ignore_startup_parameters."
        : `${name} leads through a pooler that refuses what a session is to begin with (${said}). ${
          name === "DATABASE_URL" ? cure : `It has to lead to PostgreSQL itself.`
        }`,
    })
  }
  return name === "DATABASE_URL" ? error : new DatabaseUrlError({
    message: `${name}: no connection (expected postgres://user:password@host:port/database): ${said}`,
  })
}

/** Asked for and not there: a statement could wait and run for ever, and nobody would be told. */
const withoutLimits = (name: string, { database, different, given, role }: typeof Seen.Type) =>
  new DatabaseUrlError({
    message:
      `Through ${name} ${different.join(" and ")}. Poolers do not pass on what a session asks for, so the role ` +
      `has to have it. ${
        given
          ? "It has it by now, but connections of the pooler are older, or another program changed them: say " +
            "RECONNECT in the pooler's console."
          : `Run \`npm run tickerline -- grant ${role}\`, or say as ${role} itself: ${
            alterRoleStatements(role, database).join("; ")
          }; and then RECONNECT in the pooler's console.`
      }`,
  })

const pidOf = (connection: PgConnection.PgConnection) => Effect.map(look(connection), ({ pid }) => pid)

/** Whether a session changes its server while another is in a transaction, which only transaction mode lets happen. */
const isShared = Effect.fnUntraced(function* (connection: PgConnection.PgConnection, other: typeof connection) {
  const first = yield* pidOf(connection)
  yield* other.query("begin", [], false)
  // A pooler with one connection only would let the first wait for the second.
  const isTaken = (yield* pidOf(other)) === first
  const hasMoved = !isTaken && (yield* pidOf(connection)) !== first
  yield* other.query("rollback", [], false)
  return isTaken || hasMoved
})

/** A pooler in session mode may have no second connection to give, so it need not answer. */
const patience = Duration.seconds(5)
const tries = 3

const connect = (name: string, url: Redacted.Redacted, pooled: boolean) =>
  makeSessionConfig({ url, applicationName: "tickerline-start", pooled }).pipe(
    Effect.flatMap(PgConnection.make),
    Effect.catchTag("SqlError", (error) => Effect.fail(notConnected(name, pooled)(error))),
  )

/** A way on which sessions are wanted: to PostgreSQL itself, or through a pooler in session mode. */
export const checkDirectConnection = Effect.fnUntraced(function* (name: string, url: Redacted.Redacted) {
  const connection = yield* connect(name, url, false)
  const seen = yield* look(connection)
  if (seen.pid !== connection.processId) {
    const other = yield* connect(name, url, false)
    const shared = yield* isShared(connection, other).pipe(
      Effect.repeat({ while: (found) => !found, times: tries - 1 }),
      Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.succeed(false) }),
      Effect.orElseSucceed(() => false),
    )
    if (shared) {
      return yield* new DatabaseUrlError({
        message: `${name} leads through a pooler in transaction mode, where statements and settings of one client ` +
          `meet those of others. ${name === "DATABASE_URL" ? cure : "It has to lead to PostgreSQL itself."}`,
      })
    }
  }
  if (seen.different.length > 0) return yield* withoutLimits(name, seen)
  return { ...seen, through: seen.pid !== connection.processId }
}, Effect.scoped)

/** A pooler that keeps named statements of its clients apart gives them names of its own. */
const prepares = Effect.fnUntraced(function* (connection: PgConnection.PgConnection) {
  yield* connection.query("begin", [], false)
  yield* connection.query("select 1 as named")
  const { rows } = yield* connection.query("select name from pg_prepared_statements where name ~ '^effect_'", [], false)
  yield* Effect.forEach(rows, ({ name }) => connection.query(`deallocate ${quoteIdentifier(String(name))}`, [], false))
  yield* connection.query("commit", [], false)
  return rows.length === 0
})

/** A way through a pooler in transaction mode. */
export const checkPooledConnection = Effect.fnUntraced(function* (name: string, url: Redacted.Redacted) {
  const connection = yield* connect(name, url, true)
  const seen = yield* look(connection)
  if (seen.different.length > 0) return yield* withoutLimits(name, seen)
  if ((yield* PoolerPrepares) && !(yield* prepares(connection))) {
    return yield* new DatabaseUrlError({
      message: `DATABASE_POOLER_PREPARES is true, but the pooler of ${name} does not keep named statements of its ` +
        "clients apart. Unset it, or use PgBouncer 1.21 or newer with max_prepared_statements = 200.",
    })
  }
  return { ...seen, through: seen.pid !== connection.processId }
}, Effect.scoped)

/** Both ways at once have to lead to one database. */
export const checkBothConnections = Effect.fnUntraced(function* (url: Redacted.Redacted, direct: Redacted.Redacted) {
  const seen = yield* checkPooledConnection("DATABASE_URL", url)
  const itself = yield* checkDirectConnection("DATABASE_DIRECT_URL", direct)
  if (seen.identity !== itself.identity) {
    return yield* new DatabaseUrlError({
      message: `DATABASE_URL and DATABASE_DIRECT_URL lead to different databases (${seen.database} and ` +
        `${itself.database}, or servers). Name the same one in both.`,
    })
  }
  return seen
})
