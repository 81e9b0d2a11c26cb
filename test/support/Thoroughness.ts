/** Lets `npm test` skip slow tests and most inputs. With `TEST_DEPTH=sampled`, only inputs are skipped. */
import { Effect } from "effect"
import { TestRunner } from "vitest"

/** The test depth. `fast` skips slow tests and most inputs, and `sampled` skips only most inputs. */
const depth = process.env["TEST_DEPTH"]
const hasAllInputs = depth !== "fast" && depth !== "sampled"

/** Skips the current test in `npm test`. Call this at the beginning of each slow test. */
export const skipUnlessThorough = Effect.sync(() => {
  if (depth === "fast") TestRunner.getCurrentTest()?.context.skip("slow")
})

/**
 * Returns the number of inputs that a property test should try: all of them, or one tenth, but at least 3 (`fast`) or 5
 * (`sampled`).
 */
export const getInputCount = (count: number) =>
  hasAllInputs ? count : Math.min(count, Math.max(depth === "fast" ? 3 : 5, Math.ceil(count / 10)))

/** Returns all values, or if most inputs are skipped, every `step`-th value starting at index `offset % step`. */
export const sampleUnlessThorough = <A>(values: ReadonlyArray<A>, step: number, offset: number): ReadonlyArray<A> =>
  hasAllInputs ? values : values.filter((_, index) => index % step === offset % step)
