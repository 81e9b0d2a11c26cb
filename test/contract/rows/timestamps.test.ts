/** Compares the times in responses (§2.1, D15) with computations that are independent of the service. */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { FixedOffsetTimeColumn, InstantColumn, NewYorkTimeColumn } from "../../../src/contract/rows/Timestamps.ts"
import { getInputCount, sampleUnlessThorough } from "../../support/Thoroughness.ts"

/** A random time with milliseconds, from 1998 to 2099. */
const anyTime = Schema.Int.check(
  Schema.isBetween({ minimum: Date.UTC(1998, 0, 1), maximum: Date.UTC(2100, 0, 1) - 1 }),
)

const minute = 60_000
const hour = 60 * minute

/** Returns a function that decodes a `Date` from the driver and encodes it as a JSON value, as in a response. */
const makePrinter = (kind: typeof FixedOffsetTimeColumn | typeof InstantColumn | typeof NewYorkTimeColumn) => {
  const decode = Schema.decodeSync(kind.schemas.select)
  const encode = Schema.encodeSync(kind.schemas.json)
  return (millis: number) => encode(decode(new Date(millis)))
}

const eastern = makePrinter(FixedOffsetTimeColumn)
const utc = makePrinter(InstantColumn)
const newYork = makePrinter(NewYorkTimeColumn)

/**
 * Returns the epoch milliseconds of the `Date` that the driver returns for a wall-clock time. The driver treats
 * wall-clock times as UTC.
 */
const toWallClockMillis = (digits: string) => Date.parse(`${digits.replace(" ", "T")}Z`)

/** Formats the UTC fields of a `Date` with the suffix -05:00. Milliseconds are omitted if they are zero. */
const withSuffix = (millis: number) => new Date(millis).toISOString().replace(/(?:\.000)?Z$/, "-05:00")

// ----------------------------------------------------------------------------------------------------------------
// Two independent conversions of New York's wall clock to an instant
// ----------------------------------------------------------------------------------------------------------------

const firstSunday = (year: number, month: number) => 1 + (7 - new Date(Date.UTC(year, month - 1, 1)).getUTCDay()) % 7

const lastSundayOfOctober = (year: number) => 31 - new Date(Date.UTC(year, 9, 31)).getUTCDay()

/**
 * Returns the legal daylight saving period of a year: since 2007, from the second Sunday of March to the first Sunday
 * of November.
 */
const daylight = (year: number) =>
  year >= 2007
    ? [Date.UTC(year, 2, firstSunday(year, 3) + 7, 2), Date.UTC(year, 10, firstSunday(year, 11), 2)] as const
    : [Date.UTC(year, 3, firstSunday(year, 4), 2), Date.UTC(year, 9, lastSundayOfOctober(year), 2)] as const

/**
 * Prints a New York time according to the law: an hour earlier during daylight saving time, except in the skipped and
 * the repeated hour.
 */
const printByLaw = (millis: number) => {
  const [start, end] = daylight(new Date(millis).getUTCFullYear())
  return withSuffix(millis >= start + hour && millis < end - hour ? millis - hour : millis)
}

const clock = new Intl.DateTimeFormat("en-CA", {
  timeZone: "America/New_York",
  hourCycle: "h23",
  year: "numeric",
  month: "2-digit",
  day: "2-digit",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
})

/** Returns New York's wall-clock time at an instant, as epoch milliseconds whose UTC fields show that time. */
const toNewYorkTime = (instant: number) => toWallClockMillis(clock.format(instant).replace(", ", "T")) + instant % 1000

/**
 * Prints the instant of a New York time. Times in the skipped and the repeated hour are interpreted as standard time.
 */
const printByTimeZoneData = (millis: number) => {
  const [standard, summer] = [millis + 5 * hour, millis + 4 * hour]
  return withSuffix(
    (toNewYorkTime(standard) !== millis && toNewYorkTime(summer) === millis ? summer : standard) - 5 * hour,
  )
}

