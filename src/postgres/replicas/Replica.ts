/** A read replica: its connections, its polled state, reads from it, and its replication lag. */
import { PgClient, type PgConnection } from "@effect/sql-pg"
import { Effect, Fiber, type Redacted, Schedule } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { makeMonotonicClock } from "../metrics/MonotonicTime.ts"
import { makeTlsSockets } from "../pool/DatabaseTls.ts"
import { makeRotatedPassword, type UrlFile } from "../pool/PasswordRotation.ts"
import { DatabasePoolSizeConfig, makeConnectionOpener, makeConnectionPool } from "../pool/ConnectionPool.ts"
import { toSqlConnection } from "../pool/PooledClient.ts"
import { type DatabaseReadError, poolTimeout } from "../ReadTimeoutsAndRetries.ts"
import { isRecoveryConflict } from "../SqlState.ts"
import {
  makeDatasetVersionReader,
  makeServerPoll,
  serverPollTimeout,
  type ServerState,
  serverStateTtlMillis,
} from "../versions/ServerState.ts"

interface WalSample {
  /** When the primary was polled, in monotonic milliseconds. */
  readonly at: number
  /** The primary's WAL position, in bytes. */
  readonly position: number
}

/**
 * Enough samples for at least ten minutes. The primary is polled four times per second, and each poll adds at most one
 * sample.
 */
const maxWalSamples = 2_400

/**
 * Tracks the primary's WAL positions to determine how far a replica is behind: the time since the primary first moved
 * past the replica's position. A replica cannot measure its own lag: while its link to the primary is cut, it believes
 * that it is up to date, and while nothing is written, it believes that it is behind. `record` adds a position read
 * from the primary, with the monotonic time at which it was read.
 */
export const makeReplicationLagTracker = () => {
  const samples: Array<WalSample> = []
  return {
    record: ({ at, position }: WalSample) => {
      // -1 is lower than every position, so the first sample is always added.
      const last = samples.at(-1)?.position ?? -1
      // After a failover, the new primary may be behind the old one. In that case the samples from the old primary are
      // meaningless.
      if (position < last) samples.length = 0
      if (position !== last) samples.push({ at, position })
      if (samples.length > maxWalSamples) samples.shift()
    },
    /**
     * Returns the lag of a replica at this WAL position, in milliseconds, or `Infinity` if the position is older than
     * every sample.
     */
    lagOf: (position: number, now: number) => {
      const [first] = samples
      if (first === undefined || position < first.position) return Infinity
      const firstBeyond = samples.find((sample) => sample.position > position)
      return firstBeyond === undefined ? 0 : now - firstBeyond.at
    },
  }
}

/** A read that runs on the connection passed to it, which is either to the primary or to a replica. */
export type SessionQuery<A, R = never> = (
  session: PgConnection.PgConnection,
) => Effect.Effect<A, DatabaseReadError, R>

/** The tables to read, and their version as last reported by the primary. */
export interface RequiredTableVersion {
  readonly tables: ReadonlyArray<string>
  readonly version: string
}

/**
 * After this many milliseconds of silence, waiting reads move to the primary. New reads already avoid the replica
 * sooner.
 */
const maxSilence = 3_000

const makeConnectionError = (message: string) =>
  new SqlError.SqlError({ reason: new SqlError.ConnectionError({ cause: new Error(message), operation: "execute" }) })

const hasSameVersions = (replica: ServerState, primary: ServerState) =>
  Array.from(primary.datasets.values()).every(({ dataset, version }) =>
    replica.datasets.get(dataset)?.version === version
  )

interface ReplicaOptions {
  readonly name: string
  readonly url: Redacted.Redacted
  /** The file from which the replica's URL was read, if any. */
  readonly urlFile: UrlFile | undefined
  /** Returns the lag in milliseconds for a WAL position, at a monotonic time in milliseconds. */
  readonly lagOf: (position: number, now: number) => number
}

/**
 * Creates the connections to a replica, and the functions that poll it and read from it. The caller must call `poll`
 * regularly, because the replica is used only while its last poll is recent.
 */
