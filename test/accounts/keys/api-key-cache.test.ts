/** Tests how long the service caches the account that belongs to an API key (D2, API keys). */
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { createHash } from "node:crypto"
import { CurrentAccount } from "../../../src/contract/Authentication.ts"
import { makeRecentKeyCache } from "../../../src/accounts/keys/Authenticator.ts"
import { getMonotonicMillis } from "../../../src/postgres/metrics/MonotonicTime.ts"

const account = CurrentAccount.of({
  account_id: 1,
  tier: "basic",
  spendable_microdollars: null,
  is_limited_by_budget: false,
  key_id: 1,
  endpoints: null,
  networks: null,
})

/** Returns the digest under which the cache stores a key. */
const digest = (key: string) => createHash("sha256").update(key).digest("hex")

/** Creates a cache. Its `add` uses the test clock's current time as the lookup time. */
const makeTestKeys = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const recentKeys = yield* makeRecentKeyCache
  const add = (key: string) =>
    recentKeys.add(digest(key), { account, isUseDue: false, asOf: getMonotonicMillis(clock) })
  return { ...recentKeys, add }
})

layer(Layer.empty)("The API key cache", (it) => {
  it.effect("finds a key for half a second after its lookup, and no other key (D2)", () =>
    Effect.gen(function* () {
      const { add, find } = yield* makeTestKeys
      add("one")
      assert.strictEqual(find("one")?.account, account)
      for (const other of ["", "two", "On", digest("one")]) assert.isUndefined(find(other))
      yield* TestClock.adjust("499 millis")
      assert.strictEqual(find("one")?.account, account)
      yield* TestClock.adjust("1 millis")
      assert.isUndefined(find("one"))
    }).pipe(Effect.scoped))

  it.effect("deletes keys within a second even if no request follows (D2)", () =>
    Effect.gen(function* () {
      const { add, getSize } = yield* makeTestKeys
      const keyCount = 100
      for (let number = 0; number < keyCount; number++) add(`key ${number}`)
      assert.strictEqual(getSize(), keyCount)
      yield* TestClock.adjust("300 millis")
      add("a later key")
      assert.strictEqual(getSize(), keyCount + 1)
      yield* TestClock.adjust("450 millis")
      assert.strictEqual(getSize(), 1)
      yield* TestClock.adjust("300 millis")
      assert.strictEqual(getSize(), 0)
    }).pipe(Effect.scoped))

  it.effect("remembers at most 10,000 keys (D2)", () =>
    Effect.gen(function* () {
      const { add, getSize } = yield* makeTestKeys
      for (let number = 0; number < 25_000; number++) add(String(number))
      assert.isAtMost(getSize(), 10_000)
    }).pipe(Effect.scoped))
})
