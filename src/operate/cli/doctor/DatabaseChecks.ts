/** Database checks, which run over a read-only connection: the server, its connections, the data, and the replicas. */
import { PgClient } from "@effect/sql-pg"
import { Duration, Effect, Layer, Option, Redacted, Schedule, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { listUnfinishedErasures } from "../../../accounts/AccountErasure.ts"
import { AdminDatabaseUrlConfig, AdminPortConfig } from "../../admin/AdminSettings.ts"
import { DatabasePoolSizeConfig } from "../../../postgres/pool/ConnectionPool.ts"
import { decodeRows } from "../../../postgres/DecodeRows.ts"
import { checkDirectConnection, checkPooledAndDirectConnections } from "../../../postgres/pool/PoolerCheck.ts"
import {
  certainlyExceeds,
  describeClockDifference,
  maxClockDifference,
  maxUnreportedDifference,
  measureClockDifference,
} from "../../../postgres/health/ClockComparison.ts"
import { makeTlsSockets, readTlsSettings } from "../../../postgres/pool/DatabaseTls.ts"
import { clientSettings, DirectDatabaseUrlConfig, sessionSettings } from "../../../postgres/pool/ConnectionSettings.ts"
import type { ReplicaUrlsConfig } from "../../../postgres/replicas/ReadRouter.ts"
import { makeServerPoll } from "../../../postgres/versions/ServerState.ts"
import { IngestScheduleConfig } from "../../../ingest/edgar/schedule/IngestSchedule.ts"
import { countOpenDoubts } from "../../../ingest/edgar/store/Doubts.ts"
import { readWorkSize } from "../../../ingest/edgar/store/IngestWork.ts"
import { MaxConcurrentExportsConfig } from "../../../query/lists/ExportSlots.ts"
import { loadableDatasets } from "../../../contract/Datasets.ts"
import { describeFailure } from "../../../postgres/FailureText.ts"
import { formatCountWithNoun } from "../../../contract/rules/CountText.ts"
import * as Finding from "./DoctorFinding.ts"
import { tickerlineCommand } from "../../../postgres/ProjectCommands.js"

/** Connects to the database with short timeouts. The connection is read-only, so a faulty check cannot change data. */
export const doctorConnectionLayer = (url: Redacted.Redacted) =>
  Layer.unwrap(Effect.map(makeTlsSockets(url), ({ sockets, ssl }) =>
    PgClient.layer({
      url,
      ssl,
      stream: sockets.open,
      maxConnections: 1,
      connectTimeout: "5 seconds",
      applicationName: "tickerline-doctor",
      startupParameters: {
        ...sessionSettings,
        ...clientSettings,
        default_transaction_read_only: "on",
        statement_timeout: "5s",
        lock_timeout: "1s",
      },
    })))

/** Runs the same pooler check as the service does at startup, and reports the same errors. */
export const checkPooler = Effect.fnUntraced(
  function* (url: Redacted.Redacted, directUrl: Option.Option<Redacted.Redacted>) {
    if (Option.isNone(directUrl)) {
      const { hasPooler } = yield* checkDirectConnection("DATABASE_URL", url)
      return Finding.passed(
        hasPooler ? "in session mode" : "none; the service connects to PostgreSQL directly",
        "pooler",
      )
    }
    const { hasPooler } = yield* checkPooledAndDirectConnections(url, directUrl.value)
    return hasPooler
      ? Finding.passed("in transaction mode; work that needs a session uses DATABASE_DIRECT_URL", "pooler")
      : Finding.warning(
        "DATABASE_URL points directly to PostgreSQL, but statements are planned on every use, as for a pooler",
        "Unset DATABASE_DIRECT_URL, or set DATABASE_URL to the pooler.",
        "pooler",
      )
  },
)

const oldestVersion = 15

const isLocal = (url: URL) => url.hostname === "" || /^(localhost|127\.|\[?::1|\/)/.test(url.hostname)

const encryptionAdvice =
  "Add ?sslmode=verify-full to DATABASE_URL, and &sslrootcert=FILE if a private authority issued " +
  "the server's certificate, unless you trust the network in between."

/**
 * Reports whether the connection is encrypted and the server's certificate is verified. Neither is required for a
 * connection within this machine.
 */
const checkEncryption = Effect.fnUntraced(function* (url: Redacted.Redacted, version: string | null) {
  const { mode, rootCertificate } = yield* readTlsSettings(url)
  const isRemote = !isLocal(new URL(Redacted.value(url)))
  if (version === null) {
    return isRemote
      ? [Finding.warning("the connection to another machine is not encrypted", encryptionAdvice, "encryption")]
      : []
  }
  const isVerified = mode.startsWith("verify") || (mode === "require" && rootCertificate !== undefined)
  if (isVerified) {
    const name = mode === "verify-full" ? "certificate and host name" : "certificate, but not the host name,"
    const authority = rootCertificate ?? "the authorities that Node trusts"
    return [Finding.passed(`${version}; sslmode=${mode} verifies the ${name} with ${authority}`, "encryption")]
  }
  const found = `${version}, but sslmode=${mode} does not verify the server's certificate`
  return [
    isRemote
      ? Finding.warning(`${found}, so another machine could take its place`, encryptionAdvice, "encryption")
      : Finding.passed(found, "encryption"),
  ]
})

/** Reports the server's version and whether the connection to the server is encrypted. */
export const checkDatabaseServer = Effect.fnUntraced(function* (url: Redacted.Redacted) {
  const sql = yield* SqlClient.SqlClient
  const [server] = yield* sql<{
    readonly version: string
    readonly number: number
    readonly encoding: string
    /** The TLS version, or null if the connection is not encrypted. */
    readonly tls_version: string | null
    readonly autovacuum: string
    readonly is_replica: boolean
  }>`
    select current_setting('server_version') as version, current_setting('server_version_num')::int as number,
      pg_encoding_to_char(encoding) as encoding, current_setting('autovacuum') as autovacuum,
      pg_is_in_recovery() as is_replica,
      (select version from pg_stat_ssl where pid = pg_backend_pid() and ssl) as tls_version
    from pg_database where datname = current_database()
  `
  if (server === undefined) return []
  const { autovacuum, encoding, is_replica, number, tls_version, version } = server
  const findings: Array<Finding.CheckResult> = [
    Math.floor(number / 10_000) >= oldestVersion
      ? Finding.passed(`PostgreSQL ${version}`, "version")
      : Finding.failed(`PostgreSQL ${version} is too old`, `Use PostgreSQL ${oldestVersion} or newer.`, "version"),
  ]
  if (encoding !== "UTF8") {
    const advice = "Create a database in UTF-8: create database … encoding 'UTF8'"
    findings.push(Finding.failed(`the database's encoding is ${encoding}`, advice, "encoding"))
  }
  if (is_replica) {
    const advice = "Set DATABASE_URL to the primary."
    findings.push(Finding.failed("the server is a replica, which cannot record usage", advice, "primary"))
  }
  if (autovacuum !== "on") {
    findings.push(
      Finding.warning("it is off, so statistics and query plans become outdated", "Turn it on.", "autovacuum"),
    )
  }
  return [...findings, ...yield* checkEncryption(url, tls_version)]
})

/** Compares this machine's clock with the database server's clock. */
export const checkDatabaseClock = Effect.gen(function* () {
  const difference = yield* measureClockDifference
  if (!certainlyExceeds(difference, maxUnreportedDifference)) {
    const seconds = Math.abs(difference.millis) / 1000
    return Finding.passed(`this machine and the database differ by ${seconds.toFixed(2)} s`)
  }
  const found = describeClockDifference(difference)
  const advice = "Set both clocks with NTP. Dates in responses, key expiry and recorded usage depend on them."
  return certainlyExceeds(difference, maxClockDifference)
    ? Finding.failed(`${found}, so the service does not start and is not ready`, advice)
    : Finding.warning(found, advice)
})

/** The number of connections that the admin API opens (docs/operations/admin-api.md). */
const adminConnections = 3

/** Reports whether the server allows as many connections as this service needs. */
export const checkConnectionLimit = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly max: number; readonly used: number; readonly role_limit: number }>`
    select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as max,
      (select count(*)::int from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid())
        as used,
      (select rolconnlimit from pg_roles where rolname = current_user) as role_limit
  `
  const hasPooler = Option.isSome(yield* DirectDatabaseUrlConfig)
  // If there is a pooler, the connection pool and the rate-limit connection go through it. Exports, the health probe,
  // and the poll for dataset versions connect directly.
  const own = (hasPooler ? 0 : (yield* DatabasePoolSizeConfig) + 1) + (yield* MaxConcurrentExportsConfig) + 2
  const max = row === undefined ? 0 : row.role_limit >= 0 ? Math.min(row.role_limit, row.max) : row.max
  // If the admin API has its own role, its connections do not count toward the connection limit of the service's role.
  const countsAdmin = row === undefined || max === row.max || Option.isNone(yield* AdminDatabaseUrlConfig)
  const needed = own + (countsAdmin && Option.isSome(yield* AdminPortConfig) ? adminConnections : 0)
  const found = `the service uses up to ${needed}; the server allows ${max}, of which ${row?.used ?? 0} are in use`
  const advice = "lower DATABASE_POOL_SIZE or WHOLE_LISTS, or raise max_connections."
  if (needed > max) return Finding.failed(found, `There are too few connections: ${advice}`)
  return needed * 2 > max
    ? Finding.warning(found, `There are too few for a second instance: ${advice}`)
    : Finding.passed(found)
})

