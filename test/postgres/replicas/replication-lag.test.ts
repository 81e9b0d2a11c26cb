/** Tests that replication lag is computed from the WAL positions that the primary reported in earlier polls. */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { makeReplicationLagTracker } from "../../../src/postgres/replicas/Replica.ts"

/** Returns a schema for an integer from 0 to `maximum`. */
const upTo = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))

/** Polls of a primary: the bytes written and the milliseconds elapsed since the previous poll. */
const polls = Schema.NonEmptyArray(Schema.Struct({ written: upTo(3), later: upTo(400) }))

describe("Replication lag", () => {
  it.prop(
    "is the time since a poll first saw the primary beyond the replica's position (operations/replicas)",
    [polls, upTo(60)],
    ([steps, replica]) => {
      const { lagOf, record } = makeReplicationLagTracker()
      let [at, position] = [0, 20]
      const samples = steps.map(({ later, written }) => {
        at += later
        position += written
        record({ at, position })
        return { at, position }
      })
      const now = at + 5
      const beyond = samples.find((one) => one.position > replica)
      const isKnown = replica >= (samples[0]?.position ?? 0)
      assert.strictEqual(lagOf(replica, now), isKnown ? beyond === undefined ? 0 : now - beyond.at : Infinity)
    },
  )

  it("is zero while the primary is idle, however long ago its last write was (operations/replicas)", () => {
    const { lagOf, record } = makeReplicationLagTracker()
    for (let at = 0; at < 10_000; at += 250) record({ at, position: 7 })
    assert.strictEqual(lagOf(7, 10_000), 0)
  })

  it("is infinite if the replica is behind the oldest recorded position (operations/replicas)", () => {
    const { lagOf, record } = makeReplicationLagTracker()
    assert.strictEqual(lagOf(1, 0), Infinity)
    for (let at = 0; at < 5_000; at += 1) record({ at, position: at })
    assert.strictEqual(lagOf(100, 5_000), Infinity)
    assert.strictEqual(lagOf(4_000, 5_000), 999)
  })

  it("is measured anew when a promoted primary is behind the old one (operations/replicas)", () => {
    const { lagOf, record } = makeReplicationLagTracker()
    record({ at: 0, position: 10 })
    record({ at: 1, position: 20 })
    record({ at: 2, position: 15 })
    assert.strictEqual(lagOf(16, 3), 0)
    assert.strictEqual(lagOf(14, 3), Infinity)
    record({ at: 4, position: 18 })
    assert.strictEqual(lagOf(16, 9), 5)
  })
})
