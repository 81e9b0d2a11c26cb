/**
 * The audit log: who changed what, when, and from where (docs/operations/audit.md). Triggers in PostgreSQL write it.
 */
import { Config, Duration, Effect, Option, Schema, SchemaGetter, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "./DecodeRows.ts"
import type { Job } from "./jobs/Job.ts"
import { Retention } from "./jobs/PartitionRetention.ts"
import { normalizeTimestamp } from "../contract/rules/AsOfParameter.ts"
import { readPage } from "../contract/rules/Cursors.ts"
import { formatTime, makeHistoryTimestampSql, printedOffset, PrintedTime } from "../contract/rules/Dates.ts"

/** How long audit log entries are kept. `None` means forever. */
export const AuditRetentionConfig = Config.option(Config.schema(Retention, "AUDIT_RETENTION"))

/**
 * The types of subject that Tickerline records in the audit log, such as `account`: what a change affected. Other
 * programs may record other types.
 */
export const auditSubjectTypes = [
  "account",
  "admin_token",
  "announcement",
  "audit",
  "backup",
  "credit",
  "database",
  "dataset",
  "doubt",
  "invoice",
  "key",
  "settings",
  "ticker_change",
  "webhook",
] as const

/** An entry in the audit log. */
export const AuditRow = Schema.Struct({
  audit_id: Schema.Int,
  recorded_at: PrintedTime,
  /** Who made the change: an operating-system user, an admin, or a PostgreSQL role. */
  actor: Schema.String,
  /** How the change was made: `command`, `admin` or `sql`. */
  via: Schema.String,
  /** The host that the command ran on, or the client's IP address. */
  origin: Schema.NullOr(Schema.String),
  operation: Schema.NullOr(Schema.String),
  database_role: Schema.String,
  subject_type: Schema.String,
  subject: Schema.String,
  account: Schema.NullOr(Schema.String),
  change: Schema.Literals(["created", "changed", "removed"]),
  before: Schema.NullOr(Schema.Json),
  after: Schema.NullOr(Schema.Json),
})
/** A decoded audit log entry. */
export type AuditRow = typeof AuditRow.Type

/** A time in a request or command: a date, which stands for midnight at UTC-05:00, or a timestamp with a UTC offset. */
export const AuditTime = Schema.String.check(
  Schema.makeFilter((text: string) => parseTime(text) !== undefined, {
    message: "must be a date, or a timestamp with an offset, such as 2026-03-02T09:30:00-05:00",
  }),
).pipe(Schema.decodeTo(Schema.String, {
  decode: SchemaGetter.transform((text) => parseTime(text) ?? text),
  encode: SchemaGetter.passthrough(),
}))
const parseTime = (text: string) => normalizeTimestamp(/T/.test(text) ? text : `${text}T00:00:00${printedOffset.text}`)

/** Which audit log entries to read. A missing field does not restrict the result. */
export interface AuditFilter {
  /** Only entries for changes at or after this time, as text that PostgreSQL accepts for a `timestamptz`. */
  readonly since?: string | undefined
  /** Only entries for changes before this time, in the same format as `since`. */
  readonly until?: string | undefined
  readonly actor?: string | undefined
  readonly account?: string | undefined
  readonly subject_type?: string | undefined
  readonly subject?: string | undefined
}

const makeConditions = Effect.fnUntraced(function* (filter: AuditFilter) {
  const sql = yield* SqlClient.SqlClient
  const { account, since, until, ...columns } = filter
  return [
    ...(since === undefined ? [] : [sql`recorded_at >= ${since}::text::timestamptz`]),
    ...(until === undefined ? [] : [sql`recorded_at < ${until}::text::timestamptz`]),
    ...(account === undefined
      ? []
      : [sql`audit.account_id = (select account_id from accounts where name = ${account})`]),
    ...Object.entries(columns).flatMap(([name, value]) => value === undefined ? [] : [sql`${sql(name)} = ${value}`]),
  ]
})

/**
 * A `timestamptz` as PostgreSQL writes it in JSON. The UTC offset depends on the time zone of the session that made the
 * change.
 */
const storedTime = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?[+-]\d{2}:\d{2}$/

/** Reformats the timestamps in a recorded row to the format that Tickerline uses everywhere else (D15). */
const printTimes = (row: AuditRow["before"]): AuditRow["before"] =>
  row === null || typeof row !== "object" || Array.isArray(row) ? row : Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      typeof value === "string" && storedTime.test(value) ? formatTime(Date.parse(value)) ?? value : value,
    ]),
  )

