/** Tests that an address that sends too many wrong keys is blocked (D2, API keys; D18, rate limits). */
import { assert, describe, it, layer } from "@effect/vitest"
import { Array, Config, ConfigProvider, Duration, Effect, Exit, Layer, Logger, Metric, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { createHash } from "node:crypto"
import { generateApiKey } from "../../../src/accounts/keys/ApiKeyFormat.ts"
import { makeBruteForceGuard, WrongKeysLimitConfig } from "../../../src/accounts/keys/BruteForceGuard.ts"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import * as TrustedProxies from "../../../src/api/TrustedProxies.ts"
import { makeApiRequest } from "../../support/ApiRequests.ts"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import { exchangeBytes } from "../../support/RawSockets.ts"
import * as Service from "../../support/Service.ts"
import { databaseWithKeysLayer, requestOverWire, startServiceInstance } from "../../support/ServiceInstances.ts"
import * as StatementRecorder from "../../support/StatementRecorder.ts"

const { requestJson, valueAt, TestKeys } = Service
const { createCustomer } = CustomerUsage

const accountPath = "/v1/account"

type ReceivedResponse = Effect.Success<ReturnType<typeof requestJson>>

/** Changes one character of a key's random part, which makes the checksum wrong. */
const mistypeKey = (key: string) => `${key.slice(0, 20)}${key[20] === "x" ? "y" : "x"}${key.slice(21)}`

const generateKey = Effect.map(generateApiKey, Redacted.value)

/**
 * Sends a key with the `X-Forwarded-For` header that a proxy would add, or without the header if `forwarded` is null.
 */
const sendFrom = (forwarded: string | null, key: string) =>
  requestJson(accountPath, { key, headers: forwarded === null ? {} : { "X-Forwarded-For": forwarded } })

/** Sends a key like `sendFrom`, but returns only the status. */
const statusFrom = (forwarded: string | null, key: string) =>
  Effect.map(sendFrom(forwarded, key), ({ status }) => status)

/** Asserts that a request was refused because its address had sent too many wrong keys. */
const assertBlocked = ({ body, headers, status, text }: ReceivedResponse) => {
  assert.strictEqual(status, 429, text)
  assert.strictEqual(valueAt(body, "error", "code"), "rate_limit_exceeded")
  assert.include(String(valueAt(body, "error", "message")), "wrong API keys")
  assert.deepStrictEqual(Object.keys(Object(valueAt(body, "error"))), ["code", "message"])
  assert.strictEqual(valueAt(body, "request_id"), headers["x-request-id"])
  assert.match(String(headers["retry-after"]), /^[1-9]\d?$/)
  assert.isUndefined(headers["www-authenticate"])
  for (const name of ["limit", "remaining", "reset"]) assert.isUndefined(headers[`x-ratelimit-${name}`])
}

/** The number of wrong keys that an address may send per minute. */
const limit = 4
const settings = { WRONG_KEYS_LIMIT: String(limit) }
const proxied = { ...settings, TRUSTED_PROXIES: "127.0.0.1, 10.0.0.0/8" }

/** Sends as many wrong keys as the limit allows. */
const sendWrongKeys = Effect.fnUntraced(function* (forwarded: string | null) {
  for (const number of Array.range(1, limit)) {
    assert.strictEqual(yield* statusFrom(forwarded, yield* generateKey), 401, `guess ${number} from ${forwarded}`)
  }
})

const passTime = (seconds: number) => TestClock.adjust(Duration.seconds(seconds))

const noon = Date.parse("2026-07-01T16:00:00Z")

// Builds a separate clock, service and database for each case, so that wrong keys from one case do not count in
// another.
const serviceAtNoon = (values: Readonly<Record<string, string>>) =>
  Service.layerAt(noon).pipe(Layer.provide(CustomerUsage.settingsLayer(values)))
const unproxiedService = serviceAtNoon(settings)
const proxiedService = serviceAtNoon(proxied)

describe("In one process,", () => {
  it.effect("an address that sent too many wrong keys is blocked for the minute (D2, D18)", () =>
    Effect.gen(function* () {
      const { key: right } = yield* createCustomer("right")
      const { key: unseen } = yield* createCustomer("not seen before")
      assert.strictEqual(yield* statusFrom(null, right), 200)
      yield* sendWrongKeys(null)
      // Wrong keys, mistyped keys and valid keys that were never used all get the same response. Otherwise an attacker
      // could find out which keys are valid.
      for (const key of [yield* generateKey, mistypeKey(right), "nonsense", unseen]) {
        const bearer = yield* requestJson(accountPath, { key: null, headers: { Authorization: `Bearer ${key}` } })
        for (const response of [yield* sendFrom(null, key), bearer]) {
          assertBlocked(response)
          assert.strictEqual(response.headers["retry-after"], "60")
        }
      }
      // A key that was used before still works from a blocked address, and a request without a key still gets 401.
      assert.strictEqual(yield* statusFrom(null, right), 200)
      const { body, status } = yield* requestJson(accountPath, { key: null })
      assert.deepStrictEqual([status, valueAt(body, "error", "code")], [401, "missing_api_key"])
      assert.strictEqual((yield* requestJson("/endpoints", { key: "nonsense" })).status, 200)

      yield* passTime(58)
      assertBlocked(yield* sendFrom(null, unseen))
      yield* passTime(2)
      assert.strictEqual(yield* statusFrom(null, unseen), 200)
      assert.strictEqual(yield* statusFrom(null, "nonsense"), 401)
    }).pipe(Effect.provide(unproxiedService)))

  it.effect("a key that was valid in the last ten minutes works from a blocked address (D2, D18)", () =>
    Effect.gen(function* () {
      const used = yield* createCustomer("used all the time")
      const usedLongAgo = yield* createCustomer("used once, longer ago")
      assert.strictEqual(yield* statusFrom(null, usedLongAgo.key), 200)
      for (let times = 0; times < 4; times++) {
        assert.strictEqual(yield* statusFrom(null, used.key), 200)
        yield* passTime(160)
      }
      yield* sendWrongKeys(null)
      assertBlocked(yield* sendFrom(null, usedLongAgo.key))
      assert.strictEqual(yield* statusFrom(null, used.key), 200)
    }).pipe(Effect.provide(unproxiedService)))

  it.effect("disabled, revoked and expired keys do not count as wrong (D2, D18)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const ends = ["disabled_at", "revoked_at", "expires_at"]
      const keys = yield* Effect.forEach(ends, (column) =>
        Effect.gen(function* () {
          const { key, key_id } = yield* createCustomer(`ended by ${column}`)
          yield* sql`update api_keys set ${sql(column)} = now() where key_id = ${key_id}`
          return key
        }))
      for (const key of [...keys, ...keys, ...keys]) {
        const { body, status } = yield* sendFrom(null, key)
        assert.deepStrictEqual([status, valueAt(body, "error", "code")], [401, "api_key_disabled"])
      }
      for (let sent = 0; sent < 9; sent++) {
        assert.strictEqual((yield* requestJson(accountPath, { key: null })).status, 401)
      }
      yield* sendWrongKeys(null)
    }).pipe(Effect.provide(unproxiedService)))

  it.effect("a mistyped key counts as wrong, once per request (D2, D18)", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("mistyped")
      for (const wrong of ["nonsense", mistypeKey(key)]) assert.strictEqual(yield* statusFrom(null, wrong), 401)
      const differing = { key: mistypeKey(key), headers: { Authorization: `Bearer ${yield* generateKey}` } }
      assert.strictEqual((yield* requestJson(accountPath, differing)).status, 401)
      const wrong = yield* generateKey
      for (const _ of [1, 2]) {
        const twice = yield* requestJson(accountPath, { key: wrong, headers: { Authorization: `Bearer ${wrong}` } })
        assert.strictEqual(twice.status, 401)
      }
      assertBlocked(yield* sendFrom(null, yield* generateKey))
    }).pipe(Effect.provide(unproxiedService)))

  it.effect("a wrong key counts each time it is sent (D2, D18)", () =>
    Effect.gen(function* () {
      const key = yield* generateKey
      for (let sent = 0; sent < limit; sent++) assert.strictEqual(yield* statusFrom(null, key), 401)
      assertBlocked(yield* sendFrom(null, key))
    }).pipe(Effect.provide(unproxiedService)))

  it.effect("X-Forwarded-For is ignored unless a proxy is trusted (D18)", () =>
    Effect.gen(function* () {
      for (let sent = 0; sent < limit; sent++) {
        assert.strictEqual(yield* statusFrom(`203.0.113.${sent}`, yield* generateKey), 401)
      }
      for (const forwarded of [null, "203.0.113.99", "198.51.100.1, 127.0.0.1", "2001:db8::1"]) {
        assertBlocked(yield* sendFrom(forwarded, yield* generateKey))
      }
    }).pipe(Effect.provide(unproxiedService)))
})

