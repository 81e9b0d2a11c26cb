/**
 * Connections that pipeline short statements from many requests, so that one write sends several statements
 * (docs/decisions/0144-shared-connections.md). They are only an optimization: if a statement gets no response soon, for
 * whatever reason, it runs again on its own connection.
 */
import { PgConnection } from "@effect/sql-pg"
import { Context, Duration, Effect, Exit, Latch } from "effect"
import type { Duplex } from "node:stream"
import { setImmediate } from "node:timers"
import { forkUntraced } from "../metrics/BackgroundFibers.ts"
import { makeMonotonicClock } from "../metrics/MonotonicTime.ts"
import type { CompiledStatement } from "../CompiledStatement.ts"
import { idleConnectionTimeout } from "../ReadTimeoutsAndRetries.ts"
import type { PoolConnectionConfig } from "./ConnectionPool.ts"

/** Maximum number of statements in flight on one connection. */
const maxStatements = 16

const checkInterval = Duration.millis(25)

/** If no statement completes for more consecutive checks than this, the connection is closed. */
const maxSilentChecks = 3

/** How long an endpoint avoids all shared connections after one of its statements blocked such a connection. */
const avoidanceMillis = 10_000

/** Pause before retrying to open a connection after a failure. */
const reopeningPause = Duration.seconds(1)

/**
 * Returns how many of a pool's connections are shared. A small pool shares none, because it needs all connections for
 * long statements.
 */
export const getSharedConnectionCount = (poolSize: number) => poolSize < 10 ? 0 : 2

type Rows = ReadonlyArray<ReadonlyArray<unknown>>

/** A statement in flight. PostgreSQL runs the statements on a connection in the order in which they were sent. */
interface SentStatement {
  readonly partition: string
}

/** A connection that several requests use at the same time, or the place of one that is closed at the moment. */
class SharedConnection {
  /** The connection and its socket. Undefined while the connection is closed. */
  open: { readonly connection: PgConnection.PgConnection; readonly socket: Duplex } | undefined
  /** The statements in flight, oldest first. */
  readonly statements = new Set<SentStatement>()
  /** The number of statements that have completed on this connection since it was created. */
  completed = 0
  /** Open if the connection should be opened, because a statement could have used it. */
  readonly isWanted = Latch.makeUnsafe()
  /** Open while there are statements in flight, so that their progress is watched. */
  readonly hasStatements = Latch.makeUnsafe()

  begin(partition: string): SentStatement {
    const statement = { partition }
    if (this.statements.size === 0) this.hasStatements.openUnsafe()
    this.statements.add(statement)
    return statement
  }

  end(statement: SentStatement) {
    this.completed += 1
    this.statements.delete(statement)
  }
}

/**
 * Corks the socket until the event loop has read all ready sockets, so that a single write sends all pending
 * statements.
 */
const collectWrites = (socket: Duplex) => {
  if (socket.writableCorked > 0) return
  socket.cork()
  setImmediate(() => socket.uncork())
}

/**
 * Opens `count` shared connections, and keeps them open until the scope closes. Short statements of several requests
 * share a connection: they are sent one after the other without waiting for the responses (pipelining). If a statement
 * takes too long, it blocks those behind it. The connection is then closed, and all of them run again on their own
 * connections.
 */