const tables = loadableDatasets.map(({ table }) => table)
const tableList = tables.join(",")

/** Reports which datasets have rows, when each dataset last changed, and whether it has planner statistics. */
export const checkDatasetRows = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const empty = yield* Effect.filter(
    tables,
    (table) => Effect.map(sql`select 1 from ${sql("public")}.${sql(table)} limit 1`, (rows) => rows.length === 0),
  )
  const [change] = yield* sql<{ readonly days: number | null }>`
    select floor(extract(epoch from now() - max(changed_at)) / 86400)::int as days from dataset_versions
    where dataset = any (string_to_array(${tableList}, ','))
  `
  const notAnalyzed = yield* sql<{ readonly name: string }>`
    select relname as name from pg_stat_user_tables
    where schemaname = 'public' and relname = any (string_to_array(${tableList}, ','))
      and last_analyze is null and last_autoanalyze is null and n_live_tup > 1000
  `
  const days = change?.days ?? null
  const lastChange = days === null ? "" : `; last change ${days < 1 ? "less than a day" : `${days} days`} ago`
  const found = `${tables.length - empty.length} of ${tables.length} have rows${lastChange}`
  return [
    empty.length > 0
      ? Finding.warning(
        `${found}; empty: ${Finding.formatNames(empty)}`,
        `Load data: \`${tickerlineCommand} load DATASET FILE\`.`,
      )
      : days !== null && days > 7
      ? Finding.warning(found, "Find out whether the loads still run.")
      : Finding.passed(found),
    ...(notAnalyzed.length === 0 ? [] : [
      Finding.warning(
        `never analyzed: ${Finding.formatNames(notAnalyzed.map(({ name }) => name))}`,
        "Run `analyze`.",
        "statistics",
      ),
    ]),
  ]
})