describe("The service behind proxies", () => {
  it.effect("blocks the address that a trusted proxy names, and no other (D18)", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("behind a proxy")
      yield* sendWrongKeys("203.0.113.1")
      assertBlocked(yield* sendFrom("203.0.113.1", yield* generateKey))
      assertBlocked(yield* sendFrom("203.0.113.1", key))
      // Different ways to write the blocked address: with spaces, with a port, before a second trusted proxy, and after
      // a forged address.
      for (
        const same of [" 203.0.113.1 ", "203.0.113.1:54321", "203.0.113.1, 10.1.2.3", "198.51.100.9, 203.0.113.1"]
      ) {
        assertBlocked(yield* sendFrom(same, key))
      }
      assertBlocked(yield* sendFrom("::ffff:203.0.113.1", key))
      for (const other of ["203.0.113.2", "2001:db8::1", "203.0.113.1, 203.0.113.3"]) {
        assert.strictEqual(yield* statusFrom(other, yield* generateKey), 401, String(other))
      }
      assert.strictEqual(yield* statusFrom("203.0.113.2", key), 200)
      // A key that was used before works even from the blocked address.
      assert.strictEqual(yield* statusFrom("203.0.113.1", key), 200)
    }).pipe(Effect.provide(proxiedService)))

  it.effect("counts the IPv6 addresses of a /64 network together (D18)", () =>
    Effect.gen(function* () {
      const ends = ["1", "2", "ffff:ffff:ffff:ffff", "a:b:c:d", "0:0:0:1", "3"]
      for (const end of ends.slice(0, limit)) {
        const address = end.includes("f") || end.includes(":") ? `2001:db8:1:2:${end}` : `2001:db8:1:2::${end}`
        assert.strictEqual(yield* statusFrom(address, yield* generateKey), 401, address)
      }
      for (const same of ["2001:db8:1:2::99", "2001:DB8:1:2:0:0:0:1", "[2001:db8:1:2::7]:443"]) {
        assertBlocked(yield* sendFrom(same, yield* generateKey))
      }
      for (const other of ["2001:db8:1:3::1", "2001:db8:1:1:ffff:ffff:ffff:ffff", "2001:db8::1:2:0:0"]) {
        assert.strictEqual(yield* statusFrom(other, yield* generateKey), 401, other)
      }
    }).pipe(Effect.provide(proxiedService)))

  it.effect("reads several X-Forwarded-For headers as one list, and no Forwarded header (D18)", () =>
    Effect.gen(function* () {
      const port = yield* Service.servicePort
      const send = (...headers: ReadonlyArray<string>) =>
        Effect.map(
          exchangeBytes(port, [...head, ...headers, "", ""].join("\r\n")),
          ([response]) => response?.status,
        )
      const head = ["GET /v1/account HTTP/1.1", "Host: x", "Connection: close", "X-API-Key: nonsense"]
      const lines = ["X-Forwarded-For: 198.51.100.9", "X-Forwarded-For: 203.0.113.5, 10.9.9.9"]
      for (let sent = 0; sent < limit; sent++) assert.strictEqual(yield* send(...lines), 401)
      assert.strictEqual(yield* send(...lines), 429)
      assert.strictEqual(yield* send(...lines.toReversed()), 401, "the last address is another one")
      assert.strictEqual(yield* send("X-Forwarded-For: 203.0.113.5", "Forwarded: for=203.0.113.6"), 429)
      assert.strictEqual(yield* send("X-Forwarded-For: 203.0.113.6", "Forwarded: for=203.0.113.5"), 401)
    }).pipe(Effect.provide(proxiedService)))

  it.effect("counts nothing for a proxy that names no client (D18)", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("behind a silent proxy")
      for (const forwarded of [...withoutAddress, ...withoutAddress]) {
        assert.strictEqual(yield* statusFrom(forwarded, "nonsense"), 401, String(forwarded))
        assert.strictEqual(yield* statusFrom(forwarded, yield* generateKey), 401, String(forwarded))
      }
      assert.strictEqual(yield* statusFrom(null, key), 200)
      yield* sendWrongKeys("203.0.113.200")
      assertBlocked(yield* sendFrom("203.0.113.200", "nonsense"))
    }).pipe(Effect.provide(proxiedService)))
})

