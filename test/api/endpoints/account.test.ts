/** Tests GET /v1/account and /v1/account/api-keys over HTTP (resources). Each test creates its own accounts. */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as Accounts from "../../../src/accounts/Accounts.ts"
import * as ApiKeys from "../../../src/accounts/keys/ApiKeyManagement.ts"
import { tiers } from "../../../src/contract/rules/EndpointAnnotations.ts"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"

const { requestJson, valueAt, TestKeys } = Service
const { createCustomer, findAccountAndKeyIds, retryUntil, readAllPages } = CustomerUsage

const keysPath = "/v1/account/api-keys"

/** The rows of a page if a request has no `limit` (D8). */
const defaultLimit = 10

/**
 * Instants with their expected text: in winter, in summer, in both hours that New York clocks show as 01:30, and with
 * milliseconds.
 */
const instants = [
  ["2025-01-15T02:00:00Z", "2025-01-14T21:00:00-05:00"],
  ["2025-07-15T02:00:00Z", "2025-07-14T21:00:00-05:00"],
  ["2025-07-15T12:30:45.250Z", "2025-07-15T07:30:45.250-05:00"],
  ["2025-11-02T05:30:00Z", "2025-11-02T00:30:00-05:00"],
  ["2025-11-02T06:30:00Z", "2025-11-02T01:30:00-05:00"],
  ["2026-01-01T04:59:59.999Z", "2025-12-31T23:59:59.999-05:00"],
] as const

const listed = (key: string, query = "limit=100") =>
  Effect.map(requestJson(`${keysPath}?${query}`, { key }), ({ body, status, text }) => {
    assert.strictEqual(status, 200, text)
    return ListClients.getResultRows(body)
  })

const idsIn = (rows: ReadonlyArray<unknown>) => rows.map((row) => valueAt(row, "key_id"))

/** Updates the given columns of a key. */
const set = Effect.fnUntraced(function* (key_id: number, columns: Readonly<Record<string, string | null>>) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`update api_keys set ${sql.update(columns)} where key_id = ${key_id}`
})

/** Creates another key for the account. */
const another = Effect.fnUntraced(function* (account: string, more: Partial<ApiKeys.NewApiKey> = {}) {
  const { key } = yield* ApiKeys.createApiKey({
    account,
    name: "another",
    expires: null,
    endpoints: null,
    networks: null,
    ...more,
  })
  return { key, ...(yield* findAccountAndKeyIds(key)) }
})

