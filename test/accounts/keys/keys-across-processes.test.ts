/**
 * Tests that changes to keys, tiers and balances take effect in all processes that share a PostgreSQL database (D2,
 * D17, D18).
 */
import { assert, layer } from "@effect/vitest"
import { Array, Effect, Layer, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { inject } from "vitest"
import { generateApiKey } from "../../../src/accounts/keys/ApiKeyFormat.ts"
import * as Accounts from "../../../src/accounts/Accounts.ts"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"
import { createCustomer, retryUntil } from "../../support/CustomerUsage.ts"
import { startTcpProxy } from "../../support/TcpProxy.ts"
import { holdFault, waitUntilOldDataExpires } from "../../support/Pauses.ts"

// @module-tag waiting

const { requestOverWire } = ServiceInstances

const accountPath = "/v1/account"

const generateKey = Effect.map(generateApiKey, Redacted.value)

/** Returns request options with the header that a load balancer adds when it forwards a request from this address. */
const forwardedFrom = (address: string) => ({ headers: { "X-Forwarded-For": address } })

/** Sends a request with a key as if from this address, and returns the status. */
const statusFrom = (port: number, address: string, key: string) =>
  Effect.map(requestOverWire(port, accountPath, key, forwardedFrom(address)), ({ status }) => status)

const settings = { WRONG_KEYS_LIMIT: "30", TRUSTED_PROXIES: "127.0.0.1" }

/** Starts two service instances that share one database. Returns their ports. */
const startTwo = Effect.gen(function* () {
  return [
    yield* ServiceInstances.startServiceInstance(settings),
    yield* ServiceInstances.startServiceInstance(settings),
  ] as const
})

layer(ServiceInstances.databaseWithKeysLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "With two processes,",
  (it) => {
    it.effect("each process blocks an address after 30 wrong keys sent to that process (D18)", () =>
      Effect.gen(function* () {
        const [first, second] = yield* startTwo
        const owner = yield* createCustomer("owner of a key")
        assert.strictEqual(yield* statusFrom(first, "203.0.113.7", owner.key), 200)
        for (const number of Array.range(1, 30)) {
          const key = number % 3 === 0 ? "mistyped" : yield* generateKey
          assert.strictEqual(yield* statusFrom(first, "203.0.113.7", key), 401, `${number}`)
        }
        const { headers, status } = yield* requestOverWire(
          first,
          accountPath,
          yield* generateKey,
          forwardedFrom("203.0.113.7"),
        )
        assert.strictEqual(status, 429)
        assert.match(headers["retry-after"] ?? "", /^([1-9]|[1-5]\d|60)$/)
        assert.strictEqual(yield* statusFrom(first, "203.0.113.7", owner.key), 200)
        assert.strictEqual(yield* statusFrom(first, "203.0.113.8", yield* generateKey), 401)
        assert.strictEqual(yield* statusFrom(second, "203.0.113.7", yield* generateKey), 401)
      }).pipe(Effect.scoped))

    it.effect("the first requests with 50 valid keys from one address are all accepted (D18)", () =>
      Effect.gen(function* () {
        const ports = yield* startTwo
        const keys = yield* Effect.forEach(Array.range(1, 50), (number) => createCustomer(`of one office ${number}`))
        const responses = yield* Effect.forEach(
          keys,
          ({ key }, number) => statusFrom(ports[number % 2] ?? 0, "198.51.100.10", key),
          { concurrency: "unbounded" },
        )
        assert.deepStrictEqual(new Set(responses), new Set([200]))
      }).pipe(Effect.scoped))

    it.effect("a process without its database never accepts a revoked key for more than a second (D2, D17)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const database = yield* Effect.map(
          sql<{ readonly name: string }>`select current_database() as name`,
          ([row]) => row?.name ?? "",
        )
        const url = new URL(inject("databaseUrl"))
        url.pathname = `/${database}`
        const network = yield* startTcpProxy(Number(url.port))
        url.port = String(network.port)
        const databaseBehindProxy = yield* Layer.build(
          databaseClientLayer({ url: Redacted.make(url.href), applicationName: "tickerline-test" }),
        )
        const near = yield* ServiceInstances.startServiceInstance()
        const cut = yield* Effect.provide(
          ServiceInstances.startServiceInstance({ DATABASE_POOL_TIMEOUT: "1 second" }),
          databaseBehindProxy,
        )
        const { key, key_id } = yield* createCustomer("to be revoked")
        const path = "/v1/screener"
        // The response cache serves all requests but the first few.
        for (let times = 0; times < 5; times++) {
          for (const port of [near, cut]) assert.strictEqual((yield* requestOverWire(port, path, key)).status, 200)
        }
        yield* network.stall
        yield* sql`update api_keys set revoked_at = now() where key_id = ${key_id}`
        const revoked = performance.now()
        const responses: Array<readonly [at: number, port: number, status: number]> = []
        const sendRequest = (port: number) =>
          Effect.suspend(() => {
            const began = performance.now() - revoked
            return Effect.map(
              requestOverWire(port, path, key),
              ({ status }) => void responses.push([began, port, status]),
            )
          })
        const requestLoops = [near, cut].map((port) =>
          Effect.forkScoped(Effect.repeat(Effect.forkScoped(sendRequest(port)), Schedule.spaced("50 millis")))
        )
        yield* Effect.all(requestLoops)
        yield* holdFault("2500 millis")
        // Requests sent before the revocation may get their responses only now, so the test checks only later requests.
        yield* network.resume
        const later = (from: number) => responses.filter(([began, port]) => port === from && began > 2_500).length
        yield* retryUntil(Effect.sync(() => Math.min(later(near), later(cut))), (count) => count > 5)
        const late = responses.filter(([began]) => began > 1_000)
        for (const [began, port, status] of late) {
          assert.include(port === near ? [401] : [401, 503], status, `${port === near} ${began}`)
        }
        assert.isAbove(late.filter(([, port, status]) => port === cut && status === 401).length, 0)
      }).pipe(Effect.scoped))

    it.effect("a new tier and a disabled key apply in each process within a second (D2, D3)", () =>
      Effect.gen(function* () {
        const ports = yield* startTwo
        const { key, key_id } = yield* createCustomer("rises and falls")
        const sql = yield* SqlClient.SqlClient
        const readStatuses = Effect.forEach(
          ports,
          (port) => Effect.map(requestOverWire(port, "/v1/research-reports", key), ({ status }) => status),
        )
        assert.deepStrictEqual(yield* readStatuses, [403, 403])
        const assertAppliedWithinSecond = (status: number) =>
          Effect.gen(function* () {
            // Every request sent at least a second after the change must see it, however long its response takes.
            yield* waitUntilOldDataExpires
            assert.deepStrictEqual(yield* readStatuses, [status, status])
          })
        yield* Accounts.updateAccount("rises and falls", { tier: "ultimate" })
        yield* assertAppliedWithinSecond(200)
        yield* sql`update api_keys set disabled_at = now() where key_id = ${key_id}`
        yield* assertAppliedWithinSecond(401)
        yield* sql`update api_keys set disabled_at = null where key_id = ${key_id}`
        yield* assertAppliedWithinSecond(200)
      }).pipe(Effect.scoped))

    it.effect("no process serves paid data for more than a second after the balance is used up (D27, D29)", () =>
      Effect.gen(function* () {
        const ports = [...(yield* startTwo), ...(yield* startTwo)]
        const sql = yield* SqlClient.SqlClient
        const { account_id, key } = yield* createCustomer("prepaid", { balance: 3_000 })
        const path = "/v1/changelog"
        const costly = "/v1/screener"
        assert.strictEqual((yield* requestOverWire(ports[0] ?? 0, path, key)).status, 200)
        const readBalance = Effect.map(
          sql<{ readonly left: string }>`
          select current_balance(accounts)::text as left from accounts where account_id = ${account_id}
        `,
          ([row]) => Number(row?.left),
        )
        yield* sql`update accounts set balance_microdollars = 1 where account_id = ${account_id}`
        const sold: Array<{ readonly began: number; readonly cost: number }> = []
        const requestLoops = ports.map((port) =>
          Effect.forkScoped(Effect.forever(Effect.suspend(() => {
            const began = performance.now()
            return Effect.map(requestOverWire(port, costly, key), ({ headers, status }) => {
              if (status === 200) sold.push({ began, cost: Number(headers["x-cost-microdollars"]) })
            })
          })))
        )
        yield* Effect.all(requestLoops)
        const left = yield* retryUntil(readBalance, (now) => now <= 0)
        const usedUp = performance.now()
        assert.isAtMost(left, 0)
        yield* holdFault("2 seconds")
        assert.deepStrictEqual(sold.filter(({ began }) => began > usedUp + 1_000), [])
        const sum = sold.reduce((all, { cost }) => all + cost, 0)
        assert.strictEqual(yield* retryUntil(readBalance, (now) => now === 1 - sum), 1 - sum)
      }).pipe(Effect.scoped))
  },
)