/** Values of `X-Forwarded-For` that contain no client address. */
const withoutAddress = [
  null,
  "",
  ",",
  "unknown",
  "_hidden",
  "'; drop table api_keys",
  "999.1.1.1",
  "203.0.113.1,",
  "for=203.0.113.1",
  "x".repeat(4000),
  "127.0.0.1",
  "127.0.0.1, 127.0.0.1",
]

/**
 * Starts an instance that trusts the given proxies. Returns its port, the proxy warnings that it has logged, and the
 * metric that counts requests without a client address from the proxy.
 */
const startWithRecordedLog = Effect.fnUntraced(function* (trusted: string) {
  const logged: Array<unknown> = []
  const metrics = yield* chooseFreePort
  const port = yield* startServiceInstance(
    { ...settings, METRICS_PORT: String(metrics), TRUSTED_PROXIES: trusted },
    { port: 0 },
    { watched: Logger.layer([Logger.make(({ message }) => void logged.push(message))]) },
  ).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
  const warnings = () => logged.map(String).filter((line) => line.includes("X-Forwarded-For"))
  const count = Effect.map(
    requestOverWire(metrics, "/metrics", ""),
    ({ text }) => Number(/^tickerline_proxy_clients_unnamed_total (\d+)$/m.exec(text)?.[1]),
  )
  return { port, warnings, count }
})

