/** Asks the user at a terminal to confirm an operation before a command performs it. */
import { Effect, Stdio } from "effect"
import { Prompt } from "effect/cli"
import { whileProgressHidden } from "./ProgressDisplay.ts"

/**
 * Asks a yes-or-no question. The default answer is no. Returns false without asking if there is no terminal, because
 * nobody could answer.
 */
export const confirmOnTerminal = Effect.fnUntraced(function* (message: string) {
  const { stdinIsTerminal, stdoutIsTerminal } = yield* Stdio.Stdio
  if (!(yield* stdinIsTerminal) || !(yield* stdoutIsTerminal)) return false
  return yield* whileProgressHidden(Prompt.run(Prompt.Confirm({ message, initial: false })))
}, Effect.catchTag("QuitError", () => Effect.interrupt))
