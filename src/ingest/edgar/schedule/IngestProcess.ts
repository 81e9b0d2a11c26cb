/**
 * The process in which a service runs its scheduled ingest, so that decoding documents never delays requests
 * (decision 0128). It ends when its standard input is closed, even if the service was killed.
 */
import { Duration, Effect, Option, Redacted } from "effect"
import { ChildProcess } from "effect/process"
import process from "node:process"
import { fileURLToPath } from "node:url"
import { DirectConnectionConfig } from "../../../postgres/pool/ConnectionSettings.ts"

/** The hidden option of `ingest edgar` that the service sets. */
export const scheduledRunFlag = "scheduled"

/** After this time, a process that has not ended yet is killed. */
const stopTimeout = Duration.seconds(15)

/**
 * Variables that the command may need: of the system, of TLS and proxies, and its own settings. No secrets of the
 * service are among them.
 */
const passedVariables = new RegExp(
  "^(PATH|HOME|USER|LOGNAME|TMPDIR|TZ|LANG|LC_\\w+|NO_COLOR|DENO_DIR|NODE_EXTRA_CA_CERTS|SSL_\\w+|PG\\w+|" +
    "NODE_USE_\\w+|HTTPS?_PROXY|https?_proxy|NO_PROXY|no_proxy|TICKERLINE_HOME|LOG_\\w+|DATABASE_POOL_\\w+)$",
)

/** Starts this program, on the same runtime. A bundle is its own entry point. */
const getProgram = () => {
  const [, started, command] = process.argv
  const main = command === "serve" && started !== undefined
    ? started
    : fileURLToPath(new URL("../../../main.ts", import.meta.url))
  return "Deno" in globalThis ? ["run", "--allow-all", main] : [main]
}

export interface IngestProcessOptions {
  readonly userAgent: string
  /** Null for all companies. */
  readonly tickers: ReadonlyArray<string> | null
  readonly baseUrl: Option.Option<string>
}

/**
 * Runs the scheduled ingest in a process of its own. Returns why it failed; null if it ended with status 0. Ends the
 * process if interrupted.
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
          // A file is read again for each connection, because the password may be changed while the process runs.
          DATABASE_URL_FILE: file,
          DATABASE_URL: file !== undefined || url === undefined ? undefined : Redacted.value(url),
          EDGAR_USER_AGENT: userAgent,
          EDGAR_TICKERS: tickers === null ? "all" : tickers.join(","),
          EDGAR_BASE_URL: Option.getOrUndefined(baseUrl),
        },
        extendEnv: false,
        stdin: { stream: "pipe", endOnDone: false },
        stdout: "inherit",
        stderr: "inherit",
        forceKillAfter: stopTimeout,
      },
    )
    return yield* Effect.match(handle.exitCode, {
      onFailure: ({ message }) => `The process of the ingest was killed: ${message}`,
      onSuccess: (code) => code === 0 ? null : `The process of the ingest ended with exit code ${code}.`,
    })
  },
  Effect.scoped,
)

/** Completes when the standard input is closed. Afterwards, it no longer keeps the process alive. */
const standardInputEnd = Effect.callback<void>((resume) => {
  process.stdin.once("end", () => resume(Effect.void)).once("error", () => resume(Effect.void)).resume()
  return Effect.sync(() => process.stdin.destroy())
})

/** Interrupts the run when the service closes the standard input or ends. */
export const untilServiceEnds = <A, E, R>(run: Effect.Effect<A, E, R>) =>
  Effect.raceFirst(run, Effect.andThen(standardInputEnd, Effect.interrupt))
