/** Checks the database over a read-only connection: server, connections, schema, data and replicas. */
import { PgClient } from "@effect/sql-pg"
import { Duration, Effect, Layer, Option, Redacted, Schedule, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { listUnfinishedErasures } from "../../../accounts/AccountErasure.ts"
import { AdminDatabaseUrlConfig, AdminPortConfig } from "../../admin/AdminSettings.ts"
import { DatabasePoolSizeConfig } from "../../../postgres/pool/ConnectionPool.ts"
import { decodeRows } from "../../../postgres/DecodeRows.ts"
import { developmentDatabase, migrationsTableName } from "../../../postgres/migrations/Migrations.ts"
import { formatMigration, listMigrationScripts, schemaId } from "../../../postgres/migrations/MigrationScripts.ts"
import { describeSchema, readExpectedSchema } from "../../../postgres/migrations/SchemaDescription.ts"
import { checkDirectConnection, checkPooledAndDirectConnections } from "../../../postgres/pool/PoolerCheck.ts"
import {
  describeClockDifference,
  exceeds,
  maxClockDifference,
  maxUnreportedDifference,
  measureClockDifference,
} from "../../../postgres/health/ClockComparison.ts"
import { makeTlsSockets, readTlsSettings } from "../../../postgres/pool/DatabaseTls.ts"
import { clientSettings, DirectDatabaseUrlConfig, sessionSettings } from "../../../postgres/pool/ConnectionSettings.ts"
import type { ReplicaUrlsConfig } from "../../../postgres/replicas/ReadRouter.ts"
import { makeServerPoll } from "../../../postgres/versions/ServerState.ts"
import { IngestScheduleConfig } from "../../../ingest/edgar/schedule/IngestSchedule.ts"
import { readWorkSize } from "../../../ingest/edgar/store/IngestWork.ts"
import { MaxConcurrentExportsConfig } from "../../../query/lists/ExportPlaces.ts"
import { loadableDatasets } from "../../../contract/Datasets.ts"
import { describeFailure } from "../../../postgres/FailureText.ts"
import { formatCountWithNoun } from "../../../contract/rules/CountText.ts"
import * as Finding from "./DoctorFinding.ts"
import { tickerlineCommand } from "../../../postgres/ProjectCommands.js"

/** Connects to the database with short timeouts, and read-only, so that a faulty check cannot change data. */
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

/** Reports whether the connection is encrypted and verified. A connection to this machine needs neither. */
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

export const checkDatabaseServer = Effect.fnUntraced(function* (url: Redacted.Redacted) {
  const sql = yield* SqlClient.SqlClient
  const [server] = yield* sql<{
    readonly version: string
    readonly number: number
    readonly encoding: string
    /** The version of TLS; null if the connection is not encrypted. */
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

export const checkDatabaseClock = Effect.gen(function* () {
  const difference = yield* measureClockDifference
  if (!exceeds(difference, maxUnreportedDifference)) {
    const seconds = Math.abs(difference.millis) / 1000
    return Finding.passed(`this machine and the database differ by ${seconds.toFixed(2)} s`)
  }
  const found = describeClockDifference(difference)
  const advice = "Set both clocks with NTP. Dates in responses, key expiry and recorded usage depend on them."
  return exceeds(difference, maxClockDifference)
    ? Finding.failed(`${found}, so the service does not start and is not ready`, advice)
    : Finding.warning(found, advice)
})

/** Connections of the admin API (docs/operations/admin-api.md). */
const adminConnections = 3

export const checkConnectionLimit = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly max: number; readonly used: number; readonly role_limit: number }>`
    select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as max,
      (select count(*)::int from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid())
        as used,
      (select rolconnlimit from pg_roles where rolname = current_user) as role_limit
  `
  const hasPooler = Option.isSome(yield* DirectDatabaseUrlConfig)
  // The pool and the rate-limit connection go through the pooler, if there is one. Exports, the health probe and the
  // poll for dataset versions connect directly.
  const own = (hasPooler ? 0 : (yield* DatabasePoolSizeConfig) + 1) + (yield* MaxConcurrentExportsConfig) + 2
  const max = row === undefined ? 0 : row.role_limit >= 0 ? Math.min(row.role_limit, row.max) : row.max
  // The limit of the service's role does not count the connections of another role.
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

const formatNames = (names: ReadonlyArray<string>) =>
  names.length <= 6 ? names.join(", ") : `${names.slice(0, 6).join(", ")} and ${names.length - 6} more`

export const isDatabaseMigrated = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly exists: boolean }>`
    select to_regclass(${migrationsTableName}) is not null and to_regclass('public.usage') is not null as exists
  `
  return row?.exists === true
})

