/**
 * Tests webhook messages from event to receiver: which messages are queued, the order in which they are sent, and when
 * they are deleted.
 */
import { assert, layer } from "@effect/vitest"
import { Clock, ConfigProvider, Duration, Effect, Layer, Logger, Option, Schedule, Schema } from "effect"
import { SqlClient } from "effect/sql"
import packageJson from "../../../package.json" with { type: "json" }
import * as Keys from "../../../src/accounts/keys/ApiKeyManagement.ts"
import { createAccount } from "../../../src/accounts/Accounts.ts"
import { changelogEntries } from "../../../src/api/changelog/Changelog.ts"
import { DatabaseReader } from "../../../src/postgres/DatabaseReader.ts"
import { ChangeFeedReader } from "../../../src/query/history/ChangeFeed.ts"
import { queueAnnouncements } from "../../../src/outbox/mail/Announcements.ts"
import type { Tier } from "../../../src/contract/rules/EndpointAnnotations.ts"
import { queueDatasetEvents } from "../../../src/outbox/webhooks/DatasetEvents.ts"
import { makeDnsResolver, makeWebhookDelivery } from "../../../src/outbox/webhooks/HttpDelivery.ts"
import * as Endpoints from "../../../src/outbox/webhooks/WebhookEndpoints.ts"
import { deleteOldWebhookMessages, queueKeyExpiryEvents } from "../../../src/outbox/webhooks/WebhookRetention.ts"
import { makeWebhookSender, retryDelays } from "../../../src/outbox/webhooks/WebhookSenderJob.ts"
import { maxConcurrentDeliveries } from "../../../src/outbox/webhooks/DeliveryScheduler.ts"
import { AllowedHostsConfig } from "../../../src/outbox/webhooks/WebhookSettings.ts"
import { makeReportedShares } from "../../support/ReportedShares.ts"
import * as Service from "../../support/Service.ts"
import * as Receivers from "../../support/WebhookReceivers.ts"

const settings = ConfigProvider.layerAdd(
  ConfigProvider.fromUnknown({ WEBHOOKS_ALLOWED_HOSTS: "127.0.0.1" }),
  { asPrimary: true },
)

const services = ChangeFeedReader.layer.pipe(
  Layer.provide(DatabaseReader.layer),
  Layer.provideMerge(Service.layer),
  Layer.provideMerge(settings),
  Layer.provideMerge(Logger.layer([])),
)

const Envelope = Schema.fromJsonString(
  Schema.Struct({ type: Schema.String, timestamp: Schema.String, data: Schema.Record(Schema.String, Schema.Json) }),
)
const parseBody = Schema.decodeUnknownSync(Envelope)

const newsItem = (id: string, ticker: string) => ({
  id,
  ticker,
  form_type: "8-K",
  filed_at: "2026-03-02",
  created_at: "2026-03-02 08:00:00",
  last_updated: "2026-03-02 08:00:00",
})

const report = {
  report_id: "w1",
  ticker: "WHA",
  gain_percentage: "1",
  report_text: "text",
  tldr_text: "text",
  created_at: "2026-03-02T08:00:00Z",
  last_updated: "2026-03-02T08:00:00Z",
}

let accounts = 0

