/** Database checks, which run over a read-only connection: the server, its connections, the data, and the replicas. */
import { PgClient } from "@effect/sql-pg"
import { Duration, Effect, Layer, Option, Redacted, Schedule, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { listUnfinishedErasures } from "../../../accounts/AccountErasure.ts"
import { adminConnections, AdminDatabaseUrlConfig, AdminPortConfig } from "../../admin/AdminSettings.ts"
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
import { formatCountWithNoun } from "../../../contract/rules/CountWithNoun.ts"
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
 * connection within this machine. `version` is the TLS version of the connection, or null if it is not encrypted.
 */
const checkEncryption = Effect.fnUntraced(function* (url: Redacted.Redacted, version: string | null) {
  const { mode, rootCertificate } = yield* readTlsSettings(url)
  const isRemote = !isLocal(new URL(Redacted.value(url)))
  if (version === null) {
    return isRemote
      ? [Finding.warning("the connection to another machine is not encrypted", encryptionAdvice, "encryption")]
      : []
  }
  // As in libpq, `require` verifies the certificate only if a file of trusted authorities is specified.
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

/**
 * Reports the server's version and whether the connection to it is encrypted, and, if they are wrong, the encoding of
 * the database, the role of the server (primary or replica), and autovacuum.
 */
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
    // `server_version_num` is 160004 for version 16.4.
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

/**
 * Returns the number of connections that a process of the service opens directly to the server, apart from those of the
 * admin API. The connection pool and one connection for rate limits go through the pooler, if there is one, and then
 * do not count. Exports, the health probe, and the poll for dataset versions always connect directly.
 */
const countServiceConnections = Effect.gen(function* () {
  const hasPooler = Option.isSome(yield* DirectDatabaseUrlConfig)
  const pooled = (yield* DatabasePoolSizeConfig) + 1
  return (hasPooler ? 0 : pooled) + (yield* MaxConcurrentExportsConfig) + 2
})

/**
 * Reports whether the server allows as many connections as this service needs, including those of the admin API. Warns
 * if they suffice for one process but not for a second one, which runs during a deployment without downtime.
 */
export const checkConnectionLimit = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  // `role_limit` is that of the current role. It is -1 if the role has no limit.
  const [row] = yield* sql<{ readonly server_limit: number; readonly used: number; readonly role_limit: number }>`
    select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        as server_limit,
      (select count(*)::int from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid())
        as used,
      (select rolconnlimit from pg_roles where rolname = current_user) as role_limit
  `
  const { role_limit, server_limit, used } = row ?? { role_limit: -1, server_limit: 0, used: 0 }
  const allowed = role_limit >= 0 ? Math.min(role_limit, server_limit) : server_limit
  // If the service's role has the lower limit, the admin API's connections count only if it uses the same role.
  const countsAdmin = allowed === server_limit || Option.isNone(yield* AdminDatabaseUrlConfig)
  const forAdmin = countsAdmin && Option.isSome(yield* AdminPortConfig) ? adminConnections : 0
  const needed = (yield* countServiceConnections) + forAdmin
  const found = `the service uses up to ${needed}; the server allows ${allowed}, of which ${used} are in use`
  const advice = "lower DATABASE_POOL_SIZE or WHOLE_LISTS, or raise max_connections."
  if (needed > allowed) return Finding.failed(found, `There are too few connections: ${advice}`)
  return needed * 2 > allowed
    ? Finding.warning(found, `There are too few for a second instance: ${advice}`)
    : Finding.passed(found)
})

const tables = loadableDatasets.map(({ table }) => table)
const tableList = tables.join(",")

/**
 * Reports how many datasets have rows, and when one of them last changed. Warns of empty datasets, of data that have
 * not changed for a week, and of tables with many rows but without planner statistics.
 */
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

/** The newest run of the SEC ingest, and what the runs before it have achieved. */
const IngestRuns = Schema.Struct({
  /** The time since the end of the last successful run, in hours. Null if no run has succeeded. */
  success_hours: Schema.NullOr(Schema.Finite),
  /** The status of the newest run. `scheduled` and `error` are also those of the newest run. */
  status: Schema.String,
  scheduled: Schema.Boolean,
  error: Schema.NullOr(Schema.String),
  /** Whether the process of the newest run has sent a heartbeat within the last two minutes. */
  is_alive: Schema.Boolean,
  /** The time since the last heartbeat of the newest run, in minutes. */
  seen_minutes: Schema.Finite,
  /** The error of the newest run that failed after the last successful run, or null if none has failed since. */
  last_failure: Schema.NullOr(Schema.String),
})

/**
 * Reads the state of the ingest runs that count, which are the rows of `runs`, or undefined if there are none. If the
 * ingest is scheduled, only scheduled runs count. Otherwise, if a run in the last month covered all companies
 * (`tickers` is null), only such runs count, because a manual run for a few companies does not show that the rest are
 * up to date. `succeeded` has one row even if no run has succeeded; its time is then null.
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

/** Describes the state of the newest run. Returns a list that is empty if the run succeeded. */
const describeNewestRun = (
  { error, last_failure, seen_minutes, status }: typeof IngestRuns.Type,
  isDead: boolean,
): ReadonlyArray<string> => {
  switch (status) {
    case "failed":
      return [`the newest run failed: ${error ?? "no reason"}`]
    case "interrupted":
      return ["the newest run was interrupted"]
    case "incomplete":
      return [`the newest run is incomplete: ${error ?? "no reason"}`]
    case "running":
      return [
        isDead
          ? `the process of the newest run ended without a report ${formatCountWithNoun(seen_minutes, "minute")} ago`
          : `a run is in progress${last_failure === null ? "" : `; the run before failed: ${last_failure}`}`,
      ]
    default:
      return []
  }
}

/**
 * Reports when the SEC's documents were last ingested successfully, what went wrong in the newest run, how many
 * documents could not be read, and how many values are in doubt: an operator must confirm or correct each before it is
 * published. Warns if a run must be continued, if documents stay unread, or if the last success is too long ago, in
 * this order.
 */
export const checkIngest = Effect.gen(function* () {
  const isScheduled = Option.isSome(yield* IngestScheduleConfig)
  const runs = yield* readIngestRuns(isScheduled)
  if (runs === undefined) {
    return isScheduled
      ? Finding.warning("INGEST_EDGAR is set, but no run has started yet", "Wait for the scheduled time.")
      : Finding.passed("the SEC's documents were never ingested")
  }
  const { is_alive, scheduled, status, success_hours } = runs
  const unreadDocuments = yield* readWorkSize
  const doubts = yield* countOpenDoubts
  // A process that was killed could not record the end of its run.
  const isDead = status === "running" && !is_alive
  const found = [
    success_hours === null ? "never succeeded" : `last succeeded ${formatCountWithNoun(success_hours, "hour")} ago`,
    ...describeNewestRun(runs, isDead),
    ...describeIngestWork(unreadDocuments),
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
  if (status === "incomplete" || (unreadDocuments.oldest_hours ?? 0) > maxWorkAgeHours) {
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

/**
 * Reads what is compared between the primary and a replica: the server's state, with its WAL position and dataset
 * versions, and `system`, the ID of the cluster that it belongs to.
 */
const readServer = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [server] = yield* sql<{ readonly system: string }>`
    select system_identifier::text as system from pg_control_system()
  `
  return { state: yield* makeServerPoll(sql), system: server?.system }
})

/** How long a replica may take to replay the changes that the primary has written so far. */
const replayTimeout = Duration.seconds(1)

/**
 * Checks the connected server, which should be a replica of `primary`: whether it belongs to the same cluster, has the
 * datasets, and replays within `replayTimeout` what the primary had written when its state was read. `primary` is this
 * state: the identifier of its cluster (`system`), its position in the write-ahead log, and its datasets.
 */
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
    /** The bytes of WAL that the replica has not replayed yet. It is polled until there are none, or the time is up. */
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
