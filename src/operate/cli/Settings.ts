/**
 * Defines all settings, how each is read, and the messages about invalid and misspelled settings
 * (docs/decisions/0042-one-table-of-settings.md).
 */
import { Config, ConfigProvider, Duration, Effect, Option, Result, Schema, SchemaIssue } from "effect"
import { PostgresProgramsConfig } from "../backups/PostgresClientPrograms.ts"
import { UsageBufferSizeConfig } from "../../accounts/billing/UsageMetering.ts"
import {
  AdminDatabaseUrlConfig,
  AdminHostConfig,
  AdminPortConfig,
  AdminUrlConfig,
  OidcClientIdConfig,
  OidcClientSecretConfig,
  OidcGroupsClaimConfig,
  OidcGroupsConfig,
  OidcIssuerConfig,
  OidcScopesConfig,
} from "../admin/AdminSettings.ts"
import { AuditRetentionConfig } from "../../postgres/AuditLog.ts"
import { UsageRetentionConfig } from "../../accounts/billing/UsagePartitions.ts"
import { MaxStreamsPerAccountConfig } from "../../query/history/ChangeStream.ts"
import { HistoryRetentionConfig } from "../../query/history/HistoryRetention.ts"
import { WrongKeysLimitConfig } from "../../accounts/keys/BruteForceGuard.ts"
import {
  BasicTierRateLimitConfig,
  ProTierRateLimitConfig,
  UltimateTierRateLimitConfig,
} from "../../accounts/limits/AccountRateLimiter.ts"
import { DefaultPricePerGbConfig, EndpointPricesConfig } from "../../api/catalogue/PriceList.ts"
import { DatabasePoolSizeConfig } from "../../postgres/pool/ConnectionPool.ts"
import { poolTimeout } from "../../postgres/ReadTimeoutsAndRetries.ts"
import { TickerlineHomeConfig } from "../../postgres/embedded/EmbeddedPostgres.ts"
import {
  DatabaseUrlConfig,
  DirectDatabaseUrlConfig,
  PoolerPreparedStatementsConfig,
} from "../../postgres/pool/ConnectionSettings.ts"
import {
  SslCertificateConfig,
  SslKeyConfig,
  SslModeConfig,
  sslModes,
  SslRootCertificateConfig,
} from "../../postgres/pool/DatabaseTls.ts"
import { ReplicaUrlsConfig } from "../../postgres/replicas/ReadRouter.ts"
import { BaseUrlConfig } from "../../api/BaseUrl.ts"
import { CorsOriginsConfig } from "../../api/Cors.ts"
import { TrustedProxiesConfig } from "../../api/TrustedProxies.ts"
import { EdgarBaseUrlConfig, EdgarUserAgentConfig } from "../../ingest/edgar/fetch/EdgarClient.ts"
import { EdgarTickersConfig } from "../../ingest/edgar/schedule/IngestOptions.ts"
import { IngestScheduleConfig } from "../../ingest/edgar/schedule/IngestSchedule.ts"
import { MaxConcurrentExportsConfig, MaxExportTimeConfig, MinExportRateConfig } from "../../query/lists/ExportSlots.ts"
import { HalfCacheBytesConfig } from "../../postgres/versions/DatasetVersions.ts"
import {
  EmailRetryDelayConfig,
  EmailSenderAddressConfig,
  EmailsPerMinuteConfig,
  SmtpUrlConfig,
  UnsubscribeAddressConfig,
} from "../../outbox/mail/MailSettings.ts"
import { MaxResultTokensConfig } from "../../site/mcp/ResultSize.ts"
import { MetricsHostConfig, MetricsPortConfig } from "../../postgres/metrics/MetricsSettings.ts"
import { OtlpEndpointConfig } from "../../postgres/metrics/Tracing.ts"
import { findNearestName } from "../../contract/rules/NameSuggestions.ts"
import { AllowedHostsConfig, WebhooksConfig } from "../../outbox/webhooks/WebhookSettings.ts"
import { SecretFileError, toFileVariable } from "./SecretFiles.ts"
import { LogFormatConfig, LogLevelConfig } from "./Logging.ts"
import { ClientApiKeyConfig } from "./query/QueryRequest.ts"
import { HostConfig, PortConfig, ReusePortConfig, ShutdownDelayConfig } from "./ServeSettings.ts"

