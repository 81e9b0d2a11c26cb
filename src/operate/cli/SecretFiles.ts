/**
 * Reads secret settings from files: `NAME_FILE` is the path of a file that contains the value of `NAME`. Docker,
 * Kubernetes, and systemd provide secrets this way. The file is read each time the setting is read, so a changed secret
 * takes effect without a restart.
 */
import { ConfigProvider, Data, Effect, FileSystem, type PlatformError } from "effect"
import { formatFileErrorReason } from "../../ingest/load/FileErrors.ts"

/** Returns the name of the variable that contains the path of a secret's file. */
export const toFileVariable = (name: string) => `${name}_FILE`

/**
 * A secret file cannot be used. The sentences `problem` and `fix` mention the file path, but never the file content.
 */
export class SecretFileError extends Data.TaggedError("SecretFileError")<{
  /** The name of the setting. */
  readonly name: string
  readonly problem: string
  readonly fix: string
}> {}

/**
 * Returns the value of the setting `name` from its file: the content without the final line break that most editors
 * add. Fails if the file cannot be read, is not a regular file, or is empty.
 */
const readSecret = Effect.fnUntraced(function* (fs: FileSystem.FileSystem, name: string, file: string) {
  const problem = `${toFileVariable(name)} is ${JSON.stringify(file)}, which`
  const toSecretFileError = (error: PlatformError.PlatformError) =>
    new SecretFileError({
      name,
      problem: `${problem} cannot be read: ${formatFileErrorReason(error)}.`,
      fix: "Correct the path or the permissions of the file.",
    })
  // The file type is checked first, because reading a pipe or a device may never end.
  const { type } = yield* Effect.mapError(fs.stat(file), toSecretFileError)
  if (type !== "File") {
    return yield* new SecretFileError({
      name,
      problem: `${problem} is not a regular file.`,
      fix: "Name a file, or a symbolic link to one, but no folder, pipe or device.",
    })
  }
  const text = yield* Effect.mapError(fs.readFileString(file), toSecretFileError)
  const secret = text.replace(/\r?\n$/, "")
  if (secret !== "") return secret
  return yield* new SecretFileError({
    name,
    problem: `${problem} is empty.`,
    fix: `Write the value of ${name} into the file, or unset ${toFileVariable(name)}.`,
  })
})

/**
 * Returns whether a variable is set to the empty string. Config providers list such a variable, but treat it as missing
 * when it is loaded.
 */
const isEmptyVariable = Effect.fnUntraced(function* (variables: ConfigProvider.ConfigProvider, name: string) {
  const path = name.split("_")
  const parent = yield* variables.load(path.slice(0, -1))
  return parent?._tag === "Record" && parent.keys.has(path.at(-1) ?? "") && (yield* variables.load(path)) === undefined
})

/**
 * Extends the current config provider so that each of the given settings can also be read from the file in `NAME_FILE`.
 */
export const secretFilesLayer = (names: ReadonlySet<string>) =>
  ConfigProvider.layer(Effect.gen(function* () {
    const variables = yield* ConfigProvider.ConfigProvider
    const fs = yield* FileSystem.FileSystem
    /** Loads a setting from its variable or its file. Fails if both are set. */
    const load = Effect.fnUntraced(function* (name: string) {
      const variable = yield* variables.load([name])
      const file = (yield* variables.load([toFileVariable(name)]))?.value
      if (file === undefined) {
        // The provider treats an empty variable as if it were not set. It is a mistake here, so it is reported.
        if (!(yield* isEmptyVariable(variables, toFileVariable(name)))) return variable
        return yield* new SecretFileError({
          name,
          problem: `${toFileVariable(name)} is empty.`,
          fix: `Set it to the path of a file with the value of ${name}, or unset it.`,
        })
      }
      if (variable?.value !== undefined) {
        return yield* new SecretFileError({
          name,
          problem: `${name} and ${toFileVariable(name)} are both set.`,
          fix: "Unset one of them.",
        })
      }
      return ConfigProvider.makeValue(yield* readSecret(fs, name, file))
    })
    return ConfigProvider.make((path) => {
      const name = path.join("_")
      return names.has(name)
        ? Effect.catchTag(load(name), "SecretFileError", (cause) =>
          Effect.fail(new ConfigProvider.SourceError({ message: `${cause.problem} ${cause.fix}`, cause })))
        : variables.load(path)
    })
  }))
