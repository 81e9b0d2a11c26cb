import { Effect } from "effect"
import { checkAccess } from "../../accounts/AuthorizationMiddleware.ts"
import { canUseEndpoint, type CurrentAccount } from "../../accounts/keys/Authentication.ts"
import { ChangeFeed, type FeedPage } from "../../history/ChangeFeed.ts"
import { makePipelineEndpoint } from "../../http/RequestPipeline.ts"
import { respondWithEtag } from "../../lists/QueryCache.ts"
import { getEndpointAccess } from "../../rules/EndpointAnnotations.ts"
import {
  type ChangedDataset,
  changedDatasets,
  ChangesApiGroup,
  ChangesQuery,
  datasetEndpoints,
  parseFeedPlace,
} from "./Api.ts"

type Account = typeof CurrentAccount.Service

const textEncoder = new TextEncoder()

const makeContent = ({ changes, cursor, hasMore }: FeedPage) => {
  const [comma, start] = [textEncoder.encode(","), textEncoder.encode(`{"count":${changes.length},"results":[`)]
  const end = textEncoder.encode(`],"cursor":"${cursor}","has_more":${hasMore}}`)
  const parts = changes.flatMap((change, index) => index === 0 ? [change] : [comma, change])
  return { body: Buffer.concat([start, ...parts, end]), records: changes.length, nextPage: undefined }
}

/** The requested datasets, or all that the account may read. Fails with 403 if one was requested that it may not. */
export const selectDatasets = Effect.fnUntraced(function* (
  account: Account,
  requested: ReadonlyArray<ChangedDataset> | undefined,
  endpoints = datasetEndpoints,
) {
  const accessOf = (dataset: ChangedDataset) => getEndpointAccess(endpoints[dataset])
  if (requested === undefined) {
    return changedDatasets.filter((dataset) => canUseEndpoint(account, accessOf(dataset)))
  }
  yield* Effect.forEach(requested, (dataset) => checkAccess(account, accessOf(dataset)), { discard: true })
  return requested
})

export const changesEndpoints = Effect.gen(function* () {
  const { readPage } = yield* ChangeFeed

  const respond = Effect.fnUntraced(function* (query: typeof ChangesQuery.Type, account: Account) {
    const { after, dataset, kind, limit, ticker } = query
    const datasets = yield* selectDatasets(account, dataset)
    const place = after === undefined ? undefined : parseFeedPlace(after)
    const page = yield* readPage(place, { datasets, tickers: ticker, kinds: kind }, limit)
    return yield* respondWithEtag(makeContent(page))
  })

  return [makePipelineEndpoint(ChangesApiGroup.endpoints.list, ChangesQuery, respond)]
})
