/** Parts shared by several commands: names, flags, and help examples. */
import { Schema } from "effect"
import { Flag } from "effect/cli"

/** The name of an account or a key, or the reference of a payment. */
export const TrimmedName = Schema.String.check(
  Schema.makeFilter((name: string) => name !== "" && name.trim() === name && !/\p{Cc}/u.test(name), {
    message: "must not be empty, start or end with white space, or contain control characters",
  }),
)

/** A flag that takes no value and is false by default. */
export const makeBooleanFlag = (name: string, description: string) =>
  Flag.Boolean(name).pipe(Flag.withDescription(description), Flag.withDefault(false))

export const makeExample = (args: string, description: string) => ({
  command: `npm run tickerline -- ${args}`,
  description,
})

/** An example that silences npm's own output, so that standard output contains only the result. */
export const makeSilentExample = (args: string, description: string) => ({
  command: `npm run --silent tickerline -- ${args}`,
  description,
})
