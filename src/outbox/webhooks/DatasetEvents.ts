/**
 * The background job that reads the change feed, and queues a `dataset.changed` for each transaction, dataset and
 * endpoint that subscribes to it. The message does not contain the changed rows: its receiver requests them from
 * `/v1/changes`.
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
  formatChangeFeedCursor,
  parseChangeFeedStart,
  requiredEndpointsByDataset,
} from "../../contract/endpoints/changes.ts"
import { toSymbolKey } from "../../contract/rules/Tickers.ts"
import { wantsDatasetsSql } from "./WebhookEndpoints.ts"
import { WebhooksConfig } from "./WebhookSettings.ts"
import { describeFailure } from "../../postgres/FailureText.ts"

/** Maximum number of changes that one statement reads. */
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
  /** The moment of its creation: the endpoint only gets what was recorded later. */
  since: Schema.String,
})
type Subscriber = typeof Subscriber.Type

/** Returns the datasets that an endpoint subscribes to and its account may read. */
const listDatasets = ({ datasets, tier }: Subscriber) =>
  changeFeedDatasets.filter((dataset) =>
    datasets?.includes(dataset) !== false &&
    requiredEndpointsByDataset[dataset].every((endpoint) =>
      isTierSufficient(tier, getEndpointAccess(endpoint).required_tier)
    )
  )

/** Returns the value of a key. If the map does not have it, it is created and added. */
const getOrAdd = <K, V>(map: Map<K, V>, key: K, make: () => V) => {
  const found = map.get(key) ?? make()
  map.set(key, found)
  return found
}

/** Counts what changed in one dataset, of the symbols that one endpoint subscribes to. */
class DatasetTally {
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

/**
 * Counts the changes of one transaction for each endpoint. Endpoints that subscribe to all symbols share one tally per
 * dataset.
 */
class TransactionTally {
  readonly recordedAt: string
  readonly #all = new Map<string, DatasetTally>()
  readonly #selected = new Map<Subscriber, Map<string, DatasetTally>>()

  constructor(recordedAt: string) {
    this.recordedAt = recordedAt
  }

