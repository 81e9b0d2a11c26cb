/**
 * Connections on which the short statements of many requests wait together, so that one write sends several of them
 * (docs/decisions/0144-shared-connections.md). Nothing depends on them: a statement that is not answered soon, for
 * whatever reason, runs again on a connection of its own.
 */
import { PgConnection } from "@effect/sql-pg"
import { Context, Duration, Effect, Exit, Latch } from "effect"
import type { Duplex } from "node:stream"
import { setImmediate } from "node:timers"
import { forkUntraced } from "../metrics/BackgroundFibers.ts"
import { makeMonotonicClock } from "../metrics/MonotonicTime.ts"
import type { CompiledStatement } from "../CompiledStatement.ts"
import { idleConnectionTimeout } from "../ReadPolicies.ts"
import type { PoolConnectionConfig } from "./ConnectionPool.ts"

/** Statements that wait on one connection at most. */
const maxStatements = 16

const checkInterval = Duration.millis(25)

/** A connection that answers no statement between this number of checks is closed. */
const maxSilentChecks = 3

/** How long an endpoint uses no shared connection after its statement has blocked one. */
const avoidanceMillis = 10_000

/** Pause before a connection is opened again that could not be opened. */
const reopeningPause = Duration.seconds(1)

/** How many of a pool's connections are shared. A smaller pool needs all of them for statements that take long. */
export const getSharedConnectionCount = (poolSize: number) => poolSize < 10 ? 0 : 2

type Rows = ReadonlyArray<ReadonlyArray<unknown>>

/** A statement that has been sent. PostgreSQL answers those of a connection in their order. */
interface SentStatement {
  readonly partition: string
}

class SharedConnection {
  /** Undefined while the connection is closed. */
  open: { readonly connection: PgConnection.PgConnection; readonly socket: Duplex } | undefined
  /** The statements without an answer, the oldest first. */
  readonly statements = new Set<SentStatement>()
  answers = 0
  readonly isWanted = Latch.makeUnsafe()
  readonly hasStatements = Latch.makeUnsafe()

  begin(partition: string): SentStatement {
    const statement = { partition }
    if (this.statements.size === 0) this.hasStatements.openUnsafe()
    this.statements.add(statement)
    return statement
  }

  end(statement: SentStatement) {
    this.answers += 1
    this.statements.delete(statement)
  }
}

/** Delays writes until the event loop has read all sockets that are ready, so that one write sends all statements. */
const collectWrites = (socket: Duplex) => {
  if (socket.writableCorked > 0) return
  socket.cork()
  setImmediate(() => socket.uncork())
}

export const makeSharedConnections = Effect.fnUntraced(function* (config: PoolConnectionConfig, count: number) {
  const now = yield* makeMonotonicClock
  const connections = Array.from({ length: count }, () => new SharedConnection())
  /** Until when partitions avoid the connections, in monotonic milliseconds. */
  const avoiding = new Map<string, number>()
  let blockedCount = 0

  const open = Effect.fnUntraced(function* (shared: SharedConnection) {
    let socket: Duplex | undefined
    const stream = () => socket = config.stream()
    const connection = yield* PgConnection.make({ ...config, multiplex: true, stream })
    // Ends a statement that waits for a lock soon after the connection was closed. Not every platform supports it.
    yield* Effect.ignore(connection.query("set client_connection_check_interval = '100ms'", [], false))
    if (socket === undefined || socket.destroyed) return undefined
    socket.once("close", () => {
      shared.open = undefined
      shared.hasStatements.openUnsafe()
    })
    shared.open = { connection, socket }
    return socket
  })

  /** Closes the connection if nothing is answered, or nothing sent. Returns when it is closed. */
  const watch = Effect.fnUntraced(function* (shared: SharedConnection, socket: Duplex) {
    let [answers, silentChecks] = [0, 0]
    while (!socket.destroyed) {
      if (shared.statements.size === 0) {
        shared.hasStatements.closeUnsafe()
        const isIdle = yield* Effect.timeoutOrElse(Effect.as(shared.hasStatements.await, false), {
          duration: idleConnectionTimeout,
          orElse: () => Effect.succeed(true),
        })
        if (isIdle) break
      }
      // Counts checks instead of time, because an answer may wait for the event loop, too.
      silentChecks = shared.answers === answers ? silentChecks + 1 : 0
      answers = shared.answers
      const [oldest] = shared.statements
      if (oldest !== undefined && silentChecks > maxSilentChecks) {
        blockedCount += 1
        avoiding.set(oldest.partition, now() + avoidanceMillis)
        break
      }
      yield* Effect.sleep(checkInterval)
    }
    shared.open = undefined
    socket.destroy()
  })

  const keepOpen = (shared: SharedConnection) =>
    Effect.gen(function* () {
      yield* shared.isWanted.await
      const socket = yield* open(shared)
      if (socket !== undefined) yield* watch(shared, socket)
      shared.isWanted.closeUnsafe()
    }).pipe(Effect.scoped, Effect.catchTag("SqlError", () => Effect.sleep(reopeningPause)))

  yield* Effect.forEach(connections, (shared) => forkUntraced(Effect.forever(keepOpen(shared))))

  /** Returns the connection with the fewest statements. One that is closed is opened for later statements. */
  const choose = () => {
    let chosen: SharedConnection | undefined
    for (const shared of connections) {
      if (shared.open === undefined) shared.isWanted.openUnsafe()
      else if (chosen === undefined || shared.statements.size < chosen.statements.size) chosen = shared
    }
    return chosen
  }

  const isAvoiding = (partition: string) => {
    const until = avoiding.get(partition)
    if (until === undefined) return false
    if (now() < until) return true
    avoiding.delete(partition)
    return false
  }

  return {
    size: count,
    /** Reads the rows of a short statement. Returns undefined, at the latest after 0.1 s, if it must run again. */
    read: (partition: string, { parameters, text }: CompiledStatement): Effect.Effect<Rows | undefined> =>
      Effect.suspend(() => {
        const shared = isAvoiding(partition) ? undefined : choose()
        const current = shared?.open
        if (shared === undefined || current === undefined || shared.statements.size >= maxStatements) {
          return Exit.succeed(undefined)
        }
        // An interrupted statement would block the connection without being listed, or be listed forever.
        return Effect.uninterruptible(Effect.suspend(() => {
          collectWrites(current.socket)
          const statement = shared.begin(partition)
          return Effect.map(Effect.exit(current.connection.queryValues(text, parameters)), (exit) => {
            shared.end(statement)
            return Exit.isSuccess(exit) ? exit.value : undefined
          })
        }))
      }),
    /** How many of the connections have statements without an answer. */
    connectionsInUse: () => connections.filter(({ statements }) => statements.size > 0).length,
    /** How often a connection was closed because of a statement without an answer. */
    blockedCount: () => blockedCount,
  }
})

export class SharedConnections extends Context.Service<
  SharedConnections,
  Effect.Success<ReturnType<typeof makeSharedConnections>>
>()("tickerline/postgres/SharedConnections") {}
