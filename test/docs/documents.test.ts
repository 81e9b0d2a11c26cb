/**
 * Tests that everything mentioned in the documents exists: commands with their flags, npm scripts and files. Also tests
 * that the root folder has few entries.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { existsSync, globSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import bench from "../../bench/package.json" with { type: "json" }
import packageJson from "../../package.json" with { type: "json" }
import { runCommandInProcess } from "../support/InProcessCommands.ts"
import { projectRoot } from "../support/Processes.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"

const documents = globSync(["*.md", "{bench,docs,ops,samples}/**/*.md", "test/README.md"], { cwd: projectRoot })
  .filter((file) => !file.includes("node_modules") && !file.startsWith("bench/results"))
  .map((file) => ({ file, text: readFileSync(join(projectRoot, file), "utf8") }))

/**
 * Returns the lines of all shell blocks without comments. Lines that end with a backslash are joined with the next
 * line.
 */
const linesOf = (text: string) =>
  Array.from(text.matchAll(/^( *)```sh\n([\s\S]*?)^\1```/gm), ([, , block = ""]) => block.replaceAll(/\\\n\s*/g, ""))
    .flatMap((block) => block.split("\n"))
    .map((line) => line.replace(/(^|\s)#.*$/, "").trim())
    .filter((line) => line !== "")

const lines = documents.flatMap(({ file, text }) => linesOf(text).map((line) => ({ file, line })))

/** The arguments of each invocation of the program, up to the next shell operator. */
const calls = lines.flatMap(({ file, line }) =>
  Array.from(
    line.matchAll(
      /(?:npm run (?:--silent )?tickerline -- |src\/main\.ts |run --rm (?:-\S+ (?:"[^"]*" )?)*owner |tickerline:[\d.]+ (?!\.$))([^|><&;)]*)/g,
    ),
    ([, words = ""]) => ({ file, words: words.replaceAll(/"[^"]*"|'[^']*'/g, "TEXT").trim().split(/\s+/) }),
  )
)

/** Reads all commands and their flags from the program's shell completion script. */
const commands = Effect.map(runCommandInProcess(["--completions", "fish"], {}), ({ code, out }) => {
  assert.strictEqual(code, 0)
  const found = new Map<string, Set<string>>()
  for (const line of out.split("\n")) {
    const name = Array.from(line.matchAll(/(?<!not )__fish_seen_subcommand_from ([\w-]+)(?=[;'])/g), ([, word]) => word)
    const flags = found.get(name.join(" ")) ?? new Set(["help"])
    found.set(name.join(" "), flags)
    const [, flag] = / -l (\S+)/.exec(line) ?? []
    if (flag !== undefined) flags.add(flag)
  }
  return found
})

/** The number of folders directly in `src`. A new folder must be added to ARCHITECTURE.md. */
const sourceFolderCount = 10

describe("The documents", () => {
  it.effect(
    "show only existing commands and flags (CONTRIBUTING.md)",
    () =>
      Effect.gen(function* () {
        assertFoundMoreThan(20, "commands", calls)
        const known = yield* commands
        for (const { file, words } of calls) {
          const shown = `${file}: ${words.join(" ")}`
          const depth = words.findIndex((_, at) => !known.has(words.slice(0, at + 1).join(" ")))
          const command = words.slice(0, depth < 0 ? words.length : depth).join(" ")
          const flags = words.filter((word) => word.startsWith("--")).map((word) => word.slice(2).split("=")[0] ?? "")
          // A command that has subcommands must be followed by one of them.
          const next = depth < 0 ? "" : words[depth] ?? ""
          const hasOthers = [...known.keys()].some((name) => name.startsWith(`${command} `))
          const isKnown = command !== "" && !(hasOthers && /^\w/.test(next))
          assert.isTrue(isKnown || flags.includes("help"), `${shown}: no such command`)
          for (const flag of flags) assert.include([...known.get(command) ?? []], flag, shown)
        }
      }),
  )

  it("name every folder of src in ARCHITECTURE.md (CONTRIBUTING.md)", () => {
    const folders = globSync("src/*/", { cwd: projectRoot }).map((path) => path.replace(/\/?$/, "/"))
    assert.strictEqual(folders.length, sourceFolderCount)
    const text = documents.find(({ file }) => file === "docs/ARCHITECTURE.md")?.text ?? ""
    assert.deepStrictEqual(folders.filter((folder) => !text.includes(folder)), [])
  })

  it("name only existing npm scripts (CONTRIBUTING.md)", () => {
    const scripts = new Set([...Object.keys(packageJson.scripts), ...Object.keys(bench.scripts)])
    const named = documents.flatMap(({ file, text }) =>
      Array.from(text.matchAll(/npm run (?:--silent |-s )?([a-z][\w:-]*)/g), ([, name = ""]) => ({ file, name }))
    )
    assertFoundMoreThan(20, "npm scripts", named)
    assert.deepStrictEqual(named.filter(({ name }) => !scripts.has(name)), [])
  })

  it("name each of at most 14 npm scripts in CONTRIBUTING.md or maintaining.md (CONTRIBUTING.md)", () => {
    const scripts = Object.keys(packageJson.scripts)
    assert.isAtMost(scripts.length, 14)
    const text = documents.flatMap(({ file, text }) =>
      /^docs\/(CONTRIBUTING|maintaining)\.md$/.test(file) ? [text] : []
    ).join("\n")
    const named = new Set(Array.from(text.matchAll(/npm (?:run )?([a-z][\w:]*)/g), ([, name]) => name))
    assert.deepStrictEqual(scripts.filter((name) => !named.has(name)), [])
  })

  it("name only existing files and folders (CONTRIBUTING.md)", () => {
    const named = documents.flatMap(({ file, text }) =>
      Array.from(
        text.matchAll(/`((?:src|test|samples|ops|docs|bench|clients|\.ci|\.github)\/[\w@./-]*)`/g),
        ([, path = ""]) => ({ file, path }),
      )
    )
    assertFoundMoreThan(50, "paths", named)
    const missing = named.filter(({ file, path }) =>
      // Documents may refer to a test without its file extension. `00NN_` stands for any number.
      !/NN_/.test(path) && ![path, `${path}.ts`, `${path}.test.ts`].some((name) =>
        existsSync(join(projectRoot, name)) || existsSync(join(projectRoot, dirname(file), name))
      )
    )
    assert.deepStrictEqual(missing, [])
  })

  it("state the status and the date of each decision (CONTRIBUTING.md)", () => {
    const decisions = documents.filter(({ file }) => /^docs\/decisions\/\d/.test(file))
    assertFoundMoreThan(50, "decisions", decisions)
    const status = /^# .+\n\nStatus: (accepted|superseded by \[\d{4}\]\([^)]+\)), 20\d\d-[01]\d-[0-3]\d[.;]/
    assert.deepStrictEqual(decisions.filter(({ text }) => !status.test(text)).map(({ file }) => file), [])
  })

  it("list each background job, and no other, in deployment.md (CONTRIBUTING.md)", () => {
    const jobs = globSync("src/**/*.ts", { cwd: projectRoot }).flatMap((file) => {
      const text = readFileSync(join(projectRoot, file), "utf8")
      return text.includes("satisfies Job<") ? /^ {2}name: "([\w-]+)",\n {2}every: /m.exec(text)?.[1] ?? file : []
    })
    assertFoundMoreThan(10, "jobs", jobs)
    const page = documents.find(({ file }) => file === "docs/operations/deployment.md")?.text ?? ""
    const [, section = ""] = /^## Background jobs\n([\s\S]*?)^## /m.exec(page) ?? []
    assert.sameMembers(Array.from(section.matchAll(/^\| `([\w-]+)` +\|/gm), ([, name = ""]) => name), jobs)
  })

  it("cite only existing decisions, as do code and tests (CONTRIBUTING.md)", () => {
    const files = globSync("{src,sql,test,clients,bench,samples,docs,ops}/**/*.{ts,js,py,sql,md,yaml}", {
      cwd: projectRoot,
      exclude: (name) => name === "node_modules",
    })
    const known = new Set(documents.flatMap(({ file }) => /^docs\/decisions\/(\d+)/.exec(file)?.[1] ?? []))
    const cited = files.flatMap((file) =>
      // Matches `decision 160`, `decisions 0113 to 0115, 0117` and `docs/decisions/0160-usage-in-batches.md`, for
      // example.
      (readFileSync(join(projectRoot, file), "utf8").match(/\bdecisions?[ /]\d{2,4}(?:(?:,| and| to) \d{2,4})*\b/gi) ??
        [])
        .flatMap((text) => text.match(/\d+/g) ?? [])
        .map((number) => ({ file, number: number.padStart(4, "0") }))
    )
    assertFoundMoreThan(150, "cited decisions", cited)
    assert.deepStrictEqual(cited.filter(({ number }) => !known.has(number)), [])
  })

  it("name only existing identifiers, except in guides, which are tests themselves (CONTRIBUTING.md)", () => {
    const sources = [
      ...globSync("{src,sql,test,samples,bench,clients,ops}/**/*.{ts,js,py,json,yaml,sql}", {
        cwd: projectRoot,
        exclude: (name) => name === "node_modules",
      }),
      ...globSync("node_modules/effect/dist/{*,http-api/*,persistence/*}.d.ts", { cwd: projectRoot }),
    ].filter((file) => file !== join("test", "docs", "documents.test.ts"))
    const words = new Set(sources.flatMap((file) => readFileSync(join(projectRoot, file), "utf8").match(/\w+/g) ?? []))
    const named = documents.filter(({ file }) => !/^(CHANGELOG|docs\/guides\/)/.test(file)).flatMap(({ text }) =>
      Array.from(text.replaceAll(/^ *```[\s\S]*?^ *```/gm, "").matchAll(/`([^`\n]+)`/g), ([, code = ""]) => code)
        // Matches names in camel case or Pascal case. Words within paths are checked above.
        .flatMap((code) => code.match(/(?<![\w/.-])[A-Za-z]+[a-z][A-Z]\w*/g) ?? [])
    )
    assertFoundMoreThan(20, "identifiers", named)
    assert.deepStrictEqual(named.filter((name) => !words.has(name)), [])
  })
})

describe("The root of the repository", () => {
  it("has at most 18 files and folders, except dot files (CONTRIBUTING.md)", () => {
    const tracked = execFileSync("git", ["ls-files"], { cwd: projectRoot, encoding: "utf8" }).trim().split("\n")
    const entries = new Set(tracked.map((path) => path.split("/")[0] ?? "").filter((name) => !name.startsWith(".")))
    assert.include([...entries], "README.md")
    assert.isAtMost(entries.size, 18, [...entries].join(" "))
  })
})
