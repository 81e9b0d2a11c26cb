/** Applies `sql/migrations/<id>_<name>.sql` in order, once each; several processes may start at once. */
import { PgMigrator } from "@effect/sql-pg"
import { Effect, FileSystem, Layer, Path } from "effect"
import { SqlClient } from "effect/sql"

const directory = new URL("../../sql/migrations/", import.meta.url)

/** The driver takes one statement a call. Bodies of functions, between `$$`, keep their semicolons. */
export const statements = (script: string): ReadonlyArray<string> =>
  script
    .split(/(\$\$[\s\S]*?\$\$)/)
    .map((part, index) => index % 2 === 1 ? part : part.replace(/--.*$/gm, "").replace(/;\s*$/gm, "\0"))
    .join("")
    .split("\0")
    .map((statement) => statement.trim())
    .filter((statement) => statement !== "")

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

/** The migrations it applied, oldest first. */
export const run = PgMigrator.run({ loader, table: "tickerline_migrations" })

export const layer = Layer.effectDiscard(run)
