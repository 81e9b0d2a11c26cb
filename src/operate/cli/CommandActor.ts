/** Who runs a command, for the audit log: the user of the operating system, the host, and the command. */
import { Effect, Stdio } from "effect"
import type { Command } from "effect/cli"
import { hostname, userInfo } from "node:os"
import process from "node:process"
import type { SessionActor } from "../../postgres/SessionActor.ts"

/** Returns a fact about the system; undefined if it has none, as in many containers, or if the runtime may not ask. */
const ask = (read: () => string) => {
  try {
    return read()
  } catch {
    return undefined
  }
}

const findUserName = () =>
  ask(() => userInfo().username) ?? process.env["LOGNAME"] ?? process.env["USER"] ??
    ask(() => String(process.getuid?.())) ?? "unknown"

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
    origin: ask(hostname) ?? "unknown",
    operation: findCommandNames(command, args).join(" "),
  }
  return actor
})
