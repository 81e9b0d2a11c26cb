/**
 * Tests for acceptance times (pitfall 1 of the SEC's data: the same field is in UTC in some files and in Eastern time
 * in others).
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Result, Schema } from "effect"
import {
  type AcceptanceTimeZone,
  assignAcceptanceTimes,
  determineAcceptanceTimeZone,
  formatAcceptanceTimeForColumns,
  readAcceptanceTime,
  readAcceptanceTimeFromIndexPage,
} from "../../../src/ingest/edgar/read/AcceptanceTime.ts"
import { buildSubmissionsUrl } from "../../../src/ingest/edgar/fetch/EdgarUrls.ts"
import { decodeSubmissions } from "../../../src/ingest/edgar/read/Submissions.ts"
import { getInputCount } from "../../support/Thoroughness.ts"
import { ciks, filingsOf, submissionsOf, submissionsText } from "./Recordings.ts"

const findFiling = (cik: string, accession: string) => {
  const filing = filingsOf(cik).find((one) => one.accession === accession)
  assert.isDefined(filing, accession)
  return filing
}

const isoOf = (time: DateTime.Utc | null | undefined) =>
  time === null || time === undefined ? null : DateTime.formatIso(time)

const stamped = (form: string, ...stamps: ReadonlyArray<string>) =>
  stamps.map((stamp, index) => ({ accession: `0000000001-26-00000${index}`, form, stamp }))

describe("The acceptance time in submissions", () => {
  it("is the same instant in a file with Eastern time and in a file with UTC (pitfall 1)", () => {
    const accession = "0000320193-22-000061"
    assert.include(submissionsText(ciks.apple), "2022-05-06T18:30:57.000Z")
    assert.include(submissionsText(ciks.appleOfficer), "2022-05-06T22:30:57.000Z")
    assert.strictEqual(isoOf(findFiling(ciks.apple, accession).acceptedAt), "2022-05-06T22:30:57.000Z")
    assert.strictEqual(isoOf(findFiling(ciks.appleOfficer, accession).acceptedAt), "2022-05-06T22:30:57.000Z")
  })

  it("agrees with the header of the filing in winter (pitfall 1)", () => {
    const { acceptedAt } = findFiling(ciks.imunon, "0001493152-25-029712")
    // The filing's header has <ACCEPTANCE-DATETIME>20251231081519, in Eastern time.
    assert.strictEqual(isoOf(acceptedAt), "2025-12-31T13:15:19.000Z")
  })

  it("is unknown if no hour in the file distinguishes Eastern time from UTC (pitfall 1)", () => {
    const { filings } = submissionsOf(ciks.siemensEnergy)
    assert.strictEqual(filings.length, 6)
    assert.deepStrictEqual(filings.map(({ acceptedAt }) => acceptedAt), filings.map(() => null))
  })

  it("is known in all recordings but Siemens Energy's, unless a filing has no time (pitfall 1)", () => {
    const unknown = (cik: string) => filingsOf(cik).filter(({ acceptedAt }) => acceptedAt === null)
    const others = [ciks.apple, ciks.appleOfficer, ciks.vincerx, ciks.trFinance, ciks.twoHarbors, ciks.unicycive]
    assert.deepStrictEqual(others.flatMap(unknown), [])
    assert.deepStrictEqual(unknown(ciks.fannieMae), [])
    const old = unknown(ciks.imunon)
    assert.strictEqual(old.length, 73)
    assert.deepStrictEqual(old.filter(({ filingDate }) => filingDate > "2002-05-31"), [])
  })

  it("is known for the whole file if the exact time of one filing is known (pitfall 1)", () => {
    const url = buildSubmissionsUrl(ciks.siemensEnergy)
    const known = new Map([["0001193805-26-000032", DateTime.makeUnsafe("2026-01-16T21:19:42Z")]])
    const listed = Result.getOrThrow(decodeSubmissions(submissionsText(ciks.siemensEnergy), url)).filings
    const filings = assignAcceptanceTimes(listed, known)
    assert.strictEqual(isoOf(filings[1]?.acceptedAt), "2026-01-16T21:19:42.000Z")
    // The filing was accepted at 16:19:42 Eastern time, and its timestamp in the file is 16:19:42, so the file uses
    // Eastern time. The next filing's timestamp, 18:55:38 in February, is therefore 23:55:38 UTC.
    assert.strictEqual(isoOf(filings[2]?.acceptedAt), "2021-02-04T23:55:38.000Z")
  })
})

describe("The time zone of a submissions file", () => {
  const cases: ReadonlyArray<
    [string, ReadonlyArray<{ accession: string; form: string; stamp: string }>, AcceptanceTimeZone | null]
  > = [
    [
      "is Eastern if an hour is between 6 and 9",
      stamped("8-K", "2026-03-02T06:00:01.000Z", "2026-03-02T16:05:00.000Z"),
      "eastern",
    ],
    [
      "is UTC if an hour is between 23 and 3",
      stamped("8-K", "2026-03-02T23:10:00.000Z", "2026-03-02T16:05:00.000Z"),
      "utc",
    ],
    [
      "is unknown if every hour is possible in both time zones",
      stamped("8-K", "2026-03-02T16:05:00.000Z", "2026-03-02T21:05:00.000Z"),
      null,
    ],
    [
      "is unknown if as many hours show one time zone as the other",
      stamped("8-K", "2026-03-02T07:05:00.000Z", "2026-03-02T01:05:00.000Z"),
      null,
    ],
    [
      "is that of most hours that show one",
      stamped("8-K", "2026-03-02T07:05:00.000Z", "2026-03-03T08:05:00.000Z", "2026-03-02T01:05:00.000Z"),
      "eastern",
    ],
    ["does not depend on the hour of an EFFECT filing", stamped("EFFECT", "2026-03-02T00:30:00.000Z"), null],
    ["does not depend on midnight", stamped("8-K", "2001-03-02T00:00:00.000Z", "2001-07-02T04:00:00.000Z"), null],
    ["does not depend on 00:15", stamped("8-K", "2026-03-02T00:15:22.000Z"), null],
    ["does not depend on text that is not a time", stamped("8-K", "", "2026-02-30T07:00:00.000Z", "07:00"), null],
  ]
  for (const [name, filings, clock] of cases) {
    it(`${name} (pitfall 1)`, () => assert.strictEqual(determineAcceptanceTimeZone(filings), clock))
  }

  it("does not become unknown because of one contradicting stamp, which alone has no time (pitfall 1)", () => {
    const stamps = Array.from(
      { length: 11 },
      (_, index) => `2026-03-${10 + index}T${index < 6 ? "08" : "16"}:05:00.000Z`,
    )
    const filings = assignAcceptanceTimes(stamped("8-K", ...stamps, "2026-03-02T01:05:00.000Z"))
    assert.deepStrictEqual(filings.map(({ acceptedAt }) => acceptedAt === null), [...stamps.map(() => false), true])
    assert.strictEqual(isoOf(filings[0]?.acceptedAt), "2026-03-10T12:05:00.000Z")
  })

  it("follows from a known exact time even if the hours suggest the other time zone (pitfall 1)", () => {
    const filings = stamped("8-K", "2026-03-02T16:05:00.000Z", "2026-03-02T07:05:00.000Z")
    const known = new Map([["0000000001-26-000000", DateTime.makeUnsafe("2026-03-02T16:05:00Z")]])
    assert.strictEqual(determineAcceptanceTimeZone(filings), "eastern")
    assert.strictEqual(determineAcceptanceTimeZone(filings, known), "utc")
  })

  it("does not follow from an exact time that fits the stamp in neither time zone (pitfall 1)", () => {
    const filings = stamped("8-K", "2026-03-02T16:05:00.000Z")
    const known = new Map([["0000000001-26-000000", DateTime.makeUnsafe("2026-03-02T17:05:00Z")]])
    assert.strictEqual(determineAcceptanceTimeZone(filings, known), null)
  })
})

describe("Exact times", () => {
  it("are read from an index page as Eastern time", () => {
    const page = `<div class="infoHead">Accepted</div>\n         <div class="info">2022-11-04 21:03:43</div>`
    assert.strictEqual(isoOf(readAcceptanceTimeFromIndexPage(page)), "2022-11-05T01:03:43.000Z")
  })

  it("are unknown in a page without a time", () => {
    const accepted = `<div class="infoHead">Accepted</div><div class="info">`
    const pages = ["", accepted, `${accepted}2022-11-04</div>`, `${accepted}2022-13-99 99:99:99</div>`]
    assert.deepStrictEqual(pages.map(readAcceptanceTimeFromIndexPage), pages.map(() => null))
  })
})

// Formats New York time with the JavaScript runtime, independently of the code under test.
const newYorkClock = new Intl.DateTimeFormat("en-CA", {
  timeZone: "America/New_York",
  hourCycle: "h23",
  dateStyle: "short",
  timeStyle: "medium",
})
const newYorkDigits = (millis: number) => newYorkClock.format(millis).replace(", ", " ")
const fixedDigits = (millis: number) => new Date(millis - 5 * 3_600_000).toISOString().slice(0, 19).replace("T", " ")

const second = (from: number, until: number) =>
  Schema.Int.check(Schema.isBetween({ minimum: from / 1000, maximum: until / 1000 }))

const anyTime = second(Date.UTC(1995, 0, 1), Date.UTC(2040, 0, 1))
/** The UTC days in 2026 on which daylight saving time begins and ends in New York. */
const springChange = second(Date.UTC(2026, 2, 8), Date.UTC(2026, 2, 9))
const autumnChange = second(Date.UTC(2026, 10, 1), Date.UTC(2026, 10, 2))