/** Creates an account with a webhook endpoint at the URL. */
const createEndpoint = Effect.fnUntraced(
  function* (url: string, more: Partial<Endpoints.NewWebhookEndpoint> = {}, tier: Tier = "ultimate") {
    const sql = yield* SqlClient.SqlClient
    const name = more.account ?? `webhooks ${accounts += 1}`
    if (more.account === undefined) yield* createAccount({ name, tier, email: null, prepaid: false })
    const all = { account: name, url, events: null, datasets: null, tickers: null }
    const { endpoint_id } = yield* Endpoints.createWebhookEndpoint({ ...all, ...more, account: name })
    const [account] = yield* sql<{ readonly account_id: bigint }>`select account_id from accounts where name = ${name}`
    const id = Number(endpoint_id)
    return {
      id,
      account: name,
      /** Queues an event for the account. Returns the number of queued messages. */
      enqueue: (n: number) =>
        Effect.map(
          sql<{ readonly messages: bigint }>`
            select enqueue_webhook_event(
              ${Number(account?.account_id)}, 'budget.warning', json_build_object('n', ${n}::int)
            ) as messages
          `,
          ([queued]) => Number(queued?.messages),
        ),
      /** Reads all messages of the endpoint in order, including their bodies. */
      messages: Effect.map(
        sql<{ readonly type: string; readonly body: string; readonly status: string }>`
          select type, body, status from webhook_messages where endpoint_id = ${id} order by position
        `,
        (rows) => rows.map(({ body, ...row }) => ({ ...row, data: parseBody(body).data })),
      ),
      statuses: Effect.map(
        sql<{ readonly status: string }>`
          select status from webhook_messages where endpoint_id = ${id} order by position
        `,
        (rows) => rows.map(({ status }) => status).join(),
      ),
      /** Makes messages that wait for their next attempt due immediately. */
      makeDue: sql`update webhook_messages set next_attempt_at = now() where endpoint_id = ${id} and attempts > 0`,
      disabledReason: Effect.map(
        Endpoints.listWebhookEndpoints(),
        (found) => found.find(({ endpoint_id }) => Number(endpoint_id) === id)?.disabled_reason ?? null,
      ),
    }
  },
)

/**
 * Creates a sender whose runs are triggered by the tests. It stops when the scope closes. Start a receiver that hangs
 * only after the sender: the receiver is then closed first, so the sender does not wait for it.
 */
const makeSender = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const deliver = makeWebhookDelivery(yield* AllowedHostsConfig, makeDnsResolver())
  const run = yield* makeWebhookSender(deliver, { isHeld: () => true, holderCondition: sql`true` })
  return {
    run,
    /** Repeats the run until the condition is true. */
    runUntil: <E, R>(condition: Effect.Effect<boolean, E, R>) =>
      Effect.andThen(run, condition).pipe(
        Effect.repeat({ until: (holds) => holds, schedule: Schedule.spaced("20 millis") }),
      ),
  }
})

const numbersOf = (received: ReadonlyArray<Receivers.ReceivedWebhook>) =>
  received.map(({ body }) => parseBody(body).data["n"]).join()

