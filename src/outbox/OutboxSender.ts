/**
 * Sends the messages of the outbox, whatever their channel: claims the next one, tries to deliver it, and stores the
 * result or when the next attempt is due. A `Channel` has what differs between emails and webhooks.
 */
import { Duration, Effect, Fiber, Metric, Result, Schedule } from "effect"
import type { JobLease } from "../postgres/jobs/Job.ts"
import { describeFailure } from "../postgres/FailureText.ts"
import { addForkedFinalizer } from "../postgres/metrics/BackgroundFibers.ts"
import { initializeCounters, registerGauge } from "../postgres/metrics/CallbackMetrics.ts"

/** How long a stopping process waits for the results of attempts. */
const shutdownTimeout = Duration.seconds(8)

/** Work in progress that makes attempts. */
export interface Sending {
  /** Whether a stopping process waits for it. If not, it is interrupted, because no receiver can have the message. */
  isAwaited: boolean
}

/** How the messages of one kind are claimed, delivered and recorded. */
export interface Channel<Receiver, Message, Delivered, Failure, E> {
  /** Claims the next message of a receiver if it is due, and only while this process has the lease. */
  readonly claimNext: (receiver: Receiver) => Effect.Effect<ReadonlyArray<Message>, E>
  /** Makes one attempt. */
  readonly deliver: (message: Message, sending: Sending) => Effect.Effect<Delivered, Failure>
  readonly markDelivered: (message: Message, delivered: Delivered) => Effect.Effect<unknown, E>
  /** Returns the delay before the next attempt. Undefined: there is none. */
  readonly computeDelay: (message: Message, failure: Failure) => Effect.Effect<Duration.Duration | undefined>
  readonly postpone: (message: Message, failure: Failure, delay: Duration.Duration) => Effect.Effect<unknown, E>
  /** Records that there is no next attempt. Returns what to log after the name of the message. */
  readonly giveUp: (message: Message, failure: Failure) => Effect.Effect<string, E>
  /** Names a message in logs. */
  readonly nameOf: (message: Message) => string
  /** What to log after the name of a message that gets another attempt. */
  readonly describeAttempt: (message: Message, failure: Failure) => string
  readonly logRetry: (text: string) => Effect.Effect<void>
  readonly deliveredCounter: Metric.Metric<number, unknown>
  readonly failureCounter: (failure: Failure) => Metric.Metric<number, unknown>
  /** All counters, which begin at 0. */
  readonly counters: ReadonlyArray<Metric.Metric<number, unknown>>
  /** What the process that sends last saw. A former holder of the job reports 0, because its numbers are outdated. */
  readonly gauges: ReadonlyArray<Parameters<typeof registerGauge>[0]>
}

/** Makes the sender of a channel. When its scope ends, it waits for the results of its attempts. */
export const makeOutboxSender = Effect.fnUntraced(function* <Receiver, Message, Delivered, Failure, E>(
  channel: Channel<Receiver, Message, Delivered, Failure, E>,
  { isHeld }: Pick<JobLease, "isHeld">,
) {
  yield* initializeCounters(...channel.counters)
  for (const gauge of channel.gauges) yield* registerGauge({ ...gauge, read: () => isHeld() ? gauge.read() : 0 })
  const running = new Map<Fiber.Fiber<unknown, unknown>, Sending>()
  let isStopping = false

  /** Retries until it succeeds, because only this process knows the result. */
  const record = <A, R>(message: Message, statement: Effect.Effect<A, E, R>) =>
    statement.pipe(
      Effect.tapError((error) =>
        Effect.logWarning(
          `${channel.nameOf(message)}: the result was not stored, and is retried: ${describeFailure(error)}`,
        )
      ),
      Effect.retry({ schedule: Schedule.spaced("1 second") }),
    )

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
    /** Sends one message of a receiver. */
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
    /** Runs an effect that sends messages in a fiber that neither the end of a run nor that of the lease interrupts. */
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
