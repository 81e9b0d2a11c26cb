/**
 * §3, §6, §9.6: the worker that empties the outbox. It never sends an entry to an address twice: before the server is
 * given the end of a mail that is written down, and where no answer to it was, the mail stays as it is (`unknown`)
 * until somebody looks. What fails earlier, or is refused for now, is sent again.
 */
import { type Config, Duration, Effect, Fiber, Metric, Option, Schedule, type Scope } from "effect"
import type { SqlClient } from "effect/sql"
import type { Job, JobLease } from "../jobs/Job.ts"
import { addForkedFinalizer } from "../observability/BackgroundFibers.ts"
import { initializeCounters, registerGauge } from "../observability/CallbackMetrics.ts"
import { composeMimeMessage } from "./MimeMessage.ts"
import { type ClaimedEmail, makeOutbox, senderLeaseSeconds } from "./Outbox.ts"
import { loadMailSettings } from "./MailSettings.ts"
import { type DeliveryError, makeSmtpDelivery } from "./SmtpDelivery.ts"

/** How often the outbox is looked into. */
const pause = Duration.seconds(2)

/** With doubled waits of at most four hours that is more than two days. */
const mostAttempts = 20
const longestWait = Duration.hours(4)
const longestAway = Duration.minutes(15)

/** For how long a process that is told to stop waits for the server's answer. */
const lastPatience = Duration.seconds(8)

const mailsSent = Metric.counter("tickerline_mails_sent_total", {
  description: "Customer emails that the mail server accepted.",
  incremental: true,
})
const failed = (why: DeliveryError["why"]) =>
  Metric.counter("tickerline_mails_not_sent_total", {
    description: "Attempts to send a customer email that failed, by what became of it.",
    attributes: { why },
    incremental: true,
  })

const doubled = (first: Duration.Duration, times: number, most: Duration.Duration) =>
  Duration.min(Duration.times(first, 2 ** Math.min(times - 1, 40)), most)

/** The counters of what became of attempts that failed. */
const failures = [failed("away"), failed("later"), failed("refused"), failed("unknown")]

type Settings = Option.Option.Value<Effect.Success<typeof loadMailSettings>>

/** One mail, from its claim to what became of it; the answer is for how long no server need be asked. */
const sending = Effect.fnUntraced(function* ({ from, retryAfter, unsubscribe, url }: Settings, holder: string) {
  const { hand, postpone, sent, settle } = yield* makeOutbox(holder)
  const deliver = makeSmtpDelivery(url)
  const run = Effect.runPromiseWith(yield* Effect.context<never>())
  let away = 0

  /** What the server said is worth more than a single try to write it down. */
  const written = <A, E, R>(write: Effect.Effect<A, E, R>) =>
    Effect.retry(write, { schedule: Schedule.spaced("1 second") })

  const notSent = Effect.fnUntraced(function* ({ attempts, entry_id, mail_id }: ClaimedEmail, error: DeliveryError) {
    const { code, message, why } = error
    yield* Metric.update(failed(why), 1)
    const about = `Mail ${mail_id} (${entry_id})`
    if (why === "unknown") {
      yield* Effect.logWarning(`${about} was handed over, but not answered (${code}). It is not sent again by itself.`)
      yield* written(settle(mail_id, "unknown", message))
      return Duration.zero
    }
    if (why === "refused" || (why === "later" && attempts >= mostAttempts)) {
      yield* Effect.logWarning(`${about} was refused, and is given up after ${attempts} attempts: ${code}`)
      yield* written(settle(mail_id, "failed", message))
      return Duration.zero
    }
    away = why === "away" ? away + 1 : 0
    const wait = why === "away" ? doubled(retryAfter, away, longestAway) : doubled(retryAfter, attempts, longestWait)
    yield* Effect.logWarning(`${about} was not sent and will be, in ${Duration.format(wait)}: ${code}`)
    yield* written(postpone(mail_id, Duration.toSeconds(wait), message, why !== "away"))
    return why === "away" ? wait : Duration.zero
  })

  return Effect.fnUntraced(function* (mail: ClaimedEmail, handing: () => void) {
    const { entry_id, mail_id, recipient } = mail
    const message = yield* composeMimeMessage(mail, { from, unsubscribe })
    const mayEnd = () => {
      handing()
      return run(hand(mail_id))
    }
    const error = yield* Effect.option(
      Effect.flip(deliver({ from: from.address, to: recipient, message, hand: mayEnd })),
    )
    if (Option.isSome(error)) return yield* notSent(mail, error.value)
    away = 0
    yield* written(sent(mail_id))
    yield* Metric.update(mailsSent, 1)
    yield* Effect.logDebug(`Mail ${mail_id} (${entry_id}) was sent.`)
    return Duration.zero
  })
})

