/** Runs programs to completion, or runs them in the background until they are stopped. */
import { spawn } from "node:child_process"
import { closeSync, openSync, readFileSync } from "node:fs"
import { createServer } from "node:net"
import process from "node:process"

/** A program to run. `env` is added to the environment of this process. */
export interface Command {
  readonly program: string
  readonly args: ReadonlyArray<string>
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  /** The user that runs the program. Defaults to the current user. */
  readonly account?: { readonly uid: number; readonly gid: number } | undefined
}

const optionsOf = ({ account, cwd, env }: Command) => ({
  ...(cwd === undefined ? {} : { cwd }),
  ...(account === undefined ? {} : { uid: account.uid, gid: account.gid }),
  env: { ...process.env, ...env },
})

/** Runs a program to completion and returns its output. If the exit code is not 0, fails with the error output. */
export const runToEnd = (command: Command) =>
  new Promise<string>((resolve, reject) => {
    const child = spawn(command.program, command.args, {
      ...optionsOf(command),
      stdio: ["ignore", "pipe", "pipe"],
    })
    let printed = ""
    let complaint = ""
    child.stdout.on("data", (chunk: Buffer) => printed += chunk.toString())
    child.stderr.on("data", (chunk: Buffer) => complaint += chunk.toString())
    child.on("error", reject)
    child.on(
      "close",
      (code) =>
        code === 0 ? resolve(printed) : reject(
          new Error(
            `${command.program} ended with ${code}:\n${complaint.slice(-3000)}${printed.slice(-500)}`,
          ),
        ),
    )
  })

/** A program that is running in the background. */
export interface Running {
  readonly pid: number
  /** Sends a signal, by default SIGTERM, and waits until the program has exited. */
  readonly stop: (signal?: NodeJS.Signals) => Promise<void>
}

/**
 * Starts a program in a separate session, and writes its output to the file `log`. Because of the separate session,
 * Ctrl-C reaches only the benchmark, which then stops its programs in an orderly way.
 */
export const startInBackground = (command: Command, log: string) =>
  new Promise<Running>((resolve, reject) => {
    const output = openSync(log, "w")
    const child = spawn(command.program, command.args, {
      ...optionsOf(command),
      stdio: ["ignore", output, output],
      detached: true,
    })
    closeSync(output)
    const ended = new Promise<void>((done) => child.on("exit", () => done()))
    const stop = async (signal: NodeJS.Signals = "SIGTERM") => {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill(signal)
      }
      await ended
    }
    child.on("error", reject)
    child.on(
      "spawn",
      () => child.pid === undefined ? undefined : resolve({ pid: child.pid, stop }),
    )
  })

/** Returns whether a process exists. */
export const isAlive = (pid: number) => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Resolves after the given number of milliseconds. */
export const sleep = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds))

/**
 * Waits until a condition is true. Fails after two minutes, or if the process has ended. The error message contains the
 * end of the log.
 */
export const waitUntil = async (
  what: string,
  { pid }: { readonly pid: number },
  log: string,
  isReady: () => Promise<boolean>,
) => {
  const deadline = Date.now() + 120_000
  while (!(await isReady().catch(() => false))) {
    if (!isAlive(pid) || Date.now() > deadline) {
      throw new Error(
        `${what} is not ready; the end of its log:\n${readFileSync(log, "utf8").slice(-3000)}`,
      )
    }
    await sleep(50)
  }
}

/** Returns a TCP port that is not in use. */
export const findFreePort = () =>
  new Promise<number>((resolve, reject) => {
    const server = createServer().on("error", reject).listen(
      0,
      "127.0.0.1",
      () => {
        const address = server.address()
        server.close(() =>
          resolve(
            typeof address === "object" && address !== null ? address.port : 0,
          )
        )
      },
    )
  })

/** Cleanup steps, which run in reverse order at the end. */
export type CleanupSteps = Array<() => Promise<void> | void>

/**
 * Returns a list of cleanup steps, and a function `cleanUp` that runs them once, in reverse order. The steps also run
 * when the cleanup of `outer` runs. If `outer` is not given, they also run on SIGINT and SIGTERM, and the process then
 * exits.
 */
export const makeCleanup = (outer?: CleanupSteps) => {
  const cleanupSteps: CleanupSteps = []
  let ending: Promise<void> | undefined
  const cleanUp = () =>
    ending ??= cleanupSteps.toReversed().reduce<Promise<void>>(
      (before, one) => before.then(one),
      Promise.resolve(),
    )
  const interrupted = () => void cleanUp().finally(() => process.exit(130))
  if (outer === undefined) {
    process.once("SIGINT", interrupted).once("SIGTERM", interrupted)
  } else outer.push(cleanUp)
  return { cleanUp, cleanupSteps }
}
