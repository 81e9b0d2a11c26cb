/** What `npm test` omits: slow tests, and most random inputs. Every other command runs all tests with all inputs. */
import { Effect } from "effect"
import { TestRunner } from "vitest"

const isThorough = process.env["TEST_DEPTH"] !== "fast"

/** Skips the current test in `npm test`. This is the first line of each slow test. */
export const skipUnlessThorough = Effect.sync(() => {
  if (!isThorough) TestRunner.getCurrentTest()?.context.skip("slow")
})

/** Returns the number of random inputs for a property test. In `npm test` it is a tenth of `count`, at least ten. */
export const inputs = (count: number) => isThorough ? count : Math.min(count, Math.max(10, Math.ceil(count / 10)))

/** Returns all values. In `npm test` it returns every `step`-th value, beginning at `offset % step`. */
export const someOf = <A>(values: ReadonlyArray<A>, step: number, offset: number): ReadonlyArray<A> =>
  isThorough ? values : values.filter((_, index) => index % step === offset % step)
