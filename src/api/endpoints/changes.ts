/** Handles `GET /v1/changes` and `GET /v1/changes/stream`. */
import { Effect, Equivalence, Scope, Stream } from "effect"
import { ErrorWithHeaders } from "../../contract/AccountErrors.ts"
import { findAccessError } from "../../accounts/RequestAdmission.ts"
import { type AdmittedRequest, makeHandler } from "../../query/EndpointHandler.ts"
import { canKeyUseAddress } from "../../accounts/keys/AllowedNetworks.ts"
import { canAccountUseEndpoint, type CurrentAccount } from "../../contract/Authentication.ts"
import { type ChangeFeedFilter, type ChangeFeedPage, ChangeFeedReader } from "../../query/history/ChangeFeed.ts"
import { ChangeStream } from "../../query/history/ChangeStream.ts"
import { makeStorablePage } from "../../query/lists/QueryCache.ts"
import type { EventStreamResult, PlainResponse } from "../../contract/rules/EndpointResult.ts"
import { getHeader } from "../../contract/rules/ApiRequest.ts"
import { type AnnotatedEndpoint, getEndpointAccess } from "../../contract/rules/EndpointAnnotations.ts"
import { makeFieldError } from "../../contract/rules/ApiErrors.ts"
import { eventStreamContentType } from "../../contract/rules/EventStreamFormat.ts"
import {
  type ChangeFeedDataset,
  changeFeedDatasets,
  ChangesApiGroup,
  ChangesQuery,
  ChangeStreamQuery,
  parseChangeFeedStart,
  readChangeFeedStart,
  requiredEndpointsByDataset,
} from "../../contract/endpoints/changes.ts"

type Account = typeof CurrentAccount.Service

const streamAccess = getEndpointAccess(ChangesApiGroup.endpoints.stream)

const isEqual = Equivalence.Array(Equivalence.strictEqual<ChangeFeedDataset>())

const textEncoder = new TextEncoder()

/**
 * Builds the JSON of a page of the change feed. The JSON of each change is already encoded, so that it is only copied.
 */
const makeContent = ({ changes, cursor, hasMore }: ChangeFeedPage) => {
  const start = textEncoder.encode(`{"count":${changes.length},"results":[`)
  const comma = textEncoder.encode(",")
  const end = textEncoder.encode(`],"cursor":"${cursor}","has_more":${hasMore}}`)
  const parts = changes.flatMap(({ json }, index) => index === 0 ? [json] : [comma, json])
  return { body: Buffer.concat([start, ...parts, end]), records: changes.length, nextPage: undefined }
}

type AccessEndpoints = Readonly<Record<ChangeFeedDataset, ReadonlyArray<AnnotatedEndpoint>>>

/** Returns the endpoints that an account must be allowed to use to read a dataset's changes. */
const accessOf = (dataset: ChangeFeedDataset, endpoints: AccessEndpoints) =>
  endpoints[dataset].map((endpoint) => getEndpointAccess(endpoint))

/** Returns those of the `requested` datasets (by default, all datasets) that the account may read. */
const listUsableDatasets = (
  account: Account,
  requested: ReadonlyArray<ChangeFeedDataset> = changeFeedDatasets,
  endpoints: AccessEndpoints = requiredEndpointsByDataset,
) =>
  requested.filter((dataset) => accessOf(dataset, endpoints).every((access) => canAccountUseEndpoint(account, access)))

/**
 * Returns the datasets whose changes to read: the requested datasets or, if none are requested, all datasets that the
 * account may read. Fails with 403 if the account may not read a requested dataset.
 */
export const selectReadableDatasets = Effect.fnUntraced(function* (
  account: Account,
  requested: ReadonlyArray<ChangeFeedDataset> | undefined,
  endpoints: AccessEndpoints = requiredEndpointsByDataset,
) {
  if (requested === undefined) return listUsableDatasets(account, undefined, endpoints)
  for (const access of requested.flatMap((dataset) => accessOf(dataset, endpoints))) {
    const error = findAccessError(account, access)
    if (error !== undefined) return yield* error
  }
  return requested
})

const streamHead = {
  contentType: eventStreamContentType,
  headers: {
    "cache-control": "no-store",
    // Tells proxies such as nginx to forward each event immediately.
    "x-accel-buffering": "no",
  },
}

