/**
 * Runs the scheduled ingest in a separate process, so that decoding documents never delays the service's requests
 * (decision 0128). The process ends when its standard input is closed, which happens even if the service is killed.
 */
import { Duration, Effect, Option, Redacted } from "effect"
import { ChildProcess } from "effect/process"
import process from "node:process"
import { fileURLToPath } from "node:url"
import { DirectConnectionConfig } from "../../../postgres/pool/ConnectionSettings.ts"

/** Name of the hidden option of `ingest edgar` that marks a run as scheduled. */
export const scheduledRunFlag = "scheduled"

/** How long the ingest process may take to stop when it has been asked to. After this time, it is killed. */
const stopTimeout = Duration.seconds(15)

/**
 * Environment variables that the ingest process inherits from the service: system, TLS, and proxy variables, and
 * settings that the command reads. They do not include the service's secrets.
 */
const passedVariables = new RegExp(
  "^(PATH|HOME|USER|LOGNAME|TMPDIR|TZ|LANG|LC_\\w+|NO_COLOR|DENO_DIR|NODE_EXTRA_CA_CERTS|SSL_\\w+|PG\\w+|" +
    "NODE_USE_\\w+|HTTPS?_PROXY|https?_proxy|NO_PROXY|no_proxy|TICKERLINE_HOME|LOG_\\w+|DATABASE_POOL_\\w+)$",
)

/**
 * Returns the arguments that make the current runtime (Node or Deno) start this program. A bundle has no `main.ts`, so
 * the file that started the service is used.
 */
const getProgram = () => {
  const [, started, command] = process.argv
  const main = command === "serve" && started !== undefined
    ? started
    : fileURLToPath(new URL("../../../main.ts", import.meta.url))
  return "Deno" in globalThis ? ["run", "--allow-all", main] : [main]
}

/** Settings that the service passes to the ingest process. */
export interface IngestProcessOptions {
  readonly userAgent: string
  /** Symbols of the companies to ingest; null for all companies. */
  readonly tickers: ReadonlyArray<string> | null
  readonly baseUrl: Option.Option<string>
}

/**
 * Runs the scheduled ingest in a separate process and waits for it to end. Returns why it failed, or null if its exit
 * code is 0. Interrupting this effect stops the process.
 */
export const runIngestProcess = Effect.fnUntraced(
  function* ({ baseUrl, tickers, userAgent }: IngestProcessOptions) {
    const { config: { url }, file } = yield* DirectConnectionConfig
    const inherited = Object.entries(process.env).filter(([name]) => passedVariables.test(name))
    const handle = yield* ChildProcess.make(
      process.execPath,
      [...getProgram(), "ingest", "edgar", `--${scheduledRunFlag}`],
      {
        env: {
          ...Object.fromEntries(inherited),
          // The process reads the file with the database URL for each new connection, because the password may change
          // while the process runs.
          DATABASE_URL_FILE: file,
          DATABASE_URL: file !== undefined || url === undefined ? undefined : Redacted.value(url),
          EDGAR_USER_AGENT: userAgent,
          EDGAR_TICKERS: tickers === null ? "all" : tickers.join(","),
          EDGAR_BASE_URL: Option.getOrUndefined(baseUrl),
        },
        extendEnv: false,
        // The process ends when its standard input closes (`untilServiceEnds`). The system closes this pipe even if the
        // service is killed. Nothing is written to it, and without `endOnDone: false` it would be closed at once.
        stdin: { stream: "pipe", endOnDone: false },
        stdout: "inherit",
        stderr: "inherit",
        forceKillAfter: stopTimeout,
      },
    )
    return yield* Effect.match(handle.exitCode, {
      onFailure: ({ message }) => `The ingest process was killed: ${message}`,
      onSuccess: (code) => code === 0 ? null : `The ingest process ended with exit code ${code}.`,
    })
  },
  Effect.scoped,
)

/**
 * Completes when standard input is closed. If interrupted, stops reading standard input, because reading would keep the
 * process alive.
 */
const standardInputEnd = Effect.callback<void>((resume) => {
  process.stdin.once("end", () => resume(Effect.void)).once("error", () => resume(Effect.void)).resume()
  return Effect.sync(() => process.stdin.destroy())
})

/**
 * Runs an effect in the process of a scheduled ingest, and interrupts it when the service that has started the process
 * ends or closes its standard input.
 */
export const untilServiceEnds = <A, E, R>(run: Effect.Effect<A, E, R>) =>
  Effect.raceFirst(run, Effect.andThen(standardInputEnd, Effect.interrupt))
