/** Tests the command on a pseudo-terminal, and its shell completions in real shells. */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Redacted } from "effect"
import { execFileSync } from "node:child_process"
import { createWriteStream } from "node:fs"
import { chooseFreePort } from "../../../../src/postgres/embedded/EmbeddedCluster.ts"
import { addCompaniesAndFilings, startEdgarStub } from "../../../support/EdgarStub.ts"
import * as InProcessCommands from "../../../support/InProcessCommands.ts"
import {
  commandFile,
  getCandidateProgramPaths,
  isExecutable,
  projectRoot,
  runCommandProcess,
  startCommandProcess,
  startProgram,
  waitForOutput,
} from "../../../support/Processes.ts"
import { copyMigratedDatabase, copySampleDatabase } from "../../../support/Service.ts"

// @module-tag slow

const found = (program: string) => getCandidateProgramPaths(program).find(isExecutable)

const isSet = (name: string) => (process.env[name] ?? "") !== ""

/** Returns whether a test fails if the program is missing. If not, the test is skipped. */
const isRequired = (program: string) => isSet(/zsh|fish/.test(program) ? "REQUIRE_SHELLS" : "REQUIRE_TERMINAL")

const needing = (programs: ReadonlyArray<string>, name: string) => {
  const missing = programs.filter((program) => found(program) === undefined)
  return {
    skip: missing.length > 0 && !missing.some(isRequired),
    name: missing.length === 0 ? name : `${name} (no ${missing.join(", ")})`,
  }
}

/**
 * Runs the command on a pseudo-terminal, using `script` from util-linux and the Node executable that runs the tests.
 * The first output line is the command's process ID.
 */
