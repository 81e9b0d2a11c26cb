/** Capabilities of standard output and standard error: colors, Unicode, width, and line redrawing. */
import { Config, Effect, Layer, Option, Stdio } from "effect"
import { TerminalCapabilities } from "effect/cli"
import process from "node:process"
import { styleText } from "node:util"
import { escapeTerminalLines } from "./TerminalText.ts"

type TextStyle = "bold" | "dim" | "red" | "green" | "yellow" | "cyan"

/** What an output stream can display. */
export interface OutputCapabilities {
  readonly isTerminal: boolean
  /** Whether a line can be redrawn. False in CI, whose logs would contain every redraw. */
  readonly canRedraw: boolean
  /** Whether non-ASCII characters can be displayed. */
  readonly hasUnicode: boolean
  /** The current width in columns. Infinite for a file or pipe. */
  readonly columns: () => number
  readonly hasColors: boolean
  /** Styles text, if colors are on. `NO_COLOR`, `FORCE_COLOR`, `TERM` and the output stream determine that. */
  readonly paint: (style: TextStyle, text: string) => string
}

/** The locale that determines the character encoding, which is the first of these variables that is set (POSIX). */
const locale = Effect.map(
  Config.all([
    Config.option(Config.String("LC_ALL")),
    Config.option(Config.String("LC_CTYPE")),
    Config.option(Config.String("LANG")),
  ]),
  (variables) => Option.getOrElse(Option.firstSomeOf(variables), () => ""),
)

/** Assumed width of a terminal that does not report one. */
const defaultColumns = 80

/** Finds out what an output stream can display, from its type and the environment. */
const readOutputCapabilities = Effect.fnUntraced(
  function* (stream: "stdout" | "stderr"): Effect.fn.Return<OutputCapabilities, Config.ConfigError, Stdio.Stdio> {
    const stdio = yield* Stdio.Stdio
    const isTerminal = yield* stream === "stdout" ? stdio.stdoutIsTerminal : stdio.stderrIsTerminal
    // Effect applies its rules for colors and animation to standard output, but they suit standard error too.
    const capabilities = Layer.fresh(TerminalCapabilities.layer).pipe(
      Layer.provide(Layer.succeed(Stdio.Stdio, { ...stdio, stdoutIsTerminal: Effect.succeed(isTerminal) })),
    )
    const { canAnimate, canColor } = yield* Effect.provide(TerminalCapabilities.TerminalCapabilities, capabilities)
    return {
      isTerminal,
      canRedraw: canAnimate && Option.isNone(yield* Config.option(Config.String("CI"))),
      hasColors: canColor,
      hasUnicode: /utf-?8/i.test(yield* locale),
      columns: () => isTerminal ? process[stream].columns || defaultColumns : Number.POSITIVE_INFINITY,
      paint: (style, text) => canColor ? styleText(style, text, { validateStream: false }) : text,
    }
  },
  Effect.orDie,
)

/** What standard output can display. */
export const stdoutCapabilities = readOutputCapabilities("stdout")

/** What standard error can display. */
export const stderrCapabilities = readOutputCapabilities("stderr")

/** Escapes control characters if the output is a terminal. Pipes and files get the text unchanged. */
export const escapeOnTerminal = ({ isTerminal }: OutputCapabilities, text: string) =>
  isTerminal ? escapeTerminalLines(text) : text
