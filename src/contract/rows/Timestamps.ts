/**
 * The three column types for times (§2.1; D15, time zones). Responses print all of them with the offset -05:00 all year
 * round. They differ in what is stored: a wall-clock time at -05:00, an instant, or New York wall-clock time.
 */
import { DateTime, Option, Schema, SchemaGetter, SchemaTransformation } from "effect"
import { Model } from "effect/schema"
import { isInCalendar, printedOffset } from "../rules/Dates.ts"

const eastern = DateTime.zoneMakeOffset(printedOffset.millis)
const newYork = DateTime.zoneMakeNamedUnsafe("America/New_York")

const formatInstant = (instant: DateTime.Utc) =>
  DateTime.formatIsoOffset(DateTime.setZone(instant, eastern)).replace(`.000${printedOffset.text}`, printedOffset.text)

const makeJsonSchema = (description: string) =>
  Schema.String.annotate({ format: "date-time", description, examples: ["2026-06-01T08:30:00-05:00"] }).pipe(
    Schema.decodeTo(Schema.DateTimeUtc, {
      decode: SchemaGetter.dateTimeUtcFromInput<string>(),
      encode: SchemaGetter.transform(formatInstant),
    }),
  )

const makeWallClockConversion = (timeZone: DateTime.TimeZone) => ({
  // When clocks go back, one hour occurs twice. A time within it is taken to be the later one. When clocks go forward,
  // one hour is skipped. A time within it is interpreted as standard time, although clocks show daylight time (D15).
  decode: (digits: Date) =>
    DateTime.toUtc(
      DateTime.makeZonedUnsafe(digits, { timeZone, adjustForTimeZone: true, disambiguation: "later" }),
    ),
  encode: (instant: DateTime.Utc) => new Date(DateTime.toEpochMillis(instant)),
})

/** Converts a New York wall-clock time to an instant. The UTC fields of `digits` contain the wall-clock time. */
export const decodeNewYorkTime = makeWallClockConversion(newYork).decode

/**
 * Returns a schema that decodes a PostgreSQL `timestamp`. The driver returns it as a `Date` whose UTC fields contain
 * the wall-clock time.
 */
const makeWallClockSchema = (timeZone: DateTime.TimeZone) =>
  Schema.Date.pipe(
    Schema.decodeTo(Schema.DateTimeUtc, SchemaTransformation.transform(makeWallClockConversion(timeZone))),
  )

/**
 * Returns two functions that convert between instants and the wall-clock times in data files, such as `2026-06-01
 * 09:30:00`.
 */
const makeWallClockFormat = (timeZone: DateTime.TimeZone) => ({
  /** Parses a time that has already been validated. */
  parse: (text: string): DateTime.Utc =>
    makeWallClockConversion(timeZone).decode(new Date(`${text.replace(" ", "T")}Z`)),
  /** Formats an instant, dropping milliseconds. */
  format: (instant: DateTime.Utc) =>
    DateTime.formatIsoOffset(DateTime.setZone(instant, timeZone)).slice(0, 19).replace("T", " "),
})

/** Parses and formats `FixedOffsetTimeColumn` values in data files: wall-clock times at -05:00. */
export const fixedOffsetTimeFormat = makeWallClockFormat(eastern)

/** Parses and formats `NewYorkTimeColumn` values in data files: wall-clock times in New York. */
export const newYorkTimeFormat = makeWallClockFormat(newYork)

/**
 * A time with millisecond precision at most. Six decimals are allowed if the last three are zeros, because exported
 * files contain them: `recorded_at` is printed with six decimals (D15).
 */
const wallClockPattern = /^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}(\.\d{1,3}0{0,3})?$/

/**
 * Matches the zone at the end of a time in a data file: `Z` or an offset from UTC. PostgreSQL and DuckDB write whole
 * hours without minutes (`+00`), and some programs leave out the colon (`-0400`).
 */
export const zonePattern = /(?:Z|[+-](?:0\d|1[0-5])(?::?[0-5]\d)?)$/

/** Adds the minutes to an offset of whole hours, because `Date.parse` does not accept `+00`. */
export const completeOffset = (zone: string) => /^[+-]\d\d$/.test(zone) ? `${zone}:00` : zone