interface Setting {
  /**
   * Reads the setting as the service does, except that the setting may be unset even if another setting requires it.
   */
  readonly read: Effect.Effect<unknown, Config.ConfigError>
  /** Completes the sentence "SETTING is …, but must be …". */
  readonly expected: string
  readonly example: string
  /** Completes the sentence "Correct it, or unset it …". Defaults to a phrase with the setting's default value. */
  readonly unset?: string
  /**
   * Whether the value may contain a password or a key. If true, the value can also be provided in a file
   * (`SecretFiles.ts`).
   */
  readonly isSecret?: true
  /** Whether the setting has several rules. If true, error messages state which rule the value violates. */
  readonly hasRules?: true
}

const port = "a port from 1 to 65535"
const duration = "a duration"
const boolean = `"true" or "false"`
const requests = "a whole number of requests per minute from 1 to 1000000000"

/** All settings, by variable name. */
export const settingDefinitions: Readonly<Record<string, Setting>> = {
  HOST: { read: HostConfig, expected: "an address or host name of this machine", example: "127.0.0.1" },
  PORT: { read: PortConfig, expected: port, example: "8080" },
  BASE_URL: {
    read: BaseUrlConfig,
    expected: "a URL that starts with http:// or https://",
    example: "https://api.example.com",
    unset: "to use http://HOST:PORT",
  },
  DATABASE_URL: {
    read: DatabaseUrlConfig,
    expected: "the URL of a PostgreSQL database",
    example: "postgres://user:password@host:5432/database",
    unset: "to use the embedded server",
    isSecret: true,
    hasRules: true,
  },
  DATABASE_DIRECT_URL: {
    read: DirectDatabaseUrlConfig,
    expected: "the URL of the PostgreSQL database behind the pooler",
    example: "postgres://user:password@host:5432/database",
    unset: "if there is no pooler",
    isSecret: true,
    hasRules: true,
  },
  DATABASE_POOLER_PREPARES: { read: PoolerPreparedStatementsConfig, expected: boolean, example: "true" },
  DATABASE_READ_URLS: {
    read: ReplicaUrlsConfig,
    expected: "URLs of PostgreSQL replicas, separated by spaces or commas",
    example: "postgres://user:password@replica1/database,postgres://user:password@replica2/database",
    unset: "to read from the primary",
    isSecret: true,
    hasRules: true,
  },
  PGSSLMODE: {
    read: SslModeConfig,
    expected: `${sslModes.slice(0, -1).map((mode) => JSON.stringify(mode)).join(", ")} or "verify-full"`,
    example: "verify-full",
    unset: "to use the sslmode of each URL",
  },
  PGSSLROOTCERT: {
    read: SslRootCertificateConfig,
    expected: "a file with certificates of authorities, or system",
    example: "/etc/tickerline/ca.pem",
    unset: "to use the sslrootcert of each URL",
  },
  PGSSLCERT: {
    read: SslCertificateConfig,
    expected: "a file with the certificate of this client",
    example: "/etc/tickerline/client.pem",
    unset: "to send no certificate",
  },
  PGSSLKEY: {
    read: SslKeyConfig,
    expected: "a file with the private key of PGSSLCERT",
    example: "/etc/tickerline/client.key",
    unset: "together with PGSSLCERT",
  },
  DATABASE_POOL_SIZE: { read: DatabasePoolSizeConfig, expected: "an integer between 1 and 1000", example: "10" },
  DATABASE_POOL_TIMEOUT: { read: poolTimeout, expected: duration, example: "5 seconds" },
  WHOLE_LISTS: { read: MaxConcurrentExportsConfig, expected: "an integer between 1 and 100", example: "4" },
  WHOLE_LISTS_MIN_RATE: {
    read: MinExportRateConfig,
    expected: "a whole number of bytes per second from 1 to 1000000000",
    example: "16384",
  },
  WHOLE_LISTS_MAX_TIME: { read: MaxExportTimeConfig, expected: duration, example: "1 hour" },
  MAX_STREAMS_PER_ACCOUNT: {
    read: MaxStreamsPerAccountConfig,
    expected: "an integer between 1 and 10000",
    example: "10",
  },
  CACHE_MEGABYTES: {
    read: HalfCacheBytesConfig,
    expected: "a whole number of MiB, or 0 for no cache",
    example: "64",
    unset: "to use the default: 64",
  },
  REUSE_PORT: { read: ReusePortConfig, expected: boolean, example: "true" },
  SHUTDOWN_DELAY: { read: ShutdownDelayConfig, expected: duration, example: "10 seconds", unset: "for no delay" },
  PRICE_PER_GB_MICRODOLLARS: {
    read: DefaultPricePerGbConfig,
    expected: "a whole number of microdollars from 0 to 1000000000000",
    example: "10000000",
  },
  ENDPOINT_PRICES: {
    read: EndpointPricesConfig,
    expected: "a list of paths with prices in microdollars",
    example: "/v1/news=20000000,/v1/screener=5000000",
    unset: "to use one price for all endpoints",
    hasRules: true,
  },
  RATE_LIMIT_BASIC: { read: BasicTierRateLimitConfig, expected: requests, example: "200" },
  RATE_LIMIT_PRO: { read: ProTierRateLimitConfig, expected: requests, example: "1000" },
  RATE_LIMIT_ULTIMATE: { read: UltimateTierRateLimitConfig, expected: requests, example: "5000" },
  WRONG_KEYS_LIMIT: { read: WrongKeysLimitConfig, expected: "a whole number of wrong keys per minute", example: "30" },
  TRUSTED_PROXIES: {
    read: TrustedProxiesConfig,
    expected: "addresses or networks, separated by commas",
    example: "10.0.0.0/8,192.0.2.1",
    unset: "to trust no proxy",
    hasRules: true,
  },
  USAGE_BUFFER: {
    read: UsageBufferSizeConfig,
    expected: "a whole number of requests from 1 to 10000000",
    example: "100000",
  },
  USAGE_RETENTION: {
    read: UsageRetentionConfig,
    expected: "a duration between 31 days and 1,000 years",
    example: "400 days",
  },
  HISTORY_RETENTION: {
    read: HistoryRetentionConfig,
    expected: "a duration between 31 days and 1,000 years",
    example: "800 days",
    unset: "to keep the history forever",
  },
  AUDIT_RETENTION: {
    read: AuditRetentionConfig,
    expected: "a duration between 31 days and 1,000 years",
    example: "3650 days",
    unset: "to keep the audit log forever",
  },
  TICKERLINE_HOME: {
    read: TickerlineHomeConfig,
    expected: "a folder",
    example: "/var/lib/tickerline",
    unset: "to use .tickerline next to package.json",
  },
  POSTGRES_PROGRAMS: {
    read: PostgresProgramsConfig,
    expected: "a folder",
    example: "/usr/lib/postgresql/18/bin",
    unset: "to use the programs in PATH",
  },
  TICKERLINE_KEY: {
    read: ClientApiKeyConfig,
    expected: "an API key",
    example: "tl_live_…",
    unset: "to use --key-file or the demo key",
    isSecret: true,
  },
  INGEST_EDGAR: {
    read: IngestScheduleConfig,
    expected: "daily, a time and a time zone",
    example: "daily 22:15 America/New_York",
    unset: "to ingest nothing on a schedule",
  },
  EDGAR_USER_AGENT: {
    read: EdgarUserAgentConfig,
    expected: "your name and email address, which the SEC requires of programs",
    example: "Acme Inc ops@acme.example",
    unset: "together with INGEST_EDGAR",
  },
  EDGAR_TICKERS: {
    read: EdgarTickersConfig,
    expected: `symbols separated by commas, or "all"`,
    example: "NVDA,IMNN",
    unset: "to ingest all companies",
  },
  EDGAR_BASE_URL: {
    read: EdgarBaseUrlConfig,
    expected: "the URL of a test server",
    example: "http://127.0.0.1:8081",
    unset: "to use the SEC",
  },
  SMTP_URL: {
    read: Config.option(SmtpUrlConfig),
    expected: "the URL of a mail server, either with user and password or without both",
    example: "smtp://user:password@host:587",
    unset: "to send no email",
    isSecret: true,
  },
  MAIL_FROM: {
    read: Config.option(EmailSenderAddressConfig),
    expected: "the sender of emails",
    example: "Tickerline <notices@example.com>",
    unset: "together with SMTP_URL",
  },
  MAIL_UNSUBSCRIBE: {
    read: UnsubscribeAddressConfig,
    expected: "an email address",
    example: "unsubscribe@example.com",
    unset: "to offer no address",
  },
  MAIL_PER_MINUTE: { read: EmailsPerMinuteConfig, expected: "an integer between 1 and 6000", example: "60" },
  MAIL_RETRY_AFTER: { read: EmailRetryDelayConfig, expected: duration, example: "1 minute" },
  WEBHOOKS: { read: WebhooksConfig, expected: `"on" or "off"`, example: "on", unset: "to send no webhooks" },
  WEBHOOKS_ALLOWED_HOSTS: {
    read: AllowedHostsConfig,
    expected: "host names, addresses or networks, separated by commas",
    example: "hooks.internal,10.0.0.0/8",
    unset: "to send webhooks only to public addresses",
    hasRules: true,
  },
  CORS_ORIGINS: {
    read: CorsOriginsConfig,
    expected: "origins of web pages, separated by commas",
    example: "https://app.example.com,https://admin.example.com:8443",
    unset: "to allow no web page",
    hasRules: true,
  },
  MCP_RESULT_TOKENS: {
    read: MaxResultTokensConfig,
    expected: "an integer between 1000 and 1000000",
    example: "25000",
  },
  LOG_FORMAT: { read: LogFormatConfig, expected: `"pretty" or "json"`, example: "json" },
  LOG_LEVEL: {
    read: LogLevelConfig,
    expected: `"error", "warning", "info" or "debug"`,
    example: "debug",
    unset: "to use the default: info",
  },
  ADMIN_PORT: { read: AdminPortConfig, expected: port, example: "8081", unset: "to serve no admin API" },
  ADMIN_HOST: { read: AdminHostConfig, expected: "an address or host name of this machine", example: "127.0.0.1" },
  ADMIN_DATABASE_URL: {
    read: AdminDatabaseUrlConfig,
    expected: "the URL of the PostgreSQL database, with a role that may change accounts",
    example: "postgres://user:password@host:5432/database",
    unset: "to use the role of the service",
    isSecret: true,
    hasRules: true,
  },
  ADMIN_URL: {
    read: AdminUrlConfig,
    expected: "the address of the console",
    example: "https://admin.example.com",
    unset: "to use http://ADMIN_HOST:ADMIN_PORT",
    hasRules: true,
  },
  ADMIN_OIDC_ISSUER: {
    read: OidcIssuerConfig,
    expected: "the URL of an OpenID Connect provider",
    example: "https://login.example.com/realms/staff",
    unset: "to sign in only with tokens",
    hasRules: true,
  },
  ADMIN_OIDC_CLIENT_ID: {
    read: OidcClientIdConfig,
    expected: "the ID under which the provider knows the console",
    example: "tickerline",
    unset: "together with ADMIN_OIDC_ISSUER",
  },
  ADMIN_OIDC_CLIENT_SECRET: {
    read: OidcClientSecretConfig,
    expected: "the secret that the provider has given",
    example: "3e1b5f",
    unset: "if the provider has given none",
    isSecret: true,
  },
  ADMIN_OIDC_GROUPS: {
    read: OidcGroupsConfig,
    expected: "the scope of each group of the provider",
    example: "platform=admin,helpdesk=support",
    unset: "together with ADMIN_OIDC_ISSUER",
    hasRules: true,
  },
  ADMIN_OIDC_GROUPS_CLAIM: { read: OidcGroupsClaimConfig, expected: "the name of a claim", example: "groups" },
  ADMIN_OIDC_SCOPES: {
    read: OidcScopesConfig,
    expected: "names of OpenID Connect scopes, separated by spaces",
    example: "openid email groups",
  },
  METRICS_PORT: { read: MetricsPortConfig, expected: port, example: "9464", unset: "to serve no metrics" },
  METRICS_HOST: { read: MetricsHostConfig, expected: "an address or host name of this machine", example: "127.0.0.1" },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    read: OtlpEndpointConfig,
    expected: "the URL of an OpenTelemetry collector",
    example: "http://collector:4318",
    unset: "to send no traces",
  },
}

