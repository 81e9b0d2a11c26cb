/**
 * The `announce` and `announcements` commands: queue emails about changelog entries, and show how many have been sent.
 */
import { Console, Effect, Option, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import packageJson from "../../../package.json" with { type: "json" }
import { migratedDatabaseClientLayer } from "../../postgres/ConnectionLayers.ts"
import { BaseUrlConfig } from "../../api/BaseUrl.ts"
import * as Announcements from "../../outbox/mail/Announcements.ts"
import { UnsubscribeAddressConfig } from "../../outbox/mail/MailSettings.ts"
import { makeBooleanFlag, makeFlag, withExamples, withPipeableExamples } from "./CommandParts.ts"
import { formatCountWithNoun } from "../../contract/rules/CountWithNoun.ts"
import { formatTabSeparated } from "./terminal/TerminalText.ts"

/** Describes who receives an announcement, and why other accounts do not. */
const formatSelection = (
  selection: Announcements.PreparedAnnouncement["selection"],
  isDryRun: boolean,
) => {
  const { alreadyQueued, entry, invalidAddresses, optedOut, recipients, tooNew, withoutAddress } = selection
  const reasons = [
    ...(alreadyQueued === 0 ? [] : [`${alreadyQueued} queued before`]),
    ...(optedOut === 0 ? [] : [`${optedOut} opted out`]),
    ...(invalidAddresses.length === 0
      ? []
      : [`invalid addresses: ${invalidAddresses.map((address) => JSON.stringify(address)).join(", ")}`]),
    ...(tooNew === 0
      ? []
      : [`${tooNew} only of accounts that are newer than the entry (--include-new-accounts includes them)`]),
    ...(withoutAddress === 0
      ? []
      : [`${formatCountWithNoun(withoutAddress, "account")} without a contact address (see accounts set-email)`]),
  ]
  return [
    `${entry.id}: ${formatCountWithNoun(recipients.length, "email")} ${isDryRun ? "would be queued" : "queued"}`,
    ...(reasons.length === 0 && recipients.length === 0 ? ["there is no account"] : reasons),
  ].join("; ")
}

const formatDryRun = ({ email, selection }: Announcements.PreparedAnnouncement) =>
  [
    formatSelection(selection, true),
    ...(selection.recipients.length === 0 ? [] : [
      ...selection.recipients.map((address) => `To: ${address}`),
      `Subject: ${email.subject}`,
      "",
      email.text,
    ]),
  ].join("\n")

/** `announce`: queues emails about a changelog entry. */
export const announceCommand = Command.make(
  "announce",
  {
    entryIds: makeFlag(
      "entry",
      Schema.String,
      "ID of a changelog entry; repeatable (default: all entries that customers get by email)",
    ).pipe(Flag.atLeast(0)),
    isDryRun: makeBooleanFlag("dry-run", "Print recipients and text without queueing anything"),
    includeNewAccounts: makeBooleanFlag(
      "include-new-accounts",
      "Include accounts that were created after the day of the entry",
    ),
  },
  Effect.fnUntraced(function* (flags) {
    const baseUrl = yield* BaseUrlConfig
    if (flags.isDryRun && Option.isNone(baseUrl)) {
      yield* Effect.logWarning(
        "BASE_URL is not set here, so the texts below have no links. The emails get those of the service that sends.",
      )
    }
    const announcements = yield* Announcements.queueAnnouncements({
      ...flags,
      version: packageJson.version,
      baseUrl,
      unsubscribeAddress: yield* UnsubscribeAddressConfig,
    })
    const lines = announcements.map((announcement) =>
      flags.isDryRun ? formatDryRun(announcement) : formatSelection(announcement.selection, false)
    )
    yield* Console.log(lines.length === 0 ? "There is nothing to announce." : lines.join("\n"))
    if (!flags.isDryRun && announcements.some(({ selection }) => selection.recipients.length > 0)) {
      yield* Effect.logInfo("A running service with SMTP_URL sends the emails. To see the progress, run: announcements")
    }
  }),
).pipe(
  Command.withDescription("Email customers about changelog entries; nobody gets an entry twice"),
  withPipeableExamples(
    { "announce --dry-run": "Print who would get which email" },
    { "announce --entry ticker-changes": "Announce one entry" },
  ),
  Command.provide(migratedDatabaseClientLayer),
)

const entry = Flag.optional(makeFlag("entry", Schema.String, "ID of a changelog entry or notice (default: all)"))

const printTabSeparated = (header: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<unknown>>) =>
  Console.log(formatTabSeparated([header, ...rows]))

const listProgress = Effect.gen(function* () {
  const rows = yield* Announcements.readAnnouncementProgress
  yield* printTabSeparated(
    ["entry", "to send", "sent", "failed", "unknown"],
    rows.map(({ entry_id, failed, queued, sent, unknown }) => [entry_id ?? "(notices)", queued, sent, failed, unknown]),
  )
})

const problemsCommand = Command.make(
  "problems",
  {},
  Effect.fnUntraced(function* () {
    const rows = yield* Announcements.readUndeliveredEmails()
    yield* printTabSeparated(
      ["entry", "address", "status", "attempts", "reason"],
      rows.map((row) => [row.entry_id, row.recipient, row.status, row.attempts, row.last_error]),
    )
  }),
).pipe(
  Command.withDescription(
    "List emails that were not delivered at the first attempt, and why, newest first, tab-separated",
  ),
  withPipeableExamples({ "announcements problems": "Include the mail server's response" }),
)

const retryCommand = Command.make(
  "retry",
  {
    status: Argument.Literals("status", Announcements.requeueableEmailStatuses).pipe(
      Argument.withDescription("failed: not delivered; unknown: maybe delivered, so some may get it twice"),
    ),
    entry,
  },
  Effect.fnUntraced(function* ({ entry, status }) {
    const count = yield* Announcements.requeueUndeliveredEmails(status, entry)
    yield* Console.log(`${formatCountWithNoun(count, "email")} queued again.`)
  }),
).pipe(
  Command.withDescription("Queue emails again that failed or whose delivery is unknown"),
  withExamples({
    "announcements retry failed --entry ticker-changes": "Retry after the addresses were corrected",
  }),
)

/** `announcements`: shows the sending progress of announcements. */
export const announcementsCommand = Command.make("announcements", {}, () => listProgress).pipe(
  Command.withDescription("Show the progress of each announcement, and of all notices to accounts, tab-separated"),
  withPipeableExamples({ "announcements": "Show all announcements" }),
  Command.withSubcommands([problemsCommand, retryCommand]),
  Command.provide(migratedDatabaseClientLayer),
)
