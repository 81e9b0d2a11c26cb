/**
 * Resolves a timestamp to the set of transactions that had been committed by then
 * (docs/decisions/0114-as-of.md).
 */
import { Context, Duration, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { LRUCache } from "lru-cache"
import { compileStatement } from "../../postgres/CompiledStatement.ts"
import { DatabaseReader } from "../../postgres/DatabaseReader.ts"
import { decodePositionalRows } from "../../postgres/DecodeRows.ts"
import { DatasetVersions } from "../../postgres/versions/DatasetVersions.ts"
import { makeMonotonicClock } from "../../postgres/metrics/MonotonicTime.ts"
import {
  AsOfTooEarly,
  type DatabasePoolTimeout,
  type DataRefreshing,
  makeDataRefreshingError,
  makeFieldError,
  type ValidationError,
} from "../../contract/rules/ApiErrors.ts"
import type { TransactionLedgerState } from "../../postgres/versions/TransactionLedgerState.ts"

/** A past timestamp, and which transactions had been committed by then. */
export interface ResolvedTimestamp {
  /** The timestamp as text, such as `2026-03-01T10:00:00.123456-05:00`. */
  readonly timestamp: string
  /**
   * The highest transaction id that had been assigned when the last transaction at or before the timestamp committed.
   */
  readonly bound: string
  /**
   * The first month, such as `2026-03-01`, that may contain row versions that were replaced after the timestamp.
   * `-infinity` if it is not known.
   */
  readonly month: string
  /**
   * The ids of transactions up to `bound` that committed after the timestamp. Usually there are none. Undefined if such
   * a transaction may still be running, because its id is not visible yet.
   */
  readonly running: ReadonlyArray<string> | undefined
  /** Whether so many requests use this timestamp that preparing their statements is worthwhile. */
  readonly isPopular: boolean
}

/**
 * After this many requests for the same timestamp, statements for it are prepared. If they were always prepared, they
 * would displace the prepared statements for current data.
 */
const minPopularRequests = 20

/** Returns a query for the transactions with ids up to `bound` that committed after `timestamp`. */
const makeRunningQuery = (selection: string, bound: string, timestamp: string) =>
  `select ${selection} from history.transactions
    where int8range(id, highest_id, '[]') @> ${bound}::bigint and recorded_at > '${timestamp}'::timestamptz`

/** Returns SQL for an array of transaction ids: those up to `bound` whose transactions committed after `timestamp`. */
export const makeRunningTransactionIdsSql = ({ bound, timestamp }: Pick<ResolvedTimestamp, "bound" | "timestamp">) =>
  `array(${makeRunningQuery("id", bound, timestamp)})`

/** Maximum time to wait until all transactions up to a timestamp are visible. A commit takes milliseconds. */
const settlingTimeout = Duration.seconds(5)

/** The maximum age of the data returned for `as_of=now`. It is the same as without `as_of`. */
const maxLedgerAge = Duration.seconds(1)

/** Maximum number of cached timestamps. */
const maxCachedTimestamps = 10_000

/** All timestamps are resolved on the primary and share one partition of the connection pool. */
const source = { partition: "history", from: "primary" } as const

/** A cached timestamp, and the number of requests that used it. */
interface CachedTimestamp {
  readonly found: ResolvedTimestamp
  requests: number
}

/**
 * Creates the cache of resolved timestamps. Entries are small, because their lists of transactions are usually empty.
 */
export const makeTimestampCache = () =>
  new LRUCache<string, CachedTimestamp>({
    max: maxCachedTimestamps,
    maxSize: 8_388_608,
    sizeCalculation: ({ found: { running = [] } }) => 768 + 48 * running.length,
  })

const makeTooEarlyError = (earliest: string) =>
  new AsOfTooEarly({
    error: { message: `as_of is too early: the history begins at ${earliest}.`, details: { earliest } },
  })

const futureReason = "is in the future. A date means the end of that day in New York, so today's date is in the " +
  "future, too: use an earlier date or a timestamp"

// The result rows of the two statements that resolve a timestamp.
const Bound = Schema.Struct({ bound: Schema.String, month: Schema.String, has_writers: Schema.Boolean })
const Running = Schema.Struct({ ids: Schema.Array(Schema.String), month: Schema.String })

/**
 * Creates a function that finds out which transactions had been committed by a timestamp (`ResolvedTimestamp`). It must
 * not be called before all transactions up to the timestamp are visible.
 */
const makeTimestampFinder = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const reader = yield* DatabaseReader

  /**
   * Finds `bound` and `month` from the newest transaction at or before the timestamp, and whether any transaction is
   * currently writing. A transaction locks `history.transactions` before it gets its id, so `pg_locks` shows the
   * transaction even while its row is not visible yet. If there is no transaction at or before the timestamp (`newest`
   * is empty), `bound` is 0 and `month` is `-infinity`.
   */
  const compileBound = compileStatement<string>({
    isPrepared: true,
    build: (parameter) =>
      sql`
        select coalesce(highest_id, 0)::text, coalesce(month, '-infinity')::text, exists (
          select from pg_locks
          where locktype = 'relation' and relation = 'history.transactions'::regclass and mode = 'RowExclusiveLock'
            and database = (select oid from pg_database where datname = current_database())
        )
        from (select ${parameter((timestamp) => timestamp)}::text::timestamptz as at) as requested left join lateral (
          select highest_id, month from history.transactions
          where recorded_at <= at order by recorded_at desc limit 1
        ) as newest on true
      `,
  })
  const decodeBound = decodePositionalRows(Bound)
  const decodeRunning = decodePositionalRows(Running)

  const readOne = <A>(rows: Effect.Effect<ReadonlyArray<A>, DataRefreshing | DatabasePoolTimeout>) =>
    Effect.flatMap(rows, ([row]) => Effect.orDie(Effect.fromNullishOr(row)))

  return Effect.fnUntraced(function* (timestamp: string) {
    const { bound, has_writers, month } = yield* readOne(decodeBound(reader.read(compileBound(timestamp), source)))
    // A transaction that is writing may already have an id up to `bound` but no visible row, so the ids of running
    // transactions are not known yet. Each statement that reads past data then looks them up itself.
    if (has_writers) return { timestamp, bound, month: "-infinity", running: undefined, isPopular: false }
    // No writer held the lock, so all transactions up to `bound` had ended, and the next statement will see them.
    const statement = {
      text: `select ${makeRunningTransactionIdsSql({ bound, timestamp })}::text[],
        least('${month}'::date, (${makeRunningQuery("min(month)", bound, timestamp)}))::text`,
      parameters: [],
      isPrepared: false,
    }
    const { ids, month: firstMonth } = yield* readOne(decodeRunning(reader.read(statement, source)))
    return { timestamp, bound, month: firstMonth, running: ids, isPopular: false }
  })
})