/**
 * The age of the last successful ingest, in hours, above which `doctor` warns. The limit allows for one missed daily
 * run.
 */
const maxIngestAgeHours = 50

/** The age, in hours, above which `doctor` warns about a document that the ingest could not read. */
const maxWorkAgeHours = 7 * 24

const IngestRuns = Schema.Struct({
  success_hours: Schema.NullOr(Schema.Finite),
  status: Schema.String,
  scheduled: Schema.Boolean,
  error: Schema.NullOr(Schema.String),
  /** Whether the process of the newest run has sent a heartbeat within the last two minutes. */
  is_alive: Schema.Boolean,
  seen_minutes: Schema.Finite,
  /** The error of the newest failed run since the last successful run. */
  last_failure: Schema.NullOr(Schema.String),
})

/**
 * Reads the state of the ingest runs. If the ingest is scheduled, only scheduled runs count. Otherwise, if a run in the
 * last month covered all companies, only such runs count, because a manual run for a few companies does not show that
 * the rest are up to date.
 */
const readIngestRuns = Effect.fnUntraced(function* (isScheduled: boolean) {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* decodeRows(IngestRuns)(sql`
    with runs as (
      select * from edgar_runs where case
        when ${isScheduled}::boolean then scheduled
        when exists (select from edgar_runs where tickers is null and started_at > now() - interval '30 days')
          then tickers is null
        else true
      end
    )
    select floor(extract(epoch from now() - succeeded.at) / 3600)::float8 as success_hours,
      newest.status, newest.scheduled, newest.error,
      newest.seen_at > now() - interval '2 minutes' as is_alive,
      floor(extract(epoch from now() - newest.seen_at) / 60)::float8 as seen_minutes,
      (select error from runs where status = 'failed' and (succeeded.at is null or finished_at > succeeded.at)
        order by run_id desc limit 1) as last_failure
    from (select max(finished_at) as at from runs where status = 'succeeded') as succeeded,
      (select * from runs order by run_id desc limit 1) as newest
  `)
  return found
})

