/** Starts programs as child processes that never outlive the test. */
import { Data, Effect, FileSystem, Schedule } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { accessSync, constants } from "node:fs"
import { connect } from "node:net"
import { delimiter, join } from "node:path"
import { fileURLToPath } from "node:url"
import { addPoolerSettings } from "./PoolerMode.ts"

/** The root folder of the repository. */
export const projectRoot = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "")

/** Returns whether the file exists and is executable. */
export const isExecutable = (path: string) => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Returns the paths at which a program with this name may be installed. */
export const getCandidateProgramPaths = (name: string) =>
  (process.env["PATH"] ?? "").split(delimiter).map((folder) => join(folder, name))

/** The environment variables of a process. */
export type Environment = Readonly<Record<string, string>>

/** The result of a process that has ended. */
export interface EndedProcess {
  /** The exit code, or null if the process was killed. */
  readonly code: number | null
  readonly out: string
  readonly err: string
}

/** A process started by a test. */
export interface RunningProcess {
  readonly child: ChildProcess
  readonly output: { out: string; err: string }
  readonly ended: Promise<EndedProcess>
}

/** The folder of Node's compile cache, which shortens process startup by a third. */
export const compileCacheFolder = fileURLToPath(new URL("../../node_modules/.cache/compiled", import.meta.url))

/**
 * Starts a program in the repository's root folder, and collects what it prints. If the program cannot be started, the
 * process counts as ended, and its error output says why.
 */
const launch = (command: string, args: ReadonlyArray<string>, environment: Environment): RunningProcess => {
  const child = spawn(command, args, {
    cwd: projectRoot,
    // Passes only these variables, because the tests' own environment must not affect the program.
    env: {
      PATH: process.env["PATH"],
      HOME: process.env["HOME"],
      NODE_COMPILE_CACHE: compileCacheFolder,
      ...environment,
    },
    stdio: ["ignore", "pipe", "pipe"],
  })
  const output = { out: "", err: "" }
  child.stdout.on("data", (chunk) => output.out += String(chunk))
  child.stderr.on("data", (chunk) => output.err += String(chunk))
  const { promise, resolve } = Promise.withResolvers<EndedProcess>()
  child.once("error", (error) => output.err += error.message)
  child.once("close", (code) => resolve({ code, ...output }))
  return { child, output, ended: promise }
}

/** Starts a program. Kills it when the scope closes. */
export const startProgram = (command: string, args: ReadonlyArray<string>, environment: Environment) =>
  Effect.acquireRelease(
    Effect.sync(() => launch(command, args, environment)),
    ({ child, ended }) => Effect.andThen(Effect.sync(() => child.kill("SIGKILL")), Effect.promise(() => ended)),
  )

/**
 * The program that tests start: either the source entry point, or a bundle of the sources (`test/bundle-command.ts`),
 * which starts in less time.
 */
export const commandFile = process.env["TEST_COMMAND"] ?? "src/main.ts"

/** Starts a `tickerline` command. */
export const startCommandProcess = (args: ReadonlyArray<string>, environment: Environment) =>
  startProgram(process.execPath, [commandFile, ...args], addPoolerSettings(environment))

/** Runs a command to completion. After ninety seconds, the command is killed and the exit code is null. */
export const runCommandProcess = (args: ReadonlyArray<string>, environment: Environment) =>
  Effect.scoped(
    Effect.flatMap(startCommandProcess(args, environment), ({ ended, output }) =>
      Effect.timeoutOrElse(
        Effect.promise(() => ended),
        {
          duration: "90 seconds",
          orElse: () => Effect.succeed<EndedProcess>({ code: null, ...output }),
        },
      )),
  )

/** Sends a signal and waits until the process has ended. */
export const endProcess = ({ child, ended }: RunningProcess, signal: NodeJS.Signals) =>
  Effect.andThen(Effect.sync(() => child.kill(signal)), Effect.promise(() => ended))

/** Returns the standard output and standard error received so far. */
export const combinedOutput = ({ output }: RunningProcess) => `${output.out}${output.err}`

class MissingOutput extends Data.TaggedError("MissingOutput")<{ readonly message: string }> {}

/**
 * Waits up to 90 seconds until the output matches. If it does not match in time or the process exits first, fails with
 * the output.
 */
export const waitForOutput = (running: RunningProcess, words: RegExp) =>
  Effect.suspend(() => {
    const text = combinedOutput(running)
    return words.test(text)
      ? Effect.succeed(running.output.out)
      : Effect.fail(new MissingOutput({ message: `${words} was not printed. The output is:\n${text}` }))
  }).pipe(
    Effect.retry({ schedule: Schedule.spaced("20 millis"), times: 4500, while: () => running.child.exitCode === null }),
  )

/** Returns whether Node or Deno can write a temporary file with these flags. */
export const canWriteFiles = Effect.fnUntraced(function* (program: string, flags: ReadonlyArray<string>) {
  const fs = yield* FileSystem.FileSystem
  const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-confined-" })}/written`
  const script = `import("node:fs").then((fs) => fs.writeFileSync(${JSON.stringify(file)}, ""))`
  const args = flags[0] === "run" ? [`data:text/javascript,${script}`] : ["--eval", script]
  const running = yield* startProgram(program, [...flags, ...args], {})
  const { code } = yield* Effect.promise(() => running.ended)
  const isDenied = code !== 0 && /ERR_ACCESS_DENIED|NotCapable/.test(combinedOutput(running))
  return !isDenied || (yield* fs.exists(file))
})

/** Sends bytes and reads until the server closes the connection. */
export const exchangeText = (port: number, bytes: string) =>
  Effect.callback<string, Error>((resume) => {
    const socket = connect(port, "127.0.0.1").setEncoding("utf8")
    let text = ""
    socket.on("data", (chunk) => text += String(chunk))
    socket.on("error", (error) => resume(Effect.fail(error)))
    socket.on("close", () => resume(Effect.succeed(text)))
    socket.write(bytes, "latin1")
    return Effect.sync(() => socket.destroy())
  })