export const checkMigrations = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const known = yield* listMigrationScripts
  const [table] = yield* sql<{ readonly exists: boolean; readonly is_readable: boolean }>`
    select to_regclass(${migrationsTableName}) is not null as exists,
      coalesce(has_table_privilege(to_regclass(${migrationsTableName})::oid, 'select'), false) as is_readable
  `
  const advice =
    `Run \`${tickerlineCommand} migrate\` as the role that owns the tables, or start the service as that role.`
  if (table?.exists !== true) return Finding.warning("the database is empty", advice)
  if (!table.is_readable) {
    return Finding.skipped("this role may not read which migrations were applied")
  }
  const applied = yield* sql<{ readonly id: number; readonly name: string }>`
    select migration_id as id, name from ${sql(migrationsTableName)} order by migration_id
  `
  const appliedIds = new Set(applied.map(({ id }) => id))
  if (applied.length > 0 && !appliedIds.has(schemaId)) {
    return Finding.failed("the tables are those of a development version", developmentDatabase)
  }
  const pending = known.filter(([id]) => !appliedIds.has(id)).map(([id, name]) => formatMigration(id, name))
  const newer = applied.filter(({ id }) => !known.some(([knownId]) => knownId === id))
    .map(({ id, name }) => `${id}_${name}`)
  if (newer.length > 0) {
    return Finding.warning(
      `the database is newer than this program: ${formatNames(newer)}`,
      "This release works with the tables of the next one. Update this program soon.",
    )
  }
  return pending.length === 0
    ? Finding.passed(`all ${known.length} are applied`)
    : Finding.failed(`${pending.length} are missing: ${formatNames(pending)}`, advice)
})

interface RolePrivileges {
  readonly name: string
  readonly owns_tables: boolean
  readonly is_superuser: boolean
  /** Whether it has a privilege of the admin API. */
  readonly is_admin: boolean
  readonly missing: ReadonlyArray<string> | null
  readonly excessive: ReadonlyArray<string> | null
}

