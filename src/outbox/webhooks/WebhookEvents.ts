/** The types of events that webhooks report, and how an event is queued (docs/operations/webhooks.md). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export const webhookEventTypes = [
  "dataset.changed",
  "key.created",
  "key.rotated",
  "key.disabled",
  "key.enabled",
  "key.revoked",
  "key.expiring",
  "budget.warning",
  "budget.exhausted",
  "deprecation.announced",
] as const

/** What an endpoint can subscribe to: a type of event, or a group of types. */
export const webhookSubscriptions = [
  ...webhookEventTypes,
  "dataset.*",
  "key.*",
  "budget.*",
  "deprecation.*",
] as const
export type WebhookSubscription = typeof webhookSubscriptions[number]

export interface WebhookEvent {
  /** Such as `key.created`. */
  readonly type: string
  /** The property `data` of the message. */
  readonly data: object
  /** The account's endpoints get an event with a key once; repeated calls queue nothing. */
  readonly key?: string
}

/**
 * Queues an event for the endpoints of an account that want it, in the transaction of the caller. Returns the number of
 * queued messages. Statements can call the SQL function themselves. A trigger queues the events about changed keys.
 */
export const enqueueEvent = Effect.fnUntraced(function* (account_id: number, { data, key, type }: WebhookEvent) {
  const sql = yield* SqlClient.SqlClient
  const [queued] = yield* sql<{ readonly messages: bigint }>`
    select enqueue_webhook_event(
      ${account_id}, ${type}, ${JSON.stringify(data)}::text::json, ${key ?? null}::text
    ) as messages
  `
  return Number(queued?.messages ?? 0)
})