layer(Service.layer, { excludeTestServices: true })("GET /v1/account", (it) => {
  it.effect("returns every field of the account, exactly as stored (resources: account)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, key } = yield* createCustomer(`Ünï "quoted" & Sons`, { tier: "pro" })
      const created_at = "2025-07-15T12:30:45.250Z"
      yield* sql`
        update accounts set ${sql.update({ contact_email: "ops@acme.example", created_at })}
        where account_id = ${account_id}
      `
      const response = yield* requestJson("/v1/account", { key })
      assert.strictEqual(
        response.text,
        `{"count":1,"results":[{"account_id":${account_id},"name":"Ünï \\"quoted\\" & Sons",` +
          `"contact_email":"ops@acme.example","tier":"pro","created_at":"2025-07-15T07:30:45.250-05:00"}]}`,
      )
      assert.match(String(response.headers["content-type"]), /^application\/json/)
      const head = yield* requestJson("/v1/account", { key, method: "HEAD" })
      assert.deepStrictEqual([head.status, head.text], [200, ""])
    }))

  it.effect("contact_email is null if the account has none (D16)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* createCustomer("no address")
      const { body } = yield* requestJson("/v1/account", { key })
      assert.strictEqual(valueAt(body, "results", 0, "account_id"), account_id)
      assert.deepStrictEqual(ListClients.getNullFieldNames(valueAt(body, "results", 0)), ["contact_email"])
    }))

  it.effect("created_at is an instant, formatted at -05:00 all year (§2.1.2, §2.1.4)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, key } = yield* createCustomer("clock")
      for (const [created_at, printed] of instants) {
        yield* sql`update accounts set ${sql.update({ created_at })} where account_id = ${account_id}`
        const { body } = yield* requestJson("/v1/account", { key })
        assert.strictEqual(valueAt(body, "results", 0, "created_at"), printed)
      }
    }))

  it.effect("all tiers can read it, and a change of tier is visible immediately (D3)", () =>
    Effect.gen(function* () {
      for (const tier of tiers) {
        const { key } = yield* createCustomer(`of tier ${tier}`, { tier })
        for (const now of [tier, ...tiers]) {
          yield* Accounts.updateAccount(`of tier ${tier}`, { tier: now })
          assert.strictEqual(valueAt((yield* requestJson("/v1/account", { key })).body, "results", 0, "tier"), now)
        }
      }
    }))

  it.effect("requires a key and takes no parameters, so nobody can read another account (D2, D4)", () =>
    Effect.gen(function* () {
      const { account_id } = yield* createCustomer("another's")
      const { key } = yield* createCustomer("curious")
      for (const path of ["/v1/account", keysPath]) {
        const response = yield* requestJson(path, { key: null })
        assert.deepStrictEqual([response.status, valueAt(response.body, "error", "code")], [401, "missing_api_key"])
        for (const name of ["account_id", "id", "name", "key_id", "status"]) {
          const { body, status } = yield* requestJson(`${path}?${name}=${account_id}`, { key })
          assert.strictEqual(status, 422)
          assert.strictEqual(valueAt(body, "error", "code"), "validation_error")
          assert.strictEqual(valueAt(body, "error", "details", "fields", 0, "field"), name)
        }
      }
      for (const query of ["page=1", "limit=10"]) {
        assert.strictEqual((yield* requestJson(`/v1/account?${query}`, { key })).status, 422)
      }
    }))

  it.effect("the account and its keys can be read for free, whatever the prepaid balance (D27)", () =>
    Effect.gen(function* () {
      for (const balance of [1, 0, -1_000_000]) {
        const { key } = yield* createCustomer(`paid ${balance}`, { balance })
        for (const path of ["/v1/account", keysPath]) {
          const { headers, status } = yield* requestJson(path, { key })
          assert.deepStrictEqual([status, headers["x-cost-microdollars"]], [200, "0"])
        }
      }
    }))
})