/** Compares the role's privileges with those that the schema lists, as `tickerline grant` grants them. */
export const checkRolePrivileges = (isEmbedded: boolean) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [role] = yield* sql<RolePrivileges>`
      with listed (object, privilege, columns) as (
        select object, found[1], regexp_split_to_array(found[2], ',\\s*')
        from role_privileges, regexp_matches(privilege, '([a-z]+)(?: \\(([^)]*)\\))?', 'g') as found
        where purpose = 'service' and privilege <> 'no select'
      ), needed (what, has) as (
        select format('select on %s', relname), has_table_privilege(pg_class.oid, 'select')
        from pg_class join pg_namespace on pg_namespace.oid = relnamespace
        where nspname in ('public', 'history') and relkind in ('r', 'p', 'v') and not relispartition and not exists (
          select from role_privileges where purpose = 'service' and privilege = 'no select'
            and object = format('%I.%I', nspname, relname)
        )
        union all
        select format('execute %s', object), has_function_privilege(pg_proc.oid, 'execute')
        from listed join pg_namespace on nspname = split_part(object, '.', 1)
          join pg_proc on pronamespace = pg_namespace.oid and proname = split_part(object, '.', 2)
        where privilege = 'execute'
        union all
        select format('%s on %s', listed.privilege, relname), has_table_privilege(pg_class.oid, listed.privilege)
        from listed join pg_namespace on nspname = split_part(object, '.', 1)
          join pg_class on relnamespace = pg_namespace.oid and relname = split_part(object, '.', 2)
        where privilege <> 'execute' and columns is null
        union all
        select format('%s of %s in %s', listed.privilege, attname, relname),
          has_column_privilege(attrelid, attnum, listed.privilege)
        from listed join pg_namespace on nspname = split_part(object, '.', 1)
          join pg_class on relnamespace = pg_namespace.oid and relname = split_part(object, '.', 2)
          join pg_attribute on attrelid = pg_class.oid and attname = any (columns) and not attisdropped
        where columns is not null
      ), beyond (what, has) as (
        select 'write ' || relname, has_table_privilege(pg_class.oid, 'insert, update, delete, truncate')
        from pg_trigger join pg_class on pg_class.oid = tgrelid where tgname = 'history_begin'
        union all
        select 'read ' || relname, has_table_privilege(pg_class.oid, 'select')
        from role_privileges join pg_class on relnamespace = 'public'::regnamespace and object = 'public.' || relname
        where purpose = 'service' and privilege = 'no select'
        union all values
          ('create tables', has_schema_privilege('public', 'create')),
          ('create temporary tables', has_database_privilege(current_database(), 'temporary'))
      )
      select current_user as name, rolsuper as is_superuser,
        has_table_privilege('public.credits', 'insert') as is_admin,
        (select pg_has_role(relowner, 'usage') from pg_class where oid = 'public.usage'::regclass) as owns_tables,
        (select array_agg(what) from needed where has is not true) as missing,
        (select array_agg(what) from beyond where has) as excessive
      from pg_roles where rolname = current_user
    `
    const grant = `Run \`${tickerlineCommand} grant ${role?.name ?? "ROLE"}\` as the role that owns the tables.`
    const advice = role?.is_admin === true
      ? `If the admin API uses this role, set DATABASE_URL to another role. Otherwise: ${grant}`
      : grant
    if (role?.missing != null) {
      return Finding.failed(`${role.name} lacks: ${formatNames(role.missing)}`, advice)
    }
    if (isEmbedded || role === undefined) {
      return Finding.passed("the embedded server has a single role")
    }
    if (role.is_superuser) {
      return Finding.warning(
        `${role.name} is a superuser`,
        `Let the service connect as a role with fewer privileges: \`${tickerlineCommand} grant ROLE\`.`,
      )
    }
    if (role.owns_tables) {
      return Finding.passed(`${role.name} owns the tables: it can load, migrate and serve`)
    }
    return role.excessive === null
      ? Finding.passed(`${role.name} has only the privileges to serve`)
      : Finding.warning(`${role.name} can also ${formatNames(role.excessive)}`, advice)
  })

/** A difference between the database and the schema of this release. */
interface SchemaProblem {
  /** Such as `index news_tags_idx of news is missing`. */
  readonly found: string
  /** Statements that repair it; empty if there is no simple way. */
  readonly repair: string
  /** The dataset whose changes are not recorded meanwhile. */
  readonly dataset: string | undefined
}

/** The suffixes of definitions that are only in the wrong state, in the operator's words. */
const wrongStates = [
  [" DISABLED", "is disabled"],
  [" REPLICA", "does not fire in every session"],
  [" INVALID", "is invalid, so no query uses it"],
  [" NOT VALID", "is not validated"],
] as const

const withoutState = (definition: string) => definition.replace(/ (?:ALWAYS|DISABLED|REPLICA|INVALID|NOT VALID)$/, "")

/** Splits the name of an object, such as `trigger note_change of public.news`. */
const splitObject = (object: string) => {
  const [, kind = "", name = "", table = ""] = /^(\w+) (\S+)(?: of (\S+))?$/.exec(object) ?? []
  return { kind, name, table }
}

