/**
 * D28: what a request would cost. It is sent the way it would go itself, through the same router, validation, SQL and
 * printing, only that its exchange says that it is an estimate: nothing is counted, charged or recorded, and lists say
 * how long they are. A page is never longer than 100 records, so all of it is measured; so is a whole list, piece by
 * piece.
 */
import { Effect, Schema } from "effect"
import { Headers, HttpEffect, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { computeCost } from "../accounts/billing/Pricing.ts"
import { ValidationError } from "../rules/Errors.ts"
import * as Exchange from "../http/RequestContext.ts"
import { TickerList } from "../rules/Tickers.ts"
import * as Endpoints from "./Endpoints.ts"

const path = "/estimate"

const unknown = (sent: string) => {
  const reason = `is not in the catalogue.${Endpoints.suggestEndpoint(sent)} GET /endpoints lists all paths.`
  return new ValidationError({
    error: { message: `endpoint ${reason}`, details: { fields: [{ field: "endpoint", reason }] } },
  })
}

const searchOf = (target: string) => target.split(/\?(.*)/s)[1] ?? ""

/** The query without `endpoint`, otherwise as it was sent. */
const ownQuery = (target: string) => {
  const isOwn = (parameter: string) => !new URLSearchParams(`&${parameter}`).has("endpoint")
  return searchOf(target).split("&").filter(isOwn).join("&")
}

const symbolsIn = Effect.fnUntraced(function* (target: string) {
  const sent = new URLSearchParams(searchOf(target)).get("ticker")
  if (sent === null) return 0
  // The documentation page ignores parameters, so this one may be anything.
  return (yield* Effect.orElseSucceed(Schema.decodeEffect(TickerList)(sent), () => [])).length
})

/** Its own parameters would be those of another request, so it is not sent. */
const ofItself = {
  count: 1,
  results: [{
    endpoint: path,
    unit: "row",
    ticker_count: 0,
    records_returned: 1,
    records_total: 1,
    rows_sampled: 0,
    estimated_bytes: 0,
    estimated_cost_microdollars: 0,
    price_per_gb_microdollars: 0,
  }],
  message: "An estimate is free.",
} as const

/** What costs nothing because it is refused by what the data say. */
const isRefusalOfData = (status: number) => status === 404 || status === 409

export const makeCostEstimator = Effect.gen(function* () {
  const router = yield* HttpRouter.HttpRouter

  /** The answer that the request would have. */
  const rehearse = Effect.fnUntraced(
    function* (request: HttpServerRequest.HttpServerRequest, exchange: Exchange.RequestContext) {
      let answer = HttpServerResponse.empty()
      const keep = (_: unknown, response: HttpServerResponse.HttpServerResponse) =>
        Effect.sync(() => {
          answer = response
        })
      // Only the length of the full answer counts.
      const headers = Headers.removeMany(request.headers, ["accept-encoding", "if-none-match"])
      yield* HttpEffect.toHandled(router.asHttpEffect(), keep).pipe(
        Effect.provideService(HttpServerRequest.HttpServerRequest, request.modify({ url: exchange.target, headers })),
        Effect.provideService(Exchange.RequestContext, exchange),
      )
      return answer
    },
  )

  return Effect.fnUntraced(function* (sent: string, request: HttpServerRequest.HttpServerRequest) {
    const endpoint = yield* Effect.mapError(Effect.fromOption(Endpoints.findEndpoint(sent)), () => unknown(sent))
    if (endpoint.row.path === path) return yield* Effect.as(Exchange.setRecordCount(1), ofItself)
    const { began, id } = yield* Exchange.RequestContext
    const target = `${endpoint.row.path}?${ownQuery(request.url)}`
    const exchange = Exchange.makeRequestContext({ id, target, began, purpose: "estimate" })
    const answer = yield* rehearse(request, exchange)
    const refused = isRefusalOfData(answer.status)
    if (answer.status !== 200 && !refused) {
      return HttpServerResponse.setBody(HttpServerResponse.empty({ status: answer.status }), answer.body)
    }
    const estimated_bytes = refused ? 0 : exchange.bytes ?? 0
    const records_returned = refused ? 0 : exchange.records
    yield* Exchange.setRecordCount(1)
    return {
      count: 1,
      results: [{
        endpoint: endpoint.row.path,
        unit: endpoint.unit,
        ticker_count: yield* symbolsIn(target),
        records_returned,
        records_total: exchange.totalRecords ?? records_returned,
        rows_sampled: records_returned,
        estimated_bytes,
        estimated_cost_microdollars: computeCost(estimated_bytes, exchange.price),
        price_per_gb_microdollars: exchange.price,
      }] as const,
      ...(refused
        ? { message: `The request would be answered with ${answer.status}, which is free.` }
        : endpoint.isPriced
        ? {}
        : { message: "This endpoint is free." }),
    }
  })
})
