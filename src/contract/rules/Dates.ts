/** Calendar dates in parameters, and the current dates in New York and Chicago (D7, dates). */
import { Clock, Context, DateTime, Effect, Option, Schema, SchemaGetter, SchemaIssue } from "effect"

const newYork = DateTime.zoneMakeNamedUnsafe("America/New_York")
const chicago = DateTime.zoneMakeNamedUnsafe("America/Chicago")

const getNextMidnightIn = (zone: DateTime.TimeZone, now: number) =>
  DateTime.toEpochMillis(
    DateTime.add(DateTime.startOf(DateTime.setZone(DateTime.makeUnsafe(now), zone), "day"), { days: 1 }),
  )

/** The UTC offset of all times that the API prints: Eastern Standard Time, even in summer (§2.1, timestamps). */
export const printedOffset = { text: "-05:00", millis: -5 * 60 * 60 * 1000 } as const

/**
 * Formats a timestamp of the change history with six decimals, such as `2026-06-01T08:30:00.000000-05:00` (D15,
 * timestamps). `millis` determines everything before the decimal point, and `decimals` contains the six digits after
 * it. Returns undefined if the year at -05:00 is outside the range 1 to 9999. Comparing these strings compares the
 * times.
 */
export const formatHistoryTimestamp = (millis: number, decimals: string): string | undefined => {
  const text = new Date(millis + printedOffset.millis).toISOString()
  // `toISOString` writes years below 0 and above 9999 with a sign and six digits, which makes the string longer.
  return text.length === 24 && !text.startsWith("0000")
    ? `${text.slice(0, 19)}.${decimals}${printedOffset.text}`
    : undefined
}

/**
 * Formats an instant as the API prints it (§2.1, D15). Returns undefined if the year at -05:00 is outside the range 1
 * to 9999.
 */
export const formatTime = (millis: number): string | undefined => {
  // In JavaScript, the remainder is negative for times before 1970.
  const decimals = String(((millis % 1000) + 1000) % 1000).padStart(3, "0")
  return formatHistoryTimestamp(millis, decimals)?.replace(`.000${printedOffset.text}`, printedOffset.text)
}

/**
 * A time as the API prints it (§2.1, D15). It has no decimals if they are all zeros, and otherwise three. History
 * timestamps have six.
 */
export const PrintedTime = Schema.String.annotate({ format: "date-time" }).check(
  Schema.isPattern(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{3}|\.\d{6})?-05:00$/),
)

/**
 * Returns an SQL expression that formats a `timestamptz` expression the way the API prints times (§2.1, D15:
 * timestamps).
 */
export const formatTimeSql = (time: string) =>
  `replace(to_char((${time}) at time zone 'Etc/GMT+5', 'YYYY-MM-DD"T"HH24:MI:SS.MS"${printedOffset.text}"'), ` +
  `'.000${printedOffset.text}', '${printedOffset.text}')`

/**
 * Returns a `select` item that formats a `timestamptz` column the way the API prints times. The result column has the
 * same name.
 */
export const makeTimeSql = (column: string) => `${formatTimeSql(column)} as ${column}`

/**
 * Returns an SQL expression that formats a `timestamptz` expression like a timestamp of the change history: with six
 * decimals, at -05:00 (D15, timestamps).
 */
export const makeHistoryTimestampSql = (time: string) =>
  `to_char((${time}) at time zone 'Etc/GMT+5', 'YYYY-MM-DD"T"HH24:MI:SS.US"${printedOffset.text}"')`

/**
 * Returns the last microsecond of a day in New York, as a timestamp of the change history. Returns undefined if the
 * year is outside the range 1 to 9999.
 */
export const getEndOfNewYorkDay = (date: string) =>
  // Noon UTC is in the morning of the same day in New York, whether or not daylight saving time is in effect.
  formatHistoryTimestamp(getNextMidnightIn(newYork, Date.parse(`${date}T12:00:00Z`)) - 1, "999999")

/**
 * Returns a function that converts milliseconds since 1970 to the date (`YYYY-MM-DD`) in the time zone. The function is
 * called for every request, so it remembers when the last date that it returned begins and ends, and computes a date
 * only for a time outside of that range.
 */
