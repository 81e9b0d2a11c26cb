/** D7, D9, D19: which days exist, which day it is, and ranges that make sense. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema, SchemaIssue } from "effect"
import { TestClock } from "effect/testing"
import { CalendarDate, NonFutureDate, todayInChicago, todayInNewYork } from "../../src/rules/Dates.ts"
import { checkParameterCombinations } from "../../src/rules/ParameterCombinations.ts"
import { DateFilters } from "../../src/rules/Filters.ts"

const isDay = Schema.is(CalendarDate)

const written = (year: number, month: number, day: number) =>
  [String(year).padStart(4, "0"), String(month).padStart(2, "0"), String(day).padStart(2, "0")].join("-")

/** The calendar, by its rule. There is no year 0000. */
const inCalendar = (year: number, month: number, day: number) => {
  const leap = year % 400 === 0 || (year % 4 === 0 && year % 100 !== 0)
  const days = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] ?? 0
  return year > 0 && day > 0 && day <= days
}

const int = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

describe("D7 a day", () => {
  it.prop(
    "D7 is a day exactly when the calendar has it",
    [int(0, 9999), int(0, 14), int(0, 33)],
    ([year, month, day]) => {
      assert.strictEqual(isDay(written(year, month, day)), inCalendar(year, month, day), written(year, month, day))
    },
    { arbitrary: { runs: 3000 } },
  )

  it("D7 every month from 0 to 13 and day from 0 to 32 of eighteen years", () => {
    const years = [0, 1, 4, 50, 99, 100, 400, 1582, 1900, 1999, 2000, 2024, 2025, 2026, 2028, 2099, 2100, 9999]
    const wrong = years.flatMap((year) =>
      Array.from({ length: 14 * 33 }, (_, at) => [year, Math.floor(at / 33), at % 33] as const)
    ).filter(([year, month, day]) => isDay(written(year, month, day)) !== inCalendar(year, month, day))
    assert.deepStrictEqual(wrong, [])
  })

  const good = ["2024-02-29", "2000-02-29", "2400-02-29", "2026-02-28", "2026-12-31", "0001-01-01", "9999-12-31"]
  it.each(good)("D7 %s is one", (text) => {
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
  it.each(bad)("D7 '%s' is none", (text) => {
    assert.isFalse(isDay(text))
  })
})

const at = (instant: string) => TestClock.setTime(Date.parse(instant))

const reasons = (schema: Schema.Codec<unknown, unknown>, input: unknown) =>
  Schema.decodeUnknownEffect(schema)(input).pipe(
    Effect.as([]),
    Effect.catch((error) => Effect.succeed(SchemaIssue.makeFormatterStandardSchemaV1()(error.issue).issues)),
    Effect.map((issues) => issues.map(({ message, path }) => ({ field: String(path?.[0] ?? ""), reason: message }))),
  )

/** The last moment of one day and the first of the next: in winter, in summer, and around both changes of clocks. */
const midnights = (midnight: (standard: boolean) => string) => [
  { last: "2026-01-14", next: "2026-01-15", midnight: `2026-01-15T${midnight(true)}Z` },
  { last: "2025-12-31", next: "2026-01-01", midnight: `2026-01-01T${midnight(true)}Z` },
  { last: "2028-02-28", next: "2028-02-29", midnight: `2028-02-29T${midnight(true)}Z` },
  { last: "2026-06-30", next: "2026-07-01", midnight: `2026-07-01T${midnight(false)}Z` },
  // The day of 23 hours begins in standard time and ends in daylight time.
  { last: "2026-03-07", next: "2026-03-08", midnight: `2026-03-08T${midnight(true)}Z` },
  { last: "2026-03-08", next: "2026-03-09", midnight: `2026-03-09T${midnight(false)}Z` },
  // The day of 25 hours begins in daylight time and ends in standard time.
  { last: "2026-10-31", next: "2026-11-01", midnight: `2026-11-01T${midnight(false)}Z` },
  { last: "2026-11-01", next: "2026-11-02", midnight: `2026-11-02T${midnight(true)}Z` },
]

const before = (midnight: string) => new Date(Date.parse(midnight) - 1).toISOString()

const dayAfter = (day: string) => new Date(Date.parse(`${day}T12:00:00Z`) + 24 * 3_600_000).toISOString().slice(0, 10)

describe("D7 today in New York", () => {
  const nights = midnights((standard) => standard ? "05:00:00" : "04:00:00")

  it.effect.each(nights)(
    "D7 at midnight, $midnight, it becomes $next",
    ({ last, midnight, next }) =>
      Effect.gen(function* () {
        yield* at(before(midnight))
        assert.strictEqual(yield* todayInNewYork, last)
        yield* at(midnight)
        assert.strictEqual(yield* todayInNewYork, next)
      }),
  )

  it.effect.each(nights)(
    "D7 until $midnight, $next lies in the future",
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

  it.effect("§4.4 the message says that the date must be in the past", () =>
    Effect.gen(function* () {
      yield* at("2026-06-01T12:00:00Z")
      const [refusal] = yield* reasons(NonFutureDate, "2026-06-02")
      assert.include(refusal?.reason, "must be in the past")
      assert.include(refusal?.reason, "2026-06-02")
    }))

  it.effect("D7 an accepted day stays the text that was sent", () =>
    Effect.gen(function* () {
      yield* at("2026-06-01T12:00:00Z")
      assert.strictEqual(yield* Schema.decodeEffect(NonFutureDate)("2026-06-01"), "2026-06-01")
      assert.strictEqual(yield* Schema.encodeEffect(NonFutureDate)("2026-06-01"), "2026-06-01")
    }))

  it.effect("D7 a past day must exist too", () =>
    Effect.gen(function* () {
      yield* at("2026-06-01T12:00:00Z")
      for (const text of ["2026-02-29", "2025-13-01", "", "2026-5-1"]) {
        const [refusal, ...others] = yield* reasons(NonFutureDate, text)
        assert.include(refusal?.reason, "must be a date that exists", text)
        assert.deepStrictEqual(others, [])
      }
    }))

  it.effect.prop(
    "D7 whatever the moment, today is accepted and tomorrow refused",
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

describe("D19 today in Chicago", () => {
  const nights = midnights((standard) => standard ? "06:00:00" : "05:00:00")

  it.effect.each(nights)(
    "D19 at midnight, $midnight, it becomes $next",
    ({ last, midnight, next }) =>
      Effect.gen(function* () {
        yield* at(before(midnight))
        assert.strictEqual(yield* todayInChicago, last)
        yield* at(midnight)
        assert.strictEqual(yield* todayInChicago, next)
      }),
  )

  it.effect.each(nights)(
    "D19 just before $midnight it is $next in New York",
    ({ last, midnight, next }) =>
      Effect.gen(function* () {
        yield* at(before(midnight))
        assert.strictEqual(yield* todayInNewYork, next)
        assert.strictEqual(yield* todayInChicago, last)
      }),
  )

  it.effect.prop(
    "D19 whatever the moment, it is the day on Chicago's calendar",
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

describe("D7 D9 ranges", () => {
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
    "D7 D9 $lower may not be greater than $upper",
    ({ high, low, lower, upper }) =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* refusedFields({ [lower]: low, [upper]: high }), [])
        assert.deepStrictEqual(yield* refusedFields({ [lower]: low, [upper]: low }), [])
        assert.deepStrictEqual(yield* reasons(everything, { [lower]: high, [upper]: low }), [
          { field: lower, reason: `must not be greater than ${upper}` },
        ])
        // The order in which they were sent does not matter.
        assert.deepStrictEqual(yield* refusedFields({ [upper]: low, [lower]: high }), [lower])
      }),
  )

  it.effect.each(ranges)(
    "D7 D9 one side of $lower and $upper is enough",
    ({ extreme, lower, upper }) =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* refusedFields({ [lower]: extreme }), [])
        assert.deepStrictEqual(yield* refusedFields({ [upper]: extreme }), [])
        assert.deepStrictEqual(yield* refusedFields({}), [])
      }),
  )

  it.effect("D7 D9 each range is looked at, and no other", () =>
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
    "D9 of numbers, as numbers",
    [int(-1_000_000, 1_000_000), int(-1_000_000, 1_000_000)],
    ([min, max]) =>
      Effect.gen(function* () {
        const query = { min_gap_percentage: String(min / 1000), max_gap_percentage: String(max / 1000) }
        assert.deepStrictEqual(yield* refusedFields(query), min > max ? ["min_gap_percentage"] : [])
      }),
    { arbitrary: { runs: 300 } },
  )

  it.effect.prop(
    "D7 of dates, as dates",
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
    // Another date's range goes with it.
    { query: { date: day, filed_at_from: day, filed_at_to: day }, refused: [] },
  ]
  it.effect.each(combinations)("D7 date stands alone: $query", ({ query, refused }) =>
    Effect.gen(function* () {
      assert.deepStrictEqual((yield* refusedFields(query)).toSorted(), refused)
    }))

  it.effect("D7 together with the days themselves, as an endpoint has it", () =>
    Effect.gen(function* () {
      yield* at("2026-06-01T12:00:00Z")
      const query = Schema.Struct(DateFilters).check(checkParameterCombinations)
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
