/** Tests calendar dates, the current date and date ranges (D7, D9, D19). */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Schema, SchemaIssue } from "effect"
import { TestClock } from "effect/testing"
import {
  CalendarDate,
  NonFutureDate,
  PastDate,
  QueryNow,
  todayInChicago,
  todayInNewYork,
} from "../../../src/contract/rules/Dates.ts"
import { checkParameterCombinations } from "../../../src/contract/rules/ParameterCombinations.ts"
import * as Filter from "../../../src/contract/rules/FilterParameters.ts"

const isDay = Schema.is(CalendarDate)

const written = (year: number, month: number, day: number) =>
  [String(year).padStart(4, "0"), String(month).padStart(2, "0"), String(day).padStart(2, "0")].join("-")

/** Implements the Gregorian calendar independently of the service, as a reference. There is no year 0000. */
const inCalendar = (year: number, month: number, day: number) => {
  const leap = year % 400 === 0 || (year % 4 === 0 && year % 100 !== 0)
  const days = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] ?? 0
  return year > 0 && day > 0 && day <= days
}

const int = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

describe("A calendar date", () => {
  it.prop(
    "is valid if and only if it exists in the Gregorian calendar (D7)",
    [int(0, 9999), int(0, 14), int(0, 33)],
    ([year, month, day]) => {
      assert.strictEqual(isDay(written(year, month, day)), inCalendar(year, month, day), written(year, month, day))
    },
    { arbitrary: { runs: 3000 } },
  )

  it("is checked correctly for every month and day of eighteen years (D7)", () => {
    const years = [0, 1, 4, 50, 99, 100, 400, 1582, 1900, 1999, 2000, 2024, 2025, 2026, 2028, 2099, 2100, 9999]
    const wrong = years.flatMap((year) =>
      Array.from({ length: 14 * 33 }, (_, at) => [year, Math.floor(at / 33), at % 33] as const)
    ).filter(([year, month, day]) => isDay(written(year, month, day)) !== inCalendar(year, month, day))
    assert.deepStrictEqual(wrong, [])
  })

  const good = ["2024-02-29", "2000-02-29", "2400-02-29", "2026-02-28", "2026-12-31", "0001-01-01", "9999-12-31"]
  it.each(good)("accepts %s (D7)", (text) => {
    assert.isTrue(isDay(text))
  })

  const bad = [
    "2026-02-29",
    "2100-02-29",
    "1900-02-29",
    "2026-02-30",
    "2026-04-31",
    "2026-13-01",
    "2026-00-01",
    "2026-01-00",
    "2026-01-32",
    "0000-01-01",
    "0000-02-29",
    "",
    "2026",
    "2026-06",
    "2026-6-1",
    "26-06-01",
    "02026-06-01",
    "+2026-06-01",
    "-2026-06-01",
    "20260601",
    "2026/06/01",
    "2026-W23-1",
    "2026-152",
    "06-01-2026",
    " 2026-06-01",
    "2026-06-01 ",
    "2026-06-01\n",
    "2026-06-01T00:00:00",
    "2026-06-01T00:00:00Z",
    "2026-06-01-05:00",
    "２０２６-06-01",
    "2026‐06‐01",
    "today",
  ]
  it.each(bad)("refuses '%s' (D7)", (text) => {
    assert.isFalse(isDay(text))
  })
})

const at = (instant: string) => TestClock.setTime(Date.parse(instant))

const atClockTime = Effect.provideServiceEffect(QueryNow, Clock.currentTimeMillis)

const reasons = (schema: Schema.Codec<unknown, unknown, QueryNow>, input: unknown) =>
  Schema.decodeUnknownEffect(schema)(input).pipe(
    atClockTime,
    Effect.as([]),
    Effect.catch((error) => Effect.succeed(SchemaIssue.makeFormatterStandardSchemaV1()(error.issue).issues)),
    Effect.map((issues) => issues.map(({ message, path }) => ({ field: String(path?.[0] ?? ""), reason: message }))),
  )

