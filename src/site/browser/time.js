/**
 * §2.1, D15: clocks. What the API prints is at -05:00 all year; what New York's clock shows is an hour later in
 * daylight time. Pure; moments are milliseconds since 1970.
 */

const hour = 3_600_000

const newYork = new Intl.DateTimeFormat("en-CA", {
  timeZone: "America/New_York",
  hourCycle: "h23",
  year: "numeric",
  month: "2-digit",
  day: "2-digit",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
})

/**
 * The digits of a clock that keeps UTC.
 * @param {number} moment
 */
const digits = (moment) => new Date(moment).toISOString().slice(0, 19).replace("T", " ")

/**
 * What New York's clock shows: `2026-06-01 09:30:00`.
 * @param {number} moment
 */
export const toNewYork = (moment) => {
  /** @type {Record<string, string>} */
  const parts = {}
  for (const { type, value } of newYork.formatToParts(moment)) parts[type] = value
  const { day, hour, minute, month, second, year } = parts
  return `${year}-${month}-${day} ${hour}:${minute}:${second}`
}

/**
 * As the API prints it: `2026-06-01T08:30:00-05:00`.
 * @param {number} moment
 */
export const toPrinted = (moment) => `${digits(moment - 5 * hour).replace(" ", "T")}-05:00`

/**
 * `2026-06-01T13:30:00Z`
 * @param {number} moment
 */
export const toUtc = (moment) => `${digits(moment).replace(" ", "T")}Z`

/**
 * The moment of digits on a clock that keeps UTC; undefined where they are no time of the calendar from 1900 to 9998.
 * @param {string} text
 */
const read = (text) => {
  const [, date = "", minutes = "", seconds = "00"] =
    /^(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2})(?::(\d{2}))?$/.exec(text.trim()) ?? []
  const written = `${date} ${minutes}:${seconds}`
  const moment = Date.parse(`${date}T${minutes}:${seconds}Z`)
  if (!Number.isFinite(moment) || digits(moment) !== written) return undefined
  return date >= "1900" && date < "9999" ? moment : undefined
}

/**
 * The moment that New York's clock named. A time that occurred twice is the second one; one that never occurred has the
 * standard offset.
 * @param {string} text `2026-06-01 09:30`, with or without seconds
 */
export const fromNewYork = (text) => {
  const clock = read(text)
  if (clock === undefined) return undefined
  const [standard, daylight] = [clock + 5 * hour, clock + 4 * hour]
  const shows = digits(clock)
  return toNewYork(standard) !== shows && toNewYork(daylight) === shows ? daylight : standard
}

/**
 * The moment of a datetime with its zone, as the API prints it or in UTC.
 * @param {string} text `2026-06-01T08:30:00-05:00`
 */
export const fromPrinted = (text) => {
  const [, clock = "", zone = ""] = /^(.*\d{2}:\d{2})(?:\.\d+)?(Z|[+-]\d{2}:\d{2})$/.exec(text.trim()) ?? []
  const moment = read(clock)
  const [, sign, hours = "0", minutes = "0"] = /^([+-])(\d{2}):(\d{2})$/.exec(zone) ?? []
  if (moment === undefined || Number(hours) > 15 || Number(minutes) > 59) return undefined
  const offset = (Number(hours) * 60 + Number(minutes)) * 60_000
  return sign === "-" ? moment + offset : moment - offset
}

/**
 * How long ago, in the unit that people would say.
 * @param {number} moment
 * @param {number} now
 */
export const ago = (moment, now) => {
  const seconds = Math.max(0, Math.round((now - moment) / 1000))
  /** @type {ReadonlyArray<readonly [number, string]>} */
  const units = [[86_400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]]
  for (const [length, name] of units) {
    const count = Math.floor(seconds / length)
    if (count >= 1) return `${count} ${name}${count === 1 ? "" : "s"} ago`
  }
  return "just now"
}
