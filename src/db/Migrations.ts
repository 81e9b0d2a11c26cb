/** Applies `sql/migrations/<id>_<name>.sql` in order, once each; several processes may start at once. */
import { PgMigrator } from "@effect/sql-pg"
import { Data, Effect, FileSystem, Layer, Path, Predicate } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { Progress } from "../terminal/Progress.ts"
import * as Roles from "./Roles.ts"

const directory = new URL("../../sql/migrations/", import.meta.url)

/** Literals, quoted names, bodies between `$$` and comments, in which a semicolon ends nothing. */
const tokens =
  /'(?:[^']|'')*'|"(?:[^"]|"")*"|\$([A-Za-z_]\w*)?\$[\s\S]*?\$\1\$|--[^\n]*|\/\*[\s\S]*?\*\/|;|[^'"$;/-]+|[\s\S]/g

/** The driver takes one statement a call. */
export const statements = (script: string): ReadonlyArray<string> => {
  const found = [""]
  for (const [token] of script.matchAll(tokens)) {
    if (token === ";") found.push("")
    else if (!token.startsWith("--") && !token.startsWith("/*")) found.push(`${found.pop() ?? ""}${token}`)
  }
  return found.map((statement) => statement.trim()).filter((statement) => statement !== "")
}

/** All there are, by number and name. */
export const loader = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const folder = yield* path.fromFileUrl(directory)
  const files = (yield* fs.readDirectory(folder)).filter((file) => file.endsWith(".sql"))
  const progress = yield* Progress
  return PgMigrator.fromRecord(Object.fromEntries(
    files.toSorted().map((file, done) => [
      file.replace(/\.sql$/, ""),
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        Object.assign(progress, { label: `migration ${file}`, done, total: files.length, count: 0 })
        const script = yield* fs.readFileString(path.join(folder, file))
        yield* Effect.forEach(statements(script), (statement) => sql.unsafe(statement), { discard: true })
      }),
    ]),
  ))
}).pipe(Effect.orDie, Effect.flatten)

/** The database is older than the program, and its role may not change that. */
export class MayNotMigrate extends Data.TaggedError("MayNotMigrate")<{ readonly message: string }> {}

/** The table of those that were applied. */
export const record = "tickerline_migrations"

/** Whether nothing is left to do; a role that only serves may ask this, and do no more. */
const isCurrent = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql<{ readonly there: boolean }>`select to_regclass(${record}) is not null as there`
  if (found?.there !== true) return false
  const applied = yield* sql<{ readonly id: number }>`select migration_id as id from ${sql(record)}`
  const ids = new Set(applied.map(({ id }) => id))
  return (yield* loader).every(([id]) => ids.has(id))
})

const mayMigrate = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [role] = yield* sql<{ readonly name: string; readonly may: boolean }>`
    select current_user as name, has_schema_privilege(current_schema(), 'create') as may
  `
  if (role?.may === true) return
  return yield* new MayNotMigrate({
    message: `The database is older than this program, and ${role?.name ?? "its role"} may not change its tables. ` +
      "Run `npm run tickerline -- migrate` with a DATABASE_URL of the role that owns them.",
  })
})

const turn = 7_101_884

/**
 * Effect's migrator takes a failure to make its table for a sign that another process made it, and asks for that in the
 * same transaction, which has ended: PostgreSQL answers this code. Nothing is applied then, and the next try finds it.
 */
const isOvertaken = (error: unknown) => {
  const cause = SqlError.isSqlError(error) ? error.reason.cause : undefined
  return Predicate.hasProperty(cause, "code") && cause.code === "25P02"
}

/** The migrations it applied, oldest first. Of several processes one works and the others wait, however long. */
export const run = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  if (yield* isCurrent) return []
  yield* mayMigrate
  return yield* sql.withTransaction(Effect.gen(function* () {
    yield* sql`set local lock_timeout = 0`
    yield* sql`set local statement_timeout = 0`
    yield* sql`select pg_advisory_xact_lock(${turn}::int8)`
    const applied = yield* PgMigrator.run({ loader, table: record })
    yield* Roles.renew
    return applied
  })).pipe(Effect.retry({ while: isOvertaken, times: 3 }))
})

export const layer = Layer.effectDiscard(run)