const work = Effect.fnUntraced(function* (settings: Settings, { holder, isHeld }: JobLease) {
  const { claim, lease, look, recover, release } = yield* makeOutbox(holder)
  const send = yield* sending(settings, holder)
  yield* initializeCounters(mailsSent, ...failures)
  let waiting = 0
  yield* registerGauge({
    name: "tickerline_mails_waiting",
    description: "Customer emails that wait to be sent, as last seen by the process that sends them.",
    // Who had the job before does not know.
    read: () => isHeld() ? waiting : 0,
  })

  /** The mail that is under way, in a fiber of its own, which the end of the worker does not cut off. */
  let current: { readonly fiber: Fiber.Fiber<unknown, unknown>; handed: boolean } | undefined

  const one = Effect.gen(function* () {
    if (!(yield* lease)) return undefined
    const mail = Option.getOrUndefined(yield* claim)
    if (mail === undefined) return undefined
    let handed = false
    const fiber = yield* Effect.forkDetach(send(mail, () => {
      handed = true
    }))
    current = {
      fiber,
      get handed() {
        return handed
      },
    }
    const away = yield* Fiber.join(fiber)
    current = undefined
    return away
  })

  const drain = Effect.gen(function* () {
    const lost = yield* recover
    if (lost > 0) {
      yield* Effect.logWarning(`${lost} mails were under way when their sender ended: see \`announcements\`.`)
    }
    let away: Duration.Duration | undefined = Duration.zero
    while (away !== undefined) {
      away = yield* one
      if (away !== undefined && !Duration.isZero(away)) return away
      yield* Effect.sleep(settings.pace)
    }
    return Duration.zero
  })

  const keepLease = lease.pipe(Effect.ignore, Effect.repeat(Schedule.spaced(Duration.seconds(senderLeaseSeconds / 4))))

  const turn = Effect.gen(function* () {
    const found = yield* look
    waiting = found.waiting
    if (!found.due || !(yield* lease)) return Duration.zero
    const away = yield* Effect.raceFirst(drain, Effect.andThen(keepLease, Effect.never))
    yield* release
    return away
  })

  const finish = Effect.gen(function* () {
    if (current !== undefined) {
      // What the server has not got whole it cannot accept: it is safe to leave, and to be sent by the next.
      if (current.handed) yield* Effect.timeoutOption(Fiber.await(current.fiber), lastPatience)
      yield* Fiber.interrupt(current.fiber)
    }
    yield* Effect.timeoutOption(Effect.ignore(release), "2 seconds")
  })
  yield* addForkedFinalizer(finish)
  return turn
})

/** Left to others where no mail server is named, and while it cannot be reached from here. */
export const sendEmailsJob = {
  name: "mail",
  every: pause,
  prepare: (lease) =>
    Effect.flatMap(
      loadMailSettings,
      (found) => Effect.transposeOption(Option.map(found, (found) => work(found, lease))),
    ),
} satisfies Job<Config.ConfigError, SqlClient.SqlClient | Scope.Scope>
