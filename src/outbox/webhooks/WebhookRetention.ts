/**
 * The background job that deletes old webhook messages, and queues messages about API keys that are about to expire.
 */
import { type Config, Duration, Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import type { Job } from "../../postgres/jobs/Job.ts"
import { makeHistoryTimestampSql } from "../../contract/rules/Dates.ts"
import { WebhooksConfig } from "./WebhookSettings.ts"

/** Maximum number of delivered messages and dead letters retained per webhook endpoint. */
const maxFinishedMessages = 50_000

/** Number of messages deleted by one statement. The limit keeps each statement short. */
const batchSize = 1_000

/**
 * Deletes these rows of `webhook_messages`: messages that were delivered or became dead letters more than thirty days
 * ago, messages that have been waiting for a disabled endpoint for that long, and the oldest finished messages of
 * endpoints that have more than `maxFinishedMessages`.
 */
export const deleteOldWebhookMessages = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  // One statement deletes at most `batchSize` messages. If it deletes fewer, none are left.
  let deleted = batchSize
  while (deleted === batchSize) {
    const rows = yield* sql`
      delete from webhook_messages where message_id in (
        (select message_id from webhook_messages where finished_at < now() - interval '30 days' limit ${batchSize})
        union
        (
          select message_id from webhook_endpoints join webhook_messages using (endpoint_id)
          where disabled_at < now() - interval '30 days' and status = 'pending'
            and webhook_messages.created_at < now() - interval '30 days'
          limit ${batchSize}
        )
        union
        (
          select message_id from webhook_endpoints as endpoint cross join lateral (
            select message_id from webhook_messages as message
            where message.endpoint_id = endpoint.endpoint_id and status <> 'pending'
            order by position desc offset ${maxFinishedMessages}
          ) as surplus
          limit ${batchSize}
        )
        limit ${batchSize}
      )
      returning message_id
    `
    deleted = rows.length
  }
})

/**
 * Queues an event about each active key that expires within a week. Each expiry is reported only once, because the
 * event key contains the key id and the expiry.
 */
export const queueKeyExpiryEvents = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    select enqueue_key_event('key.expiring', api_keys, null,
      'key.expiring ' || key_id || ' ' || ${sql.literal(makeHistoryTimestampSql("expires_at"))})
    from api_keys
    where revoked_at is null and disabled_at is null and expires_at > now() and expires_at < now() + interval '7 days'
      and account_id in (select account_id from webhook_endpoints)
  `
})

/** The job runs only if `WEBHOOKS` is `on`. */
export const webhookRetentionJob = {
  name: "webhook-retention",
  every: Duration.hours(1),
  prepare: () =>
    Effect.map(
      WebhooksConfig,
      (setting) =>
        setting === "on" ? Option.some(Effect.andThen(queueKeyExpiryEvents, deleteOldWebhookMessages)) : Option.none(),
    ),
} satisfies Job<Config.ConfigError, SqlClient.SqlClient>