/**
 * Creates the functions that resolve `as_of` timestamps. Both wait for the polls of the transaction ledger by
 * `DatasetVersions`. A poll reads the database's clock (`clock`), the earliest timestamp in the history (`earliest`),
 * and the newest timestamp up to which all transactions are visible (`settled`).
 */
const makeAsOfResolver = Effect.gen(function* () {
  const { getLedger, getTimeline, nextPoll } = yield* DatasetVersions
  const find = yield* makeTimestampFinder
  const now = yield* makeMonotonicClock
  const resolved = makeTimestampCache()

  /**
   * Estimates the database's clock. The estimate is never too early. Otherwise a timestamp that has already passed on
   * the database would be rejected as being in the future.
   */
  const estimateClock = ({ clock, polledAt }: TransactionLedgerState) => Date.parse(clock) + now() - polledAt

  /**
   * Waits for polls of the transaction ledger until all transactions up to the timestamp are visible. Fails if the
   * timestamp is before the history begins, or in the future. Timestamps have the same format and offset, so they can
   * be compared as text. `requestedAt` is when the request arrived, on the monotonic clock.
   */
  const waitUntilSettled = (
    timestamp: string,
    requestedAt: number,
  ): Effect.Effect<void, AsOfTooEarly | ValidationError> =>
    Effect.suspend(() => {
      const ledger = getLedger()
      if (ledger !== undefined) {
        if (timestamp < ledger.earliest) return Effect.fail(makeTooEarlyError(ledger.earliest))
        if (ledger.settled !== undefined && timestamp <= ledger.settled) return Effect.void
        // Reject the timestamp only on the basis of a poll that started after the request. The database's clock may
        // have been set forward since an older poll.
        const isCurrent = ledger.polledAt >= requestedAt
        if (isCurrent && Date.parse(timestamp) > estimateClock(ledger)) {
          return Effect.fail(makeFieldError("as_of", futureReason))
        }
      }
      return Effect.andThen(nextPoll, waitUntilSettled(timestamp, requestedAt))
    })

  /**
   * Waits until all transactions up to the timestamp are visible, and resolves it. Fails if the timestamp is too early
   * or in the future.
   */
  const resolve = Effect.fnUntraced(function* (timestamp: string) {
    yield* Effect.timeoutOrElse(waitUntilSettled(timestamp, now()), {
      duration: settlingTimeout,
      orElse: () => Effect.fail(makeDataRefreshingError()),
    })
    // The key includes the timeline, because the ids of transactions that were lost in a failover may be assigned
    // again.
    const key = `${getTimeline()} ${timestamp}`
    const cached = resolved.get(key)
    if (cached !== undefined) {
      cached.requests += 1
      return { ...cached.found, isPopular: cached.requests > minPopularRequests }
    }
    const found: ResolvedTimestamp = yield* find(timestamp)
    // The result is final only if the running transactions are known.
    if (found.running !== undefined) resolved.set(key, { found, requests: 1 })
    return found
  })

  /** Returns the newest timestamp for which all transactions are visible. It is at most one second old. */
  const findNewest = Effect.suspend(function findNewest(): Effect.Effect<string> {
    const ledger = getLedger()
    return ledger?.settled !== undefined && now() - ledger.polledAt <= Duration.toMillis(maxLedgerAge)
      ? Effect.succeed(ledger.settled)
      : Effect.andThen(nextPoll, Effect.suspend(findNewest))
  }).pipe(
    Effect.timeoutOrElse({ duration: settlingTimeout, orElse: () => Effect.fail(makeDataRefreshingError()) }),
  )
  return { findNewest, resolve }
})

/** Resolves the `as_of` timestamps of requests. */
export class AsOfResolver extends Context.Service<AsOfResolver, Effect.Success<typeof makeAsOfResolver>>()(
  "tickerline/query/AsOfResolver",
) {
  static readonly layer = Layer.effect(AsOfResolver, makeAsOfResolver)
}
