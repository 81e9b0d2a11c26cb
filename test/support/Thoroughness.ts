/** Lets `npm test` skip slow tests and most inputs. `TEST_DEPTH=sampled` only skips inputs. */
import { Effect } from "effect"
import { TestRunner } from "vitest"

/** `fast` skips slow tests and most inputs, `sampled` only skips most inputs. */
const depth = process.env["TEST_DEPTH"]
const hasAllInputs = depth !== "fast" && depth !== "sampled"

/** Skips the current test in `npm test`. Begin each slow test with it. */
export const skipUnlessThorough = Effect.sync(() => {
  if (depth === "fast") TestRunner.getCurrentTest()?.context.skip("slow")
})

/** Returns how many inputs a property test should try: all, or a tenth, but at least 3 (`fast`) or 5 (`sampled`). */
export const getInputCount = (count: number) =>
  hasAllInputs ? count : Math.min(count, Math.max(depth === "fast" ? 3 : 5, Math.ceil(count / 10)))

/** Returns all values or, if most are to be skipped, every `step`-th one, starting at `offset % step`. */
export const sampleUnlessThorough = <A>(values: ReadonlyArray<A>, step: number, offset: number): ReadonlyArray<A> =>
  hasAllInputs ? values : values.filter((_, index) => index % step === offset % step)
