/**
 * The background job that sends waiting webhook messages. Each message is sent at least once. An endpoint's messages
 * are sent one at a time and in order. A receiver that hangs or fails only delays its own messages
 * (docs/operations/webhooks.md).
 */
import { type Config, Duration, Effect, Metric, Option, Schedule, Schema, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import type { Job, JobLease } from "../../postgres/jobs/Job.ts"
import { getRetryDelay } from "../../postgres/jobs/RetryDelay.ts"
import { makeCounter } from "../../postgres/metrics/CallbackMetrics.ts"
import { makeOutboxSender, type SendingState } from "../OutboxSender.ts"
import {
  type DeliveryFailureReason,
  deliveryFailureReasons,
  type DeliveryResult,
  deliveryTimeout,
  makeDnsResolver,
  makeWebhookDelivery,
} from "./HttpDelivery.ts"
import { type DueEndpoint, makeDeliveryScheduler } from "./DeliveryScheduler.ts"
import { signingSecretsSql } from "./WebhookEndpoints.ts"
import { AllowedHostsConfig, WebhooksConfig } from "./WebhookSettings.ts"

const pollInterval = Duration.seconds(1)

/**
 * The gauges are updated only on every tenth run of the job, because updating them requires counting all waiting
 * messages.
 */
const runsPerReading = 10

/** An endpoint's scheduling slot ends after this time or this many messages, so that other endpoints get a slot. */
const [maxSlotTime, maxMessagesPerSlot] = [Duration.seconds(5), 100]

/**
 * Delays between a failed attempt and the next one, as in the Standard Webhooks specification. They add up to about
 * three days.
 */
export const retryDelays = [
  Duration.seconds(5),
  Duration.minutes(5),
  Duration.minutes(30),
  ...[2, 5, 10, 14, 20, 24].map(Duration.hours),
]

/** Varies each delay by up to 20%, so that messages that failed together are not all retried at the same time. */
const retrySchedule = Schedule.jittered(
  retryDelays.map(Schedule.duration).reduce((before, delay) => Schedule.concat(before, delay)),
)

/**
 * Returns the delay before the next attempt to deliver a message that has had `attempts` attempts. It is at least as
 * long as the receiver requested. Returns undefined after the last attempt.
 */
export const computeRetryDelay = (attempts: number, retryAfterSeconds = 0) =>
  Effect.map(
    getRetryDelay(retrySchedule, attempts),
    (delay) => delay && Duration.max(delay, Duration.seconds(retryAfterSeconds)),
  )

/** An endpoint is disabled after this many dead letters without a delivered message in between. */
const maxDeadLettersInARow = 3

/** If an attempt has no result after this time, its sender is presumed dead, and the message is sent again. */
const abandonedAfter = Duration.times(deliveryTimeout, 4)

// ---------------------------------------------------------------------------------------------------------------------
// Statements
// ---------------------------------------------------------------------------------------------------------------------

const FoundEndpoint = Schema.Struct({ endpoint_id: Schema.BigInt, account_id: Schema.BigInt })

const ClaimedMessage = Schema.Struct({
  endpoint_id: Schema.BigInt,
  message_id: Schema.String,
  type: Schema.String,
  body: Schema.String,
  attempts: Schema.Int,
  /** Number of attempts since the message was last queued. */
  attempts_since: Schema.Int,
  url: Schema.String,
  secrets: Schema.Array(Schema.String),
})
type ClaimedMessage = typeof ClaimedMessage.Type

const QueueState = Schema.Struct({
  waiting: Schema.Int,
  overdue_seconds: Schema.Number,
  disabled: Schema.Int,
})

const DeadLetter = Schema.Struct({ is_disabled: Schema.Boolean })

type SenderLease = Pick<JobLease, "holderCondition" | "isHeld">

/**
 * Builds the SQL statements of the process that sends webhook messages. `webhook_messages` contains the messages: each
 * is `pending` until it has been delivered (`delivered`) or given up (`dead`), and `position` is its place in its
 * endpoint's queue. `holderCondition` is the SQL condition that this process holds the lease of the sending job.
 */
const makeSenderStatements = Effect.fnUntraced(function* ({ holderCondition }: SenderLease) {
  const sql = yield* SqlClient.SqlClient
  const secondsFromNow = (duration: Duration.Duration) =>
    sql`now() + make_interval(secs => ${Duration.toSeconds(duration)}::float8)`

  /**
   * SQL: each endpoint as `endpoint`, with its first waiting message as `head`. Later messages to the same endpoint
   * wait for that message.
   */
  const heads = sql`
    webhook_endpoints as endpoint cross join lateral (
      select next_attempt_at from webhook_messages as message
      where message.endpoint_id = endpoint.endpoint_id and status = 'pending' order by position limit 1
    ) as head
  `

  /**
   * Reads the values of the gauges: how many messages are waiting, how long the message that has been due longest has
   * been due, and how many endpoints the service has disabled.
   */
  const readState = decodeRows(QueueState)(sql`
    select (select count(*)::int from webhook_messages where status = 'pending') as waiting,
      coalesce((
        select extract(epoch from now() - min(next_attempt_at)) from ${heads}
        where disabled_at is null and next_attempt_at < now()
      ), 0)::float8 as overdue_seconds,
      (select count(*)::int from webhook_endpoints where disabled_by_service) as disabled
  `)

  /** Returns the endpoints whose next message is due, starting with the one that has been due longest. */
  const findDue = decodeRows(FoundEndpoint)(sql`
    select endpoint_id, account_id from ${heads}
    where disabled_at is null and next_attempt_at <= now() order by next_attempt_at
  `)

  /** Claims an endpoint's next message if the message is due and this process holds the job's lease. */
  const claimNext = (endpointId: bigint) =>
    decodeRows(ClaimedMessage)(sql`
      update webhook_messages as message
      set attempts = attempts + 1, last_attempt_at = now(), next_attempt_at = ${secondsFromNow(abandonedAfter)}
      from webhook_endpoints as endpoint
      where endpoint.endpoint_id = message.endpoint_id and disabled_at is null and ${holderCondition}
        and status = 'pending' and next_attempt_at <= now() and message_id = (
          select message_id from webhook_messages
          where endpoint_id = ${String(endpointId)}::text::bigint and status = 'pending' order by position limit 1
        )
      returning message_id, message.endpoint_id, type, body, attempts, attempts - attempts_before as attempts_since,
        url, ${sql.literal(signingSecretsSql)} as secrets
    `)

  // SQL condition that selects the message if its latest attempt is the given one. A result is stored only then,
  // whether or not this process still holds the job's lease. If the message has been sent again in the meantime, its
  // number of attempts differs, and the late result is ignored.
  const isAttempt = ({ attempts, message_id }: ClaimedMessage) =>
    sql`message_id = ${message_id} and status = 'pending' and attempts = ${attempts}`

  /** Records that a message was delivered, and resets the endpoint's count of consecutive dead letters. */
  const markDelivered = (message: ClaimedMessage, status: number) =>
    sql`
      with delivered as (
        update webhook_messages
        set status = 'delivered', finished_at = now(), http_status = ${status}, last_error = null
        where ${isAttempt(message)} returning endpoint_id
      )
      update webhook_endpoints set dead_letters_in_a_row = 0
      where dead_letters_in_a_row > 0 and endpoint_id in (select endpoint_id from delivered)
    `

  /** Stores the reason why an attempt failed, and the time of the next attempt. */
  const postpone = (
    message: ClaimedMessage,
    { reason, status }: FailedDelivery,
    delay: Duration.Duration,
  ) =>
    sql`
      update webhook_messages set next_attempt_at = ${secondsFromNow(delay)}, http_status = ${status ?? null}::int,
        last_error = ${reason}
      where ${isAttempt(message)}
    `

  /**
   * Marks the message as a dead letter, which is not retried. Returns whether its endpoint is disabled, which happens
   * after `maxDeadLettersInARow` dead letters.
   */
  const markDead = (message: ClaimedMessage, { reason, status }: FailedDelivery) =>
    decodeRows(DeadLetter)(sql`
      with dead as (
        update webhook_messages set status = 'dead', finished_at = now(), http_status = ${status ?? null}::int,
          last_error = ${reason}
        where ${isAttempt(message)} returning endpoint_id
      )
      update webhook_endpoints set dead_letters_in_a_row = dead_letters_in_a_row + 1,
        disabled_at = case when dead_letters_in_a_row + 1 < ${maxDeadLettersInARow} then disabled_at
          else coalesce(disabled_at, now()) end,
        disabled_by_service = disabled_by_service or
          (disabled_at is null and dead_letters_in_a_row + 1 >= ${maxDeadLettersInARow}),
        disabled_reason = case when dead_letters_in_a_row + 1 < ${maxDeadLettersInARow} then disabled_reason
          else coalesce(disabled_reason, ${`${maxDeadLettersInARow} messages in a row were not delivered`}) end
      where endpoint_id in (select endpoint_id from dead)
      returning disabled_at is not null as is_disabled
    `)

  /** Disables an endpoint that responded with 410 (Gone). The message waits until the endpoint is enabled again. */
  const disableGone = (message: ClaimedMessage, { reason, status }: FailedDelivery) =>
    sql`
      with refused as (
        update webhook_messages set next_attempt_at = now(), http_status = ${
      status ?? null
    }::int, last_error = ${reason}
        where ${isAttempt(message)} returning endpoint_id
      )
      update webhook_endpoints set disabled_at = now(), disabled_by_service = true,
        disabled_reason = 'The receiver answered 410'
      where disabled_at is null and endpoint_id in (select endpoint_id from refused)
    `

  return { readState, findDue, claimNext, markDelivered, postpone, markDead, disableGone }
})

type FailedDelivery = Extract<DeliveryResult, { readonly _tag: "Failed" }>

// ---------------------------------------------------------------------------------------------------------------------
// Sender
// ---------------------------------------------------------------------------------------------------------------------

const deliveredTotal = makeCounter("tickerline_webhooks_delivered_total", "Webhook messages that receivers accepted.")
const deadTotal = makeCounter("tickerline_webhooks_dead_total", "Webhook messages that were given up.")
const makeFailureCounter = (why: DeliveryFailureReason) =>
  makeCounter("tickerline_webhook_failures_total", "Failed attempts to send a webhook message, by reason.", { why })

/**
 * Builds the effect that each run of the job executes: it assigns scheduling slots to endpoints with due messages, and
 * begins to send these. `deliver` makes one attempt to deliver a message.
 */
export const makeWebhookSender = Effect.fnUntraced(function* (
  deliver: ReturnType<typeof makeWebhookDelivery>,
  lease: SenderLease,
) {
  const statements = yield* makeSenderStatements(lease)
  /** The last values of the gauges. */
  let state = { waiting: 0, overdue_seconds: 0, disabled: 0 }
  const scheduler = makeDeliveryScheduler()
  let runs = 0

  const { begin, isStopping, sendNext } = yield* makeOutboxSender({
    claimNext: statements.claimNext,
    deliver: Effect.fnUntraced(function* (message: ClaimedMessage) {
      const [time, result] = yield* Effect.timed(deliver(message))
      scheduler.recordAttempt(message.endpoint_id, time)
      return result._tag === "Delivered" ? result.status : yield* Effect.fail(result)
    }),
    markDelivered: statements.markDelivered,
    computeDelay: ({ attempts_since }, { retryAfterSeconds, why }) =>
      // A receiver that responds with 410 (Gone) wants no further messages.
      why === "gone" ? Effect.undefined : computeRetryDelay(attempts_since, retryAfterSeconds),
    postpone: statements.postpone,
    giveUp: Effect.fnUntraced(function* (message, failure) {
      if (failure.why === "gone") {
        yield* statements.disableGone(message, failure)
        return "got 410. The endpoint is disabled."
      }
      const [dead] = yield* statements.markDead(message, failure)
      yield* Metric.update(deadTotal, 1)
      return `is a dead letter after ${message.attempts} attempts.${
        dead?.is_disabled === true ? " The endpoint is disabled." : ""
      } To send it again, run: webhooks replay --message ${message.message_id}`
    }),
    nameOf: ({ endpoint_id, message_id, type }) => `Webhook ${message_id} (${type}) to endpoint ${endpoint_id}`,
    describeAttempt: ({ attempts }, { status, why }) => `failed at attempt ${attempts} (${status ?? why})`,
    logRetry: Effect.logInfo,
    deliveredCounter: deliveredTotal,
    failureCounter: ({ why }) => makeFailureCounter(why),
    counters: [deliveredTotal, deadTotal, ...deliveryFailureReasons.map(makeFailureCounter)],
    gauges: [
      {
        name: "tickerline_webhooks_waiting",
        description: "Webhook messages that wait to be sent, as last seen by the process that sends them.",
        read: () => state.waiting,
      },
      {
        name: "tickerline_webhooks_overdue_seconds",
        description:
          "How long the longest due webhook message has been due, as last seen by the process that sends them.",
        read: () => state.overdue_seconds,
      },
      {
        name: "tickerline_webhook_endpoints_disabled",
        description:
          "Webhook endpoints that the service has disabled, as last seen by the process that sends messages.",
        read: () => state.disabled,
      },
    ],
  }, lease)

  /** Sends an endpoint's messages until its slot ends, an attempt fails, or no message is due. */
  const sendDuringSlot = Effect.fnUntraced(function* (endpointId: bigint, sending: SendingState) {
    let spent = Duration.zero
    for (let sent = 0; sent < maxMessagesPerSlot && Duration.isLessThan(spent, maxSlotTime); sent += 1) {
      if (isStopping() || !lease.isHeld()) return
      const [time, result] = yield* Effect.timed(sendNext(endpointId, sending))
      if (result._tag !== "Delivered") return
      spent = Duration.sum(spent, time)
    }
  })

  /**
   * Assigns slots to due endpoints and begins to send their messages. Must not be interrupted, because every slot that
   * has been assigned must also end.
   */
  const beginSlots = Effect.fnUntraced(function* (due: ReadonlyArray<DueEndpoint>) {
    for (const { endpoint_id } of scheduler.begin(due)) {
      // `true`: a shutdown waits for the fiber, because the receiver may already be handling a message.
      yield* begin(true, (sending) =>
        sendDuringSlot(endpoint_id, sending).pipe(
          Effect.tapCause((cause) =>
            Effect.logWarning(`Webhook endpoint ${endpoint_id}: sending its messages failed.`, cause)
          ),
          Effect.ensuring(Effect.sync(() => scheduler.end(endpoint_id))),
        ))
    }
  })

  return Effect.gen(function* () {
    if (runs++ % runsPerReading === 0) state = (yield* statements.readState)[0] ?? state
    if (isStopping() || scheduler.isFull()) return
    const due = yield* statements.findDue
    yield* Effect.uninterruptible(beginSlots(due))
  })
})

/** The job runs only if `WEBHOOKS` is `on`. */
export const webhookSenderJob = {
  name: "webhooks",
  every: pollInterval,
  prepare: Effect.fnUntraced(function* (lease: JobLease) {
    const allowed = yield* AllowedHostsConfig
    if ((yield* WebhooksConfig) === "off") return Option.none()
    return Option.some(yield* makeWebhookSender(makeWebhookDelivery(allowed, makeDnsResolver()), lease))
  }),
} satisfies Job<Config.ConfigError, SqlClient.SqlClient | Scope.Scope>
