/**
 * Formats PostgreSQL timestamps without time zone, such as "2026-06-01 09:30:00". The results have the offset -05:00.
 */

/** Returns the date of the nth Sunday of a month. */
const sunday = (year: number, month: number, nth: number) => {
  const first = new Date(Date.UTC(year, month - 1, 1)).getUTCDay()
  return `${year}-${String(month).padStart(2, "0")}-${String(1 + (7 - first) % 7 + 7 * (nth - 1)).padStart(2, "0")}`
}

interface DaylightSaving {
  readonly starts: string
  readonly ends: string
}

const knownYears = new Map<string, DaylightSaving>()

/** Returns when daylight saving time starts and ends in a year, according to the rules in force since 2007. */
const daylightSavingOf = (year: string): DaylightSaving => {
  const known = knownYears.get(year)
  if (known !== undefined) return known
  const found = {
    starts: `${sunday(Number(year), 3, 2)} 03:00:00`,
    ends: `${sunday(Number(year), 11, 1)} 01:00:00`,
  }
  knownYears.set(year, found)
  return found
}

/** Pads the fractional seconds with zeros, because PostgreSQL omits trailing zeros. */
const padFraction = (text: string) => text.length === 19 ? text : text.padEnd(23, "0")

/** Formats a timestamp that is in Eastern Standard Time. */
export const formatEasternWallClock = (text: string) => `${text.slice(0, 10)}T${padFraction(text).slice(11)}-05:00`

const hours = Array.from(
  { length: 24 },
  (_, hour) => String(hour).padStart(2, "0"),
)

/**
 * Formats a timestamp that is in New York local time. During daylight saving time, New York is one hour ahead of
 * Eastern Standard Time.
 */
export const formatNewYorkWallClock = (text: string) => {
  const { ends, starts } = daylightSavingOf(text.slice(0, 4))
  if (text < starts || text >= ends) return formatEasternWallClock(text)
  const hour = Number(text.slice(11, 13))
  if (hour > 0) {
    return `${text.slice(0, 10)}T${hours[hour - 1]}${padFraction(text).slice(13)}-05:00`
  }
  const before = new Date(
    Date.parse(`${text.slice(0, 10)}T00:00:00Z`) - 3_600_000,
  ).toISOString()
  return `${before.slice(0, 13)}${padFraction(text).slice(13)}-05:00`
}
