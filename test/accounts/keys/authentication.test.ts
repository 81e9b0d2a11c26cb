/** Tests for authentication, API keys and tiers (§5, D2, D3). Each test creates the keys that it changes. */
import { NodeCrypto } from "@effect/platform-node"
import { assert, it, layer } from "@effect/vitest"
import { Arbitrary, Clock, ConfigProvider, Duration, Effect, Layer, Redacted, Schedule, Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import * as Accounts from "../../../src/accounts/Accounts.ts"
import { AuthorizationMiddleware } from "../../../src/contract/Authorization.ts"
import { makeHandler } from "../../../src/query/EndpointHandler.ts"
import { AuthenticationMiddleware } from "../../../src/contract/Authentication.ts"
import { generateApiKey, isWellFormedApiKey } from "../../../src/accounts/keys/ApiKeyFormat.ts"
import * as ApiKeys from "../../../src/accounts/keys/ApiKeyManagement.ts"
import { isTierSufficient, RequiredTier, type Tier, tiers } from "../../../src/contract/rules/EndpointAnnotations.ts"
import { makeObjectEncoder } from "../../../src/contract/rules/EndpointResult.ts"
import * as Service from "../../support/Service.ts"
import { serveApi } from "../../support/SmallApis.ts"

const { requestJson, valueAt, TestKeys } = Service

const path = "/v1/ticker-changes?ticker=AUTH"

/** Sends a request with no credentials other than these headers. */
const requestWithHeaders = (headers: Readonly<Record<string, string>>) => requestJson(path, { key: null, headers })

/** Asserts that a request with these headers gets a 401 with this error code. */
const assertRefused = Effect.fnUntraced(function* (headers: Readonly<Record<string, string>>, code: string) {
  const response = yield* requestWithHeaders(headers)
  assert.strictEqual(response.status, 401, JSON.stringify(headers))
  assert.strictEqual(valueAt(response.body, "error", "code"), code, JSON.stringify(headers))
  assert.strictEqual(response.headers["www-authenticate"], "Bearer")
  assert.strictEqual(valueAt(response.body, "request_id"), response.headers["x-request-id"])
  assert.isUndefined(valueAt(response.body, "error", "details"))
})

/** Creates a key for the named account, and the account if it does not exist. */
const createKey = (account: string) => Service.ensureAccountWithKey(account, "basic")

/** Returns the digest under which the database stores a key. */
const hashKey = (key: string) => createHash("sha256").update(key).digest("hex")

/** Reads the database row of a key. */
const readKeyRow = Effect.fnUntraced(function* (key: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<
    { readonly key_id: bigint; readonly last_used_at: Date | null; readonly revoked_at: Date | null }
  >`
    select * from api_keys where key_hash = decode(${hashKey(key)}, 'hex')
  `
  if (row === undefined) return yield* Effect.die(new Error("the key is not stored"))
  return row
})

const waitForStatus = (key: string, status: number) => Service.waitForResponseStatus(path, key, status)

const readLastUse = (key: string) => Effect.map(readKeyRow(key), (row) => row.last_used_at?.getTime() ?? null)

/** Waits for an update of `last_used_at`, which is written after the response. */
const waitForLastUse = (key: string, before: number | null) =>
  readLastUse(key).pipe(
    Effect.repeat({ until: (now) => now !== before, schedule: Schedule.spaced("20 millis"), times: 2_000 }),
  )

layer(Service.layer, { excludeTestServices: true })("Authentication", (it) => {
  it.effect("accepts Authorization: Bearer and X-API-Key, in upper and lower case (D2)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      for (
        const headers of [
          { Authorization: `Bearer ${basic}` },
          { authorization: `bearer ${basic}` },
          { AUTHORIZATION: `BEARER ${basic}` },
          { Authorization: `Bearer   ${basic}` },
          { "X-API-Key": basic },
          { "x-api-key": basic },
          { "X-Api-Key": `  ${basic}  ` },
        ]
      ) {
        const response = yield* requestWithHeaders(headers)
        assert.strictEqual(response.status, 200, JSON.stringify(headers))
        assert.isUndefined(response.headers["www-authenticate"])
      }
    }))

  it.effect("returns 401 missing_api_key without a key or with a scheme other than Bearer (D2)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      for (
        const headers of [
          {},
          { Authorization: "" },
          { Authorization: "Bearer" },
          { Authorization: "Bearer " },
          { "X-API-Key": "" },
          { "X-API-Key": "   " },
          { Authorization: `Basic ${Buffer.from(`user:${basic}`).toString("base64")}` },
          { Authorization: `Token ${basic}` },
          { Authorization: basic },
          { Authorization: `Bearer${basic}` },
          { Cookie: `X-API-Key=${basic}` },
          { "X-APIKey": basic },
          { "Api-Key": basic },
        ]
      ) {
        yield* assertRefused(headers, "missing_api_key")
      }
    }))

  it.effect("returns 401 invalid_api_key for any unknown key (D2)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      const wellFormed = Redacted.value(yield* generateApiKey)
      for (
        const key of [
          wellFormed,
          "nonsense",
          basic.toLowerCase() === basic ? basic.toUpperCase() : basic.toLowerCase(),
          basic.slice(0, -1),
          `${basic}x`,
          `${basic},${basic}`,
          `"${basic}"`,
          basic.slice(8),
          hashKey(basic),
          "' or 1=1 --",
          "%00",
          "\u00e9",
          "x".repeat(8000),
        ]
      ) {
        yield* assertRefused({ "X-API-Key": key }, "invalid_api_key")
        yield* assertRefused({ Authorization: `Bearer ${key}` }, "invalid_api_key")
      }
    }))

  it.effect("accepts the same key in both headers, and ignores an empty header (D2)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      for (
        const headers of [
          { Authorization: `Bearer ${basic}`, "X-API-Key": basic },
          { Authorization: `bearer   ${basic}`, "X-API-Key": ` ${basic} ` },
          { Authorization: `Bearer ${basic}`, "X-API-Key": "" },
          { Authorization: "Bearer", "X-API-Key": basic },
          { Authorization: "", "X-API-Key": basic },
        ]
      ) {
        assert.strictEqual((yield* requestWithHeaders(headers)).status, 200, JSON.stringify(headers))
      }
      yield* assertRefused({ Authorization: "Bearer nonsense", "X-API-Key": "nonsense" }, "invalid_api_key")
      yield* assertRefused({ Authorization: "Bearer nonsense", "X-API-Key": "" }, "invalid_api_key")
      yield* assertRefused({ Authorization: "Basic eDp5", "X-API-Key": "" }, "missing_api_key")
    }))

  it.effect("refuses two different credentials, whatever their types (D2)", () =>
    Effect.gen(function* () {
      const { basic, pro } = yield* TestKeys
      const revoked = yield* createKey("revoked, beside another")
      yield* ApiKeys.revokeApiKey(Number((yield* readKeyRow(revoked)).key_id))
      const unknown = Redacted.value(yield* generateApiKey)
      const pairs = [[basic, pro], [basic, "nonsense"], [basic, unknown], [basic, revoked], [revoked, unknown]] as const
      for (const [one, other] of pairs) {
        yield* assertRefused({ Authorization: `Bearer ${one}`, "X-API-Key": other }, "invalid_api_key")
        yield* assertRefused({ Authorization: `Bearer ${other}`, "X-API-Key": one }, "invalid_api_key")
      }
      for (const authorization of ["Basic eDp5", `Token ${basic}`, `Bearer${basic}`, "nonsense"]) {
        yield* assertRefused({ Authorization: authorization, "X-API-Key": basic }, "invalid_api_key")
      }
      const { body } = yield* requestWithHeaders({ Authorization: `Bearer ${basic}`, "X-API-Key": pro })
      assert.match(String(valueAt(body, "error", "message")), /two different credentials.*Send one API key/)
    }))

  it.effect("returns 401 api_key_disabled for a revoked, disabled or expired key in either header (D2)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [revoked, disabled, expired] = [
        yield* createKey("revoked"),
        yield* createKey("disabled"),
        yield* createKey("expired"),
      ]
      yield* ApiKeys.revokeApiKey(Number((yield* readKeyRow(revoked)).key_id))
      yield* sql`update api_keys set disabled_at = now() - interval '1 year' where key_id = ${
        (yield* readKeyRow(disabled)).key_id
      }`
      yield* sql`update api_keys set expires_at = now() where key_id = ${(yield* readKeyRow(expired)).key_id}`
      for (const key of [revoked, disabled, expired]) {
        yield* assertRefused({ "X-API-Key": key }, "api_key_disabled")
        yield* assertRefused({ Authorization: `Bearer ${key}` }, "api_key_disabled")
      }
    }))

  it.effect("accepts a key until the end of its last day in New York (D2)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const key = yield* Service.ensureAccountWithKey("lasting", "basic", { expires: "9999-12-30" })
      assert.strictEqual((yield* requestJson(path, { key })).status, 200)
      for (
        const [expires, instant] of [["2026-07-01", "2026-07-02T04:00:00.000Z"], [
          "2027-01-01",
          "2027-01-02T05:00:00.000Z",
        ]] as const
      ) {
        const dated = yield* Service.ensureAccountWithKey("lasting", "basic", { expires })
        const [row] = yield* sql<{ readonly expires_at: Date }>`
          select expires_at from api_keys where key_hash = decode(${hashKey(dated)}, 'hex')
        `
        assert.strictEqual(row?.expires_at.toISOString(), instant)
      }
    }))

  it.effect("refuses a key within a second after it is revoked, disabled or expires (D2, D17)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const ends = [
        (id: bigint) => sql`update api_keys set disabled_at = now() where key_id = ${id}`,
        (id: bigint) => sql`update api_keys set expires_at = now() where key_id = ${id}`,
        (id: bigint) => ApiKeys.revokeApiKey(Number(id)),
      ]
      for (const end of ends) {
        const key = yield* createKey("watched")
        const { key_id } = yield* readKeyRow(key)
        assert.strictEqual((yield* requestJson(path, { key })).status, 200)
        yield* end(key_id)
        yield* waitForStatus(key, 401)
        assert.strictEqual(valueAt((yield* requestJson(path, { key })).body, "error", "code"), "api_key_disabled")
      }
    }))

  it.effect("accepts a key within a second each time it is enabled again (D2)", () =>
    Effect.gen(function* () {
      const key = yield* createKey("mended")
      const id = Number((yield* readKeyRow(key)).key_id)
      for (const _ of [1, 2]) {
        assert.strictEqual((yield* requestJson(path, { key })).status, 200)
        yield* ApiKeys.disableApiKey(id)
        yield* waitForStatus(key, 401)
        yield* ApiKeys.enableApiKey(id)
        yield* waitForStatus(key, 200)
      }
    }))

  it.effect("replaces a key once, by one with the same expiry; the error of a second rotation names that key (D2)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const id = Number((yield* readKeyRow(yield* createKey("rotated twice"))).key_id)
      yield* sql`update api_keys set expires_at = '2099-01-02T05:00:00Z' where key_id = ${id}`
      const { key_id } = yield* ApiKeys.rotateApiKey(id, Duration.hours(1))
      const refused = yield* Effect.flip(ApiKeys.rotateApiKey(id, Duration.hours(1)))
      assert.strictEqual(refused._tag, "KeyAlreadyReplaced")
      assert.match(
        refused.message,
        new RegExp(`already replaced by key ${key_id}, and works until \\d{4}-.*rotate key ${key_id}`),
      )
      const next = yield* ApiKeys.rotateApiKey(key_id, Duration.zero)
      assert.strictEqual((yield* ApiKeys.findApiKey(next.key_id)).expires_at, "2099-01-02T00:00:00-05:00")
      assert.strictEqual((yield* Effect.flip(ApiKeys.rotateApiKey(key_id, Duration.zero)))._tag, "KeyNotActive")
    }))

  it.effect("never accepts a revoked key again (D2)", () =>
    Effect.gen(function* () {
      const key = yield* createKey("gone for good")
      const id = Number((yield* readKeyRow(key)).key_id)
      yield* ApiKeys.revokeApiKey(id)
      const { revoked_at } = yield* readKeyRow(key)
      assert.isNotNull(revoked_at)
      assert.strictEqual((yield* Effect.flip(ApiKeys.enableApiKey(id)))._tag, "KeyNotActive")
      assert.strictEqual((yield* Effect.flip(ApiKeys.disableApiKey(id)))._tag, "KeyNotActive")
      assert.strictEqual((yield* Effect.flip(ApiKeys.enableApiKey(id)))._tag, "KeyNotActive")
      yield* ApiKeys.revokeApiKey(id)
      assert.deepStrictEqual((yield* readKeyRow(key)).revoked_at, revoked_at)
      yield* assertRefused({ "X-API-Key": key }, "api_key_disabled")
    }))

  it.effect("limits a key to its endpoints, and lists them if it refuses another one (D2)", () =>
    Effect.gen(function* () {
      const endpoints = ["/v1/ticker-changes", "/v1/news"]
      const key = yield* Service.ensureAccountWithKey("narrow", "ultimate", { endpoints })
      assert.strictEqual((yield* requestJson(path, { key })).status, 200)
      assert.strictEqual((yield* requestJson("/v1/news", { key })).status, 200)
      for (const path of ["/v1/news-basic", "/v1/research-reports", "/v1/account"]) {
        const { body, headers, status } = yield* requestJson(`${path}?nonsense=1`, { key })
        assert.strictEqual(status, 403, path)
        assert.strictEqual(valueAt(body, "error", "code"), "endpoint_not_allowed")
        assert.deepStrictEqual(valueAt(body, "error", "details"), { endpoint: path, allowed: endpoints })
        assert.strictEqual(valueAt(body, "request_id"), headers["x-request-id"])
        assert.isUndefined(headers["www-authenticate"])
      }
      // The tier is checked before the key's list of allowed endpoints.
      const low = yield* Service.ensureAccountWithKey("narrow and low", "basic", { endpoints })
      const { body } = yield* requestJson("/v1/research-reports", { key: low })
      assert.strictEqual(valueAt(body, "error", "code"), "insufficient_tier")
    }))

  it.effect("writes last_used_at on the first use, and then at most once a minute (§2.5, §8)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const key = yield* createKey("first use")
      assert.strictEqual(yield* readLastUse(key), null)
      const sent = yield* Clock.currentTimeMillis
      yield* requestJson(path, { key })
      const first = (yield* waitForLastUse(key, null)) ?? 0
      assert.isAtLeast(first, sent)
      assert.isAtMost(first, yield* Clock.currentTimeMillis)

      // Neither key is in a cache. One was last used 61 seconds ago, the other 50 seconds ago.
      const [old, fresh] = [yield* createKey("used long ago"), yield* createKey("used lately")]
      yield* sql`update api_keys set last_used_at = now() - interval '61 seconds' where key_id = ${
        (yield* readKeyRow(old)).key_id
      }`
      yield* sql`update api_keys set last_used_at = now() - interval '50 seconds' where key_id = ${
        (yield* readKeyRow(fresh)).key_id
      }`
      const [oldBefore, freshBefore] = [yield* readLastUse(old), yield* readLastUse(fresh)]
      yield* requestJson(path, { key: fresh })
      yield* requestJson(path, { key: old })
      assert.isAbove((yield* waitForLastUse(old, oldBefore)) ?? 0, oldBefore ?? 0)
      assert.strictEqual(yield* readLastUse(fresh), freshBefore)
    }))

  it.effect("writes last_used_at once for concurrent uses (§2.5)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const key = yield* createKey("busy")
      const readRowVersion = Effect.map(
        sql<{ readonly xmin: string }>`select xmin::text as xmin from api_keys where key_hash = decode(${
          hashKey(key)
        }, 'hex')`,
        ([row]) => row?.xmin,
      )
      yield* Effect.all(Array.from({ length: 30 }, () => requestJson(path, { key })), { concurrency: 30 })
      const first = yield* waitForLastUse(key, null)
      const [before, stamp] = [yield* readRowVersion, first]
      yield* Effect.all(Array.from({ length: 30 }, () => requestJson(path, { key })), { concurrency: 30 })
      // Updates run in order: once this key's update is visible, all earlier updates are visible, too.
      const later = yield* createKey("later")
      yield* requestJson(path, { key: later })
      yield* waitForLastUse(later, null)
      assert.strictEqual(yield* readRowVersion, before)
      assert.strictEqual(yield* readLastUse(key), stamp)
    }))

  it.effect("delays no request while the row of its key is locked (§2.5)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const key = yield* createKey("locked row")
      const { key_id } = yield* readKeyRow(key)
      yield* sql.withTransaction(Effect.gen(function* () {
        yield* sql`select 1 from api_keys where key_id = ${key_id} for update`
        assert.strictEqual((yield* requestJson(path, { key })).status, 200)
      }))
      assert.isNotNull(yield* waitForLastUse(key, null))
    }))

  it.effect("does not count a refused key as used (§2.5)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const key = yield* createKey("refused")
      yield* sql`update api_keys set disabled_at = now() where key_id = ${(yield* readKeyRow(key)).key_id}`
      yield* assertRefused({ "X-API-Key": key }, "api_key_disabled")
      const later = yield* createKey("after the refused")
      yield* requestJson(path, { key: later })
      yield* waitForLastUse(later, null)
      assert.strictEqual(yield* readLastUse(key), null)
    }))

  it.effect("stores only the SHA-256 of a key and its first 12 characters (D2)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const key = yield* createKey("stored")
      const [row] = yield* sql<{ readonly hint: string; readonly whole: string }>`
        select key_hint as hint, row_to_json(api_keys)::text || row_to_json(accounts)::text as whole
        from api_keys join accounts using (account_id) where key_hash = decode(${hashKey(key)}, 'hex')
      `
      assert.strictEqual(row?.hint, key.slice(0, 12))
      assert.notInclude(row?.whole, key.slice(0, 13))
      assert.notInclude(row?.whole, key.slice(12))
    }))

  it.effect("generates keys of tl_live_, 32 random base62 characters and a six-character checksum (D2)", () =>
    Effect.gen(function* () {
      const keyCount = 200
      const keys = yield* Effect.replicateEffect(Effect.map(generateApiKey, Redacted.value), keyCount)
      keys.forEach((key) => assert.match(key, /^tl_live_[0-9A-Za-z]{32}[0-9A-Za-z]{6}$/))
      assert.strictEqual(new Set(keys).size, keyCount)
      // Among 6,400 random letters, each of the 62 possible letters occurs about 103 times.
      const counts = Map.groupBy(keys.flatMap((key) => key.slice(8, 40).split("")), (letter) => letter)
      assert.strictEqual(counts.size, 62)
      counts.forEach((letters) => assert.isBelow(letters.length, 180))
    }))

  it.effect("refuses a mistyped key without a database query (D2)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const key = yield* createKey("mistyped")
      yield* sql.withTransaction(Effect.gen(function* () {
        // With the lock, any database query would wait for seconds, and the response would be a 503.
        yield* sql`lock table api_keys, accounts in access exclusive mode`
        for (const position of [0, 7, 8, 20, 39, 40, 45]) {
          const other = key[position] === "x" ? "y" : "x"
          yield* assertRefused(
            { "X-API-Key": `${key.slice(0, position)}${other}${key.slice(position + 1)}` },
            "invalid_api_key",
          )
        }
        yield* assertRefused({}, "missing_api_key")
      }))
      assert.strictEqual((yield* requestJson(path, { key })).status, 200)
    }))
})

