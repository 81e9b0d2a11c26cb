/** Reads the schema and the migrations from the folder `sql`, and splits them into statements. */
import { Context, Effect, FileSystem, Path } from "effect"

/**
 * The folder of scripts that create the schema. They are applied to an empty database, in alphabetical order. Tests
 * replace the folder.
 */
export const SchemaFolder = Context.Reference("tickerline/postgres/SchemaFolder", {
  defaultValue: () => new URL("../../../sql/schema/", import.meta.url),
})

/**
 * The folder of migrations added since the first release. They are applied after the schema. Tests replace the folder.
 */
export const MigrationsFolder = Context.Reference("tickerline/postgres/MigrationsFolder", {
  defaultValue: () => new URL("../../../sql/migrations/", import.meta.url),
})

/** The migration id under which the schema is recorded, as if it were the first migration. */
export const schemaId = 0

/**
 * Matches an SQL token. A semicolon inside a literal, a quoted name, a `$$` body or a comment does not end the
 * statement.
 */
const tokens =
  /'(?:[^']|'')*'|"(?:[^"]|"")*"|\$([A-Za-z_]\w*)?\$[\s\S]*?\$\1\$|--[^\n]*|\/\*[\s\S]*?\*\/|;|[^'"$;/-]+|[\s\S]/g

/** Splits a script into statements and strips comments. The driver can run only one statement per call. */
export const splitStatements = (script: string): ReadonlyArray<string> => {
  const found = [""]
  for (const [token] of script.matchAll(tokens)) {
    if (token === ";") found.push("")
    else if (!token.startsWith("--") && !token.startsWith("/*")) found.push(`${found.pop() ?? ""}${token}`)
  }
  return found.map((statement) => statement.trim()).filter((statement) => statement !== "")
}

/** A parsed script. */
export interface MigrationScript {
  readonly statements: ReadonlyArray<string>
  /** Whether the script runs in a transaction. If it does not, it must be safe to run again after a partial failure. */
  readonly inTransaction: boolean
}

/**
 * Parses a script. If the comments at its beginning include a line `-- no transaction: reason`, the script runs outside
 * a transaction.
 */
export const parseMigrationScript = (text: string): MigrationScript => {
  const head = /^(?:--[^\n]*\n|\s)*/.exec(text)?.[0] ?? ""
  return {
    statements: splitStatements(text),
    inTransaction: !/^-- no transaction:/m.test(head),
  }
}

/**
 * Reads the schema files as one script. A subfolder groups related files; they are read at the subfolder's position in
 * the alphabetical order.
 */
const readSchema = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const folder = yield* path.fromFileUrl(yield* SchemaFolder)
  const listFiles = Effect.fnUntraced(function* (name: string) {
    if (name.endsWith(".sql")) return [name]
    const files = yield* fs.readDirectory(path.join(folder, name))
    return files.filter((file) => file.endsWith(".sql")).toSorted().map((file) => path.join(name, file))
  })
  const files = (yield* Effect.forEach((yield* fs.readDirectory(folder)).toSorted(), listFiles)).flat()
  const texts = yield* Effect.forEach(files, (file) => fs.readFileString(path.join(folder, file)))
  return parseMigrationScript(texts.join("\n"))
})

/**
 * Returns the schema and all migrations in the order in which they are applied. Each entry has an id, a name and an
 * effect that reads the script.
 */
export const listMigrationScripts = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const folder = yield* path.fromFileUrl(yield* MigrationsFolder)
  const files = (yield* fs.readDirectory(folder)).filter((file) => /^\d+_.+\.sql$/.test(file)).toSorted()
  const migrations = files.map((file) =>
    [
      Number.parseInt(file, 10),
      file.replace(/^\d+_(.+)\.sql$/, "$1"),
      Effect.map(fs.readFileString(path.join(folder, file)), parseMigrationScript),
    ] as const
  )
  return [[schemaId, "schema", readSchema] as const, ...migrations]
}).pipe(Effect.orDie)

/** Returns a migration's display name, such as `12_news_index`. */
export const formatMigration = (id: number, name: string) => id === schemaId ? name : `${id}_${name}`
