/** Runs child processes as a different user or in their own session, which `effect/process` does not support. */
import { Deferred, Effect, Schema } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import process from "node:process"

/** A failure of the embedded server. The message explains to the user how to fix it. */
export class EmbeddedPostgresError extends Schema.TaggedError<EmbeddedPostgresError>()("EmbeddedPostgresError", {
  message: Schema.String,
}) {}

export const databaseUrlHint = "or set DATABASE_URL to your own PostgreSQL server"

export const diskFullAdvice = "the disk is full; free some space and start again"

/** Returns the last ten lines of a PostgreSQL log or command output, without SQL. If the disk is full, adds a hint. */
export const summarizeProcessOutput = (output: string): string => {
  const lines = output.trim().split("\n").filter((line) => !/^\t|STATEMENT: /.test(line))
  const diskFull = /No space left/.test(output) ? `: ${diskFullAdvice}` : ""
  return `${diskFull}.\n${lines.slice(-10).join("\n")}`
}

/** The user that runs PostgreSQL if this process is root, because PostgreSQL refuses to run as root. */
export interface SystemUser {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

interface Command {
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly systemUser: SystemUser | undefined
  /** File descriptor for stdout and stderr. If unset, both are collected in memory. */
  readonly output?: number
}

/**
 * Isolates the child from the caller: from its PG* variables, from Ctrl-C in its terminal, and from its working
 * directory, which the child's user may be unable to access.
 */
const spawnIsolated = (options: Command): ChildProcess =>
  spawn(options.command, options.args, {
    cwd: "/",
    env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" },
    stdio: ["ignore", options.output ?? "pipe", options.output ?? "pipe"],
    detached: true,
    ...(options.systemUser && { uid: options.systemUser.uid, gid: options.systemUser.gid }),
  })

/** Names the operating system that the PostgreSQL programs in the npm packages require. */
export const describeSystemRequirement = (platform: NodeJS.Platform) =>
  platform === "darwin" ? "macOS 13 or newer" : "Linux with glibc"

const cannotRun = (command: string, cause: Error) =>
  new EmbeddedPostgresError({
    message:
      `The embedded PostgreSQL cannot start (${cause.message}): ${command} needs ${
        describeSystemRequirement(process.platform)
      } and a ` +
      `folder from which programs may run (not mounted with noexec). Set TICKERLINE_HOME to another folder, ` +
      `${databaseUrlHint}.`,
  })

/** Runs a command to completion. An interruption terminates the command. */
export const runProcessToCompletion = (
  options: Command,
): Effect.Effect<{ code: number; output: string }, EmbeddedPostgresError> =>
  Effect.callback((resume) => {
    const child = spawnIsolated(options)
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
  /** Completes when the process exits, and reports whether a signal killed it. */
  readonly exited: Effect.Effect<{ readonly killed: boolean }>
  readonly kill: (signal: NodeJS.Signals) => Effect.Effect<void>
}

/** Starts a process that keeps running after this process ends and after the terminal closes. */
export const launchDetachedProcess = (
  options: Command & { readonly output: number },
): Effect.Effect<DetachedProcess, EmbeddedPostgresError> =>
  Effect.callback((resume) => {
    const child = spawnIsolated(options)
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
