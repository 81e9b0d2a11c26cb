/** Capabilities of standard output and standard error: colors, Unicode, width, and line redrawing. */
import { Config, Effect, Layer, Option, Stdio } from "effect"
import { TerminalCapabilities } from "effect/cli"
import process from "node:process"
import { styleText } from "node:util"
import { escapeTerminalLines } from "./TerminalText.ts"

type TextStyle = "bold" | "dim" | "red" | "green" | "yellow" | "cyan"

/** The capabilities of an output stream. */
export interface OutputCapabilities {
  readonly isTerminal: boolean
  /** Whether a line can be redrawn in place. False in CI, because the log would contain every redraw. */
  readonly canRedraw: boolean
  /** Whether the stream can display non-ASCII characters. */
  readonly hasUnicode: boolean
  /** Returns the current width in columns. Infinity if the output is a file or a pipe. */
  readonly columns: () => number
  readonly hasColors: boolean
  /**
   * Styles the text if colors are enabled, which depends on `NO_COLOR`, `FORCE_COLOR`, `TERM`, and the output stream.
   */
  readonly paint: (style: TextStyle, text: string) => string
}

/**
 * The locale that determines the character encoding: the value of the first of these variables that is set, as POSIX
 * specifies.
 */
const locale = Effect.map(
  Config.all([
    Config.option(Config.String("LC_ALL")),
    Config.option(Config.String("LC_CTYPE")),
    Config.option(Config.String("LANG")),
  ]),
  (variables) => Option.getOrElse(Option.firstSomeOf(variables), () => ""),
)

/** The width to assume for a terminal that does not report its width. */
const defaultColumns = 80

/**
 * Determines the capabilities of an output stream from its type (terminal, or file or pipe) and from environment
 * variables such as `NO_COLOR`, `TERM`, and `LANG`.
 */
const readOutputCapabilities = Effect.fnUntraced(
  function* (stream: "stdout" | "stderr"): Effect.fn.Return<OutputCapabilities, Config.ConfigError, Stdio.Stdio> {
    const stdio = yield* Stdio.Stdio
    const isTerminal = yield* stream === "stdout" ? stdio.stdoutIsTerminal : stdio.stderrIsTerminal
    // Effect applies its rules for colors and animation only to standard output. Here, the same rules are applied to
    // standard error too.
    const capabilities = Layer.fresh(TerminalCapabilities.layer).pipe(
      Layer.provide(Layer.succeed(Stdio.Stdio, { ...stdio, stdoutIsTerminal: Effect.succeed(isTerminal) })),
    )
    const { canAnimate, canColor } = yield* Effect.provide(TerminalCapabilities.TerminalCapabilities, capabilities)
    return {
      isTerminal,
      canRedraw: canAnimate && Option.isNone(yield* Config.option(Config.String("CI"))),
      hasColors: canColor,
      hasUnicode: /utf-?8/i.test(yield* locale),
      // Read on every call, because the user may resize the terminal.
      columns: () => isTerminal ? process[stream].columns || defaultColumns : Number.POSITIVE_INFINITY,
      paint: (style, text) => canColor ? styleText(style, text, { validateStream: false }) : text,
    }
  },
  Effect.orDie,
)

/** Reads the capabilities of standard output. */
export const stdoutCapabilities = readOutputCapabilities("stdout")

/** Reads the capabilities of standard error. */
export const stderrCapabilities = readOutputCapabilities("stderr")

/** Escapes control characters if the output is a terminal. Text for pipes and files is left unchanged. */
export const escapeOnTerminal = ({ isTerminal }: OutputCapabilities, text: string) =>
  isTerminal ? escapeTerminalLines(text) : text