/** Hours that are plausible in only one of the two time zones, and one hour that is plausible in both. */
const hoursOf = { eastern: ["06", "07", "08", "09"], utc: ["23", "00", "01", "02", "03"], both: ["16"] }

describe("Contradicting stamps", () => {
  const counts = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 6 }))
  it.prop("lose their times if they are fewer than the others (pitfall 1)", [counts, counts, counts], (numbers) => {
    const [eastern = 0, utc = 0, both = 0] = numbers
    const make = (kind: keyof typeof hoursOf, count: number) =>
      Array.from({ length: count }, (_, index) => {
        const hour = hoursOf[kind][index % hoursOf[kind].length]
        return { kind, accession: `${kind}-${index}`, form: "8-K", stamp: `2026-02-1${index}T${hour}:30:00.000Z` }
      })
    const filings = assignAcceptanceTimes([...make("eastern", eastern), ...make("utc", utc), ...make("both", both)])
    for (const { acceptedAt, kind } of filings) {
      const isKnown = eastern !== utc && (kind === "both" || (kind === "eastern") === (eastern > utc))
      assert.strictEqual(acceptedAt !== null, isKnown, kind)
    }
  }, { arbitrary: { runs: getInputCount(200) } })
})

const isMidnight = (digits: string) => /0[045]:00:00$/.test(digits)

