/** Calendar dates in parameters, and the current date in New York and Chicago (D7, dates). */
import { Clock, Context, DateTime, Effect, Option, Schema, SchemaGetter, SchemaIssue } from "effect"

const newYork = DateTime.zoneMakeNamedUnsafe("America/New_York")
const chicago = DateTime.zoneMakeNamedUnsafe("America/Chicago")

const getNextMidnightIn = (zone: DateTime.TimeZone, now: number) =>
  DateTime.toEpochMillis(
    DateTime.add(DateTime.startOf(DateTime.setZone(DateTime.makeUnsafe(now), zone), "day"), { days: 1 }),
  )

/** The offset with which the API prints every time: Eastern Standard Time, even in summer (§2.1, timestamps). */
export const printedOffset = { text: "-05:00", millis: -5 * 60 * 60 * 1000 } as const

/**
 * Formats a moment of the history, such as `2026-06-01T08:30:00.000000-05:00` (D15, timestamps). `decimals` are the six
 * digits after the second. Returns undefined if the year at -05:00 is not from 1 to 9999. Moments sort chronologically
 * as text.
 */
export const formatMoment = (millis: number, decimals: string): string | undefined => {
  const text = new Date(millis + printedOffset.millis).toISOString()
  // `toISOString` writes a year below 0 or above 9999 with a sign and six digits, which makes the text longer.
  return text.length === 24 && !text.startsWith("0000")
    ? `${text.slice(0, 19)}.${decimals}${printedOffset.text}`
    : undefined
}

/**
 * Formats an instant as the API prints it (§2.1, D15). Returns undefined if its year at -05:00 is not from 1 to 9999.
 */
export const formatTime = (millis: number): string | undefined => {
  // The remainder of a time before 1970 is negative in JavaScript.
  const decimals = String(((millis % 1000) + 1000) % 1000).padStart(3, "0")
  return formatMoment(millis, decimals)?.replace(`.000${printedOffset.text}`, printedOffset.text)
}

/**
 * A time as the API prints it: without decimals if they are all zeros, otherwise with three, or six for a moment (§2.1,
 * D15).
 */
export const PrintedTime = Schema.String.annotate({ format: "date-time" }).check(
  Schema.isPattern(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{3}|\.\d{6})?-05:00$/),
)

/** Returns SQL that formats a `timestamptz` expression as the API prints times (§2.1, D15: timestamps). */
export const formatTimeSql = (time: string) =>
  `replace(to_char((${time}) at time zone 'Etc/GMT+5', 'YYYY-MM-DD"T"HH24:MI:SS.MS"${printedOffset.text}"'), ` +
  `'.000${printedOffset.text}', '${printedOffset.text}')`

/**
 * Returns the item of a `select` that formats a `timestamptz` column as the API prints times, under the column's name.
 */
export const makeTimeSql = (column: string) => `${formatTimeSql(column)} as ${column}`

/** Returns SQL that formats a `timestamptz` expression as a moment of the history (D15, timestamps). */
export const makeMomentSql = (time: string) =>
  `to_char((${time}) at time zone 'Etc/GMT+5', 'YYYY-MM-DD"T"HH24:MI:SS.US"${printedOffset.text}"')`

/** Returns the last microsecond of a day in New York as a moment; undefined if its year is not from 1 to 9999. */
export const getEndOfNewYorkDay = (date: string) =>
  formatMoment(getNextMidnightIn(newYork, Date.parse(`${date}T12:00:00Z`)) - 1, "999999")

/**
 * Returns a function that converts epoch milliseconds to the date in the time zone. It is called for every request, so
 * it remembers when the current day begins and ends.
 */
const makeDateReader = (zone: DateTime.TimeZone) => {
  let date = { name: "", begins: 0, ends: 0 }
  return (now: number) => {
    if (now < date.begins || now >= date.ends) {
      const zoned = DateTime.setZone(DateTime.makeUnsafe(now), zone)
      const begins = DateTime.toEpochMillis(DateTime.startOf(zoned, "day"))
      date = { name: DateTime.formatIsoDate(zoned), begins, ends: getNextMidnightIn(zone, now) }
    }
    return date.name
  }
}

/** Returns the date in New York, `YYYY-MM-DD`. For filters, any later date is in the future (D7, dates). */
export const getDateInNewYork = makeDateReader(newYork)

/**
 * Returns the date in Chicago, `YYYY-MM-DD`. A ticker change takes effect when this date reaches its `effective_date`
 * (§2.2, D19).
 */
export const getDateInChicago = makeDateReader(chicago)

/** The current date in New York. */
export const todayInNewYork = Effect.map(Clock.currentTimeMillis, getDateInNewYork)

/**
 * The day after today in New York. A past event cannot be dated later: one day is the tolerance in case this machine's
 * clock is slow.
 */
export const tomorrowInNewYork = Effect.map(
  todayInNewYork,
  (today) => new Date(Date.parse(today) + 86_400_000).toISOString().slice(0, 10),
)

/** The current date in Chicago. */
export const todayInChicago = Effect.map(Clock.currentTimeMillis, getDateInChicago)

/** Returns the first midnight after `now` in New York or Chicago. `now` and the result are milliseconds since 1970. */
export const getNextMidnight = (now: number) =>
  Math.min(getNextMidnightIn(newYork, now), getNextMidnightIn(chicago, now))

/** Returns the number of days from one date (`YYYY-MM-DD`) to another. Negative if `until` is earlier. */
export const countDays = (from: string, until: string) => (Date.parse(until) - Date.parse(from)) / 86_400_000

/**
 * Whether a date or UTC time exists. JavaScript parses 30 February as 2 March, so the parsed date is compared with the
 * text.
 */
export const isInCalendar = (text: string) =>
  !text.startsWith("0000") &&
  Option.exists(DateTime.make(text), (date) => DateTime.formatIsoDate(date) === text.slice(0, 10))

/** A date that exists in the calendar, `YYYY-MM-DD`. */
export const CalendarDate = Schema.String.check(
  Schema.makeFilter((text: string) => /^\d{4}-\d{2}-\d{2}$/.test(text) && isInCalendar(text), {
    message: "must be a date that exists in the calendar, written YYYY-MM-DD",
  }),
).annotate({ format: "date" })

/** The end of the error message for an invalid month. The parameter's name precedes it. */
export const calendarMonthMessage = "must be a month, such as 2026-11"

/** A month, `YYYY-MM`. */
export const CalendarMonth = Schema.String.check(
  Schema.isPattern(/^(?!0000)\d{4}-(?:0[1-9]|1[0-2])$/, { message: calendarMonthMessage }),
)

/**
 * The time that a query is decoded for, in milliseconds since 1970: the time of the request or, with `as_of`, that
 * moment. Dates after it are in the future.
 */
export class QueryNow extends Context.Service<QueryNow, number>()("tickerline/contract/QueryNow") {}

/** A date that is not later than today in New York, for filters on past events. */
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

/** Like `NonFutureDate`, but compares with the clock, because a command has no request. */
export const PastDate = NonFutureDate.pipe(
  Schema.middlewareDecoding((decoding) => Effect.provideServiceEffect(decoding, QueryNow, Clock.currentTimeMillis)),
)
