/**
 * The trading calendar of the fictional market, which has the same trading days as US exchanges. The date range is
 * fixed, so that every run generates the same data.
 */
import { DateTime } from "effect"

/** A date, as the number of days since 1970-01-01. */
export type EpochDay = number

const millisPerDay = 86_400_000

/** Parses a date in the format `YYYY-MM-DD`. */
export const parseDate = (date: string): EpochDay => DateTime.toEpochMillis(DateTime.makeUnsafe(date)) / millisPerDay

/** Caches formatted dates, because formatting is slow and most dates occur in thousands of rows. */
const dateCache = new Map<EpochDay, string>()

/** Formats a date as `YYYY-MM-DD`. */
export const formatDate = (day: EpochDay): string => {
  const known = dateCache.get(day)
  if (known !== undefined) return known
  const date = DateTime.formatIsoDate(DateTime.makeUnsafe(day * millisPerDay))
  dateCache.set(day, date)
  return date
}

/** Returns the day of the week, where 0 is Sunday. */
const weekdayOf = (day: EpochDay) => (day + 4) % 7

const firstOfMonth = (year: number, month: number) => parseDate(`${year}-${String(month).padStart(2, "0")}-01`)

/** Returns the nth occurrence of a weekday in a month. */
const nthWeekday = (year: number, month: number, weekday: number, n: number) => {
  const start = firstOfMonth(year, month)
  return start + (weekday - weekdayOf(start) + 7) % 7 + 7 * (n - 1)
}

/**
 * Returns the day on which a holiday is observed. A holiday on a Sunday is observed on Monday, a holiday on a Saturday
 * on Friday.
 */
const observedDay = (day: EpochDay) => weekdayOf(day) === 0 ? day + 1 : weekdayOf(day) === 6 ? day - 1 : day

/**
 * Returns the date of Good Friday, two days before Easter Sunday. Easter Sunday follows the first full moon of spring,
 * which the anonymous Gregorian algorithm computes with integers; the names of its variables are the usual ones.
 */
const goodFriday = (year: number) => {
  const century = Math.floor(year / 100)
  const golden = year % 19
  const leaps = century - Math.floor(century / 4) - Math.floor((8 * century + 13) / 25)
  const epact = (leaps + 19 * golden + 15) % 30
  const moon = epact - (epact > 28 || (epact === 28 && golden > 10) ? 1 : 0)
  const shift = (year + Math.floor(year / 4) + moon + 2 - century + Math.floor(century / 4)) % 7
  return firstOfMonth(year, 3) + 27 + moon - shift - 2
}

const thanksgiving = (year: number) => nthWeekday(year, 11, 4, 4)

/**
 * Returns the date of the New Year's holiday. Unlike other holidays, it is not moved to Friday if it falls on a
 * Saturday.
 */
const newYearsHoliday = (year: number) =>
  weekdayOf(firstOfMonth(year, 1)) === 6 ? firstOfMonth(year, 1) : observedDay(firstOfMonth(year, 1))

const holidaysOf = (year: number) => [
  newYearsHoliday(year),
  nthWeekday(year, 1, 1, 3), // Martin Luther King Jr. Day
  nthWeekday(year, 2, 1, 3), // Washington's Birthday
  goodFriday(year),
  nthWeekday(year, 6, 1, 1) - 7, // Memorial Day, the last Monday of May
  observedDay(parseDate(`${year}-06-19`)), // Juneteenth
  observedDay(parseDate(`${year}-07-04`)),
  nthWeekday(year, 9, 1, 1), // Labor Day
  thanksgiving(year),
  observedDay(parseDate(`${year}-12-25`)),
]

const years = [2024, 2025, 2026]

/** Exchange holidays, including the national day of mourning on 2025-01-09. */
const holidayDays = new Set([...years.flatMap(holidaysOf), parseDate("2025-01-09")])

/** Days on which the exchanges may close early, at 13:00. No price gaps are scheduled on these days. */
export const earlyCloseDays = new Set(years.flatMap((year) => [
  parseDate(`${year}-07-03`),
  thanksgiving(year) + 1,
  parseDate(`${year}-12-24`),
]))

/** The last day for which sample data is generated. Rows about the present reflect the evening of this day. */
export const lastMarketDay = parseDate("2026-11-13")
const firstDay = parseDate("2024-11-13")

const calendarDays = Array.from({ length: lastMarketDay - firstDay + 1 }, (_, after) => firstDay + after)

/** The trading days of the two years that the sample data covers. A session number is an index into this array. */
export const tradingDays: ReadonlyArray<EpochDay> = calendarDays.filter((day) =>
  weekdayOf(day) !== 0 && weekdayOf(day) !== 6 && !holidayDays.has(day)
)

/** The session number (the index in `tradingDays`) of the last trading day. */
export const lastSessionNumber = tradingDays.length - 1

/** The session number (the index in `tradingDays`) of each trading day. */
const sessionByDay = new Map(tradingDays.map((day, index) => [day, index]))

/**
 * Returns the session number of `day`, or of the last trading day before it. Returns 0 if `day` is before the first
 * trading day.
 */
export const getSessionNumber = (day: EpochDay): number => {
  for (let candidate = Math.min(day, lastMarketDay); candidate >= firstDay; candidate--) {
    const session = sessionByDay.get(candidate)
    if (session !== undefined) return session
  }
  return 0
}

/**
 * Returns the first trading day on or after `day`. The only weekday numbers divisible by 6 are 0 (Sunday) and 6
 * (Saturday).
 */
export const findNextTradingDay = (day: EpochDay): EpochDay =>
  holidayDays.has(day) || weekdayOf(day) % 6 === 0 ? findNextTradingDay(day + 1) : day

/**
 * Returns the date of a session. For sessions after the last one, the date is an estimate that assumes five sessions
 * per seven days.
 */
export const getSessionDay = (session: number): EpochDay =>
  session > lastSessionNumber
    ? findNextTradingDay(lastMarketDay + Math.ceil((session - lastSessionNumber) * 1.4))
    : tradingDays[Math.max(0, session)] ?? lastMarketDay

const padTwo = (number: number) => String(number).padStart(2, "0")

/** Formats a time without a time zone, such as `2026-06-01 09:30:00`. `seconds` is counted from midnight. */
export const formatLocalTime = (day: EpochDay, seconds: number) =>
  `${formatDate(day)} ${padTwo(Math.floor(seconds / 3600))}:${padTwo(Math.floor(seconds / 60) % 60)}:${
    padTwo(seconds % 60)
  }`

const isDaylightSaving = (day: EpochDay) => {
  const year = Number(formatDate(day).slice(0, 4))
  return day >= nthWeekday(year, 3, 0, 2) && day < nthWeekday(year, 11, 0, 1)
}

/** Converts a New York time to UTC and formats it as `2026-06-01T13:30:00Z`. */
export const formatNewYorkTimeAsUtc = (day: EpochDay, seconds: number) => {
  const utc = seconds + (isDaylightSaving(day) ? 4 : 5) * 3600
  return `${formatLocalTime(day + Math.floor(utc / 86_400), utc % 86_400).replace(" ", "T")}Z`
}

/** Converts a time of day to seconds since midnight. */
export const toSecondsOfDay = (hours: number, minutes = 0) => hours * 3600 + minutes * 60
