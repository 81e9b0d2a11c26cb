/**
 * The background job that sends the queued emails (§9.6, notification). No address gets the same changelog entry or
 * notice twice: if the server does not confirm that it has accepted an email, the email's status is `unknown` until an
 * operator decides what to do (docs/decisions/0052-email-delivery.md).
 */
import { type Config, Duration, Effect, Fiber, Option, Schedule, Schema, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { changelogEntries } from "../../api/changelog/Changelog.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import type { Job, JobLease } from "../../postgres/jobs/Job.ts"
import { doublingSchedule, getRetryDelay } from "../../postgres/jobs/RetryDelay.ts"
import { makeCounter } from "../../postgres/metrics/CallbackMetrics.ts"
import { makeOutboxSender } from "../OutboxSender.ts"
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
  /**
   * The content of a notice. Null if the email is about a changelog entry, which is rendered when the email is sent.
   */
  stored: Schema.NullOr(EmailContent),
})
type ClaimedEmail = typeof ClaimedEmail.Type

const entriesById = new Map(changelogEntries.map((entry) => [entry.id, entry]))

const OutboxState = Schema.Struct({ waiting: Schema.Int, due: Schema.Boolean })

type OutboxLease = Pick<JobLease, "holder" | "holderCondition">

/**
 * Builds a sender's SQL statements. An email can be claimed and handed over to the mail server only while `holder`,
 * which identifies this process, holds the lease of the sending job. A process that was suspended therefore cannot send
 * an email that another process has taken over.
 *
 * An email in `announcement_mails` is `queued`, then `sending` while a process prepares it, then `handed` just before
 * the end of the message is sent to the server, and finally `sent`, `failed` or `unknown`.
 */
export const makeEmailOutboxStatements = Effect.fnUntraced(function* ({ holder, holderCondition }: OutboxLease) {
  const sql = yield* SqlClient.SqlClient
  /** The condition that this process has claimed the email. */
  const isOwn = sql`claimed_by = ${holder}::text::uuid`

  /**
   * Returns `waiting`, how many emails are queued, and `due`, whether any have to be sent or recovered. The query is
   * inexpensive, because it reads only two small indexes.
   */
  const readState = decodeRows(OutboxState)(sql`
    select (select count(*) from announcement_mails where status = 'queued')::int as waiting,
      exists (select from announcement_mails where status = 'queued' and next_attempt_at <= now())
      or exists (select from announcement_mails where status in ('sending', 'handed')) as due
  `)

  /**
   * Takes over the emails of a sender that has died. Emails with the status `sending` are requeued. Emails with the
   * status `handed` may have been accepted by the server, so their status becomes `unknown`. Returns the number of
   * emails whose status is now `unknown`.
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

  /**
   * Claims the next email that is due. An email about an entry of a later release is left to other processes, because
   * this process does not know the entry and cannot render it.
   */
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

  /**
   * Must be called before the end of the message is sent to the server, because the server may deliver the email from
   * then on. Returns false if another process has taken over the email.
   */
  const markHanded = (mail_id: string) =>
    Effect.map(
      sql`
        update announcement_mails set status = 'handed'
        where mail_id = ${mail_id}::text::uuid and status = 'sending' and ${isOwn} and ${holderCondition}
        returning mail_id
      `,
      (rows) => rows.length === 1,
    )

  /**
   * Records that the server has accepted the email. This does not require the job's lease, because the server's reply
   * is final.
   */
  const markSent = (mail_id: string) =>
    sql`
      update announcement_mails set status = 'sent', sent_at = now(), last_error = null
      where mail_id = ${mail_id}::text::uuid and status in ('handed', 'unknown')
    `

  /** Records that the email is not sent again: it has failed, or it is unknown whether the server accepted it. */
  const giveUp = (mail_id: string, status: "failed" | "unknown", reason: string) =>
    sql`
      update announcement_mails set status = ${status}, last_error = ${reason}
      where mail_id = ${mail_id}::text::uuid and status in ('sending', 'handed') and ${isOwn}
    `

  /** Requeues the email. If `isAttempt` is false, the attempt is not counted, because no server was usable. */
  const postpone = (mail_id: string, seconds: number, reason: string, isAttempt: boolean) =>
    sql`
      update announcement_mails set status = 'queued', claimed_by = null, last_error = ${reason},
        next_attempt_at = now() + make_interval(secs => ${seconds}::float8), attempts = attempts - ${
      isAttempt ? 0 : 1
    }::int
      where mail_id = ${mail_id}::text::uuid and status in ('sending', 'handed') and ${isOwn}
    `

  return { readState, recoverAbandoned, claimNext, markHanded, markSent, giveUp, postpone }
})

// ---------------------------------------------------------------------------------------------------------------------
// Sender
// ---------------------------------------------------------------------------------------------------------------------

const pollInterval = Duration.seconds(2)

const emailsSentTotal = makeCounter("tickerline_mails_sent_total", "Customer emails that the mail server accepted.")
const makeFailedAttemptCounter = (why: EmailDeliveryError["outcome"]) =>
  makeCounter("tickerline_mails_not_sent_total", "Failed attempts to send a customer email, by outcome.", { why })

/**
 * Builds the effect that each run of the job executes. It sends the emails that are due, and returns the delay before
 * the next run if the mail server is unusable. The functions that `makeOutboxSender` gets say how an email is claimed,
 * delivered, and recorded; `outcome` is the kind of failure (`EmailDeliveryError`).
 */
