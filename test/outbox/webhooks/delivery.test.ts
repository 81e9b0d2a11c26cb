/**
 * Tests a single webhook delivery attempt: its signature, the permitted addresses and the interpretation of the
 * response (SECURITY.md).
 */
import { NodeServices } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, ConfigProvider, Duration, Effect, Fiber, Schedule } from "effect"
import { TestClock } from "effect/testing"
import { Webhook } from "standardwebhooks"
import { isInternalAddress } from "../../../src/outbox/webhooks/InternalAddresses.ts"
import { makeDeliveryScheduler, maxConcurrentDeliveries } from "../../../src/outbox/webhooks/DeliveryScheduler.ts"
import { makeWebhookDelivery } from "../../../src/outbox/webhooks/HttpDelivery.ts"
import { computeRetryDelay, retryDelays } from "../../../src/outbox/webhooks/WebhookSenderJob.ts"
import { AllowedHostsConfig } from "../../../src/outbox/webhooks/WebhookSettings.ts"
import { generateWebhookSecret } from "../../../src/outbox/webhooks/WebhookSignature.ts"
import { checkWebhookUrl } from "../../../src/outbox/webhooks/WebhookUrl.ts"
import { startSelfSignedServer } from "../../support/Certificates.ts"
import * as Receivers from "../../support/WebhookReceivers.ts"

const parseAllowedHosts = (text: string) =>
  AllowedHostsConfig.pipe(
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown({ WEBHOOKS_ALLOWED_HOSTS: text })),
  )

const secrets = [generateWebhookSecret()]
const message = { message_id: "msg_1", body: `{"type":"webhook.test","data":{"text":"é"}}`, secrets }

/** Makes one attempt to deliver a message. `allowed` is the allow-list, and every host name resolves to `addresses`. */
const deliver = Effect.fnUntraced(
  function* (url: string, allowed = "127.0.0.1", addresses: ReadonlyArray<string> = [], queries: Array<string> = []) {
    const resolveHost = (host: string) => {
      queries.push(host)
      return Promise.resolve(addresses)
    }
    return yield* makeWebhookDelivery(yield* parseAllowedHosts(allowed), resolveHost)({ ...message, url })
  },
)

describe("Webhooks are not sent to", () => {
  it.each([
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.31.255.255",
    "192.0.0.8",
    "192.88.99.1",
    "192.168.0.1",
    "198.19.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::a00:1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "2606:4700::1%eth0",
    "fec0::1",
    "ff02::1",
    "not an address",
  ])("the internal address %s (SECURITY.md)", (address) => {
    assert.isTrue(isInternalAddress(address))
  })

  it.each(["8.8.8.8", "172.32.0.1", "192.0.1.1", "223.255.255.254", "2001:4860:4860::8888", "2606:4700::1111"])(
    "internal addresses, but to the public one %s (SECURITY.md)",
    (address) => {
      assert.isFalse(isInternalAddress(address))
    },
  )

  it.effect.each(
    [
      ["http://example.com/", "must begin with https://"],
      ["ftp://example.com/", "must begin with https://"],
      ["https://user@example.com/", "must not contain a user name"],
      ["https://example.com/#a", "must not contain a fragment"],
      ["https://example.com./", "a host without a dot"],
      ["https://example.com:22/", "must have the port 443"],
      ["https://2130706433/", "internal address: 127.0.0.1"],
      ["https://0x7f.1/", "internal address: 127.0.0.1"],
      ["https://0177.0.0.1/", "internal address: 127.0.0.1"],
      ["https://127.1/", "internal address: 127.0.0.1"],
      ["https://①②⑦.⓪.⓪.①/", "internal address: 127.0.0.1"],
      ["https://%31%32%37.0.0.1/", "internal address: 127.0.0.1"],
      ["https:\\\\127.0.0.1/", "internal address: 127.0.0.1"],
      ["https://[::1]/", "internal address: ::1"],
      ["https://[::ffff:169.254.169.254]/", "internal address"],
      ["https://[fe80::1%25eth0]/", "must be a URL"],
      ["https://example.com:99999/", "must be a URL"],
      [`https://example.com/${"x".repeat(2048)}`, "at most 2048 characters"],
    ] as const,
  )("the URL %s (SECURITY.md)", ([url, problem]) =>
    Effect.gen(function* () {
      const checked = checkWebhookUrl(url, yield* parseAllowedHosts("hooks.internal,10.0.0.0/8"))
      assert.include("problem" in checked ? checked.problem : "", problem)
    }))
})

