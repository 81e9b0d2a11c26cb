/** Compares the exchange calendar with a list of holidays and early closes (resources: daily-prices). */
import { assert, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { getMarketDay, getPreviousMarketDay, listHalfDaysUntil } from "../../../src/ingest/load/MarketCalendar.ts"

/** Holidays and early closes from 1998 to 2028, except the early closes of 1998. */
const listed = new Map(
  readFileSync(new URL("us-market-calendar.csv", import.meta.url), "utf8").trim().split("\n").slice(1).map((line) => {
    const [day = "", kind = ""] = line.split(",")
    return [day, kind === "holiday" ? "closed" : "half day"] as const
  }),
)

/** Returns the days from `first` up to but not including `end`. */
const listDays = (first: string, end: string) =>
  Array.from(
    { length: (Date.parse(end) - Date.parse(first)) / 86_400_000 },
    (_, index) => new Date(Date.parse(first) + index * 86_400_000),
  )

it("knows every holiday and early close, and no other (resources: daily-prices)", () => {
  const wrong = listDays("1999-01-01", "2029-01-01").flatMap((date) => {
    const day = date.toISOString().slice(0, 10)
    const isWeekend = [0, 6].includes(date.getUTCDay())
    const expected = isWeekend ? "closed" : listed.get(day) ?? "open"
    return getMarketDay(day) === expected ? [] : [`${day}: ${getMarketDay(day)} instead of ${expected}`]
  })
  assert.deepStrictEqual(wrong, [])
})

it("lists the half days, none of which is on a weekend (resources: daily-prices)", () => {
  const expected = Array.from(listed).filter(([day, kind]) =>
    kind === "half day" && ![0, 6].includes(new Date(day).getUTCDay())
  ).map(([day]) => day)
  assert.deepStrictEqual(listHalfDaysUntil(2028).filter((day) => day >= "1999").toSorted(), expected)
})

it("finds the trading day before, from 1998 on (operations/ingest-prices)", () => {
  const pairs = [["2025-01-10", "2025-01-08"], ["2026-07-06", "2026-07-02"], ["1998-01-05", "1998-01-02"]] as const
  assert.deepStrictEqual(pairs.map(([day]) => getPreviousMarketDay(day)), pairs.map(([, before]) => before))
  assert.isUndefined(getPreviousMarketDay("1998-01-02"))
})
