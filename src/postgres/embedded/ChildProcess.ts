/** Runs child processes as a different user and in their own session, which `effect/process` does not support. */
import { Data, Effect } from "effect"
import { spawn } from "node:child_process"
import process from "node:process"

/** A failure of the embedded server. The message tells the user how to fix the problem. */
export class EmbeddedPostgresError extends Data.TaggedError("EmbeddedPostgresError")<{ readonly message: string }> {}

/**
 * The last words of an error message about the embedded server. They suggest an external database as the alternative.
 */
export const databaseUrlHint = "or set DATABASE_URL to your own PostgreSQL server"

/** The advice in error messages when the disk is full. */
export const diskFullAdvice = "the disk is full; free some space and start again"

/** Returns the last ten lines of a PostgreSQL log or command output, without SQL. Adds a hint if the disk is full. */
export const summarizeProcessOutput = (output: string): string => {
  const lines = output.trim().split("\n").filter((line) => !/^\t|STATEMENT: /.test(line))
  const diskFull = /No space left/.test(output) ? `: ${diskFullAdvice}` : ""
  return `${diskFull}.\n${lines.slice(-10).join("\n")}`
}

/** The user that runs PostgreSQL when this process is root, because PostgreSQL refuses to run as root. */
export interface SystemUser {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

/** Returns which operating system the PostgreSQL programs from npm require. */
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

interface Command {
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly systemUser: SystemUser | undefined
}

/**
 * Runs a command to completion, and terminates it if interrupted. The command is isolated from this process: it does
 * not inherit the `PG*` environment variables, does not receive Ctrl-C from the terminal, and does not run in this
 * process's working directory, which the command's user may be unable to access.
 */
export const runProcessToCompletion = (
  { args, command, systemUser }: Command,
): Effect.Effect<{ code: number; output: string }, EmbeddedPostgresError> =>
  Effect.callback((resume) => {
    const child = spawn(command, args, {
      cwd: "/",
      env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
      ...(systemUser && { uid: systemUser.uid, gid: systemUser.gid }),
    })
    let output = ""
    child.stdout.on("data", (chunk) => output += String(chunk))
    child.stderr.on("data", (chunk) => output += String(chunk))
    child.once("error", (cause) => resume(Effect.fail(cannotRun(command, cause))))
    child.once("close", (code) => resume(Effect.succeed({ code: code ?? -1, output })))
    // On interruption, terminates the command and waits for it to exit.
    return Effect.callback<void>((ended) => {
      child.once("close", () => ended(Effect.void))
      child.kill("SIGTERM")
    })
  })
