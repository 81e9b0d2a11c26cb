/** Tests GET /v1/afterhours-stats (resources). premarket-stats.test.ts covers the behavior shared by both endpoints. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { AfterhoursStat } from "../../../src/contract/endpoints/afterhours-stats.ts"
import { PremarketStat } from "../../../src/contract/endpoints/premarket-stats.ts"
import * as Service from "../../support/Service.ts"

const { requestJson, valueAt, insertRows } = Service

/** The number of fields that the specification lists for both endpoints. */
const specifiedFields = 25

layer(Service.layer, { excludeTestServices: true })("GET /v1/afterhours-stats", (it) => {
  it.effect("reads its own table, not that of premarket-stats (D30)", () =>
    Effect.gen(function* () {
      const session = {
        ticker: "AOWN",
        date: "2025-07-01",
        high_price: "2",
        low_price: "1",
        percentage_gain: "80",
        change_percentage: "20",
        volume: "1000",
        dollar_volume: "1300.5",
        last_updated: "2025-07-01 20:05:00",
      }
      yield* insertRows("premarket_stats", { ...session, reference_close: "1.1" })
      yield* insertRows("afterhours_stats", { ...session, reference_close: "1.2" })
      const before = yield* requestJson("/v1/premarket-stats?ticker=AOWN")
      const after = yield* requestJson("/v1/afterhours-stats?ticker=AOWN")
      assert.deepStrictEqual([valueAt(before.body, "count"), valueAt(before.body, "results", 0, "reference_close")], [
        1,
        1.1,
      ])
      assert.deepStrictEqual([valueAt(after.body, "count"), valueAt(after.body, "results", 0, "reference_close")], [
        1,
        1.2,
      ])
    }))

  it("has the fields of premarket-stats, in the same order (§2)", () => {
    assert.deepStrictEqual(Object.keys(AfterhoursStat.json.fields), Object.keys(PremarketStat.json.fields))
    assert.strictEqual(Object.keys(AfterhoursStat.json.fields).length, specifiedFields)
  })
})
