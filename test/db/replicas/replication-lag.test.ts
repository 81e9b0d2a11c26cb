/** README, Replicas: how far a replica is behind is told by where the primary was seen, and when. */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { makeWalHistory } from "../../../src/db/replicas/ReplicationLag.ts"

const upTo = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))

/** A primary that writes so much before each look, at so many milliseconds from the look before. */
const looks = Schema.NonEmptyArray(Schema.Struct({ written: upTo(3), later: upTo(400) }))

describe("Lag", () => {
  it.prop(
    "README, Replicas: the lag is the time since the first look that found the primary beyond the replica",
    [looks, upTo(60)],
    ([steps, replica]) => {
      const { behind, note } = makeWalHistory()
      let [at, position] = [0, 20]
      const seen = steps.map(({ later, written }) => {
        at += later
        position += written
        note({ at, position })
        return { at, position }
      })
      const now = at + 5
      const beyond = seen.find((one) => one.position > replica)
      const isKnown = replica >= (seen[0]?.position ?? 0)
      assert.strictEqual(behind(replica, now), isKnown ? beyond === undefined ? 0 : now - beyond.at : Infinity)
    },
  )

  it("README, Replicas: an idle primary leaves nobody behind, however long ago it wrote", () => {
    const { behind, note } = makeWalHistory()
    for (let at = 0; at < 10_000; at += 250) note({ at, position: 7 })
    assert.strictEqual(behind(7, 10_000), 0)
  })

  it("README, Replicas: of a replica that is further behind than is remembered nothing is known but that", () => {
    const { behind, note } = makeWalHistory()
    assert.strictEqual(behind(1, 0), Infinity)
    for (let at = 0; at < 5_000; at += 1) note({ at, position: at })
    assert.strictEqual(behind(100, 5_000), Infinity)
    assert.strictEqual(behind(4_000, 5_000), 999)
  })

  it("README, Replicas: a primary that took over and is behind the one before begins a history", () => {
    const { behind, note } = makeWalHistory()
    note({ at: 0, position: 10 })
    note({ at: 1, position: 20 })
    note({ at: 2, position: 15 })
    assert.strictEqual(behind(16, 3), 0)
    assert.strictEqual(behind(14, 3), Infinity)
    note({ at: 4, position: 18 })
    assert.strictEqual(behind(16, 9), 5)
  })
})
