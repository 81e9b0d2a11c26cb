/** Creates, lists and changes webhook endpoints, and resends messages (docs/operations/webhooks.md). */
import { Clock, Data, Duration, Effect, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { failIfErased } from "../../accounts/Accounts.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import type { PageRange } from "../../contract/rules/Cursors.ts"
import { formatHistoryTimestamp, formatTimeSql, makeTimeSql, PrintedTime } from "../../contract/rules/Dates.ts"
import type { ChangeFeedDataset } from "../../contract/endpoints/changes.ts"
import { makeDnsResolver, makeWebhookDelivery } from "./HttpDelivery.ts"
import type { WebhookSubscription } from "./WebhookEvents.ts"
import { AllowedHostsConfig } from "./WebhookSettings.ts"
import { generateWebhookSecret } from "./WebhookSignature.ts"
import { checkWebhookUrl } from "./WebhookUrl.ts"

/**
 * Maximum number of webhook endpoints per account. The limit prevents an account from occupying all concurrent delivery
 * attempts, and from multiplying its messages without bound.
 */
const maxEndpointsPerAccount = 20

/** No webhook endpoint has the given id. */
export class NoSuchEndpoint extends Data.TaggedError("NoSuchEndpoint")<{ readonly message: string }> {}

class EndpointNotCreated extends Data.TaggedError("EndpointNotCreated")<{ readonly message: string }> {}

/**
 * The previous secret is still valid, and an endpoint can have only one previous secret. The message explains what to
 * do.
 */
class PreviousSecretValid extends Data.TaggedError("PreviousSecretValid")<{ readonly message: string }> {}

class UrlRefused extends Data.TaggedError("UrlRefused")<{ readonly message: string }> {}

const noSuchEndpoint = (id: number) =>
  new NoSuchEndpoint({ message: `There is no webhook endpoint ${id}. \`webhooks list\` shows the ids.` })

/** SQL condition that selects the rows of `webhook_endpoints` that are enabled and subscribe to dataset changes. */
export const subscribesToDatasetsSql =
  `(disabled_at is null and (events is null or events && '{dataset.changed,dataset.*}'))`

/**
 * SQL expression for the secrets that sign messages to an endpoint in `webhook_endpoints`: the current one, and the
 * previous one while it is still valid.
 */
export const signingSecretsSql =
  "array_remove(array[secret, case when previous_secret_until > now() then previous_secret end], null)"

const toJson = (value: ReadonlyArray<string> | null) => value === null ? null : JSON.stringify(value)

/** The properties of a new webhook endpoint. */
export interface NewWebhookEndpoint {
  /** Name of an existing account. */
  readonly account: string
  readonly url: string
  /** The events to send. Null subscribes to all events. */
  readonly events: ReadonlyArray<WebhookSubscription> | null
  /** The datasets for which `dataset.changed` is sent. Null means all datasets that the account may read. */
  readonly datasets: ReadonlyArray<ChangeFeedDataset> | null
  /** The symbols for which `dataset.changed` is sent, at most 100. Null means all symbols. */
  readonly tickers: ReadonlyArray<string> | null
}

const CreatedEndpoint = Schema.Struct({ endpoint_id: Schema.BigInt, url: Schema.String })

/**
 * Creates a webhook endpoint, and returns its id and URL with its signing secret. The secret cannot be retrieved later.
 */
export const createWebhookEndpoint = Effect.fnUntraced(function* (
  { account, datasets, events, tickers, url }: NewWebhookEndpoint,
) {
  const sql = yield* SqlClient.SqlClient
  const checked = checkWebhookUrl(url, yield* AllowedHostsConfig)
  if ("problem" in checked) {
    return yield* new UrlRefused({ message: `The URL ${checked.problem}. Nothing was created.` })
  }
  const secret = generateWebhookSecret()
  /**
   * Returns SQL for a text array, or for null if `values` is null. In a column, null stands for all events, all
   * datasets or all symbols.
   */
  const toArray = (values: ReadonlyArray<string> | null) =>
    sql`(select array_agg(value) from json_array_elements_text(${toJson(values)}::text::json) as value)`
  // `begin_webhook_feed` moves the position of the webhooks in the change feed to the present, if no endpoint uses it
  // yet. Otherwise, the new endpoint would receive older changes. Inserts nothing if the account does not exist, or
  // has as many endpoints as it may have.
  const [created] = yield* decodeRows(CreatedEndpoint)(sql`
    insert into webhook_endpoints (account_id, url, events, datasets, tickers, secret)
    select account_id, ${checked.url.href}, ${toArray(events)}, ${toArray(datasets)}, ${toArray(tickers)}, ${secret}
    from accounts, (select begin_webhook_feed()) as begun where name = ${account} and (
      select count(*) from webhook_endpoints where webhook_endpoints.account_id = accounts.account_id
    ) < ${maxEndpointsPerAccount}
    returning endpoint_id, url
  `)
  if (created !== undefined) return { ...created, secret }
  const accounts = yield* sql`select from accounts where name = ${account}`
  return yield* new EndpointNotCreated({
    message: accounts.length === 0
      ? `There is no account ${account}. \`accounts list\` shows all accounts.`
      : `The account ${account} has ${maxEndpointsPerAccount} webhook endpoints, which is the limit. Delete one first.`,
  })
}, (write, { account }) => failIfErased(account)(write))

/** Options for rotating the secret that signs an endpoint's messages. */
export interface SecretRotation {
  /** How long messages are also signed with the old secret. */
  readonly grace: Duration.Duration
  /**
   * Whether to invalidate an earlier secret that still signs messages. If false, the rotation is refused while there is
   * one.
   */
  readonly endPrevious: boolean
}

const PreviousSecret = Schema.Struct({ valid_until: Schema.NullOr(PrintedTime) })

/**
 * Gives the endpoint a new signing secret, and returns the secret. Until the grace period (`grace`) ends, messages are
 * also signed with the old secret. Fails if the grace period of an earlier rotation has not ended yet, unless
 * `endPrevious` ends it now: an endpoint has at most one previous secret.
 */
export const rotateWebhookSecret = Effect.fnUntraced(function* (id: number, { endPrevious, grace }: SecretRotation) {
  const sql = yield* SqlClient.SqlClient
  const secret = generateWebhookSecret()
  const graceSeconds = Duration.toSeconds(grace)
  const rotated = yield* sql`
    update webhook_endpoints set secret = ${secret},
      previous_secret = case when ${graceSeconds}::float8 > 0 then secret end,
      previous_secret_until = now() + make_interval(secs => ${graceSeconds}::float8)
    where endpoint_id = ${id}
      and (${endPrevious} or previous_secret is null or previous_secret_until <= now()) returning endpoint_id
  `
  if (rotated.length === 1) return secret
  const [endpoint] = yield* decodeRows(PreviousSecret)(sql`
    select ${sql.literal(formatTimeSql("previous_secret_until"))} as valid_until
    from webhook_endpoints where endpoint_id = ${id}
  `)
  return yield* endpoint === undefined ? noSuchEndpoint(id) : new PreviousSecretValid({
    message: `The previous secret of webhook endpoint ${id} still signs until ${endpoint.valid_until ?? "now"}, and ` +
      "there can be only one. Nothing was changed. Rotate after that, or add --end-previous to end it now.",
  })
})

/**
 * Disables an endpoint. No messages are sent to it, and no new events are queued. Messages that are already queued
 * remain until the endpoint is enabled again.
 */
export const disableWebhookEndpoint = Effect.fnUntraced(function* (id: number, reason: string) {
  const sql = yield* SqlClient.SqlClient
  const changed = yield* sql`
    update webhook_endpoints
    set disabled_at = coalesce(disabled_at, now()), disabled_reason = coalesce(disabled_reason, ${reason})
    where endpoint_id = ${id} returning endpoint_id
  `
  if (changed.length === 0) return yield* noSuchEndpoint(id)
})

const EnabledEndpoint = Schema.Struct({ exists: Schema.Boolean })

/** Enables an endpoint. Its waiting messages are sent immediately, and may be attempted as often as new messages. */
export const enableWebhookEndpoint = Effect.fnUntraced(function* (id: number) {
  const sql = yield* SqlClient.SqlClient
  const [enabled] = yield* decodeRows(EnabledEndpoint)(sql`select enable_webhook_endpoint(${id}) as exists`)
  if (enabled?.exists !== true) return yield* noSuchEndpoint(id)
})

/** Deletes an endpoint and all of its messages. */
export const deleteWebhookEndpoint = Effect.fnUntraced(function* (id: number) {
  const sql = yield* SqlClient.SqlClient
  const deleted = yield* sql`delete from webhook_endpoints where endpoint_id = ${id} returning endpoint_id`
  if (deleted.length === 0) return yield* noSuchEndpoint(id)
})

/** An endpoint as shown by the admin API and the command line. */
export const ListedWebhookEndpoint = Schema.Struct({
  endpoint_id: Schema.Int,
  account: Schema.String,
  url: Schema.String,
  events: Schema.NullOr(Schema.Array(Schema.String)),
  datasets: Schema.NullOr(Schema.Array(Schema.String)),
  tickers: Schema.NullOr(Schema.Array(Schema.String)),
  disabled_reason: Schema.NullOr(Schema.String).annotate({ description: "Null: the endpoint is enabled." }),
  waiting: Schema.Int.annotate({ description: "Number of messages that wait to be sent." }),
  created_at: PrintedTime,
}).annotate({ identifier: "WebhookEndpoint" })

/** The decoded endpoint. */
export type ListedWebhookEndpoint = typeof ListedWebhookEndpoint.Type

/** Returns endpoints, oldest first. Returns all of them unless the arguments limit the selection. */
export const listWebhookEndpoints = Effect.fnUntraced(function* ({ after = 0, limit }: PageRange = {}) {
  const sql = yield* SqlClient.SqlClient
  return yield* decodeRows(ListedWebhookEndpoint)(sql`
    select endpoint_id::float8, accounts.name as account, url, events, datasets, tickers, disabled_reason,
      (
        select count(*)::int from webhook_messages as message
        where message.endpoint_id = endpoint.endpoint_id and status = 'pending'
      ) as waiting,
      ${sql.literal(formatTimeSql("endpoint.created_at"))} as created_at
    from webhook_endpoints as endpoint join accounts using (account_id)
    where endpoint_id > ${after}::float8::bigint order by endpoint_id limit ${limit ?? null}::float8::bigint
  `)
})

/** The statuses of a message. A dead message is not retried unless an operator requeues it. */
export const messageStatuses = ["pending", "delivered", "dead"] as const

/** One of the statuses in `messageStatuses`. */
export type MessageStatus = typeof messageStatuses[number]

/** A message as shown by the admin API and the command line. */
export const ListedWebhookMessage = Schema.Struct({
  message_id: Schema.String,
  type: Schema.String,
  status: Schema.Literals(messageStatuses),
  attempts: Schema.Int.annotate({ description: "Attempts so far, also those before it was last queued again." }),
  created_at: PrintedTime,
  last_attempt_at: Schema.NullOr(PrintedTime),
  next_attempt_at: Schema.NullOr(PrintedTime).annotate({ description: "Null unless the message waits." }),
  http_status: Schema.NullOr(Schema.Int),
  last_error: Schema.NullOr(Schema.String),
}).annotate({ identifier: "WebhookMessage" })

/** Selection criteria for an endpoint's messages. */
export interface DeliverySelection {
  readonly status: Option.Option<MessageStatus>
  /** Maximum number of messages to return. */
  readonly limit: number
}

/**
 * Returns an endpoint's most recent messages, newest first: at most `limit`, and only those with the given `status`, if
 * any. Fails if the endpoint does not exist. The time of the next attempt is shown only for messages that wait for one.
 */
export const listWebhookDeliveries = Effect.fnUntraced(function* (id: number, { limit, status }: DeliverySelection) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* decodeRows(ListedWebhookMessage)(sql`
    select message_id, type, status, attempts,
      ${sql.literal(["created_at", "last_attempt_at"].map(makeTimeSql).join(", "))},
      case status when 'pending' then ${sql.literal(formatTimeSql("next_attempt_at"))} end as next_attempt_at,
      http_status, last_error
    from webhook_messages
    where endpoint_id = ${id} and status = coalesce(${Option.getOrNull(status)}::text, status)
    order by position desc limit ${limit}
  `)
  if (found.length > 0) return found
  const endpoints = yield* sql`select from webhook_endpoints where endpoint_id = ${id}`
  return endpoints.length === 0 ? yield* noSuchEndpoint(id) : found
})

