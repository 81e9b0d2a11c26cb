/** Handles `GET /v1/changes` and `GET /v1/changes/stream`. */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Effect, Equivalence, Stream } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { checkEndpointAccess } from "../../accounts/AuthorizationLayer.ts"
import { canAccountUseEndpoint, type CurrentAccount } from "../../accounts/keys/Authentication.ts"
import { ChangeFeed, type ChangeFeedFilter, type ChangeFeedPage } from "../../history/ChangeFeed.ts"
import { ChangeStream } from "../../history/ChangeStream.ts"
import { exemptFromResponseTimeout } from "../../http/ConnectionLimits.ts"
import { RequestContext, setResponseHeaders } from "../../http/RequestContext.ts"
import { makePipelineEndpoint } from "../../http/RequestPipeline.ts"
import { respondWithEtag } from "../../lists/QueryCache.ts"
import { getEndpointAccess } from "../../rules/EndpointAnnotations.ts"
import { ValidationError } from "../../rules/Errors.ts"
import { eventStreamContentType } from "../../rules/EventStreamFormat.ts"
import {
  type ChangeFeedDataset,
  changeFeedDatasets,
  ChangesApiGroup,
  ChangesQuery,
  ChangeStreamQuery,
  datasetAccessEndpoints,
  isValidAfterParameter,
  parseChangeFeedStart,
} from "./Api.ts"

type Account = typeof CurrentAccount.Service

const streamAccess = getEndpointAccess(ChangesApiGroup.endpoints.stream)

const isEqual = Equivalence.Array(Equivalence.strictEqual<ChangeFeedDataset>())

const textEncoder = new TextEncoder()

const makeContent = ({ changes, cursor, hasMore }: ChangeFeedPage) => {
  const [comma, start] = [textEncoder.encode(","), textEncoder.encode(`{"count":${changes.length},"results":[`)]
  const end = textEncoder.encode(`],"cursor":"${cursor}","has_more":${hasMore}}`)
  const parts = changes.flatMap(({ json }, index) => index === 0 ? [json] : [comma, json])
  return { body: Buffer.concat([start, ...parts, end]), records: changes.length, nextPage: undefined }
}

const accessOf = (dataset: ChangeFeedDataset, endpoints = datasetAccessEndpoints) =>
  endpoints[dataset].map((endpoint) => getEndpointAccess(endpoint))

/** Returns the datasets among `requested` (by default, all datasets) that the account may read. */
const listUsableDatasets = (
  account: Account,
  requested: ReadonlyArray<ChangeFeedDataset> = changeFeedDatasets,
  endpoints = datasetAccessEndpoints,
) =>
  requested.filter((dataset) => accessOf(dataset, endpoints).every((access) => canAccountUseEndpoint(account, access)))

/**
 * Returns the requested datasets; if none are requested, all that the account may read. Fails with 403 if the account
 * may not read a requested dataset.
 */
export const selectReadableDatasets = Effect.fnUntraced(function* (
  account: Account,
  requested: ReadonlyArray<ChangeFeedDataset> | undefined,
  endpoints = datasetAccessEndpoints,
) {
  if (requested === undefined) return listUsableDatasets(account, undefined, endpoints)
  const needed = requested.flatMap((dataset) => accessOf(dataset, endpoints))
  yield* Effect.forEach(needed, (access) => checkEndpointAccess(account, access), { discard: true })
  return requested
})

const streamHeaders = {
  "Cache-Control": "no-store",
  // Tells proxies such as nginx to pass on each event immediately.
  "X-Accel-Buffering": "no",
}

const respondWithEvents = (body: Stream.Stream<Uint8Array>) =>
  HttpServerResponse.stream(body, { contentType: eventStreamContentType, headers: streamHeaders })

const makeFieldError = (field: string, reason: string) =>
  new ValidationError({ error: { message: `${field} ${reason}`, details: { fields: [{ field, reason }] } } })

/**
 * Returns the place in the feed at which to start. `Last-Event-ID` takes precedence over `after`, because a client that
 * reconnects repeats the URL of its first request.
 */
const resolveFeedStart = (lastEventId: string | undefined, after: string | undefined) => {
  if (lastEventId !== undefined && lastEventId !== "") {
    return isValidAfterParameter(lastEventId)
      ? Effect.succeed(parseChangeFeedStart(lastEventId))
      : Effect.fail(makeFieldError("Last-Event-ID", "must be the id of an event"))
  }
  return Effect.succeed(after === undefined ? undefined : parseChangeFeedStart(after))
}

/** An estimate counts the changes in pages of this size, and at most this number of pages. */
const countedPageSize = 5_000
const maxCountedPages = 20

export const changesEndpoints = Effect.gen(function* () {
  const { readPage, summarizePage } = yield* ChangeFeed
  const { open: openStream } = yield* ChangeStream

  /** Counts the changes on all pages for an estimate (D28): those of the first page, and those after its cursor. */
  const countAll = Effect.fnUntraced(function* (first: ChangeFeedPage, filter: ChangeFeedFilter) {
    const { response } = yield* RequestContext
    let page: ChangeFeedPage<unknown> = first
    let total = first.changes.length
    for (let counted = 0; page.hasMore && counted < maxCountedPages; counted++) {
      page = yield* summarizePage(parseChangeFeedStart(page.cursor), filter, countedPageSize)
      total += page.changes.length
    }
    response.totalRecords = total
    response.isTotalPartial = page.hasMore
  })

  const respond = Effect.fnUntraced(function* (query: typeof ChangesQuery.Type, account: Account) {
    const { after, dataset, kind, limit, ticker } = query
    const datasets = yield* selectReadableDatasets(account, dataset)
    const place = after === undefined ? undefined : parseChangeFeedStart(after)
    const filter = { datasets, tickers: ticker, kinds: kind }
    const page = yield* readPage(place, filter, limit)
    const { purpose } = yield* RequestContext
    if (purpose === "estimate") yield* countAll(page, filter)
    return yield* respondWithEtag(makeContent(page))
  })

  const respondWithStream = Effect.fnUntraced(function* (query: typeof ChangeStreamQuery.Type, account: Account) {
    const { after, dataset, kind, ticker } = query
    const request = yield* HttpServerRequest.HttpServerRequest
    const datasets = yield* selectReadableDatasets(account, dataset)
    const place = yield* resolveFeedStart(request.headers["last-event-id"], after)
    if (request.method === "HEAD") return respondWithEvents(Stream.empty)
    const response = NodeHttpServerRequest.toServerResponse(request)
    const body = yield* openStream({
      account,
      filter: { datasets, tickers: ticker, kinds: kind },
      place,
      hasSameAccess: (current) =>
        canAccountUseEndpoint(current, streamAccess) && isEqual(listUsableDatasets(current, dataset), datasets),
      disconnect: () => response.destroy(),
    }).pipe(Effect.tapErrorTag("TooManyStreams", () => setResponseHeaders({ "Retry-After": "30" })))
    exemptFromResponseTimeout(response)
    return respondWithEvents(body)
  })

  return [
    makePipelineEndpoint(ChangesApiGroup.endpoints.list, ChangesQuery, respond),
    makePipelineEndpoint(ChangesApiGroup.endpoints.stream, ChangeStreamQuery, respondWithStream),
  ]
})