/** The names of all settings. */
export const settingNames: ReadonlyArray<string> = Object.keys(settingDefinitions)

/** The names of the settings whose values can also be provided in a file. */
export const secretNames: ReadonlySet<string> = new Set(
  settingNames.filter((name) => settingDefinitions[name]?.isSecret === true),
)

/** A problem with a setting, and how to correct it. */
interface SettingProblem {
  readonly name: string
  /** A sentence that says what is wrong. */
  readonly problem: string
  /** A sentence that says how to correct the problem. */
  readonly fix: string
}

/**
 * Masks the credentials and the query of a URL. Returns undefined if the text is not a URL, because it could contain a
 * password anywhere.
 */
const redactUrl = (text: string) => {
  if (!URL.canParse(text)) return undefined
  const { host, password, pathname, protocol, search, username } = new URL(text)
  if (host === "") return undefined
  // A user name without a password may be a token, so it is masked too.
  const credentials = password === "" ? username === "" ? "" : "***@" : `${username}:***@`
  return `${protocol}//${credentials}${host}${pathname}${search === "" ? "" : "?…"}`
}

const quote = (text: string) => JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text)

const formatValue = (text: string, isSecret: boolean) => {
  if (!isSecret) return `is ${quote(text)}`
  const redacted = redactUrl(text)
  return redacted === undefined
    ? "has a value that is not shown, because it may contain a password"
    : `is ${quote(redacted)}`
}

