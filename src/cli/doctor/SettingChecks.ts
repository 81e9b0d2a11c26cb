/** Reads every setting as the service does, and tells which are wrong, misspelt or in contradiction. */
import { Config, Effect, Option, Result } from "effect"
import * as Metering from "../../accounts/billing/Metering.ts"
import { UsageRetentionConfig } from "../../accounts/billing/UsagePartitions.ts"
import * as RateLimit from "../../accounts/limits/RateLimit.ts"
import * as WrongKeys from "../../accounts/keys/BruteForceGuard.ts"
import { BaseUrlConfig } from "../../http/BaseUrl.ts"
import { CacheBytesConfig } from "../../lists/QueryCache.ts"
import * as Prices from "../../catalogue/PriceList.ts"
import { CorsOriginsConfig } from "../../http/Cors.ts"
import { PoolSize, PoolTimeout } from "../../db/Database.ts"
import { TickerlineHome } from "../../db/embedded/EmbeddedPostgres.ts"
import { ReplicaUrls } from "../../db/replicas/ReadRouter.ts"
import { DatabaseUrl, DirectUrl, PoolerPrepares } from "../../db/pool/Session.ts"
import { MaxExportsConfig } from "../../lists/ExportCursors.ts"
import * as Logs from "../Logging.ts"
import * as Mail from "../../mail/MailSettings.ts"
import * as Prometheus from "../../observability/PrometheusServer.ts"
import * as Traces from "../../observability/Tracing.ts"
import { TrustedProxiesConfig } from "../../http/TrustedProxies.ts"
import { ApiKeyConfig } from "../query/KeyFile.ts"
import { HostConfig, PortConfig, ReusePortConfig, ShutdownDelayConfig } from "../ServeCommand.ts"
import {
  findMisspeltSettings,
  settingNames,
  type SettingProblem,
  suggestSetting,
  toSettingProblems,
} from "../SettingErrors.ts"
import { failed, passed, warned } from "./Finding.ts"

/** Each as the service reads it. Those that may stay unset are read as optional, although others may require them. */
export const settingReaders: Readonly<Record<string, Effect.Effect<unknown, Config.ConfigError>>> = {
  HOST: HostConfig,
  PORT: PortConfig,
  BASE_URL: BaseUrlConfig,
  DATABASE_URL: DatabaseUrl,
  DATABASE_READ_URLS: ReplicaUrls,
  DATABASE_DIRECT_URL: DirectUrl,
  DATABASE_POOLER_PREPARES: PoolerPrepares,
  DATABASE_POOL_SIZE: PoolSize,
  DATABASE_POOL_TIMEOUT: PoolTimeout,
  WHOLE_LISTS: MaxExportsConfig,
  CACHE_MEGABYTES: CacheBytesConfig,
  REUSE_PORT: ReusePortConfig,
  SHUTDOWN_DELAY: ShutdownDelayConfig,
  PRICE_PER_GB_MICRODOLLARS: Prices.PricePerGbMicrodollars,
  ENDPOINT_PRICES: Prices.EndpointPrices,
  RATE_LIMIT_BASIC: RateLimit.RateLimitBasicConfig,
  RATE_LIMIT_PRO: RateLimit.RateLimitProConfig,
  RATE_LIMIT_ULTIMATE: RateLimit.RateLimitUltimateConfig,
  WRONG_KEYS_LIMIT: WrongKeys.WrongKeysLimitConfig,
  TRUSTED_PROXIES: TrustedProxiesConfig,
  USAGE_BUFFER: Metering.UsageBufferConfig,
  USAGE_RETENTION: UsageRetentionConfig,
  TICKERLINE_HOME: TickerlineHome,
  TICKERLINE_KEY: ApiKeyConfig,
  CORS_ORIGINS: CorsOriginsConfig,
  SMTP_URL: Config.option(Mail.SmtpUrl),
  MAIL_FROM: Config.option(Mail.MailFrom),
  MAIL_UNSUBSCRIBE: Mail.MailUnsubscribe,
  MAIL_PER_MINUTE: Mail.MailPerMinute,
  MAIL_RETRY_AFTER: Mail.MailRetryAfter,
  LOG_FORMAT: Logs.LogFormatConfig,
  LOG_LEVEL: Logs.LogLevelConfig,
  METRICS_PORT: Prometheus.MetricsPortConfig,
  METRICS_HOST: Prometheus.MetricsHostConfig,
  OTEL_EXPORTER_OTLP_ENDPOINT: Traces.OtlpEndpointConfig,
}

