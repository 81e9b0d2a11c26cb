/** What standard output and standard error can show: a terminal, a file and a pipe are written to differently. */
import { Config, Effect, Layer, Option, Stdio } from "effect"
import { TerminalCapabilities } from "effect/cli"
import process from "node:process"
import { styleText } from "node:util"

export type TextStyle = "bold" | "dim" | "red" | "green" | "yellow" | "cyan"

export interface Screen {
  readonly isTerminal: boolean
  /** A line may be written over: a person watches, and no log keeps what passes. */
  readonly canRedraw: boolean
  /** Signs beyond ASCII are shown as what they are. */
  readonly unicode: boolean
  /** The columns of this moment; a file has no end. */
  readonly columns: () => number
  readonly colors: boolean
  /** The text itself where colours are not wanted: `NO_COLOR`, `FORCE_COLOR`, `TERM=dumb`, no terminal. */
  readonly paint: (style: TextStyle, text: string) => string
}

/** Effect's own rules, which it applies to standard output, for either. */
const capabilities = (isTerminal: Effect.Effect<boolean>) =>
  Effect.gen(function* () {
    const stdio = yield* Stdio.Stdio
    const own = Layer.succeed(Stdio.Stdio, { ...stdio, stdoutIsTerminal: isTerminal })
    return yield* TerminalCapabilities.TerminalCapabilities.pipe(
      Effect.provide(Layer.fresh(TerminalCapabilities.layer).pipe(Layer.provide(own))),
    )
  })

/** POSIX: the first of them that is set decides, and none of them means ASCII. */
const locale = Effect.map(
  Config.all([
    Config.option(Config.String("LC_ALL")),
    Config.option(Config.String("LC_CTYPE")),
    Config.option(Config.String("LANG")),
  ]),
  (named) => Option.getOrElse(Option.firstSomeOf(named), () => ""),
)

const given = (name: string) => Effect.map(Config.option(Config.String(name)), Option.isSome)

/** A terminal that does not tell its width has the one that terminals always had. */
const usual = 80

const screen = Effect.fnUntraced(
  function* (stream: "stdout" | "stderr"): Effect.fn.Return<Screen, Config.ConfigError, Stdio.Stdio> {
    const stdio = yield* Stdio.Stdio
    const isTerminal = yield* stream === "stdout" ? stdio.stdoutIsTerminal : stdio.stderrIsTerminal
    const { canAnimate, canColor } = yield* capabilities(Effect.succeed(isTerminal))
    const moves = canAnimate && !(yield* given("CI"))
    const unicode = /utf-?8/i.test(yield* locale)
    return {
      isTerminal,
      canRedraw: moves,
      colors: canColor,
      unicode,
      columns: () => isTerminal ? process[stream].columns || usual : Number.POSITIVE_INFINITY,
      paint: (style, text) => canColor ? styleText(style, text, { validateStream: false }) : text,
    }
  },
  Effect.orDie,
)

export const stdoutScreen = screen("stdout")

export const stderrScreen = screen("stderr")
