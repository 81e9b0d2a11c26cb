/** Files of day bars with one price per day, and rows on which their results depend. */
import { Effect, FileSystem } from "effect"
import { SqlClient } from "effect/sql"
import { ingestPriceFile } from "../../../src/ingest/prices/PriceIngest.ts"
import { priceDatasets } from "../../../src/ingest/prices/PriceRows.ts"
import { insertRows } from "../../support/Service.ts"

/** Symbol, day, price and volume. A bar without a volume has 100 shares. */
export type DayBar = readonly [ticker: string, date: string, price: number, volume?: number]

export const writeBars = Effect.fnUntraced(function* (...bars: ReadonlyArray<DayBar>) {
  const fs = yield* FileSystem.FileSystem
  const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-prices-" })}/bars.csv`
  // With minute bars in regular hours, so that gaps are computed. A day ends with the last minute.
  const lines = bars.flatMap(([ticker, date, price, volume = 100]) =>
    ["09:30", "15:59"].map((time) => {
      const clock = new Date(`${date}T${time}:00Z`)
      const isSummer = date.slice(5) >= "03-09" && date.slice(5) < "11-01"
      clock.setUTCHours(clock.getUTCHours() + (isSummer ? 4 : 5))
      return [ticker, clock.toISOString(), price, price, price, price, volume / 2].join(",")
    })
  )
  yield* fs.writeFileString(file, ["ticker,time,open,high,low,close,volume", ...lines].join("\n"))
  return file
})

export const ingestBars = Effect.fnUntraced(function* (...bars: ReadonlyArray<DayBar>) {
  return yield* ingestPriceFile(yield* writeBars(...bars), { allowEmpty: false, check: false, datasets: priceDatasets })
})

/** Computes the sessions again whose ticker changes or splits have changed. */
export const ingestCorrections = ingestPriceFile(undefined, {
  allowEmpty: false,
  check: false,
  datasets: priceDatasets,
})

/** Returns this number of working days. */
export const listDays = (first: string, count: number) =>
  Array.from({ length: count * 2 }, (_, index) => new Date(Date.parse(first) + index * 86_400_000))
    .filter((day) => ![0, 6].includes(day.getUTCDay())).slice(0, count).map((day) => day.toISOString().slice(0, 10))

export const emptyPrices = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(`truncate price_periods, ${priceDatasets.join(", ")}`)
})

export const emptyTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* emptyPrices
  yield* sql`truncate split_status, ticker_changes, float_outstanding, historical_float_pro, edgar_instances`
})

export const storeChange = (
  old_ticker: string,
  new_ticker: string,
  effective_date: string,
  more: Readonly<Record<string, unknown>> = {},
) => insertRows("ticker_changes", { old_ticker, new_ticker, effective_date, status: "confirmed", ...more })

/** Stores a split of which `from` old shares become `to` new ones. */
export const storeSplit = (
  ticker: string,
  effective_date: string,
  from: number,
  to: number,
  more: Readonly<Record<string, unknown>> = {},
) =>
  insertRows("split_status", {
    id: `${ticker} ${effective_date}`,
    ticker,
    action_type: "split_effective",
    split_from: String(from),
    split_to: String(to),
    effective_date,
    executed: true,
    filed_at: effective_date,
    form_type: "8-K",
    last_updated: "2026-03-01 10:00:00",
    ...more,
  })

/** Stores a row of `screener`. */
export const storeListing = (ticker: string, more: Readonly<Record<string, unknown>>) =>
  insertRows("screener", {
    ticker,
    is_adr: false,
    num_gaps: 0,
    num_runners: 0,
    pending_s1: false,
    last_updated: "2025-01-01 10:00:00",
    ...more,
  })