layer(databaseWithKeysLayer, { excludeTestServices: true })("A process", (it) => {
  it.effect("warns once, and counts each request, if a trusted proxy names no client (D18, operations/monitoring)", () =>
    Effect.gen(function* () {
      const { count, port, warnings } = yield* startWithRecordedLog("::ffff:127.0.0.1")
      for (const path of ["/health/ready", "/health/live", "/endpoints"]) yield* requestOverWire(port, path, "")
      assert.deepStrictEqual(
        [warnings().length, yield* count],
        [0, 0],
        "requests without a key have no client to count",
      )
      for (let sent = 1; sent <= 2 * limit; sent++) {
        assert.strictEqual((yield* requestOverWire(port, accountPath, "nonsense")).status, 401)
        assert.strictEqual(yield* count, sent)
      }
      assert.strictEqual(warnings().length, 1)
      assert.match(warnings()[0] ?? "", /^127\.0\.0\.1 is in TRUSTED_PROXIES, but /)
      const named = { headers: { "X-Forwarded-For": "203.0.113.7" } }
      assert.strictEqual((yield* requestOverWire(port, accountPath, "nonsense", named)).status, 401)
      assert.strictEqual(yield* count, 2 * limit)
    }))

  it.effect("does not warn if no proxy is trusted (D18)", () =>
    Effect.gen(function* () {
      const { count, port, warnings } = yield* startWithRecordedLog("10.0.0.0/8")
      for (let sent = 0; sent < limit; sent++) yield* requestOverWire(port, accountPath, "nonsense")
      assert.strictEqual((yield* requestOverWire(port, accountPath, "nonsense")).status, 429)
      assert.deepStrictEqual([warnings().length, yield* count], [0, 0])
    }))
})