describe("WEBHOOKS_ALLOWED_HOSTS permits", () => {
  it.effect.each(
    [
      ["http://hooks.internal/", "hooks.internal"],
      ["http://HOOKS.internal:81/", " Hooks.Internal "],
      ["http://10.9.8.7/", "example.com, 10.0.0.0/8"],
      ["https://[fd00::1]/", "fd00::/8"],
      ["http://127.0.0.1/", "::ffff:127.0.0.1"],
      ["https://example.com:8443/", "10.0.0.0/8"],
    ] as const,
  )("%s (operations/webhooks)", ([url, allowed]) =>
    Effect.gen(function* () {
      assert.property(checkWebhookUrl(url, yield* parseAllowedHosts(allowed)), "url")
    }))

  it.effect.each([
    "10.0.0.0/33",
    "10.0.0.5/8",
    "2001:db8::1/32",
    "10.0.0/8",
    "a b",
    "300.1.1.1",
    "fe80::1%eth0",
    "*.internal",
    ",",
  ])(
    "nothing if it contains %s (operations/settings)",
    (text) => Effect.flip(parseAllowedHosts(text)),
  )
})

layer(NodeServices.layer)("An attempt", (it) => {
  it.effect("is signed so that the library of Standard Webhooks accepts it (guides/webhooks)", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.now())
      const receiver = yield* Receivers.startWebhookReceiver
      const both = [generateWebhookSecret(), generateWebhookSecret()]
      const send = makeWebhookDelivery(yield* parseAllowedHosts("127.0.0.1"), () => Promise.resolve([]))
      assert.deepStrictEqual(yield* send({ ...message, url: receiver.url, secrets: both }), {
        _tag: "Delivered",
        status: 204,
      })
      const [received] = receiver.received
      assert.isDefined(received)
      const names = ["webhook-id", "webhook-timestamp", "webhook-signature"]
      const headers = Object.fromEntries(names.map((name) => [name, Receivers.getOneHeader(received, name)]))
      assert.strictEqual(headers["webhook-id"], "msg_1")
      for (const secret of both) {
        assert.deepStrictEqual(new Webhook(secret).verify(received.body, headers), JSON.parse(message.body))
        assert.throws(() => new Webhook(secret).verify(received.body.replace("é", "e"), headers))
      }
      assert.throws(() => new Webhook(generateWebhookSecret()).verify(received.body, headers))
      assert.strictEqual(received.headers["content-type"], "application/json")
    }).pipe(Effect.scoped))

  it.effect("connects to the checked address, without another DNS query (SECURITY.md)", () =>
    Effect.gen(function* () {
      const receiver = yield* Receivers.startWebhookReceiver
      const queries: Array<string> = []
      // No DNS server can resolve this name, so any query that bypasses the stub would fail.
      const url = `http://rebind.invalid:${receiver.port}/`
      const result = yield* deliver(url, "rebind.invalid", ["127.0.0.1"], queries)
      assert.strictEqual(result._tag, "Delivered")
      assert.deepStrictEqual(queries, ["rebind.invalid"])
      assert.strictEqual(receiver.received[0]?.headers.host, `rebind.invalid:${receiver.port}`)
    }).pipe(Effect.scoped))

  it.effect.each([
    ["127.0.0.1"],
    ["8.8.8.8", "10.0.0.1"],
    ["2606:4700::1111", "::ffff:7f00:1"],
  ])("is not made if the name has the addresses %s (SECURITY.md)", (addresses) =>
    Effect.gen(function* () {
      const receiver = yield* Receivers.startWebhookReceiver
      const result = yield* deliver(`https://example.com:${receiver.port}/`, "192.168.0.0/16", addresses)
      assert.strictEqual(result._tag === "Failed" && result.why, "address")
      assert.strictEqual(receiver.received.length, 0)
    }).pipe(Effect.scoped))

  it.effect("verifies the certificate of the receiver (SECURITY.md)", () =>
    Effect.gen(function* () {
      const url = yield* startSelfSignedServer
      const result = yield* deliver(url)
      assert.include(result._tag === "Failed" ? result.reason : "", "SELF_SIGNED")
    }).pipe(Effect.scoped))

  it.effect("does not follow redirects (SECURITY.md)", () =>
    Effect.gen(function* () {
      const receiver = yield* Receivers.startWebhookReceiver
      receiver.behaviour.respond = (_, response) => {
        response.writeHead(307, { location: receiver.url }).end()
        return undefined
      }
      const result = yield* deliver(receiver.url)
      assert.deepInclude(result, { _tag: "Failed", why: "redirect", status: 307 })
      assert.strictEqual(receiver.received.length, 1)
    }).pipe(Effect.scoped))

  it.effect("reads only the beginning of a response, without control characters (SECURITY.md)", () =>
    Effect.gen(function* () {
      const receiver = yield* Receivers.startWebhookReceiver
      receiver.behaviour.respond = (_, response) => {
        response.writeHead(503, { "retry-after": "120" })
        const write = (): void => {
          while (response.write("a\0\u001b[31m\r\nb\u202e".repeat(100)));
          response.once("drain", write)
        }
        write()
        return undefined
      }
      const result = yield* deliver(receiver.url)
      assert.deepInclude(result, { _tag: "Failed", why: "status", status: 503, retryAfterSeconds: 120 })
      const reason = result._tag === "Failed" ? result.reason : ""
      assert.match(reason, /^HTTP 503: a \[31m b a/)
      assert.isAtMost(reason.length, 220)
    }).pipe(Effect.scoped))

  it.effect("succeeds or fails by its status, even if the body never ends (operations/webhooks)", () =>
    Effect.gen(function* () {
      const receiver = yield* Receivers.startWebhookReceiver
      receiver.behaviour.respond = (_, response) => {
        response.writeHead(410, { "retry-after": "9999999999999" }).write("gone, ")
        return undefined
      }
      const attempt = yield* Effect.forkChild(deliver(receiver.url))
      // The test cannot observe when the status line has arrived, so it keeps advancing the test clock at growing
      // intervals.
      const goOn = Effect.provideService(TestClock.adjust("2 seconds"), Clock.Clock, yield* Clock.Clock)
      yield* TestClock.withLive(
        Effect.suspend(() => receiver.received.length === 0 ? Effect.void : goOn).pipe(Effect.repeat({
          until: () => attempt.pollUnsafe() !== undefined,
          schedule: Schedule.exponential("50 millis"),
        })),
      )
      assert.deepStrictEqual(yield* Fiber.join(attempt), {
        _tag: "Failed",
        why: "gone",
        reason: "HTTP 410: gone,",
        status: 410,
        retryAfterSeconds: 24 * 3600,
      })
    }).pipe(Effect.scoped))

  it.effect("fails after 15 seconds without a response (operations/webhooks)", () =>
    Effect.gen(function* () {
      const receiver = yield* Receivers.startWebhookReceiver
      receiver.behaviour.respond = Receivers.neverRespond
      const attempt = yield* Effect.forkChild(deliver(receiver.url))
      const isReceived = Effect.sync(() => receiver.received.length === 1)
      yield* TestClock.withLive(
        Effect.repeat(isReceived, { until: (is) => is, schedule: Schedule.spaced("10 millis") }),
      )
      yield* TestClock.adjust("15 seconds")
      assert.deepInclude(yield* Fiber.join(attempt), { _tag: "Failed", why: "timeout" })
    }).pipe(Effect.scoped))
})