const makeSenderRun = Effect.fnUntraced(function* (settings: MailSettings, lease: JobLease) {
  const { baseUrl, from, pace, retryAfter, unsubscribe, url } = settings
  const statements = yield* makeEmailOutboxStatements(lease)
  const deliverBySmtp = makeSmtpDelivery(url)
  const runPromise = Effect.runPromiseWith(yield* Effect.context<never>())
  /** The last value of the gauge. */
  let waiting = 0
  /** The number of consecutive attempts for which no server was usable. */
  let failedConnections = 0
  const awaySchedule = doublingSchedule(retryAfter, "15 minutes")
  /** For temporary rejections. Allows twenty attempts in total, over about two days. */
  const laterSchedule = Schedule.upTo(doublingSchedule(retryAfter, "4 hours"), { times: 19 })

  const { begin, sendNext } = yield* makeOutboxSender({
    claimNext: () => statements.claimNext,
    deliver: Effect.fnUntraced(function* ({ entry_id, mail_id, recipient, stored }: ClaimedEmail, sending) {
      const entry = entriesById.get(entry_id)
      const content = entry === undefined
        ? stored ?? (yield* Effect.die(new Error(`The email ${mail_id} has no text.`)))
        : renderChangelogEmail(entry, { baseUrl, unsubscribeAddress: unsubscribe })
      const message = yield* composeMimeMessage({ ...content, mail_id, recipient }, { from, unsubscribe })
      const confirmHandover = () => {
        sending.isAwaited = true
        return runPromise(statements.markHanded(mail_id))
      }
      yield* deliverBySmtp({ from: from.address, to: recipient, message, confirmHandover })
      failedConnections = 0
    }),
    markDelivered: ({ mail_id }) => statements.markSent(mail_id),
    computeDelay: ({ attempts }, { outcome }: EmailDeliveryError) => {
      if (outcome === "unknown") return Effect.undefined
      failedConnections = outcome === "away" ? failedConnections + 1 : 0
      if (outcome === "refused") return Effect.undefined
      return outcome === "away"
        ? getRetryDelay(awaySchedule, failedConnections)
        : getRetryDelay(laterSchedule, attempts)
    },
    // If no server was usable, the attempt is not counted.
    postpone: ({ mail_id }, { message, outcome }, delay) =>
      statements.postpone(mail_id, Duration.toSeconds(delay), message, outcome !== "away"),
    giveUp: ({ attempts, mail_id }, { code, message, outcome }) =>
      Effect.as(
        statements.giveUp(mail_id, outcome === "unknown" ? "unknown" : "failed", message),
        outcome === "unknown"
          ? `was sent, but the server did not reply (${code}). It is not sent again.`
          : `failed permanently at attempt ${attempts}: ${code}`,
      ),
    nameOf: ({ entry_id, mail_id }) => `Email ${mail_id} (${entry_id})`,
    describeAttempt: (_, { code }) => `was not sent: ${code}`,
    logRetry: Effect.logWarning,
    deliveredCounter: emailsSentTotal,
    failureCounter: ({ outcome }) => makeFailedAttemptCounter(outcome),
    counters: [
      emailsSentTotal,
      ...(["away", "later", "refused", "unknown"] as const).map(makeFailedAttemptCounter),
    ],
    gauges: [{
      name: "tickerline_mails_waiting",
      description: "Customer emails that wait to be sent, as last seen by the process that sends them.",
      read: () => waiting,
    }],
  }, lease)

  /** Sends emails until none are due. If the mail server is unusable, returns the delay before the next run. */
  const sendAll = Effect.gen(function* () {
    const unknown = yield* statements.recoverAbandoned
    if (unknown > 0) {
      yield* Effect.logWarning(
        `A sender stopped; delivery is unknown for this number of emails: ${unknown}. ` +
          "To list them, run: announcements problems",
      )
    }
    while (true) {
      // At first, a shutdown interrupts this fiber instead of waiting for it. Until the email has been handed over, the
      // server cannot have accepted it, and another process can send it.
      const result = yield* Effect.flatMap(begin(false, (sending) => sendNext(undefined, sending)), Fiber.join)
      if (result._tag === "NoneDue") return
      if (result._tag === "Failed" && result.failure.outcome === "away") return result.delay
      yield* Effect.sleep(pace)
    }
  })

  return Effect.gen(function* () {
    const [state] = yield* statements.readState
    waiting = state?.waiting ?? 0
    return state?.due === true ? yield* sendAll : undefined
  })
})

/**
 * The job runs only if `SMTP_URL` is set. While this process cannot reach the mail server, other processes may take
 * over the job.
 */
export const emailSenderJob = {
  name: "mail",
  every: pollInterval,
  prepare: Effect.fnUntraced(function* (lease: JobLease) {
    const settings = yield* loadMailSettings
    if (Option.isNone(settings)) return Option.none()
    if (Option.isNone(settings.value.baseUrl)) {
      yield* Effect.logWarning("SMTP_URL is set, but BASE_URL is not, so emails about the changelog have no links.")
    }
    return Option.some(yield* makeSenderRun(settings.value, lease))
  }),
} satisfies Job<Config.ConfigError, SqlClient.SqlClient | Scope.Scope>
