/**
 * The connections to one PostgreSQL server. The wait for a connection and the time to use it are limited (§7.2, §8).
 */
import { type PgClient, PgConnection } from "@effect/sql-pg"
import { Config, Context, Duration, Effect, Exit, Schema, Scope } from "effect"
import type { SqlError } from "effect/sql"
import type { Duplex } from "node:stream"
import { forkUntraced } from "../metrics/BackgroundFibers.ts"
import { makeMonotonicClock } from "../metrics/MonotonicTime.ts"
import { type DatabasePoolTimeout, type DataRefreshing, makeDataRefreshingError } from "../../contract/rules/Errors.ts"
import { idleConnectionTimeout, makePoolTimeoutError, readTimeout } from "../ReadPolicies.ts"
import { makeBulkhead } from "./Bulkhead.ts"
import { retryRejectedPassword } from "./PasswordRotation.ts"

/** How many connections the pool may open. */
export const DatabasePoolSizeConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1000 })),
  "DATABASE_POOL_SIZE",
).pipe(Config.withDefault(10))

/** The driver's settings for the pool's connections. */
export type PoolConnectionConfig = PgClient.PgPoolConfig & { readonly stream: () => Duplex }

/** Opens a connection. Calls `retire` as soon as the connection must not be used again. */
export type Connect = (retire: () => void) => Effect.Effect<PgConnection.PgConnection, SqlError.SqlError, Scope.Scope>

/** Returns the function that opens connections with the driver. */
export const makeConnect = (config: PoolConnectionConfig): Connect => (retire) =>
  retryRejectedPassword(
    config,
    Effect.suspend(() => {
      let isOpened = false
      let hasFailed = false
      const stream = () => {
        const socket = config.stream()
        // The driver opens a second socket only to cancel a statement. That cancellation may arrive late and hit the
        // next statement, so the connection must not be used again.
        if (isOpened) retire()
        // The next attempt opens another connection, which must not be retired when this socket closes.
        else socket.once("close", () => hasFailed || retire())
        isOpened = true
        return socket
      }
      return Effect.tapError(PgConnection.make({ ...config, stream }), () =>
        Effect.sync(() => {
          hasFailed = true
        }))
    }),
  )

/** A use of a connection for a limited time. */
interface LimitedUse {
  /** When that time ends, in monotonic milliseconds. */
  readonly deadline: number
  isExpired: boolean
}

/** One of the pool's permits, with its connection once that is open. */
class Slot {
  connection: PgConnection.PgConnection | undefined
  scope: Scope.Closeable | undefined
  use: LimitedUse | undefined
  isInUse = false
  /** Whether the connection must be closed after its use. */
  isRetired = false
  /** When the last use began, in monotonic milliseconds. */
  usedAt = 0

  close() {
    const { scope } = this
    this.connection = undefined
    this.scope = undefined
    this.isRetired = false
    if (scope !== undefined) Effect.runFork(Scope.close(scope, Exit.void))
  }

  /** Closes a connection that must not be used again: immediately if idle, otherwise after its use. */
  retire(scope: Scope.Closeable) {
    if (scope !== this.scope) return
    if (this.isInUse) this.isRetired = true
    else this.close()
  }

  begin(usedAt: number, use: LimitedUse | undefined) {
    this.isInUse = true
    this.usedAt = usedAt
    this.use = use
  }

  /** Returns whether the slot has an open connection. */
  release() {
    this.isInUse = false
    this.use = undefined
    if (this.isRetired) this.close()
    return this.connection !== undefined
  }

  /**
   * Ends a use that has lasted too long: cancels the statement, and closes the connection without waiting for the
   * result.
   */
  expire(use: LimitedUse) {
    use.isExpired = true
    this.use = undefined
    if (this.connection !== undefined) Effect.runFork(this.connection.interrupt)
    this.close()
  }
}

/** Options of a pool. */
export interface ConnectionPoolOptions {
  readonly connect: Connect
  readonly size: number
  /** Maximum time to wait for a connection. */
  readonly timeout: Duration.Duration
}

