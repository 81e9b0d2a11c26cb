import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["test/soak/**", "test/upgrade/**"],
    globalSetup: "test/support/globalSetup.ts",
    // Much of the time tests wait for locks, restarts and processes.
    maxWorkers: 4,
    // A server is started, a table locked for seconds: the wait is for conditions, not for this.
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
})
