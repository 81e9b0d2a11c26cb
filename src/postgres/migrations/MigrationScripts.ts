/** Reads the migration scripts in `scripts/`, and splits them into statements. */
import { Context, Effect, FileSystem, Path } from "effect"

/** The folder that contains the scripts. Tests replace it. */
export const MigrationsFolder = Context.Reference("tickerline/db/MigrationsFolder", {
  defaultValue: () => new URL("scripts/", import.meta.url),
})

/** SQL tokens. A semicolon in a literal, quoted name, `$$` body or comment does not end a statement. */
const tokens =
  /'(?:[^']|'')*'|"(?:[^"]|"")*"|\$([A-Za-z_]\w*)?\$[\s\S]*?\$\1\$|--[^\n]*|\/\*[\s\S]*?\*\/|;|[^'"$;/-]+|[\s\S]/g

/** Splits a script into statements and removes comments, because the driver runs one statement per call. */
export const splitStatements = (script: string): ReadonlyArray<string> => {
  const found = [""]
  for (const [token] of script.matchAll(tokens)) {
    if (token === ";") found.push("")
    else if (!token.startsWith("--") && !token.startsWith("/*")) found.push(`${found.pop() ?? ""}${token}`)
  }
  return found.map((statement) => statement.trim()).filter((statement) => statement !== "")
}

export interface MigrationScript {
  readonly statements: ReadonlyArray<string>
  /** Whether the script runs in a transaction. If not, it must be safe to run again after a partial failure. */
  readonly inTransaction: boolean
}

/** Parses a script and the directive at its start: `-- no transaction: why`. */
export const parseMigrationScript = (text: string): MigrationScript => {
  const head = /^(?:--[^\n]*\n|\s)*/.exec(text)?.[0] ?? ""
  return {
    statements: splitStatements(text),
    inTransaction: !/^-- no transaction:/m.test(head),
  }
}

/** Lists all migration scripts in order, each with its number, its name, and an effect that reads it. */
export const listMigrationScripts = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const folder = yield* path.fromFileUrl(yield* MigrationsFolder)
  const files = (yield* fs.readDirectory(folder)).filter((file) => /^\d+_.+\.sql$/.test(file)).toSorted()
  return files.map((file) =>
    [
      Number.parseInt(file, 10),
      file.replace(/^\d+_(.+)\.sql$/, "$1"),
      Effect.map(fs.readFileString(path.join(folder, file)), parseMigrationScript),
    ] as const
  )
}).pipe(Effect.orDie)
