/** `announce` and `announcements` on the command line. */
import { Console, Effect, Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { BaseUrlConfig } from "../http/BaseUrl.ts"
import * as Connection from "../db/Connection.ts"
import { formatCount } from "./terminal/Text.ts"
import * as Announce from "../mail/Announcements.ts"
import { MailUnsubscribe } from "../mail/MailSettings.ts"

const summary = (
  { alreadyQueued: already, entry, recipients, invalidAddresses: unusable, optedOut: unwilling }:
    Announce.RecipientSelection,
  dry: boolean,
) =>
  [
    `${entry.id}: ${formatCount(recipients.length, "address", "addresses")} ${dry ? "would be written to" : "queued"}`,
    ...(already === 0 ? [] : [`${already} queued before`]),
    ...(unwilling === 0 ? [] : [`${unwilling} without news`]),
    ...(unusable.length === 0 ? [] : [`no addresses: ${unusable.map((text) => JSON.stringify(text)).join(", ")}`]),
  ].join("; ")

/** All that would be sent. */
const shown = ({ selection: chosen, email: words }: Announce.PreparedAnnouncement) =>
  [
    summary(chosen, true),
    ...(chosen.recipients.length === 0
      ? []
      : [...chosen.recipients.map((address) => `To: ${address}`), `Subject: ${words.subject}`, "", words.text]),
  ].join("\n")

export const announceCommand = Command.make(
  "announce",
  {
    ids: Flag.String("entry").pipe(
      Flag.withDescription(
        "An entry of the changelog; several times for several. Left out: all that customers are told",
      ),
      Flag.atLeast(0),
    ),
    dry: Flag.Boolean("dry-run").pipe(
      Flag.withDescription("Print recipients and text, and queue nothing"),
      Flag.withDefault(false),
    ),
    younger: Flag.Boolean("include-new-accounts").pipe(
      Flag.withDescription("Write to accounts, too, that were made after the day of the entry"),
      Flag.withDefault(false),
    ),
  },
  Effect.fnUntraced(function* ({ dry, ids, younger }) {
    const surroundings = { baseUrl: yield* BaseUrlConfig, unsubscribeAddress: yield* MailUnsubscribe }
    if (Option.isNone(surroundings.baseUrl)) {
      yield* Effect.logWarning("BASE_URL is not set, so the mails hold no link to documentation and changelog.")
    }
    const prepared = yield* Announce.queueAnnouncements({
      entryIds: ids,
      isDryRun: dry,
      includeNewAccounts: younger,
      ...surroundings,
    })
    const lines = prepared.map((one) => dry ? shown(one) : summary(one.selection, false))
    yield* Console.log(lines.length === 0 ? "Nothing is due." : lines.join("\n"))
    if (!dry && prepared.some(({ selection: chosen }) => chosen.recipients.length > 0)) {
      yield* Effect.logInfo("A running service with SMTP_URL sends them; `announcements` tells how far it is.")
    }
  }),
).pipe(
  Command.withDescription("Write to customers about entries of the changelog; whoever has one is not sent it again"),
  Command.withExamples([
    { command: "npm run --silent tickerline -- announce --dry-run", description: "Who would read what" },
    { command: "npm run tickerline -- announce --entry ticker-changes", description: "One entry" },
  ]),
  Command.provide(Connection.migratedConnectionLayer),
)

const entry = Flag.String("entry").pipe(
  Flag.withDescription("Of this entry only; left out: of all"),
  Flag.optional,
)

const list = Effect.gen(function* () {
  const rows = yield* Announce.readAnnouncementProgress
  const header = ["entry", "to send", "sent", "failed", "unknown"]
  const lines = rows.map(({ entry_id, failed, queued, sent, unknown }) => [entry_id, queued, sent, failed, unknown])
  yield* Console.log([header, ...lines].map((cells) => cells.join("\t")).join("\n"))
})

const problems = Command.make(
  "problems",
  {},
  Effect.fnUntraced(function* () {
    const rows = yield* Announce.readUndeliveredEmails
    const header = ["entry", "address", "status", "attempts", "reason"]
    const lines = rows.map((row) => [row.entry_id, row.recipient, row.status, row.attempts, row.last_error])
    yield* Console.log([header, ...lines].map((cells) => cells.join("\t")).join("\n"))
  }),
).pipe(
  Command.withDescription("List what was not sent at once, and why, tab-separated"),
  Command.withExamples([{
    command: "npm run --silent tickerline -- announcements problems",
    description: "With the server's words",
  }]),
)

const retry = Command.make(
  "retry",
  {
    status: Argument.Literals("status", Announce.retryableStatuses).pipe(
      Argument.withDescription("failed: given up; unknown: perhaps delivered, so some may read it twice"),
    ),
    entry,
  },
  Effect.fnUntraced(function* ({ entry, status }) {
    const again = yield* Announce.requeueEmails(status, entry)
    yield* Console.log(`${formatCount(again, "mail")} queued again.`)
  }),
).pipe(
  Command.withDescription("Queue mails again that failed, or whose delivery is unknown"),
  Command.withExamples([{
    command: "npm run tickerline -- announcements retry failed --entry ticker-changes",
    description: "After the addresses were corrected",
  }]),
)

export const announcementsCommand = Command.make("announcements", {}, () => list).pipe(
  Command.withDescription("Tell how far the mails of each announcement are, tab-separated"),
  Command.withExamples([{
    command: "npm run --silent tickerline -- announcements",
    description: "All of them",
  }]),
  Command.withSubcommands([problems, retry]),
  Command.provide(Connection.migratedConnectionLayer),
)
