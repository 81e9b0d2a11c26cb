/** Reads from PostgreSQL for the API, within the limits of `ReadPolicies.ts` (§7.2, errors; §8, database load). */
import { Context, Effect, Exit, Layer, References } from "effect"
import { SqlClient, Statement } from "effect/sql"
import { initializeCounters, registerCounter, registerGauge } from "./metrics/CallbackMetrics.ts"
import type { DatabasePoolTimeout, DataRefreshing } from "../contract/rules/Errors.ts"
import type { CompiledStatement } from "./CompiledStatement.ts"
import { ConnectionPool } from "./pool/ConnectionPool.ts"
import { toSqlConnection } from "./pool/PooledClient.ts"
import { SharedConnections } from "./pool/SharedConnections.ts"
import { type DatabaseReadError, makeReadPolicies, retryCounters } from "./ReadPolicies.ts"
import type { RequiredTableVersion, SessionQuery } from "./replicas/Replica.ts"
import { ReadRouter } from "./replicas/ReadRouter.ts"

/** A moment in the past. `rewrite` changes a statement so that it reads the tables as they were at that moment. */
export interface PastSource {
  readonly moment: string
  readonly rewrite: (
    statement: CompiledStatement,
  ) => Effect.Effect<CompiledStatement, DataRefreshing | DatabasePoolTimeout>
}

/**
 * Where a read may run: only on the primary; also on a replica that has this version of the tables; or on the primary,
 * as of a past moment.
 */
export type ReadSource = "primary" | RequiredTableVersion | PastSource

/** Options of a read. */
export interface ReadOptions {
  /**
   * Partition of the connection pool: the endpoint's name, or another name for work that must never wait behind an
   * endpoint whose table is locked.
   */
  readonly partition: string
  readonly from: ReadSource
}

/** The rows that a statement returned, each as an array of values in column order. */
export type Rows = ReadonlyArray<ReadonlyArray<unknown>>

/** Reads the rows of a statement from the source that was chosen for the current request. */
export type StatementReader = (
  statement: CompiledStatement,
) => Effect.Effect<Rows, DataRefreshing | DatabasePoolTimeout>

/** Registers the metrics of the pool and the shared connections, which count as one pool to operators. */
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

const makeReader = Effect.gen(function* () {
  yield* initializeCounters(...retryCounters)
  const sql = yield* SqlClient.SqlClient
  const pool = yield* ConnectionPool
  const shared = yield* SharedConnections
  const { hasReplicas, readFromReplica } = yield* ReadRouter
  const withReadPolicies = yield* makeReadPolicies
  yield* registerPoolMetrics(pool, shared)

  /** Makes `SqlClient` use a given connection, as if a transaction had been opened on it. */
  const runOnConnection = <A, R>(query: Effect.Effect<A, DatabaseReadError, R>): SessionQuery<A, R> => (connection) =>
    Effect.provideService(query, sql.transactionService, [toSqlConnection(connection), 0])

  /**
   * Runs `SqlClient` statements on one connection to the primary, with the same policies. Each retry runs the whole
   * effect. `withTransaction` does not work inside it.
   */
  const query = <A, R>(query: Effect.Effect<A, DatabaseReadError, R>, partition: string) =>
    withReadPolicies(pool.use(partition, runOnConnection(query)))

  /**
   * Reads the present: from a replica if `from` allows one, else from the primary. There, a short statement first tries
   * a shared connection, and runs alone if that takes too long.
   */
  const readPresent = (
    statement: CompiledStatement,
    from: Exclude<ReadSource, PastSource>,
    partition: string,
  ) =>
    Effect.withFiber<Rows, DataRefreshing | DatabasePoolTimeout>((fiber) => {
      const { isPrepared, isShort = false, parameters, text } = statement
      let run: SessionQuery<Rows> = (connection) => connection.queryValues(text, parameters, isPrepared)
      const needsClient = fiber.getRef(References.TracerEnabled) ||
        fiber.getRef(Statement.CurrentTransformer) !== undefined
      if (needsClient) {
        // Uses `SqlClient` instead of `queryValues`, which creates no spans and applies no transformer.
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

/** Reads rows for the API, with the pool, the retries and the errors that the specification requires. */
export class Reader extends Context.Service<Reader, Effect.Success<typeof makeReader>>()(
  "tickerline/postgres/Reader",
) {
  static readonly layer = Layer.effect(Reader, makeReader).pipe(Layer.provide(ReadRouter.layer))
}
