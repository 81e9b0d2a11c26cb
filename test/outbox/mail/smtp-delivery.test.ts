/** Tests delivery of customer emails from the outbox to a real SMTP server in this process: §9.6 (notification). */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Logger, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import packageJson from "../../../package.json" with { type: "json" }
import * as Accounts from "../../../src/accounts/Accounts.ts"
import { changelogEntries } from "../../../src/api/changelog/Changelog.ts"
import * as Announcements from "../../../src/outbox/mail/Announcements.ts"
import { Option } from "effect"
import * as ServiceInstances from "../../support/ServiceInstances.ts"
import * as MailServer from "../../support/MailServer.ts"
import { skipUnlessThorough } from "../../support/Thoroughness.ts"

// @module-tag waiting

const noAddresses = { baseUrl: Option.none<string>(), unsubscribeAddress: Option.none<string>() }

const announce = (entryIds: ReadonlyArray<string>, version = packageJson.version) =>
  Announcements.queueAnnouncements({ entryIds, version, includeNewAccounts: true, isDryRun: false, ...noAddresses })

const createCustomers = Effect.fnUntraced(function* (...emails: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`delete from announcement_mails`
  yield* sql`delete from announcements`
  yield* sql`update accounts set contact_email = null`
  for (const email of emails) {
    yield* Accounts.ensureAccount({ name: `of ${email}`, tier: "basic", email, prepaid: false })
    yield* Accounts.updateAccount(`of ${email}`, { contact_email: email })
  }
})

const fastSettings = {
  MAIL_FROM: "Tickerline <notices@tickerline.example>",
  MAIL_PER_MINUTE: "6000",
  MAIL_RETRY_AFTER: "100 millis",
}

const startSender = (port: number, more: Readonly<Record<string, string>> = {}) =>
  ServiceInstances.startServiceInstance({ SMTP_URL: `smtp://127.0.0.1:${port}`, ...fastSettings, ...more })

const readStatuses = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly status: string }>`select status from announcement_mails order by recipient`
  return rows.map(({ status }) => status)
})

const waitUntil = <E, R>(what: string, condition: Effect.Effect<boolean, E, R>) =>
  condition.pipe(
    Effect.filterOrFail((holds) => holds, () => `${what} did not happen`),
    Effect.retry({ schedule: Schedule.spaced("50 millis"), times: 600 }),
  )

const waitForStatuses = (...expected: ReadonlyArray<string>) =>
  waitUntil(
    `that mails are ${expected.join(", ")}`,
    Effect.map(readStatuses, (found) => String(found) === String(expected)),
  )

