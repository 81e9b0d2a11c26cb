/** D2: what the fast path remembers of keys, on a clock that the test sets. */
import { assert, layer } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { TestClock } from "effect/testing"
import { createHash } from "node:crypto"
import { Account } from "../../src/accounts/keys/Authentication.ts"
import { getMonotonicMillis, RecentKeys } from "../../src/http/RecentKeys.ts"

const account = Account.of({ account_id: 1, tier: "basic", balance_microdollars: null, key_id: 1, endpoints: null })

const digestOf = (key: string) => createHash("sha256").update(key).digest("hex")

const note = Effect.fnUntraced(function* (key: string) {
  const recent = yield* RecentKeys
  recent.note(digestOf(key), { account, asOf: getMonotonicMillis(yield* Clock.Clock) })
})

layer(RecentKeys.layer)("Recent keys", (it) => {
  it.effect("D2 finds a key for half a second after it was looked up, and no other", () =>
    Effect.gen(function* () {
      const recent = yield* RecentKeys
      yield* note("one")
      assert.strictEqual(recent.find("one"), account)
      for (const other of ["", "two", "On", digestOf("one")]) assert.isUndefined(recent.find(other))
      yield* TestClock.adjust("499 millis")
      assert.strictEqual(recent.find("one"), account)
      yield* TestClock.adjust("1 millis")
      assert.isUndefined(recent.find("one"))
    }))

  it.effect("D2 drops keys within a second although no other request comes", () =>
    Effect.gen(function* () {
      const recent = yield* RecentKeys
      yield* TestClock.adjust("1 second")
      assert.strictEqual(recent.size(), 0)
      for (let number = 0; number < 100; number++) yield* note(`key ${number}`)
      assert.strictEqual(recent.size(), 100)
      yield* TestClock.adjust("300 millis")
      yield* note("a later key")
      assert.strictEqual(recent.size(), 101)
      yield* TestClock.adjust("450 millis")
      assert.strictEqual(recent.size(), 1)
      yield* TestClock.adjust("300 millis")
      assert.strictEqual(recent.size(), 0)
    }))

  it.effect("D2 remembers a bounded number of keys", () =>
    Effect.gen(function* () {
      const recent = yield* RecentKeys
      const asOf = getMonotonicMillis(yield* Clock.Clock)
      for (let number = 0; number < 25_000; number++) recent.note(String(number), { account, asOf })
      assert.isAtMost(recent.size(), 10_000)
    }))
})