const onTerminal = (columns: number, args: string, environment: Readonly<Record<string, string>> = {}) =>
  startProgram("script", [
    "-qefc",
    `stty cols ${columns} rows 24; echo $$; exec ${process.execPath} ${commandFile} ${args}`,
    "/dev/null",
  ], {
    TERM: "xterm",
    LANG: "C.UTF-8",
    SHELL: "/bin/sh",
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

layer(NodeServices.layer, { excludeTestServices: true })("A command on a terminal", (it) => {
  const bar = needing(
    ["script", "stty"],
    "shows the percentage, rate and remaining time of a long operation (operations/command-line)",
  )
  it.effect(
    bar.name,
    () =>
      Effect.gen(function* () {
        const { code, out } = yield* Effect.flatMap(
          onTerminal(70, `generate ${yield* folder}/market --scale 8`),
          ended,
        )
        assert.strictEqual(code, 0, out)
        assert.match(out, /sample data {2}.*%.*left.*rows.*rows\/s/)
        const frames = out.split(clear).slice(1, -1).map((frame) => frame.replaceAll(new RegExp(colours, "g"), ""))
        assert.isAbove(frames.length, 3)
        for (const frame of frames) assert.isBelow(frame.length, 70, frame)
        // The progress line is cleared before the result is printed.
        assert.match(out.slice(out.lastIndexOf(clear) + clear.length), /^[a-z_]+\.csv: \d+ rows\r\n/)
      }),
    { skip: bar.skip },
  )

  const stopped = needing(
    ["script", "stty"],
    "clears the progress line after Ctrl-C (operations/command-line)",
  )
  it.effect(
    stopped.name,
    () =>
      Effect.gen(function* () {
        const running = yield* onTerminal(70, `generate ${yield* folder}/m --scale 4000`)
        yield* waitForOutput(running, /sample data {2}/)
        process.kill(Number.parseInt(running.output.out, 10), "SIGINT")
        const { out } = yield* ended(running)
        assert.strictEqual(out.slice(out.lastIndexOf(clear)), clear)
      }),
    { skip: stopped.skip },
  )

  /** Runs the command on a pseudo-terminal and answers its prompt. */
  const runAndAnswer = Effect.fnUntraced(
    function* (
      args: ReadonlyArray<string>,
      environment: Readonly<Record<string, string>>,
      question: RegExp,
      answer: string,
    ) {
      const answers = `${yield* folder}/answers`
      execFileSync("mkfifo", [answers])
      const running = yield* startProgram("sh", ["-c", `exec script -qefc "$LINE" /dev/null < "$ANSWERS"`], {
        ...environment,
        LINE: `exec ${process.execPath} ${commandFile} ${args.join(" ")}`,
        ANSWERS: answers,
        TERM: "xterm",
        SHELL: "/bin/sh",
      })
      const input = createWriteStream(answers)
      yield* waitForOutput(running, question)
      input.write(answer)
      const result = yield* ended(running)
      input.destroy()
      return result
    },
  )

  const explorerLink = needing(
    ["script", "stty"],
    "serve prints a link with the demo key, unless others can connect or the output may be logged (README.md, SECURITY.md)",
  )
  it.effect(
    explorerLink.name,
    () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const home = yield* folder
        const serve = Effect.fnUntraced(function* (settings: Readonly<Record<string, string>>) {
          const port = String(yield* chooseFreePort)
          const environment = { TICKERLINE_HOME: home, PORT: port, ...settings }
          const running = settings["TERM"] === undefined
            ? yield* startCommandProcess(["serve"], environment)
            : yield* onTerminal(300, "serve", environment)
          yield* waitForOutput(running, /ticker-changes\?ticker=BYON/)
          const [pid = ""] = /^\d+$/m.exec(running.output.out) ?? []
          process.kill(pid === "" ? running.child.pid ?? 0 : Number(pid), "SIGTERM")
          yield* ended(running)
          const key = (yield* fs.readFileString(`${home}/demo-key`)).trim()
          return { key, port, text: `${running.output.out}${running.output.err}` }
        }, Effect.scoped)
        const { key, port, text } = yield* serve({ TERM: "xterm" })
        assert.include(text, `http://127.0.0.1:${port}/v1/docs/explorer#key=${key}&symbol=OSTK`)
        assert.strictEqual(text.split(key).length, 2)
        const others: ReadonlyArray<Readonly<Record<string, string>>> = [
          {},
          { LOG_FORMAT: "json" },
          { TERM: "xterm", LOG_FORMAT: "json" },
          { TERM: "xterm", HOST: "0.0.0.0" },
          { TERM: "xterm", BASE_URL: "https://api.example.com" },
        ]
        for (const settings of others) {
          const other = yield* serve(settings)
          assert.notInclude(other.text, other.key.slice(8), JSON.stringify(settings))
        }
      }).pipe(Effect.scoped),
    { skip: explorerLink.skip },
  )

  const asked = needing(["script", "mkfifo"], "load asks before it removes many rows (operations/data)")
  it.effect(
    asked.name,
    () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const file = `${yield* folder}/former.csv`
        const url = Redacted.value(yield* copyMigratedDatabase)
        const writeRow = (ticker: string) =>
          fs.writeFileString(file, `ticker,former_ticker,date\n${ticker},BBB,2020-01-01\n`)
        yield* writeRow("AAA")
        const args = ["load", "historical-tickers", file]
        assert.strictEqual((yield* runCommandProcess(args, { DATABASE_URL: url })).code, 0)
        yield* writeRow("AAC")
        const question = /would remove the only row of historical_tickers\. Continue\?/
        for (const [answer, code, outcome] of [["n", 1, /is unchanged/], ["y", 0, /1 added.* 1 removed/]] as const) {
          const result = yield* runAndAnswer(args, { DATABASE_URL: url }, question, answer)
          assert.strictEqual(result.code, code, result.out)
          assert.match(result.out, outcome)
        }
      }),
    { skip: asked.skip },
  )

  const mixing = needing(
    ["script", "mkfifo"],
    "ingest asks before it loads into the sample market (operations/ingest-edgar)",
  )
  it.effect(
    mixing.name,
    () =>
      Effect.gen(function* () {
        const stub = yield* startEdgarStub
        addCompaniesAndFilings(stub)
        const environment = {
          DATABASE_URL: Redacted.value(yield* copySampleDatabase),
          EDGAR_BASE_URL: stub.url,
          EDGAR_USER_AGENT: "Acme Inc ops@acme.example",
        }
        const args = ["ingest", "edgar", "--tickers", "SMEGF", "--only", "news"]
        const question = /contains the fictional sample market, with which real rows would mix\. Continue\?/
        const refused = yield* runAndAnswer(args, environment, question, "n")
        assert.strictEqual(refused.code, 1, refused.out)
        assert.isEmpty(stub.requests)
        const accepted = yield* runAndAnswer(args, environment, question, "y")
        assert.strictEqual(accepted.code, 0, accepted.out)
        assert.match(accepted.out, /news: \d+ rows? merged/)
      }),
    { skip: mixing.skip },
  )

  const plain = needing(
    ["script", "stty"],
    "respects CI, NO_COLOR, FORCE_COLOR and TERM=dumb (operations/command-line)",
  )
  it.effect(
    plain.name,
    () =>
      Effect.gen(function* () {
        const market = yield* folder
        // Unless the variable `CI` is set, even a short operation draws a progress line and clears it.
        const inCi = yield* Effect.flatMap(onTerminal(70, `generate ${market}/a`, { CI: "true" }), ended)
        assert.include(inCi.out, "screener.csv")
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

  const inBash = needing(
    ["bash"],
    "completes commands, datasets, endpoints and tiers in bash (operations/command-line)",
  )
  it.effect(
    inBash.name,
    () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const script = `${yield* folder}/completions.bash`
        const { code, err, out } = yield* InProcessCommands.runCommandInProcess(["--completions", "bash"], {})
        assert.strictEqual(code, 0, err)
        // Completes the last word of a command line the way readline does.
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
        const result = yield* Effect.flatMap(startProgram("bash", ["--norc", script], {}), ended)
        assert.deepStrictEqual(result.out.trim().split("\n"), [
          "load",
          "nasdaq-compliance news",
          "/v1/nasdaq-compliance /v1/news /v1/news-basic",
          "basic pro ultimate",
        ])
      }),
    { skip: inBash.skip },
  )

  for (const shell of ["zsh", "fish"]) {
    const parsed = needing([shell], `accepts the completions for ${shell} (operations/command-line)`)
    it.effect(
      parsed.name,
      () =>
        Effect.gen(function* () {
          const fs = yield* FileSystem.FileSystem
          const script = `${yield* folder}/completions`
          const { out } = yield* InProcessCommands.runCommandInProcess(["--completions", shell], {})
          assert.include(out, "nasdaq-compliance")
          yield* fs.writeFileString(script, out)
          assert.strictEqual((yield* Effect.flatMap(startProgram(shell, ["-n", script], {}), ended)).code, 0)
        }),
      { skip: parsed.skip },
    )
  }

  const linked = needing(
    ["sh", "readlink"],
    "runs the command through a symbolic link from any folder (operations/command-line)",
  )
  it.effect(
    linked.name,
    () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const link = `${yield* folder}/tickerline`
        yield* fs.symlink(`${projectRoot}/src/operate/cli/tickerline`, link)
        const result = yield* Effect.flatMap(startProgram("sh", ["-c", `cd / && ${link} --version`], {}), ended)
        assert.strictEqual(result.code, 0)
        assert.match(result.out, /^tickerline v\d/)
      }),
    { skip: linked.skip },
  )
})
