/**
 * Opens a cursor for an export (`limit=all`) on a connection outside the pool. PostgreSQL materializes all rows before
 * the first byte is sent (docs/decisions/0031-exports-from-held-cursors.md).
 */
import { PgClient } from "@effect/sql-pg"
import { Context, Duration, Effect, Exit, Fiber, Layer, Schema, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlError } from "effect/sql"
import type { CompiledStatement } from "../../postgres/CompiledStatement.ts"
import { cursorTimeout, type DatabaseReadError, makeReadPolicies } from "../../postgres/ReadTimeoutsAndRetries.ts"
import { ReadRouter } from "../../postgres/replicas/ReadRouter.ts"
import { DirectConnectionConfig } from "../../postgres/pool/ConnectionSettings.ts"
import { retryRejectedPassword } from "../../postgres/pool/PasswordRotation.ts"
import { isOutOfResources, isStatementTimeout } from "../../postgres/SqlState.ts"
import { DatabasePoolTimeout, type DataRefreshing, makeDataRefreshingError } from "../../contract/rules/ApiErrors.ts"
import type { ErrorWithHeaders } from "../../contract/AccountErrors.ts"
import type { AdmittedRequest } from "../EndpointHandler.ts"
import { type BinaryRecord, getRecordColumn } from "../../postgres/BinaryRecord.ts"
import { type ExportSlots, makeExportSlots } from "./ExportSlots.ts"

/**
 * Time limit for the commit. With a held cursor, the commit reads all rows, and `statement_timeout` does not apply to
 * it (§8, limits).
 */
export const ExportReadTimeout = Context.Reference<Duration.Duration>("tickerline/query/ExportReadTimeout", {
  defaultValue: () => Duration.seconds(30),
})

/** A cursor over the rows of an export. */
export interface ExportCursor {
  /** Number of rows in the list. */
  readonly rows: number
  /**
   * Returns the next `count` rows. With `readsAhead`, every call except the first also starts to read the following
   * `count` rows. The next call returns those rows, regardless of its own `count`.
   */
  readonly fetch: (
    count: number,
    readsAhead?: boolean,
  ) => Effect.Effect<ReadonlyArray<BinaryRecord>, SqlError.SqlError>
  /** Moves the cursor to the position after the first `rows` rows. */
  readonly seek: (rows: number) => Effect.Effect<void, SqlError.SqlError>
  /** Monitors how fast the client reads the export. */
  readonly watchClient: ExportSlots["watch"]
}

interface CursorOptions {
  readonly tables: ReadonlyArray<string>
  /** The version of the tables. If it is given, the cursor may be opened on a replica that has this version. */
  readonly version?: string | undefined
  readonly statement: CompiledStatement
  readonly request: AdmittedRequest
}

type Session = Effect.Effect<PgClient.PgClient, DatabaseReadError, Scope.Scope | Reactivity.Reactivity>

/**
 * Closes the connection of a failed attempt immediately, before the next attempt opens another connection. The
 * connection of a successful attempt stays open until the outer scope closes.
 */
const closeOnError = <A, E, R>(acquire: Effect.Effect<A, E, R>) =>
  Effect.flatMap(
    Effect.scope,
    (outer) =>
      Effect.flatMap(Scope.fork(outer), (scope) =>
        Effect.onError(Scope.provide(acquire, scope), () => Scope.close(scope, Exit.void))),
  )

const makeResourceError = () =>
  new DatabasePoolTimeout({
    error: { message: "The database has no space for this export at the moment. Reduce it, or request pages." },
  })

const unresponsiveError = new SqlError.SqlError({
  reason: new SqlError.ConnectionError({ cause: new Error("The database does not answer."), operation: "execute" }),
})

/**
 * Limits how long to wait for a statement on an open cursor. The database may have gone away without closing the
 * connection.
 */
const limitTime = <A>(statement: Effect.Effect<A, SqlError.SqlError>) =>
  Effect.timeoutOrElse(statement, { duration: cursorTimeout, orElse: () => Effect.fail(unresponsiveError) })

const MoveResult = Schema.Struct({ rowCount: Schema.Int })