/** Matches an RFC 3339 date-time with the offset -05:00. */
const grammar = /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{3})?-05:00$/

/** Returns the first five differences between printed and expected texts. */
const differences = (
  times: ReadonlyArray<number>,
  print: (millis: number) => string,
  expected: (millis: number) => string,
) =>
  times.flatMap((millis) => {
    const [printed, right] = [print(millis), expected(millis)]
    const stored = new Date(millis).toISOString()
    return printed === right && grammar.test(printed) ? [] : [{ stored, printed, right }]
  }).slice(0, 5)

/**
 * Returns every half hour from `from` to just before `to`. Clocks change on the hour, so these times cover every
 * change.
 */
const halfHours = (from: number, to: number) =>
  Array.from({ length: (to - from) / (30 * minute) }, (_, at) => from + at * 30 * minute)

const halfHoursOf = (year: number) => halfHours(Date.UTC(year, 0, 1), Date.UTC(year + 1, 0, 1))

// ----------------------------------------------------------------------------------------------------------------

// In 2006, the previous daylight saving law applied; in 2026, the current one applies. Both years have 365 days.
for (const year of [2006, 2026]) {
  const all = halfHoursOf(year)
  const times = sampleUnlessThorough(all, 11, year)

  describe(`Every half hour of ${year}`, () => {
    it("is in the test data (§2.1)", () => {
      assert.strictEqual(all.length, 365 * 48)
    })

    it("is printed as stored if it is a wall-clock time at -05:00 (D15)", () => {
      assert.deepStrictEqual(differences(times, eastern, withSuffix), [])
    })

    it("is printed five hours earlier if it is an instant (D15)", () => {
      assert.deepStrictEqual(differences(times, utc, (millis) => withSuffix(millis - 5 * hour)), [])
    })

    it("is printed an hour earlier in legal daylight time if it is a wall-clock time in New York (D15)", () => {
      assert.deepStrictEqual(differences(times, newYork, printByLaw), [])
    })
  })
}

describe("New York's wall-clock time", () => {
  it("agrees with the time zone database for every half hour of 2026 (D15)", () => {
    // Another test compares printed times with the law, so this test only needs to compare the law with the time zone
    // database.
    assert.deepStrictEqual(
      differences(sampleUnlessThorough(halfHoursOf(2026), 11, 0), printByLaw, printByTimeZoneData),
      [],
    )
  })

  it("agrees with the law and the time zone database around both changes of each year from 1998 to 2099 (D15)", () => {
    const times = Array.from({ length: 102 }, (_, at) => daylight(1998 + at)).flat()
      .flatMap((change) => halfHours(change - 3 * hour, change + 3 * hour))
    assert.strictEqual(times.length, 102 * 2 * 12)
    assert.deepStrictEqual(differences(times, newYork, printByLaw), [])
    assert.deepStrictEqual(differences(times, printByLaw, printByTimeZoneData), [])
  })

  it.prop(
    "agrees with the law and the time zone database at any time from 1998 to 2099 (D15)",
    [anyTime],
    ([millis]) => {
      assert.strictEqual(newYork(millis), printByLaw(millis))
      assert.strictEqual(newYork(millis), printByTimeZoneData(millis))
    },
    { arbitrary: { runs: getInputCount(2000) } },
  )

  const examples: ReadonlyArray<readonly [why: string, stored: string, printed: string]> = [
    ["market opening in summer", "2026-06-01 09:30:00", "2026-06-01T08:30:00-05:00"],
    ["market opening in winter", "2026-01-05 09:30:00", "2026-01-05T09:30:00-05:00"],
    ["market close in summer", "2026-07-31 16:00:00", "2026-07-31T15:00:00-05:00"],
    ["just after midnight in summer, the day before", "2026-06-01 00:30:00", "2026-05-31T23:30:00-05:00"],
    ["just after midnight in winter, the same day", "2026-12-01 00:30:00", "2026-12-01T00:30:00-05:00"],
    ["last second of standard time", "2026-03-08 01:59:59", "2026-03-08T01:59:59-05:00"],
    ["start of the skipped hour", "2026-03-08 02:00:00", "2026-03-08T02:00:00-05:00"],
    ["middle of the skipped hour", "2026-03-08 02:30:00", "2026-03-08T02:30:00-05:00"],
    ["last second of the skipped hour", "2026-03-08 02:59:59", "2026-03-08T02:59:59-05:00"],
    ["first second of daylight time", "2026-03-08 03:00:00", "2026-03-08T02:00:00-05:00"],
    ["last second before the repeated hour", "2026-11-01 00:59:59", "2026-10-31T23:59:59-05:00"],
    ["start of the repeated hour, second occurrence", "2026-11-01 01:00:00", "2026-11-01T01:00:00-05:00"],
    ["middle of the repeated hour", "2026-11-01 01:30:00", "2026-11-01T01:30:00-05:00"],
    ["last second of the repeated hour", "2026-11-01 01:59:59", "2026-11-01T01:59:59-05:00"],
    ["first second after the repeated hour", "2026-11-01 02:00:00", "2026-11-01T02:00:00-05:00"],
    ["March before 2007, in standard time", "2006-03-20 09:30:00", "2006-03-20T09:30:00-05:00"],
    ["summer of 1998", "1998-07-01 09:30:00", "1998-07-01T08:30:00-05:00"],
    ["winter of 1998", "1998-01-02 09:30:00", "1998-01-02T09:30:00-05:00"],
    ["summer of 2099", "2099-07-01 09:30:00", "2099-07-01T08:30:00-05:00"],
    ["winter of 2099", "2099-12-31 23:59:59", "2099-12-31T23:59:59-05:00"],
  ]
  it.each(examples)("is printed correctly (%s): %s as %s (§2.1, D15)", (_, stored, printed) => {
    assert.strictEqual(newYork(toWallClockMillis(stored)), printed)
  })
})

