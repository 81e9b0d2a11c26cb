/** Starts a PostgreSQL server as a direct child process, so that a test can kill it. */
import { Deferred, Effect } from "effect"
import { spawn } from "node:child_process"

interface Command {
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly systemUser: { readonly uid: number; readonly gid: number } | undefined
  /** The file descriptor for stdout and stderr. */
  readonly output: number
}

/** A process that was started in a separate session. */
export interface DetachedProcess {
  readonly exited: Effect.Effect<void>
  readonly kill: (signal: NodeJS.Signals) => Effect.Effect<void>
}

/**
 * Starts a process in a separate session, so that Ctrl-C in the terminal does not reach it. `output` is the file
 * descriptor that it prints to, and `systemUser` the user that it runs as, if not the current one. This process can end
 * while it runs. Completes when the process has been started.
 */
export const launchDetachedProcess = ({ args, command, output, systemUser }: Command): Effect.Effect<DetachedProcess> =>
  Effect.callback((resume) => {
    const child = spawn(command, args, {
      cwd: "/",
      env: { PATH: process.env["PATH"], LC_ALL: "C", TZ: "UTC" },
      stdio: ["ignore", output, output],
      detached: true,
      ...(systemUser && { uid: systemUser.uid, gid: systemUser.gid }),
    })
    const exited = Deferred.makeUnsafe<void>()
    child.once("error", (cause) => resume(Effect.die(cause)))
    child.once("exit", () => Deferred.doneUnsafe(exited, Effect.void))
    child.once("spawn", () => {
      child.unref()
      resume(Effect.succeed({
        exited: Deferred.await(exited),
        kill: (signal) => Effect.sync(() => void child.kill(signal)),
      }))
    })
  })
