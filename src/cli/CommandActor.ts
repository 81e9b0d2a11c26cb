/** Who runs a command, for the audit log: the user of the operating system, the host, and the command. */
import { Effect, Stdio } from "effect"
import type { Command } from "effect/cli"
import { hostname, userInfo } from "node:os"
import process from "node:process"
import type { SessionActor } from "../db/SessionActor.ts"

/** Returns the name of the user; its number if the system has no name for it, as in many containers. */
const findUserName = () => {
  try {
    return userInfo().username
  } catch {
    return String(process.getuid?.() ?? "unknown")
  }
}

/** Returns the names of the command in the arguments, without its own arguments: `keys rotate`. */
const findCommandNames = (command: Command.Command.Any, args: ReadonlyArray<string>): ReadonlyArray<string> => {
  const commands = command.subcommands.flatMap((group) => group.commands)
  for (const [index, name] of args.entries()) {
    const found = commands.find((one) => one.name === name)
    if (found !== undefined) return [name, ...findCommandNames(found, args.slice(index + 1))]
  }
  return []
}

export const makeCommandActor = Effect.fnUntraced(function* (command: Command.Command.Any) {
  const args = yield* (yield* Stdio.Stdio).args
  const actor: SessionActor = {
    actor: findUserName(),
    via: "command",
    origin: hostname(),
    operation: findCommandNames(command, args).join(" "),
  }
  return actor
})
