/** Asks the user of a terminal to confirm what a command is about to do. */
import { Effect, Stdio } from "effect"
import { Prompt } from "effect/cli"
import { whileProgressHidden } from "./ProgressDisplay.ts"

/** Asks a question, whose default is no. Returns false without a terminal, because nobody can answer there. */
export const askOnTerminal = Effect.fnUntraced(function* (message: string) {
  const { stdinIsTerminal, stdoutIsTerminal } = yield* Stdio.Stdio
  if (!(yield* stdinIsTerminal) || !(yield* stdoutIsTerminal)) return false
  return yield* whileProgressHidden(Prompt.run(Prompt.Confirm({ message, initial: false })))
}, Effect.catchTag("QuitError", () => Effect.interrupt))
