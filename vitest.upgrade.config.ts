/** `npm run test:upgrade`: the last release, as its history has it, and this one serve beside each other. */
import { defineConfig } from "vitest/config"
import usual from "./vitest.config.ts"

export default defineConfig({
  test: { ...usual.test, include: ["test/upgrade/**/*.test.ts"], exclude: [], globalSetup: [], testTimeout: 900_000 },
})