const makeRepair = (object: string, expected: string, found: string | undefined, datasets: ReadonlySet<string>) => {
  const { kind, name, table } = splitObject(object)
  const isMissing = found === undefined
  if (kind === "trigger" && (datasets.has(table) && /^(history_|note_change)/.test(name))) {
    return `select history.track('${table.replace("public.", "")}')`
  }
  if (kind === "trigger") {
    const isSame = !isMissing && withoutState(found) === withoutState(expected)
    const create = `drop trigger if exists ${name} on ${table}; ${withoutState(expected)}`
    const enable = `alter table ${table} enable ${expected.endsWith(" ALWAYS") ? "always " : ""}trigger ${name}`
    return isSame ? enable : `${create}; ${enable}`
  }
  if (kind === "index" && !isMissing && found.endsWith(" INVALID")) {
    return `reindex index concurrently ${table.split(".")[0]}.${name}`
  }
  if (kind === "index") {
    const isWhole = expected.includes(" ON ONLY ")
    const create = isWhole ? expected.replace(" ON ONLY ", " ON ") : expected.replace(" INDEX ", " INDEX CONCURRENTLY ")
    return `${isMissing ? "" : `drop index ${isWhole ? "" : "concurrently "}${table.split(".")[0]}.${name}; `}${create}`
  }
  if (kind === "constraint") {
    const validate = `alter table ${table} validate constraint ${name}`
    if (found === `${expected} NOT VALID`) return validate
    const add =
      `${isMissing ? "" : `alter table ${table} drop constraint ${name}; `}alter table ${table} add constraint ` +
      `${name} ${expected}`
    return /^(?:CHECK|FOREIGN)/.test(expected) ? `${add} not valid; ${validate}` : add
  }
  const [, dataset] = /^(?:history of public\.|function history\.keep_)(\w+)/.exec(object) ?? []
  return dataset === undefined ? "" : `select history.track('${dataset}')`
}

/** Compares the objects of the database with those that the schema of this release makes. Others may be there too. */
const findSchemaProblems = Effect.gen(function* () {
  const expected = yield* readExpectedSchema
  const live = yield* describeSchema
  const datasets = new Set(
    Array.from(expected.keys()).flatMap((object) => object.startsWith("history of ") ? [object.slice(11)] : []),
  )
  const lost = Array.from(expected.keys()).filter((object) => !live.has(object))
    .flatMap((object) => /^(?:table|view) (.*)/.exec(object)?.[1] ?? [])
  const isOfLostTable = (object: string) =>
    lost.some((table) => object.endsWith(` of ${table}`) || object.startsWith(`column ${table}.`))
  /** Objects that differ because an operator has added a column to a dataset. */
  const grown = new Set(
    Array.from(live.keys()).flatMap((object) => {
      const [, table] = expected.has(object) ? [] : /^column public\.(\w+)\./.exec(object) ?? []
      return table === undefined ? [] : [`trigger history_stamp of public.${table}`, `function history.keep_${table}()`]
    }),
  )
  return Array.from(expected).flatMap(([object, definition]): ReadonlyArray<SchemaProblem> => {
    const found = live.get(object)
    if (found === definition || isOfLostTable(object) || (found !== undefined && grown.has(object))) return []
    const [, state] = wrongStates.find(([suffix]) => found?.endsWith(suffix) === true) ?? []
    const isSame = found !== undefined && withoutState(found) === withoutState(definition)
    const { kind, name, table } = splitObject(object)
    const what = found === undefined
      ? "is missing"
      : object.startsWith("history of ")
      ? `is incomplete: ${found}`
      : isSame
      ? state ?? "does not fire in every session"
      : "differs from that of this release"
    const isRecorder = object.startsWith("history of ") || table === "history.transactions" ||
      kind === "trigger" && /^(history_|note_change)/.test(name) && datasets.has(table)
    return [{
      found: `${object.replaceAll("public.", "")} ${what}`,
      repair: makeRepair(object, definition, found, datasets),
      dataset: isRecorder ? table.replace("public.", "") : undefined,
    }]
  })
})

/** Reports objects of the schema that are missing, differ, or are in a wrong state, and how to repair them. */
export const checkSchema = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const known = yield* listMigrationScripts
  const applied = yield* sql<{ readonly id: number }>`select migration_id as id from ${sql(migrationsTableName)}`
  const ids = new Set(known.map(([id]) => id))
  if (ids.symmetricDifference(new Set(applied.map(({ id }) => id))).size > 0) {
    return [Finding.skipped("the migrations of this release and of the database differ")]
  }
  const problems = yield* findSchemaProblems
  if (problems.length === 0) return [Finding.passed("all objects are those of this release")]
  return Array.from(Map.groupBy(problems, ({ repair }) => repair), ([repair, same]) => {
    const isUnrecorded = same.some(({ dataset }) => dataset !== undefined)
    const found = formatNames(same.map(({ found }) => found)) +
      (isUnrecorded ? "; as_of and /v1/changes miss what is written meanwhile, and responses may be outdated" : "")
    const then = isUnrecorded ? ' Then see "Repair the history" in docs/operations/history.md.' : ""
    return Finding.failed(
      found,
      repair === ""
        ? "Create it as the folder sql of this release does, as the role that owns the tables, or restore a backup: " +
          "docs/operations/backups.md."
        : `As the role that owns the tables, run: ${repair}.${then}`,
    )
  })
})

