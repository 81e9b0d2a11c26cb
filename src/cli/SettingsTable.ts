/** The table of all settings: what each takes, with an example, and what an unset one means. */

interface Setting {
  /** What it must be, to follow "must be". */
  readonly expected: string
  readonly example: string
  /** What an unset one means, to follow "unset it". */
  readonly unset: string
  /** Its value may hold a password or a key. */
  readonly isSecret?: true
  /** It has several rules, so the message names the one that was broken. */
  readonly hasRules?: true
}

const port = "a port from 1 to 65535"
const duration = "a length of time"
const switched = `"true" or "false"`
const requests = "a whole number of requests per minute from 1 to 1000000000"

export const settings: Readonly<Record<string, Setting>> = {
  HOST: { expected: "an address or host name of this machine", example: "127.0.0.1", unset: "for 127.0.0.1" },
  PORT: { expected: port, example: "8080", unset: "for 8080" },
  BASE_URL: {
    expected: "a URL that starts with http:// or https://",
    example: "https://api.example.com",
    unset: "for http://HOST:PORT",
  },
  DATABASE_URL: {
    expected: "the URL of a PostgreSQL database",
    example: "postgres://user:password@host:5432/database",
    unset: "for the embedded server",
    isSecret: true,
  },
  DATABASE_DIRECT_URL: {
    expected: "the URL of the PostgreSQL database behind the pooler",
    example: "postgres://user:password@host:5432/database",
    unset: "if there is no pooler",
    isSecret: true,
  },
  DATABASE_POOLER_PREPARES: { expected: switched, example: "true", unset: "for false" },
  DATABASE_READ_URLS: {
    expected: "URLs of PostgreSQL replicas, separated by spaces or commas",
    example: "postgres://user:password@replica1/database,postgres://user:password@replica2/database",
    unset: "to read from the primary",
    isSecret: true,
    hasRules: true,
  },
  DATABASE_POOL_SIZE: { expected: "an integer between 1 and 1000", example: "10", unset: "for 10" },
  DATABASE_POOL_TIMEOUT: { expected: duration, example: "5 seconds", unset: "for 5 seconds" },
  WHOLE_LISTS: { expected: "an integer between 1 and 100", example: "4", unset: "for 4" },
  CACHE_MEGABYTES: { expected: "a whole number of MiB, or 0 for no cache", example: "64", unset: "for 64" },
  REUSE_PORT: { expected: switched, example: "true", unset: "for false" },
  SHUTDOWN_DELAY: { expected: duration, example: "10 seconds", unset: "for none" },
  PRICE_PER_GB_MICRODOLLARS: {
    expected: "a whole number of microdollars from 0 to 1000000000000",
    example: "10000000",
    unset: "for 10000000",
  },
  ENDPOINT_PRICES: {
    expected: "paths with their prices in microdollars",
    example: "/v1/news=20000000,/v1/screener=5000000",
    unset: "for one price of all endpoints",
    hasRules: true,
  },
  RATE_LIMIT_BASIC: { expected: requests, example: "200", unset: "for 200" },
  RATE_LIMIT_PRO: { expected: requests, example: "1000", unset: "for 1000" },
  RATE_LIMIT_ULTIMATE: { expected: requests, example: "5000", unset: "for 5000" },
  WRONG_KEYS_LIMIT: { expected: "a whole number of wrong keys per minute", example: "30", unset: "for 30" },
  TRUSTED_PROXIES: {
    expected: "addresses or networks, separated by commas",
    example: "10.0.0.0/8,192.0.2.1",
    unset: "to trust no proxy",
    hasRules: true,
  },
  USAGE_BUFFER: { expected: "a whole number of requests from 1 to 10000000", example: "100000", unset: "for 100000" },
  USAGE_RETENTION: { expected: "a length of time of at least 31 days", example: "400 days", unset: "for 400 days" },
  TICKERLINE_HOME: {
    expected: "a folder",
    example: "/var/lib/tickerline",
    unset: "for .tickerline beside package.json",
  },
  SMTP_URL: {
    expected: "the URL of a mail server, with user and password or neither",
    example: "smtp://user:password@host:587",
    unset: "to send no mail",
    isSecret: true,
  },
  MAIL_FROM: {
    expected: "the sender of mails",
    example: "Tickerline <notices@example.com>",
    unset: "together with SMTP_URL",
  },
  MAIL_UNSUBSCRIBE: { expected: "an email address", example: "unsubscribe@example.com", unset: "for none" },
  MAIL_PER_MINUTE: { expected: "an integer between 1 and 6000", example: "60", unset: "for 60" },
  MAIL_RETRY_AFTER: { expected: duration, example: "1 minute", unset: "for 1 minute" },
  CORS_ORIGINS: {
    expected: "origins of web pages, separated by commas",
    example: "https://app.example.com,https://admin.example.com:8443",
    unset: "to allow no web page",
    hasRules: true,
  },
  TICKERLINE_KEY: {
    expected: "a key of the API",
    example: "tl_live_…",
    unset: "to use --key-file or the demo key",
    isSecret: true,
  },
  LOG_FORMAT: { expected: `"pretty" or "json"`, example: "json", unset: "for pretty" },
  LOG_LEVEL: { expected: `"error", "warning", "info" or "debug"`, example: "debug", unset: "for info" },
  METRICS_PORT: { expected: port, example: "9464", unset: "to serve no metrics" },
  METRICS_HOST: { expected: "an address or host name of this machine", example: "127.0.0.1", unset: "for 127.0.0.1" },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    expected: "the URL of an OpenTelemetry collector",
    example: "http://collector:4318",
    unset: "to send no traces",
  },
}
