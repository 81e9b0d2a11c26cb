/** `npm run soak`: what takes too long to run at every change. What clients saw is kept beside the benchmark's results. */
import { defineConfig } from "vitest/config"
import everything from "./vitest.config.ts"

const stamp = new Date().toISOString().slice(0, 19).replaceAll(":", "-")

export default defineConfig({
  test: {
    ...everything.test,
    include: ["test/faults/**/*.test.ts", "test/soak/**/*.test.ts"],
    exclude: [],
    // Measured are waits, which other tests beside would lengthen.
    maxWorkers: 1,
    testTimeout: 3_600_000,
    env: { FAULTS_SEEN: `bench/results/soak-${stamp}.jsonl` },
  },
})