/** Creates a pool, which opens connections when they are first needed and closes them with the scope. */
export const makeConnectionPool = Effect.fnUntraced(function* ({ connect, size, timeout }: ConnectionPoolOptions) {
  const now = yield* makeMonotonicClock
  const poolScope = yield* Effect.scope
  const timeoutMillis = Duration.toMillis(readTimeout)
  const idleMillis = Duration.toMillis(idleConnectionTimeout)
  let timeoutCount = 0
  const slots = Array.from({ length: size }, () => new Slot())
  const bulkhead = yield* makeBulkhead({
    permits: slots,
    timeout,
    onTimeout: () => {
      timeoutCount += 1
      return makePoolTimeoutError()
    },
    onRelease: (slot) => slot.release(),
  })
  /** For `SqlClient`: background work, and transactions of commands, which may take long. */
  const unlimited = bulkhead.makeUnlimitedPartition()

  const open = (slot: Slot) =>
    Effect.suspend(() => {
      const scope = Scope.forkUnsafe(poolScope)
      slot.scope = scope
      return connect(() => slot.retire(scope)).pipe(
        Scope.provide(scope),
        Effect.tap((connection) =>
          Effect.sync(() => {
            if (slot.scope === scope) slot.connection = connection
          })
        ),
        Effect.onError(() => Effect.sync(() => slot.close())),
      )
    })

  const endExpiredUses = Effect.suspend(() => {
    const time = now()
    // A use that begins after this moment also ends after `next`.
    let next = time + timeoutMillis
    for (const slot of slots) {
      if (slot.use !== undefined && slot.use.deadline <= time) slot.expire(slot.use)
      if (slot.use !== undefined) next = Math.min(next, slot.use.deadline)
      if (!slot.isInUse && slot.usedAt + idleMillis <= time) slot.close()
    }
    return Effect.sleep(next - time)
  })
  // One fiber ends all expired uses, because a timer for each would cost almost as much as a short statement.
  yield* forkUntraced(Effect.forever(endExpiredUses))

  /**
   * Runs an effect on a connection, as part of the named partition. After `readTimeout` the connection is closed, so
   * that the running statement ends, and the effect fails with `DataRefreshing`.
   */
  const use = <A, E, R>(
    partition: string,
    run: (connection: PgConnection.PgConnection) => Effect.Effect<A, E, R>,
  ): Effect.Effect<A, E | SqlError.SqlError | DatabasePoolTimeout | DataRefreshing, R> =>
    Effect.suspend(() => {
      let use: LimitedUse | undefined
      const running = bulkhead.use(partition, (slot): Effect.Effect<A, E | SqlError.SqlError, R> => {
        const usedAt = now()
        use = { deadline: usedAt + timeoutMillis, isExpired: false }
        slot.begin(usedAt, use)
        return slot.connection === undefined ? Effect.flatMap(open(slot), run) : run(slot.connection)
      })
      return Effect.catchCause(
        running,
        (cause): Effect.Effect<never, E | SqlError.SqlError | DatabasePoolTimeout | DataRefreshing> =>
          use?.isExpired === true ? Effect.fail(makeDataRefreshingError()) : Effect.failCause(cause),
      )
    })

  const beginUnlimited = (slot: Slot) => {
    slot.begin(now(), undefined)
    return slot.connection === undefined ? open(slot) : Effect.succeed(slot.connection)
  }

  /** Like `use`, but without limits on the wait and the duration, for `SqlClient`. */
  const borrow = <A, E, R>(run: (connection: PgConnection.PgConnection) => Effect.Effect<A, E, R>) =>
    Effect.catchTag(
      bulkhead.use(unlimited, (slot) => Effect.flatMap(beginUnlimited(slot), run)),
      "DatabasePoolTimeout",
      Effect.die,
    )

  return {
    use,
    borrow,
    /** Lends `SqlClient` a connection until the scope closes. */
    acquire: bulkhead.acquireScoped(unlimited).pipe(Effect.orDie, Effect.flatMap(beginUnlimited)),
    size,
    connectionsInUse: bulkhead.permitsInUse,
    waiterCount: bulkhead.waiterCount,
    /** How many callers gave up waiting for a connection. */
    timeoutCount: () => timeoutCount,
  }
})

/** The pool of connections to the primary, which reads share with `SqlClient`. */
export class ConnectionPool extends Context.Service<
  ConnectionPool,
  Effect.Success<ReturnType<typeof makeConnectionPool>>
>()("tickerline/postgres/ConnectionPool") {}
