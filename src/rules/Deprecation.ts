/**
 * Deprecation and removal of an endpoint (§3, §9.4, D24: lifecycle), or of API version 1 (D26: version retirement). An
 * endpoint declares its deprecation once, for headers, `/endpoints`, OpenAPI and the documentation.
 */
import { Context, DateTime, Duration, Effect, Layer, Option, Schema } from "effect"
import { type HttpApiEndpoint, HttpApiMiddleware, OpenApi } from "effect/http-api"
import { addLinkHeader, RequestContext, type ResponseLink, setResponseHeaders } from "../http/RequestContext.ts"
import { CalendarDate, todayInNewYork } from "./Dates.ts"
import { EndpointRemoved } from "./Errors.ts"

export interface Deprecation {
  /** Date of the announcement, `YYYY-MM-DD`. */
  readonly announced: string
  /** Last date on which the endpoint works; absent while no removal is planned. */
  readonly sunset?: string
  /** Path of the successor. */
  readonly successor: string
  /** What changes for clients, as a sentence. */
  readonly note: string
}

export const documentationPath = "/v1/docs"

/** The annotation of a deprecated endpoint. An endpoint without it is active. */
export class DeprecationAnnotation
  extends Context.Service<DeprecationAnnotation, Deprecation>()("tickerline/rules/DeprecationAnnotation") {}

/** The deprecation of API version 1; `None` while the version is current (D26). */
export const ApiVersionDeprecation = Context.Reference<Option.Option<Deprecation>>(
  "tickerline/rules/ApiVersionDeprecation",
  { defaultValue: Option.none },
)

const parseMidnight = (date: string) => DateTime.makeUnsafe(`${date}T00:00:00Z`)

/**
 * Returns the deprecation unchanged. Throws if a date is invalid or the sunset is less than a year after the
 * announcement (§3). Endpoints call it while modules load, so an invalid deprecation stops the tests and the service.
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

/** Usage: `endpoint.annotateMerge(makeDeprecationAnnotations({ announced: "2026-11-01", … }))` */
export const makeDeprecationAnnotations = (deprecation: Deprecation) =>
  Context.make(DeprecationAnnotation, validateDeprecation(deprecation)).pipe(Context.merge(OpenApi.annotations({
    deprecated: true,
    transform: (operation) =>
      deprecation.sunset === undefined ? operation : { ...operation, "x-sunset": deprecation.sunset },
  })))

export const getEndpointDeprecation = (annotations: Context.Context<never>): Option.Option<Deprecation> =>
  Option.fromUndefinedOr(Context.getOrUndefined(annotations, DeprecationAnnotation))

/** Returns the headers `Deprecation` and `Sunset`. */
export const makeDeprecationHeaders = ({ announced, sunset }: Deprecation): Readonly<Record<string, string>> => ({
  Deprecation: `@${Duration.toSeconds(Duration.millis(DateTime.toEpochMillis(parseMidnight(announced))))}`,
  ...(sunset === undefined ? {} : { Sunset: DateTime.toDateUtc(parseMidnight(sunset)).toUTCString() }),
})

/** Returns the links of the header `Link`. */
export const makeDeprecationLinks = ({ successor }: Deprecation): ReadonlyArray<ResponseLink> => [
  { path: successor, attributes: `rel="successor-version"` },
  { path: documentationPath, attributes: `rel="deprecation"; type="text/html"` },
]

/** Adds `Deprecation`, `Sunset` and `Link`, which every response of a deprecated endpoint has (§9.4). */
export const addDeprecationHeaders = Effect.fnUntraced(function* (deprecation: Deprecation) {
  yield* setResponseHeaders(makeDeprecationHeaders(deprecation))
  yield* Effect.forEach(makeDeprecationLinks(deprecation), addLinkHeader, { discard: true })
})

/** Fails with 410 if the sunset date has passed. The error message begins with `subject`, such as a path. */
export const failAfterSunset = Effect.fnUntraced(function* (deprecation: Deprecation, subject: string) {
  const { note, successor, sunset } = deprecation
  if (sunset !== undefined && (yield* todayInNewYork) > sunset) {
    const message = `${subject} was removed after ${sunset}. Use ${successor} instead. ${note}`
    return yield* new EndpointRemoved({
      error: { message, details: { successor, documentation: documentationPath, sunset } },
    })
  }
})

/**
 * Returns the first step of every request to the endpoint: it records the route and, if the endpoint is deprecated,
 * adds the deprecation headers and fails after the sunset.
 */
export const makeRouteAndDeprecationStep = (
  { annotations, path }: Pick<HttpApiEndpoint.Top, "annotations" | "path">,
) => {
  const deprecation = Option.getOrUndefined(getEndpointDeprecation(annotations))
  return Effect.flatMap(RequestContext, (context) => {
    context.response.route = path
    return deprecation === undefined
      ? Effect.void
      : Effect.andThen(addDeprecationHeaders(deprecation), failAfterSunset(deprecation, path))
  })
}

/** The outermost API middleware, so that even a 401 or 422 of a deprecated endpoint has the deprecation headers. */
export class DeprecationMiddleware extends HttpApiMiddleware.Service<DeprecationMiddleware>()(
  "tickerline/rules/DeprecationMiddleware",
  { error: EndpointRemoved },
) {
  static readonly layer = Layer.succeed(
    this,
    (httpApp, { endpoint }) => Effect.andThen(makeRouteAndDeprecationStep(endpoint), httpApp),
  )
}
