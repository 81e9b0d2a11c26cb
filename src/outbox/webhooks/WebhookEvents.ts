/**
 * The events reported by webhooks (docs/operations/webhooks.md). SQL statements queue them with
 * `enqueue_webhook_event`.
 */
const webhookEventTypes = [
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

/** What an endpoint can subscribe to: event types, and groups of event types. */
export const subscribableWebhookEvents = [
  ...webhookEventTypes,
  "dataset.*",
  "key.*",
  "budget.*",
  "deprecation.*",
] as const

/** An event type or group in `subscribableWebhookEvents`. */
export type WebhookSubscription = typeof subscribableWebhookEvents[number]
