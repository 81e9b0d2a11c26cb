/** `follow_lineage` of lists over HTTP (D35): examples. `test/lists/followed-lists.test.ts` has the property tests. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as Service from "../support/Service.ts"

const { insertRows, requestJson, valueAt } = Service

const change = (
  old_ticker: string,
  new_ticker: string,
  effective_date: string,
  cik: string | null = null,
  company_name: string | null = null,
) => insertRows("ticker_changes", { old_ticker, new_ticker, effective_date, cik, company_name, status: "confirmed" })

const session = (ticker: string, date: string) => ({
  ticker,
  date,
  reference_close: 1,
  high_price: 1,
  low_price: 1,
  percentage_gain: 1,
  change_percentage: 1,
  volume: 1,
  dollar_volume: 1,
  filing_types: [],
  all_tags: [],
  last_updated: "2026-06-01 20:05:00",
})

const store = (...rows: ReadonlyArray<readonly [ticker: string, date: string]>) =>
  insertRows("premarket_stats", ...rows.map(([ticker, date]) => session(ticker, date)))

/** Rows as `ticker date lineage_ticker`. */
const summarize = (body: unknown) => {
  const results = valueAt(body, "results")
  return Array.isArray(results)
    ? results.map((row) => [valueAt(row, "ticker"), valueAt(row, "date"), valueAt(row, "lineage_ticker")].join(" "))
    : []
}

const follow = (query: string) => requestJson(`/v1/premarket-stats?follow_lineage=true&${query}`)

layer(Service.layer, { excludeTestServices: true })("follow_lineage", (it) => {
  it.effect("returns the rows of each symbol in its period, and counts the others (D35)", () =>
    Effect.gen(function* () {
      yield* change("AAA", "AAB", "2020-01-10")
      yield* change("AAB", "AAC", "2021-01-10")
      yield* store(
        ["AAA", "2020-01-09"],
        ["AAA", "2020-01-10"],
        ["AAB", "2020-01-09"],
        ["AAB", "2020-01-10"],
        ["AAB", "2021-01-09"],
        ["AAB", "2021-01-10"],
        ["AAC", "2021-01-09"],
        ["AAC", "2021-01-10"],
      )
      for (const symbol of ["AAA", "AAB", "AAC", "AAC,AAA"]) {
        const { body, headers, status, text } = yield* follow(`ticker=${symbol}`)
        assert.strictEqual(status, 200, text)
        assert.deepStrictEqual(summarize(body), [
          "AAC 2021-01-10 AAC",
          "AAB 2021-01-09 AAC",
          "AAB 2020-01-10 AAC",
          "AAA 2020-01-09 AAC",
        ])
        assert.strictEqual(headers["x-lineage"], "AAA..2020-01-10, AAB..2021-01-10, AAC;outside=4")
      }
    }))
})
