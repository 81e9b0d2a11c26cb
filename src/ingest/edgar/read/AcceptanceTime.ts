/**
 * Determines when the SEC accepted each filing of a company. In the SEC's submissions files, every timestamp ends in
 * `Z`, but some files contain UTC and others Eastern time (docs/decisions/0102-acceptance-times.md). The hours of the
 * timestamps usually show which one it is, because EDGAR does not accept filings at night.
 */
import { DateTime, Schema } from "effect"
import { LRUCache } from "lru-cache"
import { countDays } from "../../../contract/rules/Dates.ts"
import { fixedOffsetTimeFormat, NewYorkTimeColumn, newYorkTimeFormat } from "../../../contract/rows/Timestamps.ts"

/** The time zone of a company's timestamps. */
export type AcceptanceTimeZone = "eastern" | "utc"

/** A filing with the timestamp that the SEC states for it. */
export interface TimestampedFiling {
  readonly accession: string
  readonly form: string
  /** Timestamp such as `2026-02-05T13:05:45.000Z`. Despite the `Z`, it may be in Eastern time instead of UTC. */
  readonly stamp: string
  /** The SEC's official filing date, `YYYY-MM-DD`. */
  readonly filingDate?: string
}

/** Exact acceptance times by accession number, from a source that states its time zone. */
export type KnownAcceptanceTimes = ReadonlyMap<string, DateTime.Utc>

const isWallClock = Schema.is(NewYorkTimeColumn.schemas.insert)

/** The start of an hour in each time zone, in milliseconds since 1970. */
type HourStart = { readonly [Zone in AcceptanceTimeZone]: number }

/**
 * Cache of the start of each hour, because a filing list contains thousands of timestamps. The keys are texts such as
 * `2026-02-05 13`. `start` is null if the text is not an hour that exists.
 */
const hourStarts = new LRUCache<string, { readonly start: HourStart | null }>({ max: 200_000 })

/** Returns the start of an hour such as `2026-02-05 13`, or null if the text is not an hour that exists. */
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

/** Converts a timestamp to the format `2026-02-05 13:05:45`. Returns null if the text is not a valid timestamp. */
const toDigits = (stamp: string) => {
  const digits = stamp.replace("T", " ").replace(/(\.\d+)?Z?$/, "")
  return /^[^:]+:[0-5]\d:[0-5]\d$/.test(digits) && readHour(digits.slice(0, -6)) !== null ? digits : null
}

/** Matches midnight Eastern, written in either time zone. Such a timestamp represents a date without a time. */
const midnightPattern = / 0[045]:00:00$/

/**
 * Matches 00:15 Eastern, written in either time zone. Notices of effectiveness have this timestamp, so hour 00 is not
 * evidence of UTC here.
 */
const nightlyPattern = / 0[045]:15:/

/**
 * Hours that can occur in only one of the two time zones. EDGAR accepts filings from 6:00 to 22:00 Eastern, which is
 * 10:00 or 11:00 to 2:00 or 3:00 UTC.
 */
const easternHours = / 0[6-9]:/
const utcHours = / (?:23|0[0-3]):/

/**
 * Converts a time such as `2026-02-05 13:05:45` in this time zone. UTC offsets change only on the hour, so minutes and
 * seconds can be added to the start of the hour.
 */
const parseDigits = (digits: string, timeZone: AcceptanceTimeZone): DateTime.Utc => {
  const [minutes, seconds] = [Number(digits.slice(-5, -3)), Number(digits.slice(-2))]
  return DateTime.makeUnsafe(
    (readHour(digits.slice(0, -6))?.[timeZone] ?? Number.NaN) + (minutes * 60 + seconds) * 1000,
  )
}

/**
 * Compares timestamps with exact acceptance times. Returns the time zones in which they are equal, one element for each
 * filing that matches.
 */
const findZonesOfKnownTimes = (
  filings: ReadonlyArray<TimestampedFiling>,
  known: KnownAcceptanceTimes,
): ReadonlyArray<AcceptanceTimeZone> =>
  filings.flatMap(({ accession, stamp }) => {
    const time = known.get(accession)
    const digits = time === undefined ? null : toDigits(stamp)
    if (time === undefined || digits === null) return []
    return (["eastern", "utc"] as const).filter((timeZone) => DateTime.Equivalence(parseDigits(digits, timeZone), time))
  })

/**
 * Returns the timestamp without the `Z`, or null if it does not show when EDGAR accepted the filing: because it
 * represents only a date, or because EDGAR itself created the filing at night.
 */
const toBusinessHours = ({ form, stamp }: TimestampedFiling) => {
  const digits = form === "EFFECT" ? null : toDigits(stamp)
  return digits === null || midnightPattern.test(digits) || nightlyPattern.test(digits) ? null : digits
}

/**
 * Determines the time zone from the timestamp's hour. Returns undefined unless EDGAR accepts filings at that hour in
 * exactly one of the time zones.
 */
const findZoneOfHour = (filing: TimestampedFiling): AcceptanceTimeZone | undefined => {
  const digits = toBusinessHours(filing) ?? ""
  return easternHours.test(digits) ? "eastern" : utcHours.test(digits) ? "utc" : undefined
}

