/**
 * Queues emails that tell customers about changelog entries (§9.6, notification). Each email is rendered when it is
 * sent.
 */
import { Data, DateTime, Effect, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { isEmailAddress } from "../../contract/EmailAddress.ts"
import {
  changelogEntries,
  isEmailMandatory,
  isEntryAnnouncedByEmail,
  isReleasedIn,
} from "../../api/changelog/Changelog.ts"
import type { ChangelogEntry } from "../../contract/ChangelogEntry.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import type { PageRange } from "../../contract/rules/Cursors.ts"
import { printedOffset, todayInNewYork } from "../../contract/rules/Dates.ts"
import { type EmailLinks, renderChangelogEmail } from "./EmailTemplate.ts"

/** The changelog entry does not exist, is dated in the future, or has not been released yet. */
export class UnannounceableEntry extends Data.TaggedError("UnannounceableEntry")<{ readonly message: string }> {}

/** The email after which a page of emails was to begin no longer exists, so the position of that page is unknown. */
export class NoSuchEmail extends Data.TaggedError("NoSuchEmail")<{ readonly message: string }> {}

interface EntrySelection {
  /** Ids of the entries to announce. If empty, selects all entries that are announced by email. */
  readonly entryIds: ReadonlyArray<string>
  /** The version of this program. Later releases in the changelog have not been published yet. */
  readonly version: string
}

/** The entries in the changelog whose date is not after `today`, such as `2026-03-01`, oldest first. */
const listPastEntries = (today: string) => changelogEntries.filter(({ date }) => date <= today).toReversed()

/**
 * Returns the changelog entry with the given id. Fails if it does not exist, is dated after `today`, or belongs to a
 * later release than `version`, the version of this program.
 */
const findAnnounceableEntry = (id: string, version: string, today: string) => {
  const entry = changelogEntries.find((one) => one.id === id)
  if (entry === undefined) {
    const ids = listPastEntries(today).filter(isReleasedIn(version)).map((one) => one.id)
    return new UnannounceableEntry({ message: `The changelog has no entry ${id}. It has: ${ids.join(", ")}` })
  }
  if (entry.date > today) {
    return new UnannounceableEntry({ message: `The date of ${id} is in the future. Nothing was queued.` })
  }
  if (!isReleasedIn(version)(entry)) {
    return new UnannounceableEntry({
      message: `${id} belongs to release ${entry.release}, but this program is version ${version}. Nothing was ` +
        `queued. Announce it with the program of that release, after the deployment.`,
    })
  }
  return Effect.succeed(entry)
}

/**
 * Returns the changelog entries with the given ids. Fails if any of them cannot be announced. Without ids, returns all
 * released entries that are announced by email and are not dated in the future, oldest first. Entries that belong to a
 * later release than this program are left out, and their releases are logged.
 */
const findDueEntries = Effect.fnUntraced(function* ({ entryIds, version }: EntrySelection) {
  const today = yield* todayInNewYork
  if (entryIds.length > 0) return yield* Effect.forEach(entryIds, (id) => findAnnounceableEntry(id, version, today))
  const isReleased = isReleasedIn(version)
  const announced = listPastEntries(today).filter(isEntryAnnouncedByEmail)
  const unreleased = new Set(announced.filter((entry) => !isReleased(entry)).map(({ release }) => release))
  if (unreleased.size > 0) {
    yield* Effect.logWarning(
      `Not announced, because this program is version ${version}: release ${[...unreleased].join(", ")}`,
    )
  }
  return announced.filter(isReleased)
})

const Contact = Schema.Struct({
  recipient: Schema.String,
  news: Schema.Boolean,
  queued: Schema.Boolean,
  is_new: Schema.Boolean,
})

const AddressCount = Schema.Struct({ missing: Schema.Int })

/**
 * Returns the email addresses of all accounts, one row per address. `recipient` is the address, `news` whether it
 * receives news, `queued` whether the changelog entry has already been queued for it, and `is_new` whether all of its
 * accounts are newer than the entry. If `includeNewAccounts` is true, no account counts as newer.
 *
 * Accounts that share an address get a single email. If one of them, other than newer accounts, has unsubscribed, the
 * address gets no news. `first` is the id of the address's oldest account, by which the addresses are sorted.
 */
const findContacts = Effect.fnUntraced(function* (entry: ChangelogEntry, includeNewAccounts: boolean) {
  const sql = yield* SqlClient.SqlClient
  const nextDay = DateTime.add(DateTime.makeUnsafe(`${entry.date}T00:00:00${printedOffset.text}`), { days: 1 })
  return yield* decodeRows(Contact)(sql`
    with contacts as (
      -- If an address is spelled in several ways, the oldest account's spelling is used.
      select (array_agg(btrim(contact_email) order by account_id))[1] as recipient,
        coalesce(bool_and(news) filter (where is_old), true) as news, not bool_or(is_old) as is_new,
        min(account_id) as first
      from accounts, lateral (
        select ${includeNewAccounts} or created_at < ${DateTime.formatIso(nextDay)}::text::timestamptz as is_old
      ) as age
      where btrim(contact_email) <> ''
      group by lower(btrim(contact_email))
    )
    select recipient, news, is_new, exists (
      select from announcement_mails as mail
      where mail.entry_id = ${entry.id} and lower(mail.recipient) = lower(contacts.recipient)
    ) as queued
    from contacts order by first
  `)
})

const countAccountsWithoutAddress = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* decodeRows(AddressCount)(sql`
    select count(*)::int as missing from accounts
    where coalesce(btrim(contact_email), '') = '' and account_id not in (select account_id from account_erasures)
  `)
  return found?.missing ?? 0
})

