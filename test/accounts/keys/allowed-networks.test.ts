/** Tests the networks from which a key may be used, and the recorded address of its last use (D2, API keys). */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { canKeyUseAddress, makeNetworkCompiler } from "../../../src/accounts/keys/AllowedNetworks.ts"
import * as ApiKeys from "../../../src/accounts/keys/ApiKeyManagement.ts"
import { createCustomer, retryUntil, settingsLayer } from "../../support/CustomerUsage.ts"
import { postMcpMessage } from "../../support/McpClients.ts"
import * as Service from "../../support/Service.ts"

const { requestJson, valueAt } = Service

describe("Networks", () => {
  it("include addresses of their family, whatever their notation, and never an unknown address (D2)", () => {
    const compile = makeNetworkCompiler()
    const account = {
      account_id: 1,
      tier: "basic",
      spendable_microdollars: null,
      is_limited_by_budget: false,
      key_id: 1,
      endpoints: null,
    } as const
    const cases = [
      [["10.0.0.0/8"], "10.255.0.1", true],
      [["10.0.0.0/8"], "::ffff:10.255.0.1", true],
      [["10.0.0.0/8"], "::ffff:aff:1", true],
      [["10.0.0.0/8"], "11.0.0.1", false],
      [["192.0.2.1/32", "2001:db8::7/128"], "192.0.2.1", true],
      [["192.0.2.1/32", "2001:db8::7/128"], "192.0.2.2", false],
      [["192.0.2.1/32", "2001:db8::7/128"], "2001:DB8:0::7", true],
      [["192.0.2.1/32", "2001:db8::7/128"], "2001:db8::8", false],
      [["fe80::/10"], "fe80::1%eth0", true],
      [["0.0.0.0/0"], "2001:db8::1", false],
      [["::/0"], "192.0.2.1", false],
      [["::/0"], "::ffff:192.0.2.1", false],
      [["0.0.0.0/0", "::/0"], undefined, false],
      [["0.0.0.0/0", "::/0"], "unix socket", false],
    ] as const
    for (const [networks, address, isAllowed] of cases) {
      const limitedAccount = { ...account, networks: compile(networks) }
      assert.strictEqual(canKeyUseAddress(limitedAccount, address), isAllowed, `${networks.join()} ${address}`)
    }
    assert.isTrue(canKeyUseAddress({ ...account, networks: null }, undefined))
  })
})

/** The service behind a trusted proxy. */
const proxied = Service.layer.pipe(
  Layer.provide(settingsLayer({ TRUSTED_PROXIES: "127.0.0.1,::1", CACHE_MEGABYTES: "16" })),
)

/** Reads the address from which a key was last used, and whether the key was ever used. */
const readKey = Effect.fnUntraced(function* (key_id: number) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly address: string | null; readonly used: boolean }>`
    select host(last_used_address) as address, last_used_at is not null as used from api_keys where key_id = ${key_id}
  `
  return row
})

/** Returns the header in which a trusted proxy passes on the client address. */
const forwardedFor = (address: string | null) => address === null ? {} : { "X-Forwarded-For": address }

layer(proxied, { excludeTestServices: true, timeout: "60 seconds" })("A key with networks", (it) => {
  const networks = ["203.0.113.0/24", "2001:db8::/32"] as const

  it.effect("works only from them, and otherwise gets 403 with the address as seen, without the list (D2, D13)", () =>
    Effect.gen(function* () {
      const { key, key_id } = yield* createCustomer("networks", { networks, tier: "ultimate" })
      const targets = ["/v1/news", "/v1/account", "/estimate?endpoint=/v1/news", "/v1/news?limit=all&format=ndjson"]
      const seen = [["198.51.100.7", "198.51.100.7"], ["::ffff:198.51.100.7", "198.51.100.7"], [null, null]] as const
      for (const target of [...targets, "/v1/changes/stream"]) {
        for (const [address, expected] of seen) {
          const { body, headers, status, text } = yield* requestJson(target, { key, headers: forwardedFor(address) })
          assert.strictEqual(status, 403, target)
          assert.strictEqual(valueAt(body, "error", "code"), "address_not_allowed")
          assert.deepStrictEqual(valueAt(body, "error", "details"), { address: expected })
          assert.notMatch(text, /203\.0\.113|2001:db8/)
          assert.isDefined(headers["x-ratelimit-limit"])
        }
      }
      assert.deepStrictEqual(yield* readKey(key_id), { address: null, used: false })
      for (const target of targets) {
        for (const address of ["203.0.113.9", "::ffff:203.0.113.9", "2001:db8::5", "192.0.2.1, 203.0.113.9"]) {
          assert.strictEqual((yield* requestJson(target, { key, headers: forwardedFor(address) })).status, 200, target)
        }
      }
      const used = yield* retryUntil(readKey(key_id), (row) => row?.used === true)
      assert.strictEqual(used?.address, "203.0.113.9")
    }))

  it.effect("is refused even if the response is stored, and usage lists each refusal (D2, D17, D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, key } = yield* createCustomer("cached", { networks })
      const sendFrom = (address: string) =>
        requestJson("/v1/screener?ticker=CACHED", { key, headers: forwardedFor(address) })
      // The query cache serves the second request, and the response cache stores that response.
      for (const _ of [1, 2, 3]) assert.strictEqual((yield* sendFrom("203.0.113.9")).status, 200)
      assert.strictEqual((yield* sendFrom("198.51.100.7")).status, 403)
      const usage = sql`
        select endpoint, status_code, cost_microdollars::int as cost from usage_requests
        where account_id = ${account_id} and status_code <> 200
      `
      const rows = yield* retryUntil(usage, ({ length }) => length > 0)
      assert.deepStrictEqual(rows, [{ endpoint: "/v1/screener", status_code: 403, cost: 0 }])
    }))

  it.effect("is refused by /mcp, and its new networks apply within a second (D2)", () =>
    Effect.gen(function* () {
      const { key, key_id } = yield* createCustomer("model", { networks })
      const port = yield* Service.servicePort
      const message = { jsonrpc: "2.0", id: 1, method: "ping" }
      const post = (address: string) =>
        postMcpMessage(port, message, {
          headers: { ...forwardedFor(address), "X-API-Key": key, Accept: "application/json, text/event-stream" },
        })
      const refused = yield* post("198.51.100.7")
      assert.strictEqual(refused.status, 403)
      assert.strictEqual((yield* post("203.0.113.9")).status, 200)
      yield* ApiKeys.setApiKeyNetworks(key_id, ["198.51.100.0/24"])
      yield* retryUntil(post("198.51.100.7"), ({ status }) => status === 200)
      assert.strictEqual((yield* post("203.0.113.9")).status, 403)
    }))
})