layer(Layer.fresh(ServiceInstances.databaseWithKeysLayer), { excludeTestServices: true, timeout: "120 seconds" })(
  "With a real SMTP server,",
  (it) => {
    it.effect("no email announces a release that is later than the program (operations/announcements)", () =>
      Effect.gen(function* () {
        yield* createCustomers("ops@acme.example")
        assert.deepStrictEqual(yield* announce([], "0.9.10"), [])
        const refused = yield* Effect.flip(announce(["ticker-changes"], "0.9.10"))
        assert.match(
          refused.message,
          /^ticker-changes belongs to release 1\.0\.0, but this program is version 0\.9\.10/,
        )
        assert.isAbove((yield* announce(["ticker-changes"], "10.0.0")).length, 0)
      }))

    it.effect("no email announces what CHANGELOG.md lists as unreleased (operations/announcements)", () =>
      Effect.gen(function* () {
        yield* createCustomers("ops@acme.example")
        const file = readFileSync(new URL("../../../CHANGELOG.md", import.meta.url), "utf8")
        const [unreleased = [], released = []] = [/^## \[Unreleased\]$[^]*?(?=^## )/m, /^## \[\d[^]*/m].map(
          (section) => {
            const [text = ""] = section.exec(file) ?? []
            return changelogEntries.filter(({ title }) =>
              text.includes(`**${title}.**`) || text.includes(`**Breaking: ${title}.**`)
            )
          },
        )
        assert.strictEqual(released.length + unreleased.length, changelogEntries.length)
        const queued = (yield* announce([])).map(({ selection }) => selection.entry.id)
        assert.isAbove(queued.length, 0)
        assert.includeMembers(released.map(({ id }) => id), queued)
        for (const { id } of unreleased) {
          assert.include((yield* Effect.flip(announce([id]))).message, "Nothing was queued", id)
        }
      }))

    it.effect("each address gets each entry once, regardless of case, and a second run queues nothing (§9.6)", () =>
      Effect.gen(function* () {
        const smtp = yield* MailServer.startMailServer()
        yield* createCustomers("a@x.example", "A@X.example", "b@x.example")
        yield* announce(["ticker-changes", "fixed-offset"])
        yield* announce(["ticker-changes", "fixed-offset"])
        yield* startSender(smtp.port)
        yield* waitForStatuses("sent", "sent", "sent", "sent")
        yield* announce(["ticker-changes"])
        assert.deepStrictEqual(yield* readStatuses, ["sent", "sent", "sent", "sent"])
        const to = smtp.received.map(({ raw, to }) =>
          `${to.join()} ${MailServer.readEmailHeaders(raw, "Subject").join()}`
        )
        assert.strictEqual(new Set(to).size, 4)
        assert.deepStrictEqual(smtp.received.map(({ to }) => to.length), [1, 1, 1, 1])
      }).pipe(Effect.scoped))

    it.effect("an email has the headers that mail programs expect, and both plain text and HTML (§9.6)", () =>
      Effect.gen(function* () {
        const smtp = yield* MailServer.startMailServer()
        yield* createCustomers("ops@x.example")
        yield* announce(["fixed-offset", "ticker-changes"])
        yield* startSender(smtp.port, { MAIL_UNSUBSCRIBE: "no-news@tickerline.example" })
        yield* waitForStatuses("sent", "sent")
        for (const { raw } of smtp.received) {
          const isNews = raw.includes("complete chain")
          assert.deepStrictEqual(MailServer.readEmailHeaders(raw, "From"), ["Tickerline <notices@tickerline.example>"])
          assert.deepStrictEqual(MailServer.readEmailHeaders(raw, "To"), ["ops@x.example"])
          assert.deepStrictEqual(MailServer.readEmailHeaders(raw, "Auto-Submitted"), ["auto-generated"])
          assert.match(String(MailServer.readEmailHeaders(raw, "Message-ID")), /^<[0-9a-f-]{36}@tickerline\.example>$/)
          assert.isFalse(Number.isNaN(Date.parse(String(MailServer.readEmailHeaders(raw, "Date")))))
          assert.match(String(MailServer.readEmailHeaders(raw, "Content-Type")), /^multipart\/alternative/)
          assert.deepStrictEqual(
            MailServer.readEmailHeaders(raw, "List-Unsubscribe"),
            isNews ? ["<mailto:no-news@tickerline.example?subject=unsubscribe>"] : [],
          )
          assert.match(raw, /Content-Type: text\/plain; charset=utf-8/)
          assert.match(raw, /Content-Type: text\/html; charset=utf-8/)
          // Both addresses come from the settings of the service. `announce` did not have them.
          assert.match(raw, /https:\/\/instance\.example\/v1\/docs\/changelog#/)
          if (isNews) assert.match(raw, /write to\s+no-news@tickerline\.example/)
        }
      }).pipe(Effect.scoped))

    it.effect("a temporarily refused email is sent later with the same Message-ID (§9.6)", () =>
      Effect.gen(function* () {
        const smtp = yield* MailServer.startMailServer()
        yield* createCustomers("later@x.example")
        const ids: Array<string> = []
        let refusals = 2
        smtp.behaviour.data = ({ raw }) => {
          ids.push(String(MailServer.readEmailHeaders(raw, "Message-ID")))
          return Promise.resolve(refusals-- > 0 ? { code: 451, message: "Try again" } : undefined)
        }
        yield* announce(["ticker-changes"])
        yield* startSender(smtp.port)
        yield* waitForStatuses("sent")
        assert.strictEqual(ids.length, 3)
        assert.strictEqual(new Set(ids).size, 1)
        assert.strictEqual(smtp.received.length, 1)
      }).pipe(Effect.scoped))

    it.effect("a permanently refused email fails with the server's reason, and all other emails are sent (§9.6)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const smtp = yield* MailServer.startMailServer()
        yield* createCustomers("gone@x.example", "here@x.example")
        smtp.behaviour.rcpt = (address) =>
          Promise.resolve(address.startsWith("gone") ? { code: 550, message: "No such person" } : undefined)
        yield* announce(["ticker-changes"])
        yield* startSender(smtp.port)
        yield* waitForStatuses("failed", "sent")
        assert.include(
          (yield* Announcements.readUndeliveredEmails()).map(({ last_error }) => last_error).join(),
          "No such person",
        )
        assert.deepStrictEqual(yield* Announcements.readAnnouncementProgress, [
          { entry_id: "ticker-changes", queued: 0, sent: 1, failed: 1, unknown: 0 },
        ])
        smtp.behaviour.rcpt = () => Promise.resolve(undefined)
        assert.strictEqual(yield* Announcements.requeueUndeliveredEmails("failed", Option.none()), 1)
        yield* waitForStatuses("sent", "sent")
        assert.deepStrictEqual(yield* sql`select attempts from announcement_mails order by recipient`, [
          { attempts: 1 },
          { attempts: 1 },
        ])
      }).pipe(Effect.scoped))

    it.effect("a failed connection does not count as an attempt, and the emails are sent once the server is back (§9.6)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const port = yield* Effect.scoped(Effect.map(MailServer.startMailServer(), (smtp) => smtp.port))
        yield* createCustomers("a@x.example", "b@x.example")
        yield* announce(["ticker-changes"])
        yield* startSender(port)
        yield* waitUntil(
          "that the server was missed",
          Effect.map(sql`select from announcement_mails where last_error is not null`, (rows) => rows.length > 0),
        )
        const smtp = yield* MailServer.startMailServer(port)
        yield* waitForStatuses("sent", "sent")
        assert.strictEqual(smtp.received.length, 2)
        assert.deepStrictEqual(yield* sql`select distinct attempts from announcement_mails`, [{ attempts: 1 }])
      }).pipe(Effect.scoped))

    it.effect("an email without a reply becomes unknown and is not sent again automatically (§9.6)", () =>
      Effect.gen(function* () {
        yield* skipUnlessThorough
        const smtp = yield* MailServer.startMailServer()
        yield* createCustomers("perhaps@x.example")
        let seen = 0
        smtp.behaviour.data = () => {
          seen += 1
          return Promise.resolve(seen === 1 ? { code: 421, message: "x".repeat(10) } : undefined)
        }
        // The server replies 421 to the first attempt, so the email is sent again. Without any reply, it would not be.
        yield* announce(["ticker-changes"])
        yield* Effect.scoped(Effect.andThen(startSender(smtp.port), waitForStatuses("sent")))
        assert.strictEqual(seen, 2)
        yield* createCustomers("perhaps@x.example")
        smtp.behaviour.data = () => {
          seen += 1
          return new Promise(() => {})
        }
        yield* announce(["ticker-changes"])
        yield* Effect.scoped(Effect.andThen(
          startSender(smtp.port),
          waitUntil("that the mail was handed over", Effect.sync(() => seen === 3)),
        ))
        smtp.behaviour.data = () => Promise.resolve(undefined)
        const before = smtp.received.length
        yield* startSender(smtp.port)
        yield* waitForStatuses("unknown")
        assert.strictEqual(smtp.received.length, before)
        assert.strictEqual(yield* Announcements.requeueUndeliveredEmails("unknown", Option.some("ticker-changes")), 1)
        yield* waitForStatuses("sent")
      }).pipe(Effect.scoped))

    it.effect("only one of two instances sends at a time, and each email goes out once (§9.6)", () =>
      Effect.gen(function* () {
        yield* skipUnlessThorough
        const smtp = yield* MailServer.startMailServer()
        const many = Array.from({ length: 60 }, (_, at) => `c${at}@x.example`)
        yield* createCustomers(...many)
        yield* announce(["ticker-changes"])
        yield* startSender(smtp.port)
        yield* startSender(smtp.port)
        yield* waitUntil(
          "that all emails are sent",
          Effect.map(readStatuses, (found) => found.every((status) => status === "sent")),
        )
        assert.sameMembers(smtp.received.flatMap(({ to }) => to), many)
        assert.strictEqual(smtp.received.length, many.length)
      }).pipe(Effect.scoped))

    it.effect("the service sends at most MAIL_PER_MINUTE emails per minute (§9.6)", () =>
      Effect.gen(function* () {
        const smtp = yield* MailServer.startMailServer()
        const times: Array<number> = []
        smtp.behaviour.data = () => {
          times.push(performance.now())
          return Promise.resolve(undefined)
        }
        yield* createCustomers("a@x.example", "b@x.example", "c@x.example")
        yield* announce(["ticker-changes"])
        yield* startSender(smtp.port, { MAIL_PER_MINUTE: "120" })
        yield* waitForStatuses("sent", "sent", "sent")
        const [first = 0, second = 0, third = 0] = times
        assert.isAtLeast(Math.min(second - first, third - second), 490)
      }).pipe(Effect.scoped))

    it.effect("the service signs in with the credentials of SMTP_URL, and logs neither address nor password (§9.6)", () =>
      Effect.gen(function* () {
        const smtp = yield* MailServer.startMailServer()
        yield* createCustomers("secret-customer@x.example")
        const logged: Array<string> = []
        const watched = Logger.layer([
          Logger.make(({ cause, message }) => logged.push(`${String(message)} ${String(cause)}`)),
        ])
        smtp.behaviour.rcpt = (address) => Promise.resolve({ code: 550, message: `${address} is unknown` })
        yield* announce(["ticker-changes"])
        const right = { SMTP_URL: `smtp://mailer:s3cret%3A%2F%40@127.0.0.1:${smtp.port}` }
        const wrong = { SMTP_URL: `smtp://mailer:hunter2@127.0.0.1:${smtp.port}` }
        yield* Effect.scoped(Effect.andThen(
          ServiceInstances.startServiceInstance({ ...fastSettings, ...wrong }, { port: 0 }, { watched }),
          waitUntil(
            "that the server refuses the password",
            Effect.sync(() => logged.some((line) => line.includes("EAUTH"))),
          ),
        ))
        yield* ServiceInstances.startServiceInstance({ ...fastSettings, ...right }, { port: 0 }, { watched })
        yield* waitForStatuses("failed")
        yield* waitUntil("that the failure is logged", Effect.sync(() => logged.some((line) => line.includes("550"))))
        assert.notMatch(logged.join("\n"), /secret-customer|s3cret|hunter2/)
      }).pipe(Effect.scoped))
  },
)
