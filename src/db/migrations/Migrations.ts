/**
 * Applies `sql/migrations/<id>_<name>.sql` in order, once each; several processes may start at once, and others serve
 * meanwhile. Each has a transaction of its own, so that no lock is held for longer than its own work. Who waits for a
 * lock makes everybody wait who comes after: so it looks in short, steps back, and looks again.
 */
import { PgClient } from "@effect/sql-pg"
import { Data, Duration, Effect, Layer, Schedule, Schema } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, SqlError } from "effect/sql"
import { Progress } from "../../observability/Progress.ts"
import { decodeRows } from "../DecodeRows.ts"
import * as Roles from "./ServiceRole.ts"
import { listMigrationScripts, type MigrationScript } from "./MigrationScripts.ts"

/** All there are, by number and name. */
export const loader = listMigrationScripts

/** The database is older than the program, and its role may not change that. */
export class MigrationNotPermitted extends Data.TaggedError("MayNotMigrate")<{ readonly message: string }> {}

/** Nothing of it is applied, or of one outside a transaction what the next run begins anew. */
export class MigrationFailed extends Data.TaggedError("MigrationFailed")<{
  readonly message: string
  readonly cause: SqlError.SqlError
}> {}

/** The table of those that were applied, as Effect's migrator makes it, which former releases read it with. */
export const migrationsTable = "tickerline_migrations"

/** Whether nothing is left to do; a role that only serves may ask this, and do no more. */
const isCurrent = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql<{ readonly there: boolean }>`select to_regclass(${migrationsTable}) is not null as there`
  if (found?.there !== true) return false
  const applied = yield* sql<{ readonly id: number }>`select migration_id as id from ${sql(migrationsTable)}`
  const ids = new Set(applied.map(({ id }) => id))
  return (yield* loader).every(([id]) => ids.has(id))
})

const mayMigrate = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [role] = yield* decodeRows(Schema.Struct({ name: Schema.String, may: Schema.NullOr(Schema.Boolean) }))(sql`
    select current_user as name, has_schema_privilege(current_schema(), 'create') as may
  `)
  if (role?.may === true) return
  return yield* new MigrationNotPermitted({
    message: `The database is older than this program, and ${role?.name ?? "its role"} may not change its tables. ` +
      "Run `npm run tickerline -- migrate` with a DATABASE_URL of the role that owns them.",
  })
})

/** Former releases take the same one. */
const turn = 7_101_884

/** The longest that a migration stands in line for a lock, and everybody behind it. */
const patience = "250ms"

/** Until the next look at a table that is in use. */
const pause = Duration.millis(750)

/** What uses a table for so long is no request. */
const looks = 600

const isLocked = (error: unknown) => SqlError.isSqlError(error) && error.reason._tag === "LockTimeoutError"

class NotOurTurn extends Data.TaggedError("NotOurTurn")<{}> {}

/** Whoever waits for the turn wakes up often, since an index that is made concurrently waits for all who wait. */
const takeTurn = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`set local statement_timeout = 0`
  yield* sql`set local idle_in_transaction_session_timeout = 0`
  yield* sql.unsafe(`set local lock_timeout = '${patience}'`)
  yield* Effect.catchIf(
    sql`select pg_advisory_xact_lock(${turn}::int8)`,
    isLocked,
    () => Effect.fail(new NotOurTurn()),
  )
  yield* sql`
    create table if not exists ${sql(migrationsTable)} (
      migration_id integer primary key,
      created_at timestamptz not null default now(),
      name text not null
    )
  `
})

const each = (sql: SqlClient.SqlClient, { statements }: MigrationScript) =>
  Effect.forEach(statements, (statement) => sql.unsafe(statement), { discard: true })

/**
 * On a connection of its own, where nothing is part of a transaction; the turn is kept by the one that waits. Such
 * statements keep nobody out while they wait, so they may.
 */