/** Returns the statements that look up API keys. */
const lookups = (sent: ReadonlyArray<StatementRecorder.SentStatement>) =>
  sent.filter(({ text }) => text.includes("from api_keys"))

layer(Service.layer.pipe(Layer.provideMerge(StatementRecorder.layer)), { excludeTestServices: true })(
  "The service",
  (it) => {
    it.effect("looks up valid and invalid keys by digest, with the same read-only statement (D2)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { key } = yield* createCustomer("looked up")
        const { key: ended, key_id } = yield* createCustomer("looked up in vain")
        yield* sql`update api_keys set disabled_at = now() where key_id = ${key_id}`
        const unknown = yield* generateKey
        const found: Array<StatementRecorder.SentStatement> = []
        for (const [sent, status] of [[key, 200], [unknown, 401], [ended, 401]] as const) {
          const recorded = yield* StatementRecorder.recordStatements(requestJson(accountPath, { key: sent }))
          assert.strictEqual(recorded.result.status, status)
          const [lookup, ...more] = lookups(recorded.sent)
          assert.deepStrictEqual(more, [])
          const digest = createHash("sha256").update(sent).digest("hex")
          assert.deepStrictEqual(lookup?.parameters.filter((parameter) => parameter === digest), [digest])
          const all = recorded.sent.map(({ parameters, text }) => [text, ...parameters].join(" ")).join("\n")
          for (const part of [sent, sent.slice(8), sent.slice(12, 24)]) assert.notInclude(all, part)
          if (lookup !== undefined) found.push(lookup)
        }
        assert.strictEqual(found.length, 3)
        assert.strictEqual(new Set(found.map(({ text }) => text)).size, 1)
        assert.match(found[0]?.text ?? "", /^\s*select [^;]* key_hash = decode\(\$\d, 'hex'\)\s*$/)
      }))
  },
)

/** The service with a low limit and recorded SQL statements. */
const watched = Service.layer.pipe(
  Layer.provide(CustomerUsage.settingsLayer(settings)),
  Layer.provideMerge(StatementRecorder.layer),
)

layer(watched, { excludeTestServices: true })("Without a database query,", (it) => {
  it.effect("mistyped keys and keys from blocked addresses are refused (D2)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      const wrong = [mistypeKey(basic), "nonsense", basic.slice(0, -1), basic.toUpperCase(), `${basic}0`]
      const statuses: Array<number> = []
      for (const key of wrong) {
        const { result, sent } = yield* StatementRecorder.recordStatements(requestJson(accountPath, { key }))
        assert.deepStrictEqual(lookups(sent), [])
        statuses.push(result.status)
      }
      assert.deepStrictEqual(statuses, [401, 401, 401, 401, 429])
      for (const key of [yield* generateKey, basic]) {
        const { result, sent } = yield* StatementRecorder.recordStatements(requestJson(accountPath, { key }))
        assertBlocked(result)
        assert.deepStrictEqual(lookups(sent), [])
      }
    }))
})

const settingsLayer = (values: Readonly<Record<string, string>>) =>
  ConfigProvider.layer(ConfigProvider.fromUnknown(values))

it.effect("the limit is 30 wrong keys per minute by default (D18)", () =>
  Effect.gen(function* () {
    assert.strictEqual(yield* Effect.provide(WrongKeysLimitConfig, settingsLayer({})), 30)
    assert.strictEqual(yield* Effect.provide(WrongKeysLimitConfig, settingsLayer({ WRONG_KEYS_LIMIT: "1" })), 1)
  }))

