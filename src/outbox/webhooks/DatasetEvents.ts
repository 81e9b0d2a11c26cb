/**
 * The job that reads the change feed and queues a `dataset.changed` for each transaction, dataset and endpoint that
 * subscribes to it. The rows are not in the message: its receiver reads them with `/v1/changes`.
 */
import { type Config, Duration, Effect, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { allChangesFilter, ChangeFeedReader, type RowChangeSummary } from "../../query/history/ChangeFeed.ts"
import { BaseUrl } from "../../api/BaseUrl.ts"
import type { Job } from "../../postgres/jobs/Job.ts"
import { makeMomentSql } from "../../contract/rules/Dates.ts"
import { getEndpointAccess, isTierSufficient, Tier } from "../../contract/rules/EndpointAnnotations.ts"
import {
  changeFeedDatasets,
  type ChangeKind,
  requiredEndpointsByDataset,
  formatChangeFeedCursor,
  parseChangeFeedStart,
} from "../../contract/endpoints/changes.ts"
import { toSymbolKey } from "../../contract/rules/Tickers.ts"
import { wantsDatasetsSql } from "./WebhookEndpoints.ts"
import { WebhooksConfig } from "./WebhookSettings.ts"
import { describeFailure } from "../../postgres/FailureText.ts"

/** Maximum number of changes that are read at once. */
const pageSize = 1_000

/** Maximum number of messages that one statement queues. */
const messagesPerStatement = 500

/** Maximum number of symbols in a message. */
const maxListedTickers = 100

const Subscriber = Schema.Struct({
  endpoint_id: Schema.BigInt,
  tier: Tier,
  datasets: Schema.NullOr(Schema.Array(Schema.String)),
  tickers: Schema.NullOr(Schema.Array(Schema.String)),
  /** The endpoint gets only what was recorded after this moment. */
  since: Schema.String,
})
type Subscriber = typeof Subscriber.Type

/** Returns the datasets to which an endpoint subscribes and that its account may read. */
const listDatasets = ({ datasets, tier }: Subscriber) =>
  changeFeedDatasets.filter((dataset) =>
    datasets?.includes(dataset) !== false &&
    requiredEndpointsByDataset[dataset].every((endpoint) =>
      isTierSufficient(tier, getEndpointAccess(endpoint).required_tier)
    )
  )

/** Returns the value of a key, which is added if it is missing. */
const getOrAdd = <K, V>(map: Map<K, V>, key: K, make: () => V) => {
  const found = map.get(key) ?? make()
  map.set(key, found)
  return found
}

/** What changed in one dataset, limited to what one endpoint subscribes to. */
class Tally {
  readonly counts: Record<ChangeKind, number> = { added: 0, corrected: 0, removed: 0 }
  readonly tickers = new Set<string>()
  hasMoreTickers = false

  add({ kind, tickers }: RowChangeSummary, isListed: (ticker: string) => boolean) {
    this.counts[kind] += 1
    for (const ticker of tickers.filter(isListed)) {
      if (this.tickers.size < maxListedTickers) this.tickers.add(ticker)
      else if (!this.tickers.has(ticker)) this.hasMoreTickers = true
    }
  }
}

/** The changes of one transaction, counted for each endpoint. Endpoints without symbols share a tally per dataset. */
class TransactionTally {
  readonly recordedAt: string
  readonly #all = new Map<string, Tally>()
  readonly #selected = new Map<Subscriber, Map<string, Tally>>()

  constructor(recordedAt: string) {
    this.recordedAt = recordedAt
  }

  add(change: RowChangeSummary, byTicker: ReadonlyMap<string, ReadonlySet<Subscriber>>) {
    const getTally = (tallies: Map<string, Tally>) => getOrAdd(tallies, change.dataset, () => new Tally())
    getTally(this.#all).add(change, () => true)
    const wanting = new Set(change.tickers.flatMap((ticker) => [...byTicker.get(toSymbolKey(ticker)) ?? []]))
    for (const subscriber of wanting) {
      const tallies = getOrAdd(this.#selected, subscriber, () => new Map<string, Tally>())
      getTally(tallies).add(change, (ticker) => byTicker.get(toSymbolKey(ticker))?.has(subscriber) === true)
    }
  }

  /** Returns the tallies of an endpoint by dataset. */
  tallyFor(subscriber: Subscriber): ReadonlyMap<string, Tally> {
    return subscriber.tickers === null ? this.#all : this.#selected.get(subscriber) ?? new Map()
  }
}

/** Returns the place of the feed before a change's transaction and the one after it. */
const getTransactionCursors = (cursor: string) => {
  const place = parseChangeFeedStart(cursor)
  if (place._tag !== "Cursor") throw new Error(`${cursor} is not the cursor of a change`)
  const { mark, transaction } = place
  return {
    before: formatChangeFeedCursor({ mark, transaction, position: "0" }),
    after: formatChangeFeedCursor({ mark, transaction, position: undefined }),
  }
}

type TransactionCursors = ReturnType<typeof getTransactionCursors>

/** Makes the messages about a transaction. */
const makeMessages = (
  transaction: TransactionTally,
  { after, before }: TransactionCursors,
  subscribers: ReadonlyArray<Subscriber>,
  baseUrl: string,
) =>
  subscribers.filter(({ since }) => since < transaction.recordedAt).flatMap((subscriber) => {
    const tallies = transaction.tallyFor(subscriber)
    return listDatasets(subscriber).flatMap((dataset) => {
      const tally = tallies.get(dataset)
      if (tally === undefined) return []
      const query = new URLSearchParams({ dataset, after: before })
      if (subscriber.tickers !== null) query.set("ticker", subscriber.tickers.join(","))
      const data = {
        dataset,
        recorded_at: transaction.recordedAt,
        cursor: after,
        changes: tally.counts,
        tickers: [...tally.tickers],
        has_more_tickers: tally.hasMoreTickers,
        url: `${baseUrl}/v1/changes?${query}`,
      }
      return [{ endpoint_id: String(subscriber.endpoint_id), event_key: `${dataset} ${after}`, data }]
    })
  })

type Message = ReturnType<typeof makeMessages>[number]

const decodePlace = decodeRows(Schema.Struct({ cursor: Schema.NullOr(Schema.String) }))

const readSubscribers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* decodeRows(Subscriber)(sql`
    select endpoint_id, tier, datasets, tickers,
      ${sql.literal(makeMomentSql("webhook_endpoints.created_at"))} as since
    from webhook_endpoints join accounts using (account_id)
    where ${sql.literal(wantsDatasetsSql)} order by endpoint_id
  `)
})

const formatIds = (subscribers: ReadonlyArray<Subscriber>) => subscribers.map(({ endpoint_id }) => endpoint_id).join()

/** Queues messages. Repeated and concurrent calls queue each message once, because of its key. */
const queueMessages = Effect.fnUntraced(function* (messages: ReadonlyArray<Message>) {
  const sql = yield* SqlClient.SqlClient
  for (let start = 0; start < messages.length; start += messagesPerStatement) {
    // Sorted before the calls, because the order in which they are made becomes the order of the messages.
    yield* sql`
      select enqueue_webhook_message(endpoint_id, 'dataset.changed', data, event_key)
      from (
        select * from rows from (
          json_to_recordset(${JSON.stringify(messages.slice(start, start + messagesPerStatement))}::text::json)
            as (endpoint_id bigint, event_key text, data json)
        ) with ordinality as message (endpoint_id, event_key, data, place) order by place
      ) as message
    `
  }
})

/** Moves the place in the feed, unless another process or a new endpoint has moved it. Returns whether it did. */
const moveFeed = Effect.fnUntraced(function* (from: string | null, to: string) {
  const sql = yield* SqlClient.SqlClient
  const moved = yield* sql`
    update webhook_feed set cursor = ${to} where cursor is not distinct from ${from}::text returning cursor
  `
  return moved.length === 1
})

const queueNewTransactions = Effect.fnUntraced(function* (baseUrl: string, limit: number) {
  const subscribers = yield* readSubscribers
  if (subscribers.length === 0) return
  const { summarizePage } = yield* ChangeFeedReader
  const sql = yield* SqlClient.SqlClient
  // By the key of a symbol, which all of its spellings have (D41).
  const byTicker = new Map<string, Set<Subscriber>>()
  for (const subscriber of subscribers) {
    for (const ticker of subscriber.tickers ?? []) {
      getOrAdd(byTicker, toSymbolKey(ticker), () => new Set<Subscriber>()).add(subscriber)
    }
  }
  const filter = { ...allChangesFilter, datasets: Array.from(new Set(subscribers.flatMap(listDatasets))) }
  if (filter.datasets.length === 0) return

  const [place] = yield* decodePlace(sql`select cursor from webhook_feed`)
  let queuedUntil = place?.cursor ?? null
  let position = queuedUntil ?? "now"
  /** The transaction that is being read, which may continue on the next page. */
  let open: { readonly cursors: TransactionCursors; readonly tally: TransactionTally } | undefined

  while (true) {
    const page = yield* summarizePage(parseChangeFeedStart(position), filter, limit).pipe(
      Effect.catchTag("CursorExpired", ({ error }) =>
        Effect.andThen(
          Effect.logWarning(`Webhooks lack changes of datasets before now. ${error.message}`),
          summarizePage({ _tag: "Now" }, filter, limit),
        )),
    )
    // An endpoint that was created before the page was read may want its changes. The next run has all endpoints.
    if (formatIds(yield* readSubscribers) !== formatIds(subscribers)) return
    const messages: Array<Message> = []
    let end = queuedUntil
    const close = Effect.fnUntraced(function* () {
      if (open === undefined) return
      messages.push(...makeMessages(open.tally, open.cursors, subscribers, baseUrl))
      end = open.cursors.after
      open = undefined
      if (messages.length >= messagesPerStatement) yield* queueMessages(messages.splice(0))
    })
    for (const change of page.changes) {
      const cursors = getTransactionCursors(change.cursor)
      if (open?.cursors.after !== cursors.after) {
        yield* close()
        open = { cursors, tally: new TransactionTally(change.recordedAt) }
      }
      open.tally.add(change, byTicker)
    }
    if (!page.hasMore) {
      yield* close()
      end = page.cursor
    }
    yield* queueMessages(messages)
    if (end !== null && end !== queuedUntil) {
      if (!(yield* moveFeed(queuedUntil, end))) return
      queuedUntil = end
    }
    if (!page.hasMore) return
    position = page.cursor
  }
})

/**
 * Queues the messages about all transactions since the last call. The URLs in the messages begin with `baseUrl`. Reads
 * at most `limit` changes at once.
 */
export const queueDatasetEvents = (baseUrl: string, limit = pageSize) =>
  Effect.mapError(
    queueNewTransactions(baseUrl, limit),
    (error) => ({ message: describeFailure(error) }),
  )

/** Runs only if `WEBHOOKS` is on. Needs no check of its lease, because each message is queued once. */
export const datasetEventsJob = {
  name: "webhook-events",
  every: Duration.seconds(1),
  prepare: Effect.fnUntraced(function* () {
    const baseUrl = yield* BaseUrl
    return (yield* WebhooksConfig) === "on" ? Option.some(queueDatasetEvents(baseUrl)) : Option.none()
  }),
} satisfies Job<Config.ConfigError, ChangeFeedReader | SqlClient.SqlClient>