const headResponse: PlainResponse = { _tag: "Plain", status: 200, body: Stream.empty, ...streamHead }

const makeEventStream = (body: Stream.Stream<Uint8Array>): EventStreamResult => ({
  _tag: "EventStream",
  body,
  ...streamHead,
})

/**
 * Returns the feed position at which to start. The header `Last-Event-ID` takes precedence over the parameter `after`,
 * because a client that reconnects repeats its original URL.
 */
const resolveFeedStart = (lastEventId: string | undefined, after: string | undefined) => {
  if (lastEventId !== undefined && lastEventId !== "") {
    return Effect.fromOption(readChangeFeedStart(lastEventId)).pipe(
      Effect.mapError(() => makeFieldError("Last-Event-ID", "must be the id of an event")),
    )
  }
  return Effect.succeed(after === undefined ? undefined : parseChangeFeedStart(after))
}

/** For an estimate, changes are counted in pages of this size, up to `maxCountedPages` pages. */
const countedPageSize = 5_000
const maxCountedPages = 20

/** Handlers for the change feed and the change stream. */
export const changesHandlers = Effect.gen(function* () {
  const { readPage, summarizePage } = yield* ChangeFeedReader
  const { open: openStream } = yield* ChangeStream

  /**
   * Counts the changes on all pages for an estimate (D28), starting with the page `first` and continuing from its
   * cursor. If there are more pages than `maxCountedPages`, the count is partial.
   */
  const countAll = Effect.fnUntraced(function* (first: ChangeFeedPage, filter: ChangeFeedFilter) {
    let page: ChangeFeedPage<unknown> = first
    let total = first.changes.length
    for (let counted = 0; page.hasMore && counted < maxCountedPages; counted++) {
      page = yield* summarizePage(parseChangeFeedStart(page.cursor), filter, countedPageSize)
      total += page.changes.length
    }
    return { records: total, isPartial: page.hasMore }
  })

  /** Responds with a page of the changes after `after`. For an estimate, also counts the changes on later pages. */
  const makeResult = Effect.fnUntraced(function* (query: typeof ChangesQuery.Type, request: AdmittedRequest) {
    const { after, dataset, kind, limit, ticker } = query
    const datasets = yield* selectReadableDatasets(request.account, dataset)
    const start = after === undefined ? undefined : parseChangeFeedStart(after)
    const filter = { datasets, tickers: ticker, kinds: kind }
    const page = yield* readPage(start, filter, limit)
    const total = request.request.purpose === "estimate" ? yield* countAll(page, filter) : undefined
    return { ...makeStorablePage(makeContent(page), request), total }
  })

  /**
   * Responds with an event stream of the changes after `after`. The stream ends as soon as `hasSameAccess` returns
   * false for the current state of the account, because the key may no longer be used from this address, or because the
   * account may read other datasets than when the stream was opened. The client then reconnects. `disconnect` closes
   * the connection of a client that does not read the end of its stream.
   */
  const makeStreamResult = Effect.fnUntraced(function* (
    query: typeof ChangeStreamQuery.Type,
    admitted: AdmittedRequest,
  ) {
    const { after, dataset, kind, ticker } = query
    const { account, makeStreamUsageRecorder, request, scope } = admitted
    const datasets = yield* selectReadableDatasets(account, dataset)
    const start = yield* resolveFeedStart(getHeader(request, "last-event-id"), after)
    if (request.method === "HEAD") return headResponse
    const body = yield* Effect.provideService(
      openStream({
        account,
        request,
        usage: makeStreamUsageRecorder(),
        filter: { datasets, tickers: ticker, kinds: kind },
        start,
        hasSameAccess: (current) =>
          canKeyUseAddress(current, request.address) && canAccountUseEndpoint(current, streamAccess) &&
          isEqual(listUsableDatasets(current, dataset), datasets),
        disconnect: () => request.client.disconnect(),
      }),
      Scope.Scope,
      scope(),
    ).pipe(
      Effect.catchTag("TooManyStreams", (error) => new ErrorWithHeaders({ error, headers: { "retry-after": "30" } })),
    )
    return makeEventStream(body)
  })

  return { list: makeHandler(ChangesQuery, makeResult), stream: makeHandler(ChangeStreamQuery, makeStreamResult) }
})
