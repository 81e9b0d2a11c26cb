/**
 * Tests what happens to customer emails when the processes that send them are killed, paused or shut down: §9.6
 * (notification).
 */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import * as MailServer from "../../support/MailServer.ts"
import * as Processes from "../../support/Processes.ts"
import { startServiceInstance } from "../../support/ServiceInstances.ts"
import * as Service from "../../support/Service.ts"

// @module-tag slow

const { endProcess, waitForOutput, startCommandProcess } = Processes

const setUp = Effect.gen(function* () {
  const url = yield* Service.copyMigratedDatabase
  const smtp = yield* MailServer.startMailServer()
  const settings = {
    BASE_URL: "https://api.example.com",
    SMTP_URL: `smtp://127.0.0.1:${smtp.port}`,
    MAIL_FROM: "Tickerline <notices@tickerline.example>",
    MAIL_PER_MINUTE: "6000",
    MAIL_RETRY_AFTER: "100 millis",
  }
  const environment = { DATABASE_URL: Redacted.value(url), ...settings }
  const sql = databaseClientLayer({ url, applicationName: "test" })
  const serve = Effect.gen(function* () {
    const service = yield* startCommandProcess(["serve"], { ...environment, PORT: String(yield* chooseFreePort) })
    yield* waitForOutput(service, /Tickerline is running/)
    return service
  })
  /** Starts a service in this process, for tests that do not send it signals. */
  const serveInProcess = Effect.flatMap(
    Layer.build(Layer.merge(sql, NodeCrypto.layer)),
    (context) => Effect.provide(startServiceInstance(settings), context),
  )
  const command = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
    const ended = yield* runCommandInProcess(args, environment)
    assert.strictEqual(ended.code, 0, ended.err)
    return ended.out
  })
  /** Asserts that the output of `announcements` eventually matches `text`. */
  const assertProgress = Effect.fnUntraced(function* (text: RegExp) {
    const printed = command("announcements").pipe(
      Effect.repeat({ until: (out) => text.test(out), schedule: Schedule.spaced("100 millis"), times: 600 }),
    )
    assert.match(yield* printed, text)
  })
  return { smtp, serve, serveInProcess, command, assertProgress, sql }
})

const waitUntil = (what: string, holds: () => boolean) =>
  Effect.sync(holds).pipe(
    Effect.filterOrFail((yes) => yes, () => `${what} did not happen`),
    Effect.retry({ schedule: Schedule.spaced("50 millis"), times: 1200 }),
  )

