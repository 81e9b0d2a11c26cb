/**
 * What surrounds every response, whoever produced it (D12, D14): request id, version, the headers gathered in the
 * exchange; and the answers that no endpoint gives: 301, 400, 404, 405, preflight.
 */
import { Config, Context, Effect, Layer, Option, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpEffect, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Endpoints from "./catalogue/Endpoints.ts"
import { BadRequest, EndpointRemoved, MethodNotAllowed, NotFound } from "./policy/Errors.ts"
import * as Exchange from "./policy/Exchange.ts"
import * as Lifecycle from "./policy/Lifecycle.ts"

type Answer = Effect.Effect<HttpServerResponse.HttpServerResponse>

/** Where clients reach the service: what `Link` headers start with. */
export const BaseUrl = Context.Reference<string>("tickerline/Edge/BaseUrl", { defaultValue: () => "" })

/** Origins whose pages may call the API (D10); none unless configured. */
const Origins = Config.String("CORS_ORIGINS").pipe(
  Config.withDefault(""),
  Config.map((text) => text.split(",").map((origin) => origin.trim()).filter((origin) => origin !== "")),
)

const allowed = "GET, HEAD"
const keptId = /^[A-Za-z0-9._-]{1,128}$/

const requestId = (request: HttpServerRequest.HttpServerRequest) => {
  const sent = request.headers["x-request-id"]
  return sent !== undefined && keptId.test(sent) ? sent : SecureRandom.uuidV7Unsafe()
}

/** What a status always comes with (§7.2, D2, D10). */
const ofStatus: Readonly<Record<number, Readonly<Record<string, string>>>> = {
  401: { "WWW-Authenticate": "Bearer" },
  405: { Allow: allowed },
  503: { "Retry-After": "5" },
}

const gathered = (exchange: Exchange.Exchange, base: string, response: HttpServerResponse.HttpServerResponse) => {
  const links = exchange.links.map(({ attributes, path }) => `<${base}${path}>; ${attributes}`)
  return HttpServerResponse.setHeaders(response, {
    ...ofStatus[response.status],
    ...exchange.headers,
    ...(links.length === 0 ? {} : { Link: links.join(", ") }),
    "X-API-Version": "v1",
    "X-Request-Id": exchange.id,
  })
}

const answer = <S extends Schema.Codec<unknown, unknown>>(error: S) => {
  const encode = Schema.encodeUnknownEffect(error)
  return (body: S["Type"], status: number): Answer =>
    Effect.orDie(Effect.map(encode(body), (json) => HttpServerResponse.jsonUnsafe(json, { status })))
}

const badRequest = answer(BadRequest)
const notFound = answer(NotFound)
const methodNotAllowed = answer(MethodNotAllowed)
const removed = answer(EndpointRemoved)

const isDecodable = (target: string) => {
  try {
    decodeURIComponent(target.replaceAll("+", " "))
    return true
  } catch {
    return false
  }
}

const pathOf = (target: string) => target.split("?", 1)[0] ?? target

const nothingAt = (path: string) =>
  notFound(
    new NotFound({
      error: { message: `There is no endpoint at ${path.slice(0, 200)}. GET /endpoints lists them all.` },
    }),
    404,
  )

/** D10: an endpoint that is deprecated says so to a wrong method too (D14). */
const wrongMethod = (method: string, path: string): Answer =>
  Option.match(Endpoints.at(path), {
    onNone: () => nothingAt(path),
    onSome: ({ life, row }) =>
      (Option.isSome(life) ? Lifecycle.announce(life.value) : Effect.void).pipe(
        Effect.andThen(methodNotAllowed(
          new MethodNotAllowed({ error: { message: `${row.path} answers ${allowed}, not ${method}.` } }),
          405,
        )),
      ),
  })

const preflight = HttpServerResponse.empty({ status: 204, headers: { Allow: allowed } })

/** The answer to a request that must not reach an endpoint. */
const early = ({ method, url }: HttpServerRequest.HttpServerRequest): Option.Option<Answer> => {
  if (!isDecodable(url)) {
    return Option.some(badRequest(
      new BadRequest({ error: { message: "The URL cannot be decoded: a % must be followed by two digits of UTF-8." } }),
      400,
    ))
  }
  if (method === "OPTIONS") return Option.some(Effect.succeed(preflight))
  return method === "GET" || method === "HEAD" ? Option.none() : Option.some(wrongMethod(method, pathOf(url)))
}

/** D26: a retired version says so on every response, and is gone after its sunset. */
const version = Effect.fnUntraced(function* (path: string) {
  const life = yield* Lifecycle.VersionLifecycle
  if (Option.isNone(life) || !path.startsWith("/v1/")) return Option.none<Answer>()
  yield* Lifecycle.announce(life.value)
  return Option.map(
    yield* Effect.option(Effect.flip(Lifecycle.refuseWhenRemoved(life.value, "Version v1"))),
    (error) => removed(error, 410),
  )
})

const Surroundings = HttpRouter.middleware(
  Effect.gen(function* () {
    const base = yield* BaseUrl
    return (served) =>
      Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
        const exchange = Exchange.make(requestId(request), request.url)
        return Option.getOrElse(early(request), () =>
          Effect.flatMap(version(pathOf(request.url)), (gone) => Option.getOrElse(gone, () => served))).pipe(
            HttpEffect.withPreResponseHandler((_, response) =>
              Effect.succeed(gathered(exchange, base, response))
            ),
            Effect.provideService(Exchange.Exchange, exchange),
          )
      })
  }),
  { global: true },
)

/** Browsers of configured origins may read everything that the exchange says. */
const exposedHeaders = [
  "Deprecation",
  "Link",
  "Retry-After",
  "Sunset",
  "X-API-Version",
  "X-Dropped-Tickers",
  "X-Request-Id",
]

const corsHeaders = (origins: ReadonlyArray<string>, origin: string | undefined): Record<string, string> =>
  origin === undefined || !origins.includes(origin) ? {} : {
    "Access-Control-Allow-Origin": origin,
    "Access-Control-Allow-Methods": allowed,
    "Access-Control-Allow-Headers": "Authorization, X-API-Key, X-Request-Id, If-None-Match",
    "Access-Control-Expose-Headers": exposedHeaders.join(", "),
    "Access-Control-Max-Age": "86400",
  }

const Cors = HttpRouter.middleware(
  Effect.map(
    Origins,
    (origins) => (served) =>
      Effect.flatMap(
        HttpServerRequest.HttpServerRequest,
        (request) =>
          HttpEffect.withPreResponseHandler(served, (_, response) =>
            Effect.succeed(HttpServerResponse.setHeaders(response, {
              ...(origins.length === 0 ? {} : { Vary: "Origin" }),
              ...corsHeaders(origins, request.headers["origin"]),
            }))),
      ),
  ),
  { global: true },
)

/** §9.1: the legacy pattern moved for good; path and query are kept. */
const Legacy = HttpRouter.add(
  "GET",
  "/enterprise/v1/*",
  (request) =>
    Effect.succeed(HttpServerResponse.redirect(request.url.replace("/enterprise/v1", "/v1"), { status: 301 })),
)

const Nowhere = HttpRouter.add("GET", "/*", (request) => nothingAt(pathOf(request.url)))

export const layer = Layer.mergeAll(Cors, Surroundings, Legacy, Nowhere)