layer(services, { excludeTestServices: true, timeout: "120 seconds" })("Webhook messages", (it) => {
  it.effect("of one endpoint are sent for a few seconds before others get their turn (operations/webhooks)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { enqueue, statuses } = yield* createEndpoint("https://example.com/")
      yield* Effect.forEach([1, 2, 3, 4], enqueue)
      const live = yield* Clock.Clock
      let passed = 0n
      const clock: Clock.Clock = Object.assign(Object.create(live), {
        monotonicTimeNanosUnsafe: () => live.monotonicTimeNanosUnsafe() + passed,
      })
      // Each attempt advances this clock by two seconds.
      const deliver = () =>
        Effect.sync(() => {
          passed += 2_000_000_000n
          return { _tag: "Delivered" as const, status: 204 }
        })
      const runOnce = (expected: string) =>
        Effect.gen(function* () {
          yield* yield* makeWebhookSender(deliver, { isHeld: () => true, holderCondition: sql`true` })
          yield* Effect.repeat(statuses, {
            until: (found) => found.startsWith(expected),
            schedule: Schedule.spaced("20 millis"),
          })
          // Before it stops, a sender waits until its endpoints' turns have ended.
        }).pipe(Effect.scoped, Effect.provideService(Clock.Clock, clock), Effect.andThen(statuses))
      assert.strictEqual(yield* runOnce("delivered,delivered,delivered"), "delivered,delivered,delivered,pending")
      assert.notInclude(yield* runOnce("delivered,delivered,delivered,delivered"), "pending")
    }))

  it.effect("are sent in order, and a receiver that fails or hangs delays only its own (operations/webhooks)", () =>
    Effect.gen(function* () {
      const { runUntil } = yield* makeSender
      const failing = yield* Receivers.startWebhookReceiver
      const hanging = yield* Receivers.startWebhookReceiver
      const healthy = yield* Receivers.startWebhookReceiver
      failing.behaviour.respond = () => 500
      hanging.behaviour.respond = Receivers.neverRespond
      const endpoints = yield* Effect.forEach([failing, hanging, healthy], ({ url }) => createEndpoint(url))
      yield* Effect.forEach([1, 2, 3], (n) => Effect.forEach(endpoints, ({ enqueue }) => enqueue(n)))
      yield* runUntil(Effect.sync(() => healthy.received.length === 3 && failing.received.length === 1))
      assert.strictEqual(numbersOf(healthy.received), "1,2,3")
      assert.strictEqual(hanging.received.length, 1)

      failing.behaviour.respond = () => 200
      yield* endpoints[0]?.makeDue ?? Effect.void
      yield* runUntil(Effect.sync(() => failing.received.length === 4))
      assert.strictEqual(numbersOf(failing.received), "1,1,2,3")
      const ids = failing.received.map((webhook) => Receivers.getOneHeader(webhook, "webhook-id"))
      assert.strictEqual(new Set(ids).size, 3)
    }).pipe(Effect.scoped))

  it.effect("reach a healthy receiver while three accounts have twenty that hang each (operations/webhooks)", () =>
    Effect.gen(function* () {
      const { runUntil } = yield* makeSender
      const hanging = yield* Receivers.startWebhookReceiver
      const healthy = yield* Receivers.startWebhookReceiver
      hanging.behaviour.respond = Receivers.neverRespond
      for (let n = 0; n < 3; n += 1) {
        const { account, enqueue } = yield* createEndpoint(hanging.url)
        yield* Effect.forEach(Array.from({ length: 19 }), () => createEndpoint(hanging.url, { account }))
        yield* enqueue(1)
      }
      yield* runUntil(Effect.sync(() => hanging.received.length > 0))
      const { enqueue } = yield* createEndpoint(healthy.url)
      yield* enqueue(1)
      yield* runUntil(Effect.sync(() => healthy.received.length === 1))
      assert.isAtMost(hanging.received.length, 3 * maxConcurrentDeliveries.perAccount)
    }).pipe(Effect.scoped))

  it.effect("are signed with both secrets during a grace period, which no other rotation shortens (operations/webhooks)", () =>
    Effect.gen(function* () {
      const receiver = yield* Receivers.startWebhookReceiver
      const { id } = yield* createEndpoint(receiver.url)
      const countSignatures = Effect.gen(function* () {
        yield* Endpoints.testWebhookEndpoint(id)
        const last = receiver.received.at(-1)
        assert.isDefined(last)
        return Receivers.getOneHeader(last, "webhook-signature").split(" ").length
      })
      const rotation = { grace: Duration.hours(24), endPrevious: false }
      assert.strictEqual(yield* countSignatures, 1)
      yield* Endpoints.rotateWebhookSecret(id, rotation)
      assert.strictEqual(yield* countSignatures, 2)
      const refused = yield* Effect.flip(Endpoints.rotateWebhookSecret(id, { ...rotation, grace: Duration.zero }))
      assert.match(refused.message, /still signs until \d{4}-\d\d-\d\dT.*add --end-previous/)
      assert.strictEqual(yield* countSignatures, 2)
      yield* Endpoints.rotateWebhookSecret(id, { grace: Duration.zero, endPrevious: true })
      assert.strictEqual(yield* countSignatures, 1)
      yield* Endpoints.rotateWebhookSecret(id, rotation)
    }).pipe(Effect.scoped))

  it.effect("become dead letters after the last attempt, and are sent again with the same ids (operations/webhooks)", () =>
    Effect.gen(function* () {
      const receiver = yield* Receivers.startWebhookReceiver
      receiver.behaviour.respond = (webhook) => numbersOf([webhook]) === "1" ? 500 : 200
      const { enqueue, id, makeDue, statuses } = yield* createEndpoint(receiver.url)
      yield* Effect.forEach([1, 2], enqueue)
      const { runUntil } = yield* makeSender
      const attempts = retryDelays.length + 1
      yield* runUntil(Effect.andThen(makeDue, Effect.map(statuses, (found) => found === "dead,delivered")))
      assert.strictEqual(numbersOf(receiver.received), `${"1,".repeat(attempts)}2`)

      receiver.behaviour.respond = () => 200
      const selection = {
        messageId: Option.none(),
        endpointId: Option.some(id),
        since: Option.none(),
        includeDelivered: false,
      }
      assert.deepStrictEqual(yield* Endpoints.replayWebhookMessages(selection), { replayed: 1, found: 1, disabled: [] })
      yield* runUntil(Effect.map(statuses, (found) => found === "delivered,delivered"))
      const ids = receiver.received.map((webhook) => Receivers.getOneHeader(webhook, "webhook-id"))
      assert.strictEqual(ids.at(-1), ids[0])

      const past = { ...selection, since: Option.some("2020-01-01T00:00:00Z"), includeDelivered: true }
      assert.strictEqual((yield* Endpoints.replayWebhookMessages(past)).replayed, 2)
      const future = { ...past, since: Option.some("2999-01-01T00:00:00Z") }
      assert.strictEqual((yield* Endpoints.replayWebhookMessages(future)).found, 0)
    }).pipe(Effect.scoped))

  it.effect("are sent again if a sender stops between an attempt and its result (operations/webhooks)", () =>
    Effect.gen(function* () {
      const first = yield* makeSender
      const receiver = yield* Receivers.startWebhookReceiver
      receiver.behaviour.respond = Receivers.neverRespond
      const { enqueue, makeDue, statuses } = yield* createEndpoint(receiver.url)
      yield* enqueue(1)
      yield* first.runUntil(Effect.sync(() => receiver.received.length === 1))
      receiver.behaviour.respond = () => 200
      const second = yield* makeSender
      // The first sender has claimed the message. Other processes do not send it until the claim expires, after which
      // the first sender must be dead.
      yield* second.run
      assert.strictEqual(yield* statuses, "pending")
      assert.strictEqual(receiver.received.length, 1)
      yield* makeDue
      yield* second.runUntil(Effect.map(statuses, (found) => found === "delivered"))
      const ids = receiver.received.map((webhook) => Receivers.getOneHeader(webhook, "webhook-id"))
      assert.strictEqual(ids[0], ids[1])
    }).pipe(Effect.scoped))

  it.effect("wait while their endpoint is disabled: by 410, by three dead letters or by an operator (operations/webhooks)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const receiver = yield* Receivers.startWebhookReceiver
      receiver.behaviour.respond = () => 410
      const { disabledReason, enqueue, id, makeDue, statuses } = yield* createEndpoint(receiver.url)
      yield* Effect.forEach([1, 2, 3, 4], enqueue)
      const { run, runUntil } = yield* makeSender
      yield* runUntil(Effect.map(disabledReason, (reason) => reason === "The receiver answered 410"))
      assert.strictEqual(yield* enqueue(5), 0)
      yield* run
      assert.strictEqual(receiver.received.length, 1)

      receiver.behaviour.respond = () => 500
      yield* Endpoints.enableWebhookEndpoint(id)
      const skipAttempts = sql`
        update webhook_messages set attempts = attempts_before + ${retryDelays.length}, next_attempt_at = now()
        where endpoint_id = ${id} and status = 'pending' and last_attempt_at is not null and http_status is not null
      `
      yield* runUntil(
        Effect.andThen(skipAttempts, Effect.map(disabledReason, (reason) => reason?.startsWith("3 messages") === true)),
      )
      assert.strictEqual(yield* statuses, "dead,dead,dead,pending")

      receiver.behaviour.respond = () => 200
      yield* Endpoints.enableWebhookEndpoint(id)
      yield* Endpoints.disableWebhookEndpoint(id, "maintenance")
      yield* run
      assert.strictEqual(yield* disabledReason, "maintenance")
      assert.strictEqual(yield* statuses, "dead,dead,dead,pending")
      yield* Endpoints.enableWebhookEndpoint(id)
      yield* makeDue
      yield* runUntil(Effect.map(statuses, (found) => found === "dead,dead,dead,delivered"))
    }).pipe(Effect.scoped))

  it.effect("keep counting attempts, but start the delays over, when they are queued again (operations/webhooks)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const receiver = yield* Receivers.startWebhookReceiver
      receiver.behaviour.respond = () => 500
      const { enqueue, id, makeDue } = yield* createEndpoint(receiver.url)
      yield* enqueue(1)
      const { runUntil } = yield* makeSender
      const state = Effect.map(
        sql<{ readonly attempts: number; readonly status: string; readonly delay: number }>`
          select attempts, status, extract(epoch from next_attempt_at - last_attempt_at)::float8 as delay
          from webhook_messages where endpoint_id = ${id}
        `,
        ([row]) => row ?? assert.fail("no message"),
      )
      const attempt = Effect.fnUntraced(function* (attempts: number) {
        yield* runUntil(Effect.map(
          sql`
          select from webhook_messages where endpoint_id = ${id} and attempts = ${attempts}
            and (status = 'dead' or next_attempt_at - last_attempt_at <> interval '1 minute') and http_status = 500
        `,
          (rows) => rows.length === 1,
        ))
        return yield* state
      })
      const first = yield* attempt(1)
      yield* makeDue
      const second = yield* attempt(2)
      assert.isAbove(second.delay, first.delay)
      yield* Endpoints.disableWebhookEndpoint(id, "test")
      yield* Endpoints.enableWebhookEndpoint(id)
      assert.strictEqual((yield* state).attempts, 2)
      const third = yield* attempt(3)
      assert.isBelow(third.delay, second.delay)
      yield* sql`update webhook_messages set status = 'dead', finished_at = now() where endpoint_id = ${id}`
      yield* Endpoints.replayWebhookMessages({
        messageId: Option.none(),
        endpointId: Option.some(id),
        since: Option.none(),
        includeDelivered: false,
      })
      assert.deepInclude(yield* state, { attempts: 3, status: "pending" })
      assert.isBelow((yield* attempt(4)).delay, second.delay)
    }).pipe(Effect.scoped))

  it.effect("are limited to 10,000 per endpoint, which is then disabled (operations/webhooks)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { disabledReason, enqueue, id } = yield* createEndpoint("https://example.com/")
      yield* sql`
        insert into webhook_messages (endpoint_id, type, body) select ${id}, 'x', '{}' from generate_series(1, 9999)
      `
      assert.strictEqual(yield* enqueue(1), 1)
      assert.isNull(yield* disabledReason)
      assert.strictEqual(yield* enqueue(2), 0)
      assert.strictEqual(yield* disabledReason, "10,000 messages were waiting")
      yield* sql`update webhook_messages set status = 'dead', finished_at = now() where endpoint_id = ${id}`
      yield* sql`
        insert into webhook_messages (endpoint_id, type, body) select ${id}, 'x', '{}' from generate_series(1, 9990)
      `
      const selection = {
        messageId: Option.none(),
        endpointId: Option.some(id),
        since: Option.none(),
        includeDelivered: false,
      }
      yield* Endpoints.disableWebhookEndpoint(id, "test")
      assert.deepStrictEqual(yield* Endpoints.replayWebhookMessages(selection), {
        replayed: 10,
        found: 10_000,
        disabled: [BigInt(id)],
      })
      yield* Endpoints.deleteWebhookEndpoint(id)
      assert.deepStrictEqual(yield* sql`select from webhook_messages where endpoint_id = ${id}`, [])
    }))

  it.effect("are deleted thirty days after they were finished (operations/webhooks)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { id, statuses } = yield* createEndpoint("https://example.com/")
      yield* Endpoints.disableWebhookEndpoint(id, "test")
      yield* sql`update webhook_endpoints set disabled_at = now() - interval '31 days' where endpoint_id = ${id}`
      yield* sql`
        insert into webhook_messages (endpoint_id, type, body, status, created_at, finished_at)
        select ${id}, 'x', '{}', status, now() - age, case when status <> 'pending' then now() - age end
        from unnest(array['delivered', 'dead', 'pending']) as status,
          unnest(array[interval '29 days', interval '31 days']) as age
      `
      yield* deleteOldWebhookMessages
      assert.strictEqual((yield* statuses).split(",").toSorted().join(), "dead,delivered,pending")
    }))
})

