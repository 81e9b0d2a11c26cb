/** What a shell completes: Effect's own script for it, told the words that arguments of free text take. */
import { Console, Effect, Option } from "effect"
import { CliConfig, Completions, GlobalFlag } from "effect/cli"

/** Words by the name of an argument. */
export type CompletionWords = Readonly<Record<string, ReadonlyArray<string>>>

const anywhere: ReadonlyArray<Completions.FlagDescriptor> = [
  { name: "help", aliases: ["h"], description: "Show help information", type: { _tag: "Boolean" }, negation: false },
]

const told = (words: CompletionWords) => {
  const enrich = (command: Completions.CommandDescriptor): Completions.CommandDescriptor => ({
    ...command,
    flags: [...command.flags, ...anywhere],
    arguments: command.arguments.map((argument) => {
      const values = words[argument.name]
      return values === undefined ? argument : { ...argument, type: { _tag: "Choice", values } }
    }),
    subcommands: command.subcommands.map(enrich),
  })
  return (command: Parameters<typeof Completions.fromCommand>[0]) => enrich(Completions.fromCommand(command))
}

/** `--completions bash|zsh|fish|powershell`. */
export const completionsLayer = (words: CompletionWords) => {
  const describe = told(words)
  const completions = GlobalFlag.Action({
    flag: GlobalFlag.Completions.flag,
    run: (shell, { command }) =>
      Option.match(shell, {
        onNone: () => Effect.void,
        onSome: (named) => Console.log(Completions.generate(command.name, named, describe(command))),
      }),
  })
  return CliConfig.layer({
    builtIns: [GlobalFlag.Help, GlobalFlag.Version, completions, GlobalFlag.LogLevel],
  })
}