const lowWrongKeyLimit = ConfigProvider.layerAdd(ConfigProvider.fromUnknown({ WRONG_KEYS_LIMIT: "2" }), {
  asPrimary: true,
})

layer(Service.layer.pipe(Layer.provide(lowWrongKeyLimit)), { excludeTestServices: true })(
  "Authentication with two credentials",
  (it) => {
    it.effect("counts a wrong key in both headers once, and does not count two different credentials (D2, D18)", () =>
      Effect.gen(function* () {
        const { basic } = yield* TestKeys
        const wrong = Redacted.value(yield* generateApiKey)
        assert.strictEqual((yield* requestWithHeaders({ "X-API-Key": basic })).status, 200)
        for (const _ of [1, 2, 3]) {
          yield* assertRefused({ Authorization: `Bearer ${wrong}`, "X-API-Key": basic }, "invalid_api_key")
        }
        for (const _ of [1, 2]) {
          yield* assertRefused({ Authorization: `Bearer ${wrong}`, "X-API-Key": wrong }, "invalid_api_key")
        }
        const blocked = yield* requestWithHeaders({ Authorization: `Bearer ${wrong}`, "X-API-Key": wrong })
        assert.strictEqual(blocked.status, 429)
        const beside = yield* requestWithHeaders({ Authorization: `Bearer ${wrong}`, "X-API-Key": basic })
        assert.strictEqual(beside.status, 401)
        assert.isUndefined(beside.headers["retry-after"])
        assert.strictEqual((yield* requestWithHeaders({ "X-API-Key": basic })).status, 200)
      }))
  },
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

const position = Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 45 })))
const character = Arbitrary.schema(Schema.Literals([...base62, "_", "-", " ", "é"]))