/** Formats a variable assignment in shell syntax. */
const formatAssignment = (name: string, value: string) => `${name}=${/\s/.test(value) ? JSON.stringify(value) : value}`

/** Returns the end of the sentence "Correct it, or unset it …". */
const describeUnset = ({ read, unset }: Setting) => {
  if (unset !== undefined) return Effect.succeed(unset)
  return read.pipe(
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown({})),
    Effect.map((value) => `to use the default: ${Duration.isDuration(value) ? Duration.format(value) : String(value)}`),
    Effect.orElseSucceed(() => "to use the default"),
  )
}

/** Reads the text of a setting without validating it. */
export const readSettingText = (name: string) =>
  Effect.orElseSucceed(Config.option(Config.String(name)), () => Option.none<string>())

/** Returns the path of the file that contains the value of a secret setting, if there is one. */
export const findSecretFile = (name: string) =>
  secretNames.has(name) ? readSettingText(toFileVariable(name)) : Effect.succeed(Option.none<string>())

/**
 * Describes an invalid setting: its value or its file, the expected value, and how to correct it. `rule` is the rule
 * that the value violates, such as the message of a failed check.
 */
const describeProblem = Effect.fnUntraced(function* (name: string, rule: string) {
  const setting = settingDefinitions[name]
  if (setting === undefined) return { name, problem: `${name}: ${rule}.`, fix: "Correct it." }
  // Effect's default messages start with "Expected". They are left out, because they would repeat `expected`.
  const reason = setting.hasRules === true && !rule.startsWith("Expected") ? ` (${rule})` : ""
  const file = yield* findSecretFile(name)
  if (Option.isSome(file)) {
    return {
      name,
      problem: `${toFileVariable(name)} is ${quote(file.value)}, but this file must contain ${setting.expected}` +
        `${reason}, for example ${setting.example}.`,
      fix: `Correct the file, or unset ${toFileVariable(name)} ${yield* describeUnset(setting)}.`,
    }
  }
  const value = Option.match(yield* readSettingText(name), {
    onNone: () => "is not set",
    onSome: (text) => formatValue(text, setting.isSecret === true),
  })
  const example = formatAssignment(name, setting.example)
  return {
    name,
    problem: `${name} ${value}, but must be ${setting.expected}${reason}, for example ${example}.`,
    fix: `Correct it, or unset it ${yield* describeUnset(setting)}.`,
  }
})

