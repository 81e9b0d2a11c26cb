/** §2.1, D15: the converter of the documentation says what the API prints. */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, DateTime, Schema } from "effect"
import * as Time from "../../src/site/browser/time.js"
import { NewYorkWallClock, UtcInstant } from "../../src/rows/Timestamps.ts"

const day = 86_400_000

const int = (minimum: number, maximum: number) =>
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum, maximum })))

/** Any second since 1970 for a hundred years. */
const moments = int(0, 36_500 * 86_400).pipe(Arbitrary.map((seconds) => seconds * 1000))

/** Seconds around the two changes of a year, where a clock is not to be trusted. */
const aroundChanges = Arbitrary.map(
  Arbitrary.all({ year: int(2007, 2037), seconds: int(-3 * 3600, 3 * 3600), autumn: int(0, 1) }),
  ({ autumn, seconds, year }) => {
    const [month, least] = autumn === 1 ? [10, 1] : [2, 8]
    const first = Date.UTC(year, month, least)
    const sunday = first + ((7 - new Date(first).getUTCDay()) % 7) * day
    return sunday + 2 * 3_600_000 + seconds * 1000
  },
)

const digits = (clock: number) => new Date(clock).toISOString().slice(0, 19).replace("T", " ")

const read = Schema.decodeUnknownSync(NewYorkWallClock.schemas.select)
const print = Schema.encodeUnknownSync(NewYorkWallClock.schemas.json)

const sameAsPrinted = (clock: number) => {
  const moment = Time.fromNewYork(digits(clock))
  assert.isDefined(moment)
  assert.strictEqual(Time.toPrinted(moment ?? 0), print(read(new Date(clock))))
}

describe("The converter", () => {
  it.prop("§2.1 D15 a time on New York's clock becomes what the API prints", [moments], ([clock]) => {
    sameAsPrinted(clock)
  }, { arbitrary: { runs: 300 } })

  it.prop("D15 so does one that occurred twice, or never", [aroundChanges], ([clock]) => {
    sameAsPrinted(clock)
  }, { arbitrary: { runs: 500 } })

  it.prop(
    "§2.1 D15 what is printed leads back to the moment, and to what New York's clock showed",
    [moments],
    ([moment]) => {
      const printed = Schema.encodeUnknownSync(UtcInstant.schemas.json)(DateTime.makeUnsafe(moment))
      assert.strictEqual(Time.toPrinted(moment), printed)
      assert.strictEqual(Time.fromPrinted(Time.toPrinted(moment)), moment)
      assert.strictEqual(Time.fromPrinted(Time.toUtc(moment)), moment)
      const shown = DateTime.makeZonedUnsafe(moment, { timeZone: "America/New_York" })
      assert.strictEqual(Time.toNewYork(moment), DateTime.formatIsoZoned(shown).slice(0, 19).replace("T", " "))
    },
    { arbitrary: { runs: 300 } },
  )

  it("§2.1 the opening at 09:30 is printed as 08:30 in summer and as 09:30 in winter", () => {
    const opening = (date: string) => Time.toPrinted(Time.fromNewYork(`${date} 09:30`) ?? 0)
    assert.strictEqual(opening("2026-07-01"), "2026-07-01T08:30:00-05:00")
    assert.strictEqual(opening("2026-12-01"), "2026-12-01T09:30:00-05:00")
  })

  it.each([
    "",
    "now",
    "2026-02-30 09:30",
    "2026-13-01 09:30",
    "2026-06-01",
    "2026-06-01 24:00",
    "2026-06-01 9:30",
    "2026-06-01 09:60",
    "2026-06-01T09:30:00Z",
    "1899-12-31 09:30",
    "9999-01-01 00:00",
    "12026-06-01 09:30",
  ])("D15 what is no time of New York's clock is none: %j", (text) => {
    assert.isUndefined(Time.fromNewYork(text))
  })

  it.each(["", "2026-06-01 09:30", "2026-06-01T09:30:00", "2026-06-01T09:30:00-5:00", "2026-02-30T09:30:00Z"])(
    "D15 what has no zone, or is no time, is none: %j",
    (text) => assert.isUndefined(Time.fromPrinted(text)),
  )

  it("§2.1 fractions of a second are left out, and any offset is read", () => {
    const moment = Date.UTC(2026, 5, 1, 13, 30)
    assert.strictEqual(Time.fromPrinted("2026-06-01T08:30:00.250-05:00"), moment)
    assert.strictEqual(Time.fromPrinted("2026-06-01T15:30:00+02:00"), moment)
    assert.strictEqual(Time.fromPrinted("2026-06-01T19:00:00+05:30"), moment)
  })
})
