/**
 * The background job that reads the change feed and queues `dataset.changed` messages to webhook endpoints, one for
 * each transaction, dataset and subscribed endpoint. A message does not contain the changed rows. The receiver requests
 * them from `/v1/changes`.
 */
import { type Config, Duration, Effect, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { allChangesFilter, ChangeFeedReader, type RowChangeSummary } from "../../query/history/ChangeFeed.ts"
import { BaseUrl } from "../../api/BaseUrl.ts"
import type { Job } from "../../postgres/jobs/Job.ts"
import { makeHistoryTimestampSql } from "../../contract/rules/Dates.ts"
import { getEndpointAccess, isTierSufficient, Tier } from "../../contract/rules/EndpointAnnotations.ts"
import {
  changeFeedDatasets,
  type ChangeKind,
  formatChangeFeedCursor,
  parseChangeFeedStart,
  requiredEndpointsByDataset,
} from "../../contract/endpoints/changes.ts"
import { toSymbolKey } from "../../contract/rules/Tickers.ts"
import { subscribesToDatasetsSql } from "./WebhookEndpoints.ts"
import { WebhooksConfig } from "./WebhookSettings.ts"
import { describeFailure } from "../../postgres/FailureText.ts"

/** Maximum number of changes read by one statement. */
const pageSize = 1_000

/** Maximum number of webhook messages queued by one statement. */
const messagesPerStatement = 500

/** Maximum number of changed symbols listed in a webhook message. */
const maxListedTickers = 100

const Subscriber = Schema.Struct({
  endpoint_id: Schema.BigInt,
  tier: Tier,
  datasets: Schema.NullOr(Schema.Array(Schema.String)),
  tickers: Schema.NullOr(Schema.Array(Schema.String)),
  /**
   * When the endpoint was created. It only gets changes recorded after this time, in the same format as `recordedAt` of
   * a change.
   */
  since: Schema.String,
})
type Subscriber = typeof Subscriber.Type

/** Returns the datasets that the endpoint subscribes to and its account may read. */
const listDatasets = ({ datasets, tier }: Subscriber) =>
  changeFeedDatasets.filter((dataset) =>
    datasets?.includes(dataset) !== false &&
    requiredEndpointsByDataset[dataset].every((endpoint) =>
      isTierSufficient(tier, getEndpointAccess(endpoint).required_tier)
    )
  )

/** Returns the value for a key. If the map does not contain the key, creates the value and adds it. */
const getOrAdd = <K, V>(map: Map<K, V>, key: K, make: () => V) => {
  const found = map.get(key) ?? make()
  map.set(key, found)
  return found
}

/** Counts the changes in one dataset by kind, and collects the changed symbols. */
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
 * Counts the changes of one transaction for each subscribed endpoint. Endpoints that subscribe to all symbols share one
 * tally per dataset; every other endpoint has its own.
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

  /**
   * Returns what an endpoint is told about the transaction: a tally for each changed dataset, by the dataset's name.
   */
  tallyFor(subscriber: Subscriber): ReadonlyMap<string, DatasetTally> {
    return subscriber.tickers === null ? this.#all : this.#selected.get(subscriber) ?? new Map()
  }
}

/**
 * Returns two positions in the change feed: before the first and after the last change of the transaction that contains
 * a change. `cursor` is the position of that change.
 */
const getTransactionCursors = (cursor: string) => {
  const start = parseChangeFeedStart(cursor)
  if (start._tag !== "Cursor") throw new Error(`${cursor} is not the cursor of a change`)
  const { mark, transaction } = start
  return {
    before: formatChangeFeedCursor({ mark, transaction, position: "0" }),
    after: formatChangeFeedCursor({ mark, transaction, position: undefined }),
  }
}

type TransactionCursors = ReturnType<typeof getTransactionCursors>

/**
 * Creates the messages about a transaction, one for each endpoint that subscribes to it and each changed dataset. An
 * endpoint that was created after the transaction (`since`) gets none. Each message contains the number of changes, and
 * a link with which the receiver reads them: it starts at the cursor `before` the transaction. `after` is the cursor
 * after the transaction.
 */
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

/** A change, with its position in the change feed. */
type PositionedChange = FeedPage["changes"][number]

const decodeFeedPosition = decodeRows(Schema.Struct({ cursor: Schema.NullOr(Schema.String) }))

const readSubscribers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* decodeRows(Subscriber)(sql`
    select endpoint_id, tier, datasets, tickers,
      ${sql.literal(makeHistoryTimestampSql("webhook_endpoints.created_at"))} as since
    from webhook_endpoints join accounts using (account_id)
    where ${sql.literal(subscribesToDatasetsSql)} order by endpoint_id
  `)
})

const formatIds = (subscribers: ReadonlyArray<Subscriber>) => subscribers.map(({ endpoint_id }) => endpoint_id).join()

/**
 * Queues messages in the order of the array, `messagesPerStatement` with each statement. Repeated and concurrent runs
 * queue each message only once, because `event_key` identifies it among the messages of its endpoint.
 */
const queueMessages = Effect.fnUntraced(function* (messages: ReadonlyArray<Message>) {
  const sql = yield* SqlClient.SqlClient
  for (let start = 0; start < messages.length; start += messagesPerStatement) {
    // `enqueue_webhook_message` numbers the messages in the order of its calls. The inner query sorts them before the
    // function is called.
    yield* sql`
      select enqueue_webhook_message(endpoint_id, 'dataset.changed', data, event_key)
      from (
        select * from rows from (
          json_to_recordset(${JSON.stringify(messages.slice(start, start + messagesPerStatement))}::text::json)
            as (endpoint_id bigint, event_key text, data json)
        ) with ordinality as message (endpoint_id, event_key, data, number) order by number
      ) as message
    `
  }
})

