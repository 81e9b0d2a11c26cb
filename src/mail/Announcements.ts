/** What goes into the outbox, and what became of it: for the command line, with the role that owns the tables. */
import { Data, DateTime, Effect, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { isEmailAddress } from "../accounts/EmailAddress.ts"
import { changelog, isAnnouncedByEmail } from "../changelog/Changelog.ts"
import type { ChangelogEntry } from "../changelog/ChangelogEntry.ts"
import { todayInNewYork } from "../rules/Dates.ts"
import { type EmailAddresses, EmailContent, renderEmail } from "./EmailTemplate.ts"

export class UnknownChangelogEntry extends Data.TaggedError("NoSuchEntry")<{ readonly message: string }> {}

/** All that customers are written to about and whose day has come, oldest first; or those that are named. */
export const findDueEntries = Effect.fnUntraced(function* (ids: ReadonlyArray<string>) {
  const today = yield* todayInNewYork
  const known = changelog.filter(({ date }) => date <= today).toReversed()
  if (ids.length === 0) return known.filter(isAnnouncedByEmail)
  return yield* Effect.forEach(ids, (id) => {
    const entry = known.find((one) => one.id === id)
    return entry !== undefined ? Effect.succeed(entry) : Effect.fail(
      new UnknownChangelogEntry({
        message: changelog.some((one) => one.id === id)
          ? `The day of ${id} has not come yet. Nothing was queued.`
          : `The changelog has no entry ${id}. It has: ${known.map((one) => one.id).join(", ")}`,
      }),
    )
  })
})

const Contact = Schema.Struct({ recipient: Schema.String, news: Schema.Boolean, queued: Schema.Boolean })

export interface RecipientSelection {
  readonly entry: ChangelogEntry
  readonly recipients: ReadonlyArray<string>
  /** Who has it in the outbox, or has got it. */
  readonly alreadyQueued: number
  readonly optedOut: number
  readonly invalidAddresses: ReadonlyArray<string>
}

export interface PreparedAnnouncement {
  readonly selection: RecipientSelection
  readonly email: EmailContent
}

const dayLength = { days: 1 }

/** What was announced before keeps its words. */
const wordsOf = Effect.fnUntraced(function* (entry: ChangelogEntry, surroundings: EmailAddresses) {
  const sql = yield* SqlClient.SqlClient
  const announced = yield* SqlSchema.findOneOption({
    Request: Schema.Void,
    Result: EmailContent,
    execute: () => sql`select subject, text, html, operational from announcements where entry_id = ${entry.id}`,
  })(undefined)
  return Option.getOrElse(announced, () => renderEmail(entry, surroundings))
})

/** Who is to be written to; accounts that are younger than the entry know the service no other way. */
const choose = Effect.fnUntraced(function* (entry: ChangelogEntry, surroundings: EmailAddresses, younger: boolean) {
  const sql = yield* SqlClient.SqlClient
  const before = DateTime.formatIso(DateTime.add(DateTime.makeUnsafe(`${entry.date}T00:00:00-05:00`), dayLength))
  const find = SqlSchema.findAll({
    Request: Schema.Void,
    Result: Contact,
    // Two accounts with one address get one mail, and none where one of them wants none.
    execute: () =>
      sql`
        with contacts as (
          select (array_agg(btrim(contact_email) order by account_id))[1] as recipient, bool_and(news) as news,
            min(account_id) as first
          from accounts
          where contact_email is not null and (${younger} or created_at < ${before}::text::timestamptz)
          group by lower(btrim(contact_email))
        )
        select recipient, news, exists (
          select from announcement_mails as mail
          where mail.entry_id = ${entry.id} and lower(mail.recipient) = lower(contacts.recipient)
        ) as queued
        from contacts order by first
      `,
  })
  const contacts = yield* find(undefined)
  const words = yield* wordsOf(entry, surroundings)
  const left = contacts.filter(({ queued }) => !queued)
  const usable = left.filter(({ recipient }) => isEmailAddress(recipient))
  const willing = usable.filter(({ news }) => news || words.operational)
  const chosen: RecipientSelection = {
    entry,
    recipients: willing.map(({ recipient }) => recipient),
    alreadyQueued: contacts.length - left.length,
    optedOut: usable.length - willing.length,
    invalidAddresses: left.filter(({ recipient }) => !isEmailAddress(recipient)).map(({ recipient }) => recipient),
  }
  const prepared: PreparedAnnouncement = { selection: chosen, email: words }
  return prepared
})

/** One after the other, so that two runs at once queue nothing twice; the words are those of the first. */
const queue = Effect.fnUntraced(function* ({ selection: chosen, email: words }: PreparedAnnouncement) {
  const sql = yield* SqlClient.SqlClient
  const { entry, recipients } = chosen
  if (recipients.length === 0) return
  const { html, operational, subject, text } = words
  yield* sql`
    insert into announcements (entry_id, subject, text, html, operational)
    values (${entry.id}, ${subject}, ${text}, ${html}, ${operational}) on conflict (entry_id) do nothing
  `
  yield* sql`
    insert into announcement_mails (entry_id, recipient)
    select ${entry.id}, recipient from json_array_elements_text(${JSON.stringify(recipients)}::text::json) as recipient
    on conflict do nothing
  `
})

export interface AnnouncementOptions extends EmailAddresses {
  readonly entryIds: ReadonlyArray<string>
  /** Accounts that were made after an entry get it, too. */
  readonly includeNewAccounts: boolean
  readonly isDryRun: boolean
}

export const queueAnnouncements = Effect.fnUntraced(function* (wanted: AnnouncementOptions) {
  const sql = yield* SqlClient.SqlClient
  const entries = yield* findDueEntries(wanted.entryIds)
  return yield* sql.withTransaction(Effect.forEach(entries, (entry) =>
    Effect.tap(
      choose(entry, wanted, wanted.includeNewAccounts),
      (chosen) => wanted.isDryRun ? Effect.void : queue(chosen),
    )))
})

const Count = Schema.Struct({
  entry_id: Schema.String,
  queued: Schema.Int,
  sent: Schema.Int,
  failed: Schema.Int,
  unknown: Schema.Int,
})

/** How far each announcement is, oldest first. */
export const readAnnouncementProgress = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* SqlSchema.findAll({
    Request: Schema.Void,
    Result: Count,
    execute: () =>
      sql`
        select entry_id, (count(*) filter (where status in ('queued', 'sending', 'handed')))::int as queued,
          (count(*) filter (where status = 'sent'))::int as sent,
          (count(*) filter (where status = 'failed'))::int as failed,
          (count(*) filter (where status = 'unknown'))::int as unknown
        from announcements join announcement_mails using (entry_id)
        group by entry_id, announced_at order by announced_at, entry_id
      `,
  })(undefined)
})

const Trouble = Schema.Struct({
  entry_id: Schema.String,
  recipient: Schema.String,
  status: Schema.String,
  attempts: Schema.Int,
  last_error: Schema.String,
})

/** What was not sent, and why. */
export const readUndeliveredEmails = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* SqlSchema.findAll({
    Request: Schema.Void,
    Result: Trouble,
    execute: () =>
      sql`
        select entry_id, recipient, status, attempts, last_error from announcement_mails
        where last_error is not null and status <> 'sent' order by entry_id, lower(recipient)
      `,
  })(undefined)
})

export const retryableStatuses = ["failed", "unknown"] as const

/** Queues again what was given up, or may have been delivered; how many. */
export const requeueEmails = Effect.fnUntraced(
  function* (status: typeof retryableStatuses[number], id: Option.Option<string>) {
    const sql = yield* SqlClient.SqlClient
    const again = yield* sql`
    update announcement_mails set status = 'queued', attempts = 0, next_attempt_at = now(), claimed_by = null
    where status = ${status} and entry_id = coalesce(${Option.getOrNull(id)}::text, entry_id) returning mail_id
  `
    return again.length
  },
)