layer(Service.layer, { excludeTestServices: true })("GET /v1/account/api-keys", (it) => {
  it.effect("returns every field of a key; unset times and endpoints are null (resources: account/api-keys)", () =>
    Effect.gen(function* () {
      const asking = yield* createCustomer("printed")
      const other = yield* another("printed", { name: 'Ünï "key"', endpoints: ["/v1/news", "/v1/account/api-keys"] })
      yield* set(asking.key_id, { created_at: "2025-01-15T02:00:00Z", last_used_at: "2999-01-01T00:00:00Z" })
      yield* set(other.key_id, {
        created_at: "2025-07-15T02:00:00Z",
        expires_at: "2999-07-15T04:00:00.001Z",
        last_used_at: "2025-07-16T12:00:00Z",
      })
      const { text } = yield* requestJson(keysPath, { key: asking.key })
      assert.strictEqual(
        text,
        `{"count":2,"results":[{"key_id":${asking.key_id},"name":"test","key_hint":"${asking.key.slice(0, 12)}",` +
          `"status":"active","endpoints":null,"created_at":"2025-01-14T21:00:00-05:00","expires_at":null,` +
          `"last_used_at":"2998-12-31T19:00:00-05:00"},{"key_id":${other.key_id},"name":"Ünï \\"key\\"",` +
          `"key_hint":"${other.key.slice(0, 12)}","status":"active","endpoints":["/v1/news","/v1/account/api-keys"],` +
          `"created_at":"2025-07-14T21:00:00-05:00","expires_at":"2999-07-14T23:00:00.001-05:00",` +
          `"last_used_at":"2025-07-16T07:00:00-05:00"}],"page":1,"limit":10,"has_more":false}`,
      )
    }))

  it.effect("the three times of a key are instants, formatted at -05:00 all year (§2.1.2, §2.1.4)", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("key clock")
      const { key_id } = yield* another("key clock")
      for (const [instant, printed] of instants) {
        yield* set(key_id, { created_at: instant, expires_at: instant, last_used_at: instant })
        const row = (yield* listed(key)).find((row) => valueAt(row, "key_id") === key_id)
        for (const name of ["created_at", "expires_at", "last_used_at"]) {
          assert.strictEqual(valueAt(row, name), printed, name)
        }
      }
    }))

  it.effect("a key is active until it expires or is disabled; a revoked key stays disabled (D2)", () =>
    Effect.gen(function* () {
      const account = "states"
      const { key } = yield* createCustomer(account)
      const wanted = { past: "2025-01-01T00:00:00Z", ahead: "2999-01-01T00:00:00Z" }
      const states = [
        [{}, "active"],
        [{ expires_at: wanted.ahead }, "active"],
        [{ expires_at: wanted.past }, "expired"],
        [{ disabled_at: wanted.past }, "disabled"],
        [{ revoked_at: wanted.past }, "disabled"],
        [{ disabled_at: wanted.past, revoked_at: wanted.past }, "disabled"],
        [{ expires_at: wanted.past, disabled_at: wanted.past }, "disabled"],
        [{ expires_at: wanted.past, revoked_at: wanted.past }, "disabled"],
      ] as const
      const expected: Array<Array<unknown>> = []
      for (const [columns, status] of states) {
        const { key_id } = yield* another(account)
        yield* set(key_id, { expires_at: null, ...columns })
        expected.push([key_id, status])
      }
      const shown = (yield* listed(key)).slice(1).map((row) => [valueAt(row, "key_id"), valueAt(row, "status")])
      assert.deepStrictEqual(shown, expected)
    }))

  it.effect("the field `status` shows whether a key is accepted, even after it is disabled, enabled, rotated or revoked (D2)", () =>
    Effect.gen(function* () {
      const account = "life"
      const asking = yield* createCustomer(account)
      const { key, key_id } = yield* another(account)
      const statusOf = (id: number) =>
        Effect.map(listed(asking.key), (rows) => valueAt(rows.find((row) => valueAt(row, "key_id") === id), "status"))
      /**
       * Checks `status`, which changes immediately, and the status of responses to the key, which changes within a
       * second.
       */
      const become = Effect.fnUntraced(function* (status: string, responseStatus: number) {
        assert.strictEqual(yield* statusOf(key_id), status)
        const response = yield* retryUntil(requestJson(keysPath, { key }), (found) => found.status === responseStatus)
        assert.strictEqual(response.status, responseStatus)
      })
      yield* become("active", 200)
      yield* ApiKeys.disableApiKey(key_id)
      yield* become("disabled", 401)
      yield* ApiKeys.enableApiKey(key_id)
      yield* become("active", 200)
      const next = yield* findAccountAndKeyIds((yield* ApiKeys.rotateApiKey(key_id, Duration.hours(1))).key)
      yield* become("active", 200)
      assert.strictEqual(yield* statusOf(next.key_id), "active")
      yield* set(key_id, { expires_at: "2025-01-01T00:00:00Z" })
      yield* become("expired", 401)
      yield* ApiKeys.revokeApiKey(key_id)
      yield* become("disabled", 401)
      assert.strictEqual(yield* statusOf(next.key_id), "active")
    }))

  it.effect("key_hint is the first 12 characters of the key, and no other part of the key is returned (D2)", () =>
    Effect.gen(function* () {
      const account = "hints"
      const first = yield* createCustomer(account)
      const others = yield* Effect.replicateEffect(another(account), 20)
      const { text } = yield* requestJson(`${keysPath}?limit=100`, { key: first.key })
      const hints = ListClients.getResultRows(JSON.parse(text)).map((row) => String(valueAt(row, "key_hint")))
      const keys = [first, ...others].map(({ key }) => key)
      assert.deepStrictEqual(hints, keys.map((key) => key.slice(0, 12)))
      for (const key of keys) {
        for (const part of [key.slice(0, 13), key.slice(12), key.slice(12, 24), key.slice(-6)]) {
          assert.notInclude(text, part)
        }
      }
      assert.notMatch(text, /[0-9a-f]{64}|hash/, "nor its digest")
    }))

  it.effect("the field `endpoints` lists the only endpoints that accept the key (resources: account/api-keys)", () =>
    Effect.gen(function* () {
      const account = "limited"
      const { key } = yield* createCustomer(account)
      const lists = [["/v1/screener"], ["/v1/usage", keysPath, "/v1/account"], [keysPath]]
      const keys = yield* Effect.forEach(lists, (endpoints) => another(account, { endpoints }))
      assert.deepStrictEqual((yield* listed(key)).map((row) => valueAt(row, "endpoints")), [null, ...lists])
      for (const [index, endpoints] of lists.entries()) {
        for (const path of ["/v1/account", keysPath]) {
          const { body, status } = yield* requestJson(path, { key: keys[index]?.key ?? "" })
          assert.strictEqual(status, endpoints.includes(path) ? 200 : 403)
          if (status === 200) continue
          assert.strictEqual(valueAt(body, "error", "code"), "endpoint_not_allowed")
          assert.deepStrictEqual(valueAt(body, "error", "details"), { endpoint: path, allowed: endpoints })
        }
      }
    }))

  it.effect("last_used_at is null until the key is used, and then at most a minute old (§2.5)", () =>
    Effect.gen(function* () {
      const account = "uses"
      const asking = yield* createCustomer(account)
      const { key } = yield* another(account)
      const lastUse = Effect.map(listed(asking.key), ([, row]) => valueAt(row, "last_used_at"))
      assert.strictEqual(yield* lastUse, null)
      const sent = Date.now()
      yield* requestJson("/v1/account", { key })
      const written = String(yield* retryUntil(lastUse, (found) => found !== null))
      assert.match(written, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?-05:00$/)
      assert.isAtLeast(Date.parse(written), sent)
      assert.isAtMost(Date.parse(written), Date.now())
      yield* requestJson("/v1/account", { key })
      assert.strictEqual(yield* lastUse, written)
    }))

  it.effect("keys are ordered by created_at, oldest first, then by key_id, and following the pages shows each once (D8)", () =>
    Effect.gen(function* () {
      const account = "many"
      const { key, key_id } = yield* createCustomer(account)
      yield* set(key_id, { created_at: "2025-01-01T00:00:00Z" })
      const days = ["03", "01", "02"]
      const made = yield* Effect.forEach(
        Array.from({ length: 24 }, (_, number) => `2025-02-${days[number % 3]}T00:00:00Z`),
        (created_at) =>
          Effect.gen(function* () {
            const { key_id } = yield* another(account)
            yield* set(key_id, { created_at })
            return { key_id, created_at }
          }),
      )
      const expected = [key_id].concat(
        made.toSorted((a, b) => a.created_at.localeCompare(b.created_at) || a.key_id - b.key_id)
          .map((row) => row.key_id),
      )
      for (const limit of [1, 7, 25, 100]) {
        assert.deepStrictEqual(idsIn(yield* readAllPages(keysPath, key, limit)), expected)
      }
      assert.deepStrictEqual(idsIn(yield* listed(key, "page=3&limit=7")), expected.slice(14, 21))
      assert.deepStrictEqual(yield* listed(key, "page=5&limit=7"), [])
      assert.strictEqual((yield* listed(key, "")).length, defaultLimit)
    }))

  it.effect("refuses a page or a limit that is out of range (D8)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      for (const query of ["page=0", "page=x", "limit=0", "limit=101", "limit=", "page=1&page=2"]) {
        const { body, status } = yield* requestJson(`${keysPath}?${query}`, { key: basic })
        assert.strictEqual(status, 422, query)
        assert.strictEqual(valueAt(body, "error", "details", "fields", 0, "field"), query.split("=")[0])
      }
    }))

  it.effect("an account sees only its own keys (resources: account/api-keys)", () =>
    Effect.gen(function* () {
      const counts = [1, 4, 2, 11, 3]
      const accounts = counts.map((_, number) => `neighbour ${number}`)
      const keys = new Map<string, Array<{ readonly key: string; readonly key_id: number }>>()
      for (const account of accounts) keys.set(account, [yield* createCustomer(account)])
      // Alternates between the accounts, so that neither has consecutive key ids.
      for (let round = 1; round < 11; round++) {
        for (const [number, account] of accounts.entries()) {
          if (round < (counts[number] ?? 0)) keys.get(account)?.push(yield* another(account))
        }
      }
      for (const [number, account] of accounts.entries()) {
        const own = keys.get(account) ?? []
        assert.strictEqual(own.length, counts[number])
        for (const { key } of own) {
          assert.deepStrictEqual(idsIn(yield* listed(key)), own.map(({ key_id }) => key_id))
          const { body } = yield* requestJson("/v1/account", { key })
          assert.strictEqual(valueAt(body, "results", 0, "name"), account)
          assert.strictEqual(valueAt(body, "results", "length"), 1)
        }
        assert.deepStrictEqual(
          idsIn(yield* readAllPages(keysPath, own[0]?.key ?? "", 2)),
          own.map(({ key_id }) => key_id),
        )
      }
    }))
})