const makeDateReader = (zone: DateTime.TimeZone) => {
  let lastDay = { date: "", begins: 0, ends: 0 }
  return (now: number) => {
    if (now < lastDay.begins || now >= lastDay.ends) {
      const zoned = DateTime.setZone(DateTime.makeUnsafe(now), zone)
      const begins = DateTime.toEpochMillis(DateTime.startOf(zoned, "day"))
      lastDay = { date: DateTime.formatIsoDate(zoned), begins, ends: getNextMidnightIn(zone, now) }
    }
    return lastDay.date
  }
}

/** Returns the date in New York, `YYYY-MM-DD`. Filters treat any later date as a future date (D7, dates). */
export const getDateInNewYork = makeDateReader(newYork)

/**
 * Returns the date in Chicago, `YYYY-MM-DD`. A ticker change takes effect when this date reaches the change's
 * `effective_date` (§2.2, D19).
 */
export const getDateInChicago = makeDateReader(chicago)

/** The current date in New York. */
export const todayInNewYork = Effect.map(Clock.currentTimeMillis, getDateInNewYork)

/**
 * Tomorrow's date in New York. `load` accepts dates of past events up to this day: the extra day allows for a slow
 * clock on this machine.
 */
export const tomorrowInNewYork = Effect.map(
  todayInNewYork,
  (today) => new Date(Date.parse(today) + 86_400_000).toISOString().slice(0, 10),
)

/** The current date in Chicago. */
export const todayInChicago = Effect.map(Clock.currentTimeMillis, getDateInChicago)

/**
 * Returns the next midnight after `now` in New York or Chicago, whichever comes first. Both `now` and the result are
 * milliseconds since 1970.
 */
export const getNextMidnight = (now: number) =>
  Math.min(getNextMidnightIn(newYork, now), getNextMidnightIn(chicago, now))

/**
 * Returns the number of days between two dates (`YYYY-MM-DD`). The result is negative if `until` is earlier than
 * `from`.
 */
export const countDays = (from: string, until: string) => (Date.parse(until) - Date.parse(from)) / 86_400_000

/**
 * Returns whether a date or UTC time exists. JavaScript parses February 30 as March 2, so the parsed date must be
 * compared with the text.
 */
export const isInCalendar = (text: string) =>
  !text.startsWith("0000") &&
  Option.exists(DateTime.make(text), (date) => DateTime.formatIsoDate(date) === text.slice(0, 10))

/** A date, `YYYY-MM-DD`, that exists in the calendar. */
export const CalendarDate = Schema.String.check(
  Schema.makeFilter((text: string) => /^\d{4}-\d{2}-\d{2}$/.test(text) && isInCalendar(text), {
    message: "must be a date that exists in the calendar, written YYYY-MM-DD",
  }),
).annotate({ format: "date" })

/** The error message for an invalid month. The parameter name is put in front of it. */
export const calendarMonthMessage = "must be a month, such as 2026-11"

/** A month, `YYYY-MM`. */
export const CalendarMonth = Schema.String.check(
  Schema.isPattern(/^(?!0000)\d{4}-(?:0[1-9]|1[0-2])$/, { message: calendarMonthMessage }),
)

/**
 * The time at which a query is evaluated, in milliseconds since 1970. This is the time of the request or, if `as_of` is
 * present, the time it specifies. Later dates count as future dates.
 */
export class QueryNow extends Context.Service<QueryNow, number>()("tickerline/contract/QueryNow") {}

/** A date no later than today in New York, for filters on past events. */
export const NonFutureDate = CalendarDate.pipe(
  Schema.decode({
    decode: SchemaGetter.checkEffect((text: string) =>
      Effect.map(QueryNow, (now) => {
        const today = getDateInNewYork(now)
        return text <= today ? undefined : new SchemaIssue.InvalidValue({
          message: `must be in the past: ${text} is after today, ${today}, in New York`,
        })
      })
    ),
    encode: SchemaGetter.passthrough(),
  }),
)

/**
 * Like `NonFutureDate`, but compares the date with the system clock. It is for commands of the command line, which run
 * outside of a request and therefore have no `QueryNow`.
 */
export const PastDate = NonFutureDate.pipe(
  Schema.middlewareDecoding((decoding) => Effect.provideServiceEffect(decoding, QueryNow, Clock.currentTimeMillis)),
)
