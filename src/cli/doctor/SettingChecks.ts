/** Reads every setting as the service does, and tells which are wrong, misspelt or in contradiction. */
import { Config, Effect, Option, Result } from "effect"
import * as Metering from "../../accounts/billing/Metering.ts"
import { Kept } from "../../accounts/billing/UsagePartitions.ts"
import * as RateLimit from "../../accounts/limits/RateLimit.ts"
import { RedisUrl } from "../../accounts/limits/Redis.ts"
import * as WrongKeys from "../../accounts/keys/BruteForceGuard.ts"
import { Base } from "../../http/BaseUrl.ts"
import { CacheBytes } from "../../lists/QueryCache.ts"
import * as Prices from "../../catalogue/PriceList.ts"
import { Origins } from "../../http/Cors.ts"
import { PoolSize, PoolWait } from "../../db/Database.ts"
import { home } from "../../db/embedded/EmbeddedPostgres.ts"
import { MaxLag, ReadUrls } from "../../db/replicas/ReadRouter.ts"
import { DatabaseUrl, DirectUrl, PoolerPrepares } from "../../db/pool/Session.ts"
import { WholeLists } from "../../lists/ExportCursors.ts"
import * as Logs from "../Logging.ts"
import * as Mail from "../../mail/MailSettings.ts"
import * as Prometheus from "../../observability/PrometheusServer.ts"
import * as Traces from "../../observability/Tracing.ts"
import { TrustedProxies } from "../../http/TrustedProxies.ts"
import { Key } from "../query/KeyFile.ts"
import { Host, Port, ReusePort, ShutdownDelay } from "../ServeCommand.ts"
import { misspelt, names, type Problem, problemsOf, suggestion } from "../SettingErrors.ts"
import { failed, ok, warning } from "./Finding.ts"

/** Each as the service reads it. Those that may stay unset are read as optional, although others may require them. */
export const readers: Readonly<Record<string, Effect.Effect<unknown, Config.ConfigError>>> = {
  HOST: Host,
  PORT: Port,
  BASE_URL: Base,
  DATABASE_URL: DatabaseUrl,
  DATABASE_READ_URLS: ReadUrls,
  MAX_REPLICA_LAG: MaxLag,
  DATABASE_DIRECT_URL: DirectUrl,
  DATABASE_POOLER_PREPARES: PoolerPrepares,
  DATABASE_POOL_SIZE: PoolSize,
  DATABASE_POOL_TIMEOUT: PoolWait,
  WHOLE_LISTS: WholeLists,
  CACHE_MEGABYTES: CacheBytes,
  REUSE_PORT: ReusePort,
  SHUTDOWN_DELAY: ShutdownDelay,
  PRICE_PER_GB_MICRODOLLARS: Prices.General,
  ENDPOINT_PRICES: Prices.Own,
  RATE_LIMIT_BASIC: RateLimit.Basic,
  RATE_LIMIT_PRO: RateLimit.Pro,
  RATE_LIMIT_ULTIMATE: RateLimit.Ultimate,
  REDIS_URL: Config.option(RedisUrl),
  WRONG_KEYS_LIMIT: WrongKeys.Most,
  TRUSTED_PROXIES: TrustedProxies,
  USAGE_BUFFER: Metering.Buffer,
  USAGE_RETENTION: Kept,
  TICKERLINE_HOME: home,
  TICKERLINE_KEY: Key,
  CORS_ORIGINS: Origins,
  SMTP_URL: Config.option(Mail.SmtpUrl),
  MAIL_FROM: Config.option(Mail.From),
  MAIL_UNSUBSCRIBE: Mail.Unsubscribe,
  MAIL_PER_MINUTE: Mail.PerMinute,
  MAIL_RETRY_AFTER: Mail.RetryAfter,
  LOG_FORMAT: Logs.Format,
  LOG_LEVEL: Logs.Level,
  METRICS_PORT: Prometheus.Port,
  METRICS_HOST: Prometheus.Host,
  OTEL_EXPORTER_OTLP_ENDPOINT: Traces.Endpoint,
}

/** Mails need a sender. */
const senderMissing = Effect.map(
  Effect.all([Config.option(Mail.SmtpUrl), Config.option(Mail.From)]),
  ([server, from]): ReadonlyArray<Problem> =>
    Option.isNone(server) || Option.isSome(from) ? [] : [{
      name: "MAIL_FROM",
      problem: "MAIL_FROM is not set, but SMTP_URL is, and mails need a sender.",
      fix: `Set it, for example MAIL_FROM="Tickerline <notices@example.com>", or unset SMTP_URL.`,
    }],
)

const portTwice = Effect.map(
  Effect.all([Port, Prometheus.Port]),
  ([port, metrics]): ReadonlyArray<Problem> =>
    !Option.contains(metrics, port) ? [] : [{
      name: "METRICS_PORT",
      problem: `METRICS_PORT is ${port}, which is the PORT of the API too.`,
      fix: "Set it to another port, for example METRICS_PORT=9464, or unset it to serve no metrics.",
    }],
)

/** Every setting that the service could not start with. */
export const wrongSettings = Effect.gen(function* () {
  const results = yield* Effect.forEach(Object.values(readers), Effect.result)
  const wrong = yield* Effect.forEach(results.filter(Result.isFailure), ({ failure }) => problemsOf(failure))
  // A contradiction of settings that cannot be read is told once they can.
  const together = yield* Effect.forEach([senderMissing, portTwice], (check) => Effect.orElseSucceed(check, () => []))
  return [...wrong, ...together].flat()
})

/** Warns of variables that are most likely meant as settings; otherwise their defaults would be taken silently. */
export const warnOfMisspelt = (environment: Readonly<Record<string, string | undefined>>) =>
  Effect.forEach(
    misspelt(environment),
    (unknown) =>
      Effect.logWarning(`${unknown.name} is set, but is not a setting and has no effect. ${suggestion(unknown)}`),
    { discard: true },
  )

export const checkSettings = Effect.fnUntraced(function* (environment: Readonly<Record<string, string | undefined>>) {
  const wrong = (yield* wrongSettings).map(({ fix, problem }) => failed("settings", problem, fix))
  const unknown = misspelt(environment).map((one) =>
    warning(one.name, "no setting has this name, so it has no effect", suggestion(one))
  )
  const set = names.filter((name) => environment[name] !== undefined)
  const found = set.length === 0 ? "all at their defaults" : `set: ${set.join(", ")}`
  return [...(wrong.length === 0 ? [ok("settings", found)] : wrong), ...unknown]
})

const isLocal = (host: string) => /^(localhost|127\.|\[?::1)/.test(host)

/** What each alone is right, and does not go together. */
export const checkFronting = Effect.gen(function* () {
  const base = yield* Base
  const host = yield* Host
  const proxies = yield* TrustedProxies
  const check = "clients"
  if (Option.isNone(base)) {
    return host === "0.0.0.0" || host === "::"
      ? warning(
        check,
        "other machines may connect, but links in answers name localhost",
        "Set BASE_URL to the address that clients use.",
      )
      : ok(check, `on this machine, at ${host}`)
  }
  if (isLocal(new URL(base.value).hostname) || proxies.length > 0) return ok(check, `through ${base.value}`)
  return warning(
    check,
    `through ${base.value}, and no proxy is trusted, so all clients may seem to have one address`,
    "Behind a balancer set TRUSTED_PROXIES to its addresses; without one, this is right.",
  )
})
