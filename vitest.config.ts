/** Every test: `npm run test:all`, or `npx vitest run NAME` for the files with this name. */
import { readFileSync } from "node:fs"
import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"
import { chooseTemporaryFolder } from "./test/support/TemporaryFolder.ts"

// The workers and the programs that they start inherit it.
process.env["TMPDIR"] = chooseTemporaryFolder()

const hasTag = (tag: string) => ({ moduleId }: TestSpecification) =>
  readFileSync(moduleId, "utf8").includes(`@module-tag ${tag}`)

/** Runs slow files first. Of the others, every fourth is one that mostly waits, so that none of them runs last. */
class SlowFilesFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>) {
    // oxlint-disable-next-line unicorn/no-array-sort -- It is the method of the base class.
    const sorted = await super.sort(files)
    const slow = sorted.filter(hasTag("slow"))
    const waiting = sorted.filter(hasTag("waiting")).filter((file) => !slow.includes(file))
    const others = sorted.filter((file) => !slow.includes(file) && !waiting.includes(file))
    const mixed = others.flatMap((file, index) =>
      index % 3 === 0 ? [...waiting.slice(index / 3, index / 3 + 1), file] : [file]
    )
    return [...slow, ...mixed, ...waiting.slice(Math.ceil(others.length / 3))]
  }
}

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["test/soak/**", "test/upgrade/**", "test/judges/**"],
    globalSetup: "test/support/globalSetup.ts",
    tags: [{
      name: "slow",
      description: "Starts browsers, servers or processes, or takes seconds of CPU time. `npm test` skips it.",
    }, {
      name: "waiting",
      description: "Mostly waits for timeouts, so it begins early.",
    }],
    // Evaluates modules once per worker instead of once per file.
    isolate: false,
    // The next run, such as the next step of `.ci/run`, does not transform unchanged files again.
    fsModuleCache: true,
    sequence: { sequencer: SlowFilesFirst },
    // More workers than cores, because tests often wait for locks, restarts and processes.
    maxWorkers: 4,
    // Tests wait for conditions. This limit only ends the ones that would wait forever.
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
})