  add(change: RowChangeSummary, byTicker: ReadonlyMap<string, ReadonlySet<Subscriber>>) {
    const getTally = (tallies: Map<string, DatasetTally>) => getOrAdd(tallies, change.dataset, () => new DatasetTally())
    getTally(this.#all).add(change, () => true)
    const wanting = new Set(change.tickers.flatMap((ticker) => [...byTicker.get(toSymbolKey(ticker)) ?? []]))
    for (const subscriber of wanting) {
      const tallies = getOrAdd(this.#selected, subscriber, () => new Map<string, DatasetTally>())
      getTally(tallies).add(change, (ticker) => byTicker.get(toSymbolKey(ticker))?.has(subscriber) === true)
    }
  }

  /** Returns the tallies of an endpoint by dataset. */
  tallyFor(subscriber: Subscriber): ReadonlyMap<string, DatasetTally> {
    return subscriber.tickers === null ? this.#all : this.#selected.get(subscriber) ?? new Map()
  }
}

/** Returns the cursors before and after the transaction of a change. */
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

/** Returns the messages about a transaction. */
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

type FeedPage = Effect.Success<ReturnType<ChangeFeedReader["Service"]["summarizePage"]>>

/** A change with its place in the feed. */
type PlacedChange = FeedPage["changes"][number]

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

/** Queues messages. However often and concurrently this runs, each message is queued once, because of its key. */
const queueMessages = Effect.fnUntraced(function* (messages: ReadonlyArray<Message>) {
  const sql = yield* SqlClient.SqlClient
  for (let start = 0; start < messages.length; start += messagesPerStatement) {
    // The inner query sorts the messages before the function is called, because they get their order from the calls.
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

/**
 * Moves the place in the feed, unless another process or a new endpoint has moved it in the meantime. Returns whether
 * it was moved.
 */
const moveFeed = Effect.fnUntraced(function* (from: string | null, to: string) {
  const sql = yield* SqlClient.SqlClient
  const moved = yield* sql`
    update webhook_feed set cursor = ${to} where cursor is not distinct from ${from}::text returning cursor
  `
  return moved.length === 1
})

/** Returns the subscribers to each symbol, by the key that all spellings of the symbol share (D41). */
const indexByTicker = (subscribers: ReadonlyArray<Subscriber>) => {
  const byTicker = new Map<string, Set<Subscriber>>()
  for (const subscriber of subscribers) {
    for (const ticker of subscriber.tickers ?? []) {
      getOrAdd(byTicker, toSymbolKey(ticker), () => new Set<Subscriber>()).add(subscriber)
    }
  }
  return byTicker
}

interface CountedTransaction {
  readonly cursors: TransactionCursors
  readonly tally: TransactionTally
}

/**
 * Groups changes by transaction. A transaction may continue on the next page, so it stays open until another begins.
 */
const makeTransactionGrouper = (byTicker: ReadonlyMap<string, ReadonlySet<Subscriber>>) => {
  let open: CountedTransaction | undefined
  return {
    /**
     * Adds a change. If it belongs to a different transaction than the previous change, returns that earlier
     * transaction, which is complete.
     */
    add: (change: PlacedChange): CountedTransaction | undefined => {
      const cursors = getTransactionCursors(change.cursor)
      const previous = open
      const isSame = previous?.cursors.after === cursors.after
      const current = isSame ? previous : { cursors, tally: new TransactionTally(change.recordedAt) }
      current.tally.add(change, byTicker)
      open = current
      return isSame ? undefined : previous
    },
    /** Returns the open transaction, to which no further change belongs. */
    close: () => {
      const last = open
      open = undefined
      return last
    },
  }
}

/**
 * Queues the messages about the transactions that end on a page of the feed. Returns the place in the feed after them;
 * undefined if no transaction ends there.
 */
const queuePage = Effect.fnUntraced(function* (
  page: FeedPage,
  transactions: ReturnType<typeof makeTransactionGrouper>,
  subscribers: ReadonlyArray<Subscriber>,
  baseUrl: string,
) {
  const messages: Array<Message> = []
  let end: string | undefined
  const queueTransaction = Effect.fnUntraced(function* ({ cursors, tally }: CountedTransaction) {
    messages.push(...makeMessages(tally, cursors, subscribers, baseUrl))
    end = cursors.after
    // Bounds the memory that the messages on a page take.
    if (messages.length >= messagesPerStatement) yield* queueMessages(messages.splice(0))
  })
  for (const change of page.changes) {
    const ended = transactions.add(change)
    if (ended !== undefined) yield* queueTransaction(ended)
  }
  const last = page.hasMore ? undefined : transactions.close()
  if (last !== undefined) yield* queueTransaction(last)
  yield* queueMessages(messages)
  return page.hasMore ? end : page.cursor
})

/** Reads the feed page by page from the stored place, queues messages, and moves the place. */
const queueNewTransactions = Effect.fnUntraced(function* (baseUrl: string, limit: number) {
  const subscribers = yield* readSubscribers
  const datasets = Array.from(new Set(subscribers.flatMap(listDatasets)))
  if (datasets.length === 0) return
  const { summarizePage } = yield* ChangeFeedReader
  const sql = yield* SqlClient.SqlClient
  const filter = { ...allChangesFilter, datasets }
  const transactions = makeTransactionGrouper(indexByTicker(subscribers))
  const [place] = yield* decodePlace(sql`select cursor from webhook_feed`)
  let queuedUntil = place?.cursor ?? null
  let position = queuedUntil ?? "now"

  while (true) {
    const page = yield* summarizePage(parseChangeFeedStart(position), filter, limit).pipe(
      Effect.catchTag("CursorExpired", ({ error }) =>
        Effect.andThen(
          Effect.logWarning(`Webhooks lack changes of datasets before now. ${error.message}`),
          summarizePage({ _tag: "Now" }, filter, limit),
        )),
    )
    // If an endpoint was created before the page was read, it may want these changes. The next run knows all endpoints.
    if (formatIds(yield* readSubscribers) !== formatIds(subscribers)) return
    const end = yield* queuePage(page, transactions, subscribers, baseUrl)
    if (end !== undefined && end !== queuedUntil) {
      if (!(yield* moveFeed(queuedUntil, end))) return
      queuedUntil = end
    }
    if (!page.hasMore) return
    position = page.cursor
  }
})

/**
 * Queues the messages about all transactions since the last call. Their URLs begin with `baseUrl`. At most `limit`
 * changes are read at a time.
 */
export const queueDatasetEvents = (baseUrl: string, limit = pageSize) =>
  Effect.mapError(
    queueNewTransactions(baseUrl, limit),
    (error) => ({ message: describeFailure(error) }),
  )

/**
 * Runs only if `WEBHOOKS` is on. It need not check its lease: even if two processes run it, each message is queued
 * once.
 */
export const datasetEventsJob = {
  name: "webhook-events",
  every: Duration.seconds(1),
  prepare: Effect.fnUntraced(function* () {
    const baseUrl = yield* BaseUrl
    return (yield* WebhooksConfig) === "on" ? Option.some(queueDatasetEvents(baseUrl)) : Option.none()
  }),
} satisfies Job<Config.ConfigError, ChangeFeedReader | SqlClient.SqlClient>
