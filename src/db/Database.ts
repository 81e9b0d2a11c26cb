/** Reads from PostgreSQL through one pool, with a time limit and retries (§7.2, errors; §8, database load). */
import { type PgConnection, PgPool } from "@effect/sql-pg"
import { Config, Context, Effect, Layer, type Redacted, References, Schema } from "effect"
import { SqlClient, Statement } from "effect/sql"
import { RequestContext } from "../http/RequestContext.ts"
import { initializeCounters, registerCounter, registerGauge } from "../observability/CallbackMetrics.ts"
import type { DatabasePoolTimeout, DataRefreshing } from "../rules/Errors.ts"
import type { CompiledStatement } from "./CompiledStatement.ts"
import { pooledClientLayer, toSqlConnection } from "./pool/PooledClient.ts"
import { makePoolQueue } from "./pool/PoolQueue.ts"
import { DirectConnectionConfig, makeConnectionConfig } from "./pool/ConnectionSettings.ts"
import {
  type DatabaseRead,
  type DatabaseReadError,
  makePoolTimeoutError,
  makeReadPolicies,
  poolTimeout,
  retryCounters,
} from "./ReadPolicies.ts"

export interface DatabaseClientOptions {
  readonly url: Redacted.Redacted
  readonly applicationName: string
  /** The URL of PostgreSQL itself, if `url` names a pooler in transaction mode. */
  readonly direct?: Redacted.Redacted
}

export const DatabasePoolSizeConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1000 })),
  "DATABASE_POOL_SIZE",
).pipe(Config.withDefault(10))

/** Provides the pool, also as `SqlClient`, and `DirectConnectionConfig` for work that needs a session. */
export const databaseClientLayer = ({ applicationName, direct, url }: DatabaseClientOptions) =>
  Layer.unwrap(Effect.gen(function* () {
    const pool = yield* makeConnectionConfig({ url, applicationName, pooled: direct !== undefined })
    const connection = direct === undefined
      ? { ...pool, pooler: undefined }
      : { ...yield* makeConnectionConfig({ url: direct, applicationName, pooled: false }), pooler: pool }
    return Layer.merge(
      pooledClientLayer({ ...pool.config, maxConnections: yield* DatabasePoolSizeConfig }),
      Layer.succeed(DirectConnectionConfig, connection),
    )
  }))

/** A query that runs on the given connection, whether it leads to the primary or to a replica. */
export type SessionQuery<A, R> = (session: PgConnection.PgConnection) => Effect.Effect<A, DatabaseReadError, R>

/** Runs `query` on a replica, in the pool partition of `route`. If no replica can run it, runs `primary`. */
export type ReplicaReader = <A, R>(
  query: SessionQuery<A, R>,
  route: string,
  primary: DatabaseRead<A, R>,
) => DatabaseRead<A, R>

/**
 * Set only by `lists/QueryCache.ts`, for results that are the same for all accounts. If unset, as for accounts, keys,
 * usage and balances, the query runs on the primary.
 */
export const ReplicaReader = Context.Reference<ReplicaReader | undefined>("tickerline/db/ReplicaReader", {
  defaultValue: () => undefined,
})

/** Rewrites a statement before it runs, for example so that it reads a past state. */
export type StatementRewriter = (
  statement: CompiledStatement,
) => Effect.Effect<CompiledStatement, DataRefreshing | DatabasePoolTimeout>

/** Set only by `history/AsOf.ts`, for requests with `as_of`. It applies to the statements of lists and lineages. */
export const StatementRewriter = Context.Reference<StatementRewriter | undefined>("tickerline/db/StatementRewriter", {
  defaultValue: () => undefined,
})

/** Applies the request's `StatementRewriter`, if it has one. */
export const rewriteStatement = (statement: CompiledStatement) =>
  Effect.flatMap(StatementRewriter, (rewrite) => rewrite === undefined ? Effect.succeed(statement) : rewrite(statement))