/** Midnights in winter, in summer, and on both days on which the clock changes. */
const midnights = (midnight: (standard: boolean) => string) => [
  { last: "2026-01-14", next: "2026-01-15", midnight: `2026-01-15T${midnight(true)}Z` },
  { last: "2025-12-31", next: "2026-01-01", midnight: `2026-01-01T${midnight(true)}Z` },
  { last: "2028-02-28", next: "2028-02-29", midnight: `2028-02-29T${midnight(true)}Z` },
  { last: "2026-06-30", next: "2026-07-01", midnight: `2026-07-01T${midnight(false)}Z` },
  // The day with 23 hours begins in standard time and ends in daylight time.
  { last: "2026-03-07", next: "2026-03-08", midnight: `2026-03-08T${midnight(true)}Z` },
  { last: "2026-03-08", next: "2026-03-09", midnight: `2026-03-09T${midnight(false)}Z` },
  // The day with 25 hours begins in daylight time and ends in standard time.
  { last: "2026-10-31", next: "2026-11-01", midnight: `2026-11-01T${midnight(false)}Z` },
  { last: "2026-11-01", next: "2026-11-02", midnight: `2026-11-02T${midnight(true)}Z` },
]

const before = (midnight: string) => new Date(Date.parse(midnight) - 1).toISOString()

const dayAfter = (day: string) => new Date(Date.parse(`${day}T12:00:00Z`) + 24 * 3_600_000).toISOString().slice(0, 10)

describe("The current date in New York", () => {
  const midnightCases = midnights((standard) => standard ? "05:00:00" : "04:00:00")

  it.effect.each(midnightCases)(
    "changes to $next at midnight, $midnight (D7)",
    ({ last, midnight, next }) =>
      Effect.gen(function* () {
        yield* at(before(midnight))
        assert.strictEqual(yield* todayInNewYork, last)
        yield* at(midnight)
        assert.strictEqual(yield* todayInNewYork, next)
      }),
  )

  it.effect.each(midnightCases)(
    "is the limit for filters: $next is refused as a future date until $midnight (D7)",
    ({ last, midnight, next }) =>
      Effect.gen(function* () {
        yield* at(before(midnight))
        assert.deepStrictEqual(yield* reasons(NonFutureDate, last), [])
        assert.strictEqual((yield* reasons(NonFutureDate, next)).length, 1)
        yield* at(midnight)
        assert.deepStrictEqual(yield* reasons(NonFutureDate, last), [])
        assert.deepStrictEqual(yield* reasons(NonFutureDate, next), [])
        assert.strictEqual((yield* reasons(NonFutureDate, dayAfter(next))).length, 1)
      }),
  )

  it.effect("is in the error message for a date that must be in the past (§4.4)", () =>
    Effect.gen(function* () {
      yield* at("2026-06-01T12:00:00Z")
      const [refusal] = yield* reasons(NonFutureDate, "2026-06-02")
      assert.include(refusal?.reason, "must be in the past")
      assert.include(refusal?.reason, "2026-06-02")
    }))

  it.effect("limits filters without changing the text of an accepted date (D7)", () =>
    Effect.gen(function* () {
      yield* at("2026-06-01T12:00:00Z")
      assert.strictEqual(yield* atClockTime(Schema.decodeEffect(NonFutureDate)("2026-06-01")), "2026-06-01")
      assert.strictEqual(yield* Schema.encodeEffect(NonFutureDate)("2026-06-01"), "2026-06-01")
    }))

  it.effect("is that of the given time when a query is decoded, and that of the clock on the command line (D7)", () =>
    Effect.gen(function* () {
      yield* at("2026-06-01T12:00:00Z")
      const decode = (text: string, time: string) =>
        Effect.result(
          Effect.provideService(Schema.decodeEffect(NonFutureDate)(text), QueryNow, Date.parse(time)),
        )
      assert.strictEqual((yield* decode("2020-03-01", "2020-03-01T05:00:00Z"))._tag, "Success")
      assert.strictEqual((yield* decode("2020-03-02", "2020-03-01T05:00:00Z"))._tag, "Failure")
      assert.strictEqual((yield* decode("2026-06-02", "2026-06-02T04:00:00Z"))._tag, "Success")
      assert.deepStrictEqual(yield* reasons(PastDate, "2026-06-01"), [])
      assert.strictEqual((yield* reasons(PastDate, "2026-06-02")).length, 1)
    }))

  it.effect("is not the only limit: a past date that does not exist is refused (D7)", () =>
    Effect.gen(function* () {
      yield* at("2026-06-01T12:00:00Z")
      for (const text of ["2026-02-29", "2025-13-01", "", "2026-5-1"]) {
        const [refusal, ...others] = yield* reasons(NonFutureDate, text)
        assert.include(refusal?.reason, "must be a date that exists", text)
        assert.deepStrictEqual(others, [])
      }
    }))

  it.effect.prop(
    "is accepted at any time, and the next date is refused (D7)",
    [int(Date.UTC(1998, 0, 1), Date.UTC(2100, 0, 1))],
    ([now]) =>
      Effect.gen(function* () {
        yield* TestClock.setTime(now)
        const today = new Intl.DateTimeFormat("en-CA", { timeZone: "America/New_York" }).format(now)
        assert.strictEqual(yield* todayInNewYork, today)
        assert.deepStrictEqual(yield* reasons(NonFutureDate, today), [])
        assert.strictEqual((yield* reasons(NonFutureDate, dayAfter(today))).length, 1)
      }),
    { arbitrary: { runs: 300 } },
  )
})

