/**
 * Erases customer accounts (docs/operations/erasure.md): counts what an erasure would remove, erases most of an
 * account's data immediately, and leaves its rows of usage, webhooks and the audit log to a background job.
 */
import { Duration, Effect, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../postgres/DecodeRows.ts"
import { makeTimeSql, PrintedTime } from "../contract/rules/Dates.ts"
import type { Job } from "../postgres/jobs/Job.ts"
import { OperationProgress } from "../postgres/metrics/OperationProgress.ts"
import { noSuchAccount } from "./Accounts.ts"

/** What erasing an account would change or, if the account is already erased, what remains to be erased. */
export const ErasureState = Schema.Struct({
  account: Schema.String,
  erased_at: Schema.NullOr(PrintedTime).annotate({ description: "Null: the account is not erased." }),
  finished_at: Schema.NullOr(PrintedTime).annotate({
    description: "Null: rows of usage, of webhooks or of the audit log are left.",
  }),
  keys: Schema.Int,
  webhooks: Schema.Int,
  webhook_messages: Schema.Int,
  emails: Schema.Int.annotate({
    description: "Emails to the present and former addresses that are known, also those that were sent. Former ones " +
      "are known from notices to the account and from the audit log, as far as AUDIT_RETENTION keeps it.",
  }),
  credit_references: Schema.Int,
  usage_rows: Schema.Int.annotate({ description: "Recorded requests that still say with which key they were made." }),
  audit_rows: Schema.Int.annotate({ description: "Rows of the audit log about the account." }),
}).annotate({ identifier: "ErasureState" })

/** The decoded erasure state. */
export type ErasureState = typeof ErasureState.Type

/**
 * Counts what erasing an account would change or, if it is already erased, what remains. Does not change anything.
 *
 * If the account is being erased, its row of `account_erasures` contains the progress: usage up to `usage_until` and
 * batches up to `batches_until` have been erased, and everything has been erased if `finished_at` is set. Otherwise
 * these columns are null. Usage is stored in batches of requests (`usage_batches`), and as counts of refused requests
 * (`usage`).
 */
export const readErasureState = Effect.fnUntraced(function* (name: string) {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* decodeRows(ErasureState)(sql`
    select name as account, ${sql.literal(["erased_at", "finished_at"].map(makeTimeSql).join(", "))},
      (select count(*) from api_keys where account_id = accounts.account_id)::float8 as keys,
      (select count(*) from webhook_endpoints where account_id = accounts.account_id)::float8 as webhooks,
      (select count(*) from webhook_messages join webhook_endpoints using (endpoint_id)
        where account_id = accounts.account_id)::float8 as webhook_messages,
      (select count(*) from announcement_mails join announcements using (entry_id)
        where account_id = accounts.account_id or lower(recipient) = any (addresses))::float8 as emails,
      (select count(reference) from credits where account_id = accounts.account_id)::float8 as credit_references,
      case when finished_at is not null then 0 else (
        select count(*) from usage
        where account_id = accounts.account_id and requested_at > coalesce(usage_until, '-infinity')
      ) + (
        select coalesce(sum(requests), 0) from usage_batches
        where account_id = accounts.account_id and moment > coalesce(batches_until, '-infinity')
      ) end::float8 as usage_rows,
      (select count(*) from audit where account_id = accounts.account_id and finished_at is null)::float8 as audit_rows
    from accounts left join account_erasures using (account_id)
    -- Without \`offset 0\`, PostgreSQL would inline the function, and call it for every email.
    cross join lateral (select account_addresses(accounts.account_id) as addresses offset 0) as known
    where name = ${name}
  `)
  return found ?? (yield* noSuchAccount(name))
})

/**
 * Returns a version string that changes whenever an operator changes what an erasure would remove, but not when the
 * customer sends requests or receives webhooks. The admin API uses it to detect an outdated preview. Every change to
 * the account, its keys, its credits and its webhooks adds a row to the audit log, so the newest audit row covers all
 * of them. Only emails have to be counted separately.
 */
export const readErasurePreviewVersion = Effect.fnUntraced(function* (account_id: number) {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* decodeRows(Schema.Struct({ version: Schema.String }))(sql`
    select concat_ws(' ', max(audit_id), count(*), (
      select count(*) from announcement_mails join announcements using (entry_id)
      where account_id = ${account_id}::float8::bigint or lower(recipient) = any (addresses)
    )) as version
    from (select account_addresses(${account_id}::float8::bigint) as addresses offset 0) as known
    left join audit on account_id = ${account_id}::float8::bigint group by addresses
  `)
  return found?.version
})

const ErasedName = Schema.Struct({ name: Schema.NullOr(Schema.String) })

/**
 * Erases an account, except for the rows that `finishErasure` erases later. The account's keys stop working within a
 * second. Erasure cannot be undone, and erasing an account again has no effect. Returns the account's new name.
 */
export const eraseAccount = Effect.fnUntraced(function* (name: string) {
  const sql = yield* SqlClient.SqlClient
  const [erased] = yield* decodeRows(ErasedName)(sql`
    select erase_account(account_id) as name from accounts where name = ${name}
  `)
  return erased?.name ?? (yield* noSuchAccount(name))
})

/**
 * Maximum number of rows that one transaction erases. The transaction locks these rows, so this limits how long other
 * transactions wait for them.
 */
const batchRows = 5_000

const minPause = Duration.millis(50)

const Batch = Schema.Struct({ rows: Schema.NullOr(Schema.Int) })

/**
 * Erases the rows of usage, webhooks and the audit log that `eraseAccount` has left, in batches. It can be interrupted
 * and run again, and concurrent runs are allowed.
 */
export const finishErasure = Effect.fnUntraced(function* (account_id: number) {
  const sql = yield* SqlClient.SqlClient
  const progress = yield* OperationProgress
  const eraseBatch = decodeRows(Batch)(sql`
    select continue_erasure(${account_id}::float8::bigint, ${batchRows})::float8 as rows
  `)
  while (true) {
    const [duration, [batch]] = yield* Effect.timed(eraseBatch)
    if (batch === undefined || batch.rows === null) return
    progress.count += batch.rows
    progress.done += batch.rows
    // Pause for as long as the batch took, so that the erasure keeps the database busy at most half of the time.
    yield* Effect.sleep(Duration.max(duration, minPause))
  }
})

const Unfinished = Schema.Struct({ account_id: Schema.Int, account: Schema.String, erased_at: PrintedTime })

/** Returns the accounts whose erasure has not finished, oldest first. */
export const listUnfinishedErasures = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* decodeRows(Unfinished)(sql`
    select account_id::float8, name as account, ${sql.literal(makeTimeSql("erased_at"))}
    from account_erasures join accounts using (account_id) where finished_at is null order by account_erasures.erased_at
  `)
})

const finishErasures = Effect.gen(function* () {
  for (const { account, account_id } of yield* listUnfinishedErasures) {
    yield* finishErasure(account_id)
    yield* Effect.logInfo(`Erased the usage of the account ${account}.`)
  }
})

/**
 * The background job that finishes erasures. It finds erasures begun by the admin API, and those begun by a command
 * that was interrupted.
 */
export const erasureJob = {
  name: "erasure",
  every: Duration.seconds(15),
  prepare: () => Effect.succeed(Option.some(finishErasures)),
} satisfies Job<never, SqlClient.SqlClient>
