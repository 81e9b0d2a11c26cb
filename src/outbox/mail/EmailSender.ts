/**
 * The job that sends the emails in the outbox: §9.6 (notification). No address gets an entry twice: an email without
 * a reply from the server stays `unknown` until an operator decides (docs/decisions/0052-email-delivery.md).
 */
import { type Config, Duration, Effect, Fiber, Metric, Option, Schedule, Schema, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { changelogEntries } from "../../api/changelog/Changelog.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import type { Job, JobLease } from "../../postgres/jobs/Job.ts"
import { delayAfter, doublingSchedule } from "../../postgres/jobs/RetryDelay.ts"
import { addForkedFinalizer } from "../../postgres/metrics/BackgroundFibers.ts"
import { initializeCounters, makeCounter, registerGauge } from "../../postgres/metrics/CallbackMetrics.ts"
import { EmailContent, renderChangelogEmail } from "./EmailTemplate.ts"
import { loadMailSettings, type MailSettings } from "./MailSettings.ts"
import { composeMimeMessage, type EmailDeliveryError, makeSmtpDelivery } from "./SmtpDelivery.ts"

// ---------------------------------------------------------------------------------------------------------------------
// Outbox
// ---------------------------------------------------------------------------------------------------------------------

const ClaimedEmail = Schema.Struct({
  mail_id: Schema.String,
  entry_id: Schema.String,
  recipient: Schema.String,
  attempts: Schema.Int,
  /** The text of a notice. Null: the email is about a changelog entry, and rendered now. */
  stored: Schema.NullOr(EmailContent),
})
type ClaimedEmail = typeof ClaimedEmail.Type

const entriesById = new Map(changelogEntries.map((entry) => [entry.id, entry]))

const OutboxState = Schema.Struct({ waiting: Schema.Int, due: Schema.Boolean })

type OutboxLease = Pick<JobLease, "holder" | "holderCondition">

/**
 * Makes the SQL statements of one sender. An email is claimed and handed over only while `holder` has the job's lease,
 * so that a suspended process cannot send an email that another process has taken over.
 */
export const makeEmailOutboxStatements = Effect.fnUntraced(function* ({ holder, holderCondition }: OutboxLease) {
  const sql = yield* SqlClient.SqlClient
  const isOwn = sql`claimed_by = ${holder}::text::uuid`

  /** Reads how many emails wait, and whether any must be sent or recovered. Cheap: reads only two small indexes. */
  const readState = decodeRows(OutboxState)(sql`
    select (select count(*) from announcement_mails where status = 'queued')::int as waiting,
      exists (select from announcement_mails where status = 'queued' and next_attempt_at <= now())
      or exists (select from announcement_mails where status in ('sending', 'handed')) as due
  `)

  /**
   * Takes over the emails of a sender that died. Emails with the status `sending` are queued again. `handed` emails,
   * which the server may have accepted, become `unknown`. Returns the number of emails that became `unknown`.
   */
  const recoverAbandoned = Effect.map(
    sql<{ readonly status: string }>`
      update announcement_mails
      set status = case status when 'sending' then 'queued' else 'unknown' end, claimed_by = null,
        last_error = case status when 'sending' then last_error
          else 'The sender stopped before the server replied, so the email may have been delivered.' end
      where status in ('sending', 'handed') and not coalesce(${isOwn}, false) and ${holderCondition} returning status
    `,
    (rows) => rows.filter(({ status }) => status === "unknown").length,
  )

  /** Claims no email about an entry of a later release, which this process cannot render. */
  const claimNext = decodeRows(ClaimedEmail)(sql`
    update announcement_mails as mail
    set status = 'sending', claimed_by = ${holder}::text::uuid, attempts = attempts + 1
    from announcements
    where announcements.entry_id = mail.entry_id and ${holderCondition} and mail_id = (
      select mail_id from announcement_mails as queued
      where status = 'queued' and next_attempt_at <= now() and (
        queued.entry_id = any (${[...entriesById.keys()]}::text[])
        or exists (select from announcements where entry_id = queued.entry_id and text is not null)
      )
      order by next_attempt_at, mail_id limit 1 for update skip locked
    )
    returning mail_id::text, mail.entry_id, recipient, attempts, case when text is not null then
      jsonb_build_object('subject', subject, 'text', text, 'html', html, 'operational', operational) end as stored
  `)

  /** Called before the end of the message is sent. Returns false if another process has taken over the email. */
  const markHanded = (mail_id: string) =>
    Effect.map(
      sql`
        update announcement_mails set status = 'handed'
        where mail_id = ${mail_id}::text::uuid and status = 'sending' and ${isOwn} and ${holderCondition}
        returning mail_id
      `,
      (rows) => rows.length === 1,
    )

  /** Records that the server accepted the email. Requires no lease, because the reply is final. */
  const markSent = (mail_id: string) =>
    sql`
      update announcement_mails set status = 'sent', sent_at = now(), last_error = null
      where mail_id = ${mail_id}::text::uuid and status in ('handed', 'unknown')
    `

  const giveUp = (mail_id: string, status: "failed" | "unknown", reason: string) =>
    sql`
      update announcement_mails set status = ${status}, last_error = ${reason}
      where mail_id = ${mail_id}::text::uuid and status in ('sending', 'handed') and ${isOwn}
    `

  /** Queues the email again. Without `isAttempt`, the attempt does not count, because no server was usable. */
  const postpone = (mail_id: string, seconds: number, reason: string, isAttempt: boolean) =>
    sql`
      update announcement_mails set status = 'queued', claimed_by = null, last_error = ${reason},
        next_attempt_at = now() + make_interval(secs => ${seconds}::float8), attempts = attempts - ${
      isAttempt ? 0 : 1
    }::int
      where mail_id = ${mail_id}::text::uuid and status in ('sending', 'handed') and ${isOwn}
    `

  return {
    readState,
    recoverAbandoned,
    claimNext,
    markHanded,
    markSent,
    giveUp,
    postpone,
  }
})

// ---------------------------------------------------------------------------------------------------------------------
// Sender
// ---------------------------------------------------------------------------------------------------------------------

const pollInterval = Duration.seconds(2)

/** How long a stopping process waits for the server's reply. */
const shutdownTimeout = Duration.seconds(8)

const emailsSentTotal = makeCounter("tickerline_mails_sent_total", "Customer emails that the mail server accepted.")
const makeFailedAttemptCounter = (why: EmailDeliveryError["outcome"]) =>
  makeCounter("tickerline_mails_not_sent_total", "Failed attempts to send a customer email, by outcome.", { why })

/**
 * Returns a function that sends one claimed email and records the result.
 * That function returns how long to wait before contacting the server again, which is usually zero.
 */
const makeEmailSender = Effect.fnUntraced(function* (settings: MailSettings, lease: OutboxLease) {
  const { baseUrl, from, retryAfter, unsubscribe, url } = settings
  const { giveUp, markHanded, markSent, postpone } = yield* makeEmailOutboxStatements(lease)
  const deliver = makeSmtpDelivery(url)
  const runPromise = Effect.runPromiseWith(yield* Effect.context<never>())
  let failedConnections = 0
  const awaySchedule = doublingSchedule(retryAfter, "15 minutes")
  /** Twenty attempts, which take about two days. */
  const laterSchedule = Schedule.upTo(doublingSchedule(retryAfter, "4 hours"), { times: 19 })

  /** Retries forever, because a delivered email whose result is lost becomes `unknown` and may be sent again. */
  const record = <A, E, R>(statement: Effect.Effect<A, E, R>) =>
    Effect.retry(statement, { schedule: Schedule.spaced("1 second") })

  const handleFailure = Effect.fnUntraced(function* (email: ClaimedEmail, error: EmailDeliveryError) {
    const { attempts, entry_id, mail_id } = email
    const { code, message, outcome } = error
    const name = `Email ${mail_id} (${entry_id})`
    yield* Metric.update(makeFailedAttemptCounter(outcome), 1)
    if (outcome === "unknown") {
      yield* Effect.logWarning(`${name} was sent, but the server did not reply (${code}). It is not sent again.`)
      yield* record(giveUp(mail_id, "unknown", message))
      return Duration.zero
    }
    const isServerAway = outcome === "away"
    failedConnections = isServerAway ? failedConnections + 1 : 0
    const delay = outcome === "refused"
      ? undefined
      : yield* isServerAway ? delayAfter(awaySchedule, failedConnections) : delayAfter(laterSchedule, attempts)
    if (delay === undefined) {
      yield* Effect.logWarning(`${name} failed permanently at attempt ${attempts}: ${code}`)
      yield* record(giveUp(mail_id, "failed", message))
      return Duration.zero
    }
    yield* Effect.logWarning(`${name} was not sent: ${code}. Next attempt in ${Duration.format(delay)}.`)
    yield* record(postpone(mail_id, Duration.toSeconds(delay), message, !isServerAway))
    return isServerAway ? delay : Duration.zero
  })

  return Effect.fnUntraced(function* (email: ClaimedEmail, onHandover: () => void) {
    const { entry_id, mail_id, recipient, stored } = email
    const entry = entriesById.get(entry_id)
    const content = entry === undefined
      ? stored ?? (yield* Effect.die(new Error(`The email ${mail_id} has no text.`)))
      : renderChangelogEmail(entry, { baseUrl, unsubscribeAddress: unsubscribe })
    const message = yield* composeMimeMessage({ ...content, mail_id, recipient }, { from, unsubscribe })
    const confirmHandover = () => {
      onHandover()
      return runPromise(markHanded(mail_id))
    }
    const error = yield* Effect.option(
      Effect.flip(deliver({ from: from.address, to: recipient, message, confirmHandover })),
    )
    if (Option.isSome(error)) return yield* handleFailure(email, error.value)
    failedConnections = 0
    yield* record(markSent(mail_id))
    yield* Metric.update(emailsSentTotal, 1)
    yield* Effect.logDebug(`Email ${mail_id} (${entry_id}) was sent.`)
    return Duration.zero
  })
})

const makeSenderRun = Effect.fnUntraced(function* (settings: MailSettings, lease: JobLease) {
  const { claimNext, readState, recoverAbandoned } = yield* makeEmailOutboxStatements(lease)
  const send = yield* makeEmailSender(settings, lease)
  yield* initializeCounters(
    emailsSentTotal,
    ...(["away", "later", "refused", "unknown"] as const).map(makeFailedAttemptCounter),
  )
  let waiting = 0
  yield* registerGauge({
    name: "tickerline_mails_waiting",
    description: "Customer emails that wait to be sent, as last seen by the process that sends them.",
    // A former holder of the job reports 0, because its number is outdated.
    read: () => lease.isHeld() ? waiting : 0,
  })

  /** The email in progress. Its fiber is detached, so that the end of the job does not interrupt it. */
  let current:
    | { readonly fiber: Fiber.Fiber<unknown, unknown>; readonly progress: { isHandedOver: boolean } }
    | undefined

  /** Sends one email. Returns the delay before the next one; undefined if none is due or the lease is lost. */
  const sendNext = Effect.gen(function* () {
    const [email] = yield* claimNext
    if (email === undefined) return undefined
    const progress = { isHandedOver: false }
    const fiber = yield* Effect.forkDetach(send(email, () => {
      progress.isHandedOver = true
    }))
    current = { fiber, progress }
    const delay = yield* Fiber.join(fiber)
    current = undefined
    return delay
  })

  const sendAll = Effect.gen(function* () {
    const unknown = yield* recoverAbandoned
    if (unknown > 0) {
      yield* Effect.logWarning(
        `A sender stopped; delivery is unknown for this number of emails: ${unknown}. ` +
          "To list them, run: announcements problems",
      )
    }
    let delay: Duration.Duration | undefined = Duration.zero
    while (delay !== undefined) {
      delay = yield* sendNext
      if (delay !== undefined && !Duration.isZero(delay)) return delay
      yield* Effect.sleep(settings.pace)
    }
    return Duration.zero
  })

  const run = Effect.gen(function* () {
    const [state] = yield* readState
    waiting = state?.waiting ?? 0
    return state?.due === true ? yield* sendAll : Duration.zero
  })

  const shutDown = Effect.gen(function* () {
    if (current === undefined) return
    // Waits for the server's reply if the email was handed over. Otherwise the server cannot have accepted the email,
    // so another process can send it.
    if (current.progress.isHandedOver) yield* Effect.timeoutOption(Fiber.await(current.fiber), shutdownTimeout)
    yield* Fiber.interrupt(current.fiber)
  })
  yield* addForkedFinalizer(shutDown)
  return run
})

/** Runs only if `SMTP_URL` is set. While the mail server is unreachable, other processes may take the job. */
export const emailSenderJob = {
  name: "mail",
  every: pollInterval,
  prepare: (lease) =>
    Effect.flatMap(
      loadMailSettings,
      Option.match({
        onNone: () => Effect.succeedNone,
        onSome: (settings) =>
          Effect.andThen(
            Option.isNone(settings.baseUrl)
              ? Effect.logWarning("SMTP_URL is set, but BASE_URL is not, so emails about the changelog have no links.")
              : Effect.void,
            Effect.asSome(makeSenderRun(settings, lease)),
          ),
      }),
    ),
} satisfies Job<Config.ConfigError, SqlClient.SqlClient | Scope.Scope>