it.effect("the service does not start with an invalid WRONG_KEYS_LIMIT or TRUSTED_PROXIES, and says why (D18)", () =>
  Effect.gen(function* () {
    for (const wrong of ["0", "-1", "x", "1.5", "1000001"]) {
      const error = yield* Effect.flip(
        Effect.provide(WrongKeysLimitConfig, settingsLayer({ WRONG_KEYS_LIMIT: wrong })),
      )
      assert.instanceOf(error, Config.ConfigError)
      assert.include(error.message, "WRONG_KEYS_LIMIT")
    }
    for (
      const wrong of ["x", "10.0.0.0/33", "300.1.1.1", "10.0.0.1,", "::1/129", "localhost", "10.0.0.1 10.0.0.2", "*"]
    ) {
      const error = yield* Effect.flip(
        Effect.provide(TrustedProxies.TrustedProxiesConfig, settingsLayer({ TRUSTED_PROXIES: wrong })),
      )
      assert.instanceOf(error, Config.ConfigError)
      assert.include(error.message, "is not a network; expected addresses or networks")
    }
  }))

layer(serviceAtNoon({ WRONG_KEYS_LIMIT: "30", TRUSTED_PROXIES: "::1,127.0.0.0/8" }))(
  "With a limit of 30,",
  (it) => {
    it.effect("of twice as many concurrent wrong keys, half get 401 and half get 429 (D18)", () =>
      Effect.gen(function* () {
        const statuses = yield* Effect.forEach(
          Array.range(1, 60),
          (number) =>
            Effect.flatMap(
              number % 2 === 0 ? Effect.succeed("mistyped") : generateKey,
              (key) => statusFrom("198.51.100.7", key),
            ),
          { concurrency: "unbounded" },
        )
        assert.strictEqual(statuses.filter((status) => status === 401).length, 30)
        assert.strictEqual(statuses.filter((status) => status === 429).length, 30)
      }))
  },
)

it.effect("the guard warns about a proxy that names no client once an hour, not with each request (D18)", () =>
  Effect.gen(function* () {
    const logged: Array<unknown> = []
    const request = makeApiRequest({ address: undefined, peerAddress: "10.0.0.1" })
    yield* Effect.gen(function* () {
      const { findSender } = yield* makeBruteForceGuard()
      for (const minutes of [0, 1, 58, 0.5, 1, 0, 59, 1]) {
        yield* TestClock.adjust(Duration.minutes(minutes))
        assert.isUndefined(yield* findSender(request))
      }
    }).pipe(Effect.provide(Logger.layer([Logger.make(({ message }) => void logged.push(message))])))
    // The guard logs a warning immediately, then another every 60 minutes.
    assert.strictEqual(logged.length, 3)
  }).pipe(Effect.provide(settingsLayer({}))))

it.effect("the guard remembers a limited number of addresses (D18)", () =>
  Effect.gen(function* () {
    const maxAddresses = 50
    const guard = yield* makeBruteForceGuard(maxAddresses)
    const findSender = (address: string) => guard.findSender(makeApiRequest({ address }))
    const countWrongKey = (address: string) => Effect.flatMap(findSender(address), guard.countWrongKey)
    const isBlocked = (address: string) =>
      Effect.map(Effect.exit(Effect.flatMap(findSender(address), guard.requireUnblocked)), Exit.isFailure)
    yield* countWrongKey("first")
    assert.isTrue(yield* isBlocked("first"))
    for (let number = 0; number < maxAddresses; number++) yield* countWrongKey(`address ${number}`)
    assert.isFalse(yield* isBlocked("first"))
    assert.isTrue(yield* isBlocked("address 49"))
  }).pipe(Effect.provide(settingsLayer({ WRONG_KEYS_LIMIT: "1" }))))