/** Mails need a sender. */
const senderMissing = Effect.map(
  Effect.all([Config.option(Mail.SmtpUrl), Config.option(Mail.MailFrom)]),
  ([server, from]): ReadonlyArray<SettingProblem> =>
    Option.isNone(server) || Option.isSome(from) ? [] : [{
      name: "MAIL_FROM",
      problem: "MAIL_FROM is not set, but SMTP_URL is, and mails need a sender.",
      fix: `Set it, for example MAIL_FROM="Tickerline <notices@example.com>", or unset SMTP_URL.`,
    }],
)

const portTwice = Effect.map(
  Effect.all([PortConfig, Prometheus.MetricsPortConfig]),
  ([port, metrics]): ReadonlyArray<SettingProblem> =>
    !Option.contains(metrics, port) ? [] : [{
      name: "METRICS_PORT",
      problem: `METRICS_PORT is ${port}, which is the PORT of the API too.`,
      fix: "Set it to another port, for example METRICS_PORT=9464, or unset it to serve no metrics.",
    }],
)

/** Every setting that the service could not start with. */
export const invalidSettings = Effect.gen(function* () {
  const results = yield* Effect.forEach(Object.values(settingReaders), Effect.result)
  const wrong = yield* Effect.forEach(results.filter(Result.isFailure), ({ failure }) => toSettingProblems(failure))
  // A contradiction of settings that cannot be read is told once they can.
  const together = yield* Effect.forEach([senderMissing, portTwice], (check) => Effect.orElseSucceed(check, () => []))
  return [...wrong, ...together].flat()
})

/** Warns of variables that are most likely meant as settings; otherwise their defaults would be taken silently. */
export const warnOfMisspeltSettings = (environment: Readonly<Record<string, string | undefined>>) =>
  Effect.forEach(
    findMisspeltSettings(environment),
    (unknown) =>
      Effect.logWarning(`${unknown.name} is set, but is not a setting and has no effect. ${suggestSetting(unknown)}`),
    { discard: true },
  )

export const checkSettings = Effect.fnUntraced(function* (environment: Readonly<Record<string, string | undefined>>) {
  const wrong = (yield* invalidSettings).map(({ fix, problem }) => failed("settings", problem, fix))
  const unknown = findMisspeltSettings(environment).map((one) =>
    warned(one.name, "no setting has this name, so it has no effect", suggestSetting(one))
  )
  const set = settingNames.filter((name) => environment[name] !== undefined)
  const found = set.length === 0 ? "all at their defaults" : `set: ${set.join(", ")}`
  return [...(wrong.length === 0 ? [passed("settings", found)] : wrong), ...unknown]
})

const isLocal = (host: string) => /^(localhost|127\.|\[?::1)/.test(host)

/** What each alone is right, and does not go together. */
export const checkClientAddress = Effect.gen(function* () {
  const base = yield* BaseUrlConfig
  const host = yield* HostConfig
  const proxies = yield* TrustedProxiesConfig
  const check = "clients"
  if (Option.isNone(base)) {
    return host === "0.0.0.0" || host === "::"
      ? warned(
        check,
        "other machines may connect, but links in answers name localhost",
        "Set BASE_URL to the address that clients use.",
      )
      : passed(check, `on this machine, at ${host}`)
  }
  if (isLocal(new URL(base.value).hostname) || proxies.length > 0) return passed(check, `through ${base.value}`)
  return warned(
    check,
    `through ${base.value}, and no proxy is trusted, so all clients may seem to have one address`,
    "Behind a balancer set TRUSTED_PROXIES to its addresses; without one, this is right.",
  )
})
