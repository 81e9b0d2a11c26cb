/**
 * The holidays and early closes of the New York exchanges, computed by the rules that the exchanges have followed since
 * 1998, and the closures of the past for other reasons, such as storms and funerals. In this file, months start at 1.
 */

/** Whether the exchanges are open on a day. On a half day, regular hours end at 13:00 instead of 16:00. */
export type MarketDay = "open" | "half day" | "closed"

/** The first year for which the rules are valid. */
const firstYear = 1998

/** Days of the week as numbered by `Date`. */
const [sunday, monday, thursday, saturday] = [0, 1, 4, 6]

const getWeekday = (day: string) => new Date(day).getUTCDay()

/** Returns a date as `YYYY-MM-DD`. A day after the end of the month falls into the next month: 31 June is 1 July. */
const toDay = (year: number, month: number, day: number) =>
  new Date(Date.UTC(year, month - 1, day)).toISOString().slice(0, 10)

/** Returns the nth occurrence of a weekday in a month, such as the third Monday. */
const toNthDay = (year: number, month: number, nth: number, weekday: number) =>
  toDay(year, month, 1 + (7 + weekday - getWeekday(toDay(year, month, 1))) % 7 + 7 * (nth - 1))

/**
 * Returns the day on which a holiday is observed: the following Monday if it is on a Sunday, and the preceding Friday
 * if it is on a Saturday.
 */
const toObserved = (year: number, month: number, day: number) => {
  const weekday = getWeekday(toDay(year, month, day))
  return toDay(year, month, day + (weekday === sunday ? 1 : weekday === saturday ? -1 : 0))
}

/** Returns Good Friday, the Friday before Easter Sunday. Easter is computed with the anonymous Gregorian algorithm. */
const toGoodFriday = (year: number) => {
  const century = Math.floor(year / 100)
  const golden = year % 19
  const leap = century - Math.floor(century / 4) - Math.floor((8 * century + 13) / 25)
  const epact = (leap + 19 * golden + 15) % 30
  const fullMoon = epact - Math.floor((epact + Math.floor(golden / 11)) / 29)
  const weekday = (year + Math.floor(year / 4) + fullMoon + 2 - century + Math.floor(century / 4)) % 7
  return toDay(year, 3, 28 + fullMoon - weekday - 2)
}

/** The days on which the exchanges stayed closed although no rule says so. */
const exceptionalClosures = [
  "2001-09-11",
  "2001-09-12",
  "2001-09-13",
  "2001-09-14",
  "2004-06-11",
  "2007-01-02",
  "2012-10-29",
  "2012-10-30",
  "2018-12-05",
  "2025-01-09",
]

/** The days on which the exchanges closed at 13:00 although no rule says so. */
const exceptionalHalfDays = ["2003-12-26"]

const selectYear = (days: ReadonlyArray<string>, year: number) => days.filter((day) => day.startsWith(`${year}-`))

/** Returns the holidays of a year, as `YYYY-MM-DD`. */
const listHolidays = (year: number): ReadonlyArray<string> => [
  ...selectYear(exceptionalClosures, year),
  // If New Year's Day is a Saturday, it is not observed: the exchanges stay open on the last Friday of the year.
  getWeekday(toDay(year, 1, 1)) === saturday ? toDay(year, 1, 1) : toObserved(year, 1, 1),
  toNthDay(year, 1, 3, monday), // Martin Luther King Jr. Day
  toNthDay(year, 2, 3, monday), // Washington's Birthday
  toGoodFriday(year),
  toDay(year, 5, 31 - (getWeekday(toDay(year, 5, 31)) + 6) % 7), // Memorial Day, the last Monday of May
  ...(year >= 2022 ? [toObserved(year, 6, 19)] : []), // Juneteenth
  toObserved(year, 7, 4),
  toNthDay(year, 9, 1, monday), // Labor Day
  toNthDay(year, 11, 4, thursday), // Thanksgiving
  toObserved(year, 12, 25),
]

/**
 * Returns the half days of a year, as `YYYY-MM-DD`: a day next to Independence Day, the Friday after Thanksgiving, and
 * Christmas Eve. Some of them may be weekends or holidays, which the callers leave out.
 */
const listHalfDays = (year: number): ReadonlyArray<string> => {
  const [independence, thanksgiving] = [toDay(year, 7, 4), toNthDay(year, 11, 4, thursday)]
  // Until 2012, if Independence Day was a Thursday, the half day was the following Friday. Since then, it has been the
  // preceding day.
  const besideIndependence = getWeekday(independence) === thursday && year < 2013 ? 5 : 3
  return [
    ...selectYear(exceptionalHalfDays, year),
    // If Independence Day is a Saturday, 3 July is the holiday. If it is a Sunday or Monday, 3 July is on a weekend.
    // There is no half day in these years.
    ...([sunday, monday, saturday].includes(getWeekday(independence)) ? [] : [toDay(year, 7, besideIndependence)]),
    toDay(year, 11, Number(thanksgiving.slice(8)) + 1),
    toDay(year, 12, 24),
  ]
}

/** Computes the holidays and half days of a year. A day that would be both is only a holiday. */
const makeYear = (year: number) => {
  const holidays = new Set(listHolidays(year))
  const halfDays = new Set(listHalfDays(year).filter((day) => !holidays.has(day)))
  return { holidays, halfDays }
}

/** A cache of the years that have been computed. */
const years = new Map<number, ReturnType<typeof makeYear>>()

const getYear = (year: number) => {
  const known = years.get(year) ?? makeYear(year)
  years.set(year, known)
  return known
}

const isWeekend = (day: string) => [saturday, sunday].includes(getWeekday(day))

/** Returns whether the exchanges are open on a day (`YYYY-MM-DD`), as far as this is known. */
export const getMarketDay = (day: string): MarketDay => {
  const year = Number(day.slice(0, 4))
  if (isWeekend(day)) return "closed"
  if (year < firstYear) return "open"
  const { halfDays, holidays } = getYear(year)
  return holidays.has(day) ? "closed" : halfDays.has(day) ? "half day" : "open"
}

/**
 * Returns the last day before a day (both as `YYYY-MM-DD`) on which the exchanges were open, or undefined if it is
 * before 1998, when the holidays are not known.
 */
export const getPreviousMarketDay = (day: string): string | undefined => {
  const before = new Date(Date.parse(day) - 86_400_000).toISOString().slice(0, 10)
  if (Number(before.slice(0, 4)) < firstYear) return undefined
  return getMarketDay(before) === "closed" ? getPreviousMarketDay(before) : before
}

/** Returns the half days from 1998 through the given year, as `YYYY-MM-DD`. */
export const listHalfDaysUntil = (year: number): ReadonlyArray<string> =>
  Array.from({ length: year - firstYear + 1 }, (_, index) => Array.from(getYear(firstYear + index).halfDays))
    .flat().filter((day) => !isWeekend(day))
