/** Every setting there is, each read as the service reads it; and those that look like one, and are none. */
import { Config, Effect, Option, Result } from "effect"
import * as Metering from "../account/Metering.ts"
import { Kept } from "../account/Partitions.ts"
import { limits } from "../account/RateLimit.ts"
import { RedisUrl } from "../account/Redis.ts"
import * as WrongKeys from "../account/WrongKeys.ts"
import { Base } from "../Base.ts"
import { CacheBytes } from "../cache/Answers.ts"
import { prices } from "../catalogue/Prices.ts"
import { Origins } from "../Cors.ts"
import { DatabaseUrl } from "../db/Connection.ts"
import { PoolSize, PoolWait } from "../db/Database.ts"
import { MaxLag, ReadUrls } from "../db/Replicas.ts"
import { home } from "../db/Embedded.ts"
import { DirectUrl, PoolerPrepares } from "../db/Session.ts"
import { ofSetting } from "../Explain.ts"
import { WholeLists } from "../lists/Cursors.ts"
import * as Logs from "../Logs.ts"
import * as Mail from "../mail/Settings.ts"
import * as Prometheus from "../observability/Prometheus.ts"
import * as Traces from "../observability/Traces.ts"
import { nearest } from "../policy/Nearest.ts"
import { TrustedProxies } from "../Proxies.ts"
import { Key } from "../query/Key.ts"
import { Host, Port, ReusePort, ShutdownDelay } from "../Serve.ts"
import { failed, ok, warning } from "./Finding.ts"

interface Setting {
  readonly names: ReadonlyArray<string>
  readonly read: Effect.Effect<unknown, Config.ConfigError>
}

const setting = (read: Effect.Effect<unknown, Config.ConfigError>, ...names: ReadonlyArray<string>): Setting => ({
  names,
  read,
})

export const settings: ReadonlyArray<Setting> = [
  setting(Host, "HOST"),
  setting(Port, "PORT"),
  setting(Base, "BASE_URL"),
  setting(DatabaseUrl, "DATABASE_URL"),
  setting(ReadUrls, "DATABASE_READ_URLS"),
  setting(MaxLag, "MAX_REPLICA_LAG"),
  setting(DirectUrl, "DATABASE_DIRECT_URL"),
  setting(PoolerPrepares, "DATABASE_POOLER_PREPARES"),
  setting(PoolSize, "DATABASE_POOL_SIZE"),
  setting(PoolWait, "DATABASE_POOL_TIMEOUT"),
  setting(WholeLists, "WHOLE_LISTS"),
  setting(CacheBytes, "CACHE_MEGABYTES"),
  setting(ReusePort, "REUSE_PORT"),
  setting(ShutdownDelay, "SHUTDOWN_DELAY"),
  setting(prices, "PRICE_PER_GB_MICRODOLLARS", "ENDPOINT_PRICES"),
  setting(limits, "RATE_LIMIT_BASIC", "RATE_LIMIT_PRO", "RATE_LIMIT_ULTIMATE"),
  setting(Config.option(RedisUrl), "REDIS_URL"),
  setting(WrongKeys.Most, "WRONG_KEYS_LIMIT"),
  setting(TrustedProxies, "TRUSTED_PROXIES"),
  setting(Metering.Buffer, "USAGE_BUFFER"),
  setting(Kept, "USAGE_RETENTION"),
  setting(home, "TICKERLINE_HOME"),
  setting(Key, "TICKERLINE_KEY"),
  setting(Origins, "CORS_ORIGINS"),
  setting(Mail.settings, "SMTP_URL", "MAIL_FROM", "MAIL_UNSUBSCRIBE", "MAIL_PER_MINUTE", "MAIL_RETRY_AFTER"),
  setting(Logs.Format, "LOG_FORMAT"),
  setting(Logs.Level, "LOG_LEVEL"),
  setting(Prometheus.Port, "METRICS_PORT"),
  setting(Prometheus.Host, "METRICS_HOST"),
  setting(Traces.Endpoint, "OTEL_EXPORTER_OTLP_ENDPOINT"),
]

const names = settings.flatMap((one) => one.names)

/** Short names mean something to other programs too. */
const isTelling = (name: string) => /^[A-Z][A-Z_]{7,}$/.test(name)

/** In the environment, but read by nobody: most likely a slip, whose default is then taken silently. */
export const strangers = (environment: ReadonlyArray<string>) =>
  environment
    .filter((name) => !names.includes(name) && isTelling(name))
    .map((name) => ({ name, meant: nearest(name, names) }))
    .filter(({ meant, name }) => Option.isSome(meant) || name.startsWith("TICKERLINE_"))

export const checkSettings = Effect.fnUntraced(function* (environment: ReadonlyArray<string>) {
  const read = yield* Effect.forEach(settings, (one) => Effect.result(one.read))
  const wrong = settings.flatMap((_, at) => {
    const result = read[at]
    return result === undefined || Result.isSuccess(result)
      ? []
      : [failed("settings", ofSetting(result.failure), "Set it right, or unset it for its default.")]
  })
  const unknown = strangers(environment).map(({ meant, name }) =>
    warning(
      name,
      "no setting has this name, so it does nothing",
      Option.match(meant, {
        onNone: () => `Unset it. The README lists the settings.`,
        onSome: (known) => `Did you mean ${known}?`,
      }),
    )
  )
  const set = names.filter((name) => environment.includes(name))
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