/**
 * Describes the documents that the ingest could not read: how many will be requested again, and how many were rejected
 * permanently.
 */
const describeIngestWork = ({ final, oldest_hours, waiting }: Effect.Success<typeof readWorkSize>) => [
  ...(waiting === 0 ? [] : [
    `${formatCountWithNoun(waiting, "document")} will be requested again, the oldest for ${
      formatCountWithNoun(oldest_hours ?? 0, "hour")
    }`,
  ]),
  ...(final === 0 ? [] : [`${formatCountWithNoun(final, "document")} rejected for good`]),
]

/**
 * Reports when the SEC's documents were last ingested successfully, why the newest run failed, and how many documents
 * are missing.
 */
export const checkIngest = Effect.gen(function* () {
  const isScheduled = Option.isSome(yield* IngestScheduleConfig)
  const runs = yield* readIngestRuns(isScheduled)
  if (runs === undefined) {
    return isScheduled
      ? Finding.warning("INGEST_EDGAR is set, but no run has started yet", "Wait for the scheduled time.")
      : Finding.passed("the SEC's documents were never ingested")
  }
  const { error, is_alive, last_failure, scheduled, seen_minutes, status, success_hours } = runs
  const work = yield* readWorkSize
  const doubts = yield* countOpenDoubts
  const isDead = status === "running" && !is_alive
  const states: ReadonlyMap<string, string> = new Map([
    ["failed", `the newest run failed: ${error ?? "no reason"}`],
    ["interrupted", "the newest run was interrupted"],
    ["incomplete", `the newest run is incomplete: ${error ?? "no reason"}`],
    [
      "running",
      isDead
        ? `the process of the newest run ended without a report ${formatCountWithNoun(seen_minutes, "minute")} ago`
        : `a run is in progress${last_failure === null ? "" : `; the run before failed: ${last_failure}`}`,
    ],
  ])
  const found = [
    success_hours === null ? "never succeeded" : `last succeeded ${formatCountWithNoun(success_hours, "hour")} ago`,
    ...(states.has(status) ? [states.get(status)] : []),
    ...describeIngestWork(work),
    ...(doubts === 0
      ? []
      : [`${formatCountWithNoun(doubts, "value")} in doubt (\`${tickerlineCommand} ingest doubts\`)`]),
  ].join("; ")
  if (isDead || status === "failed" || status === "interrupted") {
    return Finding.warning(
      found,
      scheduled
        ? "A process with INGEST_EDGAR continues it within half an hour. Find out whether one runs."
        : `Continue it: \`${tickerlineCommand} ingest edgar --resume\`.`,
    )
  }
  if (status === "incomplete" || (work.oldest_hours ?? 0) > maxWorkAgeHours) {
    return Finding.warning(found, `Find the documents and the reasons: \`${tickerlineCommand} ingest rejections\`.`)
  }
  return status === "succeeded" && (success_hours ?? 0) > maxIngestAgeHours
    ? Finding.warning(found, "Find out whether INGEST_EDGAR or cron still runs: docs/operations/ingest-edgar.md.")
    : Finding.passed(found)
})

