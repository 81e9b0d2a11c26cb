/**
 * Secret settings from files: `NAME_FILE` names a file with the value of `NAME`, as Docker, Kubernetes and systemd
 * provide secrets. Every read of the setting reads the file, so that a changed secret is found without a restart.
 */
import { ConfigProvider, Data, Effect, FileSystem } from "effect"
import { formatFileErrorReason } from "../load/FileErrors.ts"

/** The variable that names a file with the value of a secret setting. */
export const toFileVariable = (name: string) => `${name}_FILE`

/** The file with a secret cannot be used. Both texts are sentences that name the file, and never its content. */
export class SecretFileError extends Data.TaggedError("SecretFileError")<{
  /** Name of the setting. */
  readonly name: string
  readonly problem: string
  readonly fix: string
}> {}

/** Returns the content without its last line break, with which most editors end a file. */
const readSecret = Effect.fnUntraced(function* (fs: FileSystem.FileSystem, name: string, file: string) {
  const problem = `${toFileVariable(name)} is ${JSON.stringify(file)}, which`
  const text = yield* Effect.mapError(fs.readFileString(file), (error) =>
    new SecretFileError({
      name,
      problem: `${problem} cannot be read: ${formatFileErrorReason(error)}.`,
      fix: "Correct the path or the permissions of the file.",
    }))
  const secret = text.replace(/\r?\n$/, "")
  if (secret !== "") return secret
  return yield* new SecretFileError({
    name,
    problem: `${problem} is empty.`,
    fix: `Write the value of ${name} into the file, or unset ${toFileVariable(name)}.`,
  })
})

/** Adds `NAME_FILE` for each of the named settings to the variables of the current provider. */
export const secretFilesLayer = (names: ReadonlySet<string>) =>
  ConfigProvider.layer(Effect.gen(function* () {
    const variables = yield* ConfigProvider.ConfigProvider
    const fs = yield* FileSystem.FileSystem
    const load = Effect.fnUntraced(function* (name: string) {
      const own = yield* variables.load([name])
      const file = (yield* variables.load([toFileVariable(name)]))?.value
      if (file === undefined) return own
      if (own?.value !== undefined) {
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
