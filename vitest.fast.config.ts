/** `npm test`: the tests to run after every change. Skips slow tests and tries fewer random inputs. */
import { defineConfig } from "vitest/config"
import everything from "./vitest.config.ts"

export default defineConfig({
  test: {
    ...everything.test,
    tagsFilter: ["!slow"],
    env: { TEST_DEPTH: "fast" },
    // `skipUnlessThorough` ends a test by throwing this error, which @effect/vitest logs.
    onConsoleLog: (log) => !log.includes("VITEST_PENDING"),
  },
})