/** Selection criteria for messages to resend. Messages must meet all criteria that are set. */
export interface ReplaySelection {
  readonly messageId: Option.Option<string>
  readonly endpointId: Option.Option<number>
  /** Selects messages created since this time. The time must have a UTC offset. */
  readonly since: Option.Option<string>
  /** Whether to include messages that the receiver has already accepted. If false, only dead letters are resent. */
  readonly includeDelivered: boolean
}

const ReplayedCounts = Schema.Struct({
  replayed: Schema.Int,
  found: Schema.Int,
  /** Ids of the disabled endpoints for which messages were queued. */
  disabled: Schema.Array(Schema.BigInt),
})

/**
 * Requeues messages with the same ids and in the same order, ahead of all waiting messages. If an endpoint's queue does
 * not have room for all of them, only the oldest are requeued. Returns how many messages were found, how many were
 * requeued, and which endpoints are disabled and will receive their messages only after they have been enabled.
 */
export const replayWebhookMessages = Effect.fnUntraced(
  function* ({ endpointId, includeDelivered, messageId, since }: ReplaySelection) {
    const sql = yield* SqlClient.SqlClient
    const [counts = { replayed: 0, found: 0, disabled: [] }] = yield* decodeRows(ReplayedCounts)(sql`
      select replayed, found, disabled from replay_webhook_messages(${Option.getOrNull(messageId)}::text,
        ${Option.getOrNull(endpointId)}::bigint, ${Option.getOrNull(since)}::text::timestamptz, ${includeDelivered})
    `)
    return counts
  },
)

const TestedEndpoint = Schema.Struct({ url: Schema.String, secrets: Schema.Array(Schema.String) })

/** Sends a `webhook.test` message from this process, immediately and without retries. Returns the result. */
export const testWebhookEndpoint = Effect.fnUntraced(function* (id: number) {
  const sql = yield* SqlClient.SqlClient
  const deliver = makeWebhookDelivery(yield* AllowedHostsConfig, makeDnsResolver())
  const [endpoint] = yield* decodeRows(TestedEndpoint)(sql`
    select url, ${sql.literal(signingSecretsSql)} as secrets from webhook_endpoints where endpoint_id = ${id}
  `)
  if (endpoint === undefined) return yield* noSuchEndpoint(id)
  const now = yield* Clock.currentTimeMillis
  return yield* deliver({
    message_id: `msg_test_${now}`,
    url: endpoint.url,
    body: JSON.stringify({ type: "webhook.test", timestamp: formatHistoryTimestamp(now, "000000"), data: {} }),
    secrets: endpoint.secrets,
  })
})