/** Opens cursors for exports. */
export class ExportCursors extends Context.Service<ExportCursors, {
  /** Opens a cursor over all rows of the statement. The cursor closes when the scope closes. */
  readonly open: (
    options: CursorOptions,
  ) => Effect.Effect<ExportCursor, DataRefreshing | DatabasePoolTimeout | ErrorWithHeaders, Scope.Scope>
}>()("tickerline/query/ExportCursors") {
  static readonly layer = Layer.effect(
    ExportCursors,
    Effect.gen(function* () {
      const readRouter = yield* ReadRouter
      const { config, pooler } = yield* DirectConnectionConfig
      const reactivity = yield* Reactivity.Reactivity
      const withReadPolicies = yield* makeReadPolicies
      const connectToPrimary = retryRejectedPassword(config, PgClient.makeClient(config))
      const slots = yield* makeExportSlots

      /**
       * Declares the cursor `with hold`, commits, and returns the functions that read it. After the commit, no
       * transaction or lock remains open while a client reads slowly.
       */
      const declare = Effect.fnUntraced(function* (session: Session, { parameters, text }: CompiledStatement) {
        const sql = yield* Effect.provideService(session, Reactivity.Reactivity, reactivity)
        // `withTransaction` is not used here because its commit cannot be interrupted. If the connection closes, an
        // open transaction is rolled back.
        yield* sql`begin`
        // By default, PostgreSQL optimizes a cursor for returning the first rows quickly, but an export reads all rows.
        yield* sql`set local cursor_tuple_fraction = 1`
        yield* sql.unsafe(`declare export scroll cursor with hold for ${text}`, parameters)
        yield* Effect.timeoutOrElse(sql`commit`, {
          duration: yield* ExportReadTimeout,
          orElse: () => Effect.fail(makeDataRefreshingError()),
        })
        const move = (rows: number) => sql`${sql.literal(`move absolute ${rows} in export`)}`.raw
        const { rowCount } = yield* Schema.decodeUnknownEffect(MoveResult)(yield* sql`move forward all in export`.raw)
        yield* move(0)
        const fetchNext = (count: number) =>
          Effect.map(
            limitTime(sql`${sql.literal(`fetch forward ${count} from export`)}`.valuesUnprepared),
            getRecordColumn,
          )
        const scope = yield* Effect.scope
        let position = 0
        /** The read of the rows after `position`, which runs while the previous rows are being encoded and sent. */
        let ahead: Fiber.Fiber<ReadonlyArray<BinaryRecord>, SqlError.SqlError> | undefined

        const fetch = (count: number, readsAhead = false) =>
          Effect.suspend(() => {
            const isFirst = position === 0
            // If a read is in progress, its rows are the next ones.
            return Effect.tap(ahead === undefined ? fetchNext(count) : Fiber.join(ahead), (rows) => {
              ahead = undefined
              position += rows.length
              // HEAD requests, and exports that the account cannot pay for, need only the first rows.
              if (!readsAhead || isFirst || position === rowCount) return Effect.void
              return Effect.map(Effect.forkIn(fetchNext(count), scope, { startImmediately: true }), (fiber) => {
                ahead = fiber
              })
            })
          })

        const seek = (rows: number) =>
          Effect.suspend(() => {
            const pending = ahead === undefined ? Effect.void : Fiber.await(ahead)
            ahead = undefined
            position = rows
            return Effect.asVoid(Effect.andThen(pending, limitTime(move(rows))))
          })
        return { rows: rowCount, fetch, seek, watchClient: slots.watch }
      })

      /**
       * Opens the cursor on a replica if possible. Otherwise opens it on the primary, bypassing any pooler, because a
       * cursor needs a session. If recovery on the replica cancels the query, repeats the query on the primary.
       */
      const declareAnywhere = ({ statement, tables, version }: CursorOptions) => {
        const requirement = version === undefined || pooler !== undefined ? undefined : { tables, version }
        const replica = requirement === undefined ? undefined : readRouter.chooseReplica(requirement)
        const onPrimary = closeOnError(declare(connectToPrimary, statement))
        if (requirement === undefined || replica === undefined) return onPrimary
        return readRouter.withFallback(
          closeOnError(declare(replica.openSession(requirement), statement)),
          replica,
          onPrimary,
        )
      }

      const open = Effect.fnUntraced(function* (options: CursorOptions) {
        const { account, past } = options.request
        yield* slots.take(account.account_id)
        const statement = past === undefined ? options.statement : yield* past.rewrite(options.statement)
        return yield* Effect.suspend(() => declareAnywhere({ ...options, statement })).pipe(
          Effect.catchIf(isStatementTimeout, () => Effect.fail(makeDataRefreshingError())),
          Effect.catchIf(isOutOfResources, () => Effect.fail(makeResourceError())),
          Effect.timeoutOrElse({ duration: cursorTimeout, orElse: () => Effect.fail(makeDataRefreshingError()) }),
          withReadPolicies,
        )
      })
      return ExportCursors.of({ open })
    }),
  ).pipe(Layer.provide(Reactivity.layer))
}