const outside = Effect.fnUntraced(
  function* (script: MigrationScript) {
    const { config } = yield* PgClient.PgClient
    const keeper = yield* SqlClient.SqlClient
    // A result is let go of with the next statement only, and an index would wait for its snapshot for ever.
    yield* keeper`set local statement_timeout = 0`
    const sql = yield* PgClient.makeClient(config)
    yield* sql`set statement_timeout = 0`
    yield* sql`set lock_timeout = 0`
    yield* each(sql, script)
  },
  Effect.scoped,
  Effect.provide(Reactivity.layer),
)

/** The next one that is missing; the last one brings the roles that serve what all of them need. */
const applyNext = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const progress = yield* Progress
  yield* takeTurn
  const applied = yield* sql<{ readonly id: number }>`select migration_id as id from ${sql(migrationsTable)}`
  const known = yield* loader
  const missing = known.filter(([id]) => !applied.some((one) => one.id === id))
  const [next] = missing
  if (next === undefined) return undefined
  const [id, name, read] = next
  const done = known.length - missing.length
  Object.assign(progress, { label: `migration ${id}_${name}`, done, total: known.length, count: 0 })
  const script = yield* Effect.orDie(read)
  const work = Effect.gen(function* () {
    yield* script.inTransaction ? each(sql, script) : outside(script)
    yield* sql`insert into ${sql(migrationsTable)} (migration_id, name) values (${id}, ${name})`
    if (missing.length === 1) yield* Roles.renewServiceRoles
  })
  yield* Effect.mapError(
    work,
    (error) => SqlError.isSqlError(error) ? new MigrationFailed({ message: `${id}_${name}`, cause: error }) : error,
  )
  return [id, name] as const
})

/** Most likely it is what the migration waits for. */
const longestAtWork = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql<{ readonly who: string }>`
    select format('%s (process %s of PostgreSQL) for %s', coalesce(nullif(application_name, ''), usename), pid,
      date_trunc('second', now() - xact_start)) as who
    from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null
    order by xact_start limit 1
  `
  return found === undefined ? "" : ` At work for longest: ${found.who}.`
}).pipe(Effect.catch(() => Effect.succeed("")))

const inUse = ({ message }: MigrationFailed) =>
  Effect.map(longestAtWork, (who) => `Migration ${message} waits for a table that is in use.${who}`)

const worded = (error: MigrationFailed) => {
  if (isLocked(error.cause)) {
    return Effect.map(
      inUse(error),
      (words) =>
        new MigrationFailed({
          message: `${words} Nothing was changed; end that, and migrate again.`,
          cause: error.cause,
        }),
    )
  }
  const { cause } = error.cause.reason
  const why = cause instanceof Error ? cause.message : error.cause.message
  return Effect.succeed(
    new MigrationFailed({ message: `Migration ${error.message} failed: ${why}`, cause: error.cause }),
  )
}

const step = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  let told = false
  const tell = (error: MigrationFailed) =>
    Effect.suspend(() => {
      if (told || !isLocked(error.cause)) return Effect.void
      told = true
      return Effect.flatMap(inUse(error), Effect.logInfo)
    })
  return yield* sql.withTransaction(applyNext).pipe(
    Effect.retry({ while: ({ _tag }) => _tag === "NotOurTurn" }),
    Effect.tapErrorTag("MigrationFailed", tell),
    Effect.retry({
      while: (error) => error._tag === "MigrationFailed" && isLocked(error.cause),
      schedule: Schedule.spaced(pause),
      times: looks,
    }),
    Effect.catchTag("MigrationFailed", (error) => Effect.flatMap(worded(error), Effect.fail)),
  )
})

/** The migrations it applied, oldest first. Of several processes one works and the others wait, however long. */
export const runMigrations = Effect.gen(function* () {
  const applied: Array<readonly [id: number, name: string]> = []
  if (yield* isCurrent) return applied
  yield* mayMigrate
  for (let one = yield* step; one !== undefined; one = yield* step) applied.push(one)
  return applied
})

export const migrationsLayer = Layer.effectDiscard(runMigrations)
