/** Applies `sql/migrations/<id>_<name>.sql` in order, once each; several processes may start at once. */
import { PgMigrator } from "@effect/sql-pg"
import { Effect, FileSystem, Layer, Path } from "effect"
import { SqlClient } from "effect/sql"

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

const loader = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const folder = yield* path.fromFileUrl(directory)
  const files = (yield* fs.readDirectory(folder)).filter((file) => file.endsWith(".sql"))
  return PgMigrator.fromRecord(Object.fromEntries(files.map((file) => [
    file.replace(/\.sql$/, ""),
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const script = yield* fs.readFileString(path.join(folder, file))
      yield* Effect.forEach(statements(script), (statement) => sql.unsafe(statement), { discard: true })
    }),
  ])))
}).pipe(Effect.orDie, Effect.flatten)

const turn = 7_101_884

/** The migrations it applied, oldest first. Of several processes one works and the others wait, however long. */
export const run = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(Effect.gen(function* () {
    yield* sql`set local lock_timeout = 0`
    yield* sql`set local statement_timeout = 0`
    yield* sql`select pg_advisory_xact_lock(${turn}::int8)`
    return yield* PgMigrator.run({ loader, table: "tickerline_migrations" })
  }))
})

export const layer = Layer.effectDiscard(run)
