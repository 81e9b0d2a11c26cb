/** Reproducible random choices, including values for documented parameters. */
import type { DocumentedParameter, ParameterKind } from "./DocumentedEndpoints.ts"

/** A non-empty list of options. */
export type Choices<A> = readonly [A, ...ReadonlyArray<A>]

/** Returns a function that makes random choices. The same seed gives the same choices. */
export const makeRandomChooser = (seed: number) => {
  let state = seed >>> 0
  return <A>(options: Choices<A>): A => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0
    return options[(state >>> 8) % options.length] ?? options[0]
  }
}

/** A function returned by `makeRandomChooser`. */
export type RandomChooser = ReturnType<typeof makeRandomChooser>

/** Returns the values in random order. */
export const shuffle = <A>(choose: RandomChooser, values: ReadonlyArray<A>) =>
  values.map((value) => ({ value, key: choose([1, 2, 3, 4, 5, 6, 7, 8, 9]) * 10 + choose([1, 2, 3, 4, 5, 6, 7]) }))
    .toSorted((one, other) => one.key - other.key).map(({ value }) => value)

const numbers: Choices<string> = ["0", "7", "1000", "5.25", "1e4", "-1e300", "1e300", "9223372036854775807.5"]
const values: Readonly<Record<Exclude<ParameterKind, "words" | "tickers" | "integer" | "ticker">, Choices<string>>> = {
  number: numbers,
  date: ["2014-01-02", "2016-02-29", "2019-07-31", "2024-11-01"],
  boolean: ["true", "false"],
  sort: ["ticker", "-price", "float"],
  text: ["text", "text 1,text 2", "100%", "a_b'c\"d\\", "tag7", "8-K,news", 'or -x "y', "AB,CD,EF", "/v1/news"],
}

/**
 * Chooses a valid value for the parameter. The number of tickers is chosen with `chooseShape`, because it affects the
 * shape of the SQL. Everything else is chosen with `choose`.
 */
export const chooseParameterValue = (
  { kind, words }: DocumentedParameter,
  chooseShape: RandomChooser,
  choose: RandomChooser,
) => {
  const [first, ...rest] = words
  if (first !== undefined) return choose([first, ...rest, words.join(",")])
  if (kind === "words" || kind === "integer") return "7"
  if (kind === "ticker") return `T${choose([1, 2, 7, 50])}`
  if (kind !== "tickers") return choose(values[kind])
  return Array.from({ length: chooseShape([1, 1, 2, 3, 4, 9]) }, () => `T${choose([1, 2, 7, 50, 300, 1499])}`).join(",")
}