layer(services, { excludeTestServices: true, timeout: "120 seconds" })("A webhook event", (it) => {
  it.effect("reports a change of a key in the transaction that makes it, once per change (operations/webhooks)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account, id, messages } = yield* createEndpoint("https://example.com/", { events: ["key.*"] })
      yield* createEndpoint("https://example.com/", { account, events: ["dataset.changed"] })
      const soon = new Date(Date.now() + Duration.toMillis(Duration.days(3))).toISOString().slice(0, 10)
      yield* Keys.createApiKey({ account, name: "first", expires: soon, endpoints: null, networks: null })
      const [key] = yield* sql<{ readonly key_id: bigint }>`select key_id from api_keys where name = 'first'`
      const keyId = Number(key?.key_id)
      yield* queueKeyExpiryEvents
      yield* queueKeyExpiryEvents
      yield* Keys.disableApiKey(keyId)
      yield* Keys.disableApiKey(keyId)
      yield* Keys.enableApiKey(keyId)
      yield* Keys.rotateApiKey(keyId, Duration.hours(1))
      yield* Keys.revokeApiKey(keyId)
      yield* Keys.revokeApiKey(keyId)
      const rolledBack = sql.withTransaction(Effect.andThen(
        Keys.createApiKey({ account, name: "second", expires: null, endpoints: null, networks: null }),
        Effect.fail("undo"),
      ))
      assert.strictEqual(yield* Effect.flip(rolledBack), "undo")

      const found = yield* messages
      assert.deepStrictEqual(found.map(({ type }) => type), [
        "key.created",
        "key.expiring",
        "key.disabled",
        "key.enabled",
        "key.rotated",
        "key.revoked",
      ])
      assert.deepInclude(found[0]?.data, { key_id: keyId, name: "first", replaced_key_id: null })
      assert.match(String(found[0]?.data["expires_at"]), /^\d{4}-\d\d-\d\dT(23|00):00:00-05:00$/)
      assert.strictEqual(found[4]?.data["replaced_key_id"], keyId)
      assert.notStrictEqual(found[4]?.data["key_id"], keyId)
      assert.notMatch(JSON.stringify(found), /tl_live_[^"]{10}/)
      const deliveries = yield* Endpoints.listWebhookDeliveries(id, { status: Option.none(), limit: 2 })
      assert.deepStrictEqual(deliveries.map(({ type }) => type), ["key.revoked", "key.rotated"])
    }))

  it.effect("reports an announced deprecation once (operations/webhooks)", () =>
    Effect.gen(function* () {
      const deprecation = changelogEntries.find(({ type }) => type === "deprecated")
      assert.isDefined(deprecation)
      const { account, messages } = yield* createEndpoint("https://example.com/", { events: ["deprecation.announced"] })
      const announce = queueAnnouncements({
        baseUrl: Option.none(),
        unsubscribeAddress: Option.none(),
        entryIds: [deprecation.id],
        version: packageJson.version,
        includeNewAccounts: true,
        isDryRun: false,
      })
      yield* announce
      const { messages: ofLater } = yield* createEndpoint("https://example.com/", { account })
      yield* announce
      const found = yield* messages
      assert.deepStrictEqual(found.map(({ type }) => type), ["deprecation.announced"])
      assert.deepInclude(found[0]?.data, { entry_id: deprecation.id, sunset: deprecation.sunset })
      assert.deepStrictEqual(yield* ofLater, [])
    }))

  it.effect("reports each transaction that changed rows which the account may read (operations/webhooks)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* Service.insertRows("news", newsItem("w0", "WHA"))
      const all = yield* createEndpoint("https://example.com/", { events: ["dataset.*"] })
      const one = yield* createEndpoint("https://example.com/", {
        events: ["dataset.changed"],
        datasets: ["news"],
        tickers: ["WHB", "WHC"],
      })
      const basic = yield* createEndpoint("https://example.com/", { events: null }, "basic")
      const many = Array.from({ length: 120 }, (_, n) => newsItem(`w${n + 10}`, `WI${n}`))
      yield* sql.withTransaction(Effect.gen(function* () {
        yield* Service.insertRows("news", newsItem("w1", "WHA"), newsItem("w2", "WHB"))
        yield* Service.insertRows("historical_float_pro", makeReportedShares("WHA", "2026-02-01", "1"))
      }))
      yield* Service.insertRows("news", ...many)
      yield* sql`delete from news where id = 'w0'`
      yield* Service.insertRows("research_reports", report)
      // A page size of 7 changes makes transactions span pages.
      yield* queueDatasetEvents("https://api.example.com", 7)
      yield* queueDatasetEvents("https://api.example.com")

      const found = yield* all.messages
      assert.deepStrictEqual(found.map(({ data }) => [data["dataset"], data["changes"], data["has_more_tickers"]]), [
        ["news", { added: 2, corrected: 0, removed: 0 }, false],
        ["historical_float_pro", { added: 1, corrected: 0, removed: 0 }, false],
        ["news", { added: 120, corrected: 0, removed: 0 }, true],
        ["news", { added: 0, corrected: 0, removed: 1 }, false],
        ["research_reports", { added: 1, corrected: 0, removed: 0 }, false],
      ])
      const selected = yield* one.messages
      assert.deepStrictEqual(selected.map(({ data }) => data["tickers"]), [["WHB"]])
      assert.deepStrictEqual(selected.map(({ data }) => data["changes"]), [{ added: 1, corrected: 0, removed: 0 }])
      // The `basic` tier has no access to research reports.
      assert.deepStrictEqual((yield* basic.messages).map(({ data }) => data["dataset"]), [
        "news",
        "historical_float_pro",
        "news",
        "news",
      ])

      // The URL returns exactly the changes that the message reports. Reading on from the message's cursor returns the
      // later changes.
      const [first] = selected
      const url = String(first?.data["url"])
      assert.match(url, /^https:\/\/api\.example\.com\/v1\/changes\?dataset=news&after=/)
      const { ultimate } = yield* Service.TestKeys
      const { body, status } = yield* Service.requestJson(url.replace("https://api.example.com", ""), { key: ultimate })
      assert.strictEqual(status, 200)
      assert.deepInclude(body, { count: 1 })
      const after = `/v1/changes?dataset=news&after=${String(first?.data["cursor"])}&limit=1000`
      assert.deepInclude((yield* Service.requestJson(after, { key: ultimate })).body, { count: 121 })
    }))
})
