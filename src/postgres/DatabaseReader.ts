/**
 * Reads from PostgreSQL on behalf of the API, within the limits in `ReadTimeoutsAndRetries.ts` (§7.2, errors; §8,
 * database load).
 */
import { Context, Effect, Exit, Layer, References } from "effect"
import { SqlClient, Statement } from "effect/sql"
import { initializeCounters, registerCounter, registerGauge } from "./metrics/CallbackMetrics.ts"
import type { DatabasePoolTimeout, DataRefreshing } from "../contract/rules/ApiErrors.ts"
import type { CompiledStatement } from "./CompiledStatement.ts"
import { ConnectionPool } from "./pool/ConnectionPool.ts"
import { toSqlConnection } from "./pool/PooledClient.ts"
import { SharedConnections } from "./pool/SharedConnections.ts"
import { type DatabaseReadError, makeReadPolicies, retriedReadCounters } from "./ReadTimeoutsAndRetries.ts"
import type { RequiredTableVersion, SessionQuery } from "./replicas/Replica.ts"
import { ReadRouter } from "./replicas/ReadRouter.ts"

/** A point in time in the past. `rewrite` changes a statement to read the tables as they were then. */
export interface PastSource {
  /** The point in time as text, such as `2026-03-01T10:00:00.123456-05:00`. */
  readonly timestamp: string
  readonly rewrite: (
    statement: CompiledStatement,
  ) => Effect.Effect<CompiledStatement, DataRefreshing | DatabasePoolTimeout>
}

/**
 * Where a read may run: only on the primary; on the primary or a replica that has this version of the tables; or on the
 * primary as of a past timestamp.
 */
export type ReadSource = "primary" | RequiredTableVersion | PastSource

/** Options for a read. */
export interface ReadOptions {
  /**
   * Partition of the connection pool. This is the endpoint's name, or another name for work that must never queue
   * behind an endpoint with a locked table.
   */
  readonly partition: string
  readonly from: ReadSource
}

/** The rows returned by a statement. Each row is an array of values in column order. */
export type StatementRows = ReadonlyArray<ReadonlyArray<unknown>>

/** Runs a statement against the source chosen for the current request, and returns its rows. */
export type StatementReader = (
  statement: CompiledStatement,
) => Effect.Effect<StatementRows, DataRefreshing | DatabasePoolTimeout>

/**
 * Registers the metrics of the pool and the shared connections, on each of which several statements run at once. They
 * are reported together, as one pool. `read` returns a metric's current value, and is called for each scrape.
 */
const registerPoolMetrics = Effect.fnUntraced(function* (
  pool: ConnectionPool["Service"],
  shared: SharedConnections["Service"],
) {
  yield* registerGauge({
    name: "tickerline_database_pool_connections",
    description: "Size of the connection pool.",
    read: () => pool.size + shared.size,
  })
  yield* registerGauge({
    name: "tickerline_database_pool_connections_used",
    description: "Pool connections in use.",
    read: () => pool.connectionsInUse() + shared.connectionsInUse(),
  })
  yield* registerGauge({
    name: "tickerline_database_pool_waiting",
    description: "Reads that are waiting for a connection.",
    read: pool.waiterCount,
  })
  yield* registerCounter({
    name: "tickerline_database_pool_timeouts_total",
    description: "Reads that timed out while waiting for a connection.",
    read: pool.timeoutCount,
  })
  yield* registerCounter({
    name: "tickerline_database_shared_connections_blocked_total",
    description: "Shared connections that were closed because a statement on them was not answered soon.",
    read: shared.blockedCount,
  })
})

/**
 * Creates the functions with which requests read from PostgreSQL. `read` runs one compiled statement, on the primary, a
 * replica, or past data. `query` runs `SqlClient` statements on the primary. `partition` names the share of the
 * connection pool that the read may use, so that one kind of request cannot take all connections.
 */
const makeDatabaseReader = Effect.gen(function* () {
  yield* initializeCounters(...retriedReadCounters)
  const sql = yield* SqlClient.SqlClient
  const pool = yield* ConnectionPool
  const shared = yield* SharedConnections
  const { hasReplicas, readFromReplica } = yield* ReadRouter
  const withReadPolicies = yield* makeReadPolicies
  yield* registerPoolMetrics(pool, shared)

  /**
   * Makes `SqlClient` use the given connection, as if a transaction were open on it. 0 is the nesting depth of that
   * transaction.
   */
  const runOnConnection = <A, R>(query: Effect.Effect<A, DatabaseReadError, R>): SessionQuery<A, R> => (connection) =>
    Effect.provideService(query, sql.transactionService, [toSqlConnection(connection), 0])

  /**
   * Runs `SqlClient` statements on one connection to the primary, under the same retry and timeout policies as `read`.
   * Each retry repeats the whole effect. `withTransaction` does not work inside it.
   */
  const query = <A, R>(query: Effect.Effect<A, DatabaseReadError, R>, partition: string) =>
    withReadPolicies(pool.use(partition, runOnConnection(query)))

  /**
   * Reads the current data: from a replica if `from` allows one, otherwise from the primary. On the primary, a short
   * statement first tries a shared connection. If that takes too long, the statement runs again on its own connection.
   */
  const readPresent = (
    statement: CompiledStatement,
    from: Exclude<ReadSource, PastSource>,
    partition: string,
  ) =>
    Effect.withFiber<StatementRows, DataRefreshing | DatabasePoolTimeout>((fiber) => {
      const { isPrepared, isShort = false, parameters, text } = statement
      let run: SessionQuery<StatementRows> = (connection) => connection.queryValues(text, parameters, isPrepared)
      const needsClient = fiber.getRef(References.TracerEnabled) ||
        fiber.getRef(Statement.CurrentTransformer) !== undefined
      if (needsClient) {
        // `queryValues` creates no spans and applies no transformer, so this uses `SqlClient` instead.
        const traced = sql.unsafe(text, parameters)
        run = runOnConnection(isPrepared ? traced.values : traced.valuesUnprepared)
      }
      const readPrimary = pool.use(partition, run)
      if (from !== "primary" && hasReplicas) {
        return withReadPolicies(readFromReplica(from, partition, run, readPrimary))
      }
      const readAlone = withReadPolicies(readPrimary)
      return isShort && !needsClient
        ? Effect.flatMap(
          shared.read(partition, statement),
          (rows) => rows === undefined ? readAlone : Exit.succeed(rows),
        )
        : readAlone
    })

  /** Reads the rows of a statement. Failed reads are retried, so clients hardly notice a PostgreSQL restart. */
  const read = (statement: CompiledStatement, { from, partition }: ReadOptions) =>
    typeof from === "object" && "rewrite" in from
      ? Effect.flatMap(from.rewrite(statement), (rewritten) => readPresent(rewritten, "primary", partition))
      : readPresent(statement, from, partition)
  return { read, query }
})

/** Reads rows for the API, with the connection limits, retries and errors that the specification requires. */
export class DatabaseReader extends Context.Service<DatabaseReader, Effect.Success<typeof makeDatabaseReader>>()(
  "tickerline/postgres/DatabaseReader",
) {
  static readonly layer = Layer.effect(DatabaseReader, makeDatabaseReader).pipe(Layer.provide(ReadRouter.layer))
}
