/**
 * Rotates the passwords in files with database URLs, such as `DATABASE_URL_FILE`. Every new connection reads the file
 * again. An operator can therefore change the password in PostgreSQL and in the file, in either order and without a
 * restart.
 */
import { PgConnection } from "@effect/sql-pg"
import { Config, ConfigProvider, Effect, Exit, Option, Redacted, Schedule } from "effect"
import type { SqlError } from "effect/sql"
import { isPasswordRejected } from "../SqlState.ts"

/** A file that contains a database URL. */
export interface UrlFile {
  readonly file: string
  /** Reads the setting again, which also reads the file again. */
  readonly read: Effect.Effect<Option.Option<Redacted.Redacted>, Config.ConfigError>
}

/** Returns the file that contains a URL setting, or undefined if the setting does not come from a file. */
export const findUrlFile = Effect.fnUntraced(function* (
  name: string,
  setting: Config.Config<Option.Option<Redacted.Redacted>>,
) {
  const provider = yield* ConfigProvider.ConfigProvider
  const file = yield* Config.option(Config.NonEmptyString(`${name}_FILE`))
  if (Option.isNone(file)) return undefined
  const urlFile: UrlFile = { file: file.value, read: setting.parse(provider) }
  return urlFile
})

/** Splits a URL into the password that the driver uses and the URL without it. */
const splitPassword = (address: Redacted.Redacted) => {
  const url = new URL(Redacted.value(address))
  const password = url.searchParams.get("password") ?? decodeURIComponent(url.password)
  url.password = ""
  url.searchParams.delete("password")
  return { password, rest: url.href }
}

/**
 * Creates the driver's password option for a password that may change. `config` is used to test a new password. New
 * connections use the previous password until PostgreSQL accepts the new one.
 *
 * The option is an effect that the driver runs for each new connection. It reads the file with the URL again. If the
 * file cannot be read, or its URL differs in more than the password (`rest`), the previous password is used.
 */
export const makeRotatedPassword = (
  config: PgConnection.Config & { readonly url: Redacted.Redacted },
  { file, read }: UrlFile,
): Effect.Effect<Redacted.Redacted> => {
  const { password, rest } = splitPassword(config.url)
  let accepted = password
  let lastWarning: string | undefined
  /** Logs a warning, unless it is the same as the last one. Otherwise every new connection would repeat it. */
  const warn = (warning: string) =>
    Effect.suspend(() => {
      if (warning === lastWarning) return Effect.void
      lastWarning = warning
      return Effect.logWarning(warning)
    })
  /** Connects with a new password. If PostgreSQL accepts the password, later connections use it. */
  const tryPassword = (found: string) =>
    Effect.scoped(PgConnection.make({ ...config, password: Redacted.make(found) })).pipe(
      Effect.matchEffect({
        onFailure: (error) =>
          isPasswordRejected(error)
            ? warn(`PostgreSQL does not accept the password in ${file} yet, so new connections use the previous one.`)
            : Effect.void,
        onSuccess: () => {
          if (accepted === found) return Effect.void
          accepted = found
          lastWarning = undefined
          return Effect.logInfo(`New connections use the new password in ${file}.`)
        },
      }),
    )
  return read.pipe(
    Effect.flatMap((url) => Effect.try(() => splitPassword(Option.getOrThrow(url)))),
    Effect.exit,
    Effect.flatMap((exit) => {
      if (Exit.isSuccess(exit) && exit.value.rest === rest) {
        if (exit.value.password !== accepted) return tryPassword(exit.value.password)
        lastWarning = undefined
        return Effect.void
      }
      const problem = Exit.isSuccess(exit) ? "differs in more than the password" : "can no longer be read"
      return warn(
        `The database URL in ${file} ${problem}, so new connections use the previous one. ` +
          "Correct the file, or restart the process.",
      )
    }),
    Effect.map(() => Redacted.make(accepted)),
  )
}

/**
 * Retries for five seconds. This gives an operator who has already changed the password in PostgreSQL time to change
 * the file.
 */
const rotationSchedule = Schedule.spaced("250 millis").pipe(Schedule.upTo({ duration: "5 seconds" }))

/**
 * Retries the connection while PostgreSQL rejects a password that comes from a file. Each attempt reads the file again.
 */
export const retryRejectedPassword = <A, R>(
  { password }: Pick<PgConnection.Config, "password">,
  connect: Effect.Effect<A, SqlError.SqlError, R>,
) =>
  Effect.isEffect(password) ? Effect.retry(connect, { while: isPasswordRejected, schedule: rotationSchedule }) : connect
