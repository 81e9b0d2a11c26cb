/** Parts shared by several commands: names, flags, usage errors, and help examples. */
import { Data, Effect, Schema } from "effect"
import { Argument, CliError, Command, Flag } from "effect/cli"
import { silentTickerlineCommand, tickerlineCommand } from "../../postgres/ProjectCommands.js"
import { redactApiKeys } from "../../contract/rules/Errors.ts"
import { formatNameSuggestion } from "../../contract/rules/Suggestions.ts"

/** A command cannot do what it was asked to do. The message says why, and what to do. */
export class CommandFailed extends Data.TaggedError("CommandFailed")<{ readonly message: string }> {}

/** Makes a required flag whose value the schema decodes. */
export const makeFlag = <A>(name: string, schema: Schema.Codec<A, string>, description: string) =>
  Flag.String(name).pipe(Flag.withSchema(schema), Flag.withDescription(description))

/** Makes a required argument that the schema decodes. */
export const makeArgument = <A>(name: string, schema: Schema.Codec<A, string>, description: string) =>
  Argument.String(name).pipe(Argument.withSchema(schema), Argument.withDescription(description))

/** Makes a flag that takes no value and is false by default. */
export const makeBooleanFlag = (name: string, description: string) =>
  Flag.Boolean(name).pipe(Flag.withDescription(description), Flag.withDefault(false))

/** The flags of a command that calls a service. */
export const serviceConnectionFlags = {
  url: Flag.optional(makeFlag("url", Schema.String, "Address of a different service than the configured one")),
  // `Path` accepts a pipe, such as `<(pass show key)`, unlike `File`.
  keyFile: Flag.Path("key-file").pipe(
    Flag.withDescription("File that contains the API key (default: TICKERLINE_KEY, then the demo key)"),
    Flag.optional,
  ),
}

/** Splits a list at its commas, and omits empty entries. */
export const splitList = (text: string) => text.split(",").map((name) => name.trim()).filter((name) => name !== "")

/**
 * Makes a parser for a list of datasets that a source fills. It runs before the command connects to the database.
 * `source` is the plural subject of its errors, such as `Prices`.
 */
export const makeDatasetListParser =
  <Dataset extends string>(source: string, datasets: ReadonlyArray<Dataset>) =>
  (text: string): Effect.Effect<ReadonlyArray<Dataset>, CliError.ValidationError> => {
    const names = splitList(text)
    const known = datasets.join(", ")
    if (names.length === 0) {
      const message = `Name at least one dataset. ${source} fill: ${known}.`
      return Effect.fail(new CliError.ValidationError({ message }))
    }
    return Effect.forEach(names, (name) => {
      const table = name.replaceAll("-", "_")
      const found = datasets.find((dataset) => dataset === table)
      const message = `${source} do not fill ${name}.${formatNameSuggestion(table, datasets)} They fill: ${known}.`
      return found !== undefined ? Effect.succeed(found) : Effect.fail(new CliError.ValidationError({ message }))
    })
  }

/** Makes an error about an invalid command line. It prints the usage of the command, such as `ingest edgar`. */
export const makeUsageError = (command: string, message: string) =>
  new CliError.ShowHelp({
    commandPath: ["tickerline", ...command.split(" ")],
    errors: [new CliError.ValidationError({ message })],
  })

/** Fails if one of the addresses is not an HTTP URL. */
export const requireHttpUrls = (command: string, addresses: ReadonlyArray<string>) => {
  const invalid = addresses.find((address) => !/^https?:\/\/./i.test(address) || !URL.canParse(address))
  return invalid === undefined ? Effect.void : Effect.fail(
    makeUsageError(command, `${invalid} is not a URL. Expected a URL such as https://api.example.com.`),
  )
}

/** Whether text contains an API key. Arguments must not contain keys, as shell history and process lists show them. */
export const containsApiKey = (text: string) => redactApiKeys(text) !== text

/** Fails if one of the arguments contains an API key. */
export const refuseApiKeysInArguments = (command: string, values: ReadonlyArray<string>) =>
  values.some(containsApiKey)
    ? Effect.fail(makeUsageError(
      command,
      "Do not put an API key into an argument, where other users of this machine can read it. " +
        "Use TICKERLINE_KEY or --key-file.",
    ))
    : Effect.void

/** The examples of a command: its arguments, and what they do. */
type CommandExamples = Readonly<Record<string, string>>

const makeExamples = (program: string, examples: CommandExamples) =>
  Object.entries(examples).map(([args, description]) => ({ command: `${program} ${args}`, description }))

export const withExamples = (examples: CommandExamples) =>
  Command.withExamples(makeExamples(tickerlineCommand, examples))

/** Silences npm's own output in the examples except `others`, so that standard output contains only the result. */
export const withSilentExamples = (examples: CommandExamples, others: CommandExamples = {}) =>
  Command.withExamples([
    ...makeExamples(silentTickerlineCommand, examples),
    ...makeExamples(tickerlineCommand, others),
  ])
