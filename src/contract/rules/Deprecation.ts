/**
 * Deprecation and removal of endpoints (§3, §9.4; D24, lifecycle) and of API version 1 (D26, version retirement). An
 * endpoint declares its deprecation once. Response headers, `/endpoints`, OpenAPI and the documentation are all derived
 * from this declaration.
 */
import { Context, DateTime, Duration, Option, Schema } from "effect"
import { OpenApi } from "effect/http-api"
import { CalendarDate, getDateInNewYork } from "./Dates.ts"
import { EndpointRemoved } from "./ApiErrors.ts"
import type { ResponseLink } from "./LinkHeader.ts"

/** The deprecation of an endpoint or of the API version. */
export interface Deprecation {
  /** The announcement date, `YYYY-MM-DD`. */
  readonly announced: string
  /** The last date on which the endpoint works. Absent if no removal is planned. */
  readonly sunset?: string
  /** The path of the replacement endpoint. */
  readonly successor: string
  /** One sentence that explains what changes for clients. */
  readonly note: string
}

/** The path of the documentation's home page. */
export const documentationPath = "/v1/docs"

/** The annotation that marks an endpoint as deprecated. */
export class DeprecationAnnotation
  extends Context.Service<DeprecationAnnotation, Deprecation>()("tickerline/contract/DeprecationAnnotation") {}

/** The deprecation of API version 1; `None` while the version is current (D26). */
export const ApiVersionDeprecation = Context.Reference<Option.Option<Deprecation>>(
  "tickerline/contract/ApiVersionDeprecation",
  { defaultValue: Option.none },
)

const parseMidnight = (date: string) => DateTime.makeUnsafe(`${date}T00:00:00Z`)

/**
 * Returns the deprecation unchanged. Throws if a date is invalid or if the sunset is less than a year after the
 * announcement (§3). This function is called when an endpoint's module is loaded, so an invalid deprecation makes both
 * the tests and the service fail at startup.
 */
export const validateDeprecation = (deprecation: Deprecation): Deprecation => {
  for (const date of [deprecation.announced, deprecation.sunset]) {
    if (date !== undefined && !Schema.is(CalendarDate)(date)) {
      throw new Error(`Lifecycle: ${date} is not a date, YYYY-MM-DD`)
    }
  }
  if (deprecation.sunset !== undefined) {
    const earliest = DateTime.formatIsoDate(DateTime.add(parseMidnight(deprecation.announced), { years: 1 }))
    if (deprecation.sunset < earliest) {
      throw new Error(
        `Lifecycle: a sunset on ${deprecation.sunset} is less than twelve months after ${deprecation.announced} ` +
          `(§3); the earliest is ${earliest}`,
      )
    }
  }
  return deprecation
}

/**
 * Returns the annotations for a deprecated endpoint: the deprecation itself, and the flag and description for OpenAPI.
 * Usage: `endpoint.annotateMerge(makeDeprecationAnnotations({ announced: "2026-11-01", … }))`.
 */
export const makeDeprecationAnnotations = (deprecation: Deprecation) =>
  Context.make(DeprecationAnnotation, validateDeprecation(deprecation)).pipe(Context.merge(OpenApi.annotations({
    deprecated: true,
    transform: (operation) =>
      deprecation.sunset === undefined ? operation : { ...operation, "x-sunset": deprecation.sunset },
  })))

/** Returns the endpoint's deprecation, if it declares one. */
export const getEndpointDeprecation = (annotations: Context.Context<never>): Option.Option<Deprecation> =>
  Option.fromUndefinedOr(Context.getOrUndefined(annotations, DeprecationAnnotation))

/**
 * Builds the response headers `deprecation` and `sunset`, which state the two dates as RFC 9745 and RFC 8594 require.
 */
export const makeDeprecationHeaders = ({ announced, sunset }: Deprecation): Readonly<Record<string, string>> => ({
  deprecation: `@${Duration.toSeconds(Duration.millis(DateTime.toEpochMillis(parseMidnight(announced))))}`,
  ...(sunset === undefined ? {} : { sunset: DateTime.toDateUtc(parseMidnight(sunset)).toUTCString() }),
})

/** Returns the links to put in the `Link` header of a deprecated endpoint: the replacement and the documentation. */
export const makeDeprecationLinks = ({ successor }: Deprecation): ReadonlyArray<ResponseLink> => [
  { path: successor, attributes: `rel="successor-version"` },
  { path: documentationPath, attributes: `rel="deprecation"; type="text/html"` },
]

/**
 * Returns a 410 error if the sunset date has passed, or else undefined. The error message begins with `subject`, such
 * as a path.
 */
export const findSunsetError = (
  { note, successor, sunset }: Deprecation,
  subject: string,
  now: number,
): EndpointRemoved | undefined => {
  if (sunset === undefined || getDateInNewYork(now) <= sunset) return undefined
  const message = `${subject} was removed after ${sunset}. Use ${successor} instead. ${note}`
  return new EndpointRemoved({ error: { message, details: { successor, documentation: documentationPath, sunset } } })
}
