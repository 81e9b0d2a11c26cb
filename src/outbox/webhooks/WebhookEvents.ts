/** What webhooks report (docs/operations/webhooks.md). SQL statements queue events with `enqueue_webhook_event`. */
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

/** What an endpoint can subscribe to: a type of event, or a group of types. */
export const webhookSubscriptions = [
  ...webhookEventTypes,
  "dataset.*",
  "key.*",
  "budget.*",
  "deprecation.*",
] as const

/** One of `webhookSubscriptions`. */
export type WebhookSubscription = typeof webhookSubscriptions[number]