export const makeSharedConnections = Effect.fnUntraced(function* (config: PoolConnectionConfig, count: number) {
  const now = yield* makeMonotonicClock
  const connections = Array.from({ length: count }, () => new SharedConnection())
  /** When each partition may use shared connections again, in monotonic milliseconds. */
  const avoidedUntil = new Map<string, number>()
  let blockedCount = 0

  const open = Effect.fnUntraced(function* (shared: SharedConnection) {
    let socket: Duplex | undefined
    const stream = () => socket = config.stream()
    const connection = yield* PgConnection.make({ ...config, multiplex: true, stream })
    // Makes PostgreSQL notice quickly that the connection was closed, even while a statement waits for a lock. Some
    // platforms do not support this.
    yield* Effect.ignore(connection.query("set client_connection_check_interval = '100ms'", [], false))
    if (socket === undefined || socket.destroyed) return undefined
    socket.once("close", () => {
      shared.open = undefined
      shared.hasStatements.openUnsafe()
    })
    shared.open = { connection, socket }
    return socket
  })

  /**
   * Closes the connection if no statement completes, or if the connection has been idle for too long. Returns once the
   * connection is closed.
   */
  const watch = Effect.fnUntraced(function* (shared: SharedConnection, socket: Duplex) {
    // `silentChecks` is the number of consecutive checks in which no statement had completed since the previous check.
    let [completed, silentChecks] = [0, 0]
    while (!socket.destroyed) {
      if (shared.statements.size === 0) {
        shared.hasStatements.closeUnsafe()
        const isIdle = yield* Effect.timeoutOrElse(Effect.as(shared.hasStatements.await, false), {
          duration: idleConnectionTimeout,
          orElse: () => Effect.succeed(true),
        })
        if (isIdle) break
      }
      // Counts checks instead of elapsed time, because a response may have arrived but still be waiting for the event
      // loop.
      silentChecks = shared.completed === completed ? silentChecks + 1 : 0
      completed = shared.completed
      const [oldest] = shared.statements
      if (oldest !== undefined && silentChecks > maxSilentChecks) {
        blockedCount += 1
        avoidedUntil.set(oldest.partition, now() + avoidanceMillis)
        break
      }
      yield* Effect.sleep(checkInterval)
    }
    shared.open = undefined
    socket.destroy()
  })

  /**
   * Waits until a connection is wanted, opens it, and watches it until it closes. Failures are ignored, because
   * statements run elsewhere as long as the connection is not open.
   */
  const keepOpen = (shared: SharedConnection) =>
    Effect.gen(function* () {
      yield* shared.isWanted.await
      const socket = yield* open(shared)
      if (socket !== undefined) yield* watch(shared, socket)
      shared.isWanted.closeUnsafe()
    }).pipe(Effect.scoped, Effect.catchTag("SqlError", () => Effect.sleep(reopeningPause)))

  yield* Effect.forEach(connections, (shared) => forkUntraced(Effect.forever(keepOpen(shared))))

  /**
   * Returns the open connection with the fewest statements in flight. Also starts to open any closed connection, for
   * later statements.
   */
  const choose = () => {
    let chosen: SharedConnection | undefined
    for (const shared of connections) {
      if (shared.open === undefined) shared.isWanted.openUnsafe()
      else if (chosen === undefined || shared.statements.size < chosen.statements.size) chosen = shared
    }
    return chosen
  }

  const isAvoiding = (partition: string) => {
    const until = avoidedUntil.get(partition)
    if (until === undefined) return false
    if (now() < until) return true
    avoidedUntil.delete(partition)
    return false
  }

  return {
    size: count,
    /**
     * Reads the rows of a short statement. Returns undefined, within 0.1 s, if the statement must run on another
     * connection instead.
     */
    read: (partition: string, { parameters, text }: CompiledStatement): Effect.Effect<Rows | undefined> =>
      Effect.suspend(() => {
        const shared = isAvoiding(partition) ? undefined : choose()
        const current = shared?.open
        if (shared === undefined || current === undefined || shared.statements.size >= maxStatements) {
          return Exit.succeed(undefined)
        }
        // This is uninterruptible because an interrupted statement would either block the connection without being
        // listed in `statements`, or stay listed forever.
        return Effect.uninterruptible(Effect.suspend(() => {
          collectWrites(current.socket)
          const statement = shared.begin(partition)
          return Effect.map(Effect.exit(current.connection.queryValues(text, parameters)), (exit) => {
            shared.end(statement)
            return Exit.isSuccess(exit) ? exit.value : undefined
          })
        }))
      }),
    /** Returns how many connections have statements in flight. */
    connectionsInUse: () => connections.filter(({ statements }) => statements.size > 0).length,
    /** Returns how often a connection was closed because a statement blocked it. */
    blockedCount: () => blockedCount,
  }
})

/** The shared connections to the primary. */
export class SharedConnections extends Context.Service<
  SharedConnections,
  Effect.Success<ReturnType<typeof makeSharedConnections>>
>()("tickerline/postgres/SharedConnections") {}