const formatIssue = SchemaIssue.makeFormatterStandardSchemaV1()

/** Describes the settings that caused a configuration error. */
export const toSettingProblems = (
  { cause, message }: Config.ConfigError,
): Effect.Effect<ReadonlyArray<SettingProblem>> => {
  if (!Schema.isSchemaError(cause) && cause.cause instanceof SecretFileError) return Effect.succeed([cause.cause])
  const rules = Schema.isSchemaError(cause)
    ? formatIssue(cause.issue).issues.map(({ message, path }) => ({ name: (path ?? []).join("_"), rule: message }))
    : [{ name: "", rule: message }]
  return Effect.forEach(rules, ({ name, rule }) => describeProblem(name, rule))
}

/** Formats a problem and its solution as one line. */
export const formatSettingProblem = ({ fix, problem }: SettingProblem) => `${problem} ${fix}`

/** Formats a single problem as one line, and several problems as a list. */
export const formatSettingProblems = (problems: ReadonlyArray<SettingProblem>) =>
  problems.length === 1 ? problems.map(formatSettingProblem).join("") : [
    `${problems.length} settings cannot be used:`,
    ...problems.map((problem) => `- ${formatSettingProblem(problem)}`),
  ].join("\n")

/** Reports a missing MAIL_FROM, which SMTP_URL requires. */
const findMissingSender = Effect.map(
  Effect.all([Config.option(SmtpUrlConfig), Config.option(EmailSenderAddressConfig)]),
  ([smtpUrl, from]): ReadonlyArray<SettingProblem> =>
    Option.isNone(smtpUrl) || Option.isSome(from) ? [] : [{
      name: "MAIL_FROM",
      problem: "MAIL_FROM is not set, but SMTP_URL is, and emails need a sender.",
      fix: `Set it, for example MAIL_FROM="Tickerline <notices@example.com>", or unset SMTP_URL.`,
    }],
)

