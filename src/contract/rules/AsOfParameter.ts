/** The parameter `as_of`, which requests the response that a client would have received at an earlier time. */
import { Schema, SchemaGetter } from "effect"
import { CalendarDate, formatHistoryTimestamp, getEndOfNewYorkDay } from "./Dates.ts"
import type { FilterDeclaration } from "./FilterDeclarations.ts"

const isDate = Schema.is(CalendarDate)

/** A timestamp with an offset. URL decoding turns `+` into a space, so the offset may begin with a space. */
const timestampPattern =
  /^(\d{4}-\d{2}-\d{2})T([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,6}))?)?(?:Z|([+ -])([01]\d|2[0-3]):([0-5]\d))$/

const millisPerMinute = 60_000

/**
 * Converts a timestamp to the format of the change history, which has the offset -05:00 and six decimals:
 * `2026-06-01T12:30Z` becomes `2026-06-01T07:30:00.000000-05:00`. Returns undefined if the text is invalid or has no
 * offset.
 */
export const normalizeTimestamp = (text: string): string | undefined => {
  const [, date = "", hour, minute, second = "00", fraction = "", sign, offsetHours = 0, offsetMinutes = 0] =
    timestampPattern.exec(text) ?? []
  // If the pattern does not match, the date is empty. If it matches, the date may still be February 30.
  if (!isDate(date)) return undefined
  const offset = (Number(offsetHours) * 60 + Number(offsetMinutes)) * (sign === "-" ? -1 : 1)
  const millis = Date.parse(`${date}T${hour}:${minute}:${second}Z`) - offset * millisPerMinute
  return formatHistoryTimestamp(millis, fraction.padEnd(6, "0"))
}

/** Like `normalizeTimestamp`, but also accepts a date, which stands for the end of that day in New York. */
export const parseAsOfTime = (text: string) => isDate(text) ? getEndOfNewYorkDay(text) : normalizeTimestamp(text)

const reason = "must be now, a date, or a timestamp with an offset and at most six decimals, such as " +
  "2026-03-02T09:30:00-05:00"

/**
 * The parameter `as_of`, to be included in a query schema. A date or timestamp is decoded to a timestamp of the change
 * history, with six decimals (D15, timestamps). `now` is an error here, because the service replaces it first.
 */
export const AsOfParameter = {
  as_of: Schema.optionalKey(
    Schema.String.annotate({
      description:
        "The response that this request would have received at an earlier moment: a date means the end of that day " +
        "in New York, a timestamp such as `2026-03-02T09:30:00-05:00` needs an offset, and `now` is the newest " +
        "moment that can be repeated. The header `X-As-Of` states the moment.",
    }).check(Schema.makeFilter((text: string) => parseAsOfTime(text) !== undefined, { message: reason })).pipe(
      Schema.decodeTo(Schema.String, {
        decode: SchemaGetter.transform((text) => parseAsOfTime(text) ?? text),
        encode: SchemaGetter.passthrough(),
      }),
    ).annotate({ filter: { operator: "statement" } satisfies FilterDeclaration }),
  ),
}

/**
 * The value of `as_of` that stands for the newest time at which a response can be repeated. Before decoding the
 * parameters, the service replaces it with the timestamp of the newest change in the change history.
 */
export const asOfNow = "now"

/**
 * Returns the request target (path and query string) with `as_of=now` replaced by `as_of=<timestamp>`, so that links in
 * the response refer to the same state of the data.
 */
export const replaceAsOfNow = (target: string, timestamp: string) => {
  const [path = "", ...query] = target.split("?")
  const parameters = new URLSearchParams(query.join("?"))
  parameters.set("as_of", timestamp)
  return `${path}?${parameters}`
}

/**
 * Returns the time that `as_of` specifies in the undecoded parameters of a request. Returns undefined if `as_of` is
 * missing or invalid.
 */
export const readAsOfParameter = (parameters: Readonly<Record<string, unknown>>) => {
  const { as_of } = parameters
  return typeof as_of === "string" ? parseAsOfTime(as_of) : undefined
}
