/** `npm run test:upgrade`: the last release, as its history has it, and this one serve beside each other. */
import { defineConfig } from "vitest/config"
import everything from "./vitest.config.ts"

export default defineConfig({
  test: {
    ...everything.test,
    include: ["test/upgrade/**/*.test.ts"],
    exclude: [],
    globalSetup: [],
    testTimeout: 900_000,
  },
})