/** Reports a missing EDGAR_USER_AGENT, which INGEST_EDGAR requires. */
const findMissingUserAgent = Effect.map(
  Effect.all([IngestScheduleConfig, EdgarUserAgentConfig]),
  ([schedule, userAgent]): ReadonlyArray<SettingProblem> =>
    Option.isNone(schedule) || Option.isSome(userAgent) ? [] : [{
      name: "EDGAR_USER_AGENT",
      problem: "EDGAR_USER_AGENT is not set, but INGEST_EDGAR is, and the SEC requires programs to name a contact.",
      fix: `Set it, for example EDGAR_USER_AGENT="Acme Inc ops@acme.example", or unset INGEST_EDGAR.`,
    }],
)

/**
 * Reports missing settings that ADMIN_OIDC_ISSUER requires: the other OpenID Connect settings, and the settings that
 * enable the admin API.
 */
const findMissingOidcSettings = Effect.map(
  Effect.all({
    ADMIN_OIDC_ISSUER: OidcIssuerConfig,
    ADMIN_OIDC_CLIENT_ID: OidcClientIdConfig,
    ADMIN_OIDC_GROUPS: OidcGroupsConfig,
    ADMIN_PORT: AdminPortConfig,
  }),
  ({ ADMIN_OIDC_ISSUER: issuer, ...required }): ReadonlyArray<SettingProblem> =>
    Option.isNone(issuer)
      ? []
      : Object.entries<Option.Option<unknown>>(required).flatMap(([name, value]) =>
        Option.isSome(value) ? [] : [{
          name,
          problem: `${name} is not set, but ADMIN_OIDC_ISSUER is.`,
          fix: `Set it, for example ${formatAssignment(name, settingDefinitions[name]?.example ?? "")}, ` +
            "or unset ADMIN_OIDC_ISSUER.",
        }]
      ),
)

/**
 * Reports servers that are configured to listen on the same port. Each port is compared with those before it, so that a
 * shared port is reported once: for the later server, whose setting is less important.
 */
