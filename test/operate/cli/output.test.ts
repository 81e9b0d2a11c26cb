/** Tests commands whose output cannot be written, and a service whose terminal is closed (operations/command-line). */
import { assert, layer } from "@effect/vitest"
import { Data, Effect, FileSystem, Schedule } from "effect"
import { execFileSync } from "node:child_process"
import { commandFile, endProcess, projectRoot, startProgram, waitForOutput } from "../../support/Processes.ts"
import * as Service from "../../support/Service.ts"
import { sampleUnlessThorough, skipUnlessThorough } from "../../support/Thoroughness.ts"

// @module-tag slow

/** The error for a process that should have exited but is still running. */
class StillRunning extends Data.TaggedError("StillRunning")<{ readonly pid: number }> {}

/** Creates a named pipe that synchronizes parts of a shell script. */
const makeFifo = Effect.gen(function* () {
  const folder = yield* (yield* FileSystem.FileSystem).makeTempDirectoryScoped({ prefix: "tickerline-fifo-" })
  execFileSync("mkfifo", [`${folder}/fifo`])
  return `${folder}/fifo`
})

/** Runs a shell script in which `$COMMAND` expands to the `tickerline` command. */
const runInShell = Effect.fnUntraced(function* (script: string, environment: Readonly<Record<string, string>>) {
  const running = yield* startProgram("sh", ["-c", script], {
    COMMAND: `${process.execPath} ${commandFile}`,
    ...environment,
  })
  return yield* Effect.promise(() => running.ended)
})

const commands = ["--version", "--help", "datasets", "openapi", "keys list", "accounts list", "query news --format csv"]
  .map((command) => ({ command }))

/** Settings for commands that use the database and for commands that send requests. */
const environment = Effect.gen(function* () {
  const { ultimate } = yield* Service.TestKeys
  return {
    DATABASE_URL: yield* Service.databaseUrl,
    BASE_URL: `http://127.0.0.1:${yield* Service.servicePort}`,
    TICKERLINE_KEY: ultimate,
  }
})

const isRunning = (pid: number) => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

layer(Service.sampleServiceLayer, { excludeTestServices: true })("output", (it) => {
  it.effect.each(sampleUnlessThorough(commands, 2, 0))(
    "$command exits with 141 and without a message if its reader has ended (operations/command-line)",
    ({ command }) =>
      Effect.gen(function* () {
        const { err, out } = yield* runInShell(
          `{ { read -r go < "$FIFO"; $COMMAND ${command}; echo "status $?" >&3; } | { exec 0<&-; echo go > "$FIFO"; }; } 3>&1`,
          { ...(yield* environment), FIFO: yield* makeFifo },
        )
        assert.strictEqual(out, "status 141\n", err)
        assert.strictEqual(err, "")
      }),
  )

  it.effect.each(sampleUnlessThorough(commands, 2, 1))(
    "$command explains that it cannot write its output, and exits with 1 (operations/command-line)",
    ({ command }) =>
      Effect.gen(function* () {
        const { code, err } = yield* runInShell(`$COMMAND ${command} > /dev/full`, yield* environment)
        assert.strictEqual(code, 1)
        assert.match(
          err,
          /^tickerline: Standard output cannot be written: no space left on device\. The output is not complete\. .*\n$/,
        )
      }),
  )

  it.effect("serve announces each step of the first start, and stops PostgreSQL when its terminal is closed (operations/command-line)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const fs = yield* FileSystem.FileSystem
      const home = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-hangup-" })
      const args = ["--import", `${projectRoot}/src/operate/cli/preflight.js`, "src/main.ts", "serve"]
      const running = yield* startProgram(process.execPath, args, { TICKERLINE_HOME: home, PORT: "18743" })
      yield* waitForOutput(running, /^Starting Tickerline/)
      yield* waitForOutput(running, /is running at/)
      assert.match(
        running.output.err,
        /^Starting Tickerline [\d.]+\.\n.*Creating a PostgreSQL database[^]*Applying migrations[^]*Loading sample data/,
      )
      const pid = Number((yield* fs.readFileString(`${home}/postgres/cluster/data/postmaster.pid`)).split("\n")[0])
      assert.isTrue(isRunning(pid))
      const { code } = yield* endProcess(running, "SIGHUP")
      assert.strictEqual(code, 0)
      yield* Effect.retry(
        Effect.suspend(() => isRunning(pid) ? new StillRunning({ pid }) : Effect.void),
        { schedule: Schedule.spaced("20 millis"), times: 2_000 },
      )
    }))
})
