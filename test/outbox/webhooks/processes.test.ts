/** Tests webhooks with the command line, and with processes that are killed (docs/operations/webhooks.md). */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted, Schedule } from "effect"
import { PgClient } from "@effect/sql-pg"
import { SqlClient } from "effect/sql"
import { Webhook } from "standardwebhooks"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import * as Processes from "../../support/Processes.ts"
import * as Service from "../../support/Service.ts"
import * as Receivers from "../../support/WebhookReceivers.ts"

// @module-tag slow

const waitUntil = <E, R>(condition: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(condition, { until: (holds) => holds, schedule: Schedule.spaced("50 millis") })

layer(NodeServices.layer, { excludeTestServices: true, timeout: "180 seconds" })("For webhooks,", (it) => {
  it.effect("the commands manage endpoints, and the next process sends a message again after kill -9 (operations/webhooks)", () =>
    Effect.gen(function* () {
      const url = yield* Service.copyMigratedDatabase
      const environment = {
        DATABASE_URL: Redacted.value(url),
        WEBHOOKS: "on",
        WEBHOOKS_ALLOWED_HOSTS: "127.0.0.1",
      }
      const run = (...args: ReadonlyArray<string>) => runCommandInProcess(args, environment)
      const command = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
        const ended = yield* run(...args)
        assert.strictEqual(ended.code, 0, ended.err)
        return ended.out
      })
      const serve = Effect.gen(function* () {
        const service = yield* Processes.startCommandProcess(["serve"], {
          ...environment,
          PORT: String(yield* chooseFreePort),
        })
        yield* Processes.waitForOutput(service, /Tickerline is running/)
        return service
      })

      const receiver = yield* Receivers.startWebhookReceiver
      yield* command("accounts", "create", "acme", "--tier", "pro")
      const refused = yield* run("webhooks", "create", "--account", "acme", "--url", "https://10.0.0.1/")
      assert.strictEqual(refused.code, 1)
      assert.match(refused.err, /internal address: 10\.0\.0\.1/)
      const unknown = yield* run("webhooks", "create", "--account", "acne", "--url", receiver.url)
      assert.match(unknown.err, /no account acne/)
      const secret = (yield* command("webhooks", "create", "--account", "acme", "--url", receiver.url)).trim()
      const rotated = (yield* command("webhooks", "rotate-secret", "1", "--grace", "1h")).trim()
      assert.notStrictEqual(rotated, secret)
      assert.match(yield* command("webhooks", "test", "1"), /accepted the message with status 204/)
      receiver.behaviour.respond = () => 404
      const failed = yield* run("webhooks", "test", "1")
      assert.strictEqual(failed.code, 1)
      assert.match(failed.err, /did not accept the message: HTTP 404/)

      receiver.received.length = 0
      receiver.behaviour.respond = Receivers.neverRespond
      yield* command("keys", "create", "--account", "acme", "--name", "first")
      const first = yield* serve
      yield* waitUntil(Effect.sync(() => receiver.received.length === 1))
      yield* Processes.endProcess(first, "SIGKILL")
      receiver.behaviour.respond = () => 204
      yield* Effect.provide(
        Effect.flatMap(SqlClient.SqlClient, (sql) => sql`update webhook_messages set next_attempt_at = now()`),
        PgClient.layer({ url }),
      )
      yield* serve
      yield* waitUntil(
        Effect.map(command("webhooks", "deliveries", "1"), (out) => /key\.created +delivered +2 /.test(out)),
      )
      const [lost, repeated] = receiver.received
      assert.isDefined(lost)
      assert.isDefined(repeated)
      const names = ["webhook-id", "webhook-timestamp", "webhook-signature"]
      const headers = Object.fromEntries(names.map((name) => [name, Receivers.getOneHeader(repeated, name)]))
      assert.strictEqual(headers["webhook-id"], Receivers.getOneHeader(lost, "webhook-id"))
      for (const valid of [secret, rotated]) new Webhook(valid).verify(repeated.body, headers)

      // The running service also turns changes in the change feed into webhook messages.
      yield* Effect.provide(
        Effect.flatMap(SqlClient.SqlClient, (sql) =>
          sql`
          insert into historical_tickers (ticker, former_ticker, date) values ('NEW', 'OLD', '2020-01-02')
        `),
        PgClient.layer({ url }),
      )
      yield* waitUntil(Effect.sync(() => receiver.received.length === 3))
      assert.include(receiver.received[2]?.body, `"dataset":"historical_tickers"`)

      assert.match(yield* command("webhooks", "disable", "1", "--reason", "moved"), /is disabled/)
      assert.match(yield* command("webhooks", "list"), /disabled: moved/)
      assert.match(yield* command("webhooks", "replay", "--endpoint", "1"), /^0 messages queued again/)
      const replayed = yield* run("webhooks", "replay", "--endpoint", "1", "--delivered")
      assert.match(replayed.out, /^2 messages queued again/)
      assert.match(replayed.err, /Nothing is sent to disabled endpoints\. Enable them with `webhooks enable ID`: 1/)
      assert.strictEqual((yield* run("webhooks", "replay")).code, 2)
      yield* command("webhooks", "enable", "1")
      yield* waitUntil(Effect.sync(() => receiver.received.length === 5))
      yield* command("webhooks", "delete", "1")
      const gone = yield* run("webhooks", "deliveries", "1")
      assert.match(gone.err, /no webhook endpoint 1/)
    }).pipe(Effect.scoped))
})