/** Reads for the API. Failed reads are retried, so clients hardly notice a PostgreSQL restart. */
export class Database extends Context.Service<Database, {
  /**
   * Runs a query once its partition of the pool has a free connection. The default partition is the request's endpoint.
   * Work for several endpoints has its own partition, so that it never waits for an endpoint with a locked table.
   */
  readonly read: <A, R>(
    query: Effect.Effect<A, DatabaseReadError, R>,
    partition?: string,
  ) => Effect.Effect<A, DataRefreshing | DatabasePoolTimeout, R>
  /** Like `read`, but returns the values of one statement. Cheaper, because untraced reads bypass `SqlClient`. */
  readonly readValues: (
    statement: CompiledStatement,
    partition?: string,
  ) => Effect.Effect<ReadonlyArray<ReadonlyArray<unknown>>, DataRefreshing | DatabasePoolTimeout>
}>()("tickerline/db/Database") {
  static readonly layer = Layer.effect(
    Database,
    Effect.gen(function* () {
      yield* initializeCounters(...retryCounters)
      const sql = yield* SqlClient.SqlClient
      const pool = yield* PgPool.PgPool
      const withReadPolicies = yield* makeReadPolicies
      // The driver's pool has no time limit for waiting, so reads wait in this queue. It has one permit per connection.
      const permits = yield* DatabasePoolSizeConfig
      let timeouts = 0
      const { permitsInUse, waiterCount, withPermit } = yield* makePoolQueue({
        permits,
        timeout: yield* poolTimeout,
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

      const readFrom = <A, R>(
        onPrimary: Effect.Effect<A, DatabaseReadError, R>,
        onReplica: SessionQuery<A, R>,
        partition: string | undefined,
      ) =>
        Effect.withFiber<A, DataRefreshing | DatabasePoolTimeout, R>((fiber) => {
          const route = partition ?? fiber.getRef(RequestContext).response.route ?? ""
          const readReplica = fiber.getRef(ReplicaReader)
          const primary = withPermit(route)(onPrimary)
          // Suspended, so that each retry chooses a replica anew.
          return withReadPolicies(
            readReplica === undefined ? primary : Effect.suspend(() => readReplica(onReplica, route, primary)),
          )
        })

      const readQuery = <A, R>(query: Effect.Effect<A, DatabaseReadError, R>, partition?: string) =>
        readFrom(
          query,
          (session) => Effect.provideService(query, sql.transactionService, [toSqlConnection(session), 0]),
          partition,
        )

      /** Dies in requests with `as_of`: only compiled statements can be rewritten to read the past. */
      const read = <A, R>(query: Effect.Effect<A, DatabaseReadError, R>, partition?: string) =>
        Effect.flatMap(
          StatementRewriter,
          (rewrite) =>
            rewrite === undefined
              ? readQuery(query, partition)
              : Effect.die(new Error("A request with as_of can run compiled statements only")),
        )

      const readStatement = ({ isPrepared, parameters, text }: CompiledStatement, partition?: string) =>
        Effect.withFiber<ReadonlyArray<ReadonlyArray<unknown>>, DataRefreshing | DatabasePoolTimeout>((fiber) => {
          if (fiber.getRef(References.TracerEnabled) || fiber.getRef(Statement.CurrentTransformer) !== undefined) {
            // Run by `SqlClient`, because `session.queryValues` creates no spans and applies no transformer.
            const statement = sql.unsafe(text, parameters)
            return readQuery(isPrepared ? statement.values : statement.valuesUnprepared, partition)
          }
          const query = (session: PgConnection.PgConnection) => session.queryValues(text, parameters, isPrepared)
          return readFrom(pool.use(query), query, partition)
        })

      const readValues = (statement: CompiledStatement, partition?: string) =>
        Effect.withFiber<ReadonlyArray<ReadonlyArray<unknown>>, DataRefreshing | DatabasePoolTimeout>((fiber) => {
          const rewrite = fiber.getRef(StatementRewriter)
          return rewrite === undefined
            ? readStatement(statement, partition)
            : Effect.flatMap(rewrite(statement), (rewritten) => readStatement(rewritten, partition))
        })
      return Database.of({ read, readValues })
    }),
  )
}