/** Returns the more frequent of the two time zones, or null if both are equally frequent. */
const findMostFrequent = (zones: ReadonlyArray<AcceptanceTimeZone | undefined>): AcceptanceTimeZone | null => {
  const [eastern, utc] = ["eastern", "utc"].map((zone) => zones.filter((one) => one === zone).length)
  if (eastern === undefined || utc === undefined || eastern === utc) return null
  return eastern > utc ? "eastern" : "utc"
}

/**
 * Determines whether a company's timestamps are in UTC or Eastern time, from known acceptance times if possible. If
 * there are none, or if they are evenly split, uses the hours of the timestamps. Returns null if the hours are
 * inconclusive, too.
 */
export const determineAcceptanceTimeZone = (
  filings: ReadonlyArray<TimestampedFiling>,
  known: KnownAcceptanceTimes = new Map(),
): AcceptanceTimeZone | null =>
  findMostFrequent(findZonesOfKnownTimes(filings, known)) ?? findMostFrequent(filings.map(findZoneOfHour))

/**
 * Returns the newest filing whose timestamp shows when EDGAR accepted it. Its exact acceptance time, which the filing's
 * index page states, would reveal the time zone of all the timestamps. `filings` must be sorted, newest first.
 */
export const findFilingWithTime = <F extends TimestampedFiling>(filings: ReadonlyArray<F>): F | undefined =>
  filings.find((filing) => toBusinessHours(filing) !== null)

/**
 * Returns the acceptance time that a timestamp in this time zone denotes, or null if the timestamp has no time or if
 * the time zone is unknown.
 */
export const readAcceptanceTime = (stamp: string, timeZone: AcceptanceTimeZone | null): DateTime.Utc | null => {
  const digits = toDigits(stamp)
  return digits === null || timeZone === null || midnightPattern.test(digits) ? null : parseDigits(digits, timeZone)
}

/**
 * Maximum number of days between the acceptance time and the filing date. They can be months apart, because some
 * filings take their official date from an earlier filing or a letter.
 */
const maxDaysFromFiling = 366

/** Returns the timestamp without the `Z` if it is so far from the filing date that neither can be trusted. */
export const findImplausibleTimestamp = ({ filingDate, stamp }: TimestampedFiling) => {
  if (filingDate === undefined || stamp.startsWith(filingDate.slice(0, 5))) return undefined
  const digits = toDigits(stamp)
  const days = digits === null ? 0 : countDays(filingDate, digits.slice(0, 10))
  return digits !== null && Math.abs(days) > maxDaysFromFiling ? digits : undefined
}

/**
 * Returns the filings of a company with their acceptance times (`acceptedAt`). An exact time in `known` takes
 * precedence. Otherwise, the timestamp is converted from the time zone that all of the company's timestamps have. The
 * time is null if the timestamp's hour is impossible in that time zone, or if the timestamp is too far from the filing
 * date.
 */
export const assignAcceptanceTimes = <F extends TimestampedFiling>(
  filings: ReadonlyArray<F>,
  known: KnownAcceptanceTimes = new Map(),
): ReadonlyArray<F & { readonly acceptedAt: DateTime.Utc | null }> => {
  const timeZone = determineAcceptanceTimeZone(filings, known)
  return filings.map((filing) => {
    const isPossible = (findZoneOfHour(filing) ?? timeZone) === timeZone &&
      findImplausibleTimestamp(filing) === undefined
    const acceptedAt = known.get(filing.accession) ?? (isPossible ? readAcceptanceTime(filing.stamp, timeZone) : null)
    return { ...filing, acceptedAt }
  })
}

/** Reads the exact acceptance time from a filing's index page (`Accepted`). The page uses Eastern time. */
export const readAcceptanceTimeFromIndexPage = (html: string): DateTime.Utc | null => {
  const [, stamp = ""] = />Accepted<\/div>\s*<div class="info">(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)</.exec(html) ?? []
  return readAcceptanceTime(stamp, "eastern")
}

interface DatedFiling {
  readonly acceptedAt: DateTime.Utc | null
  readonly filingDate: string
}

/**
 * Formats a filing's acceptance time for the columns of data files. If the time is unknown, `newYorkTime` is null and
 * `fixedOffsetTime` is midnight of the filing date.
 */
export const formatAcceptanceTimeForColumns = ({ acceptedAt, filingDate }: DatedFiling) =>
  acceptedAt === null
    ? { newYorkTime: null, fixedOffsetTime: `${filingDate} 00:00:00` }
    : { newYorkTime: newYorkTimeFormat.format(acceptedAt), fixedOffsetTime: fixedOffsetTimeFormat.format(acceptedAt) }

/**
 * Returns the latest acceptance time of the filings, in New York time. A filing without a time counts as accepted at
 * midnight.
 */
export const formatLatestAcceptanceTime = (filings: readonly [DatedFiling, ...ReadonlyArray<DatedFiling>]) => {
  const times = filings.map(({ acceptedAt, filingDate }) =>
    acceptedAt ?? newYorkTimeFormat.parse(`${filingDate} 00:00:00`)
  )
  return newYorkTimeFormat.format(times.reduce((a, b) => DateTime.max(a, b)))
}
