/**
 * Projects: `all` is every test, `fast` is what `npm test` runs, `soak` and `upgrade` take too long for every change.
 * `npx vitest run NAME` runs the files of `all` with this name; `--project` chooses another project.
 */
import { globSync, readFileSync } from "node:fs"
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"
import { chooseTemporaryFolder } from "./test/support/TemporaryFolder.ts"

// The workers and the programs that they start inherit it.
process.env["TMPDIR"] = chooseTemporaryFolder()

const isTagged = (file: string, tag: string) => readFileSync(file, "utf8").includes(`@module-tag ${tag}`)
const hasTag = (tag: string) => ({ moduleId }: TestSpecification) => isTagged(moduleId, tag)

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

const include = ["test/**/*.test.ts"]
const exclude = ["test/soak/**", "test/upgrade/**", "test/judges/**"]
const globalSetup = "test/support/globalSetup.ts"
const stamp = new Date().toISOString().slice(0, 19).replaceAll(":", "-")

const all: TestProjectInlineConfiguration = { extends: true, test: { name: "all", include, exclude, globalSetup } }

/** The projects that `--project` can name. */
const others: ReadonlyArray<TestProjectInlineConfiguration> = [{
  // Skips slow files and tests, and tries fewer random inputs.
  extends: true,
  test: {
    name: "fast",
    include,
    exclude: [...exclude, ...globSync(include, { exclude }).filter((file) => isTagged(file, "slow"))],
    globalSetup,
    env: { TEST_DEPTH: "fast" },
  },
}, {
  // Saves the requests and their responses in the folder of the benchmark's results.
  extends: true,
  test: {
    name: "soak",
    include: ["test/faults/**/*.test.ts", "test/soak/**/*.test.ts"],
    globalSetup,
    // Other tests at the same time would lengthen the waits that these tests measure.
    maxWorkers: 1,
    testTimeout: 3_600_000,
    env: { FAULTS_SEEN: `bench/results/soak-${stamp}.jsonl` },
  },
}, {
  // This project and an invented next release serve the same database.
  extends: true,
  test: { name: "upgrade", include: ["test/upgrade/**/*.test.ts"], testTimeout: 900_000 },
}]

// Without `--project`, Vitest would run every project, and most files twice.
const projects = process.argv.some((argument) => /^--project\b/.test(argument)) ? [all, ...others] : [all]

export default defineConfig({
  test: {
    projects,
    tags: [{
      name: "slow",
      description: "Starts browsers, servers or processes, or takes seconds of CPU time. `npm test` skips it.",
    }, {
      name: "waiting",
      description: "Mostly waits for timeouts, so it begins early.",
    }],
    // `skipUnlessThorough` ends a test by throwing this error, which @effect/vitest logs.
    onConsoleLog: (log) => !log.includes("VITEST_PENDING"),
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
