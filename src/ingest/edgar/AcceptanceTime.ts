/**
 * Acceptance times of filings. In submissions files, every time ends in `Z`, but some files contain UTC and others
 * Eastern time (docs/decisions/0102-acceptance-times.md).
 */
import { DateTime, Schema } from "effect"
import { fixedOffsetTimeFormat, InstantColumn, NewYorkTimeColumn, newYorkTimeFormat } from "../../rows/Timestamps.ts"

export type StampTimeZone = "eastern" | "utc"

export interface StampedFiling {
  readonly accession: string
  readonly form: string
  /** Such as `2026-02-05T13:05:45.000Z`. Despite the `Z`, it may be Eastern time instead of UTC. */
  readonly stamp: string
}

/** Exact acceptance times by accession number, from a source that names its time zone. */
export type KnownAcceptanceTimes = ReadonlyMap<string, DateTime.Utc>

const isWallClock = Schema.is(NewYorkTimeColumn.schemas.insert)
const isInstant = Schema.is(InstantColumn.schemas.insert)

/** Returns the time in the format `2026-02-05 13:05:45`, or null if the text is not a time. */
const toDigits = (stamp: string) => {
  const digits = stamp.replace("T", " ").replace(/(\.\d+)?Z?$/, "")
  return isWallClock(digits) ? digits : null
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

const parseDigitsByZone: { readonly [Zone in StampTimeZone]: (digits: string) => DateTime.Utc } = {
  eastern: newYorkTimeFormat.parse,
  utc: (digits) => DateTime.makeUnsafe(`${digits.replace(" ", "T")}Z`),
}

const findZonesOfKnownTimes = (filings: ReadonlyArray<StampedFiling>, known: KnownAcceptanceTimes) =>
  new Set(filings.flatMap(({ accession, stamp }) => {
    const time = known.get(accession)
    const digits = toDigits(stamp)
    if (time === undefined || digits === null) return []
    return (["eastern", "utc"] as const).filter((timeZone) =>
      DateTime.Equivalence(parseDigitsByZone[timeZone](digits), time)
    )
  }))

const findZonesOfHours = (filings: ReadonlyArray<StampedFiling>) =>
  new Set(filings.flatMap(({ form, stamp }): ReadonlyArray<StampTimeZone> => {
    const digits = form === "EFFECT" ? null : toDigits(stamp)
    if (digits === null || midnightPattern.test(digits) || nightlyPattern.test(digits)) return []
    return easternHours.test(digits) ? ["eastern"] : utcHours.test(digits) ? ["utc"] : []
  }))

const getOnlyElement = <A>(elements: ReadonlySet<A>) => elements.size === 1 ? Array.from(elements)[0] : undefined

/**
 * Determines whether the stamps of one document are UTC or Eastern.
 * Returns null if the filings give no evidence, or contradictory evidence.
 */
export const determineAcceptanceTimeZone = (
  filings: ReadonlyArray<StampedFiling>,
  known: KnownAcceptanceTimes = new Map(),
): StampTimeZone | null =>
  getOnlyElement(findZonesOfKnownTimes(filings, known)) ?? getOnlyElement(findZonesOfHours(filings)) ?? null

/** Returns the instant of acceptance, or null if the stamp contains no time or its time zone is unknown. */
export const readAcceptanceTime = (stamp: string, timeZone: StampTimeZone | null): DateTime.Utc | null => {
  const digits = toDigits(stamp)
  return digits === null || timeZone === null || midnightPattern.test(digits)
    ? null
    : parseDigitsByZone[timeZone](digits)
}

/** Reads the exact time from an SGML header (`<ACCEPTANCE-DATETIME>20220506183057`), which is in Eastern time. */
export const readAcceptanceTimeFromSgmlHeader = (header: string): DateTime.Utc | null => {
  const [, ...parts] = /<ACCEPTANCE-DATETIME>(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)/.exec(header) ?? []
  return readAcceptanceTime(`${parts.slice(0, 3).join("-")}T${parts.slice(3).join(":")}`, "eastern")
}

/** Reads the exact time from a filing's index page (`Accepted`), which is in Eastern time. */
export const readAcceptanceTimeFromIndexPage = (html: string): DateTime.Utc | null => {
  const [, stamp = ""] = />Accepted<\/div>\s*<div class="info">(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)</.exec(html) ?? []
  return readAcceptanceTime(stamp, "eastern")
}

/** Reads the exact time from an entry of the Atom feed (`<updated>`), which includes the UTC offset. */
export const readAcceptanceTimeFromFeed = (updated: string): DateTime.Utc | null =>
  isInstant(updated) ? DateTime.toUtc(DateTime.makeUnsafe(updated)) : null

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
