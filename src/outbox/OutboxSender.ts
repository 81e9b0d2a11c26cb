/**
 * Sends the messages in the outbox, whatever their channel: claims the next message, tries to deliver it, and stores
 * the result or the time of the next attempt. A `Channel` provides what differs between emails and webhooks.
 */
import { Duration, Effect, Fiber, Metric, Result, Schedule } from "effect"
import type { JobLease } from "../postgres/jobs/Job.ts"
import { describeFailure } from "../postgres/FailureText.ts"
import { addForkedFinalizer } from "../postgres/metrics/BackgroundFibers.ts"
import { initializeCounters, registerGauge } from "../postgres/metrics/CallbackMetrics.ts"

/** How long a stopping process waits for the results of its attempts. */
const shutdownTimeout = Duration.seconds(8)

/** A fiber that sends messages. */
export interface Sending {
  /**
   * Whether a stopping process waits for it. Otherwise it is interrupted, which is safe because no receiver can have
   * the message yet.
   */
  isAwaited: boolean
}

/** How the messages of one channel are claimed, delivered and recorded. */
export interface Channel<Receiver, Message, Delivered, Failure, E> {
  /** Claims the next message of a receiver if it is due, and only while this process has the lease. */
  readonly claimNext: (receiver: Receiver) => Effect.Effect<ReadonlyArray<Message>, E>
  /** Tries once to deliver the message. */
  readonly deliver: (message: Message, sending: Sending) => Effect.Effect<Delivered, Failure>
  readonly markDelivered: (message: Message, delivered: Delivered) => Effect.Effect<unknown, E>
  /** Returns the delay before the next attempt; undefined if there is none. */
  readonly computeDelay: (message: Message, failure: Failure) => Effect.Effect<Duration.Duration | undefined>
  readonly postpone: (message: Message, failure: Failure, delay: Duration.Duration) => Effect.Effect<unknown, E>
  /** Records that there is no further attempt. Returns what to log after the name of the message. */
  readonly giveUp: (message: Message, failure: Failure) => Effect.Effect<string, E>
  /** Returns the name of a message for logs. */
  readonly nameOf: (message: Message) => string
  /** Returns what to log, after its name, about a message that gets another attempt. */
  readonly describeAttempt: (message: Message, failure: Failure) => string
  readonly logRetry: (text: string) => Effect.Effect<void>
  readonly deliveredCounter: Metric.Metric<number, unknown>
  readonly failureCounter: (failure: Failure) => Metric.Metric<number, unknown>
  /** All counters, so that they exist at 0 before they first count. */
  readonly counters: ReadonlyArray<Metric.Metric<number, unknown>>
  /**
   * What the process that sends saw last. A process that no longer has the job reports 0, because its numbers are
   * outdated.
   */
  readonly gauges: ReadonlyArray<Parameters<typeof registerGauge>[0]>
}

/** Creates the sender for a channel. When its scope ends, it waits for the results of its attempts. */
export const makeOutboxSender = Effect.fnUntraced(function* <Receiver, Message, Delivered, Failure, E>(
  channel: Channel<Receiver, Message, Delivered, Failure, E>,
  { isHeld }: Pick<JobLease, "isHeld">,
) {
  yield* initializeCounters(...channel.counters)
  for (const gauge of channel.gauges) yield* registerGauge({ ...gauge, read: () => isHeld() ? gauge.read() : 0 })
  const running = new Map<Fiber.Fiber<unknown, unknown>, Sending>()
  let isStopping = false

  /** Stores a result. Retries until that succeeds, because only this process knows the result. */
  const record = <A, R>(message: Message, statement: Effect.Effect<A, E, R>) =>
    statement.pipe(
      Effect.tapError((error) =>
        Effect.logWarning(
          `${channel.nameOf(message)}: the result was not stored, and is retried: ${describeFailure(error)}`,
        )
      ),
      Effect.retry({ schedule: Schedule.spaced("1 second") }),
    )

  /** Postpones a message whose attempt failed, or gives it up. */
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
    /** Sends the next message of a receiver, if one is due. */
    sendNext: Effect.fnUntraced(function* (receiver: Receiver, sending: Sending) {
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
     * Runs an effect that sends messages in a separate fiber. It is interrupted neither when the job's run ends nor
     * when its lease does.
     */
    begin: <A, E2, R>(isAwaited: boolean, send: (sending: Sending) => Effect.Effect<A, E2, R>) =>
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
