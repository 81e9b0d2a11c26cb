/** Reads from PostgreSQL through one pool, with a time limit and retries (§7.2, errors; §8, database load). */
import { type PgConnection, PgPool } from "@effect/sql-pg"
import { Config, Context, Effect, Layer, Option, type Redacted, References, Schema } from "effect"
import { SqlClient, Statement } from "effect/sql"
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
import type { RequiredTableVersion } from "./replicas/Replica.ts"
import { ReadRouter } from "./replicas/ReadRouter.ts"

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

/** A moment in the past. `rewrite` changes a statement so that it reads the tables as they were at the moment. */
export interface PastSource {
  readonly moment: string
  readonly rewrite: (
    statement: CompiledStatement,
  ) => Effect.Effect<CompiledStatement, DataRefreshing | DatabasePoolTimeout>
}

/** Where a read may run: on the primary, also on a replica that has this version, or on the primary for a past moment. */
export type ReadSource = "primary" | RequiredTableVersion | PastSource

export interface ReadOptions {
  /**
   * The part of the pool: usually the path of the endpoint. Work for several endpoints has its own partition, so that it
   * never waits for an endpoint with a locked table.
   */
  readonly partition: string
  readonly from: ReadSource
}

export type Rows = ReadonlyArray<ReadonlyArray<unknown>>

/** Reads the rows of a statement from where its request reads. */
export type StatementReader = (
  statement: CompiledStatement,
) => Effect.Effect<Rows, DataRefreshing | DatabasePoolTimeout>

/** Reads for the API. Failed reads are retried, so clients hardly notice a PostgreSQL restart. */
export class Database extends Context.Service<Database, {
  /** Runs a query on the primary once its partition of the pool has a free connection. */
  readonly read: <A, R>(
    query: Effect.Effect<A, DatabaseReadError, R>,
    partition: string,
  ) => Effect.Effect<A, DataRefreshing | DatabasePoolTimeout, R>
  /** Reads the values of one statement. Cheaper than `read`, because untraced reads bypass `SqlClient`. */
  readonly readValues: (
    statement: CompiledStatement,
    options: ReadOptions,
  ) => Effect.Effect<Rows, DataRefreshing | DatabasePoolTimeout>
}>()("tickerline/db/Database") {
  static readonly layer = Layer.effect(
    Database,
    Effect.gen(function* () {
      yield* initializeCounters(...retryCounters)
      const sql = yield* SqlClient.SqlClient
      const pool = yield* PgPool.PgPool
      const withReadPolicies = yield* makeReadPolicies
      const router = Option.getOrUndefined(yield* Effect.serviceOption(ReadRouter))
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

      const read = <A, R>(query: Effect.Effect<A, DatabaseReadError, R>, partition: string) =>
        withReadPolicies(withPermit(partition)(query))

      /** Suspended, so that each retry chooses a replica anew. */
      const readAnywhere = (
        query: SessionQuery<Rows, never>,
        primary: DatabaseRead<Rows, never>,
        required: RequiredTableVersion,
        partition: string,
      ) =>
        Effect.suspend(() => {
          const replica = router?.chooseReplica(required)
          return router === undefined || replica === undefined
            ? primary
            : router.withFallback(replica.read(query, required, partition), replica, primary)
        })

      const readValues = (
        { isPrepared, parameters, text }: CompiledStatement,
        { from, partition }: ReadOptions,
      ): Effect.Effect<Rows, DataRefreshing | DatabasePoolTimeout> =>
        Effect.withFiber<Rows, DataRefreshing | DatabasePoolTimeout>((fiber) => {
          if (typeof from === "object" && "rewrite" in from) {
            return Effect.flatMap(
              from.rewrite({ isPrepared, parameters, text }),
              (rewritten) => readValues(rewritten, { from: "primary", partition }),
            )
          }
          const isTraced = fiber.getRef(References.TracerEnabled) ||
            fiber.getRef(Statement.CurrentTransformer) !== undefined
          // `session.queryValues` creates no spans and applies no transformer.
          const statement = sql.unsafe(text, parameters)
          const traced = isPrepared ? statement.values : statement.valuesUnprepared
          const query: SessionQuery<Rows, never> = isTraced
            ? (session) => Effect.provideService(traced, sql.transactionService, [toSqlConnection(session), 0])
            : (session) => session.queryValues(text, parameters, isPrepared)
          const primary = withPermit(partition)(isTraced ? traced : pool.use(query))
          return withReadPolicies(from === "primary" ? primary : readAnywhere(query, primary, from, partition))
        })
      return Database.of({ read, readValues })
    }),
  )
}
