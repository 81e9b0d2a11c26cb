/**
 * Generates shell completions. Effect generates the scripts; this module adds the possible values of text arguments.
 */
import { Console, Effect, Option } from "effect"
import { CliConfig, Completions, GlobalFlag } from "effect/cli"
import { catalogueEndpoints } from "../../api/catalogue/Endpoints.ts"
import { loadableDatasets } from "../../contract/Datasets.ts"

/** The values that the shell suggests for an argument, by argument name. */
const words: Readonly<Record<string, ReadonlyArray<string>>> = {
  dataset: loadableDatasets.map(({ table }) => table.replaceAll("_", "-")),
  path: catalogueEndpoints.filter(({ isEndless }) => !isEndless).map(({ row }) => row.path),
}

const helpFlag: Completions.FlagDescriptor = {
  name: "help",
  aliases: ["h"],
  description: "Show help information",
  type: { _tag: "Boolean" },
  negation: false,
}

const addWords = (command: Completions.CommandDescriptor): Completions.CommandDescriptor => ({
  ...command,
  flags: [...command.flags, helpFlag],
  arguments: command.arguments.map((argument) => {
    const values = words[argument.name]
    return values === undefined ? argument : { ...argument, type: { _tag: "Choice", values } }
  }),
  subcommands: command.subcommands.map(addWords),
})

const completionsFlag = GlobalFlag.Action({
  flag: GlobalFlag.Completions.flag,
  run: (shell, { command }) =>
    Option.match(shell, {
      onNone: () => Effect.void,
      onSome: (shell) =>
        Console.log(Completions.generate(command.name, shell, addWords(Completions.fromCommand(command)))),
    }),
})

/** Adds the `--completions bash|zsh|fish|powershell` flag to the command line. */
export const shellCompletionsLayer = CliConfig.layer({
  builtIns: [GlobalFlag.Help, GlobalFlag.Version, completionsFlag, GlobalFlag.LogLevel],
})
