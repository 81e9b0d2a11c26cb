/** §7.2, §8: how the service reads PostgreSQL. One pool, one clock on a statement, one retry on a locked table. */
import { PgClient } from "@effect/sql-pg"
import { Config, Context, Duration, Effect, Layer, Metric, Predicate, Redacted, Schedule, Schema } from "effect"
import { SqlError } from "effect/sql"
import { initializeCounters, registerCounter, registerGauge } from "../observability/CallbackMetrics.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../rules/Errors.ts"
import { RequestContext } from "../http/RequestContext.ts"
import { DirectConnection, makeSessionConfig } from "./pool/Session.ts"
import { makePoolQueue } from "./pool/PoolQueue.ts"

/** The server counts 30 seconds itself; this is for a server that no longer answers at all. */
const longestRead = Duration.seconds(36)

export interface DatabaseClientOptions {
  readonly url: Redacted.Redacted
  readonly applicationName: string
  /** The way to PostgreSQL itself, where `url` leads through a pooler in transaction mode. */
  readonly direct?: Redacted.Redacted
}

export const PoolSize = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1000 })),
  "DATABASE_POOL_SIZE",
).pipe(Config.withDefault(10))
export const PoolTimeout = Config.Duration("DATABASE_POOL_TIMEOUT").pipe(Config.withDefault(Duration.seconds(5)))

/** The pool itself, as `SqlClient`, and the way for what needs a session. */
export const databaseClientLayer = ({ applicationName, direct, url }: DatabaseClientOptions) =>
  Layer.unwrap(Effect.gen(function* () {
    const config = yield* makeSessionConfig({ url, applicationName, pooled: direct !== undefined })
    const straight = direct === undefined
      ? config
      : yield* makeSessionConfig({ url: direct, applicationName, pooled: false })
    return Layer.merge(
      PgClient.layer({ ...config, maxConnections: yield* PoolSize }),
      Layer.succeed(DirectConnection, { config: straight, pooled: direct !== undefined }),
    )
  }))

const reason = (error: unknown) => SqlError.isSqlError(error) ? error.reason : undefined

/** Another session held a table for longer than `lock_timeout`. */
export const isLockTimeout = (error: unknown) => reason(error)?._tag === "LockTimeoutError"
export const isStatementTimeout = (error: unknown) => reason(error)?._tag === "StatementTimeoutError"

/** PostgreSQL's own words for "this connection is over": shut down, starting up, too many clients. */
const overCodes = /^(57P0[1-5]|53300)$/

/** No connection could be made, or the one at hand ended. */
export const isConnectionLost = (error: unknown) => {
  const why = reason(error)
  return why?._tag === "ConnectionError" || why?.operation === "connect" ||
    (Predicate.hasProperty(why?.cause, "code") && overCodes.test(String(why.cause.code)))
}

export const makeRetryCounter = (why: "locked" | "lost" | "replica" | "conflict") =>
  Metric.counter("tickerline_database_retries_total", {
    description: "Reads that were tried again: a table was locked, a connection or a replica lost, or a replica's " +
      "recovery in conflict with them.",
    attributes: { why },
    incremental: true,
  })

interface Again {
  readonly counted: ReturnType<typeof makeRetryCounter>
  readonly when: (error: unknown) => boolean
  readonly after: Duration.Duration
  readonly times: number
}

/** §7.2: after one automatic retry following a 2-second wait. */
const whenLocked: Again = {
  counted: makeRetryCounter("locked"),
  when: isLockTimeout,
  after: Duration.seconds(2),
  times: 1,
}

/** Time for the pool to notice which of its connections the server has closed; a reader does not notice it. */
const whenLost: Again = {
  counted: makeRetryCounter("lost"),
  when: isConnectionLost,
  after: Duration.millis(50),
  times: 3,
}

/** Only a try that failed needs a schedule. */
const again = ({ after, counted, times, when }: Again) => <A, E, R>(query: Effect.Effect<A, E, R>) =>
  Effect.catchIf(query, when, () =>
    query.pipe(
      Effect.retry({ while: when, schedule: Schedule.spaced(after), times: times - 1 }),
      Effect.delay(after),
      (retry) => Effect.andThen(Metric.update(counted, 1), retry),
    ))

const refreshing = () => new DataRefreshing({ error: { message: "Data is being refreshed. Retry in a few seconds." } })

export const makePoolTimeoutError = () =>
  new DatabasePoolTimeout({
    error: { message: "Database connections are temporarily saturated. Retry in a few seconds." },
  })

