/** The program on a real pseudo-terminal, and the completions in real shells. */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem } from "effect"
import * as Commands from "../../support/InProcessCommands.ts"
import {
  candidatePaths,
  compileCacheFolder,
  isExecutable,
  projectRoot,
  runCommandProcess,
  startProgram,
} from "../../support/Processes.ts"

// @module-tag slow

const found = (program: string) => candidatePaths(program).find(isExecutable)

const isSet = (name: string) => (process.env[name] ?? "") !== ""

/** Where a program is missing its tests are skipped, and say so; these make them fail. */
const isRequired = (program: string) => isSet(/zsh|fish/.test(program) ? "REQUIRE_SHELLS" : "REQUIRE_TERMINAL")

const needing = (programs: ReadonlyArray<string>, name: string) => {
  const missing = programs.filter((program) => found(program) === undefined)
  return {
    skip: missing.length > 0 && !missing.some(isRequired),
    name: missing.length === 0 ? name : `${name} (no ${missing.join(", ")})`,
  }
}

/** util-linux's `script` gives it a terminal of its own; of Node, as the tests run on it. */
const onTerminal = (columns: number, args: string, environment: Readonly<Record<string, string>> = {}, through = "") =>
  startProgram("script", [
    "-qefc",
    `stty cols ${columns} rows 24; exec ${through} ${process.execPath} src/main.ts ${args}`,
    "/dev/null",
  ], {
    TERM: "xterm",
    LANG: "C.UTF-8",
    SHELL: "/bin/sh",
    NODE_COMPILE_CACHE: compileCacheFolder,
    ...environment,
  })

const ended = ({ ended }: { readonly ended: Promise<{ readonly code: number | null; readonly out: string }> }) =>
  Effect.promise(() => ended)

const folder = Effect.flatMap(
  FileSystem.FileSystem,
  (fs) => fs.makeTempDirectoryScoped({ prefix: "tickerline-terminal-" }),
)

const escape = String.fromCharCode(27)
const colours = new RegExp(`${escape}\\[\\d+(;\\d+)*m`)
const clear = "\r\u001b[K"

