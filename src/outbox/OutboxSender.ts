/**
 * Sends the messages that are queued in a table of the database (an outbox), either emails or webhooks: claims the next
 * message, tries to deliver it, and stores either the result or the time of the next attempt. An `OutboxChannel`
 * defines how emails and webhooks differ.
 */
import { Duration, Effect, Fiber, Metric, Result, Schedule } from "effect"
import type { JobLease } from "../postgres/jobs/Job.ts"
import { describeFailure } from "../postgres/FailureText.ts"
import { addForkedFinalizer } from "../postgres/metrics/BackgroundFibers.ts"
import { initializeCounters, registerGauge } from "../postgres/metrics/CallbackMetrics.ts"

/** How long a process that is shutting down waits for the results of delivery attempts in progress. */
const shutdownTimeout = Duration.seconds(8)

/** The state of a fiber that sends messages. */
export interface SendingState {
  /**
   * Whether a process that is shutting down waits for this fiber. If not, the fiber is interrupted. That is safe,
   * because the recipient cannot have received the message yet.
   */
  isAwaited: boolean
}

/**
 * The functions with which emails, or webhooks, are claimed, delivered and recorded. A receiver has its own queue of
 * messages.
 */
export interface OutboxChannel<Receiver, Message, Delivered, Failure, E> {
  /**
   * Claims a receiver's next message if the message is due and this process holds the lease of the sending job. Returns
   * no message otherwise.
   */
  readonly claimNext: (receiver: Receiver) => Effect.Effect<ReadonlyArray<Message>, E>
  /** Makes one attempt to deliver the message. */
  readonly deliver: (message: Message, sending: SendingState) => Effect.Effect<Delivered, Failure>
  readonly markDelivered: (message: Message, delivered: Delivered) => Effect.Effect<unknown, E>
  /** Returns the delay before the next attempt, or undefined if there will be none. */
  readonly computeDelay: (message: Message, failure: Failure) => Effect.Effect<Duration.Duration | undefined>
  readonly postpone: (message: Message, failure: Failure, delay: Duration.Duration) => Effect.Effect<unknown, E>
  /**
   * Records that there will be no further attempts to deliver the message. Returns the text to log after the message's
   * name.
   */
  readonly giveUp: (message: Message, failure: Failure) => Effect.Effect<string, E>
  /** Returns a name that identifies a message in logs. */
  readonly nameOf: (message: Message) => string
  /** For a message that will be retried, returns the text to log after the message's name. */
  readonly describeAttempt: (message: Message, failure: Failure) => string
  readonly logRetry: (text: string) => Effect.Effect<void>
  readonly deliveredCounter: Metric.Metric<number, unknown>
  readonly failureCounter: (failure: Failure) => Metric.Metric<number, unknown>
  /**
   * All counters used by the channel. They are initialized to 0, so that the metrics contain them before they first
   * count.
   */
  readonly counters: ReadonlyArray<Metric.Metric<number, unknown>>
  /**
   * Gauges with the last state seen by the sending process. A process that no longer holds the job's lease reports 0,
   * because its values are outdated.
   */
  readonly gauges: ReadonlyArray<Parameters<typeof registerGauge>[0]>
}

/**
 * Creates the sender for emails or webhooks. When the scope ends, the sender waits for the results of its attempts for
 * up to `shutdownTimeout`, and then interrupts them.
 */
export const makeOutboxSender = Effect.fnUntraced(function* <Receiver, Message, Delivered, Failure, E>(
  channel: OutboxChannel<Receiver, Message, Delivered, Failure, E>,
  { isHeld }: Pick<JobLease, "isHeld">,
) {
  yield* initializeCounters(...channel.counters)
  for (const gauge of channel.gauges) yield* registerGauge({ ...gauge, read: () => isHeld() ? gauge.read() : 0 })
  const running = new Map<Fiber.Fiber<unknown, unknown>, SendingState>()
  let isStopping = false

  /** Stores the result of an attempt, and retries until it is stored, because no other process knows the result. */
  const record = <A, R>(message: Message, statement: Effect.Effect<A, E, R>) =>
    statement.pipe(
      Effect.tapError((error) =>
        Effect.logWarning(
          `${channel.nameOf(message)}: the result was not stored, and is retried: ${describeFailure(error)}`,
        )
      ),
      Effect.retry({ schedule: Schedule.spaced("1 second") }),
    )

  /** After a failed attempt, either postpones the message or gives up on it. */
  const handleFailure = Effect.fnUntraced(function* (message: Message, failure: Failure) {
    yield* Metric.update(channel.failureCounter(failure), 1)
    const delay = yield* channel.computeDelay(message, failure)
    const name = channel.nameOf(message)
    if (delay === undefined) {
      yield* Effect.logWarning(`${name} ${yield* record(message, channel.giveUp(message, failure))}`)
    } else {
      yield* record(message, channel.postpone(message, failure, delay))
      const rounded = Duration.seconds(Math.ceil(Duration.toSeconds(delay)))
      const next = `Next attempt in ${Duration.format(rounded)}.`
      yield* channel.logRetry(`${name} ${channel.describeAttempt(message, failure)}. ${next}`)
    }
    return { _tag: "Failed" as const, failure, delay }
  })

  yield* addForkedFinalizer(Effect.gen(function* () {
    isStopping = true
    const awaited = [...running].filter(([, { isAwaited }]) => isAwaited).map(([fiber]) => fiber)
    yield* Effect.timeoutOption(Fiber.awaitAll(awaited), shutdownTimeout)
    yield* Fiber.interruptAll(running.keys())
  }))

  return {
    /**
     * Sends the receiver's next message if one is due. Returns `NoneDue`, `Delivered`, or `Failed` with the failure and
     * the delay before the next attempt.
     */
    sendNext: Effect.fnUntraced(function* (receiver: Receiver, sending: SendingState) {
      const [message] = yield* channel.claimNext(receiver)
      if (message === undefined) return { _tag: "NoneDue" as const }
      const result = yield* Effect.result(channel.deliver(message, sending))
      if (Result.isFailure(result)) return yield* handleFailure(message, result.failure)
      yield* record(message, channel.markDelivered(message, result.success))
      yield* Metric.update(channel.deliveredCounter, 1)
      yield* Effect.logDebug(`${channel.nameOf(message)} was sent.`)
      return { _tag: "Delivered" as const }
    }),
    /**
     * Runs an effect that sends messages in a separate fiber, and returns the fiber. Neither the end of the job's run
     * nor the end of its lease interrupts the fiber.
     */
    begin: <A, E2, R>(isAwaited: boolean, send: (sending: SendingState) => Effect.Effect<A, E2, R>) =>
      Effect.uninterruptible(Effect.gen(function* () {
        const sending = { isAwaited }
        const fiber = yield* Effect.forkDetach(send(sending))
        running.set(fiber, sending)
        fiber.addObserver(() => running.delete(fiber))
        return fiber
      })),
    isStopping: () => isStopping,
  }
})
