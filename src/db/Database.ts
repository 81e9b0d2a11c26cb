/** Reads of a request, which know its endpoint, replica and moment; and the layer of the database client. */
import { Context, Effect, Layer, type Redacted } from "effect"
import { RequestContext } from "../http/RequestContext.ts"
import type { DatabasePoolTimeout, DataRefreshing } from "../rules/Errors.ts"
import type { CompiledStatement } from "./CompiledStatement.ts"
import { DirectConnectionConfig, makeConnectionConfig } from "./pool/ConnectionSettings.ts"
import { pooledClientLayer } from "./pool/PooledClient.ts"
import { Reader, type Rows } from "./Reader.ts"
import type { DatabaseReadError } from "./ReadPolicies.ts"
import type { RequiredTableVersion } from "./replicas/Replica.ts"

export interface DatabaseClientOptions {
  readonly url: Redacted.Redacted
  readonly applicationName: string
  /** The URL of PostgreSQL itself, if `url` names a pooler in transaction mode. */
  readonly direct?: Redacted.Redacted
}

/** Provides the pool, also as `SqlClient`, and `DirectConnectionConfig` for work that needs a session. */
export const databaseClientLayer = ({ applicationName, direct, url }: DatabaseClientOptions) =>
  Layer.unwrap(Effect.gen(function* () {
    const pool = yield* makeConnectionConfig({ url, applicationName, pooled: direct !== undefined })
    const connection = direct === undefined
      ? { ...pool, pooler: undefined }
      : { ...yield* makeConnectionConfig({ url: direct, applicationName, pooled: false }), pooler: pool }
    return Layer.merge(
      pooledClientLayer(pool.config),
      Layer.succeed(DirectConnectionConfig, connection),
    )
  }))

/**
 * Set only by `lists/QueryCache.ts`, for results that are the same for all accounts: `readValues` may then use a
 * replica with this version. If unset, as for accounts, keys, usage and balances, it uses the primary.
 */
export const ReplicaReader = Context.Reference<RequiredTableVersion | undefined>("tickerline/db/ReplicaReader", {
  defaultValue: () => undefined,
})

/** Rewrites a statement before it runs, for example so that it reads a past state. */
export type StatementRewriter = (
  statement: CompiledStatement,
) => Effect.Effect<CompiledStatement, DataRefreshing | DatabasePoolTimeout>

/** Set only by `history/AsOf.ts`, for requests with `as_of`. It applies to the statements of lists and lineages. */
export const StatementRewriter = Context.Reference<StatementRewriter | undefined>("tickerline/db/StatementRewriter", {
  defaultValue: () => undefined,
})

/** Applies the request's `StatementRewriter`, if it has one. */
export const rewriteStatement = (statement: CompiledStatement) =>
  Effect.flatMap(StatementRewriter, (rewrite) => rewrite === undefined ? Effect.succeed(statement) : rewrite(statement))

/** Reads for the API: `Reader`, with the partition, the replica and the rewriter of the request. */
export class Database extends Context.Service<Database, {
  /**
   * Runs a query once its partition of the pool has a free connection. The default partition is the request's endpoint.
   * Work for several endpoints has its own partition, so that it never waits for an endpoint with a locked table.
   */
  readonly read: <A, R>(
    query: Effect.Effect<A, DatabaseReadError, R>,
    partition?: string,
  ) => Effect.Effect<A, DataRefreshing | DatabasePoolTimeout, R>
  /** Like `read`, but returns the values of one statement. Cheaper, because untraced reads bypass `SqlClient`. */
  readonly readValues: (
    statement: CompiledStatement,
    partition?: string,
  ) => Effect.Effect<Rows, DataRefreshing | DatabasePoolTimeout>
}>()("tickerline/db/Database") {
  static readonly layer = Layer.effect(
    Database,
    Effect.gen(function* () {
      const reader = yield* Reader

      /** Dies in requests with `as_of`: only compiled statements can be rewritten to read the past. */
      const read = <A, R>(query: Effect.Effect<A, DatabaseReadError, R>, partition?: string) =>
        Effect.withFiber<A, DataRefreshing | DatabasePoolTimeout, R>((fiber) =>
          fiber.getRef(StatementRewriter) === undefined
            ? reader.query(query, partition ?? fiber.getRef(RequestContext).response.route ?? "")
            : Effect.die(new Error("A request with as_of can run compiled statements only"))
        )

      const readValues = (statement: CompiledStatement, partition?: string) =>
        Effect.withFiber<Rows, DataRefreshing | DatabasePoolTimeout>((fiber) => {
          const rewrite = fiber.getRef(StatementRewriter)
          const options = {
            partition: partition ?? fiber.getRef(RequestContext).response.route ?? "",
            from: fiber.getRef(ReplicaReader) ?? "primary",
          } as const
          return rewrite === undefined
            ? reader.read(statement, options)
            : Effect.flatMap(rewrite(statement), (rewritten) => reader.read(rewritten, options))
        })
      return Database.of({ read, readValues })
    }),
  ).pipe(Layer.provideMerge(Reader.layer))
}