layer(NodeServices.layer, { excludeTestServices: true })("a terminal", (it) => {
  const bar = needing(
    ["script", "stty"],
    "README, command line: long work shows its share, rate and time on a terminal",
  )
  it.effect(
    bar.name,
    () =>
      Effect.gen(function* () {
        const { code, out } = yield* Effect.flatMap(
          onTerminal(70, `generate ${yield* folder}/market --scale 20`),
          ended,
        )
        assert.strictEqual(code, 0, out)
        assert.match(out, /sample data {2}.*━.*%.*left.*rows.*rows\/s/)
        assert.match(out, colours)
        const frames = out.split(clear).slice(1, -1).map((frame) => frame.replaceAll(new RegExp(colours, "g"), ""))
        assert.isAbove(frames.length, 3)
        for (const frame of frames) assert.isBelow(frame.length, 70, frame)
        // The line is gone before the result comes.
        assert.match(out.slice(out.lastIndexOf(clear) + clear.length), /^[a-z_]+\.csv: \d+ rows\r\n/)
      }),
    { skip: bar.skip },
  )

  const stopped = needing(["script", "stty", "timeout"], "README, command line: Ctrl-C leaves no half line behind")
  it.effect(
    stopped.name,
    () =>
      Effect.gen(function* () {
        const inTime = "timeout --foreground -s INT 10"
        const { out } = yield* Effect.flatMap(
          onTerminal(70, `generate ${yield* folder}/m --scale 4000`, {}, inTime),
          ended,
        )
        assert.match(out, /sample data {2}/)
        assert.strictEqual(out.slice(out.lastIndexOf(clear)), clear)
      }),
    { skip: stopped.skip },
  )

  const plain = needing(
    ["script", "stty"],
    "README, command line: CI, NO_COLOR and TERM=dumb are heeded, and so is a file",
  )
  it.effect(
    plain.name,
    () =>
      Effect.gen(function* () {
        const market = yield* folder
        const inCi = yield* Effect.flatMap(onTerminal(70, `generate ${market}/a --scale 20`, { CI: "true" }), ended)
        assert.notInclude(inCi.out, clear)
        const help = (environment: Readonly<Record<string, string>>) =>
          Effect.map(Effect.flatMap(onTerminal(70, "keys --help", environment), ended), ({ out }) => out)
        assert.match(yield* help({}), colours)
        assert.notMatch(yield* help({ NO_COLOR: "1" }), colours)
        assert.notMatch(yield* help({ TERM: "dumb" }), colours)
        const piped = yield* runCommandProcess(["keys", "--help"], {})
        assert.notMatch(piped.out, colours)
        assert.match((yield* runCommandProcess(["keys", "--help"], { FORCE_COLOR: "1" })).out, colours)
        const wrong = yield* runCommandProcess(["kesy"], { TERM: "xterm" })
        assert.notMatch(wrong.err, colours)
        assert.match(wrong.err, /Did you mean this\?\s+keys/)
        assert.match((yield* runCommandProcess(["kesy"], { FORCE_COLOR: "1" })).err, colours)
      }),
    { skip: plain.skip },
  )

  const inBash = needing(["bash"], "README, command line: bash completes commands, datasets, endpoints and tiers")
  it.effect(
    inBash.name,
    () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const script = `${yield* folder}/completions.bash`
        const { code, err, out } = yield* Commands.runCommand(["--completions", "bash"], {})
        assert.strictEqual(code, 0, err)
        // As readline would ask for the word that the line ends with.
        const ask = `complete_line() {
          COMP_LINE="$1"; COMP_POINT=\${#COMP_LINE}; read -ra COMP_WORDS <<< "$COMP_LINE"
          [[ "$COMP_LINE" == *" " ]] && COMP_WORDS+=("")
          COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); COMPREPLY=()
          _tickerline tickerline "\${COMP_WORDS[COMP_CWORD]}" "\${COMP_WORDS[COMP_CWORD-1]}"; echo "\${COMPREPLY[*]}"
        }`
        const lines = ["tickerline lo", "tickerline load n", "tickerline query /v1/n", "tickerline keys create --tier "]
        yield* fs.writeFileString(
          script,
          [out, ask, ...lines.map((one) => `complete_line "${one}"`)].join("\n"),
        )
        const told = yield* Effect.flatMap(startProgram("bash", ["--norc", script], {}), ended)
        assert.deepStrictEqual(told.out.trim().split("\n"), [
          "load",
          "nasdaq-compliance news",
          "/v1/nasdaq-compliance /v1/news /v1/news-basic",
          "basic pro ultimate",
        ])
      }),
    { skip: inBash.skip },
  )

  for (const shell of ["zsh", "fish"]) {
    const parsed = needing([shell], `README, command line: ${shell} can read its completions`)
    it.effect(
      parsed.name,
      () =>
        Effect.gen(function* () {
          const fs = yield* FileSystem.FileSystem
          const script = `${yield* folder}/completions`
          const { out } = yield* Commands.runCommand(["--completions", shell], {})
          assert.include(out, "nasdaq-compliance")
          yield* fs.writeFileString(script, out)
          assert.strictEqual((yield* Effect.flatMap(startProgram(shell, ["-n", script], {}), ended)).code, 0)
        }),
      { skip: parsed.skip },
    )
  }

  const linked = needing(["sh", "readlink"], "README, command line: the command works through a link, from any folder")
  it.effect(
    linked.name,
    () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const link = `${yield* folder}/tickerline`
        yield* fs.symlink(`${projectRoot}/bin/tickerline`, link)
        const told = yield* Effect.flatMap(startProgram("sh", ["-c", `cd / && ${link} --version`], {}), ended)
        assert.strictEqual(told.code, 0)
        assert.match(told.out, /^tickerline v\d/)
      }),
    { skip: linked.skip },
  )
})
