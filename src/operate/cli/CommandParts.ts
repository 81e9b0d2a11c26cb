/** Parts that several commands share: names, flags, usage errors, and examples in the help. */
import { Data, Effect, Schema } from "effect"
import { Argument, CliError, Command, Flag } from "effect/cli"
import { silentTickerlineCommand, tickerlineCommand } from "../../postgres/ProjectCommands.js"
import { redactApiKeys } from "../../contract/rules/Errors.ts"
import { formatNameSuggestion } from "../../contract/rules/Suggestions.ts"

/** A command cannot do what it was asked to do. The message tells the user why, and how to proceed. */
export class CommandFailed extends Data.TaggedError("CommandFailed")<{ readonly message: string }> {}

/** Creates a required flag, whose value is decoded with the schema. */
export const makeFlag = <A>(name: string, schema: Schema.Codec<A, string>, description: string) =>
  Flag.String(name).pipe(Flag.withSchema(schema), Flag.withDescription(description))

/** Creates a required argument, which is decoded with the schema. */
export const makeArgument = <A>(name: string, schema: Schema.Codec<A, string>, description: string) =>
  Argument.String(name).pipe(Argument.withSchema(schema), Argument.withDescription(description))

/** Creates a flag that takes no value and is off by default. */
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

/** Splits a list at its commas, and drops empty entries. */
export const splitList = (text: string) => text.split(",").map((name) => name.trim()).filter((name) => name !== "")

/**
 * Creates a parser for a list of datasets that a source can fill. It runs before the command connects to the database.
 * `source` is the source's name in the plural, such as `Prices`, and starts the error messages.
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

/** Creates the error for an invalid command line. It prints the usage of the command, such as `ingest edgar`. */
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

/**
 * Whether text contains an API key. Arguments must not contain one, because shell histories and process lists show
 * them.
 */
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

/** Adds examples to the help of a command. */
export const withExamples = (examples: CommandExamples) =>
  Command.withExamples(makeExamples(tickerlineCommand, examples))

/**
 * Adds examples to the help of a command. All but `others` silence npm's own output, so that standard output contains
 * only the result.
 */
export const withSilentExamples = (examples: CommandExamples, others: CommandExamples = {}) =>
  Command.withExamples([
    ...makeExamples(silentTickerlineCommand, examples),
    ...makeExamples(tickerlineCommand, others),
  ])
