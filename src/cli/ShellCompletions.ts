/** Shell completions. Effect generates the scripts; this module adds the possible values of text arguments. */
import { Console, Effect, Option } from "effect"
import { CliConfig, Completions, GlobalFlag } from "effect/cli"

/** The values that a shell completes for each argument of a command, by the name of the argument. */
type CompletionWords = Readonly<Record<string, ReadonlyArray<string>>>

const helpFlag: Completions.FlagDescriptor = {
  name: "help",
  aliases: ["h"],
  description: "Show help information",
  type: { _tag: "Boolean" },
  negation: false,
}

const makeDescriber = (words: CompletionWords) => {
  const addWords = (command: Completions.CommandDescriptor): Completions.CommandDescriptor => ({
    ...command,
    flags: [...command.flags, helpFlag],
    arguments: command.arguments.map((argument) => {
      const values = words[argument.name]
      return values === undefined ? argument : { ...argument, type: { _tag: "Choice", values } }
    }),
    subcommands: command.subcommands.map(addWords),
  })
  return (command: Parameters<typeof Completions.fromCommand>[0]) => addWords(Completions.fromCommand(command))
}

/** Adds the flag `--completions bash|zsh|fish|powershell`. */
export const shellCompletionsLayer = (words: CompletionWords) => {
  const describe = makeDescriber(words)
  const completionsFlag = GlobalFlag.Action({
    flag: GlobalFlag.Completions.flag,
    run: (shell, { command }) =>
      Option.match(shell, {
        onNone: () => Effect.void,
        onSome: (shell) => Console.log(Completions.generate(command.name, shell, describe(command))),
      }),
  })
  return CliConfig.layer({
    builtIns: [GlobalFlag.Help, GlobalFlag.Version, completionsFlag, GlobalFlag.LogLevel],
  })
}
