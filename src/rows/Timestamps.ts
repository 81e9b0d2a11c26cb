/**
 * §2.1, D15: every datetime prints with the fixed offset -05:00, all year.
 *
 * How a column was stored decides what its digits mean. There are three ways, and a row names the one it has:
 * the conversion stands here and nowhere else.
 */
import { DateTime, Option, Schema, SchemaTransformation } from "effect"
import { Model } from "effect/schema"
import { makeSchemaValueEncoder, type ValueEncoder } from "./RowEncoder.ts"

const eastern = DateTime.zoneMakeOffset(-5 * 60 * 60 * 1000)
const newYork = DateTime.zoneMakeNamedUnsafe("America/New_York")

const print = (instant: DateTime.Utc) =>
  DateTime.formatIsoOffset(DateTime.setZone(instant, eastern)).replace(".000-05:00", "-05:00")

const printed = (description: string) =>
  Schema.String.annotate({ format: "date-time", description, examples: ["2026-06-01T08:30:00-05:00"] }).pipe(
    Schema.decodeTo(
      Schema.DateTimeUtc,
      SchemaTransformation.transform({ decode: (text) => DateTime.toUtc(DateTime.makeUnsafe(text)), encode: print }),
    ),
  )

const reading = (timeZone: DateTime.TimeZone) => ({
  // A time that occurred twice is the second one, a time that never occurred has the standard offset (D15).
  decode: (digits: Date) =>
    DateTime.toUtc(
      DateTime.makeZonedUnsafe(digits, { timeZone, adjustForTimeZone: true, disambiguation: "later" }),
    ),
  encode: (instant: DateTime.Utc) => new Date(DateTime.toEpochMillis(instant)),
})

/** The driver hands a `timestamp` over as a `Date` whose UTC fields are the digits on the wall clock. */
const wallClockIn = (timeZone: DateTime.TimeZone) =>
  Schema.Date.pipe(Schema.decodeTo(Schema.DateTimeUtc, SchemaTransformation.transform(reading(timeZone))))

const digits = /^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}(\.\d{1,3})?$/
const zone = /(Z|[+-](?:0\d|1[0-5]):[0-5]\d)$/

const real = (text: string) => {
  const read = DateTime.make(`${text.replace(" ", "T")}Z`)
  // JavaScript moves 30 February to 2 March; such a text comes back with another day.
  return Option.exists(read, (date) => DateTime.formatIso(date).startsWith(text.slice(0, 10))) &&
    !text.startsWith("0000")
}

const hour = 60 * 60 * 1000
const fiveHours = 5 * hour
const day = 24 * hour

const [usualSince, usualUntil] = [Date.UTC(1900, 0, 1), Date.UTC(9999, 0, 1)]

/** Where a year has other than four digits, or the clock kept local mean time, the short way is none. */
const isUsual = (time: number) => time >= usualSince && time < usualUntil

const mostDays = 50_000

/** What holds for a whole day, since 1970, is found once. */
const ofDays = <A extends string | number | null>(find: (day: number) => A) => {
  const known = new Map<number, A>()
  return (day: number): A => {
    const found = known.get(day)
    if (found !== undefined) return found
    if (known.size >= mostDays) known.clear()
    const value = find(day)
    known.set(day, value)
    return value
  }
}

/** With what its moments begin. */
const dateOf = ofDays((number) => new Date(number * day).toISOString().slice(0, 11))

const twoDigits = Array.from({ length: 60 }, (_, number) => String(number).padStart(2, "0"))

/** The digits of a moment, with the suffix. */
const digitsOf = (time: number) => {
  const number = Math.floor(time / day)
  const rest = time - number * day
  const seconds = Math.floor(rest / 1000)
  const minutes = Math.floor(seconds / 60)
  const clock = `${twoDigits[Math.floor(minutes / 60)]}:${twoDigits[minutes % 60]}:${twoDigits[seconds % 60]}`
  const fraction = rest % 1000 === 0 ? "" : `.${String(rest % 1000).padStart(3, "0")}`
  return `"${dateOf(number)}${clock}${fraction}-05:00"`
}