describe("The current date in Chicago", () => {
  const midnightCases = midnights((standard) => standard ? "06:00:00" : "05:00:00")

  it.effect.each(midnightCases)(
    "changes to $next at midnight, $midnight (D19)",
    ({ last, midnight, next }) =>
      Effect.gen(function* () {
        yield* at(before(midnight))
        assert.strictEqual(yield* todayInChicago, last)
        yield* at(midnight)
        assert.strictEqual(yield* todayInChicago, next)
      }),
  )

  it.effect.each(midnightCases)(
    "is still the previous date just before $midnight, when it is $next in New York (D19)",
    ({ last, midnight, next }) =>
      Effect.gen(function* () {
        yield* at(before(midnight))
        assert.strictEqual(yield* todayInNewYork, next)
        assert.strictEqual(yield* todayInChicago, last)
      }),
  )

  it.effect.prop(
    "is the date on Chicago's calendar at any time (D19)",
    [int(Date.UTC(1998, 0, 1), Date.UTC(2100, 0, 1))],
    ([now]) =>
      Effect.gen(function* () {
        yield* TestClock.setTime(now)
        const today = new Intl.DateTimeFormat("en-CA", { timeZone: "America/Chicago" }).format(now)
        assert.strictEqual(yield* todayInChicago, today)
      }),
    { arbitrary: { runs: 300 } },
  )
})

