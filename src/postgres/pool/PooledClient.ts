/** An `SqlClient` that shares its connection pool with API reads. The driver's own client would open a second pool. */
import { PgClient, type PgConnection } from "@effect/sql-pg"
import { Effect, Layer, type Redacted } from "effect"
import { SqlClient, type SqlConnection, SqlError, Statement } from "effect/sql"
import { poolTimeout } from "../ReadTimeoutsAndRetries.ts"
import { DirectConnectionConfig, makeConnectionConfig } from "./ConnectionSettings.ts"
import {
  ConnectionPool,
  DatabasePoolSizeConfig,
  makeConnectionOpener,
  makeConnectionPool,
  type PoolConnectionConfig,
} from "./ConnectionPool.ts"
import type { UrlFile } from "./PasswordRotation.ts"
import { getSharedConnectionCount, makeSharedConnections, SharedConnections } from "./SharedConnections.ts"

const makeSqlConnection = (session: PgConnection.PgConnection): SqlConnection.Connection => {
  const rows = (prepare: boolean): SqlConnection.Connection["execute"] => (sql, params, transform) =>
    Effect.map(session.query(sql, params, prepare), (found) => transform?.(found.rows) ?? found.rows)
  return {
    execute: rows(true),
    executeUnprepared: rows(false),
    executeRaw: (sql, params) => session.query(sql, params),
    executeStream: (sql, params) => session.stream(sql, params),
    executeValues: (sql, params) => session.queryValues(sql, params),
    executeValuesUnprepared: (sql, params) => session.queryValues(sql, params, false),
  }
}

const sqlConnections = new WeakMap<PgConnection.PgConnection, SqlConnection.Connection>()

/** Adapts a driver session to `SqlClient`'s connection interface. The driver does not export its own adapter. */
export const toSqlConnection = (session: PgConnection.PgConnection) => {
  const existing = sqlConnections.get(session)
  if (existing !== undefined) return existing
  const connection = makeSqlConnection(session)
  sqlConnections.set(session, connection)
  return connection
}

/**
 * Commits a transaction. Fails if PostgreSQL rolled the transaction back instead, because one of its statements had
 * failed. PostgreSQL does not report that as an error: the result of `COMMIT` is then the command `ROLLBACK`.
 */
const commit = (connection: SqlConnection.Connection) =>
  Effect.flatMap(
    connection.executeRaw("COMMIT", []),
    (result) =>
      typeof result === "object" && result !== null && "command" in result && result.command === "ROLLBACK"
        ? Effect.fail(
          new SqlError.SqlError({
            reason: new SqlError.UnknownError({
              cause: new Error("The commit rolled back a failed transaction."),
              operation: "commit",
            }),
          }),
        )
        : Effect.void,
  )

const makeJson = Statement.custom<PgClient.PgCustom>("PgJson")

/**
 * Creates a client for a pool, with the same spans and transaction behavior as the driver's own client. Single
 * statements borrow a connection for as long as they run (`borrower`). Transactions have one to themselves until they
 * end (`transactionAcquirer`). Other uses, such as streamed results, keep one until their scope closes (`acquirer`),
 * but other statements may run on it in between.
 */
const makeClient = Effect.fnUntraced(function* (pool: ConnectionPool["Service"], config: PoolConnectionConfig) {
  // Transactions and `listen` need a connection that nothing else uses in the meantime, which `pin` provides.
  const acquireExclusive = Effect.flatMap(pool.acquire, ({ pin }) => pin)
  const client = yield* SqlClient.make({
    driver: "pg",
    acquirer: Effect.map(pool.acquire, toSqlConnection),
    borrower: (use) => pool.borrow((session) => use(toSqlConnection(session))),
    transactionAcquirer: Effect.map(acquireExclusive, toSqlConnection),
    compiler: PgClient.makeCompiler(),
    // PostgreSQL can prepare `BEGIN`, `ROLLBACK` and the like, which saves parsing them again in each transaction.
    prepareTransactionControls: true,
    // Unlike the default, fails if PostgreSQL rolled the transaction back instead.
    commit,
    releaseSavepoint: (name) => `RELEASE SAVEPOINT ${name}`,
    spanAttributes: [
      ["db.system.name", "postgresql"],
      ["db.namespace", config.database ?? config.username ?? "postgres"],
      ["server.address", config.host ?? "localhost"],
      ["server.port", config.port ?? 5432],
    ],
  })
  const pgClient: PgClient.PgClient = Object.assign(client, {
    [PgClient.TypeId]: PgClient.TypeId,
    config,
    // `custom` always takes three values, but this kind of parameter has only one.
    json: (value: unknown) => Statement.fragment([makeJson(value, undefined, undefined)]),
    listen: (channel: string) => Effect.flatMap(acquireExclusive, (session) => session.listen(channel)),
    notify: (channel: string, payload: string) =>
      Effect.asVoid(pool.borrow((session) => session.query("select pg_notify($1, $2)", [channel, payload]))),
  })
  return pgClient
})

/**
 * Provides `DATABASE_POOL_SIZE` connections. If `canShare` is true, a few of them are `SharedConnections`. The others
 * are available as `ConnectionPool`, `PgClient` and `SqlClient`.
 */
export const pooledClientLayer = (config: PoolConnectionConfig, canShare: boolean) =>
  Layer.unwrap(Effect.gen(function* () {
    const size = yield* DatabasePoolSizeConfig
    const timeout = yield* poolTimeout
    const shared = canShare ? getSharedConnectionCount(size) : 0
    const pool = makeConnectionPool({ connect: makeConnectionOpener(config), size: size - shared, timeout })
    return PgClient.layerFrom(Effect.flatMap(ConnectionPool, (pool) => makeClient(pool, config))).pipe(
      Layer.provideMerge(Layer.effect(ConnectionPool, pool)),
      Layer.merge(Layer.effect(SharedConnections, makeSharedConnections(config, shared))),
    )
  }))

/** How to connect: if `direct` is given, through the pooler at `url`; otherwise to PostgreSQL at `url`. */
export interface DatabaseClientOptions {
  readonly url: Redacted.Redacted
  /** The file from which `url` was read, if any. */
  readonly urlFile?: UrlFile | undefined
  readonly applicationName: string
  /** The URL for connecting to PostgreSQL directly, if `url` points to a pooler in transaction mode. */
  readonly direct?: Redacted.Redacted
  /** The file from which `direct` was read, if any. */
  readonly directFile?: UrlFile | undefined
}

/**
 * Provides the connection pool, also as `SqlClient`, and `DirectConnectionConfig` for work that must stay in one
 * session. With a pooler, the pool connects to the pooler, and `DirectConnectionConfig` to PostgreSQL. Without a
 * pooler, both connect to PostgreSQL.
 */
export const databaseClientLayer = (
  { applicationName, direct, directFile, url, urlFile }: DatabaseClientOptions,
) =>
  Layer.unwrap(Effect.gen(function* () {
    const hasPooler = direct !== undefined
    const poolConfig = yield* makeConnectionConfig({ url, urlFile, applicationName, pooled: hasPooler })
    const directConfig = hasPooler
      ? yield* makeConnectionConfig({ url: direct, urlFile: directFile, applicationName, pooled: false })
      : poolConfig
    // A pooler may spread the statements of one connection over several server processes, so connections are not shared
    // behind a pooler.
    const canShare = !hasPooler
    return Layer.merge(
      pooledClientLayer(poolConfig.config, canShare),
      Layer.succeed(DirectConnectionConfig, { ...directConfig, pooler: hasPooler ? poolConfig : undefined }),
    )
  }))