/**
 * Selects the recipients of a changelog entry and renders the email. By default, accounts created after the day of the
 * entry are excluded, because they have never used the API as it was before the change. Addresses that have
 * unsubscribed from news get only emails about changes that may break their programs (`email.operational`). Returns the
 * rendered email, and the recipients with the numbers of addresses that are skipped, by reason.
 */
const prepareAnnouncement = Effect.fnUntraced(function* (entry: ChangelogEntry, options: AnnouncementOptions) {
  const contacts = yield* findContacts(entry, options.includeNewAccounts)
  const email = renderChangelogEmail(entry, options)
  // Each step leaves out the addresses of one reason: `contacts` ⊇ `unqueued` ⊇ `valid` ⊇ `subscribed`.
  const unqueued = contacts.filter(({ is_new, queued }) => !queued && !is_new)
  const valid = unqueued.filter(({ recipient }) => isEmailAddress(recipient))
  const subscribed = valid.filter(({ news }) => news || email.operational)
  const selection = {
    entry,
    recipients: subscribed.map(({ recipient }) => recipient),
    /** Number of addresses for which the entry was already queued, whether or not the email has been sent. */
    alreadyQueued: contacts.filter(({ queued }) => queued).length,
    /** Number of addresses that belong only to accounts created after the day of the entry. */
    tooNew: contacts.filter(({ is_new, queued }) => is_new && !queued).length,
    /** Number of accounts without a contact address. */
    withoutAddress: yield* countAccountsWithoutAddress,
    /** Number of addresses that are skipped because they have unsubscribed from news. */
    optedOut: valid.length - subscribed.length,
    invalidAddresses: unqueued.filter(({ recipient }) => !isEmailAddress(recipient)).map(({ recipient }) => recipient),
  }
  return { selection, email }
})

/** A rendered email and its recipients. */
export type PreparedAnnouncement = Effect.Success<ReturnType<typeof prepareAnnouncement>>

/**
 * Queues the emails about a changelog entry and, if it announces a deprecation, also the webhook messages. Repeated and
 * concurrent runs queue each of them only once.
 */
const queueEmails = Effect.fnUntraced(function* ({ selection }: PreparedAnnouncement) {
  const sql = yield* SqlClient.SqlClient
  const { entry, recipients } = selection
  const { id, paths, successor, sunset, text, title } = entry
  const deprecation = entry.type === "deprecated" ? { entry_id: id, title, text, paths, successor, sunset } : null
  if (recipients.length === 0 && deprecation === null) return
  yield* sql`
    select announce_entry(${id}, ${isEmailMandatory(entry)}, ${JSON.stringify(recipients)}::text::json,
      ${deprecation === null ? null : JSON.stringify(deprecation)}::text::json)
  `
})

interface AnnouncementOptions extends EmailLinks, EntrySelection {
  /** Whether to include accounts that were created after the day of the entry. */
  readonly includeNewAccounts: boolean
  readonly isDryRun: boolean
}