/** Reports accounts whose erasure has not finished. */
export const checkErasures = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql`select where to_regclass('public.account_erasures') is not null`
  const unfinished = found.length === 0 ? [] : yield* listUnfinishedErasures
  if (unfinished.length === 0) return Finding.passed("no account is half erased")
  return Finding.warning(
    `unfinished: ${unfinished.map(({ account, erased_at }) => `${account} since ${erased_at}`).join(", ")}`,
    `A running \`serve\` finishes them. Without one, run \`${tickerlineCommand} accounts erase NAME --yes\`.`,
  )
})

type NamedReplica = Effect.Success<typeof ReplicaUrlsConfig>[number]

/** Reads a server's state and cluster identifier. */
const readServer = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [server] = yield* sql<{ readonly system: string }>`
    select system_identifier::text as system from pg_control_system()
  `
  return { state: yield* makeServerPoll(sql), system: server?.system }
})

/** How long a replica may take to replay the latest changes of the primary. */
const replayTimeout = Duration.seconds(1)

/** Reports whether a server is a replica of the primary, and how far it lags behind. */
const checkReplica = (primary: Effect.Success<typeof readServer>) =>
  Effect.gen(function* () {
    const replica = yield* readServer
    if (replica.system !== primary.system) {
      return Finding.failed(
        "it belongs to another cluster than DATABASE_URL",
        "List only replicas of the primary in DATABASE_READ_URLS.",
      )
    }
    if (!replica.state.is_replica) {
      return Finding.warning("it is not a replica, so it is not used", "List the primary only in DATABASE_URL.")
    }
    const datasets = Array.from(primary.state.datasets.keys())
    if (replica.state.datasets.size === 0 || !datasets.some((dataset) => replica.state.datasets.has(dataset))) {
      return Finding.failed(
        "it has none of the datasets",
        "Check that the URL names the right database and that replay is running.",
      )
    }
    const sql = yield* SqlClient.SqlClient
    const target = primary.state.wal_position ?? 0
    const missing = yield* Effect.map(makeServerPoll(sql), ({ wal_position }) => target - (wal_position ?? 0)).pipe(
      Effect.repeat({
        until: (bytes) => bytes <= 0,
        schedule: Schedule.upTo(Schedule.spaced("50 millis"), { duration: replayTimeout }),
      }),
    )
    return missing <= 0
      ? Finding.passed(`it replays changes of the primary within ${Duration.format(replayTimeout)}`)
      : Finding.warning(
        `it is ${(missing / 1_048_576).toFixed(1)} MiB of WAL behind after ${Duration.format(replayTimeout)}; ` +
          "until it catches up, it serves no changed datasets",
        "See pg_stat_replication on the primary. Replay may be paused, or wait for a query.",
      )
  })

/** Compares each server listed in `DATABASE_READ_URLS` with the primary. */
export const checkReplicas = Effect.fnUntraced(function* (url: Redacted.Redacted, named: ReadonlyArray<NamedReplica>) {
  if (named.length === 0) return []
  const primary = yield* Effect.provide(readServer, doctorConnectionLayer(url))
  if (primary.state.is_replica) {
    return [Finding.skipped("DATABASE_URL points to a replica, so there is no primary to compare with")]
  }
  const findings = yield* Effect.forEach(
    named,
    (replica) =>
      Finding.runDoctorCheck({
        name: `replica ${replica.name}`,
        advice: "Start it, or correct its URL in DATABASE_READ_URLS: postgres://user:password@host:port/database",
        effect: checkReplica(primary).pipe(
          Effect.provide(doctorConnectionLayer(replica.url)),
          // `summarizeError` would refer to `DATABASE_URL`, but the failed connection used the replica's URL.
          Effect.mapError((error) => ({ message: describeFailure(error) })),
        ),
      }),
    { concurrency: "unbounded" },
  )
  return findings.flat()
})
