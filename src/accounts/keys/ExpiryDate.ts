/** Validates expiry dates of API keys and admin tokens. */
import { Effect, Schema, SchemaGetter, SchemaIssue } from "effect"
import { CalendarDate, todayInNewYork } from "../../contract/rules/Dates.ts"

/** The last day on which a key works. It must be today (in New York) or later. Decoding rejects earlier days. */
export const ExpiryDate = CalendarDate.pipe(Schema.decode({
  decode: SchemaGetter.checkEffect((date: string) =>
    Effect.map(
      todayInNewYork,
      (today) =>
        date >= today ? undefined : new SchemaIssue.InvalidValue({
          message: `must be today or later: ${date} is in the past; today is ${today} in New York`,
        }),
    )
  ),
  encode: SchemaGetter.passthrough(),
}))
