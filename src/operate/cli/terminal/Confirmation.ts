/** Asks the user at a terminal to confirm what a command is about to do. */
import { Effect, Stdio } from "effect"
import { Prompt } from "effect/cli"
import { whileProgressHidden } from "./ProgressDisplay.ts"

/** Asks a question whose default answer is no. Without a terminal, returns false, because nobody can answer. */
export const askOnTerminal = Effect.fnUntraced(function* (message: string) {
  const { stdinIsTerminal, stdoutIsTerminal } = yield* Stdio.Stdio
  if (!(yield* stdinIsTerminal) || !(yield* stdoutIsTerminal)) return false
  return yield* whileProgressHidden(Prompt.run(Prompt.Confirm({ message, initial: false })))
}, Effect.catchTag("QuitError", () => Effect.interrupt))