export type ReadFailure = SqlError.SqlError | Schema.SchemaError

type Asked<A, R> = Effect.Effect<A, ReadFailure | DataRefreshing | DatabasePoolTimeout, R>

/** Who may answer a read of `route` in place of the primary, which is asked where nobody can. */
export type ReplicaReader = <A, R>(
  query: Effect.Effect<A, ReadFailure, R>,
  route: string,
  primary: Asked<A, R>,
) => Asked<A, R>

/**
 * Nobody, but where an answer is made that all accounts share (`lists/QueryCache.ts`). So accounts, keys, usage and
 * balances are always read from the primary.
 */
export const ReplicaReader = Context.Reference<ReplicaReader | undefined>("tickerline/db/Elsewhere", {
  defaultValue: () => undefined,
})

const isFailure = (error: unknown): error is ReadFailure => SqlError.isSqlError(error) || Schema.isSchemaError(error)

const explained = (error: ReadFailure) => {
  const cause = reason(error)?.cause
  return Predicate.hasProperty(cause, "message") ? cause.message : error.message
}

const answer = (error: ReadFailure) =>
  isLockTimeout(error) || isStatementTimeout(error)
    ? Effect.fail(refreshing())
    : isConnectionLost(error)
    ? Effect.andThen(
      Effect.logWarning(`The database cannot be reached: ${explained(error)}`),
      Effect.fail(makePoolTimeoutError()),
    )
    : Effect.die(error)

/** Who is sent away from a pooler's line loses the connection, too, and does not stand in that line again. */
const standing = Duration.toMillis(Duration.seconds(4))

const againWhenLost = <A, E, R>(query: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const began = performance.now()
    return again({ ...whenLost, when: (error) => isConnectionLost(error) && performance.now() - began < standing })(
      query,
    )
  })

/** What becomes of the failures of a read; a query that brings its own connection is read like others. */
export const retryRead = <A, R>(query: Asked<A, R>) =>
  query.pipe(
    againWhenLost,
    Effect.timeoutOrElse({ duration: longestRead, orElse: () => Effect.fail(refreshing()) }),
    again(whenLocked),
    Effect.catch((error) => isFailure(error) ? answer(error) : Effect.fail(error)),
  )

/**
 * Reads: what a caller can act on becomes an error of the API, the rest is a defect. A read is safe to repeat, so a
 * connection lost on the way costs another try, and readers hardly notice a server that was restarted.
 */
export class Database extends Context.Service<Database, {
  /**
   * Runs a query when its lane has a connection to spare. The lane is the request's endpoint, unless it is named: work
   * that requests to several endpoints share must not queue behind those of one whose table is locked.
   */
  readonly read: <A, R>(
    query: Effect.Effect<A, ReadFailure, R>,
    lane?: string,
  ) => Effect.Effect<A, DataRefreshing | DatabasePoolTimeout, R>
}>()("tickerline/db/Database") {
  static readonly layer = Layer.effect(
    Database,
    Effect.gen(function* () {
      // The pool has no limit on the wait for a connection; as many places as connections give it one.
      const places = yield* PoolSize
      yield* initializeCounters(whenLocked.counted, whenLost.counted)
      let refused = 0
      const { inside, through: connected, waiting } = makePoolQueue(places, yield* PoolTimeout, () => {
        refused += 1
        return makePoolTimeoutError()
      })
      yield* registerGauge({
        name: "tickerline_database_pool_connections",
        description: "Connections that readers may use at once.",
        read: () => places,
      })
      yield* registerGauge({
        name: "tickerline_database_pool_connections_used",
        description: "Connections that readers use.",
        read: inside,
      })
      yield* registerGauge({
        name: "tickerline_database_pool_waiting",
        description: "Readers that wait for a connection.",
        read: waiting,
      })
      yield* registerCounter({
        name: "tickerline_database_pool_timeouts_total",
        description: "Readers that waited for a connection in vain.",
        read: () => refused,
      })

      const read = <A, R>(query: Effect.Effect<A, ReadFailure, R>, lane?: string) =>
        retryRead(Effect.flatMap(RequestContext, ({ route = "" }) => {
          const primary = connected(lane ?? route)(query)
          return Effect.flatMap(
            ReplicaReader,
            (elsewhere): Asked<A, R> => elsewhere === undefined ? primary : elsewhere(query, route, primary),
          )
        }))
      return Database.of({ read })
    }),
  )
}
