/** Child processes under another uid or in a session of their own, which `effect/process` does not offer. */
import { Deferred, Effect, Schema } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import process from "node:process"

/** What is wrong with the embedded server and what to do about it, for the person at the terminal. */
export class EmbeddedPostgresError extends Schema.TaggedError<EmbeddedPostgresError>()("EmbeddedPostgresError", {
  message: Schema.String,
}) {}

export const ownServerHint = "or set DATABASE_URL to a PostgreSQL server of your own"

/** The end of what initdb or the server said, without the long statements it quotes. */
export const summarizeOutput = (said: string): string => {
  const lines = said.trim().split("\n").filter((line) => !/^\t|STATEMENT: /.test(line))
  const full = /No space left/.test(said) ? ": the disk is full; free some space and start again" : ""
  return `${full}.\n${lines.slice(-10).join("\n")}`
}

/** The user PostgreSQL runs as when this process is root, which it refuses to be. */
export interface SystemUser {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

interface Command {
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly account: SystemUser | undefined
  /** A file descriptor for both outputs; without one they are collected. */
  readonly output?: number
}

/**
 * PG* variables and the folder of the caller must not reach the server, which may not even enter the folder. Nor must
 * a Ctrl-C at the terminal: this program decides what ends when.
 */
const start = (options: Command): ChildProcess =>
  spawn(options.command, options.args, {
    cwd: "/",
    env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" },
    stdio: ["ignore", options.output ?? "pipe", options.output ?? "pipe"],
    detached: true,
    ...(options.account && { uid: options.account.uid, gid: options.account.gid }),
  })

/** The systems that the programs of the npm packages are built for. */
export const describeSystemRequirement = (platform: NodeJS.Platform) =>
  platform === "darwin" ? "macOS 13 or newer" : "a Linux with glibc"

const cannotRun = (command: string, cause: Error) =>
  new EmbeddedPostgresError({
    message:
      `The embedded PostgreSQL cannot be run (${cause.message}): ${command} needs ${
        describeSystemRequirement(process.platform)
      } and a ` +
      `folder that allows programs (no noexec). Set TICKERLINE_HOME to another folder, ${ownServerHint}.`,
  })

/** Runs to the end; an interruption ends the command first. */
export const runToCompletion = (
  options: Command,
): Effect.Effect<{ code: number; output: string }, EmbeddedPostgresError> =>
  Effect.callback((resume) => {
    const child = start(options)
    let output = ""
    child.stdout?.on("data", (chunk) => output += String(chunk))
    child.stderr?.on("data", (chunk) => output += String(chunk))
    child.once("error", (cause) => resume(Effect.fail(cannotRun(options.command, cause))))
    child.once("close", (code) => resume(Effect.succeed({ code: code ?? -1, output })))
    return Effect.callback<void>((ended) => {
      child.once("close", () => ended(Effect.void))
      child.kill("SIGTERM")
    })
  })

export interface DetachedProcess {
  /** Ends with the server, and says whether a signal ended it. */
  readonly exited: Effect.Effect<{ readonly killed: boolean }>
  readonly kill: (signal: NodeJS.Signals) => Effect.Effect<void>
}

/** Starts a server that outlives this process and its terminal. */
export const launchDetached = (
  options: Command & { readonly output: number },
): Effect.Effect<DetachedProcess, EmbeddedPostgresError> =>
  Effect.callback((resume) => {
    const child = start(options)
    const exited = Deferred.makeUnsafe<{ readonly killed: boolean }>()
    child.once("error", (cause) => resume(Effect.fail(cannotRun(options.command, cause))))
    child.once("exit", (code) => Deferred.doneUnsafe(exited, Effect.succeed({ killed: code === null })))
    child.once("spawn", () => {
      child.unref()
      resume(Effect.succeed({
        exited: Deferred.await(exited),
        kill: (signal) => Effect.sync(() => void child.kill(signal)),
      }))
    })
  })