describe("A stored time", () => {
  const examples: ReadonlyArray<readonly [stored: string, eastern: string, utc: string]> = [
    ["2026-06-01 13:30:00", "2026-06-01T13:30:00-05:00", "2026-06-01T08:30:00-05:00"],
    ["2026-01-01 04:59:59", "2026-01-01T04:59:59-05:00", "2025-12-31T23:59:59-05:00"],
    ["2026-01-01 05:00:00", "2026-01-01T05:00:00-05:00", "2026-01-01T00:00:00-05:00"],
    ["2026-03-08 02:30:00", "2026-03-08T02:30:00-05:00", "2026-03-07T21:30:00-05:00"],
    ["2026-11-01 01:30:00", "2026-11-01T01:30:00-05:00", "2026-10-31T20:30:00-05:00"],
    ["2028-02-29 00:00:00", "2028-02-29T00:00:00-05:00", "2028-02-28T19:00:00-05:00"],
    ["1998-01-01 00:00:00", "1998-01-01T00:00:00-05:00", "1997-12-31T19:00:00-05:00"],
    ["2099-12-31 23:59:59", "2099-12-31T23:59:59-05:00", "2099-12-31T18:59:59-05:00"],
  ]
  it.each(examples)(
    "%s is printed as %s if it is a wall-clock time at -05:00, and as %s if it is an instant (D15)",
    (stored, verbatim, instant) => {
      assert.strictEqual(eastern(toWallClockMillis(stored)), verbatim)
      assert.strictEqual(utc(toWallClockMillis(stored)), instant)
    },
  )
})