/**
 * Finds rules of rows that are not validated, of the service or an operator (D34, stored values). Requests for rows
 * that violate one of them fail.
 */
export const checkConstraints = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const notValidated = yield* sql<{ readonly dataset: string; readonly name: string; readonly expression: string }>`
    select dataset, conname as name, pg_get_expr(conbin, conrelid) as expression
    from history.datasets join pg_constraint on conrelid = to_regclass('public.' || dataset)
    where contype = 'c' and not convalidated order by 1, 2
  `
  if (notValidated.length === 0) return [Finding.passed("all rows of the datasets satisfy the constraints")]
  return notValidated.map(({ dataset, expression, name }) =>
    Finding.warning(
      `${name} is not validated; requests for rows of ${dataset} that violate it fail`,
      `Find the rows: select * from ${dataset} where not (${expression}). Correct them, then run: ` +
        `alter table ${dataset} validate constraint ${name}. Or load ${dataset} again.`,
    )
  )
})

/** Reports which datasets have rows, when they last changed, and whether statistics exist. */
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
        `${found}; empty: ${formatNames(empty)}`,
        `Load data: \`${tickerlineCommand} load DATASET FILE\`.`,
      )
      : days !== null && days > 7
      ? Finding.warning(found, "Find out whether the loads still run.")
      : Finding.passed(found),
    ...(notAnalyzed.length === 0 ? [] : [
      Finding.warning(
        `never analyzed: ${formatNames(notAnalyzed.map(({ name }) => name))}`,
        "Run `analyze`.",
        "statistics",
      ),
    ]),
  ]
})

/** Age of the last successful ingest above which doctor warns. One daily run may be skipped. */
const maxIngestAgeHours = 50

/** Age above which doctor warns of a document that the ingest could not read. */
const maxWorkAgeHours = 7 * 24

const IngestRuns = Schema.Struct({
  success_hours: Schema.NullOr(Schema.Finite),
  status: Schema.String,
  scheduled: Schema.Boolean,
  error: Schema.NullOr(Schema.String),
  /** Whether the process of the newest run has recorded that it is alive within the last two minutes. */
  is_alive: Schema.Boolean,
  seen_minutes: Schema.Finite,
  /** Why a run failed after the last success. */
  last_failure: Schema.NullOr(Schema.String),
})

/**
 * If the ingest is scheduled, reads only its runs. Otherwise, if all companies were ingested within a month, reads only
 * such runs: a run over a few companies by hand does not show that the others work.
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

/** Describes the documents that the ingest has set aside. */
const describeIngestWork = ({ final, oldest_hours, waiting }: Effect.Success<typeof readWorkSize>) => [
  ...(waiting === 0 ? [] : [
    `${formatCountWithNoun(waiting, "document")} will be requested again, the oldest for ${
      formatCountWithNoun(oldest_hours ?? 0, "hour")
    }`,
  ]),
  ...(final === 0 ? [] : [`${formatCountWithNoun(final, "document")} rejected for good`]),
]

/** Reports when the SEC's documents were last ingested, why the newest run failed, and which documents are missing. */
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

/** Reads a server's state and the identifier of its cluster. */
const readServer = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [server] = yield* sql<{ readonly system: string }>`
    select system_identifier::text as system from pg_control_system()
  `
  return { state: yield* makeServerPoll(sql), system: server?.system }
})

/** Time within which a replica should replay the primary's latest changes. */
const replayTimeout = Duration.seconds(1)

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

/** Compares each server in `DATABASE_READ_URLS` with the primary. */
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
          // `summarizeError` would name `DATABASE_URL`, which is not the replica's URL.
          Effect.mapError((error) => ({ message: describeFailure(error) })),
        ),
      }),
    { concurrency: "unbounded" },
  )
  return findings.flat()
})
