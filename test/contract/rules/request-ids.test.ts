/** Tests the request ids that the service generates (D12). */
import { assert, describe, it } from "@effect/vitest"
import { makeRequestId, parseRequestIdNumber } from "../../../src/contract/rules/RequestIds.ts"

describe("A request id", () => {
  it("is a version 7 UUID with the time, and differs from all others of the same millisecond (D12)", () => {
    const now = Date.parse("2026-11-27T08:00:00.123Z")
    // The twelve-bit counter distinguishes 4,096 ids.
    const idsPerMillisecond = 5_000
    const ids = Array.from({ length: idsPerMillisecond }, () => makeRequestId(now))
    assert.strictEqual(new Set(ids).size, idsPerMillisecond)
    for (const id of ids) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    assert.strictEqual(Number.parseInt((ids[0] ?? "").replace("-", "").slice(0, 12), 16), now)
  })

  it("has a number that usage can store only if this process created it, at that time and in this spelling (D12, D29)", () => {
    for (const now of [0, 1, Date.now(), 2 ** 48 - 1]) {
      const id = makeRequestId(now)
      assert.strictEqual(parseRequestIdNumber(id, now), Number.parseInt(id.slice(15, 18), 16))
      const others = [
        id.toUpperCase(),
        `${id.slice(0, 15)}xyz${id.slice(18)}`,
        id.slice(1),
        `${id}0`,
        crypto.randomUUID(),
      ]
      for (const other of others) assert.strictEqual(parseRequestIdNumber(other, now), undefined, other)
      assert.strictEqual(parseRequestIdNumber(id, now + 1), undefined)
    }
  })
})
