/**
 * Deprecation and removal of an endpoint (§3, §9.4; D24, lifecycle) or of API version 1 (D26, version retirement). An
 * endpoint declares its deprecation once; headers, `/endpoints`, OpenAPI and the documentation all use this
 * declaration.
 */
import { Context, DateTime, Duration, Option, Schema } from "effect"
import { OpenApi } from "effect/http-api"
import { CalendarDate, getDateInNewYork } from "./Dates.ts"
import { EndpointRemoved } from "./Errors.ts"
import type { ResponseLink } from "./Links.ts"

/** The deprecation of an endpoint or of the API's version. */
export interface Deprecation {
  /** Date of the announcement, `YYYY-MM-DD`. */
  readonly announced: string
  /** Last date on which the endpoint works; absent while no removal is planned. */
  readonly sunset?: string
  /** Path of the successor. */
  readonly successor: string
  /** A sentence that says what changes for clients. */
  readonly note: string
}

/** Path of the documentation's home page. */
export const documentationPath = "/v1/docs"

/** The annotation of a deprecated endpoint. An endpoint without it is active. */
export class DeprecationAnnotation
  extends Context.Service<DeprecationAnnotation, Deprecation>()("tickerline/contract/DeprecationAnnotation") {}

/** The deprecation of API version 1; `None` while the version is current (D26). */
export const ApiVersionDeprecation = Context.Reference<Option.Option<Deprecation>>(
  "tickerline/contract/ApiVersionDeprecation",
  { defaultValue: Option.none },
)

const parseMidnight = (date: string) => DateTime.makeUnsafe(`${date}T00:00:00Z`)

/**
 * Returns the deprecation unchanged. Throws if a date is invalid, or if the sunset is less than a year after the
 * announcement (§3). Endpoints call this while their module loads, so an invalid deprecation stops both the tests and
 * the service.
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
 * Declares the deprecation of an endpoint: `endpoint.annotateMerge(makeDeprecationAnnotations({ announced:
 * "2026-11-01", … }))`
 */
export const makeDeprecationAnnotations = (deprecation: Deprecation) =>
  Context.make(DeprecationAnnotation, validateDeprecation(deprecation)).pipe(Context.merge(OpenApi.annotations({
    deprecated: true,
    transform: (operation) =>
      deprecation.sunset === undefined ? operation : { ...operation, "x-sunset": deprecation.sunset },
  })))

/** Returns the deprecation that an endpoint declares, if any. */
export const getEndpointDeprecation = (annotations: Context.Context<never>): Option.Option<Deprecation> =>
  Option.fromUndefinedOr(Context.getOrUndefined(annotations, DeprecationAnnotation))

/** Returns the headers `deprecation` and `sunset`. */
export const makeDeprecationHeaders = ({ announced, sunset }: Deprecation): Readonly<Record<string, string>> => ({
  deprecation: `@${Duration.toSeconds(Duration.millis(DateTime.toEpochMillis(parseMidnight(announced))))}`,
  ...(sunset === undefined ? {} : { sunset: DateTime.toDateUtc(parseMidnight(sunset)).toUTCString() }),
})

/** Returns the links of a deprecation for the header `Link`: the successor, and the documentation. */
export const makeDeprecationLinks = ({ successor }: Deprecation): ReadonlyArray<ResponseLink> => [
  { path: successor, attributes: `rel="successor-version"` },
  { path: documentationPath, attributes: `rel="deprecation"; type="text/html"` },
]

/**
 * Returns the error 410 if the sunset date has passed, otherwise undefined. Its message begins with `subject`, such as
 * a path.
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
