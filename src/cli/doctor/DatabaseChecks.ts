/** What PostgreSQL tells of itself, over one connection that can only read. */
import { PgClient } from "@effect/sql-pg"
import { Clock, Effect, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { PoolSize } from "../../db/Database.ts"
import * as Pooler from "../../db/pool/PoolerCheck.ts"
import { DirectUrl } from "../../db/pool/Session.ts"
import { MaxExportsConfig } from "../../lists/ExportCursors.ts"
import { failed, type Finding, passed, warned } from "./Finding.ts"

/** The role cannot write even where a check were wrong; and no check waits for a lock. */
export const readOnlyConnection = (url: Redacted.Redacted) =>
  PgClient.layer({
    url,
    maxConnections: 1,
    connectTimeout: "5 seconds",
    applicationName: "tickerline-doctor",
    startupParameters: {
      default_transaction_read_only: "on",
      statement_timeout: "5s",
      lock_timeout: "1s",
      timezone: "UTC",
    },
  })

/** Whether the service would be let start by these ways, in its own words. */
export const checkPooler = Effect.fnUntraced(
  function* (url: Redacted.Redacted, direct: Option.Option<Redacted.Redacted>) {
    if (Option.isNone(direct)) {
      const { hasPooler } = yield* Pooler.checkDirectConnection("DATABASE_URL", url)
      return passed("pooler", hasPooler ? "one in session mode" : "none: the service asks PostgreSQL itself")
    }
    const { hasPooler } = yield* Pooler.checkBothConnections(url, direct.value)
    return hasPooler
      ? passed("pooler", "in transaction mode; what needs a session goes by DATABASE_DIRECT_URL")
      : warned(
        "pooler",
        "DATABASE_URL leads to PostgreSQL itself, and yet each statement is planned anew",
        "Unset DATABASE_DIRECT_URL, or name the pooler in DATABASE_URL.",
      )
  },
)

const oldest = 15

const isNear = (url: URL) => url.hostname === "" || /^(localhost|127\.|\[?::1|\/)/.test(url.hostname)

export const checkServer = Effect.fnUntraced(function* (url: Redacted.Redacted) {
  const sql = yield* SqlClient.SqlClient
  const [server] = yield* sql<{
    readonly version: string
    readonly number: number
    readonly encoding: string
    readonly ssl: boolean
    readonly autovacuum: string
    readonly recovers: boolean
  }>`
    select current_setting('server_version') as version, current_setting('server_version_num')::int as number,
      pg_encoding_to_char(encoding) as encoding, current_setting('autovacuum') as autovacuum,
      pg_is_in_recovery() as recovers,
      coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as ssl
    from pg_database where datname = current_database()
  `
  if (server === undefined) return []
  const { autovacuum, encoding, number, recovers, ssl, version } = server
  const found: Array<Finding> = [
    Math.floor(number / 10_000) >= oldest ? passed("version", `PostgreSQL ${version}`) : failed(
      "version",
      `PostgreSQL ${version} is too old`,
      `Use PostgreSQL ${oldest} or newer.`,
    ),
  ]
  if (encoding !== "UTF8") {
    found.push(failed("encoding", `the database is in ${encoding}`, "Make one: create database … encoding 'UTF8'."))
  }
  if (recovers) {
    found.push(
      failed("primary", "the server is a replica, which cannot record usage", "Name the primary in DATABASE_URL."),
    )
  }
  if (autovacuum !== "on") {
    found.push(warned("autovacuum", "it is off, so plans grow old", "Set autovacuum = on."))
  }
  if (!ssl && !isNear(new URL(Redacted.value(url)))) {
    found.push(warned(
      "encryption",
      "the connection is not encrypted, and leaves this machine",
      "Add ?sslmode=require to DATABASE_URL, where the network between is not trusted.",
    ))
  }
  return found
})

const mostApart = 2

export const checkClocks = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`select 1`
  const before = yield* Clock.currentTimeMillis
  const [row] = yield* sql<{ readonly now: number }>`
    select extract(epoch from clock_timestamp())::float8 * 1000 as now
  `
  const after = yield* Clock.currentTimeMillis
  const apart = ((row?.now ?? 0) - (before + after) / 2) / 1000
  if (Math.abs(apart) <= mostApart) return passed("clocks", `as the database's, to ${Math.abs(apart).toFixed(2)} s`)
  const said = `the database's is ${Math.abs(apart).toFixed(1)} s ${apart > 0 ? "ahead of" : "behind"} this machine's`
  const advice = "Set both by NTP: keys expire and usage is dated by one and the other."
  return Math.abs(apart) > 60 ? failed("clocks", said, advice) : warned("clocks", said, advice)
})

export const checkConnections = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly most: number; readonly used: number; readonly limit: number }>`
    select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as most,
      (select count(*)::int from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid())
        as used,
      (select rolconnlimit from pg_roles where rolname = current_user) as limit
  `
  const pooled = Option.isSome(yield* DirectUrl)
  // Beside these, one counts requests, one asks whether the database is there, and one what changed; through a pooler
  // the first and the pool do not come here.
  const pool = (pooled ? 0 : (yield* PoolSize) + 1) + (yield* MaxExportsConfig) + 2
  const most = row === undefined ? 0 : row.limit >= 0 ? Math.min(row.limit, row.most) : row.most
  const said = `${pool} at most, of ${most} that the server allows and ${row?.used ?? 0} in use`
  if (pool > most) {
    return failed("connections", said, "Lower DATABASE_POOL_SIZE or WHOLE_LISTS, or raise max_connections.")
  }
  return pool * 2 > most
    ? warned(
      "connections",
      said,
      "A second instance would not fit: lower DATABASE_POOL_SIZE or WHOLE_LISTS, or raise max_connections.",
    )
    : passed("connections", said)
})
