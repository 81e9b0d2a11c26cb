/** Tests that the timestamp converter in the documentation agrees with the API (§2.1; D15, timestamps). */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, DateTime, Schema } from "effect"
import {
  formatNewYorkTime,
  formatTimestamp,
  parseNewYorkTime,
  parseTimestamp,
} from "../../src/site/browser/timestamps.js"
import { InstantColumn, NewYorkTimeColumn } from "../../src/contract/rows/Timestamps.ts"

const day = 86_400_000

const int = (minimum: number, maximum: number) =>
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum, maximum })))

/** Any second from 1970 to 2069, in milliseconds since 1970. */
const instants = int(0, 36_500 * 86_400).pipe(Arbitrary.map((seconds) => seconds * 1000))

/** Clock times within three hours of the start or end of daylight saving time. */
const aroundSwitches = Arbitrary.map(
  Arbitrary.all({ year: int(2007, 2037), seconds: int(-3 * 3600, 3 * 3600), autumn: int(0, 1) }),
  ({ autumn, seconds, year }) => {
    const [month, least] = autumn === 1 ? [10, 1] : [2, 8]
    const first = Date.UTC(year, month, least)
    const sunday = first + ((7 - new Date(first).getUTCDay()) % 7) * day
    return sunday + 2 * 3_600_000 + seconds * 1000
  },
)

const formatClock = (clock: number) => new Date(clock).toISOString().slice(0, 19).replace("T", " ")

const read = Schema.decodeUnknownSync(NewYorkTimeColumn.schemas.select)
const print = Schema.encodeUnknownSync(NewYorkTimeColumn.schemas.json)

const assertSameAsApi = (clock: number) => {
  const instant = parseNewYorkTime(formatClock(clock))
  assert.isDefined(instant)
  assert.strictEqual(formatTimestamp(instant ?? 0), print(read(new Date(clock))))
}

describe("The timestamp converter", () => {
  it.prop("formats times in New York as the API does (§2.1, D15)", [instants], ([clock]) => {
    assertSameAsApi(clock)
  }, { arbitrary: { runs: 300 } })

  it.prop("formats repeated and skipped times as the API does (D15)", [aroundSwitches], ([clock]) => {
    assertSameAsApi(clock)
  }, { arbitrary: { runs: 500 } })

  it.prop(
    "converts timestamps back to the same instant and New York time (§2.1, D15)",
    [instants],
    ([instant]) => {
      const printed = Schema.encodeUnknownSync(InstantColumn.schemas.json)(DateTime.makeUnsafe(instant))
      assert.strictEqual(formatTimestamp(instant), printed)
      assert.strictEqual(parseTimestamp(formatTimestamp(instant)), instant)
      assert.strictEqual(parseTimestamp(new Date(instant).toISOString()), instant)
      const shown = DateTime.makeZonedUnsafe(instant, { timeZone: "America/New_York" })
      assert.strictEqual(formatNewYorkTime(instant), DateTime.formatIsoZoned(shown).slice(0, 19).replace("T", " "))
    },
    { arbitrary: { runs: 300 } },
  )

  it("prints the market opening as 08:30 in summer and 09:30 in winter (§2.1)", () => {
    const opening = (date: string) => formatTimestamp(parseNewYorkTime(`${date} 09:30`) ?? 0)
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
  ])("rejects %j as a New York time (D15)", (text) => {
    assert.isUndefined(parseNewYorkTime(text))
  })

  it.each(["", "2026-06-01 09:30", "2026-06-01T09:30:00", "2026-06-01T09:30:00-5:00", "2026-02-30T09:30:00Z"])(
    "rejects %j as a timestamp (D15)",
    (text) => assert.isUndefined(parseTimestamp(text)),
  )

  it("drops fractions of a second and accepts any offset (§2.1)", () => {
    const instant = Date.UTC(2026, 5, 1, 13, 30)
    assert.strictEqual(parseTimestamp("2026-06-01T08:30:00.250-05:00"), instant)
    assert.strictEqual(parseTimestamp("2026-06-01T15:30:00+02:00"), instant)
    assert.strictEqual(parseTimestamp("2026-06-01T19:00:00+05:30"), instant)
  })
})
