/**
 * Effect's `HttpApiBuilder` alone, on the same Node server that Tickerline uses. It has typed endpoints with three
 * middlewares, which check the key, count the account's requests, and record usage. Lineages come from a map of all
 * ticker changes, and are encoded with a schema. Pages of runners are stored Tickerline responses, sent byte for byte.
 * Responses have the same headers as Tickerline's.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Context, Effect, Layer, Redacted, Schema } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import {
  HttpApi,
  HttpApiBuilder,
  HttpApiEndpoint,
  HttpApiGroup,
  HttpApiMiddleware,
  HttpApiSecurity,
} from "effect/http-api"
import process from "node:process"
import pg from "pg"
import { defaultConnectionTimeouts, makeHttpServer } from "../../src/api/ConnectionLimits.ts"
import { makeRequestId } from "../../src/contract/rules/RequestIds.ts"
import { fetchStoredResponses } from "./storedResponses.ts"

class Account extends Context.Service<Account, { readonly id: number; requests: number }>()("bench/Account") {}

class Unauthorized extends Schema.TaggedError<Unauthorized>()("Unauthorized", { message: Schema.String }, {
  httpApiStatus: 401,
}) {}

class Authentication extends HttpApiMiddleware.Service<Authentication, { provides: Account }>()(
  "bench/Authentication",
  { security: { bearer: HttpApiSecurity.bearer }, error: Unauthorized },
) {}

class Limits extends HttpApiMiddleware.Service<Limits, { requires: Account }>()("bench/Limits") {}

class Usage extends HttpApiMiddleware.Service<Usage, { requires: Account }>()("bench/Usage") {}

const ChangeEvent = Schema.Struct({
  old_ticker: Schema.String,
  new_ticker: Schema.String,
  effective_date: Schema.String,
})

const Lineage = Schema.Struct({
  count: Schema.Int,
  results: Schema.Tuple([Schema.Struct({
    query_ticker: Schema.String,
    has_changes: Schema.Boolean,
    current_ticker: Schema.NullOr(Schema.String),
    history: Schema.Array(ChangeEvent),
  })]),
})

const Ticker = Schema.String.check(Schema.isPattern(/^[A-Z0-9.^-]{1,6}$/))
const text = Schema.optionalKey(Schema.String)
const number = Schema.optionalKey(Schema.NumberFromString)

const Api = HttpApi.make("bench").add(
  HttpApiGroup.make("data").add(
    HttpApiEndpoint.get("lineage", "/v1/ticker-changes", { query: { ticker: Ticker }, success: Lineage }),
    HttpApiEndpoint.get("runners", "/v1/intraday-runners", {
      query: {
        ticker: text,
        date: text,
        date_from: text,
        date_to: text,
        min_gap_percentage: number,
        max_gap_percentage: number,
        page: number,
        limit: number,
      },
      success: Schema.Uint8Array,
    }),
  ).middleware(Usage).middleware(Limits).middleware(Authentication),
)

const stored = await fetchStoredResponses()

/** The headers that a middleware, the encoder, or the server sets. */
const setByOthers = /^(x-ratelimit-.*|x-request-id|content-.*)$/i

/** The remaining headers of Tickerline's responses, by path. */
const sharedHeaders = new Map(Array.from(stored, ([target, { headers }]) => [
  target.replace(/\?.*/, ""),
  headers.filter(([name]) => !setByOthers.test(name)),
]))

type Event = typeof ChangeEvent.Type

/**
 * Reads all confirmed ticker changes into memory, as Tickerline does. In each map, a change is found by its old or its
 * new symbol.
 */
const readLineages = async () => {
  const client = new pg.Client({ connectionString: process.env["DATABASE_URL"] ?? "" })
  await client.connect()
  const { rows } = await client.query<Event>(
    `select old_ticker, new_ticker, effective_date::text from ticker_changes
     where status = 'confirmed' and effective_date <= current_date`,
  )
  await client.end()
  const [byOld, byNew] = [new Map<string, Event>(), new Map<string, Event>()]
  for (const event of rows) {
    byOld.set(event.old_ticker, event)
    byNew.set(event.new_ticker, event)
  }
  return { byOld, byNew }
}

const { byNew, byOld } = await readLineages()

/** Returns the chain of changes that a symbol belongs to: follows it back to its first symbol, and then forward. */
const findLineage = (query_ticker: string): typeof Lineage.Type => {
  let first = query_ticker
  for (let event = byNew.get(first); event !== undefined; event = byNew.get(first)) first = event.old_ticker
  const history: Array<Event> = []
  for (let event = byOld.get(first); event !== undefined; event = byOld.get(event.new_ticker)) history.push(event)
  return {
    count: history.length,
    results: [{
      query_ticker,
      has_changes: history.length > 0,
      current_ticker: history.at(-1)?.new_ticker ?? null,
      history,
    }],
  }
}

const account = { id: 1, requests: 0 }
const maxRequests = 1_000_000_000
let usage: Array<{ readonly account: number; readonly at: number; readonly status: number; readonly url: string }> = []
// Discards the recorded usage. A real service would write it to a database.
setInterval(() => usage = [], 1000).unref()

const authentication = Layer.succeed(Authentication, {
  bearer: (response, { credential }) =>
    Redacted.value(credential) === process.env["KEY"]
      ? Effect.provideService(response, Account, account)
      : Effect.fail(new Unauthorized({ message: "The key is not known." })),
})

const limits = Layer.succeed(Limits, (response) =>
  Effect.flatMap(Account, (account) => {
    account.requests += 1
    return Effect.map(
      response,
      HttpServerResponse.setHeaders({
        "x-ratelimit-limit": String(maxRequests),
        "x-ratelimit-remaining": String(maxRequests - account.requests),
        "x-ratelimit-reset": "60",
      }),
    )
  }))

const recordUsage = Layer.succeed(
  Usage,
  (response) =>
    Effect.flatMap(
      HttpServerRequest.HttpServerRequest,
      ({ url }) =>
        Effect.flatMap(Account, ({ id }) =>
          Effect.map(response, (sent) => {
            usage.push({ account: id, at: Date.now(), status: sent.status, url })
            return HttpServerResponse.setHeaders(sent, [
              ...sharedHeaders.get(url.slice(0, url.indexOf("?"))) ?? [],
              ["x-request-id", makeRequestId()],
            ])
          })),
    ),
)

const handlers = HttpApiBuilder.group(Api, "data", (handlers) =>
  handlers.handleAll({
    lineage: ({ query }) => Effect.succeed(findLineage(query.ticker)),
    runners: ({ request }) => {
      const found = stored.get(request.url)
      return Effect.succeed(
        found === undefined
          ? HttpServerResponse.empty({ status: 404 })
          : HttpServerResponse.uint8Array(found.body, { contentType: "application/json" }),
      )
    },
  }))

const routes = HttpApiBuilder.layer(Api).pipe(
  Layer.provide(handlers),
  Layer.provide([authentication, limits, recordUsage]),
  Layer.provide(NodeHttpServer.layerHttpServices),
)

const serve = Effect.gen(function* () {
  const scope = yield* Effect.scope
  const handle = yield* NodeHttpServer.makeHandler(yield* HttpRouter.toHttpEffect(routes), { scope })
  const describeError = () => ({
    status: 400,
    code: "invalid_request",
    message: "The request is invalid.",
    headers: {},
  })
  const { server } = makeHttpServer(defaultConnectionTimeouts, { handle, describeError })
  server.listen(Number(process.env["PORT"]), "127.0.0.1")
  return yield* Effect.never
})

Effect.runFork(Effect.scoped(serve))
