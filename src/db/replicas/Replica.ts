/** One replica: its connections, what the last look at it found, and reads over it. */
import { PgClient, type PgConnection, PgPool } from "@effect/sql-pg"
import { Effect, type Redacted, Schedule } from "effect"
import { SqlClient, type SqlConnection, SqlError } from "effect/sql"
import { makePoolTimeoutError, PoolSize, PoolTimeout, type ReadFailure } from "../Database.ts"
import * as Line from "../health/SocketRegistry.ts"
import { makePoll, pollTimeout, type ServerState, stateTtl, versionOf } from "./ServerState.ts"
import { makePoolQueue } from "../pool/PoolQueue.ts"

/** What is read, and the version of it that the primary was last known to have. */
export interface TablesAtVersion {
  readonly tables: ReadonlyArray<string>
  readonly version: string
}

/** Reads that wait for a replica which has said nothing for so long are sent elsewhere; others know by then. */
const silence = 3_000

const lost = (message: string) =>
  new SqlError.SqlError({ reason: new SqlError.ConnectionError({ cause: new Error(message), operation: "execute" }) })

/** Replay waits for a query only for so long (`max_standby_streaming_delay`), and then cancels it. */
export const isRecoveryConflict = (error: unknown) =>
  SqlError.isSqlError(error) && error.reason._tag === "SerializationError"

/** The driver's session as a connection of `SqlClient`; the driver keeps its own such form to itself. */
const connectionOf = (session: PgConnection.PgConnection): SqlConnection.Connection => {
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

const isSame = (one: ServerState, other: ServerState) =>
  Array.from(other.datasets.values()).every(({ dataset, version }) => one.datasets.get(dataset)?.version === version)

/** What keeps a replica from being used, in words for the log; undefined: nothing. */
type Hindrance = string | undefined

interface Options {
  readonly name: string
  readonly url: Redacted.Redacted
  /** The longest lag, milliseconds. */
  readonly most: number
  /** How far behind a position is, milliseconds. */
  readonly behind: (position: number, now: number) => number
}

export const makeReplica = Effect.fnUntraced(function* ({ behind, most, name, url }: Options) {
  const { config } = yield* PgClient.PgClient
  const sql = yield* SqlClient.SqlClient
  const places = yield* PoolSize
  const line = Line.makeSocketRegistry(url)
  const itsConfig = { ...config, url, stream: line.open }
  const pool = yield* PgPool.make({ ...itsConfig, maxConnections: places })
  const ownLook = makePoll(yield* PgClient.make({ ...itsConfig, maxConnections: 1, minConnections: 0 }))
  const anyLook = makePoll(sql)

  let state: ServerState | undefined
  let lag = Infinity
  let hindrance: Hindrance = "it was not looked at yet"
  let answered = performance.now()
  let [reads, turnedAway] = [0, 0]

  const joined = new WeakMap<ReadonlyArray<string>, (look: ServerState) => string | undefined>()
  const has = (look: ServerState, { tables, version }: TablesAtVersion) => {
    const join = joined.get(tables) ?? versionOf(tables)
    joined.set(tables, join)
    return join(look) === version
  }
  const isWithin = () => state !== undefined && lag <= most && performance.now() - state.polledAt <= stateTtl

  const { inside, through: connected, waiting } = makePoolQueue(places, yield* PoolTimeout, () => {
    turnedAway += 1
    return makePoolTimeoutError()
  })

  /**
   * A standby that was restarted after a crash may come back at an earlier state than it showed before, so a session
   * counts only if it is older than a look that found the version; a new one is looked over itself.
   */
  const sessions = new WeakMap<PgConnection.PgConnection, SqlConnection.Connection>()
  const over = <A, E, R>(query: Effect.Effect<A, E, R>, connection: SqlConnection.Connection) =>
    Effect.provideService(query, sql.transactionService, [connection, 0])
  const check = Effect.fnUntraced(function* (look: typeof anyLook, wanted: TablesAtVersion) {
    const found = yield* look
    if (found.recovers && has({ ...found, timeline: state?.timeline ?? null }, wanted)) return
    return yield* lost("The replica has not the version that it had.")
  })
  const checked = Effect.fnUntraced(function* (session: PgConnection.PgConnection, wanted: TablesAtVersion) {
    const connection = connectionOf(session)
    yield* check(over(anyLook, connection), wanted)
    sessions.set(session, connection)
    return connection
  })

  const counted = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.suspend(() => {
      reads += 1
      return effect
    })

  const read = <A, R>(query: Effect.Effect<A, ReadFailure, R>, wanted: TablesAtVersion, route: string) =>
    connected(route)(counted(pool.use((session) => {
      const connection = sessions.get(session)
      return connection === undefined
        ? Effect.flatMap(checked(session, wanted), (made) => over(query, made))
        : over(query, connection)
    })))

  const told = (now: Hindrance) => {
    const before = hindrance
    hindrance = now
    return now === before
      ? Effect.void
      : now === undefined
      ? Effect.logInfo(`The replica ${name} is used.`)
      : Effect.logWarning(`The replica ${name} is not used: ${now}`)
  }

  const failed = Effect.fnUntraced(function* (error: { readonly message: string }) {
    state = undefined
    // What waits for it then fails as any lost connection does, and finds another server.
    if (performance.now() - answered > silence) line.destroySockets()
    yield* told(error.message)
  })

  /** Right after the primary, whose last look this is; soon again where what was written there is not here yet. */
  const look = (primary: ServerState) => {
    const once = Effect.gen(function* () {
      const found = yield* Effect.retry(ownLook, { while: isRecoveryConflict, times: 3 })
      answered = performance.now()
      lag = found.position === null ? Infinity : behind(found.position, answered)
      state = found.recovers ? { ...found, timeline: primary.timeline } : undefined
      yield* told(found.recovers ? undefined : "it is no replica; the primary answers itself")
      return (found.position ?? 0) < (primary.position ?? 0) && !isSame(found, primary)
    })
    return Effect.timeout(once, pollTimeout).pipe(
      Effect.repeat({ while: (isBehind) => isBehind, schedule: Schedule.spaced("30 millis"), times: 5 }),
      Effect.catch(failed),
    )
  }

  return {
    name,
    look,
    read,
    /** Whether it has the version, and may be asked for it. */
    isUsable: (wanted: TablesAtVersion) => isWithin() && state !== undefined && has(state, wanted),
    isWithin,
    /** A session of the caller's own, which has the version. */
    session: (wanted: TablesAtVersion) =>
      counted(Effect.tap(PgClient.makeClient(itsConfig), (own) => check(makePoll(own), wanted))),
    /** Not used until it was looked at again. */
    setAside: () => {
      state = undefined
    },
    busy: () => inside() + waiting(),
    inside,
    reads: () => reads,
    turnedAway: () => turnedAway,
    /** Milliseconds; of one that is away it grows. */
    lag: () => state === undefined ? lag + (performance.now() - answered) : lag,
  }
})

export type Replica = Effect.Success<ReturnType<typeof makeReplica>>