describe("The check of parameter combinations", () => {
  const dates = [
    "date",
    "expiration_date",
    "lock_up_expiration",
    "filed_at",
    "effective_date",
    "ipo_date",
    "last_liquidation_date",
    "valid_from_date",
  ]
  const numbers = ["gap_percentage", "market_cap", "price", "min_bid", "admin_share"]
  const ranges = [
    ...dates.map((name) => ({
      lower: `${name}_from`,
      upper: `${name}_to`,
      low: "2025-12-31",
      high: "2026-01-01",
      extreme: "9999-12-31",
    })),
    ...numbers.map((name) => ({
      lower: `min_${name}`,
      upper: `max_${name}`,
      low: "-1.5",
      high: "10",
      extreme: "1e15",
    })),
  ]
  const everything = Schema.Record(Schema.String, Schema.Unknown).check(checkParameterCombinations)
  const refusedFields = (query: object) =>
    Effect.map(reasons(everything, query), (all) => all.map(({ field }) => field))

  it.effect.each(ranges)(
    "refuses $lower if it is greater than $upper (D7, D9)",
    ({ high, low, lower, upper }) =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* refusedFields({ [lower]: low, [upper]: high }), [])
        assert.deepStrictEqual(yield* refusedFields({ [lower]: low, [upper]: low }), [])
        assert.deepStrictEqual(yield* reasons(everything, { [lower]: high, [upper]: low }), [
          { field: lower, reason: `must not be greater than ${upper}` },
        ])
        // The order in which the parameters are sent does not matter.
        assert.deepStrictEqual(yield* refusedFields({ [upper]: low, [lower]: high }), [lower])
      }),
  )

  it.effect.each(ranges)(
    "accepts $lower or $upper alone (D7, D9)",
    ({ extreme, lower, upper }) =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* refusedFields({ [lower]: extreme }), [])
        assert.deepStrictEqual(yield* refusedFields({ [upper]: extreme }), [])
        assert.deepStrictEqual(yield* refusedFields({}), [])
      }),
  )

  it.effect("checks each range independently (D7, D9)", () =>
    Effect.gen(function* () {
      const upsideDown = Object.fromEntries(
        ranges.flatMap(({ high, low, lower, upper }) => [[lower, high] as const, [upper, low] as const]),
      )
      const refused = yield* refusedFields(upsideDown)
      assert.deepStrictEqual(refused.toSorted(), ranges.map(({ lower }) => lower).toSorted())
      const crossed = { date_from: "2026-01-01", filed_at_to: "2025-01-01", min_price: "5", max_market_cap: "1" }
      assert.deepStrictEqual(yield* refusedFields(crossed), [])
      const alike = { admin_share: "5", admax_share: "1", from_to_from_x: "2026-01-01", to_to_from_x: "2025-01-01" }
      assert.deepStrictEqual(yield* refusedFields(alike), [])
    }))

  it.effect.prop(
    "compares the bounds of numbers by value, not as text (D9)",
    [int(-1_000_000, 1_000_000), int(-1_000_000, 1_000_000)],
    ([min, max]) =>
      Effect.gen(function* () {
        const query = { min_gap_percentage: String(min / 1000), max_gap_percentage: String(max / 1000) }
        assert.deepStrictEqual(yield* refusedFields(query), min > max ? ["min_gap_percentage"] : [])
      }),
    { arbitrary: { runs: 300 } },
  )

  it.effect.prop(
    "compares the bounds of dates in calendar order (D7)",
    [int(0, 40_000), int(0, 40_000)],
    ([from, to]) =>
      Effect.gen(function* () {
        const day = (number: number) => new Date(Date.UTC(1990, 0, 1 + number)).toISOString().slice(0, 10)
        const query = { date_from: day(from), date_to: day(to) }
        assert.deepStrictEqual(yield* refusedFields(query), from > to ? ["date_from"] : [])
      }),
    { arbitrary: { runs: 300 } },
  )

  const day = "2026-01-02"
  const combinations: ReadonlyArray<{ readonly query: object; readonly refused: ReadonlyArray<string> }> = [
    { query: {}, refused: [] },
    { query: { date: day }, refused: [] },
    { query: { date_from: day }, refused: [] },
    { query: { date_to: day }, refused: [] },
    { query: { date_from: day, date_to: day }, refused: [] },
    { query: { date: day, date_from: day }, refused: ["date"] },
    { query: { date: day, date_to: day }, refused: ["date"] },
    { query: { date: day, date_from: day, date_to: day }, refused: ["date"] },
    { query: { date_from: "2026-01-03", date_to: day }, refused: ["date_from"] },
    { query: { date: day, date_from: "2026-01-03", date_to: day }, refused: ["date", "date_from"] },
    // `date` may be combined with a range on a different column.
    { query: { date: day, filed_at_from: day, filed_at_to: day }, refused: [] },
  ]
  it.effect.each(combinations)(
    "refuses `date` only together with date_from or date_to: $query (D7)",
    ({ query, refused }) =>
      Effect.gen(function* () {
        assert.deepStrictEqual((yield* refusedFields(query)).toSorted(), refused)
      }),
  )

  it.effect("applies to the date filters of an endpoint, in addition to the check of each filter (D7)", () =>
    Effect.gen(function* () {
      yield* at("2026-06-01T12:00:00Z")
      const query = Schema.Struct(Filter.defaultDates).check(checkParameterCombinations)
      const fields = (input: object) => Effect.map(reasons(query, input), (all) => all.map(({ field }) => field))
      assert.deepStrictEqual(yield* fields({ date: "2026-06-01" }), [])
      assert.deepStrictEqual(yield* fields({ date_from: "2026-05-31", date_to: "2026-06-01" }), [])
      assert.deepStrictEqual(yield* fields({ date_from: "2026-06-01", date_to: "2026-05-31" }), ["date_from"])
      assert.deepStrictEqual(yield* fields({ date: "2026-06-01", date_to: "2026-06-01" }), ["date"])
      for (const name of ["date", "date_from", "date_to"]) {
        assert.deepStrictEqual(yield* fields({ [name]: "2026-06-02" }), [name])
        assert.deepStrictEqual(yield* fields({ [name]: "2026-02-29" }), [name])
      }
    }))
})