const isTime = (text: string) => wallClockPattern.test(text) && isInCalendar(`${text.replace(" ", "T")}Z`)

/**
 * Returns a check for a time in a data file. The check rejects microseconds, which some programs write, because the
 * tables would round them.
 */
const checkTime = (isValid: (text: string) => boolean, rule: string) =>
  Schema.makeFilter((text: string) => {
    if (isValid(text)) return undefined
    const tooManyDecimals = /\.\d{4,}/
    const isTooExact = tooManyDecimals.test(text) && isTime(text.replace(tooManyDecimals, "").replace(zonePattern, ""))
    return isTooExact ? "must have at most three decimals of a second" : rule
  })

const WallClockText = Schema.String.check(
  checkTime(isTime, "must be a wall-clock time without a zone, like 2026-06-01 09:30:00"),
)

/**
 * Returns the schema for a time in a data file (D31, files), for a column that stores the wall-clock time in the given
 * time zone. The file contains either that wall-clock time, or the time as the API prints it, at -05:00, so that
 * downloaded files can be loaded. For a New York column, `2026-06-01T08:30:00-05:00` becomes `2026-06-01 09:30:00.000`.
 * Decoding only converts the text; `WallClockText` then checks it.
 */
const makeWallClockText = (timeZone: DateTime.TimeZone) =>
  Schema.String.pipe(Schema.decodeTo(
    WallClockText,
    SchemaTransformation.transform({
      decode: (text) => {
        const withoutOffset = text.slice(0, -printedOffset.text.length)
        const isPrinted = text.endsWith(printedOffset.text) && text.charAt(10) === "T" && isTime(withoutOffset)
        const instant = isPrinted ? DateTime.make(text) : Option.none()
        return Option.match(instant, {
          onNone: () => text,
          // The first 23 characters are the date and the time with milliseconds; the offset follows.
          onSome: (time) => DateTime.formatIsoOffset(DateTime.setZone(time, timeZone)).slice(0, 23).replace("T", " "),
        })
      },
      encode: (text) => text,
    }),
  ))

/** A time with `Z` or an offset in a data file (D31, files). */
const InstantText = Schema.String.check(
  checkTime(
    (text) => zonePattern.test(text) && isTime(text.replace(zonePattern, "")),
    "must be an instant with its zone, like 2026-06-01T13:30:00Z",
  ),
)

/** A `timestamp` column that contains the wall-clock time at -05:00 and is printed as stored (`dtV`, §2.1). */
export const FixedOffsetTimeColumn = Model.Field({
  select: makeWallClockSchema(eastern).annotate({
    columnType: { name: "time", clock: "fixed offset" },
  }),
  insert: makeWallClockText(eastern).annotate({
    title: "time on the Eastern clock",
    examples: ["2026-06-01 20:05:00"],
  }),
  json: makeJsonSchema("Eastern wall clock, printed as stored, with the fixed offset -05:00."),
})

/** A `timestamptz` column that contains an instant and is printed at -05:00 (`dtU`, §2.1). */
export const InstantColumn = Model.Field({
  select: Schema.DateTimeUtcFromDate.annotate({
    columnType: { name: "time", clock: "instant" },
  }),
  insert: InstantText.annotate({ title: "instant with its zone", examples: ["2026-06-01T13:30:00Z"] }),
  json: makeJsonSchema("An instant, printed with the fixed offset -05:00."),
})

/**
 * A `timestamp` column that contains New York wall-clock time and is printed at -05:00. For example, 09:30 in June is
 * printed as 08:30 (`dtN`, §2.1).
 */
export const NewYorkTimeColumn = Model.Field({
  select: makeWallClockSchema(newYork).annotate({
    columnType: { name: "time", clock: "New York" },
  }),
  insert: makeWallClockText(newYork).annotate({ title: "time on New York's clock", examples: ["2026-06-01 09:30:00"] }),
  json: makeJsonSchema(
    "A time on New York's clock, printed with the fixed offset -05:00: 09:30 in daylight time is 08:30.",
  ),
})