describe("The delays between attempts", () => {
  it.effect("take about three days, vary by 20 %, and are longer if the receiver asks for that (operations/webhooks)", () =>
    Effect.gen(function* () {
      const total = retryDelays.reduce((sum, delay) => Duration.sum(sum, delay), Duration.zero)
      assert.isTrue(Duration.between(total, { minimum: Duration.hours(72), maximum: Duration.hours(80) }))
      for (const [index, delay] of retryDelays.entries()) {
        const computed = yield* computeRetryDelay(index + 1)
        assert.isDefined(computed)
        const ratio = Duration.toMillis(computed) / Duration.toMillis(delay)
        assert.isTrue(ratio >= 0.8 && ratio <= 1.2, String(ratio))
      }
      assert.isUndefined(yield* computeRetryDelay(retryDelays.length + 1))
      assert.deepStrictEqual(yield* computeRetryDelay(1, 600), Duration.minutes(10))
      assert.isTrue(Duration.isGreaterThan((yield* computeRetryDelay(2, 1)) ?? Duration.zero, Duration.minutes(3)))
    }))
})

describe("A healthy endpoint", () => {
  /**
   * Simulates sending with `slowAccounts` accounts that each have twenty slow endpoints, whose attempts take 14
   * seconds. Returns the longest wait, in seconds, of a healthy endpoint that gets a message every ten seconds: `first`
   * while some slow endpoints have not been tried yet, and `later` afterwards.
   */
  const simulate = (slowAccounts: number) => {
    const schedule = makeDeliveryScheduler()
    const slow = Array.from({ length: slowAccounts * 20 }, (_, n) => ({
      endpoint_id: BigInt(n),
      account_id: BigInt(n % slowAccounts),
    }))
    const healthy = { endpoint_id: -1n, account_id: -1n }
    const waits = { first: 0, later: 0 }
    const untried = new Set(slow.map(({ endpoint_id }) => endpoint_id))
    const running: Array<{ readonly endpoint_id: bigint; readonly end: number }> = []
    let dueSince: number | undefined
    for (let now = 0, rest = 120; rest > 0; now += 1) {
      for (const { end, endpoint_id } of running.filter(({ end }) => end === now)) {
        schedule.recordAttempt(endpoint_id, Duration.seconds(endpoint_id === -1n ? 0.1 : 14))
        schedule.end(endpoint_id)
        running.splice(running.findIndex((turn) => turn.endpoint_id === endpoint_id && turn.end === end), 1)
      }
      if (now % 10 === 0) dueSince ??= now
      const wait = dueSince === undefined ? 0 : now - dueSince
      if (untried.size > 0) waits.first = Math.max(waits.first, wait)
      else {
        rest -= 1
        // Skips the first seconds after every slow endpoint has been tried: a message that became due before then may
        // still be waiting.
        if (rest < 100) waits.later = Math.max(waits.later, wait)
      }
      for (const { endpoint_id } of schedule.begin(dueSince === undefined ? slow : [...slow, healthy])) {
        untried.delete(endpoint_id)
        running.push({ endpoint_id, end: now + (endpoint_id === -1n ? 1 : 14) })
        if (endpoint_id === -1n) dueSince = undefined
      }
    }
    return waits
  }

  it.each([1, 3, 60])(
    "waits only for the first attempts of %d accounts with twenty slow endpoints each (operations/webhooks)",
    (slowAccounts) => {
      const { first, later } = simulate(slowAccounts)
      assert.isAtMost(first, slowAccounts < 5 ? 0 : 15 * Math.ceil(slowAccounts / maxConcurrentDeliveries.total))
      assert.isAtMost(later, 1)
    },
  )
})
