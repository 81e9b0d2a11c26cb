/**
 * §3, §9.4, D24, D26: the life of an endpoint, or of the whole version, is declared once, as an annotation.
 * Headers, `/endpoints`, OpenAPI and documentation all read that declaration.
 */
import { Context, DateTime, Duration, Effect, Layer, Option, Schema } from "effect"
import { HttpApiMiddleware, OpenApi } from "effect/http-api"
import { CalendarDate, todayInNewYork } from "./Dates.ts"
import { EndpointRemoved } from "./Errors.ts"
import { addLinkHeader, RequestContext, setResponseHeaders } from "../http/RequestContext.ts"

export interface Deprecation {
  /** The day it was announced, `YYYY-MM-DD`. */
  readonly announced: string
  /** The last day on which it must answer; left out while no removal is committed. */
  readonly sunset?: string
  /** The path of what replaces it. */
  readonly successor: string
  /** What changes for a client, a sentence. */
  readonly note: string
}

export const documentationPath = "/v1/docs"

/** Present on what is deprecated; what lacks it is active. */
export class DeprecationAnnotation
  extends Context.Service<DeprecationAnnotation, Deprecation>()("tickerline/policy/Deprecated") {}

/** The whole version's retirement, `None` while it is current (D26). */
export const VersionDeprecation = Context.Reference<Option.Option<Deprecation>>("tickerline/policy/VersionLifecycle", {
  defaultValue: Option.none,
})

const midnight = (day: string) => DateTime.makeUnsafe(`${day}T00:00:00Z`)

/** Refuses a promise that the specification forbids; thrown while modules load, so neither tests nor service start. */
export const validateDeprecation = (life: Deprecation): Deprecation => {
  for (const day of [life.announced, life.sunset]) {
    if (day !== undefined && !Schema.is(CalendarDate)(day)) {
      throw new Error(`Lifecycle: ${day} is not a date, YYYY-MM-DD`)
    }
  }
  if (life.sunset !== undefined) {
    const earliest = DateTime.formatIsoDate(DateTime.add(midnight(life.announced), { years: 1 }))
    if (life.sunset < earliest) {
      throw new Error(
        `Lifecycle: a sunset on ${life.sunset} is less than twelve months after ${life.announced} (§3); ` +
          `the earliest is ${earliest}`,
      )
    }
  }
  return life
}

/** `endpoint.annotateMerge(deprecated({ announced: "2026-11-01", successor: "/v1/ticker-changes", note: "…" }))` */
export const deprecationAnnotations = (life: Deprecation) =>
  Context.make(DeprecationAnnotation, validateDeprecation(life)).pipe(Context.merge(OpenApi.annotations({
    deprecated: true,
    transform: (operation) => life.sunset === undefined ? operation : { ...operation, "x-sunset": life.sunset },
  })))

export const getDeprecation = (annotations: Context.Context<never>): Option.Option<Deprecation> =>
  Option.fromUndefinedOr(Context.getOrUndefined(annotations, DeprecationAnnotation))

/** The three headers of §9.4, on every response of what is deprecated, whatever its status. */
export const addDeprecationHeaders = Effect.fnUntraced(function* (life: Deprecation) {
  yield* setResponseHeaders({
    Deprecation: `@${Duration.toSeconds(Duration.millis(DateTime.toEpochMillis(midnight(life.announced))))}`,
    ...(life.sunset === undefined ? {} : { Sunset: DateTime.toDateUtc(midnight(life.sunset)).toUTCString() }),
  })
  yield* addLinkHeader(life.successor, `rel="successor-version"`)
  yield* addLinkHeader(documentationPath, `rel="deprecation"; type="text/html"`)
})

/** Fails from the day after the sunset on. */
export const failIfRemoved = Effect.fnUntraced(function* (life: Deprecation, what: string) {
  const { sunset, successor } = life
  if (sunset !== undefined && (yield* todayInNewYork) > sunset) {
    const message = `${what} was removed after ${sunset}. Use ${successor} instead. ${life.note}`
    return yield* new EndpointRemoved({
      error: { message, details: { successor, documentation: documentationPath, sunset } },
    })
  }
})

/** Outermost of the middlewares: 401 and 422 of a deprecated endpoint carry its headers too. */
export class LifecycleMiddleware
  extends HttpApiMiddleware.Service<LifecycleMiddleware>()("tickerline/policy/Lifecycle", {
    error: EndpointRemoved,
  }) {
  static readonly layer = Layer.succeed(this, (served, { endpoint }) =>
    Effect.flatMap(RequestContext, (exchange) => {
      exchange.route = endpoint.path
      return Option.match(getDeprecation(endpoint.annotations), {
        onNone: () => served,
        onSome: (life) =>
          addDeprecationHeaders(life).pipe(
            Effect.andThen(failIfRemoved(life, endpoint.path)),
            Effect.andThen(served),
          ),
      })
    }))
}
