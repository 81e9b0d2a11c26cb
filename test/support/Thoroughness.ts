/** Lets `npm test` omit slow tests and most inputs. `TEST_DEPTH=sampled` omits only the inputs. */
import { Effect } from "effect"
import { TestRunner } from "vitest"

/** `fast` skips slow tests and most inputs, `sampled` only skips most inputs. */
const depth = process.env["TEST_DEPTH"]
const hasAllInputs = depth !== "fast" && depth !== "sampled"

/** Skips the current test in `npm test`. This is the first line of each slow test. */
export const skipUnlessThorough = Effect.sync(() => {
  if (depth === "fast") TestRunner.getCurrentTest()?.context.skip("slow")
})

/** Returns the number of inputs of a property test: all, or a tenth, but at least 3 (`fast`) or 5 (`sampled`). */
export const getInputCount = (count: number) =>
  hasAllInputs ? count : Math.min(count, Math.max(depth === "fast" ? 3 : 5, Math.ceil(count / 10)))

/** Returns all values. If most are skipped, it returns every `step`-th value, beginning at `offset % step`. */
export const sampleUnlessThorough = <A>(values: ReadonlyArray<A>, step: number, offset: number): ReadonlyArray<A> =>
  hasAllInputs ? values : values.filter((_, index) => index % step === offset % step)
