/** The days of the fictional market: real trading days of the US, at fixed dates, so that every run gives the same. */
import { DateTime } from "effect"

/** Whole days since 1970-01-01. */
export type Day = number

const dayMillis = 86_400_000

/** The day of `YYYY-MM-DD`. */
export const dayOf = (date: string): Day => DateTime.toEpochMillis(DateTime.makeUnsafe(date)) / dayMillis

const dates = new Map<Day, string>()

/** `YYYY-MM-DD` */
export const dateOf = (day: Day): string => {
  const known = dates.get(day)
  if (known !== undefined) return known
  const date = DateTime.formatIsoDate(DateTime.makeUnsafe(day * dayMillis))
  dates.set(day, date)
  return date
}

/** 0 is Sunday. */
const weekday = (day: Day) => (day + 4) % 7

const first = (year: number, month: number) => dayOf(`${year}-${String(month).padStart(2, "0")}-01`)

/** The n-th such weekday of the month. */
const nth = (year: number, month: number, wanted: number, n: number) => {
  const start = first(year, month)
  return start + (wanted - weekday(start) + 7) % 7 + 7 * (n - 1)
}

/** A holiday on a Sunday is kept on Monday, one on a Saturday on Friday. */
const observed = (day: Day) => weekday(day) === 0 ? day + 1 : weekday(day) === 6 ? day - 1 : day

/** Two days before Easter Sunday, by the anonymous Gregorian rule. */
const goodFriday = (year: number) => {
  const century = Math.floor(year / 100)
  const golden = year % 19
  const leaps = century - Math.floor(century / 4) - Math.floor((8 * century + 13) / 25)
  const epact = (leaps + 19 * golden + 15) % 30
  const moon = epact - (epact > 28 || (epact === 28 && golden > 10) ? 1 : 0)
  const shift = (year + Math.floor(year / 4) + moon + 2 - century + Math.floor(century / 4)) % 7
  return first(year, 3) + 27 + moon - shift - 2
}

const thanksgiving = (year: number) => nth(year, 11, 4, 4)

/** The exchange does not close in the old year for a New Year's Day that falls on a Saturday. */
const newYear = (year: number) => weekday(first(year, 1)) === 6 ? first(year, 1) : observed(first(year, 1))

const holidays = (year: number) => [
  newYear(year),
  nth(year, 1, 1, 3),
  nth(year, 2, 1, 3),
  goodFriday(year),
  nth(year, 6, 1, 1) - 7,
  observed(dayOf(`${year}-06-19`)),
  observed(dayOf(`${year}-07-04`)),
  nth(year, 9, 1, 1),
  thanksgiving(year),
  observed(dayOf(`${year}-12-25`)),
]

const years = [2024, 2025, 2026]

/** And a national day of mourning. */
const closed = new Set([...years.flatMap(holidays), dayOf("2025-01-09")])

/** Days that may end at 13:00; nothing remarkable happens on them. */
export const short = new Set(years.flatMap((year) => [
  dayOf(`${year}-07-03`),
  thanksgiving(year) + 1,
  dayOf(`${year}-12-24`),
]))

/** The last day of the market: everything known is known on its evening. */
export const today = dayOf("2026-11-13")
const start = dayOf("2024-11-13")

const span = Array.from({ length: today - start + 1 }, (_, after) => start + after)

/** Two years of trading days; a session is named by its place in this list. */
export const tradingDays: ReadonlyArray<Day> = span.filter((day) =>
  weekday(day) !== 0 && weekday(day) !== 6 && !closed.has(day)
)

/** The place of the last session. */
export const last = tradingDays.length - 1

const places = new Map(tradingDays.map((day, place) => [day, place]))

/** The session of this day, or the last one before it; 0 for days before the market began. */
export const sessionOn = (day: Day): number => {
  for (let near = Math.min(day, today); near >= start; near--) {
    const place = places.get(near)
    if (place !== undefined) return place
  }
  return 0
}

/** The trading day nearest to, and not before, this one. */
export const tradingDay = (day: Day): Day => closed.has(day) || weekday(day) % 6 === 0 ? tradingDay(day + 1) : day

/** The day of a session; one beyond the last lies in the future. */
export const dayAt = (session: number): Day =>
  session > last ? tradingDay(today + Math.ceil((session - last) * 1.4)) : tradingDays[Math.max(0, session)] ?? today

const two = (number: number) => String(number).padStart(2, "0")

/** `2026-06-01 09:30:00`: a wall clock, the seconds counted from midnight. */
export const clock = (day: Day, seconds: number) =>
  `${dateOf(day)} ${two(Math.floor(seconds / 3600))}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`

const isDaylight = (day: Day) => {
  const year = Number(dateOf(day).slice(0, 4))
  return day >= nth(year, 3, 0, 2) && day < nth(year, 11, 0, 1)
}

/** `2026-06-01T13:30:00Z`: the instant that New York's clock names. */
export const instant = (day: Day, seconds: number) => {
  const utc = seconds + (isDaylight(day) ? 4 : 5) * 3600
  return `${clock(day + Math.floor(utc / 86_400), utc % 86_400).replace(" ", "T")}Z`
}

/** Seconds from midnight. */
export const hour = (hours: number, minutes = 0) => hours * 3600 + minutes * 60