describe("Fractions of a second", () => {
  const fractions: ReadonlyArray<readonly [millis: number, printed: string]> = [
    [0, ""],
    [1, ".001"],
    [10, ".010"],
    [120, ".120"],
    [999, ".999"],
  ]
  it.each(fractions)("are printed: %i ms as '%s' (D15)", (millis, printed) => {
    const stored = toWallClockMillis("2026-06-01 09:30:00") + millis
    assert.strictEqual(eastern(stored), `2026-06-01T09:30:00${printed}-05:00`)
    assert.strictEqual(newYork(stored), `2026-06-01T08:30:00${printed}-05:00`)
    assert.strictEqual(utc(stored), `2026-06-01T04:30:00${printed}-05:00`)
  })

  it.prop(
    "are printed as RFC 3339 requires, with three digits if they are not zero (D15)",
    [anyTime],
    ([millis]) => {
      for (const print of [eastern, utc, newYork]) {
        const printed = print(millis)
        assert.match(printed, grammar)
        assert.strictEqual(printed.length, millis % 1000 === 0 ? 25 : 29)
        assert.strictEqual(Date.parse(printed) % 1000, millis % 1000)
      }
      assert.strictEqual(eastern(millis), withSuffix(millis))
      assert.strictEqual(Date.parse(utc(millis)), millis)
    },
    { arbitrary: { runs: getInputCount(1000) } },
  )

  it.prop(
    "are not printed if they are zero (D15)",
    [anyTime],
    ([millis]) => {
      for (const print of [eastern, utc, newYork]) assert.strictEqual(print(millis - millis % 1000).length, 25)
    },
    { arbitrary: { runs: getInputCount(1000) } },
  )
})

describe("A client", () => {
  it.prop(
    "parses the printed time as the same instant (§2.1)",
    [anyTime],
    ([millis]) => {
      for (const kind of [FixedOffsetTimeColumn, InstantColumn, NewYorkTimeColumn]) {
        const printed = utc(millis)
        const read = Schema.decodeSync(kind.schemas.json)(printed)
        assert.strictEqual(read.epochMilliseconds, millis)
        assert.strictEqual(Schema.encodeSync(kind.schemas.json)(read), printed)
      }
    },
  )
})