/** Queues the emails about the selected entries in one transaction, and returns them. A dry run only returns them. */
export const queueAnnouncements = Effect.fnUntraced(function* (options: AnnouncementOptions) {
  const sql = yield* SqlClient.SqlClient
  const entries = yield* findDueEntries(options)
  return yield* sql.withTransaction(Effect.forEach(entries, (entry) =>
    Effect.tap(
      prepareAnnouncement(entry, options),
      (prepared) => options.isDryRun ? Effect.void : queueEmails(prepared),
    )))
})

/** The number of emails about a changelog entry, by status. */
export const AnnouncementProgress = Schema.Struct({
  entry_id: Schema.NullOr(Schema.String).annotate({
    description: "Null: the notices to single accounts, which are counted together.",
  }),
  queued: Schema.Int,
  sent: Schema.Int,
  failed: Schema.Int,
  unknown: Schema.Int,
})

/**
 * Counts the queued emails by status. Returns one row per announced changelog entry, oldest announcement first, and a
 * last row for all notices to single accounts.
 */
export const readAnnouncementProgress = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* decodeRows(AnnouncementProgress)(sql`
    select case when account_id is null then entry_id end as entry_id,
      (count(*) filter (where status in ('queued', 'sending', 'handed')))::int as queued,
      (count(*) filter (where status = 'sent'))::int as sent,
      (count(*) filter (where status = 'failed'))::int as failed,
      (count(*) filter (where status = 'unknown'))::int as unknown
    from announcements join announcement_mails using (entry_id)
    group by 1 order by 1 is null, min(announced_at), 1
  `)
})

/** An email whose last attempt failed. */
export const UndeliveredEmail = Schema.Struct({
  mail_id: Schema.String,
  entry_id: Schema.String,
  recipient: Schema.String,
  status: Schema.String,
  attempts: Schema.Int,
  last_error: Schema.String,
})

const isUndeliveredSql = "last_error is not null and status <> 'sent'"

/**
 * Returns the emails whose last attempt failed, with the reason, newest first. A page has at most `limit` emails, and
 * begins after the email with the id `after`. Fails if that email no longer exists, because its position is then
 * unknown.
 */
export const readUndeliveredEmails = Effect.fnUntraced(
  function* ({ after, limit }: PageRange<string> = {}) {
    const sql = yield* SqlClient.SqlClient
    // If the email with the id `after` does not exist, the comparison is null, so no row follows it.
    const follows = after === undefined ? sql`true` : sql`
      (queued_at, mail_id) < (select queued_at, mail_id from announcement_mails where mail_id = ${after}::text::uuid)
    `
    const emails = yield* decodeRows(UndeliveredEmail)(sql`
      select mail_id::text, entry_id, recipient, status, attempts, last_error from announcement_mails
      where ${sql.literal(isUndeliveredSql)} and ${follows}
      order by queued_at desc, mail_id desc limit ${limit ?? null}::float8::bigint
    `)
    if (emails.length > 0 || after === undefined) return emails
    // An empty page is either the last one, or the email no longer exists.
    const found = yield* sql`select from announcement_mails where mail_id = ${after}::text::uuid`
    return found.length === 0 ? yield* new NoSuchEmail({ message: `There is no email ${after} any more.` }) : emails
  },
)

/** Counts the emails whose last attempt failed. */
export const countUndeliveredEmails = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* decodeRows(Schema.Struct({ emails: Schema.Int }))(sql`
    select count(*)::int as emails from announcement_mails where ${sql.literal(isUndeliveredSql)}
  `)
  return row?.emails ?? 0
})

/** Statuses from which an operator may queue an email again. */
export const requeueableEmailStatuses = ["failed", "unknown"] as const

/**
 * Requeues the emails with the given status, for one entry or for all entries. Returns how many emails were requeued.
 */
export const requeueUndeliveredEmails = Effect.fnUntraced(
  function* (status: typeof requeueableEmailStatuses[number], entryId: Option.Option<string>) {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* decodeRows(Schema.Struct({ emails: Schema.Int }))(sql`
      select retry_emails(${status}, ${Option.getOrNull(entryId)}::text)::int as emails
    `)
    return row?.emails ?? 0
  },
)