layer(NodeServices.layer, { excludeTestServices: true, timeout: "180 seconds" })("For announcements,", (it) => {
  it.effect("the announce command previews emails, queues them once and reports progress (§9.6)", () =>
    Effect.gen(function* () {
      const { command, sql } = yield* setUp
      yield* command("accounts", "create", "acme", "--tier", "pro", "--email", "ops@acme.example")
      yield* command("accounts", "create", "twin", "--tier", "pro", "--email", "OPS@acme.example")
      yield* command("accounts", "create", "quiet", "--tier", "pro", "--email", "quiet@x.example")
      yield* command("accounts", "create", "silent", "--tier", "pro")
      yield* command("accounts", "news", "quiet", "off")
      const rows = Effect.map(
        Effect.provide(Effect.flatMap(SqlClient.SqlClient, (sql) => sql`select from announcement_mails`), sql),
        (found) => found.length,
      )

      // Makes the accounts newer than any changelog entry, regardless of when the test runs.
      yield* Effect.provide(
        Effect.flatMap(SqlClient.SqlClient, (sql) => sql`update accounts set created_at = '2100-01-01'`),
        sql,
      )
      const entries = ["--entry", "ticker-changes", "--entry", "fixed-offset"]
      assert.match(
        yield* command("announce", ...entries),
        /ticker-changes: 0 emails queued; 2 only of accounts that are newer than the entry \(--include-new-accounts includes them\); 1 account without a contact address/,
      )
      const dry = yield* command("announce", ...entries, "--include-new-accounts", "--dry-run")
      assert.match(dry, /ticker-changes: 1 email would be queued; 1 opted out; 1 account without a contact address/)
      assert.match(dry, /fixed-offset: 2 emails would be queued/)
      assert.match(dry, /To: ops@acme\.example/)
      assert.match(dry, /Subject: Tickerline breaking change: Every datetime/)
      assert.match(dry, /https:\/\/api\.example\.com\/v1\/docs/)
      assert.notMatch(dry, /OPS@/)
      assert.strictEqual(yield* rows, 0)

      assert.match(yield* command("announce", ...entries, "--include-new-accounts"), /fixed-offset: 2 emails queued/)
      assert.match(
        yield* command("announce", ...entries, "--include-new-accounts"),
        /fixed-offset: 0 emails queued; 2 queued before/,
      )
      assert.strictEqual(yield* rows, 3)
      assert.match(yield* command("announcements"), /fixed-offset\t2\t0\t0\t0/)
    }).pipe(Effect.scoped))

  it.effect("the commands refuse unknown entries, invalid addresses and invalid settings with advice (§9.6)", () =>
    Effect.gen(function* () {
      const { DATABASE_URL } = { DATABASE_URL: Redacted.value(yield* Service.copyMigratedDatabase) }
      const entry = yield* runCommandInProcess(["announce", "--entry", "ticker-change"], { DATABASE_URL })
      assert.strictEqual(entry.code, 1)
      assert.match(entry.err, /no entry ticker-change\. It has: .*ticker-changes/)
      const address = ["accounts", "create", "x", "--tier", "pro", "--email", "a@x.example, b@x.example"]
      const refused = yield* runCommandInProcess(address, { DATABASE_URL })
      assert.strictEqual(refused.code, 2)
      assert.match(refused.err + refused.out, /must be an email address/)
      for (
        const [settings, expected] of [
          [{ SMTP_URL: "mail.example:25" }, /SMTP_URL/],
          [{ SMTP_URL: "smtp://user:hunter2@mail.example?x=1" }, /SMTP_URL/],
          [{ SMTP_URL: "smtp://mail.example" }, /MAIL_FROM/],
          [{ SMTP_URL: "smtp://mail.example", MAIL_FROM: "me" }, /MAIL_FROM/],
          [{ SMTP_URL: "smtp://mail.example", MAIL_FROM: "a@b.example", MAIL_PER_MINUTE: "0" }, /MAIL_PER_MINUTE/],
        ] as const
      ) {
        const ended = yield* runCommandInProcess(["serve"], {
          DATABASE_URL,
          PORT: String(yield* chooseFreePort),
          ...settings,
        })
        assert.strictEqual(ended.code, 1, JSON.stringify(settings))
        assert.match(ended.err, expected)
        assert.notInclude(ended.err, "hunter2")
      }
    }).pipe(Effect.scoped))

  it.effect("the next process sends an email once after kill -9 in the middle of it (§9.6)", () =>
    Effect.gen(function* () {
      const { command, serve, serveInProcess, smtp } = yield* setUp
      yield* command("accounts", "create", "acme", "--tier", "pro", "--email", "ops@acme.example")
      let attempts = 0
      smtp.behaviour.rcpt = () => {
        attempts += 1
        return new Promise(() => {})
      }
      yield* command("announce", "--entry", "ticker-changes", "--include-new-accounts")
      const service = yield* serve
      yield* waitUntil("that the email is being sent", () => attempts === 1)
      yield* endProcess(service, "SIGKILL")
      smtp.behaviour.rcpt = () => Promise.resolve(undefined)
      yield* serveInProcess
      yield* waitUntil("that the email is delivered", () => smtp.received.length === 1)
      assert.match(yield* command("announcements"), /ticker-changes\t\d\t\d\t0\t0/)
      assert.strictEqual(smtp.received.length, 1)
    }).pipe(Effect.scoped))

  it.effect("an email is not sent again automatically after kill -9 between its end and the reply (§9.6)", () =>
    Effect.gen(function* () {
      const { assertProgress, command, serve, serveInProcess, smtp } = yield* setUp
      yield* command("accounts", "create", "acme", "--tier", "pro", "--email", "ops@acme.example")
      yield* command("accounts", "create", "other", "--tier", "pro", "--email", "other@x.example")
      let seen = 0
      smtp.behaviour.data = () => {
        seen += 1
        return new Promise(() => {})
      }
      yield* command("announce", "--entry", "ticker-changes", "--include-new-accounts")
      const service = yield* serve
      yield* waitUntil("that the mail was sent", () => seen === 1)
      yield* endProcess(service, "SIGKILL")
      smtp.behaviour.data = () => Promise.resolve(undefined)
      // Two services take over. The interrupted email keeps the status `unknown`, and the second email is sent.
      yield* serveInProcess
      yield* serveInProcess
      yield* waitUntil("that the second email is delivered", () => smtp.received.length === 1)
      yield* assertProgress(/ticker-changes\t0\t1\t0\t1/)
      assert.match(yield* command("announcements", "problems"), /unknown\t1\tThe sender stopped/)
      assert.strictEqual(smtp.received.length, 1)
      assert.match(yield* command("announcements", "retry", "unknown"), /1 email queued again/)
      yield* waitUntil("that the email is delivered after the retry", () => smtp.received.length === 2)
    }).pipe(Effect.scoped))

  it.effect("a suspended process is replaced, and sends nothing when it resumes (§9.6)", () =>
    Effect.gen(function* () {
      const { command, serve, smtp } = yield* setUp
      yield* command("accounts", "create", "acme", "--tier", "pro", "--email", "ops@acme.example")
      let attempts = 0
      smtp.behaviour.rcpt = () => {
        attempts += 1
        return attempts === 1 ? new Promise(() => {}) : Promise.resolve(undefined)
      }
      yield* command("announce", "--entry", "ticker-changes", "--include-new-accounts")
      const first = yield* serve
      yield* waitUntil("that the first process is sending the email", () => attempts === 1)
      first.child.kill("SIGSTOP")
      const second = yield* serve
      yield* waitUntil("that the second process delivers the email", () => smtp.received.length === 1)
      first.child.kill("SIGCONT")
      yield* Processes.waitForOutput(first, /This process no longer runs the job mail/)
      yield* command("announce", "--entry", "fixed-offset", "--include-new-accounts")
      yield* waitUntil("that the second process sends the next email", () => smtp.received.length === 2)
      assert.match(Processes.combinedOutput(second), /This process now runs the job mail/)
      assert.match(yield* command("announcements"), /ticker-changes\t0\t1\t0\t0/)
    }).pipe(Effect.scoped))

  it.effect("an orderly shutdown waits for the server's reply, and the next process sends the other emails (§9.6)", () =>
    Effect.gen(function* () {
      const { assertProgress, command, serve, serveInProcess, smtp } = yield* setUp
      yield* command("accounts", "create", "acme", "--tier", "pro", "--email", "ops@acme.example")
      yield* command("accounts", "create", "other", "--tier", "pro", "--email", "other@x.example")
      yield* command("announce", "--entry", "ticker-changes", "--include-new-accounts")
      const { promise, resolve } = Promise.withResolvers<undefined>()
      let seen = 0
      smtp.behaviour.data = () => {
        seen += 1
        return promise
      }
      const service = yield* serve
      yield* waitUntil("that the mail was sent", () => seen === 1)
      service.child.kill("SIGTERM")
      resolve(undefined)
      assert.strictEqual((yield* Effect.promise(() => service.ended)).code, 0)
      // The process may handle the signal only after it has sent both emails.
      assert.match(yield* command("announcements"), /ticker-changes\t(1\t1|0\t2)\t0\t0/)
      yield* serveInProcess
      yield* waitUntil("that both emails are delivered", () => smtp.received.length === 2)
      yield* assertProgress(/ticker-changes\t0\t2\t0\t0/)
      assert.strictEqual(seen, 2)
    }).pipe(Effect.scoped))
})