const assertMalformed = (key: string) => assert.isFalse(isWellFormedApiKey(Redacted.make(key)), key)

it.effect.prop(
  "a key is malformed if any of its characters is changed, added, removed or swapped (D2)",
  { position, character },
  (slip) =>
    Effect.gen(function* () {
      const key = Redacted.value(yield* generateApiKey)
      assert.isTrue(isWellFormedApiKey(Redacted.make(key)))
      const [before, at, after] = [key.slice(0, slip.position), key.charAt(slip.position), key.slice(slip.position + 1)]
      if (at !== slip.character) assertMalformed(`${before}${slip.character}${after}`)
      assertMalformed(`${before}${slip.character}${at}${after}`)
      assertMalformed(`${before}${after}`)
      if (after !== "" && after.charAt(0) !== at) assertMalformed(`${before}${after.charAt(0)}${at}${after.slice(1)}`)
    }).pipe(Effect.provide(NodeCrypto.layer)),
)

const TieredQuery = Schema.Struct({ n: Schema.optionalKey(Schema.Literal("1")) })
const TieredResponse = Schema.Struct({ tier: Schema.String })

/** Declares an endpoint that requires the given tier and has the same name as the tier. */
const declareEndpoint = <const Name extends Tier>(tier: Name) =>
  HttpApiEndpoint.get(tier, `/v1/${tier}`, { query: TieredQuery, success: TieredResponse }).annotate(RequiredTier, tier)

