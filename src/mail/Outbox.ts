/**
 * The outbox as the sender sees it. Each step is one statement that holds only while the lease does, so that a process
 * that was stopped, or cut off from the database, can no longer send what another has taken over.
 */
import { Effect, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"

/**
 * Who has the lease of the job takes this one too, as long as there may be processes of release 0.2.0 beside it, which
 * know no other. It has run out when that of the job has.
 */
export const senderLeaseSeconds = 5

export const ClaimedEmail = Schema.Struct({
  mail_id: Schema.String,
  entry_id: Schema.String,
  recipient: Schema.String,
  attempts: Schema.Int,
  subject: Schema.String,
  text: Schema.String,
  html: Schema.String,
  operational: Schema.Boolean,
})
export type ClaimedEmail = typeof ClaimedEmail.Type

const Counted = Schema.Struct({ waiting: Schema.Int, due: Schema.Boolean })

/** What the process that has the id may do. */
export const makeOutbox = Effect.fnUntraced(function* (holder: string) {
  const sql = yield* SqlClient.SqlClient
  const until = sql.literal(`now() + interval '${senderLeaseSeconds} seconds'`)
  const held = sql`exists (select from announcement_sender where holder = ${holder}::text::uuid and until > now())`
  const mine = sql`claimed_by = ${holder}::text::uuid`

  /** How many mails wait, and whether there is anything to do: asked often, and answered by two small indexes. */
  const look = SqlSchema.findOne({
    Request: Schema.Void,
    Result: Counted,
    execute: () =>
      sql`
        select (select count(*) from announcement_mails where status = 'queued')::int as waiting,
          exists (select from announcement_mails where status = 'queued' and next_attempt_at <= now())
          or exists (select from announcement_mails where status in ('sending', 'handed')) as due
      `,
  })(undefined)

  /** Whether this process may send: it does already, or nobody does. */
  const lease = Effect.map(
    sql`
      update announcement_sender set holder = ${holder}::text::uuid, until = ${until}
      where holder = ${holder}::text::uuid or holder is null or until <= now() returning holder
    `,
    (rows) => rows.length === 1,
  )

  const release = sql`
    update announcement_sender set holder = null, until = now() where holder = ${holder}::text::uuid
  `

  /** What a sender left behind that died: the server cannot have accepted the one, and may have accepted the other. */
  const recover = Effect.map(
    sql<{ readonly status: string }>`
      update announcement_mails
      set status = case status when 'sending' then 'queued' else 'unknown' end, claimed_by = null,
        last_error = case status when 'sending' then last_error
          else 'The sender ended before the server answered; it may have been delivered.' end
      where status in ('sending', 'handed') and not coalesce(${mine}, false) and ${held} returning status
    `,
    (rows) => rows.filter(({ status }) => status === "unknown").length,
  )

  /** The next mail whose time has come. */
  const claim = SqlSchema.findOneOption({
    Request: Schema.Void,
    Result: ClaimedEmail,
    execute: () =>
      sql`
        update announcement_mails as mail
        set status = 'sending', claimed_by = ${holder}::text::uuid, attempts = attempts + 1
        from announcements
        where announcements.entry_id = mail.entry_id and ${held} and mail_id = (
          select mail_id from announcement_mails where status = 'queued' and next_attempt_at <= now()
          order by next_attempt_at, mail_id limit 1 for update skip locked
        )
        returning mail_id::text, mail.entry_id, recipient, attempts, subject, text, html, operational
      `,
  })(undefined)

  /** Said, and written, before the server is given the end of the mail; false: it is no longer ours to send. */
  const hand = (mail_id: string) =>
    Effect.map(
      sql`
        update announcement_mails set status = 'handed'
        where mail_id = ${mail_id}::text::uuid and status = 'sending' and ${mine} and ${held} returning mail_id
      `,
      (rows) => rows.length === 1,
    )

  // The answer of the server is worth more than a lease: who has it may always write it down.
  const sent = (mail_id: string) =>
    sql`
      update announcement_mails set status = 'sent', sent_at = now(), last_error = null
      where mail_id = ${mail_id}::text::uuid and status in ('handed', 'unknown')
    `

  const settle = (mail_id: string, status: "failed" | "unknown", reason: string) =>
    sql`
      update announcement_mails set status = ${status}, last_error = ${reason}
      where mail_id = ${mail_id}::text::uuid and status in ('sending', 'handed') and ${mine}
    `

  /** Another try later. Where the server was not even reached the attempt does not count. */
  const postpone = (mail_id: string, seconds: number, reason: string, counts: boolean) =>
    sql`
      update announcement_mails set status = 'queued', claimed_by = null, last_error = ${reason},
        next_attempt_at = now() + make_interval(secs => ${seconds}::float8), attempts = attempts - ${
      counts ? 0 : 1
    }::int
      where mail_id = ${mail_id}::text::uuid and status in ('sending', 'handed') and ${mine}
    `

  return { look, lease, release, recover, claim, hand, sent, settle, postpone }
})
