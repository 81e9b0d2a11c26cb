/** Helpers that several commands share: names, flags, usage errors, and help examples. */
import { Data, Effect, Schema } from "effect"
import { Argument, CliError, Command, Flag } from "effect/cli"
import { silentTickerlineCommand, tickerlineCommand } from "../../postgres/ProjectCommands.js"
import { redactApiKeys } from "../../contract/rules/ApiErrors.ts"
import { formatNameSuggestion } from "../../contract/rules/NameSuggestions.ts"

/** The command cannot do what was requested. The message tells the user why, and how to proceed. */
export class CommandFailed extends Data.TaggedError("CommandFailed")<{ readonly message: string }> {}

/** Creates a required flag. Its value is decoded with the schema. */
export const makeFlag = <A>(name: string, schema: Schema.Codec<A, string>, description: string) =>
  Flag.String(name).pipe(Flag.withSchema(schema), Flag.withDescription(description))

/** Creates a required argument. Its value is decoded with the schema. */
export const makeArgument = <A>(name: string, schema: Schema.Codec<A, string>, description: string) =>
  Argument.String(name).pipe(Argument.withSchema(schema), Argument.withDescription(description))

/** Creates a flag that takes no value and defaults to false. */
export const makeBooleanFlag = (name: string, description: string) =>
  Flag.Boolean(name).pipe(Flag.withDescription(description), Flag.withDefault(false))

/** The flags of commands that call a running service. */
export const serviceConnectionFlags = {
  url: Flag.optional(makeFlag("url", Schema.String, "Address of a different service than the configured one")),
  // `Path`, unlike `File`, accepts a pipe, such as `<(pass show key)`.
  keyFile: Flag.Path("key-file").pipe(
    Flag.withDescription("File that contains the API key (default: TICKERLINE_KEY, then the demo key)"),
    Flag.optional,
  ),
}

/** Splits a comma-separated list, and drops empty entries. */
export const splitList = (text: string) => text.split(",").map((name) => name.trim()).filter((name) => name !== "")

/**
 * Returns a function that parses a comma-separated list of datasets, and fails if the source does not provide one of
 * them. Parsing runs before the command connects to the database.
 * `source` is the plural name of the source, such as `Prices`. Error messages begin with it.
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

/**
 * Creates the error for an invalid command line. The error prints the usage of the given command, such as `ingest
 * edgar`.
 */
export const makeUsageError = (command: string, message: string) =>
  new CliError.ShowHelp({
    commandPath: ["tickerline", ...command.split(" ")],
    errors: [new CliError.ValidationError({ message })],
  })

/** Fails if any of the addresses is not an HTTP URL. */
export const requireHttpUrls = (command: string, addresses: ReadonlyArray<string>) => {
  const invalid = addresses.find((address) => !/^https?:\/\/./i.test(address) || !URL.canParse(address))
  return invalid === undefined ? Effect.void : Effect.fail(
    makeUsageError(command, `${invalid} is not a URL. Expected a URL such as https://api.example.com.`),
  )
}

/**
 * Returns whether the text contains an API key. Arguments must not contain API keys, because shell histories and
 * process lists expose them.
 */
export const containsApiKey = (text: string) => redactApiKeys(text) !== text

/** Fails if any of the arguments contains an API key. */
export const refuseApiKeysInArguments = (command: string, values: ReadonlyArray<string>) =>
  values.some(containsApiKey)
    ? Effect.fail(makeUsageError(
      command,
      "Do not put an API key into an argument, where other users of this machine can read it. " +
        "Use TICKERLINE_KEY or --key-file.",
    ))
    : Effect.void

/** The help examples of a command: maps the arguments of each example to its description. */
type CommandExamples = Readonly<Record<string, string>>

const makeExamples = (program: string, examples: CommandExamples) =>
  Object.entries(examples).map(([args, description]) => ({ command: `${program} ${args}`, description }))

/** Adds examples to a command's help. */
export const withExamples = (examples: CommandExamples) =>
  Command.withExamples(makeExamples(tickerlineCommand, examples))

/**
 * Adds examples to a command's help. The output of those in `examples` can be piped into another program, because they
 * silence npm's own output. Those in `others` do not.
 */
export const withPipeableExamples = (examples: CommandExamples, others: CommandExamples = {}) =>
  Command.withExamples([
    ...makeExamples(silentTickerlineCommand, examples),
    ...makeExamples(tickerlineCommand, others),
  ])
