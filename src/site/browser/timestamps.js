/**
 * Parses and formats the API's timestamps (§2.1, D15). The API prints times at -05:00 all year; during daylight saving
 * time, New York's clock is one hour ahead of them. Instants are epoch milliseconds. Pure.
 */

const hourMillis = 3_600_000

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

/** Formats an instant in UTC, such as `2026-06-01 13:30:00`. @param {number} instant */
const formatUtc = (instant) => new Date(instant).toISOString().slice(0, 19).replace("T", " ")

/**
 * Formats an instant as New York's clock shows it, such as `2026-06-01 09:30:00`.
 * @param {number} instant
 */
export const formatNewYorkTime = (instant) => {
  /** @type {Record<string, string>} */
  const parts = {}
  for (const { type, value } of newYork.formatToParts(instant)) parts[type] = value
  const { day, hour, minute, month, second, year } = parts
  return `${year}-${month}-${day} ${hour}:${minute}:${second}`
}

/**
 * Formats an instant as the API does, such as `2026-06-01T08:30:00-05:00`.
 * @param {number} instant
 */
export const formatTimestamp = (instant) => `${formatUtc(instant - 5 * hourMillis).replace(" ", "T")}-05:00`

/**
 * Parses a date and time as UTC. Undefined unless they are valid and from 1900 to 9998.
 * @param {string} text
 */
const parseUtc = (text) => {
  const [, date = "", minutes = "", seconds = "00"] =
    /^(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2})(?::(\d{2}))?$/.exec(text.trim()) ?? []
  const instant = Date.parse(`${date}T${minutes}:${seconds}Z`)
  if (!Number.isFinite(instant) || formatUtc(instant) !== `${date} ${minutes}:${seconds}`) return undefined
  return date >= "1900" && date < "9999" ? instant : undefined
}

/**
 * Parses a time on New York's clock. When daylight saving time ends, a repeated time means its second occurrence. When
 * it begins, a skipped time gets the offset of standard time.
 * @param {string} text such as `2026-06-01 09:30`, with or without seconds
 */
export const parseNewYorkTime = (text) => {
  const clock = parseUtc(text)
  if (clock === undefined) return undefined
  const [standard, daylight] = [clock + 5 * hourMillis, clock + 4 * hourMillis]
  const wanted = formatUtc(clock)
  return formatNewYorkTime(standard) !== wanted && formatNewYorkTime(daylight) === wanted ? daylight : standard
}

/**
 * Parses a timestamp with an offset or `Z`. Undefined if the timestamp is invalid.
 * @param {string} text such as `2026-06-01T08:30:00-05:00`
 */
export const parseTimestamp = (text) => {
  const [, clock = "", zone = ""] = /^(.*\d{2}:\d{2})(?:\.\d+)?(Z|[+-]\d{2}:\d{2})$/.exec(text.trim()) ?? []
  const instant = parseUtc(clock)
  const [, sign, hours = "0", minutes = "0"] = /^([+-])(\d{2}):(\d{2})$/.exec(zone) ?? []
  if (instant === undefined || Number(hours) > 15 || Number(minutes) > 59) return undefined
  const offset = (Number(hours) * 60 + Number(minutes)) * 60_000
  return sign === "-" ? instant + offset : instant - offset
}

/**
 * Formats the time since an instant in the largest unit that fits, such as `3 hours ago`.
 * @param {number} instant
 * @param {number} now
 */
export const formatAge = (instant, now) => {
  const seconds = Math.max(0, Math.round((now - instant) / 1000))
  /** @type {ReadonlyArray<readonly [number, string]>} */
  const units = [[86_400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]]
  for (const [length, name] of units) {
    const count = Math.floor(seconds / length)
    if (count >= 1) return `${count} ${name}${count === 1 ? "" : "s"} ago`
  }
  return "just now"
}