/**
 * Returns at most `limit` audit log entries that match the filter. `after` and `before` are entry ids, and restrict the
 * result to higher or lower ids. With `after`, the entries are ordered oldest first; without it, newest first.
 */
export const readAuditEntries = Effect.fnUntraced(
  function* (
    filter: AuditFilter,
    { after, before, limit }: { readonly after?: number; readonly before?: number | undefined; readonly limit: number },
  ) {
    const sql = yield* SqlClient.SqlClient
    const conditions = yield* makeConditions(filter)
    // The condition `true` matches all entries. It stands in for an omitted `after` or `before`.
    const rows = yield* decodeRows(AuditRow)(sql`
      select audit_id::float8, ${
      sql.literal(makeHistoryTimestampSql("recorded_at"))
    } as recorded_at, actor, via, origin, operation,
        database_role, subject_type, subject, accounts.name as account, change, before, after
      from audit left join accounts using (account_id)
      where ${
      sql.and([
        ...conditions,
        after === undefined ? sql`true` : sql`audit_id > ${after}::float8::bigint`,
        before === undefined ? sql`true` : sql`audit_id < ${before}::float8::bigint`,
      ])
    }
      order by audit_id ${sql.literal(after === undefined ? "desc" : "asc")} limit ${limit}
    `)
    return rows.map((row): AuditRow => ({ ...row, before: printTimes(row.before), after: printTimes(row.after) }))
  },
)

const pageSize = 1_000

/** Streams all audit log entries that match the filter, oldest first. */
export const streamAuditEntries = (filter: AuditFilter) =>
  Stream.paginate(0, (after) =>
    Effect.map(
      readPage(pageSize, (limit) => readAuditEntries(filter, { after, limit })),
      ({ last, rows }) => [rows, Option.map(Option.fromUndefinedOr(last), ({ audit_id }) => audit_id)] as const,
    ))

/** Adds details, such as a file name, to the audit log entry for the dataset changes of the current transaction. */
export const describeDatasetChange = Effect.fnUntraced(function* (facts: Readonly<Record<string, string>>) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`select set_config('tickerline.audit_details', ${JSON.stringify(facts)}, true)`
})

/** An event that is recorded although it changes no row in the database, such as a sign-in. */
export interface AuditEvent extends Pick<AuditRow, "change" | "subject" | "subject_type"> {
  readonly after: Schema.JsonObject
}

/** Records an event. Does nothing on a standby, or if the database schema predates the audit log. */
export const recordAuditEvent = Effect.fnUntraced(function* ({ after, change, subject, subject_type }: AuditEvent) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql`
    select where to_regclass('public.audit') is not null and not pg_is_in_recovery()
  `
  if (found.length === 0) return
  yield* sql`
    select public.record_audit(${subject_type}, ${subject}, ${change}, null, ${JSON.stringify(after)}::text::jsonb)
  `
})

/**
 * Records the settings that affect customers, such as prices, in the audit log if they differ from the last recorded
 * settings.
 */
export const recordAuditedSettings = Effect.fnUntraced(function* (settings: Schema.JsonObject) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`select record_settings(${JSON.stringify(settings)}::text::jsonb)`
})

const removeOldChanges = Effect.fnUntraced(function* (retention: Duration.Duration) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`select drop_audit_before(now() - make_interval(secs => ${Duration.toSeconds(retention)}::float8))`
})

/** Deletes audit log entries older than `AUDIT_RETENTION`. If the setting is missing, the job does not run. */
export const auditRetentionJob = {
  name: "audit",
  every: Duration.hours(1),
  prepare: () => Effect.map(AuditRetentionConfig, Option.map(removeOldChanges)),
} satisfies Job<Config.ConfigError, SqlClient.SqlClient>
