import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as Service from "../support/Service.ts"

const { ask, at, insert } = Service

const runner = (fields: Record<string, unknown>) => ({
  ticker: "ZYXA",
  date: "2025-07-01",
  gap_percentage: "25.5",
  market_open: "1.255",
  previous_day_close: "1",
  percentage_gain: "80",
  open_to_high_pct: "43.4263",
  high_price: "1.8",
  high_time: "2025-07-01 09:30:00",
  low_price: "1.1",
  daily_volume_ratio: "12.5",
  volume: "9007199254740991",
  dollar_volume: "123456789012345678.91",
  market_close: "1.2",
  close_under_50pct_of_range: true,
  filing_types: ["8-K", "S-3"],
  last_updated: "2025-07-01 20:05:00",
  anomaly_flagged: true,
  ...fields
})

layer(Service.layer, { excludeTestServices: true })("GET /v1/intraday-runners", (it) => {
  it.effect("§2.4 shows flagged sessions above nine times the volume, with every field", () =>
    Effect.gen(function*() {
      yield* insert("intraday_runners", runner({}))
      const { body, headers, status, text } = yield* ask("/v1/intraday-runners")
      console.log(text)
      assert.strictEqual(status, 200)
    }))
})