/** Prints what the Schemas of a kind print; `moved` tells how far the digits of the clock are from those printed. */
const printTime = (select: Schema.Codec<unknown, unknown>, moved: (time: number) => number): ValueEncoder => {
  const byTheBook = makeSchemaValueEncoder(select, printed(""))
  return (value) => {
    if (!(value instanceof Date)) return undefined
    const time = value.getTime()
    return isUsual(time) ? digitsOf(time + moved(time)) : byTheBook(value)
  }
}

const shortly = <Select extends Schema.Codec<DateTime.Utc, Date>>(select: Select, moved: (time: number) => number) =>
  select.annotate({ print: printTime(select, moved) })

/** The clock changes twice a year; on all other days what holds for its first moment holds for the last. */
const movedInNewYork = () => {
  const { decode } = reading(newYork)
  const look = (time: number) => DateTime.toEpochMillis(decode(new Date(time))) - fiveHours - time
  const ofDay = ofDays((number) => {
    const moved = look(number * day)
    return moved === look((number + 1) * day - 1) ? moved : null
  })
  return (time: number) => ofDay(Math.floor(time / day)) ?? look(time)
}

/** D34: the first and the last moment that print with a year from 1 to 9999, in UTC. The tables have the same rules. */
const [earliest, latest] = [Date.parse("0001-01-02T00:00:00Z"), Date.parse("9999-12-31T23:59:59.999-05:00")]

/** Of what is no time at all, another check says so. */
const isPrintable = (text: string) => {
  const clock = text.replace(zone, "")
  if (!digits.test(clock) || !real(clock)) return true
  const time = Date.parse(`${clock.replace(" ", "T")}${zone.exec(text)?.[0] ?? "-05:00"}`)
  return time >= earliest && time <= latest
}

const years = Schema.makeFilter(isPrintable, { message: "must print with a year from 1 to 9999" })

/** As a file of rows writes it (D31): `2026-06-01 09:30:00`, without a zone. */
const WrittenWallClock = Schema.String.check(
  Schema.makeFilter((text: string) => digits.test(text) && real(text), {
    message: "must be a wall-clock time without a zone, like 2026-06-01 09:30:00",
  }),
  years,
)

/** As a file of rows writes it (D31): with `Z` or an offset. */
const WrittenInstant = Schema.String.check(
  Schema.makeFilter(
    (text: string) => zone.test(text) && digits.test(text.replace(zone, "")) && real(text.replace(zone, "")),
    {
      message: "must be an instant with its zone, like 2026-06-01T13:30:00Z",
    },
  ),
  years,
)

/** `dtV`, column `timestamp`: Eastern wall clock, printed verbatim with the suffix. */
export const EasternWallClock = Model.Field({
  select: shortly(wallClockIn(eastern), () => 0),
  insert: WrittenWallClock.annotate({ title: "time on the Eastern clock", examples: ["2026-06-01 20:05:00"] }),
  json: printed("Eastern wall clock, printed as stored, with the fixed offset -05:00."),
})

/** `dtU`, column `timestamptz`: an instant, printed on the clock of -05:00. */
export const UtcInstant = Model.Field({
  select: shortly(Schema.DateTimeUtcFromDate, () => -fiveHours),
  insert: WrittenInstant.annotate({ title: "instant with its zone", examples: ["2026-06-01T13:30:00Z"] }),
  json: printed("An instant, printed with the fixed offset -05:00."),
})

/** `dtN`, column `timestamp`: New York wall clock; daylight-time values print one hour earlier. */
export const NewYorkWallClock = Model.Field({
  select: shortly(wallClockIn(newYork), movedInNewYork()),
  insert: WrittenWallClock.annotate({ title: "time on New York's clock", examples: ["2026-06-01 09:30:00"] }),
  json: printed("A time on New York's clock, printed with the fixed offset -05:00: 09:30 in daylight time is 08:30."),
})