const findSharedPort = Effect.map(
  Effect.all({
    PORT: Effect.map(PortConfig, Option.some),
    METRICS_PORT: MetricsPortConfig,
    ADMIN_PORT: AdminPortConfig,
  }),
  (ports): ReadonlyArray<SettingProblem> =>
    Object.entries(ports).flatMap(([name, port], index, all) => {
      const first = all.slice(0, index).find(([, other]) => Option.isSome(other) && Option.contains(port, other.value))
      if (Option.isNone(port) || first === undefined) return []
      return [{
        name,
        problem: `${name} is ${port.value}, which is also ${first[0] === "PORT" ? "the PORT of the API" : first[0]}.`,
        fix:
          `Set it to another port, for example ${formatAssignment(name, settingDefinitions[name]?.example ?? "")}, ` +
          "or unset it.",
      }]
    }),
)

/** Finds every invalid setting that prevents the service from starting. */
export const findInvalidSettings = Effect.gen(function* () {
  const results = yield* Effect.forEach(Object.values(settingDefinitions), ({ read }) => Effect.result(read))
  const invalid = yield* Effect.forEach(
    results.filter(Result.isFailure),
    ({ failure }) => toSettingProblems(failure),
  )
  // A contradiction between two settings is reported only if each setting is valid by itself.
  const contradictions = yield* Effect.forEach(
    [findMissingSender, findMissingUserAgent, findMissingOidcSettings, findSharedPort],
    (find) => Effect.orElseSucceed(find, () => []),
  )
  return [...invalid, ...contradictions].flat()
})

/**
 * Returns whether a variable was not meant as a setting: Kubernetes sets it for a Service named "tickerline", or it is
 * used in the examples of the documentation.
 */
const isForeignVariable = (name: string, value: string) =>
  /_SERVICE_(HOST|PORT)(_|$)|_PORT_\d+_/.test(name) || value.startsWith("tcp://") || name === "TICKERLINE_URL"

/** Returns the letters of a name in alphabetical order. A run of the same letter counts as one letter. */
const sortLetters = (name: string) => [...name.toLowerCase().replaceAll(/(.)\1+/g, "$1")].toSorted().join("")

/**
 * Returns the maximum number of letters by which `variable` may differ from a setting's name to be considered a
 * misspelling of it. Short names resemble the names of other programs' variables, so a short name matches only if
 * letters were swapped or repeated. -1 means that the setting never matches.
 */
const makeMaxMisspelledLetters = (variable: string) => (setting: string) =>
  setting.length >= 10 ? 2 : setting.length >= 8 || sortLetters(variable) === sortLetters(setting) ? 1 : -1

interface MisspelledSetting {
  readonly name: string
  readonly similar: Option.Option<string>
}

/** Returns the names of the variables that can provide a setting. */
const variablesOf = (name: string) => secretNames.has(name) ? [name, toFileVariable(name)] : [name]

/**
 * Finds environment variables that are not settings, but that resemble an unset setting or begin with `TICKERLINE_`.
 */
export const findMisspelledSettings = (
  environment: Readonly<Record<string, string | undefined>>,
): ReadonlyArray<MisspelledSetting> => {
  const variables = settingNames.map(variablesOf)
  const known = new Set(variables.flat())
  const unset = variables.filter((names) => names.every((name) => environment[name] === undefined)).flat()
  return Object.entries(environment).flatMap(([name, value = ""]) => {
    if (known.has(name) || isForeignVariable(name, value)) return []
    const similar = findNearestName(name, unset, makeMaxMisspelledLetters(name))
    return Option.isSome(similar) || name.startsWith("TICKERLINE_") ? [{ name, similar }] : []
  })
}

/** Returns advice on how to correct a misspelled setting. */
export const formatMisspelledSettingAdvice = ({ similar }: MisspelledSetting) =>
  Option.match(similar, {
    onNone: () => "docs/operations/settings.md lists all settings.",
    onSome: (name) => `Did you mean ${name}?`,
  })

/** Logs a warning for each misspelled setting. Without the warning, the service would silently use the default. */
export const warnOfMisspelledSettings = (environment: Readonly<Record<string, string | undefined>>) =>
  Effect.forEach(
    findMisspelledSettings(environment),
    (variable) =>
      Effect.logWarning(
        `${variable.name} is set, but is not a setting and has no effect. ${formatMisspelledSettingAdvice(variable)}`,
      ),
    { discard: true },
  )
