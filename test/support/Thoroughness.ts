/** How much `npm test` does: it skips slow tests and tries fewer random inputs. Every other command does everything. */
import { Effect } from "effect"
import { TestRunner } from "vitest"

const isThorough = process.env["TEST_DEPTH"] !== "fast"

/** The first line of a slow test. `npm test` skips the test there. */
export const skipUnlessThorough = Effect.sync(() => {
  if (!isThorough) TestRunner.getCurrentTest()?.context.skip("slow")
})

/** Number of random inputs of a property test: `npm test` tries a tenth of `count`, but at least ten. */
export const inputs = (count: number) => isThorough ? count : Math.min(count, Math.max(10, Math.ceil(count / 10)))

/** All values. In `npm test` every `step`-th, beginning at `offset`, so that other offsets get other values. */
export const someOf = <A>(values: ReadonlyArray<A>, step: number, offset: number): ReadonlyArray<A> =>
  isThorough ? values : values.filter((_, index) => index % step === offset % step)
