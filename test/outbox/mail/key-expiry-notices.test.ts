/** Tests the warning emails sent before API keys expire (docs/operations/accounts.md). */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as Accounts from "../../../src/accounts/Accounts.ts"
import * as ApiKeys from "../../../src/accounts/keys/ApiKeyManagement.ts"
import * as Announcements from "../../../src/outbox/mail/Announcements.ts"
import { queueKeyExpiryNotices } from "../../../src/outbox/mail/KeyExpiryNotices.ts"
import { createCustomer, retryUntil } from "../../support/CustomerUsage.ts"
import * as MailServer from "../../support/MailServer.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"

/** Makes a key expire in `hours`, as if this expiry had been set `elapsed` hours ago. */
const setExpiry = Effect.fnUntraced(function* (key_id: number, hours: number, elapsed: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`update api_keys set expires_at = now() + make_interval(hours => ${hours}) where key_id = ${key_id}`
  yield* sql`update api_keys set expiry_set_at = now() - make_interval(hours => ${elapsed}) where key_id = ${key_id}`
})

/** Creates an account with a key that was created and last changed long ago and expires in `hours`. */
const createExpiringKey = Effect.fnUntraced(function* (name: string, hours: number, email: string | null = null) {
  const { key_id } = yield* createCustomer(name, { name: `key of ${name}` })
  yield* Accounts.updateAccount(name, { contact_email: email ?? `${name}@x.example` })
  yield* setExpiry(key_id, hours, 1_000)
  return key_id
})

const readOutbox = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly recipient: string; readonly days: string }>`
    select recipient, regexp_replace(entry_id, '.*:', '') as days from announcement_mails order by queued_at, recipient
  `
  return rows.map(({ days, recipient }) => `${recipient} ${days}`)
})

/** Runs the job that queues expiry notices. Returns the emails that it queued. */
const queueNow = Effect.gen(function* () {
  const before = (yield* readOutbox).length
  yield* queueKeyExpiryNotices
  return (yield* readOutbox).slice(before).toSorted()
})

const database = Layer.fresh(ServiceInstances.databaseWithKeysLayer)

layer(database, { excludeTestServices: true, timeout: "60 seconds" })("Before a key expires,", (it) => {
  it.effect("its account gets an email 14 days and 1 day before, once each (operations/accounts)", () =>
    Effect.gen(function* () {
      yield* createExpiringKey("far", 14 * 24 + 1)
      const near = yield* createExpiringKey("near", 14 * 24 - 1)
      yield* createExpiringKey("last", 23)
      const disabled = yield* createExpiringKey("disabled", 23)
      yield* ApiKeys.disableApiKey(disabled)
      yield* ApiKeys.revokeApiKey(yield* createExpiringKey("revoked", 23))
      yield* createExpiringKey("silent", 23, " ")
      yield* createExpiringKey("gone", -1)
      assert.deepStrictEqual(yield* queueNow, ["last@x.example 1d", "near@x.example 14d"])
      assert.deepStrictEqual(yield* queueNow, [])
      yield* setExpiry(near, 23, 1_000)
      assert.deepStrictEqual(yield* queueNow, ["near@x.example 1d"])
      assert.deepStrictEqual(yield* queueNow, [])
      assert.deepStrictEqual(yield* Announcements.readAnnouncementProgress, [
        { entry_id: null, queued: 3, sent: 0, failed: 0, unknown: 0 },
      ])
    }))

  it.effect("no warning is sent right after the expiry was chosen (operations/accounts)", () =>
    Effect.gen(function* () {
      const rotate = Effect.fnUntraced(function* (name: string, grace: Duration.Duration) {
        const { key_id } = yield* createCustomer(name)
        yield* Accounts.updateAccount(name, { contact_email: `${name}@x.example` })
        yield* ApiKeys.rotateApiKey(key_id, grace)
        return key_id
      })
      yield* rotate("hour", Duration.hours(1))
      yield* rotate("day", Duration.days(1))
      const week = yield* rotate("week", Duration.days(7))
      assert.deepStrictEqual(yield* queueNow, [])
      yield* setExpiry(week, 25, 6 * 24 - 1)
      assert.deepStrictEqual(yield* queueNow, [])
      yield* setExpiry(week, 23, 6 * 24 + 1)
      assert.deepStrictEqual(yield* queueNow, ["week@x.example 1d"])
    }))

  it.effect("a running service sends the email, which says which key expires and when (operations/accounts)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`delete from announcement_mails`
      const smtp = yield* MailServer.startMailServer()
      yield* createExpiringKey("served", 23)
      yield* ServiceInstances.startServiceInstance({
        SMTP_URL: `smtp://127.0.0.1:${smtp.port}`,
        MAIL_FROM: "Tickerline <notices@tickerline.example>",
        MAIL_PER_MINUTE: "6000",
      })
      yield* retryUntil(Effect.sync(() => smtp.received.length), (count) => count > 0)
      assert.deepStrictEqual(smtp.received.map(({ to }) => to), [["served@x.example"]])
      const raw = (smtp.received[0]?.raw ?? "").replaceAll(/=\r\n/g, "").replaceAll(/\r\n/g, " ")
      assert.match(
        raw,
        /The API key "key of served" \(tl_live_\w{4}.{1,9}\) of the account served expires on \d{4}-\d\d-\d\d/,
      )
      assert.match(raw, /It has never been used\./)
    }).pipe(Effect.scoped))
})
