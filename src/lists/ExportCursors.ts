/**
 * `limit=all`: a list in whole, from one snapshot, at the pace of its reader. PostgreSQL reads all of it at once,
 * within the time of any other statement, and keeps it (a cursor `with hold`); so whoever is slow holds no lock on a
 * table and no old rows, and whatever can go wrong with a query has gone wrong before the first byte is sent. Each list
 * has a connection of its own beside the pool, which ends with it; how many there are at once is bounded.
 */
import { PgClient } from "@effect/sql-pg"
import { Config, Context, Duration, Effect, Exit, Layer, Schema, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlError, type Statement } from "effect/sql"
import { PoolTimeout, type ReadFailure, retryRead } from "../db/Database.ts"
import { swapLockName } from "../db/AdvisoryLocks.ts"
import { ReadRouter } from "../db/replicas/ReadRouter.ts"
import { DirectConnection } from "../db/pool/Session.ts"
import { makePoolQueue } from "../db/pool/PoolQueue.ts"
import { isOutOfResources, isStatementTimeout } from "../db/SqlState.ts"
import { registerCounter, registerGauge } from "../observability/CallbackMetrics.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../rules/Errors.ts"
import { RequestContext } from "../http/RequestContext.ts"
import type { RowValues } from "../rows/RowEncoder.ts"

export const MaxExportsConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100 })),
  "WHOLE_LISTS",
)
  .pipe(
    Config.withDefault(4),
  )

/** §8: PostgreSQL reads the list when it commits, where it no longer counts the time of a statement. */
export const ExportReadTimeout = Context.Reference<Duration.Duration>("tickerline/lists/Longest", {
  defaultValue: () => Duration.seconds(30),
})

/** The server counts 30 seconds itself; this is for a server that no longer answers at all. */
const longestFetch = Duration.seconds(36)

export interface ExportCursor {
  /** How many rows the list has. */
  readonly rows: number
  /** The next rows, so many at most. */
  readonly take: (most: number) => Effect.Effect<ReadonlyArray<RowValues>, SqlError.SqlError>
  /** Goes to where so many rows have been taken. */
  readonly seek: (rows: number) => Effect.Effect<void, SqlError.SqlError>
}

interface Wanted {
  readonly tables: ReadonlyArray<string>
  /** Of these tables; where it is known, a replica may send the list. */
  readonly version?: string | undefined
  readonly statement: Statement.Fragment
}

type Session = Effect.Effect<PgClient.PgClient, ReadFailure, Scope.Scope | Reactivity.Reactivity>

/** Closes what a failed attempt has opened before another one begins. */
const orNothing = <A, E, R>(make: Effect.Effect<A, E, R>) =>
  Effect.flatMap(
    Effect.scope,
    (outer) =>
      Effect.flatMap(Scope.fork(outer), (scope) =>
        Effect.onError(Scope.provide(make, scope), () => Scope.close(scope, Exit.void))),
  )

const message =
  "The whole list takes longer than 30 seconds to read. Ask for less of it at once: name tickers, or a range of dates."

const tooLong = () => new DataRefreshing({ error: { message } })

const noSpace = () =>
  new DatabasePoolTimeout({
    error: { message: "The database has no space for a whole list at the moment. Ask for less, or for pages." },
  })

const lost = new SqlError.SqlError({
  reason: new SqlError.ConnectionError({ cause: new Error("The database does not answer."), operation: "execute" }),
})

const Moved = Schema.Struct({ rowCount: Schema.Int })

export class ExportCursors extends Context.Service<ExportCursors, {
  /** Reads all that the statement finds; until the end of the scope. */
  readonly open: (wanted: Wanted) => Effect.Effect<ExportCursor, DataRefreshing | DatabasePoolTimeout, Scope.Scope>
}>()("tickerline/lists/Cursors") {
  static readonly layer = Layer.effect(
    ExportCursors,
    Effect.gen(function* () {
      const replicas = yield* ReadRouter
      const { config, pooler } = yield* DirectConnection
      const reactivity = yield* Reactivity.Reactivity
      const fromPrimary = PgClient.makeClient(config)
      const places = yield* MaxExportsConfig
      const most = Math.ceil(places / 2)
      let refused = 0
      const { acquireScoped, permitsInUse } = makePoolQueue({
        permits: places,
        maxPerPartition: most,
        timeout: yield* PoolTimeout,
        onTimeout: (isPartitionFull) => {
          refused += 1
          const [who, which] = isPartitionFull ? ["This account is", most] : ["The service is", places]
          const words = `${who} sending ${which} whole lists already. Ask again when one has ended, or ask for pages.`
          return new DatabasePoolTimeout({ error: { message: words } })
        },
      })
      yield* registerGauge({
        name: "tickerline_whole_lists",
        description: "Lists that are being sent in whole.",
        read: permitsInUse,
      })
      yield* registerCounter({
        name: "tickerline_whole_lists_refused_total",
        description: "Lists that were not sent in whole, because too many others were.",
        read: () => refused,
      })

      const declare = Effect.fnUntraced(function* (session: Session, { statement, tables }: Wanted) {
        const sql = yield* Effect.provideService(session, Reactivity.Reactivity, reactivity)
        // Not `withTransaction`, whose end cannot be interrupted; what is left open ends with the connection.
        yield* sql`begin`
        // All rows are wanted, and not the first ones soon.
        yield* sql`set local cursor_tuple_fraction = 1`
        yield* Effect.forEach(
          tables.toSorted(),
          (table) => sql`select pg_advisory_xact_lock_shared(hashtext(${swapLockName(table)}))`,
          { discard: true },
        )
        yield* sql`declare whole scroll cursor with hold for ${statement}`
        yield* Effect.timeoutOrElse(sql`commit`, {
          duration: yield* ExportReadTimeout,
          orElse: () => Effect.fail(tooLong()),
        })
        const seek = (rows: number) => Effect.asVoid(sql`${sql.literal(`move absolute ${rows} in whole`)}`.raw)
        const { rowCount } = yield* Schema.decodeUnknownEffect(Moved)(yield* sql`move forward all in whole`.raw)
        yield* seek(0)
        const take = (most: number) =>
          Effect.timeoutOrElse(sql`${sql.literal(`fetch forward ${most} from whole`)}`.valuesUnprepared, {
            duration: longestFetch,
            orElse: () => Effect.fail(lost),
          })
        return { rows: rowCount, take, seek }
      })

      /**
       * A pooler stands before replicas, too, and a list wants a session. On a replica no lock keeps a swap waiting:
       * whoever is in its way is cancelled, and reads from the primary.
       */
      const anywhere = (wanted: Wanted) => {
        const { tables, version } = wanted
        const near = version === undefined || pooler !== undefined ? undefined : { tables, version }
        const replica = near === undefined ? undefined : replicas.chooseReplica(near)
        const primary = orNothing(declare(fromPrimary, wanted))
        if (near === undefined || replica === undefined) return primary
        return replicas.withFallback(
          orNothing(declare(replica.openSession(near), { ...wanted, tables: [] })),
          replica,
          primary,
        )
      }

      const open = Effect.fnUntraced(function* (wanted: Wanted) {
        const { account_id } = yield* RequestContext
        yield* acquireScoped(String(account_id))
        return yield* Effect.suspend(() => anywhere(wanted)).pipe(
          Effect.catchIf(isStatementTimeout, () => Effect.fail(tooLong())),
          Effect.catchIf(isOutOfResources, () => Effect.fail(noSpace())),
          retryRead,
        )
      })
      return ExportCursors.of({ open })
    }),
  ).pipe(Layer.provide(Reactivity.layer))
}