describe("Times in a data file", () => {
  const accepts = (schema: Schema.Codec<string, string>, text: string) => {
    const result = Schema.decodeResult(schema)(text)
    if (result._tag === "Success") assert.strictEqual(result.success, text)
    return result._tag === "Success"
  }
  const wallClock = FixedOffsetTimeColumn.schemas.insert
  const newYorkClock = NewYorkTimeColumn.schemas.insert
  const instant = InstantColumn.schemas.insert

  const goodDigits = [
    "2026-06-01 09:30:00",
    "2026-06-01T09:30:00",
    "2026-06-01 00:00:00",
    "2026-06-01 23:59:59",
    "2026-06-01 09:30:00.1",
    "2026-06-01 09:30:00.12",
    "2026-06-01 09:30:00.123",
    "2024-02-29 12:00:00",
    "2000-02-29 12:00:00",
    "1998-01-01 00:00:00",
    "2099-12-31 23:59:59.999",
    // Times in the skipped and the repeated hour are valid (D15).
    "2026-03-08 02:30:00",
    "2026-11-01 01:30:00",
  ]
  const zones = ["Z", "+00:00", "-05:00", "+05:30", "-12:00", "+14:00"]

  it.each(goodDigits)("are accepted: %s as a wall-clock time, and with a zone as an instant (D31)", (text) => {
    assert.isTrue(accepts(wallClock, text))
    assert.isTrue(accepts(newYorkClock, text))
    for (const zone of zones) assert.isTrue(accepts(instant, text + zone), zone)
  })

  it.each(goodDigits)(
    "are refused: %s with a zone as a wall-clock time, and without a zone as an instant (D31)",
    (text) => {
      for (const zone of zones) {
        // A text in the API's format is also accepted as a wall-clock time.
        if (zone === "-05:00" && text.includes("T")) continue
        assert.isFalse(accepts(wallClock, text + zone), zone)
        assert.isFalse(accepts(newYorkClock, text + zone), zone)
      }
      assert.isFalse(accepts(instant, text))
    },
  )

  it.each([
    [wallClock, "2026-06-01T20:05:00-05:00", "2026-06-01 20:05:00.000"],
    [newYorkClock, "2026-06-01T08:30:00-05:00", "2026-06-01 09:30:00.000"],
    [newYorkClock, "2026-01-05T09:30:00.125-05:00", "2026-01-05 09:30:00.125"],
    [newYorkClock, "2026-11-01T01:30:00-05:00", "2026-11-01 01:30:00.000"],
  ])("become the stored wall-clock time if they have the format of the API: %#, %s (D31)", (clock, printed, stored) => {
    assert.strictEqual(Schema.decodeUnknownSync(clock)(printed), stored)
  })

  const badDigits = [
    "",
    "2026-06-01",
    "09:30:00",
    "2026-06-01 09:30",
    "2026-06-01 9:30:00",
    "2026-6-1 09:30:00",
    "2026-06-01  09:30:00",
    "2026-06-01_09:30:00",
    "2026-06-01t09:30:00",
    " 2026-06-01 09:30:00",
    "2026-06-01 09:30:00 ",
    "2026-06-01 09:30:00\n",
    "2026-06-01 09:30:00.",
    "2026-06-01 09:30:00.1234",
    "2026-06-01 09:30:00,5",
    "2026-06-01 09:30:00 PM",
    "2026-06-01 24:00:01",
    "2026-06-01 25:00:00",
    "2026-06-01 09:60:00",
    "2026-06-01 23:59:60",
    "2026-13-01 09:30:00",
    "2026-00-01 09:30:00",
    "2026-06-00 09:30:00",
    "2026-06-32 09:30:00",
    "0000-01-01 00:00:00",
    "+2026-06-01 09:30:00",
    "12026-06-01 09:30:00",
    "01/06/2026 09:30:00",
    "２０２６-06-01 09:30:00",
    "now",
    "infinity",
  ]
  it.each(badDigits)("are refused with and without a zone: '%s' (D31)", (text) => {
    assert.isFalse(accepts(wallClock, text))
    assert.isFalse(accepts(newYorkClock, text))
    assert.isFalse(accepts(instant, text))
    for (const zone of zones) assert.isFalse(accepts(instant, text + zone), zone)
  })

  const missingDays = [
    "2026-02-29 09:30:00",
    "2026-02-30 09:30:00",
    "2026-02-31 09:30:00",
    "2026-04-31 09:30:00",
    "2026-06-31 09:30:00",
    "2026-09-31 09:30:00",
    "2026-11-31 09:30:00",
    "2100-02-29 09:30:00",
    "1900-02-29T09:30:00",
  ]
  it.each(missingDays)("are refused if the date does not exist: %s (D7, D31)", (text) => {
    assert.isFalse(accepts(wallClock, text))
    assert.isFalse(accepts(newYorkClock, text))
    for (const zone of zones) assert.isFalse(accepts(instant, text + zone), zone)
  })

  const badZones = ["z", " Z", "ZZ", "+5", "+050", "+05:0", "+05000", "-5:00", "EST", " America/New_York"]
  it.each([...badZones, "+24:00", "+99:99", "-05:60", "-0560"])(
    "are refused with the invalid zone '%s' (D31)",
    (zone) => {
      assert.isFalse(accepts(instant, `2026-06-01T09:30:00${zone}`))
      assert.isFalse(accepts(wallClock, `2026-06-01T09:30:00${zone}`))
    },
  )

  it("are accepted with a zone of whole hours, as PostgreSQL writes it, or without a colon (D31)", () => {
    for (const zone of ["+00", "-05", "+14", "-0400", "+0530"]) {
      assert.isTrue(accepts(instant, `2026-06-01 09:30:00${zone}`), zone)
      assert.isFalse(accepts(wallClock, `2026-06-01 09:30:00${zone}`), zone)
    }
  })

  it.prop(
    "are accepted with a zone only as an instant, and without a zone only as a wall-clock time (D31)",
    [anyTime],
    ([millis]) => {
      const written = new Date(millis).toISOString()
      assert.isTrue(accepts(instant, written))
      assert.isFalse(accepts(wallClock, written))
      assert.isTrue(accepts(wallClock, written.slice(0, -1)))
      assert.isFalse(accepts(instant, written.slice(0, -1)))
    },
  )
})
