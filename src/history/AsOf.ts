/** Runs requests with `as_of`: they read the tables as they were at an earlier time (decision 0114). */
import { Array, Context, Effect, Layer } from "effect"
import { ReplicaReader, StatementRewriter } from "../db/Database.ts"
import { setResponseHeaders } from "../http/RequestContext.ts"
import { AsOfTime } from "../rules/Dates.ts"
import type { AsOfTooEarly, DatabasePoolTimeout, DataRefreshing, ValidationError } from "../rules/Errors.ts"
import { MomentResolver } from "./Moments.ts"
import { makePastStatementRewriters } from "./PastTables.ts"

/** Resolve symbols to companies. Any request may read these tables in addition to its own. */
const lineageTables = ["ticker_changes", "company_symbols"]

export class AsOfReader extends Context.Service<AsOfReader, {
  /** Runs `effect` so that it reads the tables as they were at `moment`, and uses the day of `moment` as today. */
  readonly readAt: <A, E, R>(
    moment: string,
    tables: ReadonlyArray<string>,
    effect: Effect.Effect<A, E, R>,
  ) => Effect.Effect<A, E | AsOfTooEarly | ValidationError | DataRefreshing | DatabasePoolTimeout, R>
}>()("tickerline/history/AsOfReader") {
  static readonly layer = Layer.effect(
    AsOfReader,
    Effect.gen(function* () {
      const { resolve } = yield* MomentResolver
      const makeRewriter = yield* makePastStatementRewriters

      const readAt = Effect.fnUntraced(function* <A, E, R>(
        moment: string,
        tables: ReadonlyArray<string>,
        effect: Effect.Effect<A, E, R>,
      ) {
        const rewrite = makeRewriter(yield* resolve(moment), Array.dedupe([...tables, ...lineageTables]))
        yield* setResponseHeaders({ "X-As-Of": moment })
        const rewriteOnPrimary: StatementRewriter = (statement) =>
          rewrite(statement).pipe(
            Effect.provideService(StatementRewriter, undefined),
            Effect.provideService(ReplicaReader, undefined),
          )
        return yield* effect.pipe(
          Effect.provideService(StatementRewriter, rewriteOnPrimary),
          Effect.provideService(AsOfTime, moment),
        )
      })
      return AsOfReader.of({ readAt })
    }),
  ).pipe(Layer.provide(MomentResolver.layer))
}
