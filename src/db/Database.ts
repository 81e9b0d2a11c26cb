/** Reads from PostgreSQL through one pool, with a time limit and retries (§7.2, errors; §8, database load). */
import { PgClient } from "@effect/sql-pg"
import { Config, Context, Duration, Effect, Layer, Metric, type Redacted, Schedule, Schema } from "effect"
import { SqlError } from "effect/sql"
import { RequestContext } from "../http/RequestContext.ts"
import { initializeCounters, registerCounter, registerGauge } from "../observability/CallbackMetrics.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../rules/Errors.ts"
import { monotonicMillis } from "../observability/MonotonicTime.ts"
import { makePoolQueue } from "./pool/PoolQueue.ts"
import { DirectConnection, makeSessionConfig } from "./pool/Session.ts"
import { describeSqlError, isConnectionLost, isLockTimeout, isStatementTimeout } from "./SqlState.ts"

/** Ends a read from a server that stopped responding. A working server ends a statement itself after 30 seconds. */
const readTimeout = Duration.seconds(36)

export interface DatabaseClientOptions {
  readonly url: Redacted.Redacted
  readonly applicationName: string
  /** The URL of PostgreSQL itself, if `url` names a pooler in transaction mode. */
  readonly direct?: Redacted.Redacted
}

export const PoolSize = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1000 })),
  "DATABASE_POOL_SIZE",
).pipe(Config.withDefault(10))
export const PoolTimeout = Config.Duration("DATABASE_POOL_TIMEOUT").pipe(Config.withDefault(Duration.seconds(5)))

/** Provides the pool as `SqlClient`, and `DirectConnection` for work that needs a session. */
export const databaseClientLayer = ({ applicationName, direct, url }: DatabaseClientOptions) =>
  Layer.unwrap(Effect.gen(function* () {
    const pool = yield* makeSessionConfig({ url, applicationName, pooled: direct !== undefined })
    const connection = direct === undefined
      ? { ...pool, pooler: undefined }
      : { ...yield* makeSessionConfig({ url: direct, applicationName, pooled: false }), pooler: pool }
    return Layer.merge(
      PgClient.layer({ ...pool.config, maxConnections: yield* PoolSize }),
      Layer.succeed(DirectConnection, connection),
    )
  }))

export const makeRetryCounter = (why: "locked" | "lost" | "replica" | "conflict") =>
  Metric.counter("tickerline_database_retries_total", {
    description: "Retried reads, by cause: a locked table, a lost connection, a lost replica, or a conflict with a " +
      "replica's recovery.",
    attributes: { why },
    incremental: true,
  })

interface RetryPolicy {
  readonly counter: ReturnType<typeof makeRetryCounter>
  readonly when: (error: unknown) => boolean
  readonly delay: Duration.Duration
  readonly times: number
}

/** One automatic retry, two seconds after a lock timeout (§7.2). */
const lockRetry: RetryPolicy = {
  counter: makeRetryCounter("locked"),
  when: isLockTimeout,
  delay: Duration.seconds(2),
  times: 1,
}

/** The delay gives the pool time to discard the connections that the server has closed. */
const connectionRetry: RetryPolicy = {
  counter: makeRetryCounter("lost"),
  when: isConnectionLost,
  delay: Duration.millis(50),
  times: 3,
}

const withRetry = ({ counter, delay, times, when }: RetryPolicy) => <A, E, R>(query: Effect.Effect<A, E, R>) =>
  // A schedule is created only after a failure, so that a successful read does not pay for it.
  Effect.catchIf(query, when, () =>
    query.pipe(
      Effect.retry({ while: when, schedule: Schedule.spaced(delay), times: times - 1 }),
      Effect.delay(delay),
      (retry) => Effect.andThen(Metric.update(counter, 1), retry),
    ))

const makeDataRefreshingError = () =>
  new DataRefreshing({ error: { message: "Data is being refreshed. Retry in a few seconds." } })

export const makePoolTimeoutError = () =>
  new DatabasePoolTimeout({
    error: { message: "Database connections are temporarily saturated. Retry in a few seconds." },
  })

export type ReadFailure = SqlError.SqlError | Schema.SchemaError

type Read<A, R> = Effect.Effect<A, ReadFailure | DataRefreshing | DatabasePoolTimeout, R>

