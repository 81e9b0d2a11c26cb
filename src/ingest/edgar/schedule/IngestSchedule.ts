/** The setting for the daily start time of the scheduled ingest, such as `daily 22:15 America/New_York`. */
import { Config, Cron, DateTime, Option, Schema } from "effect"

/** Matches a schedule. The groups are the hour, the minute and the time zone. */
const pattern = /^daily ([01]\d|2[0-3]):([0-5]\d) (\S+)$/

/**
 * Parses the schedule. If daylight saving time skips the scheduled time, the ingest runs an hour later on that day. If
 * the scheduled time occurs twice, the ingest runs only once.
 */
const parseSchedule = (text: string): Option.Option<Cron.Cron> => {
  const [, hour = "", minute = "", zone = ""] = pattern.exec(text) ?? []
  return Option.map(
    DateTime.zoneMakeNamed(zone),
    (tz) => Cron.make({ minutes: [Number(minute)], hours: [Number(hour)], days: [], months: [], weekdays: [], tz }),
  )
}

const rule = "must be daily at a time in a time zone, such as daily 22:15 America/New_York"

const ScheduleText = Schema.String.check(
  Schema.makeFilter((text) => Option.isSome(parseSchedule(text)), { message: rule }),
)

/** `INGEST_EDGAR`: the schedule for running the ingest in this process; `None` if it is not set. */
export const IngestScheduleConfig = Config.schema(ScheduleText, "INGEST_EDGAR").pipe(
  Config.map(parseSchedule),
  Config.withDefault(Option.none()),
)