/** An API with one endpoint per tier. Each responds with the tier of the caller's account. */
class Tiered extends HttpApi.make("tiered")
  .add(HttpApiGroup.make("tiered").add(declareEndpoint("basic"), declareEndpoint("pro"), declareEndpoint("ultimate")))
  .middleware(AuthorizationMiddleware)
  .middleware(AuthenticationMiddleware) {}

const encodeTier = makeObjectEncoder(TieredResponse)

const showTier = makeHandler(TieredQuery, (_, { account: { tier } }) => Effect.succeed(encodeTier({ tier })))

const tieredService = serveApi(
  Tiered,
  Effect.succeed({ tiered: { basic: showTier, pro: showTier, ultimate: showTier } }),
)

layer(tieredService, { excludeTestServices: true })("Authorization by tier", (it) => {
  it.effect("lets each tier use its own endpoints and those of lower tiers (D3)", () =>
    Effect.gen(function* () {
      const keys = yield* TestKeys
      for (const [has, tier] of tiers.entries()) {
        for (const [needed, required_tier] of tiers.entries()) {
          for (const headers of [{ "X-API-Key": keys[tier] }, { Authorization: `Bearer ${keys[tier]}` }]) {
            const response = yield* requestJson(`/v1/${required_tier}`, { key: null, headers })
            assert.strictEqual(isTierSufficient(tier, required_tier), has >= needed)
            if (has >= needed) {
              assert.strictEqual(response.status, 200)
              assert.deepStrictEqual(response.body, { tier })
            } else {
              assert.strictEqual(response.status, 403)
              assert.strictEqual(valueAt(response.body, "error", "code"), "insufficient_tier")
              assert.deepStrictEqual(valueAt(response.body, "error", "details"), { required_tier, tier })
              assert.include(String(valueAt(response.body, "error", "message")), required_tier)
              assert.strictEqual(valueAt(response.body, "request_id"), response.headers["x-request-id"])
              assert.isUndefined(response.headers["www-authenticate"])
            }
          }
        }
      }
    }))

  it.effect("returns 401 rather than 403, and 403 rather than 422 (D3)", () =>
    Effect.gen(function* () {
      const keys = yield* TestKeys
      const statusOf = (key: string | null) =>
        Effect.map(requestJson("/v1/ultimate?nonsense=1", { key }), ({ status }) => status)
      assert.strictEqual(yield* statusOf(null), 401)
      assert.strictEqual(yield* statusOf("nonsense"), 401)
      assert.strictEqual(yield* statusOf(keys.basic), 403)
      assert.strictEqual(yield* statusOf(keys.pro), 403)
      assert.strictEqual(yield* statusOf(keys.ultimate), 422)
    }))

  it.effect("refuses two different keys before it checks a tier (D2, D3)", () =>
    Effect.gen(function* () {
      const keys = yield* TestKeys
      const pairs = [[keys.ultimate, keys.basic], [keys.basic, keys.ultimate], ["nonsense", keys.ultimate]] as const
      for (const [bearer, key] of pairs) {
        const { body, status } = yield* requestJson("/v1/ultimate", {
          key,
          headers: { Authorization: `Bearer ${bearer}` },
        })
        assert.strictEqual(status, 401)
        assert.strictEqual(valueAt(body, "error", "code"), "invalid_api_key")
      }
    }))

  it.effect("records a refused request if and only if its account is known (D2, D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const keys = yield* TestKeys
      const requests = [
        ["unknown", { key: null }],
        ["wrong", { key: "nonsense" }],
        ["low", { key: keys.basic }],
        ["two", { key: keys.ultimate, headers: { Authorization: `Bearer ${keys.basic}` } }],
        ["mistaken", { key: keys.ultimate }],
      ] as const
      for (const [id, { key, ...more }] of requests) {
        const headers = { ..."headers" in more ? more.headers : {}, "X-Request-Id": `recorded.${id}` }
        yield* requestJson("/v1/ultimate?n=2", { key, headers })
      }
      const readRecorded = sql`
        select request_id, status_code::int, accounts.name, cost_microdollars::int as cost
        from usage_requests join accounts using (account_id) where request_id like 'recorded.%' order by requested_at, status_code
      `
      yield* Effect.repeat(readRecorded, {
        until: (rows) => rows.length >= 2,
        schedule: Schedule.spaced("20 millis"),
        times: 2_000,
      })
      assert.deepStrictEqual(yield* readRecorded, [
        { request_id: "recorded.low", status_code: 403, name: "test basic", cost: 0 },
        { request_id: "recorded.mistaken", status_code: 422, name: "test ultimate", cost: 0 },
      ])
    }))

  it.effect("applies a new tier within a second (D3)", () =>
    Effect.gen(function* () {
      const key = yield* Service.ensureAccountWithKey("rising", "basic")
      assert.strictEqual((yield* requestJson("/v1/pro", { key })).status, 403)
      yield* Accounts.updateAccount("rising", { tier: "pro" })
      yield* Service.waitForResponseStatus("/v1/pro", key, 200)
    }))
})
