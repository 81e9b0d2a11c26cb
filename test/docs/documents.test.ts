/** What documents name is there: commands with their flags, npm scripts, files, settings. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { existsSync, globSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import bench from "../../bench/package.json" with { type: "json" }
import packageJson from "../../package.json" with { type: "json" }
import { runCommand } from "../support/InProcessCommands.ts"
import { projectRoot } from "../support/Processes.ts"

const documents = globSync(["*.md", "{bench,docs,ops,samples}/**/*.md"], { cwd: projectRoot })
  .filter((file) => !file.includes("node_modules") && !file.startsWith("bench/results"))
  .map((file) => ({ file, text: readFileSync(join(projectRoot, file), "utf8") }))

/** The lines of its shell blocks without comments; one that goes on after a backslash is one. */
const linesOf = (text: string) =>
  Array.from(text.matchAll(/^( *)```sh\n([\s\S]*?)^\1```/gm), ([, , block = ""]) => block.replaceAll(/\\\n\s*/g, ""))
    .flatMap((block) => block.split("\n"))
    .map((line) => line.replace(/(^|\s)#.*$/, "").trim())
    .filter((line) => line !== "")

const lines = documents.flatMap(({ file, text }) => linesOf(text).map((line) => ({ file, line })))

/** What follows a call of the program, up to where the shell begins something else. */
const calls = lines.flatMap(({ file, line }) =>
  Array.from(
    line.matchAll(
      /(?:npm run (?:--silent )?tickerline -- |src\/main\.ts |run --rm (?:-\S+ (?:"[^"]*" )?)*owner |tickerline:[\d.]+ (?!\.$))([^|><&;)]*)/g,
    ),
    ([, words = ""]) => ({ file, words: words.replaceAll(/"[^"]*"|'[^']*'/g, "TEXT").trim().split(/\s+/) }),
  )
)

/** All commands with their flags, as the program itself tells a shell that completes them. */
const commands = Effect.map(runCommand(["--completions", "fish"], {}), ({ code, out }) => {
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

describe("The documents", () => {
  it.effect(
    "README and others: each command in them exists, with the flags that it is shown with",
    () =>
      Effect.gen(function* () {
        assert.isAbove(calls.length, 20)
        const known = yield* commands
        for (const { file, words } of calls) {
          const shown = `${file}: ${words.join(" ")}`
          const depth = words.findIndex((_, at) => !known.has(words.slice(0, at + 1).join(" ")))
          const command = words.slice(0, depth < 0 ? words.length : depth).join(" ")
          const flags = words.filter((word) => word.startsWith("--")).map((word) => word.slice(2).split("=")[0] ?? "")
          // What has others below it is followed by one of them, or stands alone.
          const next = depth < 0 ? "" : words[depth] ?? ""
          const hasOthers = [...known.keys()].some((name) => name.startsWith(`${command} `))
          const isKnown = command !== "" && !(hasOthers && /^\w/.test(next))
          assert.isTrue(isKnown || flags.includes("help"), `${shown}: there is no such command`)
          for (const flag of flags) assert.include([...known.get(command) ?? []], flag, shown)
        }
      }),
  )

  it("ARCHITECTURE.md has a paragraph on each room, and README names each", () => {
    const rooms = globSync("src/*/", { cwd: projectRoot }).map((path) =>
      `${path.replace(/^src\//, "").replace(/\/$/, "")}/`
    )
    assert.isAbove(rooms.length, 15)
    for (const file of ["ARCHITECTURE.md", "README.md"]) {
      const text = documents.find((document) => document.file === file)?.text ?? ""
      assert.deepStrictEqual(rooms.filter((room) => !text.includes(room)), [], file)
    }
  })

  it("README and others: each npm script in them exists", () => {
    const scripts = new Set([...Object.keys(packageJson.scripts), ...Object.keys(bench.scripts)])
    const named = documents.flatMap(({ file, text }) =>
      Array.from(text.matchAll(/npm run (?:--silent |-s )?([a-z][\w:]*)/g), ([, name = ""]) => ({ file, name }))
    )
    assert.isAbove(named.length, 20)
    assert.deepStrictEqual(named.filter(({ name }) => !scripts.has(name)), [])
  })

  it("README and others: each file and folder of the repository that they name is there", () => {
    const named = documents.flatMap(({ file, text }) =>
      Array.from(
        text.matchAll(/`((?:src|test|sql|samples|ops|docs|bench|\.ci)\/[\w@./-]*)`/g),
        ([, path = ""]) => ({ file, path }),
      )
    )
    assert.isAbove(named.length, 50)
    const missing = named.filter(({ file, path }) =>
      // A test or a room may go without its ending; one that somebody is told to make has a name of letters.
      !/widgets|NN_/.test(path) && ![path, `${path}.ts`, `${path}.test.ts`].some((name) =>
        existsSync(join(projectRoot, name)) || existsSync(join(projectRoot, dirname(file), name))
      )
    )
    assert.deepStrictEqual(missing, [])
  })
})