export const makeReplica = Effect.fnUntraced(function* ({ lagOf, name, url, urlFile }: ReplicaOptions) {
  const { config: primaryConfig } = yield* PgClient.PgClient
  const sql = yield* SqlClient.SqlClient
  const now = yield* makeMonotonicClock
  const { sockets, ssl } = yield* makeTlsSockets(url)
  // The replica's password is in its own URL.
  const connection = { ...primaryConfig, url, ssl, stream: sockets.open, password: undefined }
  const config = urlFile === undefined
    ? connection
    : { ...connection, password: makeRotatedPassword(connection, urlFile) }
  let lastResponseAt = now()
  const isSilent = () => now() - lastResponseAt > maxSilence
  const connect = makeConnectionOpener(config)
  const pool = yield* makeConnectionPool({
    // This is checked when a waiting read gets its turn to open a connection. If the replica is silent, the read fails
    // immediately instead of waiting again.
    connect: (retire) =>
      Effect.suspend(() => isSilent() ? makeConnectionError("The replica does not respond.") : connect(retire)),
    size: yield* DatabasePoolSizeConfig,
    timeout: yield* poolTimeout,
  })
  const pollReplica = makeServerPoll(yield* PgClient.make({ ...config, maxConnections: 1, minConnections: 0 }))
  // Polls whichever session it is given as that of a transaction (`checkSession`). Without one, it would poll the
  // primary.
  const pollSession = makeServerPoll(sql)

  let state: ServerState | undefined
  let lag = Infinity
  /** Why the replica is not used, or undefined while it is in use. */
  let unusedBecause: string | undefined = "it has not been polled yet"
  let readCount = 0

  /** For each list of tables, the function that reads their combined version from a server's state. */
  const versionReaders = new WeakMap<ReadonlyArray<string>, ReturnType<typeof makeDatasetVersionReader>>()
  const hasVersion = (state: ServerState, { tables, version }: RequiredTableVersion) => {
    const readVersion = versionReaders.get(tables) ?? makeDatasetVersionReader(tables)
    versionReaders.set(tables, readVersion)
    return readVersion(state) === version
  }

  /**
   * Fails unless the server that `poll` reaches is a replica with the required version. A replica does not know its
   * timeline, so that of the last successful poll is used.
   */
  const requireVersion = Effect.fnUntraced(function* (poll: typeof pollSession, required: RequiredTableVersion) {
    const polled = yield* poll
    const timeline = state?.timeline ?? null
    if (polled.is_replica && hasVersion({ ...polled, timeline }, required)) return
    return yield* makeConnectionError("The replica no longer has the required version.")
  })

  /**
   * The sessions whose version has been checked. A standby that restarts after a crash may return to an earlier state,
   * so the version is polled in each new session before the first read.
   */
  const checkedSessions = new WeakSet<PgConnection.PgConnection>()
  const checkSession = Effect.fnUntraced(
    function* (session: PgConnection.PgConnection, required: RequiredTableVersion) {
      const connection = toSqlConnection(session)
      yield* requireVersion(Effect.provideService(pollSession, sql.transactionService, [connection, 0]), required)
      checkedSessions.add(session)
    },
  )

  /** Runs a query on a session of the pool, whose version is checked before the session's first query. */
  const read = <A, R>(query: SessionQuery<A, R>, required: RequiredTableVersion, partition: string) =>
    pool.use(partition, (session) => {
      readCount += 1
      return checkedSessions.has(session)
        ? query(session)
        : Effect.flatMap(checkSession(session, required), () => query(session))
    })

  /** Logs when the replica begins or ceases to be used. `reason` is why it is not used, or undefined if it is. */
  const logUsage = (reason: string | undefined) => {
    const hasChanged = reason !== unusedBecause
    unusedBecause = reason
    if (!hasChanged) return Effect.void
    return reason === undefined
      ? Effect.logInfo(`The replica ${name} is in use.`)
      : Effect.logWarning(`The replica ${name} is not used: ${reason}`)
  }

  const onPollFailure = Effect.fnUntraced(function* (error: { readonly message: string }) {
    state = undefined
    // Waiting reads then fail with a connection error and run on the primary instead.
    if (isSilent()) sockets.destroySockets()
    yield* logUsage(error.message)
  })

  /**
   * Polls the replica right after the primary. Repeats this up to five times until the replica has the primary's latest
   * change.
   */
  const poll = (primary: ServerState) => {
    /** Polls once. Returns whether the replica lacks a change to a table that the primary has. */
    const pollOnce = Effect.gen(function* () {
      const polled = yield* Effect.retry(pollReplica, { while: isRecoveryConflict, times: 3 })
      lastResponseAt = now()
      lag = polled.wal_position === null ? Infinity : lagOf(polled.wal_position, lastResponseAt)
      state = polled.is_replica ? { ...polled, timeline: primary.timeline } : undefined
      yield* logUsage(polled.is_replica ? undefined : "it is not a replica")
      return (polled.wal_position ?? 0) < (primary.wal_position ?? 0) && !hasSameVersions(polled, primary)
    })
    // When a statement is interrupted, the driver waits up to 5 s for it to end, and other polls fail during that time.
    // The poll therefore runs in a separate fiber, and the timeout does not wait for that fiber.
    const pollInTime = Effect.gen(function* () {
      const fiber = yield* Effect.forkDetach(pollOnce)
      const interrupt = Effect.sync(() => fiber.interruptUnsafe())
      return yield* Effect.timeout(Effect.onInterrupt(Fiber.join(fiber), () => interrupt), serverPollTimeout)
    })
    return pollInTime.pipe(
      Effect.repeat({ while: (isBehind) => isBehind, schedule: Schedule.spaced("30 millis"), times: 5 }),
      Effect.catch(onPollFailure),
    )
  }

  const isAvailable = () => state !== undefined && now() - state.polledAt <= serverStateTtlMillis

  return {
    name,
    poll,
    read,
    /** Opens a session outside the pool. Fails if the replica no longer has the required version of the tables. */
    openSession: (required: RequiredTableVersion) =>
      Effect.suspend(() => {
        readCount += 1
        return Effect.tap(PgClient.makeClient(config), (session) => requireVersion(makeServerPoll(session), required))
      }),
    /** Returns whether the last poll succeeded and is recent. */
    isAvailable,
    hasVersion: (required: RequiredTableVersion) => isAvailable() && state !== undefined && hasVersion(state, required),
    /** Excludes the replica until its next successful poll. */
    markUnavailable: () => {
      state = undefined
    },
    /** Returns the number of running and waiting reads. */
    pendingReads: () => pool.connectionsInUse() + pool.waiterCount(),
    connectionsInUse: pool.connectionsInUse,
    readCount: () => readCount,
    timeoutCount: pool.timeoutCount,
    /** Returns the replication lag in milliseconds. The lag keeps growing while the replica does not respond. */
    lag: () => state === undefined ? lag + (now() - lastResponseAt) : lag,
  }
})

/** A read replica. */
export type Replica = Effect.Success<ReturnType<typeof makeReplica>>
