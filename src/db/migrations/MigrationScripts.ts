/** The files of `sql/migrations`, and the statements in them. */
import { Context, Effect, FileSystem, Path } from "effect"

/** Where they are; a test has other ones. */
export const MigrationsFolder = Context.Reference("tickerline/db/Scripts/Folder", {
  defaultValue: () => new URL("../../../sql/migrations/", import.meta.url),
})

/** Literals, quoted names, bodies between `$$` and comments, in which a semicolon ends nothing. */
const tokens =
  /'(?:[^']|'')*'|"(?:[^"]|"")*"|\$([A-Za-z_]\w*)?\$[\s\S]*?\$\1\$|--[^\n]*|\/\*[\s\S]*?\*\/|;|[^'"$;/-]+|[\s\S]/g

/** The driver takes one statement a call. */
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
  /** Whether all of it comes into force in one moment; else each statement by itself, and it may be run again. */
  readonly inTransaction: boolean
  /** The first release that does without what this takes away; one that was released before this migration. */
  readonly contractedSince: string | undefined
}

/** What the first comments say: `-- no transaction: why`, `-- contract since 0.3.0: why`. */
export const parseMigrationScript = (text: string): MigrationScript => {
  const head = /^(?:--[^\n]*\n|\s)*/.exec(text)?.[0] ?? ""
  return {
    statements: splitStatements(text),
    inTransaction: !/^-- no transaction:/m.test(head),
    contractedSince: /^-- contract since (\d+\.\d+\.\d+):/m.exec(head)?.[1],
  }
}

/** All there are, by number and name. */
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
