/**
 * Ingests bars for entire days, and stores the other rows that affect the results. For example:
 *
 * ```ts
 * yield* emptyTables
 * yield* storeChange("OLD", "NEW", "2026-06-02")
 * yield* ingestBars(["OLD", "2026-06-01", 10], ["NEW", "2026-06-02", 11])
 * // Now gap_stats has a gap of 10% for NEW.
 * ```
 *
 * The effects require the database of `Service.migratedDatabaseLayer` and the file system of `NodeServices.layer`.
 */
import { Effect, FileSystem } from "effect"
import { SqlClient } from "effect/sql"
import { ingestPriceFile } from "../../../src/ingest/prices/PriceIngest.ts"
import { priceDatasets } from "../../../src/ingest/prices/PriceRows.ts"
import { insertRows } from "../../support/Service.ts"

/** A day on which a symbol traded at a single price in USD. The default volume is 100 shares. */
export type DayBar = readonly [ticker: string, date: string, price: number, volume?: number]

/**
 * Writes a file with these bars and returns its path. Each bar becomes two minute bars, the first and the last of
 * regular hours. Gaps require minute bars, and a day is complete only if it has its last minute.
 */
export const writeBars = Effect.fnUntraced(function* (...bars: ReadonlyArray<DayBar>) {
  const fs = yield* FileSystem.FileSystem
  const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-prices-" })}/bars.csv`
  const lines = bars.flatMap(([ticker, date, price, volume = 100]) =>
    ["09:30", "15:59"].map((time) => {
      const start = new Date(`${date}T${time}:00Z`)
      const hasDaylightTime = date.slice(5) >= "03-09" && date.slice(5) < "11-01"
      start.setUTCHours(start.getUTCHours() + (hasDaylightTime ? 4 : 5))
      return [ticker, start.toISOString(), price, price, price, price, volume / 2].join(",")
    })
  )
  yield* fs.writeFileString(file, ["ticker,time,open,high,low,close,volume", ...lines].join("\n"))
  return file
})

/** Writes a file with these bars and ingests it into all datasets. */
export const ingestBars = Effect.fnUntraced(function* (...bars: ReadonlyArray<DayBar>) {
  return yield* ingestPriceFile(yield* writeBars(...bars), { allowEmpty: false, check: false, datasets: priceDatasets })
})

/**
 * Runs an ingest without a file, which recomputes the sessions of symbols whose ticker changes or splits have changed.
 */
export const ingestCorrections = ingestPriceFile(undefined, {
  allowEmpty: false,
  check: false,
  datasets: priceDatasets,
})

/** Returns `count` weekdays starting at `first`, formatted as `YYYY-MM-DD`. */
export const listDays = (first: string, count: number) =>
  Array.from({ length: count * 2 }, (_, index) => new Date(Date.parse(first) + index * 86_400_000))
    .filter((day) => ![0, 6].includes(day.getUTCDay())).slice(0, count).map((day) => day.toISOString().slice(0, 10))

/** Deletes all bars and everything that is computed from them. */
export const emptyPrices = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(`truncate price_periods, ${priceDatasets.join(", ")}`)
})

/** Deletes the bars, everything that is computed from them, and all other input of the computation. */
export const emptyTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* emptyPrices
  yield* sql`truncate split_status, ticker_changes, float_outstanding, historical_float_pro, edgar_instances`
})

/** Stores a confirmed ticker change. `more` adds or overrides columns. */
export const storeChange = (
  old_ticker: string,
  new_ticker: string,
  effective_date: string,
  more: Readonly<Record<string, unknown>> = {},
) => insertRows("ticker_changes", { old_ticker, new_ticker, effective_date, status: "confirmed", ...more })

/** Stores an executed split that turns `from` old shares into `to` new ones. `more` adds or overrides columns. */
export const storeSplit = (
  ticker: string,
  effective_date: string,
  from: number | bigint,
  to: number | bigint,
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

/** Stores a row in `screener`. `more` adds or overrides columns. */
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
