/** D7: days as clients write them, and what day it is. */
import { Clock, DateTime, Effect, Schema, SchemaGetter, SchemaIssue } from "effect"

const newYork = DateTime.zoneMakeNamedUnsafe("America/New_York")
const chicago = DateTime.zoneMakeNamedUnsafe("America/Chicago")

const tomorrow = (zone: DateTime.TimeZone, now: number) =>
  DateTime.toEpochMillis(
    DateTime.add(DateTime.startOf(DateTime.setZone(DateTime.makeUnsafe(now), zone), "day"), { days: 1 }),
  )

/** What day it is; the calendar is asked once for each. */
const today = (zone: DateTime.TimeZone) => {
  let day = { name: "", begins: 0, ends: 0 }
  return Effect.map(Clock.currentTimeMillis, (now) => {
    if (now < day.begins || now >= day.ends) {
      const here = DateTime.setZone(DateTime.makeUnsafe(now), zone)
      const begins = DateTime.toEpochMillis(DateTime.startOf(here, "day"))
      day = { name: DateTime.formatIsoDate(here), begins, ends: tomorrow(zone, now) }
    }
    return day.name
  })
}

/** The date on the calendar of New York: what "future" is measured against (D7). */
export const todayInNewYork = today(newYork)

/** The date on the calendar of Chicago: a ticker change takes effect when it has come (§2.2, D19). */
export const todayInChicago = today(chicago)

/** When the day is over in New York or in Chicago, whichever comes first, in milliseconds since 1970. */
export const getNextDateChange = (now: number) => Math.min(tomorrow(newYork, now), tomorrow(chicago, now))

const exists = (text: string) => {
  const [year, month, day] = text.split("-").map(Number)
  if (year === undefined || month === undefined || day === undefined || year === 0) return false
  const date = DateTime.make({ year, month, day })
  return date._tag === "Some" && DateTime.formatIsoDate(date.value) === text
}

/** A date that exists in the calendar, `YYYY-MM-DD`. */
export const CalendarDate = Schema.String.check(
  Schema.makeFilter((text: string) => /^\d{4}-\d{2}-\d{2}$/.test(text) && exists(text), {
    message: "must be a date that exists in the calendar, written YYYY-MM-DD",
  }),
).annotate({ format: "date" })

/** A filter on a date that lies in the past by nature: today in New York at the latest. */
export const NonFutureDate = CalendarDate.pipe(
  Schema.decode({
    decode: SchemaGetter.checkEffect((text: string) =>
      Effect.map(
        todayInNewYork,
        (limit) =>
          text <= limit ? undefined : new SchemaIssue.InvalidValue({
            message: `must be in the past: ${text} is after today, ${limit}, in New York`,
          }),
      )
    ),
    encode: SchemaGetter.passthrough(),
  }),
)