describe("Times in rows", () => {
  for (
    const [name, times] of [["any day", anyTime], ["8 March 2026", springChange], [
      "1 November 2026",
      autumnChange,
    ]] as const
  ) {
    it.prop(
      `are the same instant whether the document is in UTC or Eastern time: ${name} (D15)`,
      [times],
      ([seconds]) => {
        const millis = seconds * 1000
        const utc = new Date(millis).toISOString()
        const digits = newYorkDigits(millis)
        const fromUtc = readAcceptanceTime(utc, "utc")
        if (isMidnight(utc.slice(0, 19))) return assert.isNull(fromUtc)
        assert.strictEqual(isoOf(fromUtc), utc)
        const filing = { acceptedAt: fromUtc, filingDate: "2026-01-01" }
        assert.deepStrictEqual(formatAcceptanceTimeForColumns(filing), {
          newYorkTime: digits,
          fixedOffsetTime: fixedDigits(millis),
        })

        const fromEastern = readAcceptanceTime(`${digits.replace(" ", "T")}.000Z`, "eastern")
        if (isMidnight(digits)) return assert.isNull(fromEastern)
        // A time in the repeated hour is interpreted as the second occurrence (D15).
        const isRepeated = newYorkDigits(millis + 3_600_000) === digits
        assert.strictEqual(isoOf(fromEastern), new Date(millis + (isRepeated ? 3_600_000 : 0)).toISOString())
      },
      { arbitrary: { runs: getInputCount(1000) } },
    )
  }

  it("are null in New York time, and midnight at the fixed offset, if the acceptance time is unknown (D15)", () => {
    assert.deepStrictEqual(formatAcceptanceTimeForColumns({ acceptedAt: null, filingDate: "1996-08-07" }), {
      newYorkTime: null,
      fixedOffsetTime: "1996-08-07 00:00:00",
    })
  })

  it("are unknown if the time zone of the stamp is unknown (pitfall 1)", () => {
    assert.isNull(readAcceptanceTime("2026-03-02T16:05:00.000Z", null))
  })
})
