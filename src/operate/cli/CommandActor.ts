/**
 * Determines who is running a command, for the audit log: the operating-system user, the host, and the name of the
 * command.
 */
import { Effect, Stdio } from "effect"
import type { Command } from "effect/cli"
import { hostname, userInfo } from "node:os"
import process from "node:process"
import type { SessionActor } from "../../postgres/SessionActor.ts"

/**
 * Calls `read`, which reads a fact about the system. Returns undefined if the fact is unavailable, as in many
 * containers, or if the runtime denies access.
 */
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

/**
 * Returns the names of the command and its subcommands in the arguments, such as `keys rotate`. All other arguments are
 * left out.
 */
const findCommandNames = (command: Command.Command.Any, args: ReadonlyArray<string>): ReadonlyArray<string> => {
  const commands = command.subcommands.flatMap((group) => group.commands)
  for (const [index, name] of args.entries()) {
    const found = commands.find((one) => one.name === name)
    if (found !== undefined) return [name, ...findCommandNames(found, args.slice(index + 1))]
  }
  return []
}

/** Returns the audit-log actor for this process. */
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
