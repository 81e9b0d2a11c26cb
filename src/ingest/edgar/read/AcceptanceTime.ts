/**
 * Acceptance times of filings. In submissions files, every time ends in `Z`, but some files contain UTC and others
 * Eastern time (docs/decisions/0102-acceptance-times.md).
 */
import { DateTime, Schema } from "effect"
import { LRUCache } from "lru-cache"
import { countDays } from "../../../contract/rules/Dates.ts"
import { fixedOffsetTimeFormat, NewYorkTimeColumn, newYorkTimeFormat } from "../../../contract/rows/Timestamps.ts"

export type StampTimeZone = "eastern" | "utc"

export interface StampedFiling {
  readonly accession: string
  readonly form: string
  /** Such as `2026-02-05T13:05:45.000Z`. Despite the `Z`, it may be Eastern time instead of UTC. */
  readonly stamp: string
  /** The SEC's official date, `YYYY-MM-DD`. */
  readonly filingDate?: string
}

/** Exact acceptance times by accession number, from a source that names its time zone. */
export type KnownAcceptanceTimes = ReadonlyMap<string, DateTime.Utc>

const isWallClock = Schema.is(NewYorkTimeColumn.schemas.insert)

/** The start of an hour, in milliseconds since 1970, by the zone in which the hour is meant. */
type HourStart = { readonly [Zone in StampTimeZone]: number }

/** Hours by their digits, `2026-02-05 13`; null if there is no such hour. A list has thousands of stamps. */
const hourStarts = new LRUCache<string, { readonly start: HourStart | null }>({ max: 200_000 })

const readHour = (hour: string): HourStart | null => {
  const known = hourStarts.get(hour)
  if (known !== undefined) return known.start
  const digits = `${hour}:00:00`
  const start = !isWallClock(digits) ? null : {
    eastern: DateTime.toEpochMillis(newYorkTimeFormat.parse(digits)),
    utc: Date.parse(`${digits.replace(" ", "T")}Z`),
  }
  hourStarts.set(hour, { start })
  return start
}

/** Returns the time in the format `2026-02-05 13:05:45`, or null if the text is not a time. */
const toDigits = (stamp: string) => {
  const digits = stamp.replace("T", " ").replace(/(\.\d+)?Z?$/, "")
  return /^[^:]+:[0-5]\d:[0-5]\d$/.test(digits) && readHour(digits.slice(0, -6)) !== null ? digits : null
}

/** Matches midnight Eastern, written in either time zone. Such a stamp is a date without a time. */
const midnightPattern = / 0[045]:00:00$/

/**
 * Matches 00:15 Eastern, written in either time zone. Notices of effectiveness are stamped then, so the hour 00 is no
 * evidence of UTC.
 */
const nightlyPattern = / 0[045]:15:/

/** Hours that show the time zone. EDGAR accepts filings from 6 to 22 Eastern, that is, from 10 or 11 to 2 or 3 UTC. */
const easternHours = / 0[6-9]:/
const utcHours = / (?:23|0[0-3]):/

/** Parses a time. The clock changes only on the hour, so minutes and seconds are added to its start. */
const parseDigits = (digits: string, timeZone: StampTimeZone): DateTime.Utc => {
  const [minutes, seconds] = [Number(digits.slice(-5, -3)), Number(digits.slice(-2))]
  return DateTime.makeUnsafe(
    (readHour(digits.slice(0, -6))?.[timeZone] ?? Number.NaN) + (minutes * 60 + seconds) * 1000,
  )
}

const findZonesOfKnownTimes = (
  filings: ReadonlyArray<StampedFiling>,
  known: KnownAcceptanceTimes,
): ReadonlyArray<StampTimeZone> =>
  filings.flatMap(({ accession, stamp }) => {
    const time = known.get(accession)
    const digits = time === undefined ? null : toDigits(stamp)
    if (time === undefined || digits === null) return []
    return (["eastern", "utc"] as const).filter((timeZone) => DateTime.Equivalence(parseDigits(digits, timeZone), time))
  })

/** Returns the stamp without the `Z` if it shows when EDGAR accepted the filing, and null if it is only a date. */
const toBusinessHours = ({ form, stamp }: StampedFiling) => {
  const digits = form === "EFFECT" ? null : toDigits(stamp)
  return digits === null || midnightPattern.test(digits) || nightlyPattern.test(digits) ? null : digits
}

/** Returns the only time zone in which EDGAR accepts filings at the hour of the stamp, if there is only one. */
const findZoneOfHour = (filing: StampedFiling): StampTimeZone | undefined => {
  const digits = toBusinessHours(filing) ?? ""
  return easternHours.test(digits) ? "eastern" : utcHours.test(digits) ? "utc" : undefined
}

