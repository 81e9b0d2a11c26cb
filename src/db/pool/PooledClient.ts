/** A connection pool that `SqlClient` and direct reads share. The driver's own client does not expose its pool. */
import { PgClient, type PgConnection, PgPool } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { SqlClient, type SqlConnection, SqlError, Statement } from "effect/sql"

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

/** Adapts a driver session to `SqlClient`'s connection; the driver does not export its own adapter. */
export const toSqlConnection = (session: PgConnection.PgConnection) => {
  const existing = sqlConnections.get(session)
  if (existing !== undefined) return existing
  const connection = makeSqlConnection(session)
  sqlConnections.set(session, connection)
  return connection
}

/** Commits a transaction. Fails if it was rolled back, because PostgreSQL itself reports no error in that case. */
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

/** Makes a client for a given pool, with the same spans and transactions as the driver's own client. */
const makeClient = Effect.fnUntraced(function* (pool: PgPool.PgPool, config: PgClient.PgPoolConfig) {
  const client = yield* SqlClient.make({
    driver: "pg",
    acquirer: Effect.map(pool.get, toSqlConnection),
    borrower: (use) => pool.use((session) => use(toSqlConnection(session))),
    transactionAcquirer: Effect.map(pool.reserve, toSqlConnection),
    compiler: PgClient.makeCompiler(),
    prepareTransactionControls: true,
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
    json: (value: unknown) => Statement.fragment([makeJson(value, undefined, undefined)]),
    listen: (channel: string) => Effect.flatMap(pool.reserve, (session) => session.listen(channel)),
    notify: (channel: string, payload: string) =>
      Effect.asVoid(pool.use((session) => session.query("select pg_notify($1, $2)", [channel, payload]))),
  })
  return pgClient
})

/** Provides one pool as `PgPool`, `PgClient` and `SqlClient`. */
export const pooledClientLayer = (config: PgClient.PgPoolConfig) =>
  PgClient.layerFrom(Effect.flatMap(PgPool.PgPool, (pool) => makeClient(pool, config))).pipe(
    Layer.provideMerge(Layer.effect(PgPool.PgPool, PgPool.make(config))),
  )
