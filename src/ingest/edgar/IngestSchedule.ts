/** The daily time of the scheduled ingest: `daily 22:15 America/New_York`. */
import { Config, Cron, DateTime, Effect, Option, Schema, SchemaGetter, SchemaIssue } from "effect"

const pattern = /^daily ([01]\d|2[0-3]):([0-5]\d) (\S+)$/

/** A time that a clock change skips runs an hour later; a time that it repeats runs once. */
const parseSchedule = (text: string): Option.Option<Cron.Cron> => {
  const [, hour = "", minute = "", zone = ""] = pattern.exec(text) ?? []
  return Option.map(
    DateTime.zoneMakeNamed(zone),
    (tz) => Cron.make({ minutes: [Number(minute)], hours: [Number(hour)], days: [], months: [], weekdays: [], tz }),
  )
}

const rule = "must be daily, a time and a time zone"

const IngestSchedule = Schema.String.pipe(
  Schema.decodeTo(Schema.declare(Cron.isCron), {
    decode: SchemaGetter.transformEffect((text: string) =>
      Effect.mapError(
        Effect.fromOption(parseSchedule(text)),
        () => new SchemaIssue.InvalidValue({ message: rule }),
      )
    ),
    encode: SchemaGetter.forbidden(() => "a schedule is only read"),
  }),
)

/** When a process runs the ingest; `None` if it does not. */
export const IngestScheduleConfig = Config.option(Config.schema(IngestSchedule, "INGEST_EDGAR"))
