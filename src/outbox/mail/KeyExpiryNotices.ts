/** The background job that warns accounts by email before their API keys expire (docs/operations/accounts.md). */
import { type Config, Duration, Effect, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import type { Job } from "../../postgres/jobs/Job.ts"
import { loadMailSettings } from "./MailSettings.ts"
import { queueNotice } from "./Notices.ts"

/** An account is warned this many days before one of its keys expires. */
const warningDays = [1, 14]

const ExpiringKey = Schema.Struct({
  key_id: Schema.BigInt,
  account_id: Schema.BigInt,
  account: Schema.String,
  name: Schema.String,
  key_hint: Schema.String,
  /** Time at UTC-5, such as `2026-03-02 09:30`. `last_used` has the same format. */
  expires: Schema.String,
  last_used: Schema.NullOr(Schema.String),
  notice_id: Schema.String,
})

/** Creates the email about an expiring key. */
const makeKeyExpiryNotice = (key: typeof ExpiringKey.Type) => ({
  id: key.notice_id,
  account_id: key.account_id,
  subject: `API key ${key.key_hint}… expires on ${key.expires} (UTC-5)`,
  paragraphs: [
    `The API key "${key.name}" (${key.key_hint}…) of the account ${key.account} expires on ${key.expires} (UTC-5). ` +
    "From then on, requests with this key get 401 api_key_disabled.",
    key.last_used === null ? "It has never been used." : `It was last used on ${key.last_used} (UTC-5).`,
    "If you still need it, request a new key, and replace it in your programs before that time. If you have replaced " +
    "it already, there is nothing to do.",
  ],
})

/**
 * Queues the warnings that are due. There are two warnings for each API key that expires, a number of days
 * (`warningDays`) before its expiry. If both are due, only the later one is sent. A warning is skipped if it would have
 * been due before the key's expiry was set, for example by a rotation with a short grace period.
 *
 * The id of a queued email, in `announcements`, is the `notice_id`. A warning whose id is already there is left out.
 */
export const queueKeyExpiryNotices = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const due = yield* decodeRows(ExpiringKey)(sql`
    select * from (
      select distinct on (key_id) key_id, account_id, accounts.name as account, api_keys.name, key_hint,
        to_char(expires_at at time zone 'Etc/GMT+5', 'YYYY-MM-DD HH24:MI') as expires,
        to_char(last_used_at at time zone 'Etc/GMT+5', 'YYYY-MM-DD HH24:MI') as last_used,
        format('key-expiry:%s:%s:%sd', key_id, extract(epoch from expires_at)::bigint, days) as notice_id
      from api_keys join accounts using (account_id), unnest(${warningDays}::int[]) as days
      where revoked_at is null and disabled_at is null and expires_at > now()
        and expires_at <= now() + make_interval(days => days)
        and coalesce(expiry_set_at, api_keys.created_at) < expires_at - make_interval(days => days)
        and btrim(contact_email) <> ''
      -- The first row for a key is the later warning.
      order by key_id, days
    ) as due
    where not exists (select from announcements where entry_id = notice_id)
  `)
  yield* Effect.forEach(due, (key) => queueNotice(makeKeyExpiryNotice(key)), { discard: true })
})

/** The job runs only if `SMTP_URL` is set. Otherwise, a warning could wait until the key has already expired. */
export const keyExpiryJob = {
  name: "key-expiry",
  every: Duration.hours(1),
  prepare: () => Effect.map(loadMailSettings, Option.as(queueKeyExpiryNotices)),
} satisfies Job<Config.ConfigError, SqlClient.SqlClient>
