/** Runs requests with `as_of`: they read the tables as they were at an earlier time (decision 0114). */
import { Array, Context, Effect, Layer } from "effect"
import { ReplicaReader, StatementRewriter } from "../db/Database.ts"
import { setResponseHeaders } from "../http/RequestContext.ts"
import { PastMoment } from "../rules/Dates.ts"
import type { AsOfTooEarly, DatabasePoolTimeout, DataRefreshing, ValidationError } from "../rules/Errors.ts"
import { Moments } from "./Moments.ts"
import { makePastTables } from "./PastTables.ts"

/** Table that every request may read, to resolve symbols to companies. */
const lineageTable = "ticker_changes"

export class AsOf extends Context.Service<AsOf, {
  /** Runs `effect`, which reads the tables as they were at `moment`. Dates such as today are relative to it. */
  readonly readAt: <A, E, R>(
    moment: string,
    tables: ReadonlyArray<string>,
    effect: Effect.Effect<A, E, R>,
  ) => Effect.Effect<A, E | AsOfTooEarly | ValidationError | DataRefreshing | DatabasePoolTimeout, R>
}>()("tickerline/history/AsOf") {
  static readonly layer = Layer.effect(
    AsOf,
    Effect.gen(function* () {
      const { resolve } = yield* Moments
      const makeRewriter = yield* makePastTables

      const readAt = Effect.fnUntraced(function* <A, E, R>(
        moment: string,
        tables: ReadonlyArray<string>,
        effect: Effect.Effect<A, E, R>,
      ) {
        const rewrite = makeRewriter(yield* resolve(moment), Array.dedupe([...tables, lineageTable]))
        yield* setResponseHeaders({ "X-As-Of": moment })
        const rewriteOnPrimary: StatementRewriter = (statement) =>
          rewrite(statement).pipe(
            Effect.provideService(StatementRewriter, undefined),
            Effect.provideService(ReplicaReader, undefined),
          )
        return yield* effect.pipe(
          Effect.provideService(StatementRewriter, rewriteOnPrimary),
          Effect.provideService(PastMoment, moment),
        )
      })
      return AsOf.of({ readAt })
    }),
  ).pipe(Layer.provide(Moments.layer))
}