const findMostFrequent = (zones: ReadonlyArray<StampTimeZone | undefined>): StampTimeZone | null => {
  const [eastern, utc] = ["eastern", "utc"].map((zone) => zones.filter((one) => one === zone).length)
  if (eastern === undefined || utc === undefined || eastern === utc) return null
  return eastern > utc ? "eastern" : "utc"
}

/**
 * Determines whether the stamps of one company are UTC or Eastern: as known times show or, without them, as most hours
 * show. Returns null if there is no evidence, or as much for one as for the other.
 */
export const determineAcceptanceTimeZone = (
  filings: ReadonlyArray<StampedFiling>,
  known: KnownAcceptanceTimes = new Map(),
): StampTimeZone | null =>
  findMostFrequent(findZonesOfKnownTimes(filings, known)) ?? findMostFrequent(filings.map(findZoneOfHour))

/** Returns a filing whose exact time would show the time zone of the others. `filings` are sorted, newest first. */
export const findFilingWithTime = <F extends StampedFiling>(filings: ReadonlyArray<F>): F | undefined =>
  filings.find((filing) => toBusinessHours(filing) !== null)

/** Returns the instant of acceptance, or null if the stamp contains no time or its time zone is unknown. */
export const readAcceptanceTime = (stamp: string, timeZone: StampTimeZone | null): DateTime.Utc | null => {
  const digits = toDigits(stamp)
  return digits === null || timeZone === null || midnightPattern.test(digits) ? null : parseDigits(digits, timeZone)
}

/**
 * How many days an acceptance time may be from the filing date. The two can be months apart, because some filings keep
 * the date of an earlier filing or of a letter as their official date.
 */
const maxDaysFromFiling = 366

/** Returns the stamp without the `Z` if its time is so far from the filing date that neither can be trusted. */
export const findDoubtfulStamp = ({ filingDate, stamp }: StampedFiling) => {
  if (filingDate === undefined || stamp.startsWith(filingDate.slice(0, 5))) return undefined
  const digits = toDigits(stamp)
  const days = digits === null ? 0 : countDays(filingDate, digits.slice(0, 10))
  return digits !== null && Math.abs(days) > maxDaysFromFiling ? digits : undefined
}

/**
 * Assigns acceptance times to the filings of one company. A stamp whose hour is impossible in the time zone of the
 * others, or that is far from the filing date, has no time.
 */
export const assignAcceptanceTimes = <F extends StampedFiling>(
  filings: ReadonlyArray<F>,
  known: KnownAcceptanceTimes = new Map(),
): ReadonlyArray<F & { readonly acceptedAt: DateTime.Utc | null }> => {
  const timeZone = determineAcceptanceTimeZone(filings, known)
  return filings.map((filing) => {
    const isPossible = (findZoneOfHour(filing) ?? timeZone) === timeZone && findDoubtfulStamp(filing) === undefined
    const acceptedAt = known.get(filing.accession) ?? (isPossible ? readAcceptanceTime(filing.stamp, timeZone) : null)
    return { ...filing, acceptedAt }
  })
}

/** Reads the exact time from a filing's index page (`Accepted`), which is in Eastern time. */
export const readAcceptanceTimeFromIndexPage = (html: string): DateTime.Utc | null => {
  const [, stamp = ""] = />Accepted<\/div>\s*<div class="info">(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)</.exec(html) ?? []
  return readAcceptanceTime(stamp, "eastern")
}

interface DatedFiling {
  readonly acceptedAt: DateTime.Utc | null
  readonly filingDate: string
}

/**
 * Formats a filing's acceptance time for data files.
 * If the time is unknown, `newYorkTime` is null and `fixedOffsetTime` is midnight of the filing date.
 */
export const formatAcceptanceTimeForColumns = ({ acceptedAt, filingDate }: DatedFiling) =>
  acceptedAt === null
    ? { newYorkTime: null, fixedOffsetTime: `${filingDate} 00:00:00` }
    : { newYorkTime: newYorkTimeFormat.format(acceptedAt), fixedOffsetTime: fixedOffsetTimeFormat.format(acceptedAt) }

/** Returns the latest acceptance time of the filings in New York time. A filing without a time counts as midnight. */
export const formatLatestAcceptanceTime = (filings: readonly [DatedFiling, ...ReadonlyArray<DatedFiling>]) => {
  const times = filings.map(({ acceptedAt, filingDate }) =>
    acceptedAt ?? newYorkTimeFormat.parse(`${filingDate} 00:00:00`)
  )
  return newYorkTimeFormat.format(times.reduce((a, b) => DateTime.max(a, b)))
}