/**
 * Moves the feed position up to which messages have been queued, which is stored in `webhook_feed`. Does not move it if
 * another process, or the creation of an endpoint, has moved it in the meantime. Returns whether it was moved.
 */
const advanceFeedPosition = Effect.fnUntraced(function* (from: string | null, to: string) {
  const sql = yield* SqlClient.SqlClient
  const moved = yield* sql`
    update webhook_feed set cursor = ${to} where cursor is not distinct from ${from}::text returning cursor
  `
  return moved.length === 1
})

/**
 * Returns the endpoints that subscribe to each symbol. A symbol is looked up by the key that all of its spellings share
 * (D41).
 */
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
 * Groups the changes of the feed by transaction, and counts them. The changes must be added in the order of the feed. A
 * transaction may continue on the next page of the feed, so it stays open until another one begins. `byTicker` contains
 * the endpoints that subscribe to single symbols, for which a transaction's changes are counted separately.
 */
const makeTransactionGrouper = (byTicker: ReadonlyMap<string, ReadonlySet<Subscriber>>) => {
  let open: CountedTransaction | undefined
  return {
    /**
     * Adds a change. If the change begins a new transaction, returns the previous transaction, which is then complete.
     */
    add: (change: PositionedChange): CountedTransaction | undefined => {
      const cursors = getTransactionCursors(change.cursor)
      const previous = open
      // The feed position after a transaction identifies it.
      const isSame = previous?.cursors.after === cursors.after
      const current = isSame ? previous : { cursors, tally: new TransactionTally(change.recordedAt) }
      current.tally.add(change, byTicker)
      open = current
      return isSame ? undefined : previous
    },
    /** Closes and returns the open transaction. Must be called only when no more changes can belong to it. */
    close: () => {
      const last = open
      open = undefined
      return last
    },
  }
}

/**
 * Queues the messages about all transactions that end on a page of the feed. Returns the feed position after these
 * transactions, or undefined if no transaction ends on the page.
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
    // Queue full batches immediately, which limits how much memory the messages for one page take.
    if (messages.length >= messagesPerStatement) yield* queueMessages(messages.splice(0))
  })
  for (const change of page.changes) {
    const ended = transactions.add(change)
    if (ended !== undefined) yield* queueTransaction(ended)
  }
  // The last transaction of a page may continue on the next page, but not on the feed's last page.
  const last = page.hasMore ? undefined : transactions.close()
  if (last !== undefined) yield* queueTransaction(last)
  yield* queueMessages(messages)
  return page.hasMore ? end : page.cursor
})

/**
 * Reads the change feed page by page, starting at the position stored in `webhook_feed`. Queues the messages for each
 * page, and then moves the position to the end of the last transaction whose messages have been queued
 * (`queuedUntil`). A page may end within a transaction, so reading continues at a different position (`readUntil`).
 *
 * Stops if another process has moved the stored position, because that process queues the same messages.
 */
const queueNewTransactions = Effect.fnUntraced(function* (baseUrl: string, limit: number) {
  const subscribers = yield* readSubscribers
  const datasets = Array.from(new Set(subscribers.flatMap(listDatasets)))
  if (datasets.length === 0) return
  const { summarizePage } = yield* ChangeFeedReader
  const sql = yield* SqlClient.SqlClient
  const filter = { ...allChangesFilter, datasets }
  const transactions = makeTransactionGrouper(indexByTicker(subscribers))
  const [feedPosition] = yield* decodeFeedPosition(sql`select cursor from webhook_feed`)
  let queuedUntil = feedPosition?.cursor ?? null
  let readUntil = queuedUntil ?? "now"

  while (true) {
    const page = yield* summarizePage(parseChangeFeedStart(readUntil), filter, limit).pipe(
      Effect.catchTag("CursorExpired", ({ error }) =>
        Effect.andThen(
          Effect.logWarning(`Webhooks lack changes of datasets before now. ${error.message}`),
          summarizePage({ _tag: "Now" }, filter, limit),
        )),
    )
    // An endpoint created before the page was read may subscribe to these changes. In that case, stop here: the next
    // run reads all endpoints again.
    if (formatIds(yield* readSubscribers) !== formatIds(subscribers)) return
    const end = yield* queuePage(page, transactions, subscribers, baseUrl)
    if (end !== undefined && end !== queuedUntil) {
      if (!(yield* advanceFeedPosition(queuedUntil, end))) return
      queuedUntil = end
    }
    if (!page.hasMore) return
    readUntil = page.cursor
  }
})

/**
 * Queues the messages about all transactions since the last call. URLs in the messages begin with `baseUrl`. `limit` is
 * the maximum number of changes to read with one statement.
 */
export const queueDatasetEvents = (baseUrl: string, limit = pageSize) =>
  Effect.mapError(
    queueNewTransactions(baseUrl, limit),
    (error) => ({ message: describeFailure(error) }),
  )

/**
 * The job runs only if `WEBHOOKS` is `on`. It does not need to check its lease: even if two processes run it at the
 * same time, each message is queued only once.
 */
export const datasetEventsJob = {
  name: "webhook-events",
  every: Duration.seconds(1),
  prepare: Effect.fnUntraced(function* () {
    const baseUrl = yield* BaseUrl
    return (yield* WebhooksConfig) === "on" ? Option.some(queueDatasetEvents(baseUrl)) : Option.none()
  }),
} satisfies Job<Config.ConfigError, ChangeFeedReader | SqlClient.SqlClient>
