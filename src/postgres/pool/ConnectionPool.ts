/**
 * A pool of connections to one PostgreSQL server. Both the wait for a connection and the time it may be used are
 * limited (§7.2, §8).
 */
import { type PgClient, PgConnection } from "@effect/sql-pg"
import { Config, Context, Duration, Effect, Exit, Schema, Scope } from "effect"
import type { SqlError } from "effect/sql"
import type { Duplex } from "node:stream"
import { forkUntraced } from "../metrics/BackgroundFibers.ts"
import { makeMonotonicClock } from "../metrics/MonotonicTime.ts"
import {
  type DatabasePoolTimeout,
  type DataRefreshing,
  makeDataRefreshingError,
} from "../../contract/rules/ApiErrors.ts"
import { idleConnectionTimeout, makePoolTimeoutError, readTimeout } from "../ReadTimeoutsAndRetries.ts"
import { makeBulkhead } from "./Bulkhead.ts"
import { retryRejectedPassword } from "./PasswordRotation.ts"

/** The maximum number of connections in the pool. */
export const DatabasePoolSizeConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1000 })),
  "DATABASE_POOL_SIZE",
).pipe(Config.withDefault(10))

/** Driver settings for the pool's connections. */
export type PoolConnectionConfig = PgClient.PgPoolConfig & { readonly stream: () => Duplex }

/** Opens a connection. Calls `retire` as soon as the connection must not be reused. */
export type OpenConnection = (
  retire: () => void,
) => Effect.Effect<PgConnection.PgConnection, SqlError.SqlError, Scope.Scope>

/**
 * Creates the function that opens connections with the driver. The pool calls it with `retire`, which marks the
 * connection's slot so that the pool closes the connection instead of reusing it. `retire` is called when the
 * connection's socket closes, and when one of its statements is canceled.
 */
export const makeConnectionOpener = (config: PoolConnectionConfig): OpenConnection => (retire) =>
  retryRejectedPassword(
    config,
    Effect.suspend(() => {
      let isOpened = false
      let hasFailed = false
      // The driver calls this for every socket that it needs.
      const stream = () => {
        const socket = config.stream()
        // The driver opens a second socket only to cancel a statement. The cancel request may arrive late and hit the
        // next statement, so the connection must not be reused.
        if (isOpened) retire()
        // If opening the connection has failed, the next attempt opens a new connection. That connection must not be
        // retired when this socket closes.
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

/** The use of a connection for a limited time. */
interface LimitedUse {
  /** When the limited time ends, in milliseconds on the monotonic clock. */
  readonly deadline: number
  isExpired: boolean
}

/** A slot of the pool: a permit of the bulkhead, with its connection once that is open. */
class Slot {
  connection: PgConnection.PgConnection | undefined
  scope: Scope.Closeable | undefined
  use: LimitedUse | undefined
  isInUse = false
  /** Whether the connection must be closed after its current use. */
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

  /** Closes a connection that must not be reused: immediately if it is idle, otherwise after its current use. */
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

  /** Ends a use. Returns whether the slot still has an open connection. */
  release() {
    this.isInUse = false
    this.use = undefined
    if (this.isRetired) this.close()
    return this.connection !== undefined
  }

  /**
   * Ends a use that has exceeded its time limit. Cancels the statement, and closes the connection without waiting for
   * the result.
   */
  expire(use: LimitedUse) {
    use.isExpired = true
    this.use = undefined
    if (this.connection !== undefined) Effect.runFork(this.connection.interrupt)
    this.close()
  }
}

/** Options for a connection pool. */
export interface ConnectionPoolOptions {
  readonly connect: OpenConnection
  readonly size: number
  /** Maximum time to wait for a connection. */
  readonly timeout: Duration.Duration
}

/**
 * Creates a pool of `size` connections, which are opened when they are first needed. They close when the scope closes.
 * Each slot of the pool holds one connection at a time, and the bulkhead hands out the slots to callers.
 *
 * `use` is for reads on behalf of requests: the wait for a connection and the time on the connection are limited.
 * `borrow` and `acquire` are for `SqlClient`, and have neither limit.
 */
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
  /**
   * The partition for `SqlClient`, which serves background work and the transactions of commands. Both may take long.
   */
  const unlimited = bulkhead.makeUnlimitedPartition()

  /**
   * Opens a connection in a scope of its own, which the slot closes when it replaces the connection. If the slot has
   * already moved on to another scope, the connection is not stored.
   */
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

  /**
   * Closes the connections of uses that have exceeded `readTimeout`, and connections that have been idle for too long.
   * Then waits until the next use may expire.
   */
  const endExpiredUses = Effect.suspend(() => {
    const time = now()
    // A use that begins after `time` cannot expire before `time + timeoutMillis`, so the next check is at that time or
    // earlier.
    let next = time + timeoutMillis
    for (const slot of slots) {
      if (slot.use !== undefined && slot.use.deadline <= time) slot.expire(slot.use)
      if (slot.use !== undefined) next = Math.min(next, slot.use.deadline)
      if (!slot.isInUse && slot.usedAt + idleMillis <= time) slot.close()
    }
    return Effect.sleep(next - time)
  })
  // One fiber ends all expired uses. A timer for each use would cost almost as much as a short statement.
  yield* forkUntraced(Effect.forever(endExpiredUses))

  /**
   * Runs an effect on a connection, within the limit of the named partition. After `readTimeout`, closes the
   * connection, which ends the running statement, and fails with `DataRefreshing`.
   */
  const use = <A, E, R>(
    partition: string,
    run: (connection: PgConnection.PgConnection) => Effect.Effect<A, E, R>,
  ): Effect.Effect<A, E | SqlError.SqlError | DatabasePoolTimeout | DataRefreshing, R> =>
    Effect.suspend(() => {
      /** Undefined while the caller waits for a slot. */
      let limitedUse: LimitedUse | undefined
      const running = bulkhead.use(partition, (slot): Effect.Effect<A, E | SqlError.SqlError, R> => {
        const usedAt = now()
        limitedUse = { deadline: usedAt + timeoutMillis, isExpired: false }
        slot.begin(usedAt, limitedUse)
        return slot.connection === undefined ? Effect.flatMap(open(slot), run) : run(slot.connection)
      })
      return Effect.catchCause(
        running,
        (cause): Effect.Effect<never, E | SqlError.SqlError | DatabasePoolTimeout | DataRefreshing> =>
          // The closed connection makes the statement fail in some way. The timeout is the actual reason.
          limitedUse?.isExpired === true ? Effect.fail(makeDataRefreshingError()) : Effect.failCause(cause),
      )
    })

  const beginUnlimited = (slot: Slot) => {
    slot.begin(now(), undefined)
    return slot.connection === undefined ? open(slot) : Effect.succeed(slot.connection)
  }

  /**
   * Runs an effect on a connection without limiting the wait or the duration. `SqlClient` uses this instead of `use`.
   */
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
    /** Returns how many callers gave up waiting for a connection. */
    timeoutCount: () => timeoutCount,
  }
})

/** The pool of connections to the primary. API reads and `SqlClient` share it. */
export class ConnectionPool extends Context.Service<
  ConnectionPool,
  Effect.Success<ReturnType<typeof makeConnectionPool>>
>()("tickerline/postgres/ConnectionPool") {}