/** Runs `query` on a replica, in the pool partition of `route`. If no replica can run it, runs `primary`. */
export type ReplicaReader = <A, R>(
  query: Effect.Effect<A, ReadFailure, R>,
  route: string,
  primary: Read<A, R>,
) => Read<A, R>

/**
 * Set only by `lists/QueryCache.ts`, for results that are the same for all accounts. If unset, as for accounts, keys,
 * usage and balances, the query runs on the primary.
 */
export const ReplicaReader = Context.Reference<ReplicaReader | undefined>("tickerline/db/ReplicaReader", {
  defaultValue: () => undefined,
})

const isReadFailure = (error: unknown): error is ReadFailure =>
  SqlError.isSqlError(error) || Schema.isSchemaError(error)

/** Errors that may be gone when the client retries become 503 responses. All others are bugs. */
const toApiError = (error: ReadFailure) =>
  isLockTimeout(error) || isStatementTimeout(error)
    ? Effect.fail(makeDataRefreshingError())
    : SqlError.isSqlError(error) && isConnectionLost(error)
    ? Effect.andThen(
      Effect.logWarning(`The database cannot be reached: ${describeSqlError(error)}`),
      Effect.fail(makePoolTimeoutError()),
    )
    : Effect.die(error)

/**
 * Milliseconds after which a lost connection is not retried: a pooler probably dropped it after a long wait in the
 * pooler's queue, and a retry would wait there again.
 */
const maxConnectionRetryAge = Duration.toMillis(Duration.seconds(4))

const retryLostConnection = <A, E, R>(query: Effect.Effect<A, E, R>) =>
  Effect.flatMap(monotonicMillis, (now) => {
    const startedAt = now()
    const when = (error: unknown) => isConnectionLost(error) && now() - startedAt < maxConnectionRetryAge
    return withRetry({ ...connectionRetry, when })(query)
  })

/** Runs a read with retries and a time limit, and converts its failures to API errors. */
export const retryRead = <A, R>(query: Read<A, R>) =>
  query.pipe(
    retryLostConnection,
    Effect.timeoutOrElse({ duration: readTimeout, orElse: () => Effect.fail(makeDataRefreshingError()) }),
    withRetry(lockRetry),
    Effect.catch((error) => isReadFailure(error) ? toApiError(error) : Effect.fail(error)),
  )

/** Reads for the API. Failed reads are repeated, so that clients hardly notice a restart of PostgreSQL. */
export class Database extends Context.Service<Database, {
  /**
   * Runs a query once its partition of the pool has a free connection. The default partition is the request's endpoint.
   * Work for several endpoints has its own partition, so that it never waits for an endpoint with a locked table.
   */
  readonly read: <A, R>(
    query: Effect.Effect<A, ReadFailure, R>,
    partition?: string,
  ) => Effect.Effect<A, DataRefreshing | DatabasePoolTimeout, R>
}>()("tickerline/db/Database") {
  static readonly layer = Layer.effect(
    Database,
    Effect.gen(function* () {
      yield* initializeCounters(lockRetry.counter, connectionRetry.counter)
      // Queues in front of the driver's pool, with one permit per connection, because that pool waits without a limit.
      const permits = yield* PoolSize
      let timeouts = 0
      const { permitsInUse, waiterCount, withPermit } = makePoolQueue({
        permits,
        timeout: yield* PoolTimeout,
        onTimeout: () => {
          timeouts += 1
          return makePoolTimeoutError()
        },
      })
      yield* registerGauge({
        name: "tickerline_database_pool_connections",
        description: "Size of the connection pool.",
        read: () => permits,
      })
      yield* registerGauge({
        name: "tickerline_database_pool_connections_used",
        description: "Pool connections in use.",
        read: permitsInUse,
      })
      yield* registerGauge({
        name: "tickerline_database_pool_waiting",
        description: "Reads that are waiting for a connection.",
        read: waiterCount,
      })
      yield* registerCounter({
        name: "tickerline_database_pool_timeouts_total",
        description: "Reads that timed out while waiting for a connection.",
        read: () => timeouts,
      })

      const read = <A, R>(query: Effect.Effect<A, ReadFailure, R>, partition?: string) =>
        retryRead(Effect.flatMap(RequestContext, ({ route = "" }) => {
          const primary = withPermit(partition ?? route)(query)
          return Effect.flatMap(
            ReplicaReader,
            (readReplica): Read<A, R> => readReplica === undefined ? primary : readReplica(query, route, primary),
          )
        }))
      return Database.of({ read })
    }),
  )
}
